//! Machines that a guest can be: processors, NUMA nodes, network cards, RDMA links.
//!
//! What a machine promises to be is here once; the options of qemu, the shape of the RDMA links and
//! what the suite expects to see in the guest are all made from it.

use anyhow::{Context as _, ensure};

/// One kind of machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it is for, in one line.
    pub(crate) about: &'static str,
    /// Its nodes; an empty list is a machine that says nothing of nodes.
    pub(crate) nodes: Vec<Node>,
    /// Network cards, in the order of their PCI addresses.
    pub(crate) cards: Vec<Card>,
    /// What the RDMA devices stand on.
    pub(crate) links: Links,
}

/// One NUMA node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node {
    /// How many processors it has; 0 is a node of memory alone.
    pub(crate) n_cpus: u32,
}

/// A PCI device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Card {
    /// A network card below the host bridge of this node.
    Nic(usize),
    /// A PCIe switch below the host bridge of this node, with a network card and a display, which
    /// stands for a GPU.
    NicAndGpu(usize),
    /// A network card on the root bus, which belongs to no node.
    Rootless,
}

/// What the RDMA devices stand on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// Pairs of virtual Ethernet devices: the two ends of a pair are one link.
    Pairs(u32),
    /// Virtual Ethernet devices behind one bridge: each has a link of its own, all see each other.
    Star(u32),
    /// The network cards, on one hub.
    Cards,
}

impl Machine {
    /// The machine of this name.
    pub(crate) fn named(name: &str) -> anyhow::Result<Self> {
        let names = || all().iter().map(|machine| machine.name).collect::<Vec<_>>().join(", ");
        let found = all().into_iter().find(|machine| machine.name == name);
        found.with_context(|| format!("there is no machine `{name}`; there are {}", names()))
    }

    /// A machine with so many RDMA devices on so many nodes, spread evenly.
    pub(crate) fn with(n_nics: u32, n_nodes: u32) -> anyhow::Result<Self> {
        ensure!((1..=16).contains(&n_nics), "a guest has 1 to 16 NICs");
        ensure!((1..=8).contains(&n_nodes), "a guest has 1 to 8 nodes");
        let own =
            Self { name: "own", about: "", nodes: nodes(1), cards: vec![], links: Links::Cards };
        Ok(match (n_nodes, n_nics) {
            (1, 2) => Self { links: Links::Pairs(1), ..own },
            (1, _) => Self { links: Links::Star(n_nics), ..own },
            _ => {
                let node_of = |nic: u32| usize::try_from(nic * n_nodes / n_nics);
                let cards = (0..n_nics).map(|nic| Ok(Card::Nic(node_of(nic)?)));
                let cards: Result<_, std::num::TryFromIntError> = cards.collect();
                Self { nodes: nodes(n_nodes), cards: cards?, ..own }
            }
        })
    }

    /// How many RDMA devices it has.
    pub(crate) fn n_devices(&self) -> usize {
        match self.links {
            Links::Pairs(n) => usize::try_from(n).map_or(0, |n| n * 2),
            Links::Star(n) => usize::try_from(n).unwrap_or(0),
            Links::Cards => self.cards.len(),
        }
    }

    /// The node of each RDMA device, in their order, where it has one.
    pub(crate) fn device_nodes(&self) -> Vec<Option<usize>> {
        let node = |card: &Card| match card {
            Card::Nic(node) | Card::NicAndGpu(node) => Some(*node),
            Card::Rootless => None,
        };
        match self.links {
            Links::Cards => self.cards.iter().map(node).collect(),
            Links::Pairs(_) | Links::Star(_) => vec![None; self.n_devices()],
        }
    }

    /// How many processors it has.
    pub(crate) fn n_cpus(&self) -> u32 {
        if self.nodes.is_empty() { 2 } else { self.nodes.iter().map(|node| node.n_cpus).sum() }
    }

