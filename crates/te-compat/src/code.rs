//! The numbers that Mooncake's calls give (te-classic A53, A54).

/// What kind of failure it is. As an `i32` it is what Mooncake's C++ and Python calls return; see
/// [`Code::as_status`] for those calls that return a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(i32)]
pub enum Code {
    /// An argument is not valid, or whatever has no number of its own.
    InvalidArgument = -1,
    /// A batch is full, or too much is outstanding.
    TooManyRequests = -2,
    /// No registered memory starts there.
    AddressNotRegistered = -3,
    /// Memory or a batch is still in use.
    Busy = -4,
    /// No such NIC.
    DeviceNotFound = -6,
    /// The memory overlaps what is registered.
    AddressOverlapped = -7,
    /// No transport of this engine reaches the peer. As an integer it is an invalid argument, because
    /// Mooncake has no number for it there (A55).
    NotSupportedTransport = -8,
    /// A host name was not found.
    Dns = -101,
    /// A connection failed.
    Socket = -102,
    /// A peer's answer is not what it should be.
    Malformed = -103,
    /// The peer said no.
    Rejected = -104,
    /// The metadata service, or what it has, does not serve.
    Metadata = -200,
    /// The time was over.
    Clock = -301,
    /// There is no memory, or it is not mapped.
    Memory = -302,
}

impl Code {
    /// What integer functions return: below zero (A54).
    pub fn as_i32(self) -> i32 {
        match self {
            Self::NotSupportedTransport => Self::InvalidArgument as i32,
            other => other as i32,
        }
    }

    /// What functions return that give a status: above zero (A53).
    pub fn as_status(self) -> i32 {
        -(self as i32)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid argument",
            Self::TooManyRequests => "too many requests",
            Self::AddressNotRegistered => "address not registered",
            Self::Busy => "busy",
            Self::DeviceNotFound => "device not found",
            Self::AddressOverlapped => "address overlapped",
            Self::NotSupportedTransport => "transport not supported",
            Self::Dns => "name not found",
            Self::Socket => "socket",
            Self::Malformed => "malformed",
            Self::Rejected => "rejected",
            Self::Metadata => "metadata",
            Self::Clock => "timed out",
            Self::Memory => "memory",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a53_a54_a55_the_numbers_are_those_of_the_peer() {
        // A53, A54, A55: integers below zero, statuses above; one number exists as a status only.
        let integers = [(Code::InvalidArgument, -1), (Code::Busy, -4), (Code::Metadata, -200)];
        for (code, number) in integers {
            assert_eq!((code.as_i32(), code.as_status()), (number, -number));
        }
        assert_eq!(Code::NotSupportedTransport.as_i32(), -1);
        assert_eq!(Code::NotSupportedTransport.as_status(), 8);
        assert_eq!(Code::AddressOverlapped.as_i32(), -7);
        assert_eq!(Code::Clock.as_i32(), -301);
    }
}
