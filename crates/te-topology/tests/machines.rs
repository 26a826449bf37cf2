//! Whole machines, described by us after real ones: what is found in them and who prefers whom.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod common;

use common::fixture::Fixture;
use common::{Scratch, matrix, preferred, strings};
use te_topology::{
    Affinity, Certainty, DeviceRef, InterfaceKind, LinkLayer, Machine, MemoryLocation, NicFilter,
    NicKind, NumaNode, PciKind, PortState, PriorityMatrix, Reach, SysTree, read_sysfs, read_tree,
};

fn position(machine: &Machine, nic: &str) -> DeviceRef {
    DeviceRef::Nic(machine.nics().iter().position(|known| known.name.as_str() == nic).unwrap())
}

fn word(machine: &Machine, a: DeviceRef, b: DeviceRef) -> String {
    machine.path(a, b).to_string()
}

/// FB44: each region's preferred and available NICs are what the machine's description says.
#[test]
fn fb44_every_fixture_has_the_matrix_that_it_expects() {
    for fixture in Fixture::all() {
        let machine = fixture.machine();
        let matrix = matrix(&machine);
        assert!(!fixture.expected.is_empty(), "{}", fixture.name);
        for (location, preferred, available) in &fixture.expected {
            let row =
                matrix.get(location).unwrap_or_else(|| panic!("{}: {location}", fixture.name));
            assert_eq!(strings(&row.preferred), *preferred, "{}: {location}", fixture.name);
            if let Some(available) = available {
                assert_eq!(strings(&row.available), *available, "{}: {location}", fixture.name);
            }
        }
        let usable = machine.nics().iter().filter(|nic| nic.is_usable()).count();
        for (location, tiers) in matrix.rows() {
            let n = tiers.preferred.len() + tiers.available.len();
            assert_eq!(n, usable, "{}: {location} names every NIC once", fixture.name);
        }
    }
}

/// The same tree on disk and in memory is the same machine, and so is its capture.
#[test]
fn disk_memory_and_capture_give_one_machine() {
    for fixture in Fixture::all() {
        let scratch = Scratch::new();
        fixture.write(&scratch.0);
        let on_disk = read_sysfs(&scratch.0);
        assert_eq!(on_disk, fixture.machine(), "{}", fixture.name);

        let text = SysTree::on_disk(&scratch.0).capture();
        let again = SysTree::from_capture(&text).unwrap();
        assert_eq!(read_tree(&again), on_disk, "{}", fixture.name);
        assert_eq!(again.capture(), text, "{}", fixture.name);
    }
}

/// J23: discover, print, parse and print gives the same text; J25: the list of NICs has each once.
#[test]
fn j23_j25_a_discovered_matrix_survives_its_text() {
    for fixture in Fixture::all() {
        let matrix = matrix(&fixture.machine());
        let text = matrix.to_string();
        let again = PriorityMatrix::parse(&text).unwrap();
        assert_eq!(again.to_string(), text, "{}", fixture.name);
        assert!(!again.is_empty(), "{}", fixture.name);
        let mut nics = strings(&again.nics().into_iter().cloned().collect::<Vec<_>>())
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>();
        let n = nics.len();
        nics.sort();
        nics.dedup();
        assert_eq!(nics.len(), n, "{}", fixture.name);
        for (location, tiers) in matrix.rows() {
            assert_eq!(again.get(location), Some(tiers), "{}", fixture.name);
        }
    }
}

/// J24: a filter that matches nothing is no error; D8: the rows are there and empty.
#[test]
fn j24_a_filter_that_matches_nothing_leaves_empty_rows() {
    let machine = Fixture::load("hgx-h100").machine();
    let filter = NicFilter::new(["mlx9_9", ""], []);
    assert_eq!(filter.absent(&machine), ["mlx9_9"]);
    let matrix = matrix(&machine.with_nics(|nic| filter.keeps(&nic.name)));
    assert!(matrix.is_empty());
    assert_eq!(matrix.rows().count(), 10, "two nodes and eight GPUs");
}

