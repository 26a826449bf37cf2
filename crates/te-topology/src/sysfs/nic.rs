//! NICs: `class/infiniband`.

use super::SysTree;
use super::pci::{PciReader, locality};
use super::tree::Folder;
use crate::machine::MachineParts;
use crate::pci::thousandths;
use crate::{LinkLayer, Locality, Nic, NicKind, NicName, Port, PortState};

/// More ports of one NIC are not read.
const MAX_PORTS: usize = 64;
/// So many slots of a GID table are asked for an interface; it stands in the first ones.
const MAX_SLOTS: usize = 16;

pub(super) fn read(tree: &SysTree, parts: &mut MachineParts, pci: &mut PciReader) {
    let Some(list) = tree.folder("sys/class/infiniband") else { return };
    for text in &list.names() {
        match (NicName::parse(text), list.folder(text)) {
            (Ok(name), Some(folder)) => {
                let nic = read_nic(tree, parts, pci, (name, &folder));
                parts.add_nic(nic);
            }
            (Ok(name), None) => {
                parts.note(text.as_str(), "its link leads nowhere; it has no port that is known");
                parts.add_nic(unreadable(name));
            }
            (Err(_), _) => parts.note("class/infiniband", "a name that is none was left out"),
        }
    }
}

/// A NIC of which only the name is there: kept to be seen, never used.
fn unreadable(name: NicName) -> Nic {
    Nic {
        name,
        kind: NicKind::Virtual,
        pci: None,
        near: Locality::UNKNOWN,
        ports: Vec::new(),
        ports_are_known: true,
        interfaces: Vec::new(),
    }
}

fn read_nic(
    tree: &SysTree,
    parts: &mut MachineParts,
    pci: &mut PciReader,
    (name, folder): (NicName, &Folder<'_>),
) -> Nic {
    let device = folder.folder("device");
    if folder.has("device") && device.is_none() {
        parts.note(name.as_str(), "the link to its device leads nowhere");
    }
    // A copy may lack the link; the path of the NIC itself goes through its device then.
    let path = device.as_ref().unwrap_or(folder).path();
    let own = pci.above(tree, parts, path);
    let interfaces = interfaces(folder, device.as_ref(), own.is_none());
    let below = || {
        let on = |name: &String| parts.interfaces.iter().find(|known| known.name == *name);
        interfaces.iter().find_map(on)
    };
    let (index, near) = match own {
        Some(index) => (Some(index), parts.pci[index.position()].near.clone()),
        None => match below() {
            Some(interface) => (interface.pci, interface.near.clone().inferred()),
            None => (None, device.as_ref().map_or(Locality::UNKNOWN, |d| locality(d, parts))),
        },
    };
    // On a machine of one node everything is near it, as `MachineParts::finish` says.
    if !near.is_known() && parts.nodes.len() > 1 {
        parts.note(name.as_str(), "its NUMA node is unknown; it ranks last for every memory");
    }
    let is_bond = name.as_str().contains("_bond_")
        || interfaces.iter().any(|interface| interface.starts_with("bond"));
    let is_vf = device.as_ref().is_some_and(|device| device.has("physfn"));
    let kind = match own {
        Some(_) if is_bond => NicKind::Bond,
        Some(_) if is_vf => NicKind::VirtualFunction,
        Some(_) => NicKind::Hardware,
        None if interfaces.is_empty() => NicKind::Virtual,
        None => NicKind::Software,
    };
    let ports = ports(folder);
    Nic { name, kind, pci: index, near, ports, ports_are_known: true, interfaces }
}

/// The network interfaces on a NIC. A software NIC has no device, so its GID table is asked.
fn interfaces(folder: &Folder<'_>, device: Option<&Folder<'_>>, software: bool) -> Vec<String> {
    let mut names = device.and_then(|d| d.folder("net")).map(|n| n.names()).unwrap_or_default();
    if names.is_empty() && software {
        names.extend(folder.line("parent"));
    }
    let is_bond = folder.path().contains("_bond_");
    if names.is_empty() && software || is_bond {
        names.extend(interfaces_of_gids(folder));
    }
    names.sort_unstable();
    names.dedup();
    names
}

fn interfaces_of_gids(folder: &Folder<'_>) -> Vec<String> {
    let Some(ports) = folder.folder("ports") else { return Vec::new() };
    let numbers = ports.names();
    let tables = numbers.iter().take(MAX_PORTS);
    let tables = tables.filter_map(|port| ports.folder(&format!("{port}/gid_attrs/ndevs")));
    let slots = tables.flat_map(|table| {
        (0..MAX_SLOTS).filter_map(move |slot| table.line(&slot.to_string())).collect::<Vec<_>>()
    });
    slots.collect()
}

fn ports(folder: &Folder<'_>) -> Vec<Port> {
    let Some(list) = folder.folder("ports") else { return Vec::new() };
    let names = list.names();
    let numbers = names.iter().take(MAX_PORTS).filter_map(|name| name.parse::<u8>().ok());
    let mut ports: Vec<Port> = numbers
        .filter_map(|number| Some(read_port(number, &list.folder(&number.to_string())?)))
        .collect();
    ports.sort_by_key(|port| port.number);
    ports
}

fn read_port(number: u8, folder: &Folder<'_>) -> Port {
    let state = folder.line("state").map_or(PortState::Unknown, |t| PortState::from_text(&t));
    let lid = folder
        .line("lid")
        .and_then(|text| u16::from_str_radix(text.strip_prefix("0x").unwrap_or(&text), 16).ok());
    Port {
        number,
        state,
        link_layer: folder.line("link_layer").and_then(|text| link_layer(&text)),
        rate_mbps: folder.line("rate").and_then(|text| rate_mbps(&text)),
        lid,
    }
}

pub(crate) fn link_layer(text: &str) -> Option<LinkLayer> {
    match text {
        "InfiniBand" => Some(LinkLayer::InfiniBand),
        "Ethernet" => Some(LinkLayer::Ethernet),
        _ => None,
    }
}

/// Reads `400 Gb/sec (4X NDR)`.
fn rate_mbps(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ')?;
    let rate = thousandths(number).filter(|_| unit.starts_with("Gb/sec"))?;
    (rate > 0).then_some(rate)
}
