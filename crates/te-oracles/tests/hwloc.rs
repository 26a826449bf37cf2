//! The hwloc library as a second reader: of this machine, and of XML of other machines.
//!
//! NUMA nodes with their CPUs, memory and distances, and NICs with their PCI address and nodes must
//! be alike. XML is given to it as version 2.0, which every hwloc of Debian reads; we read what lies
//! there.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

#[path = "../../te-topology/tests/common/mod.rs"]
mod common;

use std::path::Path;

use common::{as_version_2, files, real_data};
use hwlocality::Topology;
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::types::{OSDeviceType, ObjectType};
use hwlocality::topology::builder::{BuildFlags, TopologyBuilder, TypeFilter};
use te_topology::{Certainty, Machine, NicKind, NumaNode, read_machine, read_sysfs};

fn loaded(builder: TopologyBuilder) -> Topology {
    let builder = builder.with_flags(BuildFlags::INCLUDE_DISALLOWED).unwrap();
    builder.with_io_type_filter(TypeFilter::KeepAll).unwrap().build().unwrap()
}

/// What hwloc says.
fn theirs(topology: &Topology) -> Vec<String> {
    let mut facts = Vec::new();
    for node in topology.objects_with_type(ObjectType::NUMANode) {
        let cpus = list(&node.complete_cpuset().unwrap());
        let memory = match node.attributes() {
            Some(ObjectAttributes::NUMANode(about)) => about.local_memory().map(|size| size.get()),
            _ => None,
        };
        facts.push(node_fact(node.os_index().unwrap(), &cpus, memory));
    }
    for matrix in topology.distances_with_type(None, ObjectType::NUMANode).unwrap() {
        // There may be others, of bandwidths.
        if matrix.name().is_some_and(|name| name == c"NUMALatency") {
            let numbers: Vec<usize> =
                matrix.objects().map(|node| node.unwrap().os_index().unwrap()).collect();
            let all = matrix.enumerate_distances();
            facts.extend(all.map(|((a, b), far)| far_fact(numbers[a], numbers[b], far)));
        }
    }
    facts.extend(topology.os_devices().filter_map(|device| nic(topology, device)));
    facts.sort();
    facts
}

fn nic(topology: &Topology, device: &TopologyObject) -> Option<String> {
    let Some(ObjectAttributes::OSDevice(about)) = device.attributes() else { return None };
    if about.device_type() != OSDeviceType::OpenFabrics {
        return None;
    }
    // A NIC in software hangs on nothing.
    let Some(ObjectAttributes::PCIDevice(pci)) = device.parent()?.attributes() else { return None };
    let (domain, bus) = (pci.domain(), pci.bus_id());
    let address = format!("{domain:04x}:{bus:02x}:{:02x}.{:x}", pci.bus_device(), pci.function());
    let nodes = list(&device.first_non_io_ancestor()?.nodeset()?);
    // All nodes of a machine with several are what hwloc says of a device that it cannot place.
    let placed = nodes != list(&topology.nodeset());
    let name = device.name()?.to_str().unwrap();
    Some(nic_fact(name, &address, if placed { &nodes } else { "" }))
}

/// `0-3,8` of `CpuSet(0-3,8)`.
fn list(set: &impl ToString) -> String {
    let text = set.to_string();
    let inner = text.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or_default().to_owned()
}

/// What we say.
fn ours(machine: &Machine) -> Vec<String> {
    let mut facts = Vec::new();
    let index = |node: NumaNode| usize::try_from(node.number()).unwrap();
    for node in machine.nodes() {
        facts.push(node_fact(index(node.number), &node.cpus.to_string(), node.memory_bytes));
        // A machine of one node has no distances worth a table, and hwloc has none.
        for (to, far) in node.distances.iter().filter(|_| machine.nodes().len() > 1) {
            facts.push(far_fact(index(node.number), index(*to), u64::from(*far)));
        }
    }
    for nic in machine.nics().iter().filter(|nic| nic.kind != NicKind::Software) {
        let Some(pci) = nic.pci else { continue };
        let address = machine.pci_device(pci).address.to_string();
        let placed = nic.near.certainty != Certainty::Assumed && machine.nodes().len() > 1;
        let nodes: Vec<String> = nic.near.nodes.iter().map(|n| n.number().to_string()).collect();
        let nodes = if placed { nodes.join(",") } else { String::new() };
        facts.push(nic_fact(nic.name.as_str(), &address, &nodes));
    }
    facts.sort();
    facts
}

fn node_fact(number: usize, cpus: &str, memory: Option<u64>) -> String {
    format!("node {number}: CPUs {cpus}, memory {memory:?}")
}

fn far_fact(from: usize, to: usize, far: u64) -> String {
    format!("node {from} to {to}: {far}")
}

fn nic_fact(name: &str, address: &str, nodes: &str) -> String {
    format!("NIC {name} at {address} near [{nodes}]")
}

/// Facts that only one of the two has.
fn differences(ours: &[String], theirs: &[String]) -> Vec<String> {
    let only = |these: &[String], those: &[String], who: &str| -> Vec<String> {
        these.iter().filter(|fact| !those.contains(fact)).map(|f| format!("{who}: {f}")).collect()
    };
    [only(ours, theirs, "ours"), only(theirs, ours, "hwloc")].concat()
}

#[test]
fn this_machine_is_what_hwloc_says() {
    let theirs = theirs(&loaded(TopologyBuilder::new()));
    assert!(theirs.iter().any(|fact| fact.starts_with("node ")), "{theirs:?}");
    let ours = ours(&read_sysfs(Path::new("/")));
    assert_eq!(differences(&ours, &theirs), Vec::<String>::new());
}

/// Every XML of a real machine, its version rewritten for hwloc.
#[test]
fn machines_in_xml_are_what_hwloc_says() {
    let test = "machines_in_xml_are_what_hwloc_says";
    let Some(folder) = real_data(test) else { return };
    let mut n_nics = 0;
    for file in files(&folder.join("hwloc-xml"), ".xml") {
        let text = std::fs::read_to_string(&file).unwrap();
        let builder = TopologyBuilder::new().from_xml(&as_version_2(&text)).unwrap();
        let theirs = theirs(&loaded(builder));
        n_nics += theirs.iter().filter(|fact| fact.starts_with("NIC ")).count();
        let found = differences(&ours(&read_machine(&text).unwrap()), &theirs);
        assert_eq!(found, Vec::<String>::new(), "{}", file.display());
    }
    assert!(n_nics > 4, "only {n_nics} NICs were compared");
}
