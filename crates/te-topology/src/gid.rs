//! Which GID of a port to use: a pure choice on a table, with the reason for it.
//!
//! A GID is the address under which an RDMA port is reached. A RoCE port has several, of which some
//! lead nowhere from another host; an InfiniBand port has one that counts.
//!
//! I1  The choice depends on the table and the wish only. Equal classes are decided by the index.
//! I2  Empty slots are no candidates and no news.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Serialize, Serializer};
use thiserror::Error;

use crate::NicName;

/// An address of an RDMA port, 128 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gid([u8; 16]);

impl Gid {
    /// A GID by its bytes, the first one first.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Reads eight groups of hexadecimal digits, as sysfs prints them, or any IPv6 address.
    pub fn parse(text: &str) -> Option<Self> {
        text.trim().parse::<Ipv6Addr>().ok().map(|address| Self(address.octets()))
    }

    /// Reads 16 bytes in hexadecimal, each of one or two digits, joined by `:`, as descriptors and
    /// handshakes write them.
    pub fn parse_bytes(text: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        let mut groups = text.split(':');
        for byte in &mut bytes {
            let group = groups.next().filter(|group| matches!(group.len(), 1 | 2))?;
            let is_hex = group.bytes().all(|digit| digit.is_ascii_hexdigit());
            *byte = u8::from_str_radix(group, 16).ok().filter(|_| is_hex)?;
        }
        groups.next().is_none().then_some(Self(bytes))
    }

    /// 16 bytes of two hexadecimal digits each, joined by `:`, which [`Self::parse_bytes`] reads.
    pub fn byte_text(self) -> String {
        let bytes = self.0.iter().map(|byte| format!("{byte:02x}"));
        bytes.collect::<Vec<_>>().join(":")
    }

    /// The bytes, the first one first.
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// Whether all bytes are zero, which marks an empty slot.
    pub fn is_null(self) -> bool {
        self.0 == [0; 16]
    }

    /// The IPv4 address that is mapped into it (`::ffff:a.b.c.d`).
    pub fn mapped_v4(self) -> Option<Ipv4Addr> {
        Ipv6Addr::from(self.0).to_ipv4_mapped()
    }

    /// Whether it is good on one link only: `fe80::/10`, or a mapped 169.254.0.0/16.
    pub fn is_link_local(self) -> bool {
        let v6 = self.0[0] == 0xfe && self.0[1] & 0xc0 == 0x80;
        v6 || self.mapped_v4().is_some_and(|address| address.is_link_local())
    }

    /// Whether it is a mapped address of 10.0.0.0/8, 172.16.0.0/12 or 100.64.0.0/10, ranges of
    /// which overlays are made as well as data centres. 192.168.0.0/16 is not among them.
    fn is_private_v4(self) -> bool {
        self.mapped_v4().is_some_and(|address| match address.octets() {
            [10, ..] => true,
            [172, second, ..] => second & 0xf0 == 16,
            [100, second, ..] => second & 0xc0 == 64,
            _ => false,
        })
    }

    fn is_loopback(self) -> bool {
        let address = Ipv6Addr::from(self.0);
        address.is_loopback() || self.mapped_v4().is_some_and(|address| address.is_loopback())
    }
}

/// Eight groups of four digits, as sysfs prints them.
impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, group) in Ipv6Addr::from(self.0).segments().iter().enumerate() {
            let colon = if position == 0 { "" } else { ":" };
            write!(f, "{colon}{group:04x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gid({self})")
    }
}

impl Serialize for Gid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What a GID is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum GidType {
    /// InfiniBand.
    Ib,
    /// RoCE on Ethernet frames: it passes no router.
    RoceV1,
    /// RoCE on UDP.
    RoceV2,
    /// Something else.
    Other,
}

impl GidType {
    /// Reads what sysfs says. The kernel calls InfiniBand and the first RoCE alike `IB/RoCE v1`;
    /// this is [`Self::RoceV1`] here and counts as InfiniBand on a port that is.
    pub fn parse(text: &str) -> Self {
        match text.trim() {
            "IB" => Self::Ib,
            "IB/RoCE v1" | "RoCE v1" => Self::RoceV1,
            "RoCE v2" => Self::RoceV2,
            _ => Self::Other,
        }
    }
}

/// One slot of a GID table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GidEntry {
    /// The slot.
    pub index: u16,
    /// What is in it.
    pub gid: Gid,
    /// What it is made for.
    pub kind: GidType,
    /// The network interface that it belongs to; `None` if that is not in our network namespace,
    /// so that the address may be another container's.
    pub interface: Option<String>,
}

/// The GIDs of one port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct GidTable {
    /// What is in the table, sorted by index; empty slots may be left out.
    pub entries: Vec<GidEntry>,
    /// How many slots it has, the empty ones among them.
    pub slots: usize,
}

/// How good a GID is; better ones are smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum GidClass {
    /// It was asked for by its index.
    Asked,
    /// On an interface of ours; it reaches other networks.
    OwnRoutable,
    /// On an interface of ours, in a range that may be an overlay's.
    OwnPrivate,
    /// On no interface that we see; it reaches other networks.
    ForeignRoutable,
    /// On an interface of ours, but link-local, or the interface is an overlay.
    OwnDegraded,
    /// On no interface that we see, in a range that may be an overlay's.
    ForeignPrivate,
    /// On no interface that we see, and link-local.
    ForeignDegraded,
    /// Of another type than RoCE v2 or InfiniBand: taken when there is nothing else.
    OtherType,
}

