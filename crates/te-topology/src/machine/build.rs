//! Puts a machine together from what a reader found.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::gpu::gpu_kind;
use super::{
    Certainty, Gpu, GpuLink, GpuLinkKind, HostBridge, HostBridgeIndex, Interface, Locality,
    Machine, Nic, Node, Note, PciDevice, PciIndex, PciKind, Source,
};
use crate::{CpuSet, DeviceKind, NicName, NumaNode};

/// What readers fill; [`MachineParts::finish`] brings it in order.
#[derive(Debug, Default)]
pub(crate) struct MachineParts {
    pub(crate) cpus: CpuSet,
    pub(crate) nodes: Vec<Node>,
    pub(crate) host_bridges: Vec<HostBridge>,
    pub(crate) pci: Vec<PciDevice>,
    pub(crate) nics: Vec<Nic>,
    pub(crate) gpus: Vec<Gpu>,
    gpu_links: BTreeMap<(usize, usize), GpuLink>,
    pub(crate) interfaces: Vec<Interface>,
    notes: BTreeSet<Note>,
}

/// So many NICs, GPUs, nodes, interfaces and host bridges each are kept. It is what one row of a
/// matrix may hold, and bounds what ranking costs.
const MAX_OF_A_KIND: usize = crate::MAX_NICS_PER_LIST;

/// More notes than this help nobody.
const MAX_NOTES: usize = 1000;

impl MachineParts {
    pub(crate) fn note(&mut self, subject: impl Into<String>, text: impl Into<String>) {
        if self.notes.len() < MAX_NOTES {
            self.notes.insert(Note { subject: subject.into(), text: text.into() });
        }
    }

    /// The host bridge with a name; it is made if it is new.
    pub(crate) fn host_bridge(&mut self, name: &str, near: &Locality) -> Option<HostBridgeIndex> {
        let known = self.host_bridges.iter().position(|bridge| bridge.name == name);
        let position = known.unwrap_or(self.host_bridges.len());
        if known.is_none() {
            if !self.has_room(self.host_bridges.len(), "host bridges") {
                return None;
            }
            self.host_bridges.push(HostBridge { name: name.to_owned(), near: near.clone() });
        }
        let index = HostBridgeIndex::new(position)?;
        let bridge = &mut self.host_bridges[position];
        if !bridge.near.is_known() {
            bridge.near = near.clone();
        }
        Some(index)
    }

    /// Adds a PCI device, whose parent was added before.
    pub(crate) fn add_pci(&mut self, device: PciDevice) -> Option<PciIndex> {
        let index = PciIndex::new(self.pci.len())?;
        self.pci.push(device);
        Some(index)
    }

    /// Adds a GPU for a PCI device whose class and vendor say that it is one. Its index is given
    /// by [`Self::finish`].
    pub(crate) fn add_gpu_by_class(&mut self, pci: PciIndex) -> Option<usize> {
        let device = &self.pci[pci.position()];
        let kind = gpu_kind(device.class?, device.id)?;
        self.add_gpu(pci, kind)
    }

    /// Adds a GPU of a kind that the source says.
    pub(crate) fn add_gpu(&mut self, pci: PciIndex, kind: DeviceKind) -> Option<usize> {
        if !self.has_room(self.gpus.len(), "GPUs") {
            return None;
        }
        let device = &self.pci[pci.position()];
        self.gpus.push(Gpu {
            kind,
            index: UNNUMBERED,
            certainty: Certainty::Inferred,
            pci: Some(pci),
            near: device.near.clone(),
            model: None,
        });
        Some(self.gpus.len() - 1)
    }

    pub(crate) fn add_nic(&mut self, nic: Nic) {
        if self.has_room(self.nics.len(), "NICs") {
            self.nics.push(nic);
        }
    }

    pub(crate) fn add_node(&mut self, node: Node) {
        if self.has_room(self.nodes.len(), "NUMA nodes") {
            self.nodes.push(node);
        }
    }

    pub(crate) fn add_interface(&mut self, interface: Interface) {
        if self.has_room(self.interfaces.len(), "network interfaces") {
            self.interfaces.push(interface);
        }
    }

    fn has_room(&mut self, n_known: usize, what: &str) -> bool {
        let has_room = n_known < MAX_OF_A_KIND;
        if !has_room {
            // One note for each kind, which must not be lost among a thousand others.
            let text = format!("there are more than {MAX_OF_A_KIND}; the rest was left out");
            self.notes.insert(Note { subject: what.to_owned(), text });
        }
        has_room
    }

