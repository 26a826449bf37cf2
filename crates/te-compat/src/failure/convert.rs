//! From the engine's errors to failures: each kind gets its number, its phase and its peer.

use std::error::Error as StdError;
use std::io;

use te_engine::{
    AllocationError, BatchError, BuildError, CopyError, EngineError, FaultClass, Opcode, OpenError,
    PeerError, Phase, RangeError, RegionError, RegisterError, ResolveError, SubmitError, TaskFault,
    TransferError, UnregisterError, WaitError,
};
use te_metadata::PeerPhase;

use crate::code::Code;
use crate::failure::{Failure, LocalState};

/// An error and its causes as one line.
pub(crate) fn chain(error: &dyn StdError) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}

/// The phase of a transfer as a word.
fn step(phase: Phase) -> &'static str {
    match phase {
        Phase::Queue => "queue",
        Phase::Metadata => "metadata",
        Phase::Connect => "connect",
        Phase::Handshake => "handshake",
        Phase::Request => "request",
        Phase::Payload => "payload",
        Phase::Status => "status",
    }
}

/// What the local memory of tasks is, given how many are in quarantine.
fn quarantined(is_quarantined: bool) -> LocalState {
    if is_quarantined { LocalState::Quarantined } else { LocalState::Free }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        let code = match &error {
            BuildError::Publish(_)
            | BuildError::NameTaken { .. }
            | BuildError::PublishTimedOut { .. } => Code::Metadata,
            BuildError::Listen { .. } => Code::Socket,
            BuildError::NoRdma { .. } | BuildError::NoSuchNic { .. } => Code::DeviceNotFound,
            _ => Code::InvalidArgument,
        };
        Self::new(code, "build", chain(&error))
    }
}

impl From<RegionError> for Failure {
    fn from(error: RegionError) -> Self {
        let code = match error {
            RegionError::NoMemory { .. } => Code::Memory,
            _ => Code::InvalidArgument,
        };
        Self::new(code, "memory", chain(&error))
    }
}

impl From<RangeError> for Failure {
    fn from(error: RangeError) -> Self {
        Self::invalid("memory", error.to_string())
    }
}

impl From<AllocationError> for Failure {
    fn from(error: AllocationError) -> Self {
        let code = match error {
            AllocationError::Length(_) | AllocationError::HugeShareable => Code::InvalidArgument,
            _ => Code::Memory,
        };
        Self::new(code, "memory", chain(&error))
    }
}

impl From<CopyError> for Failure {
    fn from(error: CopyError) -> Self {
        Self::new(Code::Memory, "memory", chain(&error))
    }
}

/// An engine that cannot serve a call is closed, or belongs to another process.
fn unavailable(reason: &'static str) -> Failure {
    if reason.contains("forked") { Failure::forked() } else { Failure::invalid("closed", reason) }
}

impl From<RegisterError> for Failure {
    fn from(error: RegisterError) -> Self {
        if let RegisterError::Unavailable { reason } = error {
            return unavailable(reason);
        }
        let code = match &error {
            RegisterError::Overlap { .. }
            | RegisterError::OptionsDiffer { .. }
            | RegisterError::Changing { .. }
            | RegisterError::Closing { .. } => Code::AddressOverlapped,
            _ => Code::InvalidArgument,
        };
        let is_retryable = error.is_retryable();
        Self::new(code, "register", chain(&error)).edit(|facts| facts.is_retryable = is_retryable)
    }
}

impl From<UnregisterError> for Failure {
    fn from(error: UnregisterError) -> Self {
        if let UnregisterError::Unavailable { reason } = error {
            return unavailable(reason);
        }
        let code = match &error {
            UnregisterError::NotRegistered { .. } => Code::AddressNotRegistered,
            UnregisterError::Busy { .. } => Code::Busy,
            _ => Code::InvalidArgument,
        };
        Self::new(code, "unregister", chain(&error)).edit(|facts| {
            if code == Code::Busy {
                facts.local = LocalState::InUse;
                facts.is_retryable = true;
            }
        })
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let cause = chain(&error);
        match &error {
            OpenError::Name { name, .. } => Self::invalid("open", cause).with_peer(name),
            OpenError::Resolve { name, cause: resolve } => {
                Self::new(resolve_code(resolve), "open", cause).with_peer(name).edit(|facts| {
                    facts.is_retryable = resolve.is_retryable();
                    facts.is_timeout = is_resolve_timeout(resolve);
                })
            }
            OpenError::TimedOut { name, .. } => {
                Self::new(Code::Clock, "open", cause).with_peer(name)
            }
            OpenError::Forked => Self::forked(),
            OpenError::Closed => Self::invalid("closed", cause),
            _ => Self::invalid("open", cause),
        }
    }
}

fn resolve_code(error: &ResolveError) -> Code {
    match error {
        ResolveError::Peer { source, .. } => peer_code(source),
        ResolveError::Malformed { .. } => Code::Malformed,
        ResolveError::NotSupported { .. } => Code::NotSupportedTransport,
        _ => Code::Metadata,
    }
}

fn is_resolve_timeout(error: &ResolveError) -> bool {
    matches!(error, ResolveError::Peer { source, .. } if source.is_timeout())
}

fn peer_code(error: &PeerError) -> Code {
    match error {
        PeerError::Resolve { .. } => Code::Dns,
        PeerError::Frame { .. } | PeerError::WrongType { .. } | PeerError::Malformed { .. } => {
            Code::Malformed
        }
        PeerError::Refused { .. } => Code::Rejected,
        PeerError::Full { .. } => Code::TooManyRequests,
        PeerError::QuestionTooLong { .. } => Code::InvalidArgument,
        _ => Code::Socket,
    }
}

