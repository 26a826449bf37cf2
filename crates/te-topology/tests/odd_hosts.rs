//! FB45: hosts with missing, broken or odd facts give a documented result.

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use common::fixture::Fixture;
use common::{Scratch, matrix, preferred, skip, strings};
use te_topology::{Certainty, Locality, Machine, NicKind, NumaNode, read_sysfs};

const TWO_NODES: &str = "\
node 0 cpus=0-3 memory=8 distances=10,20
node 1 cpus=4-7 memory=8 distances=20,10
root pci0000:00 node=0
  0000:00:01.0 bridge
    0000:01:00.0 nic mlx5_0 rate=100 net=eth0
root pci0000:80 node=1
  0000:80:01.0 bridge
    0000:81:00.0 nic mlx5_1 rate=100 net=eth1
";

fn odd(more: &str) -> Machine {
    Fixture::parse(&format!("{TWO_NODES}{more}")).machine()
}

fn noted(machine: &Machine, subject: &str) -> bool {
    machine.notes().iter().any(|note| note.subject == subject)
}

/// FB45: an unknown node ranks last for every memory, and the NIC is kept.
#[test]
fn fb45_numa_node_minus_one_ranks_last() {
    let machine = odd("root pci0000:c0\n  0000:c0:01.0 nic mlx5_2 rate=400\n");
    let nic = machine.nic("mlx5_2").unwrap();
    assert_eq!(nic.near, Locality::UNKNOWN);
    assert!(noted(&machine, "mlx5_2"));
    let matrix = matrix(&machine);
    assert_eq!(strings(&matrix.get("cpu:0").unwrap().preferred), ["mlx5_0"]);
    assert_eq!(strings(&matrix.get("cpu:0").unwrap().available), ["mlx5_1", "mlx5_2"]);
}

/// FB45: without the node's number, CPUs that are local tell it.
#[test]
fn fb45_local_cpus_stand_in_for_the_node() {
    let more = "root pci0000:c0\n  0000:c0:01.0 nic mlx5_2 rate=100 local_cpus=4-7\n";
    let near = &odd(more).nic("mlx5_2").unwrap().near.clone();
    assert_eq!((near.node(), near.certainty), (Some(NumaNode::new(1)), Certainty::Inferred));
    let all = "root pci0000:c0\n  0000:c0:01.0 nic mlx5_2 rate=100 local_cpus=0-7\n";
    assert_eq!(odd(all).nic("mlx5_2").unwrap().near, Locality::UNKNOWN, "all CPUs say nothing");
}

/// FB45: a host without the folder of nodes is one node.
#[test]
fn fb45_without_the_folder_of_nodes_all_is_one_node() {
    let machine = odd("without sys/devices/system/node\n");
    assert_eq!(machine.nodes().len(), 1);
    assert_eq!(machine.nodes()[0].certainty, Certainty::Assumed);
    assert!(noted(&machine, "nodes"));
    let both = ["mlx5_0", "mlx5_1"].map(str::to_owned).into();
    assert_eq!(preferred(&machine, "cpu:0"), both);
}

/// FB45: nodes without distances are 20 apart.
#[test]
fn fb45_missing_distances_are_assumed() {
    let machine = odd("without sys/devices/system/node/node0/distance\n\
                       without sys/devices/system/node/node1/distance\n");
    assert_eq!(machine.distance(NumaNode::new(0), NumaNode::new(1)), 20);
    assert!(noted(&machine, "node0") && noted(&machine, "node1"));
    assert_eq!(preferred(&machine, "cpu:1"), ["mlx5_1".to_owned()].into());
}

/// FB45: a row of distances of the wrong length is not believed.
#[test]
fn fb45_a_row_of_distances_that_does_not_fit_is_left_out() {
    let machine = odd("file sys/devices/system/node/node0/distance = 10 21 30\n");
    assert!(machine.nodes()[0].distances.is_empty());
    assert!(noted(&machine, "node0"));
}

/// FB45: RDMA in software has no PCI path and is kept.
#[test]
fn fb45_rxe_under_virtual_is_kept() {
    let machine = odd("soft rxe0 on=eth1 rate=2.5\n");
    let nic = machine.nic("rxe0").unwrap();
    assert_eq!((nic.kind, nic.near.node()), (NicKind::Software, Some(NumaNode::new(1))));
    let matrix = matrix(&machine);
    assert_eq!(strings(&matrix.get("cpu:1").unwrap().preferred), ["mlx5_1"], "the faster one");
}

/// FB45: a `device` link that leads nowhere costs the place, not the NIC.
#[test]
fn fb45_a_dangling_device_link_keeps_the_nic() {
    let more = "soft odd0 rate=100\n\
                link sys/devices/virtual/infiniband/odd0/device -> ../../../gone\n";
    let machine = odd(more);
    let nic = machine.nic("odd0").unwrap();
    assert_eq!((nic.kind, nic.is_usable()), (NicKind::Virtual, true));
    assert!(noted(&machine, "odd0"));
    assert_eq!(strings(&matrix(&machine).get("cpu:0").unwrap().available), ["mlx5_1", "odd0"]);
}

