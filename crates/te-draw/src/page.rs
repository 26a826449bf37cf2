//! One page of HTML that needs nothing else: pictures, tables, and a little script for pointing at
//! things.
//!
//! The page forbids itself any load over a network. Without the script everything is there but the
//! marks between things that belong together.

use std::fmt::Write;

use te_topology::{AffinityRow, DeviceRef, MemoryLocation, PathClass};

use crate::board::{board, key};
use crate::heat;
use crate::ink::Ink;
use crate::markup::{self, escaped};
use crate::picture;
use crate::scene::Scene;
use crate::subject::Subject;
use crate::words;

mod table;

use table::Table;

/// Width that the parts of the page are laid out for, in pixels.
const WIDTH: i32 = 1340;

/// The machine as a page of HTML in one piece, for light and dark screens.
pub fn html(subject: Subject<'_>) -> String {
    let title = escaped(&subject.title());
    let machine = subject.machine();
    let summary = format!("{}, {}", words::summary(machine), words::source(machine.source()));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n<style>\n{}{}{STYLE}</style>\n\
         </head>\n<body>\n<header><h1>{title}</h1><p>{}</p></header>\n<main>\n",
        variables(),
        markup::style_sheet(),
        escaped(&summary),
    );
    drawing(&mut page, "Machine", vec![board(subject), picture::links(subject, WIDTH)]);
    flowing(&mut page, "Affinity", &heat::tables(subject));
    flowing(&mut page, "Legend", &heat::chips(subject));
    let tables = [nics, gpus, nodes, interfaces, notes];
    for table in tables.map(|table| table(subject)) {
        page.push_str(&table.html());
    }
    let paths = paths(subject);
    let _ = write!(
        page,
        "</main>\n<div id=\"tip\" hidden></div>\n\
         <script type=\"application/json\" id=\"paths\">{paths}</script>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    );
    page
}

/// The style sheet of all pages.
pub(crate) const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");

fn drawing(page: &mut String, title: &str, scenes: Vec<Scene>) {
    let scenes: Vec<Scene> = scenes.into_iter().filter(|scene| scene.h > 0).collect();
    if scenes.is_empty() {
        return;
    }
    let _ = writeln!(page, "<section><h2>{title}</h2>");
    for scene in &scenes {
        let _ = writeln!(page, "<div class=\"wide\">{}</div>", markup::inline(scene, title));
    }
    page.push_str("</section>\n");
}

/// Scenes side by side, as many in a line as the screen has room for.
fn flowing(page: &mut String, title: &str, scenes: &[Scene]) {
    if scenes.is_empty() {
        return;
    }
    let _ = writeln!(page, "<section><h2>{title}</h2><div class=\"flow\">");
    for scene in scenes {
        let _ = writeln!(page, "<div class=\"wide\">{}</div>", markup::inline(scene, title));
    }
    page.push_str("</div></section>\n");
}

/// Every ink as a variable of the style sheet.
pub(crate) fn variables() -> String {
    let all = |shade: fn(Ink) -> u32| -> String {
        Ink::ALL.iter().map(|ink| format!("--{ink:?}:#{:06x};", shade(*ink))).collect()
    };
    let (light, dark) = (all(Ink::light), all(Ink::dark));
    format!(
        ":root{{color-scheme:light dark;{light}}}\n\
         @media (prefers-color-scheme: dark){{:root{{{dark}}}}}\n"
    )
}

fn uses(subject: Subject<'_>, location: &MemoryLocation) -> String {
    let rows = subject.affinity().row(location);
    let groups = rows.into_iter().flat_map(|row| &row.groups).map(|group| {
        let names: Vec<String> = group.nics.iter().map(|nic| words::clean(nic.as_str())).collect();
        format!("{} {}", group.class, names.join(", "))
    });
    groups.collect::<Vec<_>>().join("; ")
}

fn nics(subject: Subject<'_>) -> Table {
    let machine = subject.machine();
    let mut table =
        Table::new("NICs", &["name", "kind", "link", "ports", "interfaces", "PCI", "PCIe", "near"]);
    for nic in machine.nics() {
        let (pci, pcie) = pci_cells(subject, nic.pci);
        table.row(&[
            words::clean(nic.name.as_str()),
            words::nic_kind(nic).unwrap_or("hardware").to_owned(),
            words::nic_link(nic),
            words::ports(nic).unwrap_or_default(),
            words::clean(&nic.interfaces.join(", ")),
            pci,
            pcie,
            words::nodes(&nic.near),
        ]);
    }
    table
}

fn gpus(subject: Subject<'_>) -> Table {
    let machine = subject.machine();
    let mut table =
        Table::new("GPUs", &["name", "model", "PCI", "PCIe", "near", "uses NICs, best first"]);
    for gpu in machine.gpus() {
        let (pci, pcie) = pci_cells(subject, gpu.pci);
        let model = gpu.model.as_deref().map(words::clean).unwrap_or_default();
        let near = words::nodes(&gpu.near);
        let location = gpu.location();
        table.row(&[location.to_string(), model, pci, pcie, near, uses(subject, &location)]);
    }
    table
}

fn pci_cells(subject: Subject<'_>, pci: Option<te_topology::PciIndex>) -> (String, String) {
    let device = pci.map(|index| subject.machine().pci_device(index));
    let address = device.map(|device| device.address.to_string());
    let link = device.and_then(|device| words::pcie(&device.link));
    (address.unwrap_or_default(), link.unwrap_or_default())
}

fn nodes(subject: Subject<'_>) -> Table {
    let machine = subject.machine();
    let mut table =
        Table::new("NUMA nodes", &["node", "CPUs", "memory", "distances", "uses NICs, best first"]);
    for node in machine.nodes() {
        let known = words::distances(machine).is_some();
        let others = machine.nodes().iter().filter(|_| known);
        let distances = others.map(|to| words::distance(machine, node, to));
        let distances: Vec<String> = distances.collect();
        table.row(&[
            node.number.to_string(),
            words::all_cpus(node),
            node.memory_bytes.map(words::memory).unwrap_or_default(),
            distances.join(" "),
            uses(subject, &MemoryLocation::Cpu(node.number)),
        ]);
    }
    table
}

fn notes(subject: Subject<'_>) -> Table {
    let mut table =
        Table::new("Notes on the source", &["about", "what was found, and what was taken instead"]);
    for (about, text) in words::notes(subject.machine()) {
        table.row(&[about, text]);
    }
    table
}

fn interfaces(subject: Subject<'_>) -> Table {
    let mut table = Table::new("Network interfaces", &["name", "what is known"]);
    for (name, facts) in words::interfaces(subject.machine()) {
        table.row(&[name, facts.join(", ")]);
    }
    table
}

/// For the script: what lies between a memory and each device, by their keys. It holds nothing that
/// came from outside.
fn paths(subject: Subject<'_>) -> String {
    let devices: Vec<DeviceRef> = subject.nics().chain(subject.gpus()).collect();
    let row = |row: &AffinityRow| {
        let cell = |device: &DeviceRef| {
            let class = subject.path(row, *device);
            (class != PathClass::Same).then(|| format!("\"{}\":\"{class}\"", key(*device)))
        };
        let cells: Vec<String> = devices.iter().filter_map(cell).collect();
        format!("\"{}\":{{{}}}", heat::row_key(subject, row), cells.join(","))
    };
    let rows: Vec<String> = subject.affinity().rows().iter().map(row).collect();
    format!("{{{}}}", rows.join(","))
}

#[cfg(test)]
mod tests;
