//! A process of the published peer, whose memory is a file that we see too.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use te_suites::{Direction, LineChild, TempDir, peer_python};

/// How long a call may take; the peer's own limit for one is 30 s.
const CALL: Duration = Duration::from_secs(90);

/// How to start one.
#[derive(Debug, Clone, Default)]
pub(crate) struct WheelSpec {
    /// Its devices, separated by commas; empty for all.
    pub(crate) devices: String,
    /// Bytes of its buffer.
    pub(crate) size: u64,
    /// More variables.
    pub(crate) envs: Vec<(&'static str, String)>,
    /// More words.
    pub(crate) words: Vec<String>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Wheel {
    child: LineChild,
    name: String,
    address: u64,
    file: File,
    size: u64,
    _folder: TempDir,
}

/// Whether it can be run here, or what is missing.
pub(crate) fn available() -> Result<(), String> {
    let missing = "TE_PEER_PYTHON names no Python with the real peer's wheel";
    peer_python().map(|_| ()).ok_or_else(|| missing.to_owned())
}

impl WheelSpec {
    /// With these devices and so many bytes.
    pub(crate) fn new(devices: &str, size: u64) -> Self {
        Self { devices: devices.to_owned(), size, ..Self::default() }
    }

    /// With a variable.
    pub(crate) fn env(mut self, key: &'static str, value: &str) -> Self {
        self.envs.push((key, value.to_owned()));
        self
    }

    /// At this handshake port.
    pub(crate) fn port(self, port: u16) -> Self {
        let port = port.to_string();
        self.env("MC_MIN_RPC_PORT", &port)
            .env("MC_MAX_RPC_PORT", &port)
            .env("MC_MIN_PRC_PORT", &port)
            .env("MC_MAX_PRC_PORT", &port)
    }

    /// Starts it and waits for its first line.
    #[track_caller]
    pub(crate) fn start(&self) -> Wheel {
        self.try_start().unwrap_or_else(|why| panic!("the peer did not start: {why}"))
    }

    pub(crate) fn try_start(&self) -> Result<Wheel, String> {
        let folder = TempDir::in_memory().map_err(|error| error.to_string())?;
        let path = folder.path().join("memory");
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(|error| error.to_string())?;
        file.set_len(self.size).map_err(|error| error.to_string())?;
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("python/wheel_node.py");
        let mut command = Command::new(peer_python().unwrap_or_else(|| "python3".into()));
        command.arg(script).arg("--file").arg(&path);
        command.args(["--size", &self.size.to_string(), "--devices", &self.devices]);
        command.args(&self.words);
        command.envs(self.envs.iter().map(|(key, value)| (key, value)));
        let mut child = LineChild::start("the peer", command);
        let hello = child.receive(Duration::from_secs(120))?;
        if let Some(error) = hello["error"].as_str() {
            return Err(format!("{error}: {hello}"));
        }
        let name = hello["name"].as_str().unwrap_or_default().to_owned();
        let address = hello["addr"].as_u64().unwrap_or_default();
        Ok(Wheel { child, name, address, file, size: self.size, _folder: folder })
    }
}

impl Wheel {
    /// The name by which its segment is opened.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its handshake port.
    pub(crate) fn port(&self) -> u16 {
        let port = self.name.rsplit(':').next().and_then(|port| port.parse().ok());
        port.unwrap_or_default()
    }

    /// The first byte of its buffer.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// The process.
    pub(crate) fn child(&mut self) -> &mut LineChild {
        &mut self.child
    }

    /// Bytes of its buffer.
    #[track_caller]
    pub(crate) fn bytes(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, offset).expect("they are in the buffer");
        bytes
    }

    /// Sets bytes of its buffer.
    #[track_caller]
    pub(crate) fn put(&self, offset: u64, bytes: &[u8]) {
        assert!(offset + bytes.len() as u64 <= self.size, "beyond the buffer");
        self.file.write_all_at(bytes, offset).expect("they are in the buffer");
    }

    /// A call, not waited for.
    pub(crate) fn send(&mut self, command: &Value) {
        self.child.send(command);
    }

    /// The return code of a call.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> i64 {
        let answer = self.child.receive(CALL).unwrap_or_else(|why| panic!("{why}"));
        answer["rc"].as_i64().unwrap_or_else(|| panic!("no return code in {answer}"))
    }

    #[track_caller]
    fn ask(&mut self, command: &Value) -> i64 {
        self.send(command);
        self.answer()
    }

    /// The command for a transfer between `offset` of its buffer and `to` of a target.
    pub(crate) fn command(
        &self,
        direction: Direction,
        target: &str,
        (offset, to): (u64, u64),
        len: u64,
    ) -> Value {
        let src = self.address + offset;
        json!({ "op": direction.word(), "target": target, "src": src, "dst": to, "len": len })
    }

    /// A transfer between `offset` of its buffer and `to` of a target; its return code.
    #[track_caller]
    pub(crate) fn transfer(
        &mut self,
        direction: Direction,
        target: &str,
        ends: (u64, u64),
        len: u64,
    ) -> i64 {
        let command = self.command(direction, target, ends, len);
        self.ask(&command)
    }

    /// A batch of transfers: offsets of its buffer, addresses of the target, lengths.
    #[track_caller]
    pub(crate) fn batch(
        &mut self,
        direction: Direction,
        target: &str,
        parts: &[(u64, u64, u64)],
    ) -> i64 {
        let list = |f: &dyn Fn(&(u64, u64, u64)) -> u64| parts.iter().map(f).collect::<Vec<_>>();
        let command = json!({
            "op": format!("batch_{}", direction.word()), "target": target,
            "src": list(&|part| self.address + part.0), "dst": list(&|part| part.1),
            "len": list(&|part| part.2),
        });
        self.ask(&command)
    }

    /// Whether it lives and answers.
    #[track_caller]
    pub(crate) fn lives(&mut self) {
        assert_eq!(self.ask(&json!({ "op": "ping" })), 0);
    }

    /// Ends it in an orderly way.
    #[track_caller]
    pub(crate) fn quit(mut self) {
        self.child.send(&json!({ "op": "quit" }));
        let status = self.child.wait(Duration::from_secs(20));
        assert!(status.is_some_and(|status| status.success()), "{status:?}");
    }
}
