//! The services, as processes of their own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use te_metadata::{MetadataStore, StoreOptions, StoreUri, open_store};
use te_suites::{TempDir, free_port, peer_python, te_bin, wait_for, wait_until};

/// Which service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Etcd,
    Redis,
    /// `te metadata-server`.
    Ours,
    /// Mooncake's `mooncake_http_metadata_server`.
    PeerHttp,
    /// The server inside Mooncake's master.
    PeerMaster,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] =
        [Self::Etcd, Self::Redis, Self::Ours, Self::PeerHttp, Self::PeerMaster];

    /// Whether it can be started here; if not, why.
    pub(crate) fn available(self) -> Result<(), String> {
        match self {
            Self::Etcd if !cfg!(feature = "etcd") => {
                Err("built without feature etcd, which needs protoc".to_owned())
            }
            Self::Etcd => program("etcd").map(drop),
            Self::Redis => program("redis-server").map(drop),
            Self::Ours => {
                let te = te_bin();
                te.exists().then_some(()).ok_or_else(|| format!("{} is not built", te.display()))
            }
            Self::PeerHttp | Self::PeerMaster => self.of_the_peer().map(drop),
        }
    }

    fn of_the_peer(self) -> Result<PathBuf, String> {
        let python = peer_python().ok_or("the peer's package is not installed")?;
        let name = if self == Self::PeerHttp {
            "mooncake_http_metadata_server"
        } else {
            "mooncake_master"
        };
        let path = python.with_file_name(name);
        path.exists().then_some(path).ok_or_else(|| format!("the peer has no {name}"))
    }
}

/// Where a program is, of those that Debian installs.
pub(crate) fn program(name: &str) -> Result<PathBuf, String> {
    let places = ["/usr/bin", "/usr/local/bin", "/bin"];
    let found = places.iter().map(|place| Path::new(place).join(name)).find(|path| path.exists());
    found.ok_or_else(|| format!("{name} is not installed"))
}

/// A running service. It is killed with the value.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) kind: Kind,
    port: u16,
    /// What it is started with, so that it can be started again.
    arguments: Vec<String>,
    folder: Arc<TempDir>,
    child: Option<Child>,
}

impl Service {
    /// Starts one and waits until it answers. Where a port that was free is taken before the service
    /// has it, others are tried.
    #[track_caller]
    pub(crate) fn start(kind: Kind) -> Self {
        let mut service = Self::start_with(kind, &[]);
        for _ in 0..ATTEMPTS {
            if service.is_up() {
                return service;
            }
            service = Self::start_with(kind, &[]);
        }
        panic!("{kind:?} does not start; it says: {}", service.says());
    }

    /// Starts one with more arguments. `{folder}` in them is its folder. Does not wait.
    #[track_caller]
    pub(crate) fn start_with(kind: Kind, more: &[&str]) -> Self {
        let folder = Arc::new(TempDir::new().unwrap());
        Self::start_in(kind, folder, more)
    }

    /// Starts one in a folder that holds what the arguments name.
    #[track_caller]
    pub(crate) fn start_in(kind: Kind, folder: Arc<TempDir>, more: &[&str]) -> Self {
        Self::start_on(kind, folder, free_port("127.0.0.1").unwrap(), more)
    }

    /// Starts one on a port.
    #[track_caller]
    pub(crate) fn start_on(kind: Kind, folder: Arc<TempDir>, port: u16, more: &[&str]) -> Self {
        let mut arguments = arguments(kind, port, &folder.path().display().to_string());
        let path = folder.path().display().to_string();
        arguments.extend(more.iter().map(|text| text.replace("{folder}", &path)));
        let mut service = Self { kind, port, arguments, folder, child: None };
        service.spawn();
        service
    }

    /// Takes away what it kept. For one that is not running.
    pub(crate) fn empty(&self) {
        for kept in ["data", "appendonlydir", "appendonly.aof", "dump.rdb"] {
            let path = self.folder.path().join(kept);
            // Most of them belong to another kind.
            let _ = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
        }
    }

