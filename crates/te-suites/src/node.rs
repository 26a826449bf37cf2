//! An engine in a process of its own: ours (`te-node`) or the real peer (`peer_node.py`), behind
//! one set of commands, so that a test can put either on either side.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::child::LineChild;
use crate::environment;
use crate::netns::Netns;

/// Which engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Ours.
    Te,
    /// The published wheel.
    Peer,
}

impl Kind {
    /// Its word in printed rows.
    pub fn word(self) -> &'static str {
        match self {
            Self::Te => "te",
            Self::Peer => "peer",
        }
    }

    /// Whether it can run here.
    ///
    /// # Errors
    /// A sentence with what is missing; it is the reason for a skip.
    pub fn available(self) -> Result<(), String> {
        match self {
            Self::Te if environment::te_node().exists() => Ok(()),
            Self::Te => Err("te-node is not built (cargo build -p te-suites --bin te-node)".into()),
            Self::Peer if environment::peer_python().is_some() => Ok(()),
            Self::Peer => Err("TE_PEER_PYTHON names no Python with the real peer's wheel".into()),
        }
    }
}

/// How to start a node.
#[derive(Debug, Clone)]
pub struct NodeSpec {
    kind: Kind,
    args: Vec<String>,
    envs: Vec<(String, String)>,
    prefix: Vec<String>,
    /// Over RDMA instead of TCP.
    is_rdma: bool,
}

impl NodeSpec {
    /// A node with a registered buffer of `size` bytes (0: none), listening on 127.0.0.1.
    pub fn new(kind: Kind, size: u64) -> Self {
        let args = vec!["--size".to_owned(), size.to_string()];
        Self { kind, args, envs: Vec::new(), prefix: Vec::new(), is_rdma: false }
    }

    /// Listens on, and is named by, this host.
    #[must_use]
    pub fn host(self, host: &str) -> Self {
        self.arg("--host").arg(host)
    }

    /// Takes this handshake port: a node of ours that starts again under its name.
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        self.arg("--port").arg(&port.to_string())
    }

    /// Its buffer is a mapping of this file, which keeps the bytes when the process is gone.
    #[must_use]
    pub fn file(self, path: &Path) -> Self {
        self.arg("--file").arg(&path.display().to_string())
    }

    /// A node of ours whose name is a key of this metadata service.
    #[must_use]
    pub fn metadata(self, uri: &str) -> Self {
        self.arg("--metadata").arg(uri)
    }

    /// A node of ours with so many engines besides its own, named NAME-1, NAME-2 and so on.
    #[must_use]
    pub fn with_more(self, n: u64) -> Self {
        self.arg("--more").arg(&n.to_string())
    }

    /// One more word on its command line.
    #[must_use]
    pub fn arg(mut self, word: &str) -> Self {
        self.args.push(word.to_owned());
        self
    }

    /// One variable in its environment.
    #[must_use]
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.envs.push((key.to_owned(), value.to_owned()));
        self
    }

    /// A node of ours that moves bytes over these devices, separated by commas, and over nothing else.
    /// Its NICs give up, which those in software otherwise do not.
    #[must_use]
    pub fn rdma(mut self, devices: &str) -> Self {
        self.is_rdma = true;
        self.env("TE_TRANSPORTS", "rdma").env("TE_FILTERS", devices).env("TE_RDMA_RETRIES", "6")
    }

    /// Runs it inside a network namespace.
    #[must_use]
    pub fn within(mut self, netns: &Netns) -> Self {
        self.prefix.extend(netns.prefix());
        self
    }

    /// Its buffer starts at this address, so that its successor's can lie where its own was.
    #[must_use]
    pub fn at(self, address: u64) -> Self {
        self.arg("--at").arg(&address.to_string())
    }

    /// Runs it through another program, which must replace itself by it.
    #[must_use]
    pub fn through(mut self, words: &[&str]) -> Self {
        self.prefix.extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    /// Runs it on one processor only.
    #[must_use]
    pub fn on_cpu(mut self, cpu: usize) -> Self {
        self.prefix.extend(["taskset", "-c", &cpu.to_string()].map(str::to_owned));
        self
    }

    /// Starts it and waits for its first line.
    ///
    /// # Panics
    /// When it does not start within a minute.
    #[track_caller]
    pub fn start(&self) -> Node {
        self.launch().ready()
    }

    /// Starts it and does not wait: for many at once, and for those that are meant to fail.
    ///
    /// # Panics
    /// When the program cannot be run at all.
    #[track_caller]
    pub fn launch(&self) -> Launched {
        let child = LineChild::start(self.kind.word(), self.command());
        Launched { kind: self.kind, child }
    }

    fn command(&self) -> Command {
        let mut words = self.prefix.clone();
        words.extend(self.program().into_iter().map(|path| path.display().to_string()));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(&self.args);
        // Settings of the person who runs the suite must not change what is tested.
        let foreign = std::env::vars_os().map(|(key, _)| key);
        for key in foreign.filter(|key| key.to_string_lossy().starts_with("MC_")) {
            command.env_remove(key);
        }
        if !self.is_rdma {
            command.env("MC_FORCE_TCP", "1");
        }
        command.envs(self.envs.iter().map(|(key, value)| (key, value)));
        command
    }

    fn program(&self) -> Vec<PathBuf> {
        match self.kind {
            Kind::Te => vec![environment::te_node()],
            Kind::Peer => {
                let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
                let python = environment::peer_python().unwrap_or_else(|| "python3".into());
                vec![python, here.join("python/peer_node.py")]
            }
        }
    }
}

/// A node that was started and has not said its first line.
#[derive(Debug)]
pub struct Launched {
    kind: Kind,
    child: LineChild,
}

