//! Outlines of machines that are shipped, and of small ones.

use super::*;
use crate::scene::tests::{of_size, shipped};
use crate::subject::tests::Sample;

fn outline(xml: &str) -> Outline {
    Outline::of(&Sample::read(&format!("<system version=\"1\">{xml}</system>")).machine)
}

fn gpu(bus: &str, dev: u32) -> String {
    format!(
        "<pci busid=\"{bus}\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2330\">\
         <gpu dev=\"{dev}\"/></pci>"
    )
}

fn switch(bus: &str, below: &[String]) -> String {
    format!("<pci busid=\"{bus}\" class=\"0x060400\">{}</pci>", below.concat())
}

fn shape(branches: &[Branch]) -> String {
    let one = |branch: &Branch| match branch {
        Branch::Device { device: DeviceRef::Nic(at), behind } => format!("n{at}+{behind}"),
        Branch::Device { device: DeviceRef::Gpu(at), behind } => format!("g{at}+{behind}"),
        Branch::Bridge { below, .. } => format!("[{}]", shape(below)),
    };
    branches.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn devices(branches: &[Branch]) -> Vec<DeviceRef> {
    let one = |branch: &Branch| match branch {
        Branch::Device { device, .. } => vec![*device],
        Branch::Bridge { below, .. } => devices(below),
    };
    branches.iter().flat_map(one).collect()
}

#[test]
fn each_device_is_there_once() {
    let mut samples = shipped();
    samples.push(("spread".to_owned(), of_size(3, 10, 7)));
    for (name, sample) in samples {
        let outline = Outline::of(&sample.machine);
        let mut seen: Vec<DeviceRef> =
            outline.places.iter().flat_map(|place| devices(&place.branches)).collect();
        seen.sort();
        let all: Vec<DeviceRef> = sample.subject().nics().chain(sample.subject().gpus()).collect();
        assert_eq!(seen, all, "{name}");
    }
}

#[test]
fn a_bridge_is_there_where_branches_meet() {
    let low = switch("0000:30:00.0", &[gpu("0000:31:00.0", 2)]);
    let twin = switch("0000:20:00.0", &[gpu("0000:21:00.0", 0), gpu("0000:22:00.0", 1), low]);
    let lone = switch("0000:40:00.0", &[gpu("0000:41:00.0", 3)]);
    let chain = switch("0000:10:00.0", &[twin]);
    let found = outline(&format!("<cpu numaid=\"0\" affinity=\"f\">{chain}{lone}</cpu>"));
    assert_eq!(shape(&found.places[0].branches), "[[g0+0 g1+0 g2+1] g3+0]");
}

#[test]
fn deep_trees_end() {
    let mut tree = gpu("0000:01:00.0", 0);
    for at in 2..100 {
        let own = gpu(&format!("0000:{at:02x}:00.0"), at);
        tree = switch(&format!("0001:{at:02x}:00.0"), &[tree, own]);
    }
    let found = outline(&format!("<cpu numaid=\"0\" affinity=\"f\">{tree}</cpu>"));
    let deepest = found.places[0].branches.iter().map(Branch::depth).max();
    // The host bridge is one more.
    assert_eq!(deepest, Some(MAX_DEPTH + 1));
    assert_eq!(devices(&found.places[0].branches).len(), 99);
}

#[test]
fn nodes_come_first_and_what_has_none_last() {
    let samples = shipped();
    let (_, mixed) = samples.iter().find(|(name, _)| name == "mixed-a100.xml").unwrap();
    let places = Outline::of(&mixed.machine).places;
    let nodes: Vec<Vec<u32>> =
        places.iter().map(|place| place.nodes.iter().map(|node| node.number()).collect()).collect();
    assert_eq!(nodes, [vec![0], vec![1], vec![]]);
}
