//! Reads the XML of lstopo (hwloc), versions 2 and 3.

use std::collections::HashMap;

use crate::machine::{MachineParts, UNNUMBERED};
use crate::xml::{self, Element, XmlError, shortened};
use crate::{
    Certainty, CpuSet, HostBridgeIndex, Interface, InterfaceKind, Locality, Machine, Nic, NicKind,
    NicName, Node, NumaNode, PciClass, PciDevice, PciIndex, PciKind, PciLink, Port, PortState,
    Source,
};

mod distances;

/// Reads a machine from the XML that `lstopo FILE.xml` writes.
///
/// # Errors
/// Text that is no XML, is too large, has another first element than `<topology>`, or is of
/// another version than 2 and 3. Objects that make no sense are left out with a note.
pub fn read_lstopo_xml(text: &str) -> Result<Machine, XmlError> {
    let root = xml::parse(text)?;
    if root.name != "topology" {
        return Err(XmlError::WrongRoot { found: shortened(&root.name), expected: "topology" });
    }
    let version = root.attribute("version").unwrap_or("1");
    let device_types = match version.split('.').next() {
        Some("2") => DeviceTypes::Numbers,
        Some("3") => DeviceTypes::Bits,
        _ => return Err(XmlError::Version { version: shortened(version) }),
    };
    let mut reader =
        Reader { parts: MachineParts::default(), device_types, n_roots: 0, gpus: HashMap::new() };
    for object in root.children_named("object") {
        reader.read_nodes(object);
    }
    for object in root.children_named("object") {
        reader.read_object(object, &Locality::UNKNOWN);
    }
    reader.parts.tell_ports_apart();
    distances::read(&root, &mut reader.parts, &reader.gpus);
    Ok(reader.parts.finish(Source::Lstopo))
}

/// How a version writes the types of operating system devices.
#[derive(Clone, Copy)]
enum DeviceTypes {
    Numbers,
    Bits,
}

impl DeviceTypes {
    /// Network, RDMA and accelerator.
    fn read(self, element: &Element) -> (bool, bool, bool) {
        let value: u32 = element.number("osdev_type").unwrap_or(0);
        match self {
            Self::Numbers => (value == 2, value == 3, value == 5),
            Self::Bits => (value & 16 != 0 && value & 32 == 0, value & 32 != 0, value & 8 != 0),
        }
    }
}

struct Reader {
    parts: MachineParts,
    device_types: DeviceTypes,
    n_roots: usize,
    /// GPUs by the lasting numbers of their objects.
    gpus: HashMap<u64, usize>,
}

/// Where in the PCI tree an object is.
#[derive(Clone, Copy)]
struct Place<'a> {
    host_bridge: HostBridgeIndex,
    parent: Option<PciIndex>,
    near: &'a Locality,
}

impl Reader {
    fn read_nodes(&mut self, object: &Element) {
        if object.attribute("type") == Some("Machine") {
            let cpus = object.attribute("cpuset").and_then(CpuSet::parse_mask);
            self.parts.cpus = cpus.unwrap_or_default();
        }
        if object.attribute("type") == Some("NUMANode") {
            match object.number("os_index").map(NumaNode::new) {
                Some(number) => self.parts.add_node(Node {
                    number,
                    cpus: object
                        .attribute("cpuset")
                        .and_then(CpuSet::parse_mask)
                        .unwrap_or_default(),
                    memory_bytes: object.number("local_memory"),
                    distances: Vec::new(),
                    certainty: Certainty::Told,
                }),
                None => self.parts.note("NUMANode", "a node without a number was left out"),
            }
        }
        for child in object.children_named("object") {
            self.read_nodes(child);
        }
    }

    fn read_object(&mut self, object: &Element, near: &Locality) {
        let near = &self.locality(object).unwrap_or_else(|| near.clone());
        if object.attribute("type") == Some("Bridge") {
            let name = object.attribute("bridge_pci").unwrap_or("pci");
            self.n_roots += 1;
            let name = format!("{} #{}", shortened(name), self.n_roots);
            let Some(host_bridge) = self.parts.host_bridge(&name, near) else { return };
            let place = Place { host_bridge, parent: None, near };
            // A host bridge has no address of its own; a bridge with one lost its host bridge.
            match object.attribute("pci_busid") {
                Some(_) => self.read_io(object, place),
                None => {
                    object.children_named("object").for_each(|child| self.read_io(child, place))
                }
            }
        } else {
            for child in object.children_named("object") {
                self.read_object(child, near);
            }
        }
    }

    /// The nodes of an object; `None` if it does not say, or names all of several.
    fn locality(&self, object: &Element) -> Option<Locality> {
        let set = object.attribute("nodeset").and_then(CpuSet::parse_mask)?;
        let known = self.parts.nodes.iter().map(|node| node.number);
        let nodes: Vec<NumaNode> = known.filter(|node| set.contains(node.number())).collect();
        let all = nodes.len() == self.parts.nodes.len() && nodes.len() > 1;
        let mut near = Locality { nodes, certainty: Certainty::Told };
        near.nodes.sort_unstable();
        Some(if all { Locality::UNKNOWN } else { near })
    }

    fn read_io(&mut self, object: &Element, place: Place<'_>) {
        match object.attribute("type") {
            Some("Bridge" | "PCIDev") => self.read_pci(object, place),
            _ => self.parts.note("OSDev", "a device that hangs on no PCI device was left out"),
        }
    }

