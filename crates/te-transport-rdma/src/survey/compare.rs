//! Whether two segments can reach one another over RDMA, by what both publish.
//!
//! Mooncake exchanges neither MTU nor the class of a GID: such a mismatch shows there as a request
//! that fails.

use std::collections::BTreeMap;
use std::fmt;

use te_metadata::{DeviceDescriptor, ProtocolPart, SegmentDescriptor};
use te_topology::{Gid, NicName};
use thiserror::Error;

use crate::publish::TeFacts;

/// Why two segments do not reach one another, or not by all pairs of their NICs.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// One of them offers no RDMA now.
    #[error("{segment} offers {protocol}, not rdma")]
    NotRdma {
        /// Its name.
        segment: String,
        /// What it offers.
        protocol: &'static str,
    },
    /// One end is InfiniBand and the other Ethernet.
    #[error("{ours} and {theirs} have links of different kinds")]
    LinkLayer {
        /// One NIC.
        ours: NicName,
        /// The other.
        theirs: NicName,
    },
    /// The GIDs of two ends are of classes that do not reach each other.
    #[error("the GID of {ours} is {our_class}, that of {theirs} is {their_class}")]
    GidClass {
        /// One NIC.
        ours: NicName,
        /// What its GID is.
        our_class: GidFamily,
        /// The other NIC.
        theirs: NicName,
        /// What its GID is.
        their_class: GidFamily,
    },
    /// Packets of one end are too long for the other. Both take the smaller of the port's MTU and the
    /// one that is set.
    #[error("{ours} moves {our_mtu} bytes a packet and {theirs} {their_mtu}")]
    Mtu {
        /// One NIC.
        ours: NicName,
        /// Its path MTU, bytes.
        our_mtu: u32,
        /// The other NIC.
        theirs: NicName,
        /// Its path MTU, bytes.
        their_mtu: u32,
    },
    /// Connections have different numbers of queue pairs. A Mooncake engine does not tell its number.
    #[error("connections have {ours} queue pairs at one end and {theirs} at the other")]
    QueuePairs {
        /// At one end.
        ours: u32,
        /// At the other.
        theirs: u32,
    },
}

/// What a GID is made of; one kind does not reach the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GidFamily {
    /// An IPv4 address.
    V4,
    /// An IPv6 address that routers know.
    V6,
    /// Good on one link only.
    LinkLocal,
}

impl GidFamily {
    fn of(gid: Gid) -> Self {
        match (gid.is_link_local(), gid.mapped_v4()) {
            (true, _) => Self::LinkLocal,
            (false, Some(_)) => Self::V4,
            (false, None) => Self::V6,
        }
    }
}

impl fmt::Display for GidFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "an IPv4 address",
            Self::V6 => "an IPv6 address",
            Self::LinkLocal => "link-local",
        })
    }
}

/// Compares each of our NICs with each of theirs; empty where nothing is in the way.
pub fn compare(ours: &SegmentDescriptor, theirs: &SegmentDescriptor) -> Vec<Mismatch> {
    let (our_side, their_side) = match (Side::of(ours), Side::of(theirs)) {
        (Ok(ours), Ok(theirs)) => (ours, theirs),
        (ours, theirs) => return ours.err().into_iter().chain(theirs.err()).collect(),
    };
    let mut found = Vec::new();
    let facts = |side: &Side<'_>| side.facts.map(|facts| facts.queue_pairs);
    if let (Some(ours), Some(theirs)) = (facts(&our_side), facts(&their_side))
        && ours != theirs
    {
        found.push(Mismatch::QueuePairs { ours, theirs });
    }
    for our in our_side.devices {
        for their in their_side.devices {
            found.extend(pair((our, &our_side), (their, &their_side)));
        }
    }
    found
}

/// What counts of one descriptor.
struct Side<'a> {
    devices: &'a [DeviceDescriptor],
    facts: Option<TeFacts>,
    mtus: BTreeMap<NicName, u32>,
}

impl<'a> Side<'a> {
    fn of(descriptor: &'a SegmentDescriptor) -> Result<Self, Mismatch> {
        let ProtocolPart::Rdma { devices, .. } = &descriptor.part else {
            let (segment, protocol) = (descriptor.name.clone(), descriptor.protocol_name());
            return Err(Mismatch::NotRdma { segment, protocol });
        };
        let te = descriptor.te.as_ref();
        let mtus = te.map(TeFacts::mtus).unwrap_or_default();
        Ok(Self { devices, facts: te.and_then(TeFacts::read), mtus })
    }
}

/// The first thing that is in the way of two NICs.
fn pair(
    (our, our_side): (&DeviceDescriptor, &Side<'_>),
    (their, their_side): (&DeviceDescriptor, &Side<'_>),
) -> Option<Mismatch> {
    let (ours, theirs) = (our.name.clone(), their.name.clone());
    if (our.lid == 0) != (their.lid == 0) {
        return Some(Mismatch::LinkLayer { ours, theirs });
    }
    let family = |device: &DeviceDescriptor| Gid::parse_bytes(&device.gid).map(GidFamily::of);
    if let (Some(our_class), Some(their_class)) = (family(our), family(their))
        && our.lid == 0
        && our_class != their_class
    {
        return Some(Mismatch::GidClass { ours, our_class, theirs, their_class });
    }
    let mtu = |side: &Side<'_>, nic: &NicName| side.mtus.get(nic).copied();
    let (our_mtu, their_mtu) = (mtu(our_side, &ours)?, mtu(their_side, &theirs)?);
    (our_mtu != their_mtu).then_some(Mismatch::Mtu { ours, our_mtu, theirs, their_mtu })
}
