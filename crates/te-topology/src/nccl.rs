//! Reads the XML in which NCCL and RCCL describe a machine (`NCCL_TOPO_FILE`, `NCCL_TOPO_DUMP_FILE`).
//!
//! There each PCI element above a device is a whole switch, and root ports are left out. Files that
//! clouds ship by hand often lack vendors and names; what follows from classes is taken instead.

use std::collections::HashMap;

use crate::machine::{MachineParts, UNNUMBERED, kind_of_vendor};
use crate::xml::{self, Element, XmlError, shortened};
use crate::{
    Certainty, CpuSet, DeviceKind, GpuLink, GpuLinkKind, HostBridgeIndex, Interface, InterfaceKind,
    LinkLayer, Locality, Machine, Nic, NicKind, NicName, Node, NumaNode, PciAddress, PciClass,
    PciDevice, PciIndex, PciKind, PciLink, Port, PortState, Source,
};

/// Reads a machine from the XML of NCCL or RCCL.
///
/// # Errors
/// Text that is no XML, is too large, or has another first element than `<system>`. Elements that
/// make no sense are left out with a note.
pub fn read_nccl_xml(text: &str) -> Result<Machine, XmlError> {
    let root = xml::parse(text)?;
    if root.name != "system" {
        return Err(XmlError::WrongRoot { found: shortened(&root.name), expected: "system" });
    }
    let mut reader = Reader {
        parts: MachineParts::default(),
        has_gpus: contains(&root, "gpu"),
        has_nics: contains(&root, "net"),
        links: Vec::new(),
    };
    for (position, cpu) in root.children_named("cpu").enumerate() {
        reader.read_node(cpu);
        reader.read_cpu(position, cpu);
    }
    reader.join_links();
    Ok(reader.parts.finish(Source::Nccl))
}

struct Reader<'a> {
    parts: MachineParts,
    has_gpus: bool,
    has_nics: bool,
    /// GPUs with the element that holds their links.
    links: Vec<(usize, &'a Element)>,
}

/// Where in the tree an element is.
#[derive(Clone, Copy)]
struct Place<'a> {
    host_bridge: HostBridgeIndex,
    parent: Option<PciIndex>,
    near: &'a Locality,
}

impl<'a> Reader<'a> {
    fn read_node(&mut self, cpu: &Element) {
        let cpus = cpu.attribute("affinity").and_then(CpuSet::parse_mask).unwrap_or_default();
        self.parts.cpus = self.parts.cpus.union(&cpus);
        let Some(number) = cpu.number("numaid").map(NumaNode::new) else {
            self.parts.note("cpu", "an element without the number of its NUMA node");
            return;
        };
        self.parts.add_node(Node {
            number,
            cpus,
            memory_bytes: None,
            distances: Vec::new(),
            certainty: Certainty::Told,
        });
    }

    fn read_cpu(&mut self, position: usize, cpu: &'a Element) {
        let near = cpu.number("numaid").map(NumaNode::new);
        let near = near.map_or(Locality::UNKNOWN, Locality::told);
        let name = format!("cpu{position}");
        let Some(host_bridge) = self.parts.host_bridge(&name, &near) else { return };
        let place = Place { host_bridge, parent: None, near: &near };
        for child in &cpu.children {
            match child.name.as_str() {
                "pci" => self.read_pci(child, place),
                "nic" => self.read_plain_interfaces(child, &near),
                _ => {}
            }
        }
    }

    fn read_pci(&mut self, element: &'a Element, place: Place<'_>) {
        let address = element.attribute("busid").and_then(|text| text.parse().ok());
        let Some(address) = address else {
            self.parts.note("pci", "an element without an address was left out");
            return;
        };
        let device = describe(element, address, place);
        let is_leaf = device.kind == PciKind::Endpoint;
        let class = device.class;
        let Some(index) = self.parts.add_pci(device) else { return };
        for child in &element.children {
            match child.name.as_str() {
                "pci" => self.read_pci(child, Place { parent: Some(index), ..place }),
                "gpu" => self.read_gpu(child, index),
                "nic" => self.read_nic(child, index),
                _ => {}
            }
        }
        if is_leaf && !self.has_gpus {
            self.parts.add_gpu_by_class(index);
        }
        if is_leaf && !self.has_nics && class.is_some_and(PciClass::is_network) {
            self.parts.note(address.to_string(), "a NIC without a name; its address is taken");
            self.add_nic(&address.to_string(), index, None);
        }
    }

    fn read_gpu(&mut self, element: &'a Element, pci: PciIndex) {
        let vendor = self.parts.pci[pci.position()].id.map(|id| id.0);
        let kind = vendor.and_then(kind_of_vendor).unwrap_or_else(|| gpu_of_element(element));
        let Some(position) = self.parts.add_gpu(pci, kind) else { return };
        let told = element.number("dev").filter(|index| *index != UNNUMBERED);
        let is_free = |index: &u32| {
            !self.parts.gpus.iter().any(|gpu| gpu.kind == kind && gpu.index == *index)
        };
        if let Some(index) = told.filter(is_free) {
            self.parts.gpus[position].index = index;
            self.parts.gpus[position].certainty = Certainty::Told;
        }
        self.links.push((position, element));
    }

