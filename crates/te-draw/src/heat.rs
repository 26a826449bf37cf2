//! Which memory is how near to which devices, as a table of coloured cells, and its legend.

use te_topology::{AffinityRow, DeviceRef, GpuLinkKind, MemoryLocation, PathClass};

use crate::board::key;
use crate::ink::Ink;
use crate::metrics::Face;
use crate::scene::{Align, Area, Label, Scene, Spot};
use crate::subject::Subject;
use crate::words;

const CELL_W: i32 = 40;
/// Columns of one table; more devices are several tables.
const MOST_COLUMNS: usize = 32;
const CELL_H: i32 = 24;
const NAME: Face = Face::plain(11);
const WORD: Face = Face::plain(11);
const HEAD: Face = Face::bold(13);
/// Longest name of a column, in pixels; of a longer one the middle is left out.
const NAME_LONGEST: i32 = 190;

/// The tables that a machine has something for: NICs, and GPUs if there are several.
pub(crate) fn tables(subject: Subject<'_>) -> Vec<Scene> {
    let nics: Vec<DeviceRef> = subject.nics().collect();
    let gpus: Vec<DeviceRef> = subject.gpus().collect();
    let gpus = if gpus.len() > 1 { gpus } else { Vec::new() };
    let kinds = [("Memory and NICs", nics), ("Memory and GPUs", gpus)];
    let parts = kinds.iter().flat_map(|(title, devices)| {
        devices.chunks(MOST_COLUMNS).map(|columns| table(subject, title, columns))
    });
    parts.collect()
}

fn table(subject: Subject<'_>, title: &str, columns: &[DeviceRef]) -> Scene {
    let rows = subject.affinity().rows();
    let label = |row: &AffinityRow| words::clean(&row.location.to_string());
    let left = rows.iter().map(|row| NAME.width(&label(row))).max().unwrap_or(0) + 10;
    let (head, top) = heads(subject, columns);
    let mut scene = Scene::of_size(HEAD.width(title), 0);
    scene.text((0, 10), title, HEAD, Ink::Text);
    scene.put(left, 26, head);
    for (at, row) in (0..).zip(rows) {
        let y = 26 + top + at * CELL_H;
        scene.label(Label {
            text: label(row),
            face: NAME,
            ink: Ink::Text,
            align: Align::End,
            upwards: false,
            at: (left - 8, y + CELL_H / 2),
        });
        for (across, device) in (0..).zip(columns) {
            scene.put(left + across * CELL_W, y, cell(subject, row, *device));
        }
    }
    scene
}

/// Names above the columns, and how high they are together.
fn heads(subject: Subject<'_>, columns: &[DeviceRef]) -> (Scene, i32) {
    let name = |device: &DeviceRef| {
        let lines = NAME.wrap(&subject.name(*device), NAME_LONGEST, 1);
        lines.into_iter().next().unwrap_or_default()
    };
    let names: Vec<String> = columns.iter().map(name).collect();
    let widest = names.iter().map(|name| NAME.width(name)).max().unwrap_or(0);
    let flat = widest <= CELL_W - 4;
    let height = if flat { 18 } else { widest + 6 };
    let mut scene = Scene::default();
    for (across, text) in (0..).zip(names) {
        let middle = across * CELL_W + CELL_W / 2;
        if flat {
            scene.centred((middle, 9), &text, NAME, Ink::Text);
            continue;
        }
        scene.label(Label {
            text,
            face: NAME,
            ink: Ink::Text,
            align: Align::Start,
            upwards: true,
            at: (middle, height - 4),
        });
    }
    (scene, height)
}

fn cell(subject: Subject<'_>, row: &AffinityRow, device: DeviceRef) -> Scene {
    let class = subject.path(row, device);
    let group = nic_group(subject, row, device);
    let idle = matches!(device, DeviceRef::Nic(_)) && group.is_none();
    let (fill, ink) = if idle { (Ink::Idle, Ink::Muted) } else { Ink::of_path(class) };
    let word = class.to_string();
    let mut scene = Scene::of_size(CELL_W, CELL_H);
    let inner = Area::new(1, 1, CELL_W - 2, CELL_H - 2);
    scene.fill(inner, fill);
    if group == Some(0) {
        scene.frame(inner, Ink::Best);
        scene.frame(inner.inset(1), Ink::Best);
    }
    scene.centred((CELL_W / 2, CELL_H / 2), &word, WORD, ink);
    let mut lines = vec![format!(
        "{} to {}: {word}",
        words::clean(&row.location.to_string()),
        subject.name(device)
    )];
    lines.push(words::meaning(class).to_owned());
    lines.extend(choice(group, idle));
    let key = format!("{} {}", row_key(subject, row), key(device));
    scene.spots.push(Spot { area: inner, key, lines });
    scene
}