    /// Adds a link between two GPUs; what is known of the pair already stays.
    pub(crate) fn add_link(&mut self, link: GpuLink) {
        let (a, b) = (link.a.min(link.b), link.a.max(link.b));
        if a != b {
            self.gpu_links.entry((a, b)).or_insert(GpuLink { a, b, ..link });
        }
    }

    /// Links every pair of the GPUs that hang on switches of one kind.
    pub(crate) fn add_switched(&mut self, kind: GpuLinkKind, on_switch: &[(usize, u32, u64)]) {
        for (position, a) in on_switch.iter().enumerate() {
            for b in &on_switch[position + 1..] {
                self.add_link(GpuLink {
                    a: a.0,
                    b: b.0,
                    kind,
                    count: Some(a.1.min(b.1)).filter(|count| *count > 0),
                    mb_s: Some(a.2.min(b.2)).filter(|speed| *speed > 0),
                    switched: true,
                });
            }
        }
    }

    /// The nodes that have CPUs of a set, unless the set says nothing: it is empty, or all CPUs of
    /// a machine with several nodes.
    pub(crate) fn nodes_of_cpus(&self, cpus: &CpuSet) -> Locality {
        let near = |node: &&Node| node.cpus.intersects(cpus);
        let nodes: Vec<NumaNode> = self.nodes.iter().filter(near).map(|n| n.number).collect();
        let with_cpus = self.nodes.iter().filter(|node| !node.cpus.is_empty()).count();
        if nodes.len() == with_cpus && with_cpus > 1 {
            return Locality::UNKNOWN;
        }
        Locality { nodes, certainty: Certainty::Inferred }
    }

    /// The whole machine, in order.
    pub(crate) fn finish(mut self, source: Source) -> Machine {
        self.assume_a_node();
        self.nodes.sort_by_key(|node| node.number);
        self.nodes.dedup_by_key(|node| node.number);
        self.refuse_twin_nics();
        self.nics.sort_by(|a, b| natural_order(a.name.as_str(), b.name.as_str()));
        self.interfaces.sort_by(|a, b| natural_order(&a.name, &b.name));
        self.number_gpus();
        self.sort_gpus();
        Machine {
            source,
            cpus: self.cpus,
            nodes: self.nodes,
            host_bridges: self.host_bridges,
            pci: self.pci,
            nics: self.nics,
            gpus: self.gpus,
            gpu_links: self.gpu_links.into_values().collect(),
            interfaces: self.interfaces,
            notes: self.notes.into_iter().collect(),
        }
    }

    /// A machine without NUMA is one node, and everything is near it.
    fn assume_a_node(&mut self) {
        if self.nodes.is_empty() {
            self.note("nodes", "the source has no NUMA nodes; all CPUs count as node 0");
            self.nodes.push(Node {
                number: NumaNode::new(0),
                cpus: self.cpus.clone(),
                memory_bytes: None,
                distances: Vec::new(),
                certainty: Certainty::Assumed,
            });
        }
        let [only] = self.nodes.as_slice() else { return };
        let near = Locality { nodes: vec![only.number], certainty: Certainty::Assumed };
        let places = self.pci.iter_mut().map(|device| &mut device.near);
        let places = places.chain(self.nics.iter_mut().map(|nic| &mut nic.near));
        let places = places.chain(self.gpus.iter_mut().map(|gpu| &mut gpu.near));
        let places = places.chain(self.interfaces.iter_mut().map(|interface| &mut interface.near));
        let places = places.chain(self.host_bridges.iter_mut().map(|bridge| &mut bridge.near));
        for place in places.filter(|place| !place.is_known()) {
            *place = near.clone();
        }
    }

    fn refuse_twin_nics(&mut self) {
        let mut seen = BTreeSet::<NicName>::new();
        let nics = std::mem::take(&mut self.nics);
        for nic in nics {
            match seen.insert(nic.name.clone()) {
                true => self.nics.push(nic),
                false => self.note(nic.name.as_str(), "a second NIC of this name was left out"),
            }
        }
    }