    fn read_nic(&mut self, element: &Element, pci: PciIndex) {
        for net in element.children_named("net") {
            match net.attribute("name") {
                Some(name) => self.add_nic(name, pci, Some(net)),
                None => self.parts.note("net", "an element without a name was left out"),
            }
        }
    }

    fn add_nic(&mut self, name: &str, pci: PciIndex, net: Option<&Element>) {
        let Ok(name) = NicName::parse(name) else {
            self.parts.note("net", "a name that is none was left out");
            return;
        };
        let device = &self.parts.pci[pci.position()];
        let layer = match device.class.map(PciClass::kind) {
            Some(0x0207 | 0x0c06) => Some(LinkLayer::InfiniBand),
            Some(0x0200) => Some(LinkLayer::Ethernet),
            _ => None,
        };
        let number = net.and_then(|net| net.number("port")).unwrap_or(1);
        let rate = net.and_then(|net| net.number("speed")).filter(|rate| *rate > 0);
        let near = device.near.clone();
        let ports = vec![Port {
            number,
            state: PortState::Unknown,
            link_layer: layer,
            rate_mbps: rate,
            lid: None,
        }];
        self.parts.add_nic(Nic {
            name,
            kind: NicKind::Hardware,
            pci: Some(pci),
            near,
            ports,
            ports_are_known: true,
            interfaces: Vec::new(),
        });
    }

    /// What hangs on no PCI device is a socket interface.
    fn read_plain_interfaces(&mut self, element: &Element, near: &Locality) {
        for net in element.children_named("net") {
            self.parts.add_interface(Interface {
                name: shortened(net.attribute("name").unwrap_or("net")),
                kind: InterfaceKind::Virtual,
                is_up: true,
                speed_mbps: net.number("speed").filter(|speed| *speed > 0),
                pci: None,
                near: near.clone(),
            });
        }
    }

    fn join_links(&mut self) {
        let address = |gpu: usize| {
            let index = self.parts.gpus[gpu].pci?;
            Some(self.parts.pci[index.position()].address)
        };
        let by_address: HashMap<PciAddress, usize> =
            self.links.iter().filter_map(|(gpu, _)| Some((address(*gpu)?, *gpu))).collect();
        let mut on_switch: Vec<(usize, u32, u64)> = Vec::new();
        for (gpu, element) in std::mem::take(&mut self.links) {
            for link in &element.children {
                let kind = match link.name.as_str() {
                    "nvlink" => GpuLinkKind::NvLink,
                    "xgmi" => GpuLinkKind::Xgmi,
                    _ => continue,
                };
                let count = link.number("count");
                let target = link.attribute("target").and_then(|text| text.parse().ok());
                match target.and_then(|address| by_address.get(&address)) {
                    Some(other) if *other == gpu => {
                        self.parts.note("nvlink", "a link of a GPU to itself says nothing");
                    }
                    Some(other) => {
                        let (a, b) = (gpu, *other);
                        let link = GpuLink { a, b, kind, count, mb_s: None, switched: false };
                        self.parts.add_link(link);
                    }
                    None => add_up(&mut on_switch, gpu, count.unwrap_or(0)),
                }
            }
        }
        self.parts.add_switched(GpuLinkKind::NvLink, &on_switch);
    }
}

/// Whose GPU it is where the device does not say: RCCL writes names of AMD's chips.
fn gpu_of_element(element: &Element) -> DeviceKind {
    let is_amd = element.attribute("gcn").is_some() || contains(element, "xgmi");
    if is_amd { DeviceKind::Hip } else { DeviceKind::Cuda }
}

fn add_up(on_switch: &mut Vec<(usize, u32, u64)>, gpu: usize, count: u32) {
    match on_switch.iter_mut().find(|known| known.0 == gpu) {
        Some(known) => known.1 = known.1.saturating_add(count),
        None => on_switch.push((gpu, count, 0)),
    }
}

fn describe(element: &Element, address: PciAddress, place: Place<'_>) -> PciDevice {
    let class = element.attribute("class").and_then(PciClass::parse);
    let number = |name: &str| {
        let text = element.attribute(name)?;
        u16::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
    };
    let has_children = element.children_named("pci").next().is_some();
    let is_bridge = has_children || class.is_some_and(PciClass::is_pci_bridge);
    PciDevice {
        address,
        kind: if is_bridge { PciKind::Switch } else { PciKind::Endpoint },
        class,
        id: number("vendor").zip(number("device")),
        link: PciLink::parse(element.attribute("link_speed"), element.attribute("link_width")),
        parent: place.parent,
        host_bridge: place.host_bridge,
        near: place.near.clone(),
    }
}

fn contains(element: &Element, name: &str) -> bool {
    element.children.iter().any(|child| child.name == name || contains(child, name))
}
