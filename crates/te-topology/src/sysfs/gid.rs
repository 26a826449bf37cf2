//! GID tables: `class/infiniband/<nic>/ports/<port>/gids` and `gid_attrs`.

use super::SysTree;
use crate::gid::{Gid, GidEntry, GidTable, GidType};
use crate::sysfs::nic::link_layer;
use crate::{LinkLayer, NicName};

/// Slots of a table that are read; the verbs interface counts them in one byte.
pub const MAX_GIDS: usize = 256;

impl SysTree {
    /// The GID table of a NIC's port; empty if there is none.
    ///
    /// Empty slots are left out and not asked for their type, which the kernel would refuse.
    pub fn gid_table(&self, nic: &NicName, port: u8) -> GidTable {
        let path = format!("sys/class/infiniband/{nic}/ports/{port}");
        let Some(folder) = self.folder(&path) else { return GidTable::default() };
        let layer = folder.line("link_layer").and_then(|text| link_layer(&text));
        let Some(gids) = folder.folder("gids") else { return GidTable::default() };
        let names = gids.names();
        let mut slots: Vec<u16> = names.iter().filter_map(|name| name.parse().ok()).collect();
        slots.sort_unstable();
        let types = folder.folder("gid_attrs/types");
        let interfaces = folder.folder("gid_attrs/ndevs");
        let mut entries = Vec::new();
        for slot in slots.into_iter().take(MAX_GIDS) {
            let name = slot.to_string();
            let gid = gids.line(&name).and_then(|text| Gid::parse(&text));
            let Some(gid) = gid.filter(|gid| !gid.is_null()) else { continue };
            let kind = types.as_ref().and_then(|folder| folder.line(&name));
            entries.push(GidEntry {
                index: slot,
                gid,
                kind: kind.map_or_else(|| assumed(layer), |text| GidType::parse(&text)),
                interface: interfaces.as_ref().and_then(|folder| folder.line(&name)),
            });
        }
        GidTable { entries, slots: names.len() }
    }
}

/// Kernels before 4.9 have no types: InfiniBand then, or the only RoCE there was.
fn assumed(layer: Option<LinkLayer>) -> GidType {
    match layer {
        Some(LinkLayer::InfiniBand) => GidType::Ib,
        _ => GidType::RoceV1,
    }
}