    fn read_pci(&mut self, object: &Element, place: Place<'_>) {
        let Some(device) = describe(object, place) else {
            self.parts.note("PCIDev", "an object without an address was left out");
            return;
        };
        let Some(index) = self.parts.add_pci(device) else { return };
        if object.attribute("type") == Some("PCIDev") {
            self.read_endpoint(object, index);
        }
        for child in object.children_named("object") {
            if matches!(child.attribute("type"), Some("Bridge" | "PCIDev")) {
                self.read_pci(child, Place { parent: Some(index), ..place });
            }
        }
    }

    fn read_endpoint(&mut self, object: &Element, index: PciIndex) {
        let os_devices: Vec<&Element> = object
            .children_named("object")
            .filter(|child| child.attribute("type") == Some("OSDev"))
            .collect();
        let gpu = self.parts.add_gpu_by_class(index);
        let mut interfaces = Vec::new();
        for device in &os_devices {
            let (is_network, is_rdma, is_accelerator) = self.device_types.read(device);
            let name = device.attribute("name").unwrap_or_default();
            if is_network {
                self.add_interface(name, index);
                interfaces.push(name.to_owned());
            }
            if is_rdma {
                self.add_nic(name, device, index);
            }
            if let (true, Some(gpu)) = (is_accelerator, gpu) {
                self.name_gpu(gpu, device);
            }
        }
        if let Some(gpu) = gpu {
            self.gpus.extend(object.number("gp_index").map(|number| (number, gpu)));
        }
        let here = |nic: &&mut Nic| nic.pci == Some(index);
        for nic in self.parts.nics.iter_mut().filter(here) {
            nic.interfaces.clone_from(&interfaces);
        }
    }

    fn add_interface(&mut self, name: &str, index: PciIndex) {
        let near = self.parts.pci[index.position()].near.clone();
        self.parts.add_interface(Interface {
            name: shortened(name),
            kind: InterfaceKind::Hardware,
            is_up: true,
            speed_mbps: None,
            pci: Some(index),
            near,
        });
    }

    fn add_nic(&mut self, name: &str, device: &Element, index: PciIndex) {
        let Ok(name) = NicName::parse(name) else {
            self.parts.note("OSDev", "a NIC whose name is none was left out");
            return;
        };
        let near = self.parts.pci[index.position()].near.clone();
        let ports = ports(device);
        self.parts.add_nic(Nic {
            name,
            kind: NicKind::Hardware,
            pci: Some(index),
            near,
            ports_are_known: !ports.is_empty(),
            ports,
            interfaces: Vec::new(),
        });
    }

    /// `cuda0`, `nvml0`, `rsmi0`: the driver's number.
    fn name_gpu(&mut self, position: usize, device: &Element) {
        self.gpus.extend(device.number("gp_index").map(|number| (number, position)));
        let model = device.children_named("info").find(|i| i.attribute("name") == Some("GPUModel"));
        let name = device.attribute("name").unwrap_or_default();
        let number = ["cuda", "nvml", "rsmi"].iter().find_map(|prefix| name.strip_prefix(prefix));
        let index: Option<u32> = number.and_then(|number| number.parse().ok());
        let gpu = &mut self.parts.gpus[position];
        if gpu.model.is_none() {
            gpu.model = model.and_then(|info| info.attribute("value")).map(shortened);
        }
        let kind = gpu.kind;
        let is_free = |index: &u32| {
            let taken = |gpu: &crate::Gpu| gpu.kind == kind && gpu.index == *index;
            *index != UNNUMBERED && !self.parts.gpus.iter().any(taken)
        };
        if let Some(index) = index.filter(is_free)
            && self.parts.gpus[position].certainty != Certainty::Told
        {
            self.parts.gpus[position].index = index;
            self.parts.gpus[position].certainty = Certainty::Told;
        }
    }
}

fn describe(object: &Element, place: Place<'_>) -> Option<PciDevice> {
    let address = object.attribute("pci_busid")?.parse().ok()?;
    // "0302 [10de:1db8] [10de:131d] a1 00"
    let mut words = object.attribute("pci_type").unwrap_or_default().split(' ');
    let hex = |text: &str| u16::from_str_radix(text, 16).ok();
    let class = words.next().and_then(hex).map(|kind| PciClass::new(u32::from(kind) << 8));
    let id = words.next().map(|word| word.trim_matches(['[', ']']));
    let id = id.and_then(|id| id.split_once(':')).and_then(|(v, d)| hex(v).zip(hex(d)));
    let is_bridge = object.attribute("type") == Some("Bridge");
    Some(PciDevice {
        address,
        kind: if is_bridge { PciKind::SwitchUpstream } else { PciKind::Endpoint },
        class,
        id,
        link: PciLink {
            total_mb_s: object.attribute("pci_link_speed").and_then(megabytes),
            ..PciLink::default()
        },
        parent: place.parent,
        host_bridge: place.host_bridge,
        near: place.near.clone(),
    })
}

/// Reads gigabytes per second, where zero means that they are not known.
fn megabytes(text: &str) -> Option<u32> {
    let speed = crate::pci::thousandths(text)?;
    u32::try_from(speed).ok().filter(|speed| *speed > 0)
}

/// `Port1State`, `Port1LID` and so on, counted from 1.
fn ports(device: &Element) -> Vec<Port> {
    let info = |name: String| {
        let mut all = device.children_named("info");
        all.find(|info| info.attribute("name") == Some(&name))?.attribute("value")
    };
    let port = |number: u8| {
        let state = info(format!("Port{number}State"))?;
        let lid = info(format!("Port{number}LID"));
        let lid = lid
            .and_then(|text| u16::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok());
        let state = PortState::from_text(state);
        Some(Port { number, state, link_layer: None, rate_mbps: None, lid })
    };
    (1..=u8::MAX).map_while(port).collect()
}
