//! Network interfaces: `class/net`.

use super::SysTree;
use super::pci::PciReader;
use super::tree::Folder;
use crate::machine::MachineParts;
use crate::{Interface, InterfaceKind, Locality, PciIndex};

/// More interfaces than this are not read.
const MAX_INTERFACES: usize = 16_384;
/// A VLAN on a bond on a pair of interfaces is three deep.
const MAX_LOWER: usize = 4;

/// What sysfs says of an interface.
#[derive(Debug, Clone)]
pub(super) struct InterfaceFacts {
    pub(super) name: String,
    pub(super) kind: InterfaceKind,
    pub(super) is_up: bool,
    pub(super) index: u32,
    speed_mbps: Option<u64>,
    pub(super) hardware: Option<String>,
}

impl InterfaceFacts {
    /// All interfaces of a tree, sorted by name.
    pub(super) fn all(tree: &SysTree) -> Vec<Self> {
        let Some(list) = tree.folder("sys/class/net") else { return Vec::new() };
        let names = list.names();
        let known = names.iter().take(MAX_INTERFACES);
        known.filter_map(|name| Some(Self::read(name, &list.folder(name)?))).collect()
    }

    fn read(name: &str, folder: &Folder<'_>) -> Self {
        let number = |file: &str| folder.line(file).and_then(|text| text.parse::<u32>().ok());
        let flags = folder.line("flags").and_then(|text| {
            u32::from_str_radix(text.strip_prefix("0x").unwrap_or(&text), 16).ok()
        });
        let is_up = match folder.line("operstate").as_deref() {
            Some("up") => true,
            // Loopback, tunnels and some drivers never say more than this.
            Some("unknown") | None => flags.is_none_or(|flags| flags & FLAG_UP != 0),
            Some(_) => false,
        };
        Self {
            name: name.to_owned(),
            kind: kind(name, folder),
            is_up,
            index: number("ifindex").unwrap_or(u32::MAX),
            speed_mbps: folder.line("speed").and_then(|t| t.parse().ok()).filter(|s| *s > 0),
            hardware: hardware(folder, MAX_LOWER),
        }
    }
}

pub(super) fn read(tree: &SysTree, parts: &mut MachineParts, pci: &mut PciReader) {
    for facts in InterfaceFacts::all(tree) {
        let index = facts.hardware.as_ref().and_then(|path| pci.above(tree, parts, path));
        let interface = interface(facts, index, parts);
        parts.add_interface(interface);
    }
}

fn interface(facts: InterfaceFacts, pci: Option<PciIndex>, parts: &MachineParts) -> Interface {
    let near = pci.map_or(Locality::UNKNOWN, |index| parts.pci[index.position()].near.clone());
    let direct = facts.kind == InterfaceKind::Hardware;
    Interface {
        name: facts.name,
        kind: facts.kind,
        is_up: facts.is_up,
        speed_mbps: facts.speed_mbps,
        pci,
        near: if direct { near } else { near.inferred() },
    }
}

const FLAG_UP: u32 = 1;
/// The kernel's number for the type of a loopback interface.
const TYPE_LOOPBACK: &str = "772";
/// Types of tunnels: none, IP in IP, IP6 tunnel, SIT, GRE, GRE6.
const TYPES_TUNNEL: [&str; 6] = ["65534", "768", "769", "776", "778", "823"];
const OVERLAYS: [&str; 14] = [
    "flannel",
    "cni",
    "calico",
    "vxlan",
    "geneve",
    "tunl",
    "cilium",
    "weave",
    "ovn",
    "genev_sys",
    "nodelocaldns",
    "kube-ipvs",
    "wg",
    "tailscale",
];
const BRIDGES: [&str; 6] = ["docker", "virbr", "br-", "lxcbr", "podman", "ovs"];
const CONTAINER_LINKS: [&str; 6] = ["veth", "cali", "lxc", "tap", "vnet", "vif"];

/// Files say more than names, but many kinds have no file of their own.
fn kind(name: &str, folder: &Folder<'_>) -> InterfaceKind {
    let begins = |list: &[&str]| list.iter().any(|prefix| name.starts_with(prefix));
    let device_type = folder.text("uevent").unwrap_or_default();
    let device_type = device_type.lines().find_map(|line| line.strip_prefix("DEVTYPE="));
    let link_type = folder.line("type");
    let link_type = link_type.as_deref().unwrap_or_default();
    if name == "lo" || link_type == TYPE_LOOPBACK || name.starts_with("dummy") {
        InterfaceKind::Loopback
    } else if folder.has("bonding") || matches!(device_type, Some("bond" | "team")) {
        InterfaceKind::Bond
    } else if matches!(device_type, Some("vxlan" | "geneve" | "gre" | "wireguard"))
        || begins(&OVERLAYS)
        || TYPES_TUNNEL.contains(&link_type)
    {
        InterfaceKind::Overlay
    } else if folder.has("bridge") || device_type == Some("bridge") || begins(&BRIDGES) {
        InterfaceKind::Bridge
    } else if begins(&CONTAINER_LINKS) || folder.has("tun_flags") {
        InterfaceKind::ContainerLink
    } else if folder.has("device") {
        InterfaceKind::Hardware
    } else if device_type == Some("vlan") || has_lower(folder) && name.contains('.') {
        InterfaceKind::Vlan
    } else {
        InterfaceKind::Virtual
    }
}

fn has_lower(folder: &Folder<'_>) -> bool {
    folder.names().iter().any(|name| name.starts_with("lower_"))
}

/// The path of the device below an interface; of the first one below a bond or VLAN.
fn hardware(folder: &Folder<'_>, depth: usize) -> Option<String> {
    if let Some(device) = folder.folder("device") {
        return Some(device.path().to_owned());
    }
    let depth = depth.checked_sub(1)?;
    let names = folder.names();
    let mut lower = names.iter().filter(|name| name.starts_with("lower_"));
    lower.find_map(|name| hardware(&folder.folder(name)?, depth))
}