    #[track_caller]
    fn spawn(&mut self) {
        let program = match self.kind {
            Kind::Etcd => program("etcd"),
            Kind::Redis => program("redis-server"),
            Kind::Ours => Ok(te_bin()),
            kind => kind.of_the_peer(),
        };
        let log = File::options().create(true).append(true).open(self.folder.path().join("log"));
        let log = log.unwrap();
        let mut command = Command::new(program.unwrap());
        command.args(&self.arguments).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log).current_dir(self.folder.path());
        self.child = Some(command.spawn().unwrap());
    }

    /// Kills it, as a crash does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it again on its port, with what it kept.
    #[track_caller]
    pub(crate) fn restart(&mut self) {
        self.kill();
        for _ in 0..ATTEMPTS {
            self.spawn();
            if self.is_up() {
                return;
            }
        }
        panic!("{:?} does not start again; it says: {}", self.kind, self.says());
    }

    /// Waits until it answers, or has ended.
    fn is_up(&mut self) -> bool {
        let store = self.store(&StoreOptions::default());
        let state = || {
            let has_ended = self.child.as_mut().is_none_or(|it| it.try_wait().unwrap().is_some());
            if has_ended { Some(false) } else { store.capabilities().is_ok().then_some(true) }
        };
        wait_for(Duration::from_secs(30), state).unwrap_or(false)
    }

    /// Sends a signal by its name, `STOP` or `CONT`; one that is stopped stands when this returns.
    #[track_caller]
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
        if name == "STOP" {
            wait_until(Duration::from_secs(5), "it stands", || is_stopped(&pid).then_some(()));
        }
    }

    #[track_caller]
    pub(crate) fn wait_until_it_answers(&self) {
        let store = self.store(&StoreOptions::default());
        let answers = || store.capabilities().is_ok().then_some(());
        if wait_for(Duration::from_secs(30), answers).is_none() {
            panic!("{:?} does not answer; it says: {}", self.kind, self.says());
        }
    }

    /// The end of its log.
    pub(crate) fn says(&self) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn uri(&self) -> String {
        match self.kind {
            Kind::Etcd => format!("etcd://{}", self.address()),
            Kind::Redis => format!("redis://{}", self.address()),
            Kind::Ours | Kind::PeerHttp | Kind::PeerMaster => {
                format!("http://{}/metadata", self.address())
            }
        }
    }

    pub(crate) fn store(&self, options: &StoreOptions) -> Arc<dyn MetadataStore> {
        open(&self.uri(), options)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill();
    }
}

/// How often a service is started that ends at once.
const ATTEMPTS: usize = 5;

/// Whether every thread of a process is stopped.
fn is_stopped(pid: &str) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    })
}

#[track_caller]
pub(crate) fn open(uri: &str, options: &StoreOptions) -> Arc<dyn MetadataStore> {
    open_store(&StoreUri::parse(uri).unwrap(), options).unwrap()
}

fn arguments(kind: Kind, port: u16, folder: &str) -> Vec<String> {
    let text = match kind {
        Kind::Etcd => {
            let peer = free_port("127.0.0.1").unwrap();
            format!(
                "--data-dir {folder}/data --listen-peer-urls http://127.0.0.1:{peer} \
                 --initial-advertise-peer-urls http://127.0.0.1:{peer} \
                 --initial-cluster default=http://127.0.0.1:{peer} \
                 --listen-client-urls http://127.0.0.1:{port} \
                 --advertise-client-urls http://127.0.0.1:{port}"
            )
        }
        Kind::Redis => format!(
            "--port {port} --bind 127.0.0.1 --dir {folder} --appendonly yes --appendfsync always"
        ),
        Kind::Ours => format!("metadata-server --listen 127.0.0.1:{port} --data {folder}/data"),
        Kind::PeerHttp => format!("--host 127.0.0.1 --port {port}"),
        Kind::PeerMaster => {
            let [rpc, metrics] = [0; 2].map(|_| free_port("127.0.0.1").unwrap());
            format!(
                "--rpc_port={rpc} --metrics_port={metrics} --enable_http_metadata_server=true \
                 --http_metadata_server_host=127.0.0.1 --http_metadata_server_port={port}"
            )
        }
    };
    text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