impl GidClass {
    /// All classes, the best first.
    pub const ALL: [Self; 8] = [
        Self::Asked,
        Self::OwnRoutable,
        Self::OwnPrivate,
        Self::ForeignRoutable,
        Self::OwnDegraded,
        Self::ForeignPrivate,
        Self::ForeignDegraded,
        Self::OtherType,
    ];

    /// The reason, in words.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Asked => "its index was asked for",
            Self::OwnRoutable => "routable, on an interface of this host",
            Self::OwnPrivate => "private, on an interface of this host",
            Self::ForeignRoutable => "routable, on no interface of this network namespace",
            Self::OwnDegraded => "link-local or on an overlay",
            Self::ForeignPrivate => "private, on no interface of this network namespace",
            Self::ForeignDegraded => "link-local, on no interface of this network namespace",
            Self::OtherType => "of an old type; the port has nothing better",
        }
    }
}

impl fmt::Display for GidClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

/// A GID that was chosen, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GidChoice {
    /// Its slot.
    pub index: u16,
    /// The GID.
    pub gid: Gid,
    /// Why it was chosen.
    pub class: GidClass,
    /// How many others were candidates.
    pub others: usize,
}

/// Which GIDs were asked for: for all NICs, and for single ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GidWish {
    /// For NICs that are not named below; `None` is automatic.
    pub index: Option<u16>,
    /// For a NIC by its name.
    pub per_nic: BTreeMap<NicName, u16>,
}

impl GidWish {
    /// The index that is asked for on a NIC.
    pub fn index_for(&self, nic: &NicName) -> Option<u16> {
        self.per_nic.get(nic).copied().or(self.index)
    }
}

/// Why no GID was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GidError {
    /// Every slot is empty, so the port is not configured. Look at its link.
    #[error("the table of GIDs is empty")]
    EmptyTable,
    /// The index that was asked for is none of the table. Take one of its indices.
    #[error("GID index {index} was asked for, the table has {slots} slots")]
    OutOfRange {
        /// What was asked for.
        index: u16,
        /// How many slots there are.
        slots: usize,
    },
    /// The slot that was asked for is empty. Take another, or leave the choice to us.
    #[error("GID index {index} was asked for, its slot is empty")]
    EmptySlot {
        /// What was asked for.
        index: u16,
    },
}

/// Chooses the GID of a NIC's port.
///
/// # Errors
/// An empty table, or an index that was asked for and is not there.
pub fn choose_gid(
    nic: &NicName,
    is_infiniband: bool,
    table: &GidTable,
    wish: &GidWish,
) -> Result<GidChoice, GidError> {
    let Some(index) = wish.index_for(nic) else {
        return rank_gids(is_infiniband, table).into_iter().next().ok_or(GidError::EmptyTable);
    };
    let slots = table.slots.max(table.entries.len());
    let entry = table.entries.iter().find(|entry| entry.index == index && !entry.gid.is_null());
    match entry {
        Some(entry) => Ok(GidChoice { index, gid: entry.gid, class: GidClass::Asked, others: 0 }),
        None if usize::from(index) >= slots => Err(GidError::OutOfRange { index, slots }),
        None => Err(GidError::EmptySlot { index }),
    }
}

/// All GIDs that may be used, the best first.
///
/// After a failed handshake the next one that was not tried yet is the first that differs.
pub fn rank_gids(is_infiniband: bool, table: &GidTable) -> Vec<GidChoice> {
    let filled: Vec<&GidEntry> = table.entries.iter().filter(|e| !e.gid.is_null()).collect();
    // Where no slot has an interface, the system does not tell, and nothing follows from it.
    let tells = filled.iter().any(|entry| entry.interface.is_some());
    let mut ranked: Vec<GidChoice> = filled
        .iter()
        .map(|entry| GidChoice {
            index: entry.index,
            gid: entry.gid,
            class: classify(entry, is_infiniband, tells),
            others: filled.len() - 1,
        })
        .collect();
    ranked.sort_by_key(|choice| (choice.class, choice.index));
    ranked
}

fn classify(entry: &GidEntry, is_infiniband: bool, tells: bool) -> GidClass {
    if is_infiniband {
        return match entry.kind {
            GidType::Ib | GidType::RoceV1 => GidClass::OwnRoutable,
            GidType::RoceV2 | GidType::Other => GidClass::OtherType,
        };
    }
    if entry.kind != GidType::RoceV2 {
        return GidClass::OtherType;
    }
    let own = entry.interface.is_some() || !tells;
    let gid = entry.gid;
    let on_overlay = entry.interface.as_deref().is_some_and(is_overlay);
    match (gid.is_link_local() || gid.is_loopback() || on_overlay, gid.is_private_v4()) {
        (true, _) if own => GidClass::OwnDegraded,
        (true, _) => GidClass::ForeignDegraded,
        (false, true) if own => GidClass::OwnPrivate,
        (false, true) => GidClass::ForeignPrivate,
        (false, false) if own => GidClass::OwnRoutable,
        (false, false) => GidClass::ForeignRoutable,
    }
}

fn is_overlay(interface: &str) -> bool {
    let prefixes = ["flannel", "cni", "calico", "vxlan", "docker"];
    interface == "tunl0" || prefixes.iter().any(|prefix| interface.starts_with(prefix))
}

#[cfg(test)]
mod tests;
