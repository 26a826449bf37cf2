//! Facts of a machine in the words that all pictures use.

use std::collections::BTreeMap;

use te_topology::{
    DeviceRef, Gpu, GpuLink, GpuLinkKind, Interface, LinkLayer, Locality, Machine, Nic, NicGroup,
    NicKind, Node, PathClass, PciIndex, PciKind, PciLink, PortState, Source,
};

use crate::subject::Subject;

/// A text without what garbles a line or turns its direction: such characters become `�`.
pub(crate) fn clean(text: &str) -> String {
    let odd = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            || matches!(c, '\u{fffe}' | '\u{ffff}')
    };
    text.chars().map(|c| if odd(c) { '\u{fffd}' } else { c }).collect()
}

/// `1 NIC`, `2 NICs`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// `2 NUMA nodes, 8 NICs, 8 GPUs`.
pub(crate) fn summary(machine: &Machine) -> String {
    let nics = count(machine.nics().len(), "NIC");
    let gpus = count(machine.gpus().len(), "GPU");
    format!("{}, {nics}, {gpus}", count(machine.nodes().len(), "NUMA node"))
}

/// Where the facts come from.
pub(crate) fn source(source: Source) -> &'static str {
    match source {
        Source::Sysfs => "from sysfs",
        Source::Lstopo => "from lstopo XML",
        Source::Nccl => "from NCCL XML",
        _ => "from a file",
    }
}

/// Megabits per second.
pub(crate) fn rate(mbps: u64) -> String {
    match mbps {
        0..1000 => format!("{mbps} Mb/s"),
        _ => format!("{} Gb/s", tenths(mbps, 1000)),
    }
}

/// Bytes of memory.
pub(crate) fn memory(bytes: u64) -> String {
    const UNITS: [(&str, u32); 3] = [("TiB", 40), ("GiB", 30), ("MiB", 20)];
    let unit = UNITS.iter().find(|(_, bits)| bytes >> bits > 0);
    let (name, bits) = unit.copied().unwrap_or(("KiB", 10));
    format!("{} {name}", tenths(bytes, 1 << bits))
}

/// A quotient with at most one decimal, rounded down.
fn tenths(number: u64, unit: u64) -> String {
    let (whole, rest) = (number / unit, number % unit);
    match u128::from(rest) * 10 / u128::from(unit) {
        0 => whole.to_string(),
        decimal => format!("{whole}.{decimal}"),
    }
}

/// What a PCI Express link runs at, as far as it is known.
pub(crate) fn pcie(link: &PciLink) -> Option<String> {
    let lanes = link.width.map(|width| format!(" x{width}")).unwrap_or_default();
    if let Some(speed) = link.speed_mts {
        let generation = GENERATIONS.iter().find(|(mts, _)| *mts == speed);
        return Some(match generation {
            Some((_, generation)) => format!("PCIe {generation}{lanes}"),
            None => format!("PCIe {} GT/s{lanes}", tenths(speed.into(), 1000)),
        });
    }
    let total = link.mb_s().map(|mb_s| format!("PCIe {} GB/s", tenths(mb_s.into(), 1000)));
    total.or_else(|| link.width.map(|width| format!("PCIe x{width}")))
}

/// Megatransfers per second of each generation.
const GENERATIONS: [(u32, &str); 7] = [
    (2_500, "1.0"),
    (5_000, "2.0"),
    (8_000, "3.0"),
    (16_000, "4.0"),
    (32_000, "5.0"),
    (64_000, "6.0"),
    (128_000, "7.0"),
];

/// `InfiniBand 400 Gb/s`, `Ethernet, speed unknown`, `no active port`.
pub(crate) fn nic_link(nic: &Nic) -> String {
    if !nic.is_usable() {
        return if nic.ports.is_empty() { "no port" } else { "no active port" }.to_owned();
    }
    let layer = match nic.link_layer() {
        Some(LinkLayer::InfiniBand) => "InfiniBand",
        Some(LinkLayer::Ethernet) => "Ethernet",
        None | Some(_) => "",
    };
    match (layer, nic.rate_mbps()) {
        ("", None) => "speed unknown".to_owned(),
        ("", Some(mbps)) => rate(mbps),
        (layer, None) => format!("{layer}, speed unknown"),
        (layer, Some(mbps)) => format!("{layer} {}", rate(mbps)),
    }
}