    /// Words for the script that makes the links.
    pub(crate) fn link_words(&self) -> Vec<String> {
        match self.links {
            Links::Pairs(n) => vec!["pairs".to_owned(), n.to_string()],
            Links::Star(n) => vec!["star".to_owned(), n.to_string()],
            Links::Cards => vec!["cards".to_owned()],
        }
    }

    /// Groups of kernel modules that it needs beside the usual ones.
    pub(crate) fn module_groups(&self) -> Vec<&'static str> {
        match self.links {
            Links::Pairs(_) => vec![],
            Links::Star(_) => vec!["bridge"],
            Links::Cards => vec!["cards"],
        }
    }

    /// Options of qemu: chipset, memory of each node, PCI devices.
    pub(crate) fn options(&self, memory_mib: u32) -> Vec<String> {
        let mut options = Options::default();
        options.add("-machine", "q35".to_owned());
        options.add("-smp", self.n_cpus().to_string());
        options.add("-m", format!("{memory_mib}M"));
        if self.nodes.len() > 1 {
            self.add_nodes_to(&mut options, memory_mib);
        }
        for (index, card) in self.cards.iter().enumerate() {
            card.add_to(index, &mut options);
        }
        options.0
    }

    fn add_nodes_to(&self, options: &mut Options, memory_mib: u32) {
        let n = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let share = memory_mib / n;
        let mut first = 0;
        for (index, node) in self.nodes.iter().enumerate() {
            // The first takes what the division leaves.
            let own = if index == 0 { memory_mib - share * (n - 1) } else { share };
            options.add("-object", format!("memory-backend-ram,id=m{index},size={own}M"));
            let cpus = match node.n_cpus {
                0 => String::new(),
                n => format!(",cpus={first}-{}", first + n - 1),
            };
            options.add("-numa", format!("node,nodeid={index}{cpus},memdev=m{index}"));
            first += node.n_cpus;
        }
        for (a, b) in (0..self.nodes.len()).flat_map(|a| (0..a).map(move |b| (a, b))) {
            // Neighbours are nearer than others, so that distances tell nodes apart.
            let distance = if a == b + 1 { 21 } else { 31 };
            options.add("-numa", format!("dist,src={a},dst={b},val={distance}"));
            options.add("-numa", format!("dist,src={b},dst={a},val={distance}"));
        }
        for index in 0..self.nodes.len().min(MAX_BRIDGES) {
            // Buses of one bridge are numbered from its own number to that of the next.
            let bus = 32 + 28 * index;
            let place = format!("pxb-pcie,id=pxb{index},bus_nr={bus},bus=pcie.0,numa_node={index}");
            options.add("-device", place);
        }
    }
}

/// Host bridges beside the first: one for each node.
const MAX_BRIDGES: usize = 8;

impl Card {
    fn add_to(self, index: usize, options: &mut Options) {
        let slot = index + 1;
        match self {
            Self::Rootless => options.nic(index, "pcie.0"),
            Self::Nic(node) => {
                options.root_port(index, node, slot);
                options.nic(index, &format!("rp{index}"));
            }
            Self::NicAndGpu(node) => {
                options.root_port(index, node, slot);
                options.add("-device", format!("x3130-upstream,id=up{index},bus=rp{index}"));
                for half in [0, 1] {
                    let chassis = 32 + slot * 2 + half;
                    options.add(
                        "-device",
                        format!(
                            "xio3130-downstream,id=dn{index}{half},bus=up{index},\
                             chassis={chassis},slot={chassis}"
                        ),
                    );
                }
                options.nic(index, &format!("dn{index}0"));
                options.add("-device", format!("bochs-display,bus=dn{index}1"));
            }
        }
    }
}

#[derive(Default)]
struct Options(Vec<String>);

impl Options {
    fn add(&mut self, option: &str, value: String) {
        self.0.extend([option.to_owned(), value]);
    }

    fn root_port(&mut self, index: usize, node: usize, slot: usize) {
        let bus = format!("bus=pxb{node},chassis={slot},slot={slot}");
        self.add("-device", format!("pcie-root-port,id=rp{index},{bus}"));
    }

