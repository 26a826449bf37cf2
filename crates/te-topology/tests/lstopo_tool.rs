//! The lstopo of this machine as a second reader of sysfs: it reads the same trees, writes XML of
//! version 2, and what we read of its XML is what we read of the tree.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::fixture::Fixture;
use common::{Scratch, as_version_2, files, real_data, skip, unpack};
use te_topology::{InterfaceKind, Machine, NicKind, read_machine, read_sysfs};

/// What lstopo says of an input (`fsroot` or `xml`), `None` for this machine; an error is the
/// reason to skip.
fn lstopo(input: Option<(&str, &Path)>) -> Result<Machine, String> {
    let mut command = Command::new("lstopo-no-graphics");
    command.args(["--of", "xml", "--whole-io", "--disallowed"]);
    if let Some((kind, path)) = input {
        command.args(["--if", kind, "-i"]).arg(path);
    }
    let output = command.arg("-").output();
    let output = output.map_err(|e| format!("type: apt-get install -y hwloc-nox ({e})"))?;
    let text = String::from_utf8(output.stdout).map_err(|e| e.to_string())?;
    assert!(text.contains("<topology version="), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(read_machine(&text).unwrap())
}

/// Lines that both readers must agree on.
fn facts(machine: &Machine) -> Vec<String> {
    let mut facts = Vec::new();
    for node in machine.nodes() {
        let (number, cpus, memory) = (node.number, &node.cpus, node.memory_bytes);
        facts.push(format!("node {number}: CPUs {cpus}, memory {memory:?}"));
        // A machine of one node has no distances worth a table, and lstopo leaves it out.
        for to in machine.nodes() {
            let distance = machine.distance(number, to.number);
            facts.push(format!("node {number} to {}: {distance}", to.number));
        }
    }
    // lstopo keeps what hangs on PCI, and does not know which interfaces are bonded.
    for nic in machine.nics().iter().filter(|nic| nic.kind != NicKind::Software) {
        let Some(index) = nic.pci else { continue };
        let address = machine.pci_device(index).address;
        let above: Vec<String> = machine
            .bridges_above(index)
            .map(|at| machine.pci_device(at).address.to_string())
            .collect();
        let class = machine.pci_device(index).class.map(|class| class.kind());
        facts.push(format!("NIC {} at {address} below {above:?}, {class:04x?}", nic.name));
        facts.push(format!("NIC {} near {:?}", nic.name, nic.near.nodes));
        let ports: Vec<_> = nic.ports.iter().map(|p| (p.number, p.state, p.lid)).collect();
        let is_hardware = |name: &&String| {
            let known = machine.interfaces().iter().find(|interface| interface.name == **name);
            known.is_some_and(|interface| interface.kind == InterfaceKind::Hardware)
        };
        let interfaces: Vec<_> = nic.interfaces.iter().filter(is_hardware).collect();
        facts.push(format!("NIC {} ports {ports:?}, {interfaces:?}", nic.name));
    }
    for gpu in machine.gpus() {
        let address = gpu.pci.map(|index| machine.pci_device(index).address);
        facts.push(format!("GPU {} at {address:?} near {:?}", gpu.location(), gpu.near.nodes));
    }
    facts
}

/// Facts that only one of the two has, each with who has it.
fn differences(ours: &Machine, theirs: &Machine) -> Vec<String> {
    let (ours, theirs) = (facts(ours), facts(theirs));
    let only = |these: &[String], those: &[String], who: &str| -> Vec<String> {
        these.iter().filter(|fact| !those.contains(fact)).map(|f| format!("{who}: {f}")).collect()
    };
    [only(&ours, &theirs, "ours"), only(&theirs, &ours, "lstopo")].concat()
}

#[test]
fn this_machine_is_what_lstopo_says() {
    match lstopo(None) {
        Ok(theirs) => {
            assert_eq!(differences(&read_sysfs(Path::new("/")), &theirs), Vec::<String>::new());
        }
        Err(reason) => skip("this_machine_is_what_lstopo_says", &reason),
    }
}

/// On one machine the kernel gives the NIC a node that its driver guessed, while all CPUs are local
/// to it. We take the node, as the peer does; lstopo takes the CPUs, which say nothing.
fn known(archive: &str) -> Vec<&'static str> {
    match archive {
        "40intel64-2g2n4c+pcilocality.tar.bz2" => {
            vec!["ours: NIC qib0 near [numa#2]", "lstopo: NIC qib0 near []"]
        }
        _ => Vec::new(),
    }
}

/// Captured trees of real machines; the differences are known and explained.
#[test]
fn captured_trees_are_what_lstopo_says() {
    let test = "captured_trees_are_what_lstopo_says";
    let Some(folder) = real_data(test) else { return };
    for archive in files(&folder.join("hwloc-sysfs"), ".tar.bz2") {
        let scratch = Scratch::new();
        let read = unpack(&archive, &scratch.0, &[]).and_then(|()| {
            let top = files(&scratch.0, "").pop().unwrap();
            Ok((read_sysfs(&top), lstopo(Some(("fsroot", &top)))?))
        });
        match read {
            Ok((ours, theirs)) => {
                let name = archive.file_name().unwrap().to_str().unwrap();
                assert_eq!(differences(&ours, &theirs), known(name), "{name}");
            }
            Err(reason) => return skip(test, &reason),
        }
    }
}

/// The machines that we describe ourselves.
#[test]
fn fixtures_are_what_lstopo_says() {
    for fixture in Fixture::all() {
        let scratch = Scratch::new();
        let fixture = fixture.for_lstopo();
        fixture.write(&scratch.0);
        match lstopo(Some(("fsroot", &scratch.0))) {
            Ok(theirs) => {
                let found = differences(&read_sysfs(&scratch.0), &theirs);
                assert_eq!(found, Vec::<String>::new(), "{}", fixture.name);
            }
            Err(reason) => return skip("fixtures_are_what_lstopo_says", &reason),
        }
    }
}

/// XML of real machines, as version 2, which this lstopo reads and writes again.
#[test]
fn machines_in_xml_are_what_lstopo_says() {
    let test = "machines_in_xml_are_what_lstopo_says";
    let Some(folder) = real_data(test) else { return };
    for file in files(&folder.join("hwloc-xml"), ".xml") {
        let text = fs::read_to_string(&file).unwrap();
        let scratch = Scratch::new();
        let copy = scratch.0.join("machine.xml");
        fs::write(&copy, as_version_2(&text)).unwrap();
        match lstopo(Some(("xml", &copy))) {
            Ok(theirs) => {
                let found = differences(&read_machine(&text).unwrap(), &theirs);
                assert_eq!(found, Vec::<String>::new(), "{}", file.display());
            }
            Err(reason) => return skip(test, &reason),
        }
    }
}
