//! The address of a NIC: port state, GID, LID, MTU, read from the device.

use rustix::net::{AddressFamily, SocketType};
use te_topology::{Gid, GidTable, GidType, NicName, choose_gid, rank_gids};
use te_verbs::{Device, GidKind, LinkLayer, Mtu, PortAttributes, PortState, VerbsError};

use super::health::NicFault;
use crate::config::DeviceSettings;

/// A row of a GID table with what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GidSlot {
    /// The index of the row.
    pub(crate) index: u32,
    /// What is in it.
    pub(crate) gid: Gid,
}

/// How an active NIC is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NicLink {
    /// Its GID.
    pub(crate) gid: GidSlot,
    /// Its LID; 0 on Ethernet.
    pub(crate) lid: u16,
    /// The smaller one of the port's MTU and the one that is set.
    pub(crate) mtu: Mtu,
    /// What is below it.
    pub(crate) link_layer: LinkLayer,
}

/// Reads the address of a NIC.
pub(super) fn read(
    device: &dyn Device,
    name: &NicName,
    settings: &DeviceSettings,
) -> Result<NicLink, NicFault> {
    let port = device.port(settings.port).map_err(NicFault::Verbs)?;
    if port.state != PortState::Active {
        return Err(NicFault::PortDown { port: settings.port });
    }
    let table = table(device, settings.port, &port).map_err(NicFault::Verbs)?;
    let is_infiniband = port.link_layer == LinkLayer::InfiniBand;
    let choice = choose_gid(name, is_infiniband, &table, &settings.gid).map_err(NicFault::Gid)?;
    Ok(NicLink {
        gid: GidSlot { index: choice.index.into(), gid: choice.gid },
        lid: port.lid,
        mtu: port.active_mtu.min(settings.mtu),
        link_layer: port.link_layer,
    })
}

/// The GIDs of a port that may be used, the best first.
pub(super) fn ranked_gids(device: &dyn Device, port: u8) -> Result<Vec<GidSlot>, VerbsError> {
    let attributes = device.port(port)?;
    let is_infiniband = attributes.link_layer == LinkLayer::InfiniBand;
    let ranked = rank_gids(is_infiniband, &table(device, port, &attributes)?);
    let slot =
        |choice: te_topology::GidChoice| GidSlot { index: choice.index.into(), gid: choice.gid };
    Ok(ranked.into_iter().map(slot).collect())
}

/// The GID table of a port, without empty rows, by index.
pub(crate) fn table(
    device: &dyn Device,
    port: u8,
    attributes: &PortAttributes,
) -> Result<GidTable, VerbsError> {
    let rows = device.gids(port)?;
    let slots = usize::try_from(attributes.gid_rows).unwrap_or(usize::MAX);
    let mut entries: Vec<te_topology::GidEntry> = rows.iter().filter_map(entry).collect();
    entries.sort_by_key(|entry| entry.index);
    Ok(GidTable { entries, slots })
}

/// `None` for a row that is behind what an index can be.
fn entry(row: &te_verbs::GidEntry) -> Option<te_topology::GidEntry> {
    let kind = match row.kind {
        GidKind::InfiniBand => GidType::Ib,
        GidKind::RoceV1 => GidType::RoceV1,
        GidKind::RoceV2 => GidType::RoceV2,
    };
    let index = u16::try_from(row.index).ok()?;
    Some(te_topology::GidEntry { index, gid: row.gid, kind, interface: interface(row.interface) })
}

/// The name of a network interface; `None` for one that is not in our network namespace.
fn interface(number: u32) -> Option<String> {
    if number == 0 {
        return None;
    }
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).ok()?;
    rustix::net::netdevice::index_to_name(&socket, number).ok()
}
