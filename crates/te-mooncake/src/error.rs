//! What calls fail with: the peer's binding's variants.

use std::ffi::NulError;

use te_compat::{Failure, set_last_failure};

/// Why a call failed. [`crate::last_failure`] knows more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// No engine could be made.
    #[error("no engine could be made")]
    NullHandle,
    /// A text has a zero byte in it, which Mooncake cannot take.
    #[error("a text has a zero byte in it")]
    InvalidString(#[from] NulError),
    /// A call was refused with this number: below zero from calls that give integers, above from
    /// those that give a status.
    #[error("refused with code {0}")]
    OperationFailed(i32),
    /// An argument is not valid.
    #[error("not valid: {0}")]
    InvalidArgument(&'static str),
    /// A transfer ended otherwise than completed.
    #[error("the transfer did not complete")]
    TransferFailed,
    /// The time was over.
    #[error("the time was over")]
    Timeout,
}

/// A failure of a call that gives an integer.
pub(crate) fn refused(failure: &Failure) -> EngineError {
    set_last_failure(failure);
    EngineError::OperationFailed(failure.code().as_i32())
}

/// A failure of a call that gives a status.
pub(crate) fn status(failure: &Failure) -> EngineError {
    set_last_failure(failure);
    EngineError::OperationFailed(failure.code().as_status())
}

/// A failure of opening a segment, which is −1 whatever it is.
pub(crate) fn unopened(failure: &Failure) -> EngineError {
    set_last_failure(failure);
    EngineError::OperationFailed(-1)
}

/// The failure of a transfer that was begun, or should have been.
pub(crate) fn ended(failure: &Failure) -> EngineError {
    let facts = failure.facts();
    if facts.phase == "open" {
        return unopened(failure);
    }
    if facts.is_timeout {
        set_last_failure(failure);
        return EngineError::Timeout;
    }
    if facts.remote.is_none() && facts.attempts == 0 && facts.phase == "submit" {
        return status(failure);
    }
    set_last_failure(failure);
    EngineError::TransferFailed
}
