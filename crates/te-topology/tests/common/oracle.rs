//! A second opinion on affinity, slow and plain, written from the trees and not from the product.

use std::collections::{BTreeMap, BTreeSet};

use te_topology::Machine;

/// A device: the bridges above it from the root on, its node, and its speed if it is a NIC.
#[derive(Debug, Clone)]
pub(crate) struct Device {
    pub(crate) name: String,
    /// The first one is the root: a host bridge, or a CPU where host bridges are not told.
    pub(crate) chain: Vec<String>,
    pub(crate) node: Option<u32>,
    pub(crate) speed: u64,
}

/// Whether the chains name each port of a switch, or whole switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ports {
    All,
    Whole,
}

/// The word of `nvidia-smi topo` for the path between two devices.
pub(crate) fn word(a: &Device, b: &Device, ports: Ports) -> &'static str {
    let common = a.chain.iter().zip(&b.chain).take_while(|(x, y)| x == y).count();
    if common == 0 {
        let same = a.node.is_some() && a.node == b.node;
        return if same { "NODE" } else { "SYS" };
    }
    if common == 1 {
        return "PHB";
    }
    // Bridges left below the common one, on each side.
    let (left, right) = (a.chain.len() - common, b.chain.len() - common);
    // chain: root, root port, upstream, downstream, upstream, downstream …
    let is_upstream = ports == Ports::All && common >= 3 && common % 2 == 1;
    let allowed = usize::from(is_upstream);
    if left <= allowed && right <= allowed { "PIX" } else { "PXB" }
}

/// For each memory, the NICs that nothing beats.
pub(crate) fn preferred(
    gpus: &[Device],
    nics: &[Device],
    nodes: &[u32],
    distance: &dyn Fn(u32, u32) -> u32,
    ports: Ports,
) -> BTreeMap<String, BTreeSet<String>> {
    let order = ["PIX", "PXB", "PHB", "NODE", "SYS"];
    let far = |from: Option<u32>, to: Option<u32>| match (from, to) {
        (Some(from), Some(to)) => distance(from, to),
        _ => u32::MAX,
    };
    let mut all = BTreeMap::new();
    for gpu in gpus {
        let cost = |nic: &Device| {
            let word = word(gpu, nic, ports);
            let common = gpu.chain.iter().zip(&nic.chain).take_while(|(x, y)| x == y).count();
            let bridges = match word {
                "PIX" | "PXB" => gpu.chain.len() + nic.chain.len() - 2 * common,
                _ => 0,
            };
            let class = order.iter().position(|known| *known == word).unwrap();
            (class, bridges, far(gpu.node, nic.node), u64::MAX - nic.speed)
        };
        all.insert(gpu.name.clone(), best(nics, cost));
    }
    for node in nodes {
        let cost = |nic: &Device| {
            (nic.node != Some(*node), 0, far(Some(*node), nic.node), u64::MAX - nic.speed)
        };
        all.insert(format!("cpu:{node}"), best(nics, cost));
    }
    all
}

fn best<C: Ord>(nics: &[Device], cost: impl Fn(&Device) -> C) -> BTreeSet<String> {
    let least = nics.iter().map(&cost).min();
    let equal = nics.iter().filter(|nic| Some(cost(nic)) == least);
    equal.map(|nic| nic.name.clone()).collect()
}

/// What the product says, in the same form.
pub(crate) fn of_product(machine: &Machine) -> BTreeMap<String, BTreeSet<String>> {
    let matrix = super::matrix(machine);
    let row = |(name, tiers): (&str, &te_topology::NicTiers)| {
        (name.to_owned(), tiers.preferred.iter().map(ToString::to_string).collect())
    };
    matrix.rows().map(row).collect()
}
