//! Random machines against the oracle: paths, preferred NICs, and the order of all groups.

mod common;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use common::fixture::Fixture;
use common::oracle::{self, Device, Ports};
use proptest::prelude::*;
use te_topology::{Affinity, DeviceRef, Picker, Reach};

/// A machine being made up, as a fixture and as the oracle sees it.
struct Maker {
    dice: Picker,
    text: String,
    next_bus: u32,
    n_nics: usize,
    gpus: Vec<Device>,
    nics: Vec<Device>,
}

impl Maker {
    fn roll(&mut self, n: usize) -> usize {
        self.dice.pick(n).unwrap_or_default()
    }

    /// A bus of its own for each device, so that addresses are unique and grow.
    fn address(&mut self) -> String {
        self.next_bus += 1;
        format!("{:04x}:{:02x}:00.0", self.next_bus >> 8, self.next_bus & 0xff)
    }

    fn line(&mut self, depth: usize, line: &str) {
        let _ = writeln!(self.text, "{}{line}", "  ".repeat(depth));
    }

    /// A port with what hangs on it: a device, a switch with more ports, or a bare bus of two.
    fn port(&mut self, chain: &[String], node: Option<u32>, depth: usize) {
        let port = self.address();
        self.line(depth, &format!("{port} bridge"));
        let chain = [chain, &[port]].concat();
        match self.roll(if depth > 5 { 2 } else { 4 }) {
            0 => self.endpoint(&chain, node, depth + 1),
            1 => (0..2).for_each(|_| self.endpoint(&chain, node, depth + 1)),
            _ => {
                let upstream = self.address();
                self.line(depth + 1, &format!("{upstream} bridge"));
                let chain = [&*chain, &[upstream]].concat();
                for _ in 0..=self.roll(3) {
                    self.port(&chain, node, depth + 2);
                }
            }
        }
    }

    fn endpoint(&mut self, chain: &[String], node: Option<u32>, depth: usize) {
        let address = self.address();
        let chain = chain.to_vec();
        if self.roll(2) == 0 {
            self.line(depth, &format!("{address} gpu 10de:2330"));
            let name = format!("cuda:{}", self.gpus.len());
            self.gpus.push(Device { name, chain, node, speed: 0 });
        } else {
            let speed = [0, 100, 400][self.roll(3)];
            let rate = if speed == 0 { String::new() } else { format!("rate={speed}") };
            let name = format!("mlx5_{}", self.n_nics);
            self.n_nics += 1;
            self.line(depth, &format!("{address} nic {name} {rate}"));
            self.nics.push(Device { name, chain, node, speed });
        }
    }
}

/// Distances that tell every pair apart, in rows.
fn distance(a: u32, b: u32) -> u32 {
    if a == b { 10 } else { 20 + (a + b) % 3 }
}

fn make(seed: u64) -> (Maker, Vec<u32>) {
    let dice = Picker::random(seed);
    let text = String::new();
    let mut maker = Maker { dice, text, next_bus: 0, n_nics: 0, gpus: vec![], nics: vec![] };
    // At least two nodes: of a single one everything is near, whatever the files say.
    let nodes: Vec<u32> = (0..2 + u32::try_from(maker.roll(3)).unwrap_or(0)).collect();
    for node in &nodes {
        let row: Vec<String> = nodes.iter().map(|to| distance(*node, *to).to_string()).collect();
        maker.line(0, &format!("node {node} cpus={node} distances={}", row.join(",")));
    }
    for root in 0..1 + maker.roll(4) {
        let node = nodes.get(maker.roll(nodes.len() + 1)).copied();
        let told = node.map(|node| format!(" node={node}")).unwrap_or_default();
        let root = format!("pci0000:{root:02x}");
        maker.line(0, &format!("root {root}{told}"));
        for _ in 0..=maker.roll(3) {
            match maker.roll(4) {
                0 => maker.endpoint(std::slice::from_ref(&root), node, 1),
                _ => maker.port(std::slice::from_ref(&root), node, 1),
            }
        }
    }
    (maker, nodes)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// FB44 for machines that nobody built.
    #[test]
    fn fb44_random_machines_agree_with_the_oracle(seed in any::<u64>()) {
        let (maker, nodes) = make(seed);
        let machine = Fixture::parse(&maker.text).machine();
        prop_assert_eq!(machine.gpus().len(), maker.gpus.len());
        let nic_of: BTreeMap<&str, usize> =
            machine.nics().iter().enumerate().map(|(at, nic)| (nic.name.as_str(), at)).collect();
        for (at, gpu) in maker.gpus.iter().enumerate() {
            for nic in &maker.nics {
                let path = machine.path(DeviceRef::Gpu(at), DeviceRef::Nic(nic_of[nic.name.as_str()]));
                let back = machine.path(DeviceRef::Nic(nic_of[nic.name.as_str()]), DeviceRef::Gpu(at));
                prop_assert_eq!(path, back);
                prop_assert_eq!(path.to_string(), oracle::word(gpu, nic, Ports::All), "{}", maker.text);
            }
        }
        let expected =
            oracle::preferred(&maker.gpus, &maker.nics, &nodes, &distance, Ports::All);
        prop_assert_eq!(oracle::of_product(&machine), expected, "{}", maker.text);

        let affinity = Affinity::of(&machine);
        for row in affinity.rows() {
            let n: usize = row.groups.iter().map(|group| group.nics.len()).sum();
            prop_assert_eq!(n, maker.nics.len(), "each NIC is in one group");
            prop_assert!(row.groups.is_sorted_by_key(|group| group.class), "nearer groups first");
        }
        let strict = affinity.matrix(Reach::SameNode).unwrap();
        for (location, tiers) in strict.rows() {
            let gpu = maker.gpus.iter().find(|gpu| gpu.name == location);
            let node = match gpu {
                Some(gpu) => gpu.node,
                None => location[4..].parse().ok(),
            };
            let near = maker.nics.iter().filter(|nic| nic.node.is_some() && nic.node == node);
            prop_assert_eq!(tiers.preferred.len() + tiers.available.len(), near.count());
        }
    }
}
