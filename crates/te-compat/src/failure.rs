//! Why a call failed, with everything that is known of it: Python's exceptions and C's last error
//! are made of this.

use std::error::Error as StdError;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use te_engine::RemoteSide;

use crate::code::Code;

mod convert;
mod last;

pub(crate) use self::convert::chain;
pub use self::last::{answer, answer_status, clear_last_failure, last_failure, set_last_failure};

/// What is known of the local memory of a call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LocalState {
    /// It is free: nothing of the call reads or writes it any more.
    Free,
    /// The call has ended, and a transport still holds some of it: it must not be freed or filled
    /// anew; unregistering answers [`Code::Busy`] until it has come back.
    Quarantined,
    /// The call goes on.
    InUse,
}

impl LocalState {
    /// Of the memory of two calls, what is known of all of it.
    #[must_use]
    pub(crate) fn worse(self, other: Self) -> Self {
        match (self, other) {
            (Self::InUse, _) | (_, Self::InUse) => Self::InUse,
            (Self::Quarantined, _) | (_, Self::Quarantined) => Self::Quarantined,
            _ => Self::Free,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Quarantined => "quarantined",
            Self::InUse => "in use",
        }
    }
}

/// The facts of a [`Failure`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facts {
    /// The number for it.
    pub code: Code,
    /// What was being done: `build`, `register`, `unregister`, `open`, `submit`, `batch`, `wait`,
    /// `notify`, `probe`, `memory`, `fork`, `panic`, or a step of a transfer: `queue`, `metadata`,
    /// `connect`, `handshake`, `request`, `payload`, `status`.
    pub phase: &'static str,
    /// The peer's name, where there is one.
    pub peer: Option<Box<str>>,
    /// Position of the request in its batch or call.
    pub index: Option<usize>,
    /// How often a piece of it was tried, from 1; 0 when none was.
    pub attempts: u16,
    /// The transport that had it last.
    pub transport: Option<&'static str>,
    /// What happened: the error and its causes in one line.
    pub cause: Box<str>,
    /// What is known of the peer's memory; `None` where no transfer was begun.
    pub remote: Option<RemoteSide>,
    /// What is known of the local memory.
    pub local: LocalState,
    /// Whether the same call may succeed later without anybody changing anything.
    pub is_retryable: bool,
    /// Whether it is a time that ran out.
    pub is_timeout: bool,
}

/// Why a call failed.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure(Box<Facts>);

impl Failure {
    /// A failure of this kind, in this phase; nothing else is known of it yet.
    pub fn new(code: Code, phase: &'static str, cause: impl Into<Box<str>>) -> Self {
        Self(Box::new(Facts {
            code,
            phase,
            peer: None,
            index: None,
            attempts: 0,
            transport: None,
            cause: cause.into(),
            remote: None,
            local: LocalState::Free,
            is_retryable: false,
            is_timeout: code == Code::Clock,
        }))
    }

    /// An argument that is not valid.
    pub fn invalid(phase: &'static str, cause: impl Into<Box<str>>) -> Self {
        Self::new(Code::InvalidArgument, phase, cause)
    }

    /// A call in a process that was forked from the one that made the engine (FB52).
    pub fn forked() -> Self {
        let cause = "the engine belongs to the process that this one was forked from; \
                     make another engine here";
        Self::invalid("fork", cause)
    }

    /// The facts.
    pub fn facts(&self) -> &Facts {
        &self.0
    }

    /// The number for it.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// Names the peer, where none is named yet.
    #[must_use]
    pub fn with_peer(mut self, peer: &str) -> Self {
        self.0.peer.get_or_insert_with(|| peer.into());
        self
    }

    /// Names the request.
    #[must_use]
    pub fn with_index(mut self, index: usize) -> Self {
        self.0.index = Some(index);
        self
    }

    /// The first of several failures of one call.
    #[must_use]
    pub(crate) fn among(mut self, failed: usize, total: usize) -> Self {
        if total > 1 {
            let cause = &self.0.cause;
            self.0.cause = format!("{failed} of {total} failed, the first: {cause}").into();
        }
        self
    }

    pub(crate) fn edit(mut self, change: impl FnOnce(&mut Facts)) -> Self {
        change(&mut self.0);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = self.facts();
        write!(f, "{}", facts.phase)?;
        if let Some(peer) = facts.peer.as_deref().filter(|peer| !is_named(facts, peer)) {
            write!(f, " (peer {peer})")?;
        }
        write!(f, ": {}", facts.cause)?;
        match facts.local {
            LocalState::InUse => f.write_str("; local memory is in use"),
            LocalState::Quarantined => f.write_str("; local memory is in quarantine"),
            _ => Ok(()),
        }
    }
}

/// Whether the text names the peer already; an address that it was reached by does not count.
fn is_named(facts: &Facts, peer: &str) -> bool {
    facts.index.is_none() && facts.cause.contains(peer)
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl StdError for Failure {}

/// Runs what a surface calls, so that no panic leaves it: one becomes a failure of phase `panic`.
///
/// # Errors
/// Those of `call`.
pub fn guarded<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result,
        Err(payload) => {
            let text = payload.downcast_ref::<&str>().copied();
            let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            let cause = format!("a defect of te: {}", text.unwrap_or("no message"));
            Err(Failure::invalid("panic", cause))
        }
    }
}

#[cfg(test)]
mod tests;
