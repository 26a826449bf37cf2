//! Distances in lstopo's XML: latencies between nodes, and bandwidths of NVLink.

use std::collections::HashMap;

use crate::machine::MachineParts;
use crate::xml::Element;
use crate::{GpuLink, GpuLinkKind, NumaNode};

/// More objects than this have no distances that anybody can use.
const MAX_OBJECTS: usize = 4096;
/// What one lane of NVLink 2 to 4 carries in one direction.
const LANE_MB_S: u64 = 25_000;

pub(super) fn read(root: &Element, parts: &mut MachineParts, gpus: &HashMap<u64, usize>) {
    for child in &root.children {
        let is_matrix = matches!(child.name.as_str(), "distances2" | "distances2hetero");
        match child.attribute("name").filter(|_| is_matrix) {
            Some("NUMALatency") => match Matrix::read(child) {
                Some(matrix) => read_nodes(&matrix, parts),
                None => parts.note("NUMALatency", "distances that are no square were left out"),
            },
            Some("NVLinkBandwidth") => match Matrix::read(child) {
                Some(matrix) => read_links(&matrix, parts, gpus),
                None => parts.note("NVLinkBandwidth", "bandwidths that are no square"),
            },
            _ => {}
        }
    }
    if parts.nodes.len() > 1 && parts.nodes.iter().any(|node| node.distances.is_empty()) {
        parts.note("distances", "there are none; 20 between two nodes is assumed");
    }
}

/// A square of numbers with the names of its rows.
struct Matrix {
    names: Vec<String>,
    values: Vec<u64>,
}

impl Matrix {
    fn read(element: &Element) -> Option<Self> {
        let words = |name: &'static str| {
            let texts = element.children_named(name).map(|child| child.text.as_str());
            texts.flat_map(str::split_whitespace)
        };
        let names: Vec<String> = words("indexes").map(str::to_owned).collect();
        let values: Option<Vec<u64>> = words("u64values").map(|word| word.parse().ok()).collect();
        let values = values?;
        let square = names.len() <= MAX_OBJECTS && names.len() * names.len() == values.len();
        square.then_some(Self { names, values })
    }

    fn row(&self, row: usize) -> impl Iterator<Item = (&String, u64)> {
        let n = self.names.len();
        self.names.iter().zip(self.values[row * n..(row + 1) * n].iter().copied())
    }
}

fn read_nodes(matrix: &Matrix, parts: &mut MachineParts) {
    for (row, name) in matrix.names.iter().enumerate() {
        let Ok(number) = name.parse::<u32>() else { continue };
        let distance = |(to, value): (&String, u64)| {
            Some((NumaNode::new(to.parse().ok()?), u32::try_from(value).ok()?))
        };
        let distances = matrix.row(row).filter_map(distance).collect();
        if let Some(node) = parts.nodes.iter_mut().find(|node| node.number.number() == number) {
            node.distances = distances;
        }
    }
}

/// Rows are `OSDev:802`: a kind of object and its lasting number. What is no GPU is a switch.
fn read_links(matrix: &Matrix, parts: &mut MachineParts, gpus: &HashMap<u64, usize>) {
    let gpu = |name: &str| {
        let (_, number) = name.split_once(':')?;
        gpus.get(&number.parse().ok()?).copied()
    };
    let kind = GpuLinkKind::NvLink;
    let mut on_switch = Vec::new();
    for (row, name) in matrix.names.iter().enumerate() {
        let Some(a) = gpu(name) else { continue };
        let mut to_switches = 0_u64;
        for (other, mb_s) in matrix.row(row).filter(|(_, mb_s)| *mb_s > 0) {
            match gpu(other) {
                Some(b) => {
                    let (count, mb_s) = (lanes(mb_s), Some(mb_s));
                    parts.add_link(GpuLink { a, b, kind, count, mb_s, switched: false });
                }
                None => to_switches = to_switches.saturating_add(mb_s),
            }
        }
        if to_switches > 0 {
            on_switch.push((a, lanes(to_switches).unwrap_or(0), to_switches));
        }
    }
    parts.add_switched(kind, &on_switch);
}

fn lanes(mb_s: u64) -> Option<u32> {
    let whole = mb_s.is_multiple_of(LANE_MB_S);
    whole.then(|| u32::try_from(mb_s / LANE_MB_S).ok()).flatten()
}
