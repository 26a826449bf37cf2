//! What went wrong, as one line and an exit code.
//!
//! The line says what was being done, with whom, how far it came, why it failed, and what to try.
//! Text that came from a peer is made printable, so that the line stays one line.

use std::fmt;
use std::io::{self, Write};

use te_engine::{
    BuildError, ConfigError, FaultClass, OpenError, PeerError, Phase, RegionError, RemoteSide,
    ResolveError, TaskFault, TaskState, TransferStatus,
};

use crate::units::{printable, shown_time};

/// The kind of failure; its number is the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Failure {
    /// The transfer, or something without a number of its own.
    Other = 1,
    /// The command line.
    Usage = 2,
    /// The configuration.
    Config = 3,
    /// The peer cannot be reached, or does not know the segment.
    Unreachable = 4,
    /// The peer refused.
    Refused = 5,
    /// Bytes are not what they should be.
    Differs = 6,
    /// A local file, memory or port.
    Local = 7,
    /// The time ran out.
    TimedOut = 8,
    /// The reader of standard output is gone. Nothing is said about it: 128 + SIGPIPE, as other
    /// programs end then.
    BrokenPipe = 141,
}

/// One failure.
#[derive(Debug)]
pub(crate) struct CliError(Box<Facts>);

#[derive(Debug)]
struct Facts {
    failure: Failure,
    /// What was being done, without the peer.
    action: String,
    peer: Option<String>,
    phase: Option<String>,
    cause: String,
    hint: Option<String>,
}

impl CliError {
    pub(crate) fn new(
        failure: Failure,
        action: impl Into<String>,
        cause: impl fmt::Display,
    ) -> Self {
        let (action, cause) = (action.into(), cause.to_string());
        Self(Box::new(Facts { failure, action, peer: None, phase: None, cause, hint: None }))
    }

