//! What can be wrong with the devices of a host.

use te_topology::{GidChoice, GidError, NicName};
use te_verbs::{Mtu, PortState, VerbsError};
use thiserror::Error;

/// A path MTU below this costs more headers than anybody means to pay; it comes of an interface
/// whose own MTU is that of plain Ethernet or less.
pub(super) const LEAST_MTU: Mtu = Mtu::B1024;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// It works, and not as well as it could.
    Advice,
    /// One NIC cannot be used.
    Nic,
    /// RDMA does not start.
    Fatal,
}

/// What is wrong. The text says what was found; [`Finding::advice`] what to do.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Finding {
    /// The library lists no device.
    #[error("there is no RDMA device")]
    NoDevice,
    /// A name that is asked for is of no device.
    #[error("{nic} is asked for, and there is no such device; there is {}", names(.here))]
    UnknownNic {
        /// The name.
        nic: NicName,
        /// What there is.
        here: Vec<NicName>,
    },
    /// A device refused to be opened.
    #[error("{nic} cannot be opened")]
    CannotOpen {
        /// The device.
        nic: NicName,
        /// Why.
        #[source]
        cause: VerbsError,
    },
    /// A device did not say what a port of it is like.
    #[error("port {port} of {nic} cannot be read")]
    CannotRead {
        /// The device.
        nic: NicName,
        /// The port, from 1.
        port: u8,
        /// Why.
        #[source]
        cause: VerbsError,
    },
    /// A device cannot signal completions.
    #[error("{nic} has no completion vector")]
    NoCompletionVector {
        /// The device.
        nic: NicName,
    },
    /// The port that is set is none of the device.
    #[error("port {port} of {nic} is asked for, it has {ports}")]
    NoSuchPort {
        /// The device.
        nic: NicName,
        /// What is set.
        port: u8,
        /// How many there are, from 1.
        ports: u8,
    },
    /// The port has no link.
    #[error("port {port} of {nic} is not active but {}", format!("{state:?}").to_lowercase())]
    PortDown {
        /// The device.
        nic: NicName,
        /// The port.
        port: u8,
        /// What it is instead.
        state: PortState,
    },
    /// There is no GID to be reached by, or not the one that is asked for.
    #[error("{nic} has no GID that can be used")]
    NoGid {
        /// The device.
        nic: NicName,
        /// Why.
        #[source]
        cause: GidError,
    },
    /// The GID reaches less than a host should be reached from.
    #[error("GID {} of {nic}, {}, reaches no other network: {}", .choice.index, .choice.gid, .choice.class)]
    PoorGid {
        /// The device.
        nic: NicName,
        /// What was chosen.
        choice: GidChoice,
    },
    /// The path MTU is small.
    #[error("{nic} moves {mtu} bytes a packet; its port could do {active}")]
    SmallMtu {
        /// The device.
        nic: NicName,
        /// The one that is used.
        mtu: Mtu,
        /// That of the port.
        active: Mtu,
    },
    /// The partition that is set is none of the port.
    #[error("partition key {index} of {nic} is asked for, its table has {rows}")]
    NoSuchPkey {
        /// The device.
        nic: NicName,
        /// What is set, from 0.
        index: u16,
        /// Rows of the table.
        rows: u16,
    },
    /// Little memory may be locked, and registered memory is.
    #[error("this process may lock {limit} bytes of memory")]
    LittleMemlock {
        /// The limit, bytes.
        limit: u64,
        /// How far this process may raise it, bytes; `None` is without limit.
        raisable_to: Option<u64>,
    },
}

impl Finding {
    /// How bad it is.
    pub fn severity(&self) -> Severity {
        match self {
            Self::NoDevice | Self::UnknownNic { .. } => Severity::Fatal,
            Self::CannotOpen { .. }
            | Self::CannotRead { .. }
            | Self::NoCompletionVector { .. }
            | Self::NoSuchPort { .. }
            | Self::PortDown { .. }
            | Self::NoGid { .. }
            | Self::NoSuchPkey { .. } => Severity::Nic,
            Self::PoorGid { .. } | Self::SmallMtu { .. } | Self::LittleMemlock { .. } => {
                Severity::Advice
            }
        }
    }

    /// The device it is about.
    pub fn nic(&self) -> Option<&NicName> {
        match self {
            Self::NoDevice | Self::LittleMemlock { .. } => None,
            Self::UnknownNic { nic, .. }
            | Self::CannotOpen { nic, .. }
            | Self::CannotRead { nic, .. }
            | Self::NoCompletionVector { nic }
            | Self::NoSuchPort { nic, .. }
            | Self::PortDown { nic, .. }
            | Self::NoGid { nic, .. }
            | Self::PoorGid { nic, .. }
            | Self::SmallMtu { nic, .. }
            | Self::NoSuchPkey { nic, .. } => Some(nic),
        }
    }

    /// What to do.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::NoDevice => "load the driver of the NIC; `rdma link` shows what the kernel has",
            Self::UnknownNic { .. } => "correct topology.filters or the custom topology",
            Self::CannotOpen { .. } => "let this user open /dev/infiniband/uverbs*",
            Self::CannotRead { .. } | Self::NoCompletionVector { .. } => {
                "look at the kernel's log; leave the device out with topology.filters"
            }
            Self::NoSuchPort { .. } => "set rdma.port (MC_IB_PORT)",
            Self::PortDown { .. } => "bring its link up; it is used as soon as it is active",
            Self::NoGid { .. } => {
                "give its interface an address, or set rdma.gid_index or rdma.gid_indices"
            }
            Self::PoorGid { .. } => "give its interface an address that peers can route to",
            Self::SmallMtu { .. } => {
                "raise the interface's MTU, to 4200 for 4096, on all hosts alike"
            }
            Self::NoSuchPkey { .. } => "set rdma.pkey_index (MC_PKEY_INDEX)",
            Self::LittleMemlock { .. } => {
                "raise it, as with `ulimit -l unlimited` or LimitMEMLOCK=infinity"
            }
        }
    }
}

fn names(names: &[NicName]) -> String {
    names.iter().map(NicName::as_str).take(16).collect::<Vec<_>>().join(", ")
}
