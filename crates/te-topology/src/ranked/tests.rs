//! The ranked form: strict reading, projections, ranks of machines.

use proptest::prelude::*;

use super::*;
use crate::{Reach, SysTree, read_tree};

/// Two nodes with distances; `fast` and `slow` on node 0, `far` on node 1.
fn machine() -> Machine {
    let mut capture = String::new();
    for (node, row) in [(0, "10 21"), (1, "21 10")] {
        let folder = format!("sys/devices/system/node/node{node}");
        capture += &format!("{folder}/cpulist\t{node}\n{folder}/distance\t{row}\n");
    }
    for (name, node, rate) in [("fast", 0, 400), ("slow", 0, 100), ("far", 1, 400)] {
        let folder = format!("sys/class/infiniband/{name}");
        capture += &format!("{folder}/device/numa_node\t{node}\n");
        capture += &format!("{folder}/ports/1/state\t4: ACTIVE\n");
        capture += &format!("{folder}/ports/1/rate\t{rate} Gb/sec (4X)\n");
    }
    read_tree(&SysTree::from_capture(&capture).unwrap())
}

/// T95g: nearest NICs are rank 0, others of the node rank 1, the rest rank 2; `*` has all in rank 2.
#[test]
fn t95g_ranks_of_a_machine() {
    let machine = machine();
    let affinity = Affinity::of(&machine);
    let ranked = RankedTopology::of(&machine, &affinity);
    let names: Vec<&str> = ranked.nics().iter().map(|nic| nic.name.as_str()).collect();
    assert_eq!(names, ["far", "fast", "slow"]);
    let lists = |name: &str| {
        let memory = ranked.mems().iter().find(|memory| memory.name == name).unwrap();
        let ranks = &memory.device_list;
        (ranks.rank0.clone(), ranks.rank1.clone(), ranks.rank2.clone(), memory.kind)
    };
    assert_eq!(lists("cpu:0"), (vec![1], vec![2], vec![0], 0));
    assert_eq!(lists("cpu:1"), (vec![0], vec![], vec![1, 2], 0));
    assert_eq!(lists("*"), (vec![], vec![], vec![0, 1, 2], 4));
    assert_eq!(ranked.nics()[0].numa_node, 1);
    // T25: what classic peers are told is the same as from the affinity.
    assert_eq!(ranked.matrix().unwrap(), affinity.matrix(Reach::All).unwrap());
}

/// T95i: the members have the names and numbers of the second engine; printing is lossless.
#[test]
fn t95i_the_text_is_the_engines() {
    let ranked = RankedTopology::of(&machine(), &Affinity::of(&machine()));
    let text = ranked.to_string();
    let nic = r#"{"name":"far","pci_bus_id":"","type":0,"numa_node":1}"#;
    assert!(text.starts_with(&format!("{{\"nics\":[{nic},")), "{text}");
    assert!(text.contains(r#""device_list":{"rank0":[1],"rank1":[2],"rank2":[0]}"#), "{text}");
    assert_eq!(RankedTopology::parse(&text).unwrap(), ranked);
    let attributes = r#"{"nics":[{"name":"a","type":0,"device_attrs":{"x":[1]}}],"mems":[]}"#;
    let ranked = RankedTopology::parse(attributes).unwrap();
    assert!(ranked.to_string().contains(r#""device_attrs":{"x":[1]}"#));
}

/// T95h: two lists become ranks 0 and 1, NICs are numbered as they appear, and `*` has the unions.
#[test]
fn t95h_two_lists_become_ranks() {
    let matrix =
        PriorityMatrix::parse(r#"{"cpu:0":[["b"],["a","b"]],"cuda:0":[[],["c"]]}"#).unwrap();
    let ranked = RankedTopology::from_matrix(&matrix);
    let names: Vec<&str> = ranked.nics().iter().map(|nic| nic.name.as_str()).collect();
    assert_eq!(names, ["b", "a", "c"]);
    let all = ranked.mems().iter();
    let lists: Vec<_> =
        all.map(|m| (m.name.as_str(), &*m.device_list.rank0, &*m.device_list.rank1)).collect();
    assert_eq!(lists, [("cpu:0", &[0][..], &[1][..]), ("cuda:0", &[], &[2]), ("*", &[0], &[1, 2])]);
    assert_eq!(ranked.mems()[1].kind, 1);
}

/// Every fault is named, and nothing is kept.
#[test]
fn all_faults_are_named() {
    let text = r#"{"nics":[{"name":"a","type":0},{"name":"a","type":9},{"name":"","type":0}],
        "mems":[{"name":"cpu:0","type":7,"device_list":{"rank0":[0,0,3],"rank1":[1]}},
                {"name":"cpu:0","type":0,"device_list":{}}]}"#;
    let RankedError::Faults { faults } = RankedTopology::parse(text).unwrap_err() else {
        panic!("the shape is fine");
    };
    let all = faults.join("\n");
    for part in [
        "NIC 1: the name \"a\" stands twice",
        "NIC 1: type 9",
        "NIC 2: a NIC name is empty",
        "type 7",
        "rank0 names NIC 0 again",
        "rank0 names NIC 3, there are 3",
        "memory \"cpu:0\": the name stands twice",
    ] {
        assert!(all.contains(part), "{part}:\n{all}");
    }
    for text in ["", "[]", r#"{"nics":[]}"#, r#"{"nics":[],"mems":[],"more":1}"#] {
        assert!(matches!(RankedTopology::parse(text), Err(RankedError::Json(_))), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}") {
        let _ = RankedTopology::parse(&text);
    }

    /// I1 after reading: no number leads out of the list.
    #[test]
    fn any_numbers_are_checked(
        rank0 in prop::collection::vec(0_u32..4, 0..4),
        rank1 in prop::collection::vec(0_u32..4, 0..4),
    ) {
        let text = format!(
            r#"{{"nics":[{{"name":"a","type":0}},{{"name":"b","type":0}}],"mems":[
                {{"name":"cpu:0","type":0,"device_list":{{"rank0":{rank0:?},"rank1":{rank1:?}}}}}]}}"#,
        );
        let all: Vec<u32> = rank0.iter().chain(&rank1).copied().collect();
        let distinct: std::collections::BTreeSet<u32> = all.iter().copied().collect();
        let good = distinct.len() == all.len() && all.iter().all(|at| *at < 2);
        prop_assert_eq!(RankedTopology::parse(&text).is_ok(), good);
    }
}
