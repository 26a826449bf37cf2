//! Why a slice failed: a class for policy, and facts for the operator.

use std::fmt;
use std::io;
use std::net::SocketAddr;

/// What kind of fault it is; policy matches this and never the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultClass {
    /// The path failed; another path or another try may work.
    Rail,
    /// The peer cannot be reached or left; what is known of it may be stale.
    Peer,
    /// The peer refused the range: it is not registered there, or not with this right.
    Refused,
    /// Local memory or a local resource failed; another try gives the same.
    Local,
    /// The engine called the slice back.
    Cancelled,
    /// The transport is closing.
    Closed,
    /// The peer broke the protocol.
    Protocol,
    /// A checked transfer moved all bytes, and their sum at the destination is another than at the
    /// source.
    Corrupt,
}

impl FaultClass {
    /// Whether another try may succeed, given fresh metadata.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Rail | Self::Peer)
    }
}

/// How far the slice had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Waiting in a queue; nothing was sent.
    Queue,
    /// Looking up or refreshing the peer's descriptor.
    Metadata,
    /// Connecting.
    Connect,
    /// Agreeing with the peer on a connection.
    Handshake,
    /// Sending the request.
    Request,
    /// Moving the payload.
    Payload,
    /// Waiting for the peer's status.
    Status,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queue => "queue",
            Self::Metadata => "metadata",
            Self::Connect => "connect",
            Self::Handshake => "handshake",
            Self::Request => "request",
            Self::Payload => "payload",
            Self::Status => "status",
        })
    }
}

/// Why a slice failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceFault {
    /// For policy.
    pub class: FaultClass,
    /// How far it had come.
    pub phase: Phase,
    /// The address involved, where there was one.
    pub address: Option<SocketAddr>,
    /// The system's error number, where there was one.
    pub errno: Option<i32>,
    /// What happened, lower case, without the facts above.
    pub cause: Box<str>,
}

impl SliceFault {
    /// A fault without address or error number.
    pub fn new(class: FaultClass, phase: Phase, cause: impl Into<Box<str>>) -> Self {
        Self { class, phase, address: None, errno: None, cause: cause.into() }
    }

    /// Adds the address.
    #[must_use]
    pub fn at(mut self, address: SocketAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// Adds the system's error number.
    #[must_use]
    pub fn with_os_error(mut self, error: &io::Error) -> Self {
        self.errno = error.raw_os_error();
        self
    }
}

impl fmt::Display for SliceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.phase)?;
        if let Some(address) = self.address {
            write!(f, " with {address}")?;
        }
        write!(f, ": {}", self.cause)?;
        match self.errno {
            Some(number) => write!(f, " ({})", io::Error::from_raw_os_error(number)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for SliceFault {}
