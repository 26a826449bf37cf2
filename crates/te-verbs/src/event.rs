//! What a device tells without being asked.

/// An asynchronous event. It was acknowledged to the library before it was given (E56).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceEvent {
    /// A port became active.
    PortActive {
        /// Which, from 1.
        port: u8,
    },
    /// A port lost its link.
    PortError {
        /// Which, from 1.
        port: u8,
    },
    /// The GID table of a port changed.
    GidChange {
        /// Which, from 1.
        port: u8,
    },
    /// The LID of a port changed.
    LidChange {
        /// Which, from 1.
        port: u8,
    },
    /// The partition table of a port changed.
    PkeyChange {
        /// Which, from 1.
        port: u8,
    },
    /// A queue pair cannot go on.
    QueuePairFatal {
        /// Its number.
        number: u32,
    },
    /// A completion queue overran or failed.
    CompletionQueueError,
    /// The device is gone.
    DeviceFatal,
    /// Something else, by the library's number.
    Other(u32),
}
