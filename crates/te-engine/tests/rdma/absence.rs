//! Why there is no RDMA, and that a NIC which was asked for is never replaced by TCP in silence.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::path::PathBuf;

use te_engine::{BuildError, EngineConfig, RdmaAbsence, Settings, TransferEngine};
use te_verbs::VerbsCall;

use crate::harness::*;

fn build(world: &World, change: impl FnOnce(&mut Settings)) -> Result<TransferEngine, BuildError> {
    let config = EngineConfig::default().adjust(change).unwrap();
    world.builder("a", config).build()
}

/// An engine without RDMA, that works, and why.
fn absence(world: &World, change: impl FnOnce(&mut Settings)) -> String {
    let engine = build(world, change).unwrap();
    assert!(!engine.transports().contains(&"rdma") && engine.transports().contains(&"tcp"));
    assert_eq!(engine.descriptor().protocol_name(), "tcp");
    told(engine.rdma_absence().unwrap())
}

#[test]
fn an_engine_without_rdma_works_and_says_why() {
    let world = World::new();
    assert_eq!(absence(&world, |_| {}), "there is no RDMA device");
    let nics = world.devices("a", 1);
    assert_eq!(build(&world, |_| {}).unwrap().transports(), ["local", "shm", "rdma", "tcp"]);
    let off = absence(&world, |s| s.engine.force_tcp = true);
    assert_eq!(off, "RDMA is switched off by engine.force_tcp (MC_FORCE_TCP)");
    let named = absence(&world, |s| s.engine.transports = vec!["shm".into(), "tcp".into()]);
    assert_eq!(named, "RDMA is switched off by engine.transports");
    nics[0].fail_call(VerbsCall::Open, 0, 13);
    let refused = absence(&world, |_| {});
    assert!(refused.starts_with("RDMA does not start: transport rdma cannot start"), "{refused}");
    assert!(refused.contains("rxe0: the device does not answer"), "{refused}");
    assert_eq!(nics[0].openings(), 0, "nothing is left open");
}

/// The system's own library, whatever this machine has.
#[test]
fn the_systems_library_is_there_or_its_absence_is_told() {
    let engine = TransferEngine::builder().build().unwrap();
    match engine.rdma_absence() {
        None => assert!(engine.transports().contains(&"rdma")),
        Some(RdmaAbsence::Library(_) | RdmaAbsence::NoDevice | RdmaAbsence::NotStarted(_)) => {
            assert_eq!(engine.transports(), ["local", "shm", "tcp"]);
        }
        Some(other) => panic!("{other}"),
    }
}

#[test]
fn rdma_that_is_demanded_and_not_there_is_an_error_that_says_why() {
    let world = World::new();
    let demand = |settings: &mut Settings| settings.engine.force_hca = true;
    let refused = build(&world, demand).unwrap_err();
    let why = "RDMA is demanded by engine.force_hca (MC_FORCE_HCA), and there is none: \
               there is no RDMA device";
    assert_eq!(told(&refused), why);
    let named = build(&world, |s| s.engine.transports = vec!["rdma".into(), "tcp".into()]);
    assert!(matches!(named, Err(BuildError::NoRdma { by: "engine.transports", .. })));
    let builder = world.builder("a", EngineConfig::default()).only(["rdma"]);
    assert!(matches!(builder.build(), Err(BuildError::NoRdma { by: "the program", .. })));
    let nics = world.devices("a", 1);
    nics[0].port_down(1);
    let refused = told(&build(&world, demand).unwrap_err());
    assert!(refused.contains("rxe0: port 1 is not active"), "{refused}");
    nics[0].port_up(1);
    assert_eq!(build(&world, demand).unwrap().transports(), ["rdma"]);
}

/// rdma fault 9: an unknown device name is an error, and not TCP in silence.
#[test]
fn rdma_fault09_a_nic_that_is_not_here_is_an_error() {
    let world = World::new();
    let ask = |names: &'static [&'static str]| {
        move |s: &mut Settings| {
            s.topology.filters = names.iter().map(|name| (*name).to_owned()).collect();
        }
    };
    let refused = told(&build(&world, ask(&["rxe0"])).unwrap_err());
    let why = "topology.filters (MC_TE_FILTERS) names rxe0, which this host does not have; \
               it has none: there is no RDMA device";
    assert_eq!(refused, why);
    world.devices("a", 2);
    let refused = told(&build(&world, ask(&["rxe1", "mlx5_0", "mlx5_1"])).unwrap_err());
    let why = "topology.filters (MC_TE_FILTERS) names mlx5_0, mlx5_1, which this host does not \
               have; it has rxe0, rxe1";
    assert_eq!(refused, why);
    let one = build(&world, ask(&["rxe1"])).unwrap();
    let named = |engine: &TransferEngine| format!("{:?}", engine.descriptor().part);
    assert!(named(&one).contains("rxe1") && !named(&one).contains("rxe0"));
    let off = build(&world, |s| {
        ask(&["mlx5_0"])(s);
        s.engine.force_tcp = true;
    });
    assert!(off.is_ok(), "where RDMA is switched off, its NICs do not count");
}

/// A file that goes away with the value.
struct Custom(PathBuf);

impl Custom {
    fn new(name: &str, text: &str) -> Self {
        let name = format!("te-engine-rdma-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for Custom {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn d9_a_custom_topology_chooses_the_nics_and_their_order() {
    let world = World::new();
    world.devices("a", 3);
    let custom = Custom::new("order", r#"{"cpu:0":[["rxe2"],["rxe0"]]}"#);
    let engine = build(&world, |s| s.topology.custom_file = Some(custom.0.clone())).unwrap();
    let te_metadata::ProtocolPart::Rdma { devices, priority_matrix, .. } = engine.descriptor().part
    else {
        panic!("RDMA is there");
    };
    let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["rxe2", "rxe0"]);
    let told = priority_matrix.unwrap().to_string();
    assert_eq!(told, r#"{"cpu:0":[["rxe2"],["rxe0"]]}"#);
}

/// Peer fault 34: a custom topology of absent NICs, or of none, turns RDMA off; demanded, it is an error.
#[test]
fn fault34_a_custom_topology_that_cannot_be_used_turns_rdma_off_with_its_reason() {
    let world = World::new();
    world.devices("a", 1);
    let absent = Custom::new("absent", r#"{"cpu:0":[["rxe0"],["mlx9_9"]]}"#);
    let wrong = Custom::new("wrong", r#"{"cpu:0":"rxe0"}"#);
    let empty = Custom::new("empty", r#"{"cpu:0":[[],[]]}"#);
    for (custom, part) in [
        (&absent, "names mlx9_9, which this host does not have"),
        (&wrong, "is wrong"),
        (&empty, "the custom topology names no NIC"),
    ] {
        let file = || Some(custom.0.clone());
        let why = absence(&world, |s| s.topology.custom_file = file());
        assert!(why.contains(part), "{why}");
        let refused = build(&world, |s| {
            s.topology.custom_file = file();
            s.engine.force_hca = true;
        });
        assert!(matches!(refused, Err(BuildError::NoRdma { .. })), "{refused:?}");
    }
    let missing = |s: &mut Settings| s.topology.custom_file = Some("/nonexistent/topo".into());
    let engine = build(&world, missing).unwrap();
    assert!(engine.rdma_absence().is_none(), "as without such a file");
}