fn peer_step(error: &PeerError) -> &'static str {
    match error.phase() {
        Some(PeerPhase::Resolve) => "resolve",
        Some(PeerPhase::Connect) => "connect",
        Some(PeerPhase::Send) => "request",
        _ => "status",
    }
}

impl From<Box<PeerError>> for Failure {
    fn from(error: Box<PeerError>) -> Self {
        Self::from(*error)
    }
}

impl From<PeerError> for Failure {
    fn from(error: PeerError) -> Self {
        let peer = error.peer().to_string();
        let made = Self::new(peer_code(&error), peer_step(&error), chain(&error));
        made.with_peer(&peer).edit(|facts| {
            facts.is_retryable = error.is_retryable();
            facts.is_timeout = error.is_timeout();
        })
    }
}

impl From<BatchError> for Failure {
    fn from(error: BatchError) -> Self {
        let code = match &error {
            BatchError::Busy { .. } => Code::Busy,
            BatchError::Full { .. } | BatchError::TooMany => Code::TooManyRequests,
            BatchError::Forked => return Self::forked(),
            _ => Code::InvalidArgument,
        };
        Self::new(code, "batch", error.to_string()).edit(|facts| {
            if code == Code::Busy {
                facts.local = LocalState::InUse;
                facts.is_retryable = true;
            }
        })
    }
}

impl From<SubmitError> for Failure {
    fn from(error: SubmitError) -> Self {
        let cause = chain(&error);
        let invalid = |cause, index| Self::invalid("submit", cause).with_index(index);
        match error {
            SubmitError::Batch(error) => Self::from(error),
            SubmitError::NoTransport { index, peer, .. } => {
                Self::new(Code::NotSupportedTransport, "submit", cause)
                    .with_peer(&peer)
                    .with_index(index)
            }
            SubmitError::UnknownSegment { index, .. } | SubmitError::Range { index, .. } => {
                invalid(cause, index)
            }
            SubmitError::LocalClosing { index, .. } => {
                Self::new(Code::AddressNotRegistered, "submit", cause).with_index(index)
            }
            SubmitError::Overloaded { .. } => Self::new(Code::TooManyRequests, "submit", cause)
                .edit(|facts| facts.is_retryable = true),
            SubmitError::Closed => Self::invalid("closed", cause),
            _ => Self::invalid("submit", cause),
        }
    }
}

impl From<WaitError> for Failure {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::Batch(error) => Self::from(error),
            other => Self::new(Code::Clock, "wait", other.to_string())
                .edit(|facts| facts.local = LocalState::InUse),
        }
    }
}

impl From<&TaskFault> for Failure {
    fn from(task: &TaskFault) -> Self {
        // Nothing tried it: its local memory was not there when it was submitted.
        let is_refused = task.attempts == 0 && task.fault.class == FaultClass::Local;
        let code = match task.fault.class {
            FaultClass::Rail | FaultClass::Peer => Code::Socket,
            FaultClass::Refused => Code::AddressNotRegistered,
            FaultClass::Local if is_refused => Code::InvalidArgument,
            FaultClass::Local => Code::Memory,
            FaultClass::Protocol | FaultClass::Corrupt => Code::Malformed,
            FaultClass::Cancelled | FaultClass::Closed => Code::InvalidArgument,
        };
        let phase = if is_refused { "memory" } else { step(task.fault.phase) };
        let made = Self::new(code, phase, told(task));
        made.with_peer(&task.peer).with_index(task.index).edit(|facts| {
            facts.attempts = task.attempts;
            facts.local = quarantined(task.quarantined);
            facts.is_retryable = task.fault.class.is_retryable();
        })
    }
}

/// What happened to a request, without phase and peer, which stand apart.
fn told(task: &TaskFault) -> String {
    let op = match task.op {
        Opcode::Read => "read",
        Opcode::Write => "write",
    };
    let fault = &task.fault;
    let at = fault.address.map(|address| format!(" with {address}")).unwrap_or_default();
    let errno = fault.errno.map(|number| format!(" ({})", io::Error::from_raw_os_error(number)));
    let tried =
        if task.attempts > 1 { format!(", attempt {}", task.attempts) } else { String::new() };
    let errno = errno.unwrap_or_default();
    format!("request {} ({op}){at}: {}{errno}{tried}", task.index, fault.cause)
}

impl From<TaskFault> for Failure {
    fn from(task: TaskFault) -> Self {
        Self::from(&task)
    }
}

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Submit(error) => Self::from(error),
            TransferError::Wait(error) => Self::from(error),
            TransferError::Failed { failed, total, first } => {
                // Nobody but its own limit calls a synchronous transfer back.
                let is_late = first.fault.class == FaultClass::Cancelled;
                let made = Self::from(&*first).edit(|facts| {
                    if is_late {
                        (facts.code, facts.is_timeout) = (Code::Clock, true);
                    }
                });
                made.among(failed, total)
            }
            other => Self::invalid("transfer", chain(&other)),
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Build(error) => Self::from(error),
            EngineError::Open(error) => Self::from(error),
            EngineError::Batch(error) => Self::from(error),
            EngineError::Submit(error) => Self::from(error),
            EngineError::Wait(error) => Self::from(error),
            EngineError::Transfer(error) => Self::from(error),
            EngineError::Register(error) => Self::from(error),
            EngineError::Unregister(error) => Self::from(error),
            EngineError::Region(error) => Self::from(error),
            EngineError::Range(error) => Self::from(error),
            EngineError::Peer(error) => Self::from(error),
            other => Self::invalid("call", chain(&other)),
        }
    }
}