/// What a NIC is, unless it is plain hardware.
pub(crate) fn nic_kind(nic: &Nic) -> Option<&'static str> {
    match nic.kind {
        NicKind::VirtualFunction => Some("virtual function"),
        NicKind::Bond => Some("bond"),
        NicKind::Software => Some("software"),
        NicKind::Virtual => Some("virtual"),
        _ => None,
    }
}

/// The ports of a NIC with more than one.
pub(crate) fn ports(nic: &Nic) -> Option<String> {
    let active = nic.ports.iter().filter(|port| port.state == PortState::Active).count();
    (nic.ports.len() > 1).then(|| format!("{} ports, {active} active", nic.ports.len()))
}

/// `CPUs 0-47,96-143 (96)`, or where that would be long `CPUs 0 to 126, every 2nd (64)`.
pub(crate) fn cpus(node: &Node) -> String {
    let (n, list) = (node.cpus.len(), node.cpus.to_string());
    match n {
        0 => return "no CPUs".to_owned(),
        1 => return format!("CPU {list}"),
        _ if list.len() <= LONGEST_CPU_LIST => return format!("CPUs {list} ({n})"),
        _ => {}
    }
    let ends: Vec<u32> = list.split([',', '-']).filter_map(|end| end.parse().ok()).collect();
    let (first, last) = (ends.first().copied().unwrap_or(0), ends.last().copied().unwrap_or(0));
    let step = ends.get(1).map_or(0, |second| second - first);
    let even = !list.contains('-') && ends.windows(2).all(|pair| pair[1] - pair[0] == step);
    match (even, step) {
        (true, 2) => format!("CPUs {first} to {last}, every 2nd ({n})"),
        (true, _) => format!("CPUs {first} to {last} in steps of {step} ({n})"),
        (false, _) => format!("{n} CPUs from {first} to {last}"),
    }
}

/// All CPUs of a node, however many.
pub(crate) fn all_cpus(node: &Node) -> String {
    format!("CPUs {}", node.cpus)
}

/// Characters of a list of CPUs that is not abridged.
const LONGEST_CPU_LIST: usize = 40;

/// The nodes that something is near to.
pub(crate) fn nodes(near: &Locality) -> String {
    let numbers: Vec<String> = near.nodes.iter().map(ToString::to_string).collect();
    match numbers.as_slice() {
        [] => "no NUMA node known".to_owned(),
        [one] => format!("NUMA node {one}"),
        _ => format!("near NUMA nodes {}", numbers.join(", ")),
    }
}

/// The smallest and the largest distance between two different nodes, if the source has any.
pub(crate) fn distances(machine: &Machine) -> Option<(u32, u32)> {
    let told = machine.nodes().iter().flat_map(|from| {
        from.distances.iter().filter(|(to, _)| *to != from.number).map(|(_, distance)| *distance)
    });
    told.fold(None, |seen, distance| {
        let (low, high) = seen.unwrap_or((distance, distance));
        Some((low.min(distance), high.max(distance)))
    })
}

/// `distance 21`, `distances 12 to 32`, `distances not known`.
pub(crate) fn distance_range(machine: &Machine) -> String {
    match distances(machine) {
        Some((low, high)) if low == high => format!("distance {low}"),
        Some((low, high)) => format!("distances {low} to {high}"),
        None => "distances not known".to_owned(),
    }
}

/// The distance between two nodes; `?` if the source does not say it.
pub(crate) fn distance(machine: &Machine, from: &Node, to: &Node) -> String {
    let told = from.distances.iter().any(|(other, _)| *other == to.number);
    match told || from.number == to.number {
        true => machine.distance(from.number, to.number).to_string(),
        false => "?".to_owned(),
    }
}

/// Switches between a device and the one that it is drawn below.
pub(crate) fn behind(switches: usize) -> Option<String> {
    match switches {
        0 => None,
        1 => Some("via 1 more switch".to_owned()),
        n => Some(format!("via {n} more switches")),
    }
}

