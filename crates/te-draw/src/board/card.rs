//! Devices as cards of one width.

use te_topology::{DeviceRef, Gpu, Nic};

use super::spot;
use crate::ink::Ink;
use crate::metrics::Face;
use crate::scene::{Area, Scene};
use crate::subject::Subject;
use crate::words;

/// Draws the devices of one machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cards<'a> {
    subject: Subject<'a>,
    width: i32,
}

const NAME: Face = Face::bold(12);
const FACT: Face = Face::plain(10);
const PADDING: i32 = 8;
/// Text is at least and at most this wide; what is wider is broken into lines.
const TEXT_WIDTH: std::ops::RangeInclusive<i32> = 108..=150;
/// Most lines of one fact.
const MOST_LINES: usize = 4;

impl<'a> Cards<'a> {
    /// Cards as wide as their facts ask for, and narrow ones.
    pub(super) fn choices(subject: Subject<'a>) -> [Self; 2] {
        let devices = subject.nics().chain(subject.gpus());
        let facts = devices.flat_map(|device| facts(subject, device, 0));
        let widest = facts.map(|(text, face, _)| face.width(&text)).max().unwrap_or(0);
        [widest, 0].map(|width| {
            let width = width.clamp(*TEXT_WIDTH.start(), *TEXT_WIDTH.end());
            Self { subject, width }
        })
    }

    pub(super) fn subject(&self) -> Subject<'a> {
        self.subject
    }

    /// A device, with so many switches between it and the one that it is drawn below.
    pub(super) fn card(&self, device: DeviceRef, behind: usize) -> Scene {
        let mut texts = Scene::default();
        let mut y = PADDING;
        for (text, face, ink) in facts(self.subject, device, behind) {
            for line in face.wrap(&text, self.width, MOST_LINES) {
                texts.text((PADDING + 3, y + face.line_height() / 2), &line, face, ink);
                y += face.line_height();
            }
        }
        let area = Area::new(0, 0, self.width + 2 * PADDING + 3, y + PADDING - 2);
        let (fill, edge) = self.inks(device);
        let mut scene = Scene::of_size(area.w, area.h);
        scene.boxed(area, fill, edge);
        scene.fill(Area::new(0, 0, 4, area.h), edge);
        scene.put(0, 0, texts);
        let lines = words::details(self.subject.machine(), device);
        scene.spots.push(spot(area, &key(device), lines));
        scene
    }

    fn inks(&self, device: DeviceRef) -> (Ink, Ink) {
        match device {
            DeviceRef::Nic(at) if !self.subject.machine().nics()[at].is_usable() => {
                (Ink::Idle, Ink::IdleEdge)
            }
            DeviceRef::Nic(_) => (Ink::Nic, Ink::NicEdge),
            DeviceRef::Gpu(_) => (Ink::Gpu, Ink::GpuEdge),
        }
    }
}

/// What the page calls a device.
pub(crate) fn key(device: DeviceRef) -> String {
    match device {
        DeviceRef::Nic(at) => format!("n{at}"),
        DeviceRef::Gpu(at) => format!("g{at}"),
    }
}

type Fact = (String, Face, Ink);

fn facts(subject: Subject<'_>, device: DeviceRef, behind: usize) -> Vec<Fact> {
    let machine = subject.machine();
    let mut facts = vec![(subject.name(device), NAME, Ink::Text)];
    let (more, pci) = match device {
        DeviceRef::Nic(at) => (nic_facts(&machine.nics()[at]), machine.nics()[at].pci),
        DeviceRef::Gpu(at) => (gpu_facts(&machine.gpus()[at]), machine.gpus()[at].pci),
    };
    facts.extend(more.into_iter().map(|text| (text, FACT, Ink::Text)));
    if let Some(pci) = pci.map(|index| machine.pci_device(index)) {
        let address = pci.address.to_string();
        let lines = words::pcie(&pci.link).into_iter().chain([address.clone()]);
        // Where the source has no names the address is the name.
        let new = lines.filter(|line| *line != facts[0].0).map(|line| (line, FACT, Ink::Muted));
        let new: Vec<Fact> = new.collect();
        facts.extend(new);
    }
    facts.extend(words::behind(behind).map(|text| (text, FACT, Ink::Muted)));
    if let DeviceRef::Gpu(at) = device
        && let Some(group) = subject.preferred(&machine.gpus()[at].location())
    {
        let text = format!("uses {} ({})", words::group(group), group.class);
        facts.push((text, FACT, Ink::Text));
    }
    facts
}

fn nic_facts(nic: &Nic) -> Vec<String> {
    let kind = words::nic_kind(nic).map(str::to_owned);
    kind.into_iter().chain([words::nic_link(nic)]).chain(words::ports(nic)).collect()
}

fn gpu_facts(gpu: &Gpu) -> Vec<String> {
    gpu.model.iter().map(|model| words::clean(model)).collect()
}
