//! NUMA nodes: `devices/system/node`.

use super::SysTree;
use super::tree::Folder;
use crate::machine::MachineParts;
use crate::{Certainty, CpuSet, Node, NumaNode};

/// More nodes than this are not read; the kernel's own limit is 1024.
const MAX_NODES: usize = 1024;

pub(super) fn read(tree: &SysTree, parts: &mut MachineParts) {
    let online_cpus = tree.text("sys/devices/system/cpu/online");
    parts.cpus = online_cpus.and_then(|text| CpuSet::parse_list(&text)).unwrap_or_default();
    let Some(folder) = tree.folder("sys/devices/system/node") else { return };
    let online = folder.line("online").and_then(|text| CpuSet::parse_list(&text));
    let mut numbers: Vec<u32> = folder.names().iter().filter_map(|name| number(name)).collect();
    numbers.sort_unstable();
    for number in numbers.iter().take(MAX_NODES) {
        if online.as_ref().is_some_and(|online| !online.contains(*number)) {
            parts.note(format!("node{number}"), "the node is offline and was left out");
            continue;
        }
        if let Some(node) = folder.folder(&format!("node{number}")) {
            let node = read_node(*number, &node, parts);
            parts.add_node(node);
        }
    }
    read_distances(tree, parts, online.as_ref());
    if parts.cpus.is_empty() {
        parts.cpus = parts.nodes.iter().fold(CpuSet::new(), |all, node| all.union(&node.cpus));
    }
}

fn number(name: &str) -> Option<u32> {
    name.strip_prefix("node").and_then(|digits| digits.parse().ok())
}

fn read_node(number: u32, folder: &Folder<'_>, parts: &mut MachineParts) -> Node {
    let list = folder.line("cpulist").and_then(|text| CpuSet::parse_list(&text));
    let mask = || folder.line("cpumap").and_then(|text| CpuSet::parse_mask(&text));
    Node {
        number: NumaNode::new(number),
        cpus: list.or_else(mask).unwrap_or_default(),
        memory_bytes: memory_bytes(folder, number, parts),
        distances: Vec::new(),
        certainty: Certainty::Told,
    }
}

/// Reads `Node 0 MemTotal:       65847948 kB`.
fn memory_bytes(folder: &Folder<'_>, number: u32, parts: &mut MachineParts) -> Option<u64> {
    let text = folder.text("meminfo").unwrap_or_default();
    let line = text.lines().find(|line| line.contains("MemTotal:"));
    let mut words = line?.split_whitespace().rev();
    let bytes = match (words.next(), words.next()?.parse::<u64>()) {
        (Some("kB"), Ok(kilobytes)) => kilobytes.checked_mul(1024),
        _ => None,
    };
    if bytes.is_none() {
        parts.note(format!("node{number}"), "its amount of memory cannot be read");
    }
    bytes
}

/// The row of each node has one number for each online node, in the order of their numbers.
fn read_distances(tree: &SysTree, parts: &mut MachineParts, online: Option<&CpuSet>) {
    let order: Vec<NumaNode> = match online {
        Some(online) => (0..u32::try_from(MAX_NODES).unwrap_or(u32::MAX))
            .filter(|number| online.contains(*number))
            .map(NumaNode::new)
            .collect(),
        None => parts.nodes.iter().map(|node| node.number).collect(),
    };
    for position in 0..parts.nodes.len() {
        let number = parts.nodes[position].number;
        let text = tree.text(&format!("sys/devices/system/node/node{number}/distance"));
        let row: Option<Vec<u32>> =
            text.and_then(|text| text.split_whitespace().map(|word| word.parse().ok()).collect());
        match row.filter(|row| row.len() == order.len()) {
            Some(row) => {
                parts.nodes[position].distances = order.iter().copied().zip(row).collect();
            }
            None if order.len() > 1 => parts.note(
                format!("node{number}"),
                "its distances are missing or wrong; 20 to every other node is assumed",
            ),
            None => {}
        }
    }
}