fn choice(group: Option<usize>, idle: bool) -> Option<String> {
    match group {
        Some(0) => Some("used first".to_owned()),
        Some(at) => Some(format!("choice {}", at + 1)),
        None => idle.then(|| "not used: no active port".to_owned()),
    }
}

/// Which group of a row a NIC is in.
fn nic_group(subject: Subject<'_>, row: &AffinityRow, device: DeviceRef) -> Option<usize> {
    let DeviceRef::Nic(at) = device else { return None };
    let name = &subject.machine().nics()[at].name;
    row.groups.iter().position(|group| group.nics.contains(name))
}

/// What the page calls the memory of a row: its node, or its GPU.
pub(crate) fn row_key(subject: Subject<'_>, row: &AffinityRow) -> String {
    match &row.location {
        MemoryLocation::Cpu(node) => format!("c{node}"),
        other => {
            let gpu = subject.machine().gpus().iter().position(|gpu| gpu.location() == *other);
            gpu.map(|at| key(DeviceRef::Gpu(at))).unwrap_or_default()
        }
    }
}

/// What the colours mean, in lines no wider than `width`.
pub(crate) fn legend(subject: Subject<'_>, width: i32) -> Scene {
    flow(chips(subject), width)
}

/// What the colours mean, one by one.
pub(crate) fn chips(subject: Subject<'_>) -> Vec<Scene> {
    let mut chips: Vec<Scene> = kinds(subject);
    let link = subject.machine().gpu_links().first();
    let link = link.map(|link| PathClass::GpuLink { kind: link.kind, count: None });
    let classes = [PathClass::Pix, PathClass::Pxb, PathClass::Phb, PathClass::Node, PathClass::Sys];
    // Without a table there is no word to explain.
    let is_shown = subject.nics().next().is_some() || subject.gpus().count() > 1;
    for class in link.into_iter().chain(classes).filter(|_| is_shown) {
        let word = match class {
            PathClass::GpuLink { kind: GpuLinkKind::NvLink, .. } => "NV#".to_owned(),
            class => class.to_string(),
        };
        let (fill, ink) = Ink::of_path(class);
        chips.push(chip(Some((&word, ink)), (fill, fill), words::meaning(class)));
    }
    if !subject.machine().nics().is_empty() {
        chips.push(chip(None, (Ink::Paper, Ink::Best), "used first"));
    }
    chips
}

fn kinds(subject: Subject<'_>) -> Vec<Scene> {
    let machine = subject.machine();
    let mut chips = Vec::new();
    if !machine.nics().is_empty() {
        chips.push(chip(None, (Ink::Nic, Ink::NicEdge), "NIC"));
    }
    if machine.nics().iter().any(|nic| !nic.is_usable()) {
        chips.push(chip(None, (Ink::Idle, Ink::IdleEdge), "NIC without an active port"));
    }
    if !machine.gpus().is_empty() {
        chips.push(chip(None, (Ink::Gpu, Ink::GpuEdge), "GPU"));
    }
    chips
}

fn chip(word: Option<(&str, Ink)>, (fill, edge): (Ink, Ink), meaning: &str) -> Scene {
    let area = Area::new(1, 1, if word.is_some() { CELL_W } else { 22 }, 18);
    let mut scene = Scene::of_size(area.w + 8 + NAME.width(meaning), 20);
    scene.boxed(area, fill, edge);
    if let Some((word, ink)) = word {
        scene.centred((area.w / 2, 10), word, WORD, ink);
    } else {
        scene.frame(area.inset(1), edge);
    }
    scene.text((area.w + 7, 10), meaning, NAME, Ink::Muted);
    scene
}

/// Scenes of about one height one after the other, in lines.
pub(crate) fn flow(parts: Vec<Scene>, width: i32) -> Scene {
    let mut all = Scene::default();
    let (mut x, mut y, mut high) = (0, 0, 0);
    for part in parts {
        if x > 0 && x + part.w > width {
            (x, y, high) = (0, y + high + 8, 0);
        }
        let step = part.w + 20;
        high = high.max(part.h);
        all.put(x, y, part);
        x += step;
    }
    all
}