/// Filters act before NICs are ranked: who remains moves up.
#[test]
fn filters_act_before_the_ranking() {
    let machine = Fixture::load("hgx-h100").machine();
    let filter = NicFilter::new([], ["mlx5_0"]);
    let machine = machine.with_nics(|nic| filter.keeps(&nic.name));
    assert_eq!(
        preferred(&machine, "cuda:0").into_iter().collect::<Vec<_>>(),
        ["mlx5_1", "mlx5_2", "mlx5_3"]
    );
    let both = NicFilter::new(["mlx5_0"], ["mlx5_0", "mlx5_1"]);
    assert!(both.keeps(&machine_nic("mlx5_0")), "allowed names win");
    assert!(!both.keeps(&machine_nic("mlx5_2")));
}

fn machine_nic(name: &str) -> te_topology::NicName {
    name.parse().unwrap()
}

#[test]
fn a_large_machine_is_read_in_every_detail() {
    let machine = Fixture::load("hgx-h100").machine();
    assert_eq!(machine.nodes().len(), 2);
    assert_eq!(machine.nodes()[1].cpus.to_string(), "48-95,144-191");
    assert_eq!(machine.nodes()[1].memory_bytes, Some(1007 << 30));
    assert_eq!(machine.distance(NumaNode::new(0), NumaNode::new(1)), 21);
    assert_eq!(machine.cpus().len(), 192);

    let nic = machine.nic("mlx5_5").unwrap();
    assert_eq!((nic.kind, nic.rate_mbps()), (NicKind::Hardware, Some(400_000)));
    assert_eq!(nic.link_layer(), Some(LinkLayer::InfiniBand));
    assert_eq!(nic.ports[0].state, PortState::Active);
    assert_eq!(nic.interfaces, ["ib5"]);
    assert_eq!((nic.near.node(), nic.near.certainty), (Some(NumaNode::new(1)), Certainty::Told));
    let pci = machine.pci_device(nic.pci.unwrap());
    assert_eq!(pci.address.to_string(), "0000:ba:00.0");
    assert_eq!((pci.link.speed_mts, pci.link.width), (Some(32_000), Some(16)));
    let above: Vec<PciKind> =
        machine.bridges_above(nic.pci.unwrap()).map(|at| machine.pci_device(at).kind).collect();
    assert_eq!(above, [PciKind::SwitchDownstream, PciKind::SwitchUpstream, PciKind::RootPort]);

    assert_eq!(machine.gpus().len(), 8, "the management controller's graphics are no GPU");
    assert_eq!(machine.gpus()[7].location(), MemoryLocation::from("cuda:7"));
    let bond = machine.nic("mlx5_bond_0").unwrap();
    assert_eq!((bond.kind, bond.link_layer()), (NicKind::Bond, Some(LinkLayer::Ethernet)));
    assert_eq!(bond.interfaces, ["bond0", "eno1"]);
    assert!(machine.notes().is_empty(), "{:?}", machine.notes());
}

#[test]
fn paths_have_the_words_of_nvidia_smi() {
    let machine = Fixture::load("hgx-h100").machine();
    let gpu = DeviceRef::Gpu;
    assert_eq!(word(&machine, gpu(0), position(&machine, "mlx5_0")), "PIX");
    assert_eq!(word(&machine, gpu(0), position(&machine, "mlx5_1")), "NODE");
    assert_eq!(word(&machine, gpu(0), position(&machine, "mlx5_4")), "SYS");
    assert_eq!(word(&machine, gpu(0), gpu(0)), "X");

    let machine = Fixture::load("epyc-a100-nps4").machine();
    assert_eq!(word(&machine, gpu(0), position(&machine, "mlx5_1")), "PXB");
    assert_eq!(
        word(&machine, position(&machine, "mlx5_8"), position(&machine, "mlx5_9")),
        "PIX",
        "two functions of one card"
    );
    let machine = Fixture::load("single-socket").machine();
    assert_eq!(word(&machine, gpu(0), position(&machine, "mlx5_1")), "PHB");
}

