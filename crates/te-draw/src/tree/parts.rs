//! The parts of the tree: places with their branches, and the tables below.

use te_topology::{DeviceRef, MemoryLocation};
use unicode_width::UnicodeWidthStr;

use super::layout::{Line, Out, Piece, Tone};
use crate::outline::{Branch, Bridge, Place};
use crate::subject::Subject;
use crate::words;

/// Names up to this width are padded to one column.
const WIDEST_PADDED: usize = 16;

/// The column that facts of devices begin at.
pub(super) fn name_width(subject: Subject<'_>) -> usize {
    let names = subject.nics().chain(subject.gpus()).map(|device| subject.name(device));
    names.map(|name| name.width()).filter(|width| *width <= WIDEST_PADDED).max().unwrap_or(0)
}

pub(super) fn place(out: &mut Out, subject: Subject<'_>, place: &Place, width: usize) {
    let mut pieces = Vec::new();
    let machine = subject.machine();
    match place.nodes.as_slice() {
        [] => pieces.push(Piece::new("no NUMA node known", Tone::Warning)),
        [node] => {
            pieces.push(Piece::new(format!("NUMA node {node} "), Tone::Strong));
            let facts = machine.node(*node).map(|node| {
                let memory = node.memory_bytes.map(words::memory);
                std::iter::once(words::cpus(node)).chain(memory).collect()
            });
            pieces.extend(listed(facts.unwrap_or_default(), Tone::Plain));
        }
        several => {
            let numbers: Vec<String> = several.iter().map(ToString::to_string).collect();
            let text = format!("near NUMA nodes {}", numbers.join(", "));
            pieces.push(Piece::new(text, Tone::Strong));
        }
    }
    let next = if place.branches.is_empty() { "  " } else { "│   " };
    out.line(&Line { first: String::new(), next: next.to_owned(), pieces });
    branches(out, subject, &place.branches, "", width);
}