    pub(crate) fn with_peer(mut self, peer: impl Into<String>) -> Self {
        self.0.peer = Some(peer.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Says with whom, where a part that knows no peer found that bytes differ.
    pub(crate) fn of_transfer(mut self, action: &str, peer: &str) -> Self {
        if self.0.failure == Failure::Differs {
            self.0.action = action.to_owned();
            self.0.peer = Some(peer.to_owned());
        }
        self
    }

    /// What had been done before.
    pub(crate) fn after(mut self, done: &str) -> Self {
        self.0.cause = format!("{}, after {done} were done", self.0.cause);
        self
    }

    fn phase(mut self, phase: impl fmt::Display) -> Self {
        self.0.phase = Some(phase.to_string());
        self
    }

    pub(crate) fn exit_code(&self) -> u8 {
        self.0.failure as u8
    }

    /// Writes the line to standard error; where that is gone too, nobody is left to tell.
    pub(crate) fn report(&self) {
        if self.0.failure != Failure::BrokenPipe {
            let _ = writeln!(io::stderr(), "te: {}", printable(&self.to_string()));
        }
    }

    /// Standard output cannot be written.
    pub(crate) fn output(cause: &io::Error) -> Self {
        match cause.kind() {
            io::ErrorKind::BrokenPipe => Self::new(Failure::BrokenPipe, "output", "reader is gone"),
            _ => Self::new(Failure::Local, "cannot write standard output", system_text(cause)),
        }
    }

    /// A local file.
    pub(crate) fn file(action: &str, path: &std::path::Path, cause: &io::Error) -> Self {
        Self::new(Failure::Local, format!("{action} {}", path.display()), system_text(cause))
    }

    pub(crate) fn config(error: &ConfigError) -> Self {
        if let ConfigError::Unreadable { path, cause } = error {
            let action = format!("cannot read configuration {}", path.display());
            return Self::new(Failure::Config, action, system_text(cause));
        }
        let hint = "`te config --markdown` lists all settings";
        Self::new(Failure::Config, "configuration", chain(error)).hint(hint)
    }

    pub(crate) fn build(error: &BuildError) -> Self {
        let failure = match error {
            BuildError::UnknownScheme { .. }
            | BuildError::Metadata { .. }
            | BuildError::LocalName { .. } => Failure::Usage,
            _ => Failure::Local,
        };
        let told = Self::new(failure, "cannot start the engine", chain(error));
        match error {
            BuildError::NoRdma { .. } => told.hint("`te topo` shows devices, ports and GIDs"),
            BuildError::NoSuchNic { .. } => told.hint("MC_FORCE_TCP=1 does without RDMA"),
            _ => told,
        }
    }

    pub(crate) fn memory(len: u64, error: &RegionError) -> Self {
        let action = format!("cannot allocate {}", crate::units::length(len));
        Self::new(Failure::Local, action, chain(error)).hint("a smaller --size or --chunk may do")
    }

    /// A segment that cannot be opened.
    pub(crate) fn open(action: &str, name: &str, error: &OpenError) -> Self {
        match error {
            OpenError::Resolve { cause, .. } => Self::resolve(action, name, cause),
            OpenError::Name { reason, .. } => Self::new(Failure::Usage, action, reason)
                .with_peer(name)
                .hint("a segment's name is host:port, as `te serve` prints it"),
            other => Self::new(Failure::TimedOut, action, other).with_peer(name),
        }
    }

    fn resolve(action: &str, name: &str, error: &ResolveError) -> Self {
        let failed = |failure| Self::new(failure, action, chain(error)).with_peer(name);
        match error {
            ResolveError::Peer { source, .. } => Self::peer(action, name, source),
            ResolveError::NotFound { .. } => Self::new(Failure::Unreachable, action, "not known")
                .with_peer(name)
                .hint("nobody publishes this name"),
            ResolveError::BadAddress { .. } => failed(Failure::Usage)
                .hint("a segment's name is host:port, as `te serve` prints it"),
            ResolveError::Malformed { .. } => failed(Failure::Other)
                .hint("what listens there may be no transfer engine, or a newer one"),
            _ => failed(Failure::Other),
        }
    }

    /// An exchange with a peer's handshake port.
    pub(crate) fn peer(action: &str, name: &str, error: &PeerError) -> Self {
        let failure = match error {
            PeerError::Refused { .. } => Failure::Refused,
            PeerError::TimedOut { .. } => Failure::TimedOut,
            PeerError::Resolve { .. } | PeerError::Io { .. } | PeerError::Closed { .. } => {
                Failure::Unreachable
            }
            _ => Failure::Other,
        };
        let cause = match error {
            PeerError::Resolve { source, .. } | PeerError::Io { source, .. } => system_text(source),
            PeerError::TimedOut { after, .. } => format!("no answer within {}", shown_time(*after)),
            PeerError::Refused { reason, .. } => reason.clone(),
            PeerError::Closed { .. } => "the connection was closed without an answer".to_owned(),
            other => chain(other),
        };
        let made = Self::new(failure, action, cause).with_peer(name).hint(peer_hint(error));
        match error.phase() {
            Some(phase) => made.phase(phase),
            None => made,
        }
    }

    /// A task that did not complete.
    pub(crate) fn task(action: &str, name: &str, status: &TransferStatus) -> Self {
        let (failure, cause) = match &status.fault {
            _ if status.state == TaskState::Timeout => {
                (Failure::TimedOut, "the time ran out".into())
            }
            Some(fault) => (failure_of(fault), fault_text(fault)),
            None => (Failure::Other, format!("ended as {:?}", status.state).to_lowercase()),
        };
        let made = Self::new(failure, action, doubted(cause, status.remote)).with_peer(name);
        let made = match status.fault.as_ref().map(|fault| fault.fault.phase) {
            Some(phase) => made.phase(phase),
            None => made,
        };
        match task_hint(failure, status, name) {
            Some(hint) => made.hint(hint),
            None => made,
        }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.action)?;
        if let Some(peer) = &self.0.peer {
            write!(f, " {peer}")?;
        }
        if let Some(phase) = &self.0.phase {
            write!(f, ": {phase} failed")?;
        }
        write!(f, ": {}", self.0.cause)?;
        match &self.0.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// An error and its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let part = cause.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        next = cause.source();
    }
    text
}

/// What the system said, without its number and in our case.
pub(crate) fn system_text(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    match letters.next() {
        // A word in capitals is a name.
        Some(first) if !letters.as_str().starts_with(char::is_uppercase) => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text.to_owned(),
    }
}

fn peer_hint(error: &PeerError) -> &'static str {
    match error {
        PeerError::Resolve { .. } => "check the host in the name",
        PeerError::Io { .. } => "is it running there? `te serve` prints its name when it starts",
        PeerError::TimedOut { .. } => "it may be stopped or behind a firewall",
        PeerError::Refused { .. } => "see its log",
        _ => "what listens there may be no transfer engine; check the port",
    }
}

fn failure_of(fault: &TaskFault) -> Failure {
    match fault.fault.class {
        FaultClass::Refused => Failure::Refused,
        FaultClass::Local => Failure::Local,
        FaultClass::Rail | FaultClass::Peer => match fault.fault.phase {
            Phase::Metadata | Phase::Connect | Phase::Handshake => Failure::Unreachable,
            _ => Failure::Other,
        },
        _ => Failure::Other,
    }
}

fn fault_text(fault: &TaskFault) -> String {
    let inner = &fault.fault;
    let mut text = inner.cause.to_string();
    if let Some(number) = inner.errno {
        let said = system_text(&io::Error::from_raw_os_error(number));
        if !text.contains(&said) {
            text = format!("{text} ({said})");
        }
    }
    if let Some(address) = inner.address {
        text = format!("{text}, at {address}");
    }
    match fault.attempts {
        0 | 1 => text,
        attempts => format!("{text}, after {attempts} attempts"),
    }
}

fn doubted(cause: String, remote: RemoteSide) -> String {
    match remote {
        RemoteSide::InDoubt => format!("{cause} (the peer's memory may have changed)"),
        _ => cause,
    }
}

fn task_hint(failure: Failure, status: &TransferStatus, name: &str) -> Option<String> {
    let hint = match failure {
        Failure::Refused => format!("`te segment {name}` shows what it exposes"),
        Failure::TimedOut => {
            format!("`te probe {name}` asks whether it lives; --timeout gives more")
        }
        Failure::Unreachable => format!("`te probe {name}` asks whether it lives"),
        Failure::Other if status.fault.is_some() => {
            format!("`te probe {name}` asks whether it still lives")
        }
        _ => return None,
    };
    Some(hint)
}

#[cfg(test)]
mod tests;