#[test]
fn virtual_functions_and_bonds_are_told_apart() {
    let machine = Fixture::load("many-vfs-and-bond").machine();
    let count = |kind| machine.nics().iter().filter(|nic| nic.kind == kind).count();
    assert_eq!(count(NicKind::VirtualFunction), 64);
    assert_eq!((count(NicKind::Hardware), count(NicKind::Bond)), (1, 1));
    let order: Vec<&str> = machine.nics().iter().map(|nic| nic.name.as_str()).collect();
    assert_eq!(order[1..3], ["mlx5_bond_0", "mlx5_vf0"]);
    assert_eq!(*order.last().unwrap(), "mlx5_vf63");
}

#[test]
fn soft_nics_are_where_the_card_below_is() {
    let machine = Fixture::load("soft-roce-two-nodes").machine();
    let near = |name: &str| {
        let nic = machine.nic(name).unwrap();
        (nic.kind, nic.near.node().map(NumaNode::number), nic.near.certainty)
    };
    assert_eq!(near("rxe0"), (NicKind::Software, Some(0), Certainty::Inferred));
    assert_eq!(near("rxe2"), (NicKind::Software, Some(1), Certainty::Inferred));
    assert_eq!(near("rxe3"), (NicKind::Software, None, Certainty::Assumed));
    let kind = |name: &str| machine.interfaces().iter().find(|i| i.name == name).unwrap().kind;
    assert_eq!(kind("eth0"), InterfaceKind::Hardware);
    assert_eq!(kind("bond0"), InterfaceKind::Bond);
    assert_eq!(kind("bond0.7"), InterfaceKind::Vlan);
    assert_eq!(kind("docker0"), InterfaceKind::Bridge);
    assert_eq!(kind("lo"), InterfaceKind::Loopback);
    assert!(machine.notes().iter().any(|note| note.subject == "rxe3"));
}

#[test]
fn strict_numa_leaves_out_what_is_elsewhere() {
    let machine = Fixture::load("snc4-two-sockets").machine();
    let strict = Affinity::of(&machine).matrix(Reach::SameNode).unwrap();
    let row = |location: &str| strict.get(location).unwrap();
    assert_eq!(strings(&row("cpu:0").preferred), ["mlx5_0"]);
    assert!(row("cpu:0").available.is_empty());
    assert!(row("cpu:1").preferred.is_empty(), "no NIC is on node 1");
}

#[test]
fn a_port_that_is_down_carries_nothing() {
    let machine = Fixture::load("vm-without-numa").machine();
    assert!(!machine.nic("mlx5_1").unwrap().is_usable());
    assert!(machine.gpus().is_empty(), "a virtual machine's screen is no GPU");
    let row = Affinity::of(&machine);
    let row = row.row(&MemoryLocation::from("cpu:0")).unwrap();
    assert_eq!(row.groups.len(), 1);
    assert_eq!(row.groups[0].rate_mbps, Some(25_000));
}

/// FB45: where there is one node, NICs whose node nothing says are near it, and nothing is noted of them.
#[test]
fn fb45_one_node_is_near_to_everything() {
    let machine = Fixture::load("vm-without-numa").machine();
    let subjects: Vec<&str> = machine.notes().iter().map(|note| note.subject.as_str()).collect();
    assert_eq!(subjects, ["nodes"]);
    let near = &machine.nic("mlx5_0").unwrap().near;
    assert_eq!((near.node(), near.certainty), (Some(NumaNode::new(0)), Certainty::Assumed));
    let affinity = Affinity::of(&machine);
    let group = &affinity.row(&MemoryLocation::from("cpu:0")).unwrap().groups[0];
    assert!(group.same_node);
}

#[test]
fn offline_nodes_are_left_out_and_memory_only_nodes_are_not() {
    let machine = Fixture::load("memory-only-nodes").machine();
    let numbers: Vec<u32> = machine.nodes().iter().map(|node| node.number.number()).collect();
    assert_eq!(numbers, [0, 8, 252, 253]);
    assert!(machine.nodes()[2].cpus.is_empty());
    assert_eq!(machine.distance(NumaNode::new(8), NumaNode::new(0)), 40);
    assert!(machine.notes().iter().any(|note| note.subject == "node255"));
}