    fn nic(&mut self, index: usize, bus: &str) {
        self.add("-netdev", format!("hubport,id=n{index},hubid=0"));
        let card = format!("netdev=n{index},bus={bus},mac=52:54:00:00:00:{index:02x}");
        self.add("-device", format!("virtio-net-pci,{card},romfile=,host_mtu=4200"));
    }
}

fn nodes(n: u32) -> Vec<Node> {
    (0..n).map(|_| Node { n_cpus: 2 }).collect()
}

/// All machines that have a name.
pub(crate) fn all() -> Vec<Machine> {
    let two = || vec![Card::Nic(0), Card::Nic(0), Card::Nic(1), Card::Nic(1)];
    let mut with_memory = nodes(2);
    with_memory.push(Node { n_cpus: 0 });
    vec![
        Machine {
            name: "pair",
            about: "one node; two devices, the two ends of one link",
            nodes: nodes(1),
            cards: vec![],
            links: Links::Pairs(1),
        },
        Machine {
            name: "quad",
            about: "one node; four devices in two pairs, each pair one link",
            nodes: nodes(1),
            cards: vec![],
            links: Links::Pairs(2),
        },
        Machine {
            name: "star",
            about: "one node; four devices, each with a link of its own to a common bridge",
            nodes: nodes(1),
            cards: vec![],
            links: Links::Star(4),
        },
        Machine {
            name: "numa2",
            about: "two nodes with two network cards each, below host bridges of their own",
            nodes: nodes(2),
            cards: two(),
            links: Links::Cards,
        },
        Machine {
            name: "switch",
            about: "two nodes; on the second a PCIe switch with a network card and a display",
            nodes: nodes(2),
            cards: vec![Card::Nic(0), Card::Nic(1), Card::NicAndGpu(1)],
            links: Links::Cards,
        },
        Machine {
            name: "no-numa",
            about: "two network cards on the root bus; nothing says a node",
            nodes: vec![],
            cards: vec![Card::Rootless, Card::Rootless],
            links: Links::Cards,
        },
        Machine {
            name: "memory-node",
            about: "two nodes with a card each, and a third of memory alone",
            nodes: with_memory,
            cards: vec![Card::Nic(0), Card::Nic(1)],
            links: Links::Cards,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nics_are_spread_evenly_over_nodes() {
        let nodes = |nics, nodes| Machine::with(nics, nodes).unwrap().device_nodes();
        assert_eq!(nodes(4, 2), [Some(0), Some(0), Some(1), Some(1)]);
        assert_eq!(nodes(3, 2), [Some(0), Some(0), Some(1)]);
        assert_eq!(nodes(2, 1), [None, None]);
        assert!(Machine::with(0, 1).is_err() && Machine::with(17, 1).is_err());
        assert!(Machine::with(2, 9).is_err());
    }

    #[test]
    fn memory_is_shared_out_without_a_rest() {
        let machine = Machine::named("memory-node").unwrap();
        let options = machine.options(1024).join(" ");
        for part in ["m0,size=342M", "m1,size=341M", "m2,size=341M", "nodeid=2,memdev=m2"] {
            assert!(options.contains(part), "{part} is not in {options}");
        }
        assert!(options.contains("-smp 4 "));
    }

    #[test]
    fn every_bridge_has_a_bus_number_of_its_own() {
        let options = Machine::with(8, 8).unwrap().options(2048);
        let mut numbers: Vec<u32> = options
            .iter()
            .filter_map(|option| option.split("bus_nr=").nth(1)?.split(',').next()?.parse().ok())
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers.len(), 8);
        assert!(numbers.windows(2).all(|pair| pair[1] - pair[0] >= 8), "{numbers:?}");
        assert!(numbers.iter().all(|number| (8..=247).contains(number)), "{numbers:?}");
    }

    #[test]
    fn names_are_unique_and_an_unknown_one_lists_them() {
        let mut names: Vec<_> = all().iter().map(|machine| machine.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().len());
        let error = Machine::named("big").unwrap_err().to_string();
        assert!(error.contains("numa2"), "{error}");
    }
}