fn branches(out: &mut Out, subject: Subject<'_>, list: &[Branch], above: &str, width: usize) {
    for (at, branch) in list.iter().enumerate() {
        let is_last = at + 1 == list.len();
        let (fork, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let (first, inner) = (format!("{above}{fork}"), format!("{above}{below}"));
        match branch {
            Branch::Device { device, behind } => {
                let mut pieces = device_pieces(subject, *device, width);
                let more = words::behind(*behind).map(|text| format!("({text})"));
                pieces.extend(more.map(|text| Piece::new(text, Tone::Dim)));
                out.line(&Line { first, next: format!("{inner}    "), pieces });
            }
            Branch::Bridge { at, below } => {
                let pieces = bridge_pieces(subject, *at);
                out.line(&Line { first, next: format!("{inner}│   "), pieces });
                branches(out, subject, below, &inner, width);
            }
        }
    }
}

fn bridge_pieces(subject: Subject<'_>, at: Bridge) -> Vec<Piece> {
    let machine = subject.machine();
    let (title, facts) = match at {
        Bridge::Host(index) => {
            let name = words::clean(&machine.host_bridges()[index.position()].name);
            ("host bridge", vec![name])
        }
        Bridge::Pci(index) => {
            let device = machine.pci_device(index);
            let address = device.address.to_string();
            let facts = std::iter::once(address).chain(words::pcie(&device.link)).collect();
            (words::bridge(device.kind), facts)
        }
    };
    let title = Piece::new(title, Tone::Bridge);
    std::iter::once(title).chain(listed(facts, Tone::Dim)).collect()
}

fn device_pieces(subject: Subject<'_>, device: DeviceRef, width: usize) -> Vec<Piece> {
    let name = subject.name(device);
    let pad = " ".repeat(width.saturating_sub(name.width()));
    let (tone, pci, mut facts) = match device {
        DeviceRef::Nic(at) => {
            let nic = &subject.machine().nics()[at];
            let tone = if nic.is_usable() { Tone::Nic } else { Tone::Warning };
            let mut facts: Vec<String> = vec![words::nic_link(nic)];
            facts.extend(words::nic_kind(nic).map(str::to_owned));
            facts.extend(words::ports(nic));
            facts.extend(nic.interfaces.iter().map(|name| words::clean(name)));
            (tone, nic.pci, facts)
        }
        DeviceRef::Gpu(at) => {
            let gpu = &subject.machine().gpus()[at];
            (Tone::Gpu, gpu.pci, gpu.model.iter().map(|model| words::clean(model)).collect())
        }
    };
    if let Some(pci) = pci.map(|index| subject.machine().pci_device(index)) {
        facts.extend(words::pcie(&pci.link));
        facts.extend(Some(pci.address.to_string()).filter(|address| *address != name));
    }
    let mut pieces = vec![Piece::new(format!("{name}{pad} "), tone)];
    pieces.extend(listed(facts, Tone::Plain));
    pieces
}

/// Facts with commas behind all but the last.
fn listed(facts: Vec<String>, tone: Tone) -> impl Iterator<Item = Piece> {
    let last = facts.len().saturating_sub(1);
    let comma = move |(at, fact): (usize, String)| {
        let end = if at == last { "" } else { "," };
        Piece::new(format!("{fact}{end}"), tone)
    };
    facts.into_iter().enumerate().map(comma)
}

fn heading(out: &mut Out, text: &str) {
    out.gap();
    out.line(&Line::plain(vec![Piece::new(text, Tone::Strong)]));
}

/// A table of distances, for several nodes.
pub(super) fn distances(out: &mut Out, subject: Subject<'_>) {
    let machine = subject.machine();
    if words::distances(machine).is_none() {
        return;
    }
    heading(out, "Distances between NUMA nodes");
    let row = |first: String, cells: Vec<String>| Line {
        first: format!("{first:>6}  "),
        next: " ".repeat(8),
        pieces: cells.into_iter().map(|c| Piece::new(format!("{c:>3}"), Tone::Plain)).collect(),
    };
    let nodes = machine.nodes();
    out.line(&row(String::new(), nodes.iter().map(|node| node.number.to_string()).collect()));
    for from in nodes {
        let cells = nodes.iter().map(|to| words::distance(machine, from, to)).collect();
        out.line(&row(from.number.to_string(), cells));
    }
}

/// Which NICs each memory uses, the best first; many are counted, not named.
pub(super) fn preferences(out: &mut Out, subject: Subject<'_>) {
    let rows = subject.affinity().rows();
    if rows.iter().all(|row| row.groups.is_empty()) {
        return;
    }
    heading(out, "NICs for each memory, the best first");
    let label = |location: &MemoryLocation| words::clean(&location.to_string());
    let width = rows.iter().map(|row| label(&row.location).width()).max().unwrap_or(0);
    for row in rows {
        let name = label(&row.location);
        let pad = " ".repeat(width - name.width());
        let mut pieces = Vec::new();
        for (at, group) in row.groups.iter().enumerate() {
            let bar = if at == 0 { "" } else { "| " };
            let (tone, most) = if at == 0 { (Tone::Nic, 16) } else { (Tone::Plain, 4) };
            if group.nics.len() > most {
                let n = words::count(group.nics.len(), "NIC");
                pieces.push(Piece::new(format!("{bar}{} {n}", group.class), tone));
                continue;
            }
            pieces.push(Piece::new(format!("{bar}{}", group.class), Tone::Dim));
            let names = group.nics.iter().map(|nic| Piece::new(words::clean(nic.as_str()), tone));
            pieces.extend(names);
        }
        let next = " ".repeat(width + 4);
        out.line(&Line { first: format!("  {name}{pad}  "), next, pieces });
    }
}

pub(super) fn gpu_links(out: &mut Out, subject: Subject<'_>) {
    let lines = words::gpu_links(subject);
    if lines.is_empty() {
        return;
    }
    heading(out, "Links between GPUs");
    for (word, text) in lines {
        let pieces =
            format!("{word} {text}").split(' ').map(|word| Piece::new(word, Tone::Plain)).collect();
        out.line(&Line { first: "  ".to_owned(), next: "    ".to_owned(), pieces });
    }
}

/// Interfaces for TCP, as far as the source has them.
pub(super) fn interfaces(out: &mut Out, subject: Subject<'_>) {
    let interfaces = words::interfaces(subject.machine());
    if interfaces.is_empty() {
        return;
    }
    heading(out, "Network interfaces");
    for (name, facts) in interfaces {
        let pieces =
            std::iter::once(Piece::new(name, Tone::Strong)).chain(listed(facts, Tone::Plain));
        let line =
            Line { first: "  ".to_owned(), next: "    ".to_owned(), pieces: pieces.collect() };
        out.line(&line);
    }
}

pub(super) fn notes(out: &mut Out, subject: Subject<'_>) {
    let notes = words::notes(subject.machine());
    if notes.is_empty() {
        return;
    }
    heading(out, "Notes");
    for (about, text) in notes {
        let text = format!("{about}: {text}");
        let pieces = text.split(' ').map(|word| Piece::new(word, Tone::Warning)).collect();
        out.line(&Line { first: "  ".to_owned(), next: "    ".to_owned(), pieces });
    }
}