#[test]
fn machines_are_printed_as_json() {
    let machine = Fixture::load("single-socket").machine();
    let value = serde_json::to_value(&machine).unwrap();
    assert_eq!(value["nics"][0]["name"], "mlx5_0");
    assert_eq!(value["nics"][0]["near"]["nodes"][0], 0);
    assert_eq!(value["gpus"][1]["kind"], "hip");
    let affinity = serde_json::to_value(Affinity::of(&machine)).unwrap();
    assert_eq!(affinity["rows"][1]["location"], "hip:0");
    assert_eq!(affinity["rows"][1]["groups"][0]["class"], "PIX");
}

/// A driver's file has the model, which is read, and serial numbers, which are not captured.
#[test]
fn models_are_read_and_serial_numbers_are_not_captured() {
    let more = "root pci0000:00\n  0000:00:01.0 gpu 10de:2330\n\
        file proc/driver/nvidia/gpus/0000:00:01.0/information = \
        Model: \\t\\t NVIDIA H100 80GB HBM3\\nGPU UUID: \\t GPU-1f3c\n";
    let tree = Fixture::parse(more).tree();
    let machine = read_tree(&tree);
    assert_eq!(machine.gpus()[0].model.as_deref(), Some("NVIDIA H100 80GB HBM3"));
    let text = tree.capture();
    assert!(!text.contains("UUID"), "{text}");
    assert_eq!(read_tree(&SysTree::from_capture(&text).unwrap()), machine);
}

/// More of a kind than a matrix can hold are left out, with a note.
#[test]
fn there_are_bounds_on_what_is_kept() {
    let nics: String = (0..1030)
        .map(|n| format!("sys/class/infiniband/n{n}/ports/1/state\t4: ACTIVE\n"))
        .collect();
    let machine = read_tree(&SysTree::from_capture(&nics).unwrap());
    assert_eq!(machine.nics().len(), 1024);
    assert!(machine.notes().iter().any(|note| note.subject == "NICs"));
    assert_eq!(matrix(&machine).nics().len(), 1024);
}

/// GPUs whose links end at switches reach each other over the lanes that both have.
#[test]
fn links_to_switches_join_every_pair() {
    let gpu = |bus: u32, lanes: [u32; 2]| {
        let link = |at: usize| {
            let (switch, count) = (0xa0 + at, lanes[at]);
            let target = format!("target=\"0000:{switch:02x}:00.0\" count=\"{count}\"");
            format!("<nvlink {target} tclass=\"0x068000\"/>")
        };
        let (dev, links) = (bus - 1, link(0) + &link(1));
        format!(
            "<pci busid=\"0000:0{bus}:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2330\">\
             <gpu dev=\"{dev}\">{links}</gpu></pci>"
        )
    };
    let gpus = gpu(1, [12, 6]) + &gpu(2, [9, 9]) + &gpu(3, [12, 0]);
    let text = format!("<system version=\"1\"><cpu numaid=\"0\">{gpus}</cpu></system>");
    let machine = te_topology::read_nccl_xml(&text).unwrap();
    let pair = |a, b| word(&machine, DeviceRef::Gpu(a), DeviceRef::Gpu(b));
    assert_eq!([pair(0, 1), pair(1, 2), pair(2, 0)], ["NV18", "NV12", "NV12"]);
    assert!(machine.gpu_links().iter().all(|link| link.switched));
}

/// Whether packets can pass: what the kernel says, or the flag where it says that it does not know.
#[test]
fn interfaces_are_up_or_not() {
    let machine = Fixture::parse(
        "net a veth operstate=up\nnet b veth operstate=down\n\
         net c veth operstate=unknown flags=0x1003\nnet d veth operstate=unknown flags=0x1002\n",
    )
    .machine();
    let up: Vec<bool> = machine.interfaces().iter().map(|interface| interface.is_up).collect();
    assert_eq!(up, [true, false, true, false]);
}
