//! The machine itself: NUMA nodes, host bridges and switches as bars, devices as cards on them.
//!
//! Everything hangs on the bar above it. Where a row would be too wide there are several, all fed
//! by a line along the left edge. Of some layouts the one is taken that fits best on a screen.

mod block;
mod card;

pub(crate) use card::key;

use crate::board::block::{Bar, block};
use crate::board::card::Cards;
use crate::ink::Ink;
use crate::metrics::Face;
use crate::outline::{Branch, Bridge, Outline, Place};
use crate::scene::{Area, Scene, Spot};
use crate::subject::Subject;
use crate::words;

/// Draws the machine.
pub(crate) fn board(subject: Subject<'_>) -> Scene {
    let outline = Outline::of(subject.machine());
    let most = i32::try_from(outline.places.len().min(4)).unwrap_or(1).max(1);
    let layouts = Cards::choices(subject).into_iter().flat_map(move |cards| {
        let columns = move |width| (1..=most).map(move |columns| (cards, width, columns));
        WIDTHS.into_iter().flat_map(columns)
    });
    let drawn = layouts.map(|(cards, width, columns)| {
        let each = (width - (columns - 1) * block::GAP) / columns - 2 * PADDING;
        let places = outline.places.iter().map(|place| panel(&cards, place, each)).collect();
        machine(subject, places, width)
    });
    // A page is scrolled down rather than across, so height costs more than width.
    let screen = |scene: &Scene| scene.w + 3 * scene.h;
    drawn.min_by_key(screen).unwrap_or_default()
}

/// Widths that are tried.
const WIDTHS: [i32; 3] = [900, 1120, 1340];
/// Between the edge of a panel and what is in it.
const PADDING: i32 = 12;

fn machine(subject: Subject<'_>, places: Vec<Scene>, width: i32) -> Scene {
    if subject.machine().nodes().len() < 2 {
        return block(None, places, width);
    }
    let bar = Bar {
        lines: vec![
            ("between NUMA nodes".to_owned(), Face::bold(12), Ink::Text),
            (words::distance_range(subject.machine()), Face::plain(11), Ink::Muted),
        ],
        fill: Ink::Sys,
        edge: Ink::IdleEdge,
        key: String::new(),
        details: distance_table(subject),
    };
    block(Some(&bar), places, width)
}

/// The distances from each node, a line each.
fn distance_table(subject: Subject<'_>) -> Vec<String> {
    let machine = subject.machine();
    let row = |from: &te_topology::Node| {
        let all: Vec<String> =
            machine.nodes().iter().map(|to| words::distance(machine, from, to)).collect();
        format!("from node {}: {}", from.number, all.join(" "))
    };
    let title = "distances between NUMA nodes".to_owned();
    std::iter::once(title).chain(machine.nodes().iter().map(row)).collect()
}

/// A NUMA node and what is near to it.
fn panel(cards: &Cards<'_>, place: &Place, budget: i32) -> Scene {
    let below: Vec<Scene> = place.branches.iter().map(|at| branch(cards, at, budget)).collect();
    let none = below.is_empty();
    let mut inner = block(Some(&place_bar(cards.subject(), place)), below, budget);
    if none {
        let at = (inner.w / 2, inner.h + 16);
        inner.centred(at, "no NIC, no GPU", Face::plain(11), Ink::Muted);
        inner.h += 28;
    }
    let area = Area::new(0, 0, inner.w + 2 * PADDING, inner.h + 2 * PADDING);
    let mut scene = Scene::of_size(area.w, area.h);
    scene.boxed(area, Ink::Panel, Ink::PanelEdge);
    scene.put(PADDING, PADDING, inner);
    scene
}

fn place_bar(subject: Subject<'_>, place: &Place) -> Bar {
    let (title, mut facts) = place_facts(subject, place);
    let mut lines = vec![(title.clone(), Face::bold(13), Ink::OnBar)];
    lines.extend(facts.iter().map(|fact| (fact.clone(), Face::plain(11), Ink::OnBarMuted)));
    facts.insert(0, title);
    let node = place.nodes.first().filter(|_| place.nodes.len() == 1);
    let node = node.and_then(|number| subject.machine().node(*number));
    let all = node.map(words::all_cpus);
    facts.extend(all.filter(|all| !facts.iter().any(|fact| fact.starts_with(all.as_str()))));
    let key = match place.nodes.as_slice() {
        [node] => format!("c{node}"),
        _ => String::new(),
    };
    Bar { lines, fill: Ink::NodeBar, edge: Ink::NodeBar, key, details: facts }
}

fn place_facts(subject: Subject<'_>, place: &Place) -> (String, Vec<String>) {
    let machine = subject.machine();
    let known = match place.nodes.as_slice() {
        [] => return ("no NUMA node known".to_owned(), Vec::new()),
        [node] => machine.node(*node).map(|known| (*node, known)),
        _ => None,
    };
    let Some((number, node)) = known else {
        let numbers: Vec<String> = place.nodes.iter().map(ToString::to_string).collect();
        return (format!("near NUMA nodes {}", numbers.join(", ")), Vec::new());
    };
    let mut facts = vec![words::cpus(node)];
    facts.extend(node.memory_bytes.map(words::memory));
    let preferred = subject.preferred(&te_topology::MemoryLocation::Cpu(number));
    facts.extend(preferred.map(|group| format!("uses {} ({})", words::group(group), group.class)));
    (format!("NUMA node {number}"), facts)
}

fn branch(cards: &Cards<'_>, branch: &Branch, budget: i32) -> Scene {
    match branch {
        Branch::Device { device, behind } => cards.card(*device, *behind),
        Branch::Bridge { at, below } => {
            let below = below.iter().map(|at| self::branch(cards, at, budget)).collect();
            block(Some(&bridge_bar(cards.subject(), *at)), below, budget)
        }
    }
}

fn bridge_bar(subject: Subject<'_>, at: Bridge) -> Bar {
    let machine = subject.machine();
    let (title, facts, fill, edge) = match at {
        Bridge::Host(index) => {
            let bridge = &machine.host_bridges()[index.position()];
            let name = words::clean(&bridge.name);
            ("host bridge".to_owned(), vec![name], Ink::Root, Ink::RootEdge)
        }
        Bridge::Pci(index) => {
            let device = machine.pci_device(index);
            let mut facts = vec![device.address.to_string()];
            facts.extend(words::pcie(&device.link));
            (words::bridge(device.kind).to_owned(), facts, Ink::Switch, Ink::SwitchEdge)
        }
    };
    let text = facts.join(", ");
    let details = std::iter::once(title.clone()).chain(facts).collect();
    let lines = vec![(title, Face::bold(11), Ink::Text), (text, Face::plain(11), Ink::Muted)];
    Bar { lines, fill, edge, key: String::new(), details }
}

/// Makes a whole scene tell something.
fn spot(area: Area, key: &str, lines: Vec<String>) -> Spot {
    Spot { area, key: key.to_owned(), lines }
}

#[cfg(test)]
mod tests;