/// What was odd, each text once with all that it is about.
pub(crate) fn notes(machine: &Machine) -> Vec<(String, String)> {
    let mut notes: Vec<(String, Vec<String>)> = Vec::new();
    for note in machine.notes() {
        let (subject, text) = (clean(&note.subject), clean(&note.text));
        match notes.iter_mut().find(|(seen, _)| *seen == text) {
            Some((_, subjects)) => subjects.push(subject),
            None => notes.push((text, vec![subject])),
        }
    }
    notes.into_iter().map(|(text, subjects)| (subjects.join(", "), text)).collect()
}

/// Interfaces through which other hosts may be reached, with what is known of each.
pub(crate) fn interfaces(machine: &Machine) -> Vec<(String, Vec<String>)> {
    let outside = machine.interfaces().iter().filter(|interface| interface.kind.leads_outside());
    let facts = |interface: &Interface| {
        let state = if interface.is_up { "up" } else { "down" };
        let mut facts = vec![state.to_owned()];
        facts.extend(interface.speed_mbps.map(rate));
        facts.extend(Some(nodes(&interface.near)).filter(|_| interface.near.is_known()));
        let pci = interface.pci.map(|index| machine.pci_device(index).address.to_string());
        facts.extend(pci);
        (clean(&interface.name), facts)
    };
    outside.map(facts).collect()
}

/// `mlx5_0, mlx5_1`, or how many where that would be long.
pub(crate) fn group(group: &NicGroup) -> String {
    let names: Vec<String> = group.nics.iter().map(|nic| clean(nic.as_str())).collect();
    if names.len() > 4 { count(names.len(), "NIC") } else { names.join(", ") }
}

/// What a path class means.
pub(crate) fn meaning(class: PathClass) -> &'static str {
    match class {
        PathClass::Same => "the same device",
        PathClass::GpuLink { kind: GpuLinkKind::NvLink, .. } => "NVLink, # lanes",
        PathClass::GpuLink { .. } => "XGMI between GPUs",
        PathClass::Pix => "one PCIe switch at most",
        PathClass::Pxb => "several PCIe switches",
        PathClass::Phb => "a PCIe host bridge",
        PathClass::Node => "within one NUMA node",
        PathClass::Sys => "between NUMA nodes, or not known",
        _ => "",
    }
}

/// A bridge where devices meet.
pub(crate) fn bridge(kind: PciKind) -> &'static str {
    match kind {
        PciKind::RootPort => "root port",
        _ => "PCIe switch",
    }
}

/// The direct links between GPUs: each kind, and which it links.
pub(crate) fn gpu_links(subject: Subject<'_>) -> Vec<(String, String)> {
    let machine = subject.machine();
    let mut kinds: BTreeMap<(PathClass, bool), Vec<&GpuLink>> = BTreeMap::new();
    for link in machine.gpu_links() {
        let class = PathClass::GpuLink { kind: link.kind, count: link.count };
        kinds.entry((class, link.switched)).or_default().push(link);
    }
    let n_gpus = machine.gpus().len();
    let line = |((class, switched), links): ((PathClass, bool), Vec<&GpuLink>)| {
        let through = if switched { "through a switch between" } else { "between" };
        let pair = |link: &&GpuLink| {
            let (a, b) = (DeviceRef::Gpu(link.a), DeviceRef::Gpu(link.b));
            format!("{} and {}", subject.name(a), subject.name(b))
        };
        let pairs = match links.len() {
            all if n_gpus > 2 && all == n_gpus * (n_gpus - 1) / 2 => {
                format!("every pair of the {n_gpus} GPUs")
            }
            1..=8 => links.iter().map(pair).collect::<Vec<_>>().join(", "),
            many => format!("{many} pairs of GPUs"),
        };
        let lanes = match class {
            PathClass::GpuLink { kind: GpuLinkKind::Xgmi, count: Some(n) } => {
                format!("with {}, ", count(n as usize, "lane"))
            }
            _ => String::new(),
        };
        (class.to_string(), format!("{lanes}{through} {pairs}"))
    };
    kinds.into_iter().map(line).collect()
}

/// Everything about a device that a picture has no room for, a fact a line, the name first.
pub(crate) fn details(machine: &Machine, device: DeviceRef) -> Vec<String> {
    match device {
        DeviceRef::Nic(at) => nic_details(machine, &machine.nics()[at]),
        DeviceRef::Gpu(at) => gpu_details(machine, &machine.gpus()[at]),
    }
}