    /// GPUs without a driver's number are counted in the order of their PCI addresses.
    fn number_gpus(&mut self) {
        let unnumbered = |gpu: &Gpu| gpu.index == UNNUMBERED;
        let mut order: Vec<usize> = (0..self.gpus.len()).collect();
        order.retain(|position| unnumbered(&self.gpus[*position]));
        order.sort_by_key(|position| {
            self.gpus[*position].pci.map(|index| self.pci[index.position()].address)
        });
        let mut next: HashMap<DeviceKind, u32> = HashMap::new();
        for gpu in self.gpus.iter().filter(|gpu| !unnumbered(gpu)) {
            let free = next.entry(gpu.kind).or_default();
            *free = (*free).max(gpu.index.saturating_add(1));
        }
        for position in order {
            let gpu = &mut self.gpus[position];
            let free = next.entry(gpu.kind).or_default();
            gpu.index = *free;
            *free = free.saturating_add(1);
        }
    }

    fn sort_gpus(&mut self) {
        let mut order: Vec<usize> = (0..self.gpus.len()).collect();
        order.sort_by_key(|position| (self.gpus[*position].kind, self.gpus[*position].index));
        let mut place = vec![0; order.len()];
        for (new, old) in order.iter().enumerate() {
            place[*old] = new;
        }
        self.gpus = order.iter().map(|position| self.gpus[*position].clone()).collect();
        let links = std::mem::take(&mut self.gpu_links).into_values();
        let moved = links.map(|link| {
            let (a, b) = (place[link.a], place[link.b]);
            let (a, b) = (a.min(b), a.max(b));
            ((a, b), GpuLink { a, b, ..link })
        });
        self.gpu_links = moved.collect();
    }

    /// Tells ports of switches from root ports, where the source has every port: below a root port
    /// a switch begins with its upstream port, and its downstream ports follow.
    pub(crate) fn tell_ports_apart(&mut self) {
        let mut depth: Vec<usize> = Vec::with_capacity(self.pci.len());
        for position in 0..self.pci.len() {
            let above = self.pci[position].parent.map(|parent| depth[parent.position()] + 1);
            depth.push(above.unwrap_or(0));
            let device = &mut self.pci[position];
            if device.kind.is_bridge() {
                device.kind = match depth[position] {
                    0 => PciKind::RootPort,
                    odd if odd % 2 == 1 => PciKind::SwitchUpstream,
                    _ => PciKind::SwitchDownstream,
                };
            }
        }
    }
}

/// Stands for an index that no driver gave.
pub(crate) const UNNUMBERED: u32 = u32::MAX;

/// Compares names so that `mlx5_10` comes after `mlx5_9`; equal only for equal texts.
pub(crate) fn natural_order(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a.as_bytes(), b.as_bytes());
    while let (Some(x), Some(y)) = (left.first(), right.first()) {
        if x.is_ascii_digit() && y.is_ascii_digit() {
            let ((m, rest_left), (n, rest_right)) = (split_number(left), split_number(right));
            match m.len().cmp(&n.len()).then_with(|| m.cmp(n)) {
                Ordering::Equal => (left, right) = (rest_left, rest_right),
                unequal => return unequal,
            }
        } else if x == y {
            (left, right) = (&left[1..], &right[1..]);
        } else {
            return x.cmp(y);
        }
    }
    left.len().cmp(&right.len()).then_with(|| a.cmp(b))
}

/// The digits at the front without leading zeros, and the rest.
fn split_number(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let first = digits.iter().position(|b| *b != b'0').unwrap_or(digits.len());
    (&digits[first..], rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let mut names = ["mlx5_10", "mlx5_9", "mlx5_bond_0", "mlx4_0", "mlx5_09", "mlx5_1"];
        names.sort_by(|a, b| natural_order(a, b));
        assert_eq!(names, ["mlx4_0", "mlx5_1", "mlx5_09", "mlx5_9", "mlx5_10", "mlx5_bond_0"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_order_of_names_is_an_order(names in prop::collection::vec("[ab0-2]{0,5}", 3)) {
            let [a, b, c] = [&names[0], &names[1], &names[2]];
            prop_assert_eq!(natural_order(a, b), natural_order(b, a).reverse());
            prop_assert_eq!(natural_order(a, b) == Ordering::Equal, a == b);
            if natural_order(a, b).is_le() && natural_order(b, c).is_le() {
                prop_assert!(natural_order(a, c).is_le());
            }
        }
    }
}
