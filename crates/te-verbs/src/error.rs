//! What a verbs call answers when it fails.

use std::fmt;

use thiserror::Error;

/// Which call of the verbs library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VerbsCall {
    /// Loading the library, or finding a function in it.
    Load,
    /// Listing devices.
    List,
    /// Opening a device.
    Open,
    /// Reading a device's limits.
    QueryDevice,
    /// Reading the state of a port.
    QueryPort,
    /// Reading a row of a GID table.
    QueryGid,
    /// Allocating a protection domain.
    AllocPd,
    /// Registering memory.
    Register,
    /// Making a completion channel or queue.
    CreateCq,
    /// Arming a completion queue, or reading its channel.
    Notify,
    /// Taking completions.
    Poll,
    /// Making a queue pair.
    CreateQp,
    /// Moving a queue pair to INIT.
    ToInit,
    /// Moving a queue pair to RTR.
    ToRtr,
    /// Moving a queue pair to RTS.
    ToRts,
    /// Moving a queue pair to ERR.
    ToError,
    /// Moving a queue pair to RESET.
    ToReset,
    /// Reading the state of a queue pair.
    QueryQp,
    /// Releasing something.
    Destroy,
    /// Reading an asynchronous event.
    Event,
}

impl fmt::Display for VerbsCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Load => "load libibverbs",
            Self::List => "list devices",
            Self::Open => "open the device",
            Self::QueryDevice => "query the device",
            Self::QueryPort => "query the port",
            Self::QueryGid => "query the GID table",
            Self::AllocPd => "allocate a protection domain",
            Self::Register => "register memory",
            Self::CreateCq => "create a completion queue",
            Self::Notify => "arm the completion queue",
            Self::Poll => "poll the completion queue",
            Self::CreateQp => "create a queue pair",
            Self::ToInit => "move the queue pair to INIT",
            Self::ToRtr => "move the queue pair to RTR",
            Self::ToRts => "move the queue pair to RTS",
            Self::ToError => "move the queue pair to ERR",
            Self::ToReset => "move the queue pair to RESET",
            Self::QueryQp => "query the queue pair",
            Self::Destroy => "release a verbs object",
            Self::Event => "read an asynchronous event",
        })
    }
}

/// A verbs call failed. The stage and the system's error number were taken together (J97).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot {call} ({device}): {cause}")]
pub struct VerbsError {
    /// What was called.
    pub call: VerbsCall,
    /// The device, or the library where no device was involved.
    pub device: Box<str>,
    /// The system's error number, where there was one.
    pub errno: Option<i32>,
    /// In words.
    pub cause: Box<str>,
}

/// A chain of work requests was not taken whole. What came before the first that was refused is
/// posted, and completes. Where that is the whole chain, the provider did not say what it refused:
/// some may be queued already when it fails. The queue pair has to end then, because nothing else
/// tells whether they complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{posted} work requests were posted, the next was refused: {}", std::io::Error::from_raw_os_error(*.errno))]
pub struct PostError {
    /// How many were posted; all that were given where that is not known.
    pub posted: usize,
    /// The system's error number: `ENOMEM` for a full queue.
    pub errno: i32,
}