fn nic_details(machine: &Machine, nic: &Nic) -> Vec<String> {
    let mut lines = vec![clean(nic.name.as_str())];
    lines.push(match nic_kind(nic) {
        Some(kind) => format!("NIC, {kind}: {}", nic_link(nic)),
        None => format!("NIC: {}", nic_link(nic)),
    });
    for port in nic.ports.iter().filter(|_| nic.ports.len() > 1) {
        let speed = port.rate_mbps.map_or_else(|| "speed unknown".to_owned(), rate);
        let state = format!("{:?}", port.state).to_lowercase();
        lines.push(format!("port {}: {state}, {speed}", port.number));
    }
    lines.push(nodes(&nic.near));
    lines.extend(pci_details(machine, nic.pci));
    if !nic.interfaces.is_empty() {
        lines.push(format!("interface {}", clean(&nic.interfaces.join(", "))));
    }
    lines
}

fn gpu_details(machine: &Machine, gpu: &Gpu) -> Vec<String> {
    let mut lines = vec![gpu.location().to_string()];
    lines.push(match &gpu.model {
        Some(model) => format!("GPU: {}", clean(model)),
        None => "GPU".to_owned(),
    });
    lines.push(nodes(&gpu.near));
    lines.extend(pci_details(machine, gpu.pci));
    lines
}

fn pci_details(machine: &Machine, pci: Option<PciIndex>) -> Vec<String> {
    let Some(device) = pci.map(|index| machine.pci_device(index)) else { return Vec::new() };
    let address = format!("PCI {}", device.address);
    std::iter::once(address).chain(pcie(&device.link)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::tests::Sample;

    #[test]
    fn long_lists_of_cpus_are_abridged() {
        let check = |mask: &str, expected: &str| {
            let xml =
                format!("<system version=\"1\"><cpu numaid=\"0\" affinity=\"{mask}\"/></system>");
            assert_eq!(cpus(&Sample::read(&xml).machine.nodes()[0]), expected);
        };
        check("0", "no CPUs");
        check("1", "CPU 0");
        check("ff00ff", "CPUs 0-7,16-23 (16)");
        check("55555555,55555555", "CPUs 0 to 62, every 2nd (32)");
        check("11111111,11111111,11111111", "CPUs 0 to 92 in steps of 4 (24)");
        check("75555555,55555555", "33 CPUs from 0 to 62");
    }

    #[test]
    fn numbers_are_short_and_have_units() {
        assert_eq!(rate(400_000), "400 Gb/s");
        assert_eq!(rate(2_500), "2.5 Gb/s");
        assert_eq!(rate(100), "100 Mb/s");
        assert_eq!(memory(1 << 40), "1 TiB");
        assert_eq!(memory(16_384_000_000), "15.2 GiB");
        assert_eq!(memory(5_120), "5 KiB");
        assert_eq!(count(1, "NIC"), "1 NIC");
        assert_eq!(count(0, "NIC"), "0 NICs");
    }

    #[test]
    fn a_pcie_link_is_told_as_far_as_it_is_known() {
        let link = |speed, width| pcie(&PciLink::parse(speed, width));
        assert_eq!(link(Some("32.0 GT/s PCIe"), Some("16")).as_deref(), Some("PCIe 5.0 x16"));
        assert_eq!(link(Some("8 GT/s"), None).as_deref(), Some("PCIe 3.0"));
        assert_eq!(link(Some("20 GT/s"), Some("8")).as_deref(), Some("PCIe 20 GT/s x8"));
        assert_eq!(link(None, Some("4")).as_deref(), Some("PCIe x4"));
        assert_eq!(link(None, None), None);
        let sum = PciLink { total_mb_s: Some(15_754), ..PciLink::default() };
        assert_eq!(pcie(&sum).as_deref(), Some("PCIe 15.7 GB/s"));
    }

    #[test]
    fn odd_characters_never_get_into_a_picture() {
        assert_eq!(clean("a\u{1b}[31m\nb\u{202e}c"), "a\u{fffd}[31m\u{fffd}b\u{fffd}c");
        assert_eq!(clean("Größe 中"), "Größe 中");
    }
}
