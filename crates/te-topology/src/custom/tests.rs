//! Users' files.

use super::*;
use crate::{SysTree, read_tree};

fn file() -> &'static Path {
    Path::new("/etc/te/topology.json")
}

fn machine() -> Machine {
    let nic = |name| format!("sys/class/infiniband/{name}/ports/1/state\t4: ACTIVE\n");
    let capture = format!("{}{}", nic("mlx5_0"), nic("mlx5_1"));
    read_tree(&SysTree::from_capture(&capture).unwrap())
}

fn parse(text: &str) -> Result<CustomTopology, CustomTopologyError> {
    CustomTopology::parse(text, file())
}

/// Peer fault 34: a NIC that is absent is named, with the file.
#[test]
fn fault34_an_absent_nic_is_named_with_its_file() {
    let custom = parse(r#"{"cpu:0":[["mlx5_0"],["mlx5_8"]],"cpu:1":[["mlx5_9"],[]]}"#).unwrap();
    let error = custom.check(&machine(), file()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the custom topology /etc/te/topology.json names mlx5_8, mlx5_9, which this host does not have"
    );
    assert_eq!(error.file(), file());
    assert!(!error.is_missing());
    let present = parse(r#"{"cpu:0":[["mlx5_0"],["mlx5_1"]]}"#).unwrap();
    assert!(present.check(&machine(), file()).is_ok());
}

/// D9: both forms are read; which one it is shows in the members.
#[test]
fn d9_both_forms_are_read() {
    let classic = r#"{"cpu:0":[["mlx5_0"],["mlx5_1"]]}"#;
    assert_eq!(parse(classic).unwrap().matrix().unwrap().to_string(), classic);
    let ranked = r#"{"nics":[{"name":"a","type":0},{"name":"t","type":1}],"mems":[
        {"name":"cpu:0","type":0,"device_list":{"rank0":[0],"rank2":[1]}}]}"#;
    let custom = parse(ranked).unwrap();
    assert_eq!(custom.matrix().unwrap().to_string(), r#"{"cpu:0":[["a"],["t"]]}"#);
    let error = custom.check(&machine(), file()).unwrap_err().to_string();
    assert!(error.contains("names a,"), "a NIC of another kind is not looked for: {error}");
    let odd = parse(r#"{"nics":[["mlx5_0"],[]],"mems":[[],[]]}"#).unwrap();
    assert!(matches!(odd, CustomTopology::Matrix(_)), "locations may have any name");
}

/// K25: every fault is named and nothing is kept.
#[test]
fn k25_every_fault_is_named() {
    use std::error::Error as _;
    let error = parse(r#"{"cpu:0":[["a",7],[""]],"cpu:1":5,"cpu:2":[[],[]]}"#).unwrap_err();
    assert!(error.to_string().contains("/etc/te/topology.json"));
    let cause = error.source().unwrap().to_string();
    for part in ["3 faults", "entry 1 of the preferred list", "entry 0 of the available", "cpu:1"] {
        assert!(cause.contains(part), "{part}: {cause}");
    }
    let twice = parse(r#"{"cpu:0":[["a"],[]],"cpu:0":[["b"],[]]}"#).unwrap_err();
    assert!(twice.source().unwrap().to_string().contains("more than once"));
}

/// D9: no file and an empty file are told apart from a wrong one.
#[test]
fn d9_missing_and_empty_files_are_told_apart() {
    let absent = CustomTopology::read(Path::new("/absent/topology.json")).unwrap_err();
    assert!(absent.is_missing() && absent.to_string().contains("/absent/topology.json"));
    assert!(parse(" \n").unwrap_err().is_missing());
    let wrong = parse("nonsense").unwrap_err();
    assert!(!wrong.is_missing());
    assert!(parse("[]").unwrap_err().to_string().contains("is wrong"));
}