/// FB45: a NIC of which only a dangling link is there is seen and not used.
#[test]
fn fb45_a_dangling_nic_is_seen_and_not_used() {
    let machine = odd("link sys/class/infiniband/scif0 -> ../../devices/gone/infiniband/scif0\n");
    assert!(!machine.nic("scif0").unwrap().is_usable());
    assert!(matrix(&machine).nics().iter().all(|nic| nic.as_str() != "scif0"));
}

/// FB45: links in a circle end.
#[test]
fn fb45_links_in_a_circle_end() {
    let machine = odd("link sys/class/infiniband/a -> b\nlink sys/class/infiniband/b -> a\n");
    assert!(!machine.nic("a").unwrap().is_usable());
}

/// FB45: no NIC at all, whether the folder is empty or absent: rows without NICs (D8).
#[test]
fn fb45_no_nic_gives_empty_rows() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.0.join("sys/class/infiniband")).unwrap();
    let node = scratch.0.join("sys/devices/system/node/node0");
    fs::create_dir_all(&node).unwrap();
    fs::write(node.join("cpulist"), "0-7\n").unwrap();
    let machine = read_sysfs(&scratch.0);
    assert_eq!(matrix(&machine).to_string(), r#"{"cpu:0":[[],[]]}"#);
    let nothing = read_sysfs(&scratch.0.join("absent"));
    assert_eq!(matrix(&nothing).to_string(), r#"{"cpu:0":[[],[]]}"#);
    assert!(noted(&nothing, "nodes"));
}

/// FB45: a file that is a folder, a pipe or no text is a fact that is missing.
#[test]
fn fb45_unreadable_files_are_missing_facts() {
    let scratch = Scratch::new();
    Fixture::parse(TWO_NODES).write(&scratch.0);
    let device = scratch.0.join("sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0");
    let port = device.join("infiniband/mlx5_1/ports/1");
    fs::remove_file(port.join("rate")).unwrap();
    fs::create_dir(port.join("rate")).unwrap();
    // Bytes that are no text count as none, and a pipe that nobody writes to must not be waited for.
    fs::write(port.join("state"), [0xff, 0xfe, 0x00]).unwrap();
    let machine = read_sysfs(&scratch.0);
    let nic = machine.nic("mlx5_1").unwrap();
    assert_eq!(nic.rate_mbps(), None);
    assert!(nic.is_usable(), "a state that cannot be read counts as unknown");
    let lid = port.join("lid");
    let made = std::process::Command::new("mkfifo").arg(&lid).status();
    if made.is_ok_and(|status| status.success()) {
        assert!(read_sysfs(&scratch.0).nic("mlx5_1").is_some());
    }
}

/// FB45: a file that may not be read is a fact that is missing.
#[test]
fn fb45_a_file_that_may_not_be_read_is_a_missing_fact() {
    let scratch = Scratch::new();
    Fixture::parse(TWO_NODES).write(&scratch.0);
    let port = "sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/infiniband/mlx5_1/ports/1";
    let rate = scratch.0.join(port).join("rate");
    fs::set_permissions(&rate, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(&rate).is_ok() {
        let test = "fb45_a_file_that_may_not_be_read_is_a_missing_fact";
        return skip(test, "cannot be had here: as root every file can be read");
    }
    assert_eq!(read_sysfs(&scratch.0).nic("mlx5_1").unwrap().rate_mbps(), None);
}

/// FB45: numbers of nodes with gaps.
#[test]
fn fb45_sparse_nodes_keep_their_numbers() {
    let machine = Fixture::parse(
        "node 0 cpus=0-3 distances=10,40\nnode 8 cpus=4-7 distances=40,10\n\
         root pci0000:00 node=8\n  0000:00:01.0 nic mlx5_0 rate=100\n",
    )
    .machine();
    let matrix = matrix(&machine);
    assert_eq!(matrix.rows().map(|(name, _)| name).collect::<Vec<_>>(), ["cpu:0", "cpu:8"]);
    assert_eq!(machine.distance(NumaNode::new(0), NumaNode::new(8)), 40);
}

/// FB45: a node that a device names and that is not there is no node.
#[test]
fn fb45_a_node_that_is_not_there_is_not_believed() {
    let machine = odd("root pci0000:c0 node=7\n  0000:c0:01.0 nic mlx5_2 rate=100\n");
    assert_eq!(machine.nic("mlx5_2").unwrap().near, Locality::UNKNOWN);
}

/// Links that lead out of the tree are followed inside it: a copy cannot show this host's files.
#[test]
fn links_do_not_lead_out_of_the_tree() {
    let scratch = Scratch::new();
    Fixture::parse(TWO_NODES).write(&scratch.0);
    let outside = Scratch::new();
    fs::write(outside.0.join("secret"), "7: SECRET\n").unwrap();
    let state = "sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/infiniband/mlx5_1/ports/1/state";
    fs::remove_file(scratch.0.join(state)).unwrap();
    symlink(outside.0.join("secret"), scratch.0.join(state)).unwrap();
    let list = scratch.0.join("sys/class/infiniband");
    symlink("../../../../../../../../../../../../../etc", list.join("up")).unwrap();
    let text = te_topology::SysTree::on_disk(&scratch.0).capture();
    assert!(!text.contains("SECRET"), "{text}");
    assert!(!text.contains("passwd"), "{text}");
}