impl Launched {
    /// Waits for the node.
    ///
    /// # Panics
    /// When it does not start within a minute.
    #[track_caller]
    pub fn ready(self) -> Node {
        self.outcome().unwrap_or_else(|(why, _)| panic!("no node: {why}"))
    }

    /// Waits for the node, or for the reason why it did not start, with its exit code (`None` when
    /// a signal ended it).
    ///
    /// # Errors
    /// That reason.
    pub fn outcome(mut self) -> Result<Node, (String, Option<i32>)> {
        const START: Duration = Duration::from_secs(60);
        let hello = match self.child.receive(START) {
            Ok(hello) => hello,
            Err(why) => return Err((why, self.exit_code())),
        };
        if let Some(error) = hello["error"].as_str() {
            return Err((error.to_owned(), self.exit_code()));
        }
        Ok(Node { kind: self.kind, child: self.child, hello })
    }

    fn exit_code(&mut self) -> Option<i32> {
        self.child.wait(Duration::from_secs(10))?.code()
    }
}

/// A running node. Calls panic when the node dies or is silent beyond a deadline; what the engine
/// in it answers is a value.
#[derive(Debug)]
pub struct Node {
    kind: Kind,
    child: LineChild,
    hello: Value,
}

/// How long an ordinary command may take.
const ANSWER: Duration = Duration::from_secs(60);

impl Node {
    /// Which engine it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The name by which others open its segment.
    pub fn name(&self) -> &str {
        self.hello["name"].as_str().unwrap_or_default()
    }

    /// What its first line tells under a key.
    pub fn hello(&self, key: &str) -> &Value {
        &self.hello[key]
    }

    /// The first byte of its buffer.
    pub fn addr(&self) -> u64 {
        self.hello["addr"].as_u64().unwrap_or_default()
    }

    /// Where an address lies, counted from the first byte of its buffer; commands on bytes take
    /// any place of the process that is named so.
    pub fn off(&self, addr: u64) -> u64 {
        addr.wrapping_sub(self.addr())
    }

    /// Its handshake port.
    pub fn rpc_port(&self) -> u16 {
        self.hello["rpc_port"].as_u64().and_then(|port| port.try_into().ok()).unwrap_or_default()
    }

    /// Its process. A node started inside a namespace or on one processor is that process too: the
    /// programs in front of it replace themselves.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// The process: signals, its end, its error stream.
    pub fn child(&mut self) -> &mut LineChild {
        &mut self.child
    }

    /// Whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        self.child.status().is_none()
    }

    /// Sends a command without waiting.
    pub fn send(&mut self, command: &Value) {
        self.child.send(command);
    }

    /// The answer to a command sent before.
    ///
    /// # Panics
    /// When it dies, is silent for `limit`, or does not know the command.
    #[track_caller]
    pub fn receive(&mut self, limit: Duration) -> Answer {
        match self.child.receive(limit) {
            Ok(answer) => Answer::new(answer),
            Err(why) => panic!("{why}"),
        }
    }

    /// A command and its answer, within a minute.
    ///
    /// # Panics
    /// As [`receive`](Self::receive).
    #[track_caller]
    pub fn ask(&mut self, command: &Value) -> Answer {
        self.ask_within(command, ANSWER)
    }

    /// A command and its answer.
    ///
    /// # Panics
    /// As [`receive`](Self::receive).
    #[track_caller]
    pub fn ask_within(&mut self, command: &Value, limit: Duration) -> Answer {
        self.send(command);
        self.receive(limit)
    }

    /// Asks it to end, and waits for that.
    ///
    /// # Panics
    /// When it does not end within ten seconds, or not with exit code 0.
    #[track_caller]
    pub fn quit(mut self) {
        self.child.send(&json!({ "op": "quit" }));
        self.child.hang_up();
        let status = self.child.wait(Duration::from_secs(10));
        let ended = status.and_then(|status| status.code());
        assert_eq!(
            ended,
            Some(0),
            "{} ended with {status:?}\n{}",
            self.name(),
            self.child.errors()
        );
    }
}

/// What a node answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer(Value);

impl Answer {
    #[track_caller]
    fn new(value: Value) -> Self {
        let error = value["error"].as_str().unwrap_or_default();
        assert!(!error.starts_with("no command"), "{error}");
        Self(value)
    }

    /// The return code: 0 is success.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn rc(&self) -> i64 {
        self.0["rc"].as_i64().unwrap_or_else(|| panic!("no return code in {}", self.0))
    }

    /// Whether the return code is 0.
    ///
    /// # Panics
    /// When there is no return code.
    #[track_caller]
    pub fn is_ok(&self) -> bool {
        self.rc() == 0
    }

    /// Asserts success.
    ///
    /// # Panics
    /// Otherwise, with the whole answer.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert!(self.is_ok(), "{}", self.0);
        self
    }

    /// Asserts failure and gives the text of the error (empty from the peer, which has none).
    ///
    /// # Panics
    /// On success.
    #[track_caller]
    pub fn refused(&self) -> &str {
        assert!(!self.is_ok(), "went through: {}", self.0);
        self.0["error"].as_str().unwrap_or_default()
    }

    /// How long the call took inside the node.
    pub fn took(&self) -> Duration {
        Duration::from_secs_f64(self.0["s"].as_f64().unwrap_or_default())
    }

    /// A number.
    ///
    /// # Panics
    /// When it is not there.
    #[track_caller]
    pub fn number(&self, key: &str) -> u64 {
        self.0[key].as_u64().unwrap_or_else(|| panic!("no number `{key}` in {}", self.0))
    }

    /// Any value; null when it is not there.
    pub fn value(&self, key: &str) -> &Value {
        &self.0[key]
    }
}
