//! Engines and the NICs of their machine: what is discovered, what a user's file says instead, and
//! that no such file ends an engine.
#![cfg(feature = "tcp")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use te_engine::{EngineConfig, PriorityMatrix, RegisterOptions, TransferEngine, TransferRequest};

/// A file that goes away with the value.
struct Custom(PathBuf);

impl Custom {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("te-engine-{}-{name}", std::process::id()));
        fs::write(&path, text).unwrap();
        Self(path)
    }

    fn engine(&self) -> TransferEngine {
        engine(|settings| settings.custom_file = Some(self.0.clone()))
    }
}

impl Drop for Custom {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn engine(change: impl FnOnce(&mut te_engine::TopologySettings)) -> TransferEngine {
    let config = EngineConfig::default().adjust(|settings| change(&mut settings.topology)).unwrap();
    TransferEngine::builder().config(config).build().unwrap()
}

/// What an engine says with its causes.
fn told(engine: &TransferEngine) -> String {
    let mut cause: Option<&dyn std::error::Error> = engine.topology_fault().map(|fault| fault as _);
    let mut words = Vec::new();
    while let Some(error) = cause {
        words.push(error.to_string());
        cause = error.source();
    }
    words.join(": ")
}

/// Moves bytes both ways between this engine and another one over TCP on loopback.
fn works(engine: &TransferEngine) {
    let target = TransferEngine::builder().build().unwrap();
    let theirs = target.allocate(1 << 16).unwrap();
    target.register(&theirs, RegisterOptions::default()).unwrap();
    let ours = engine.allocate(1 << 16).unwrap();
    ours.write_from(0, &[0x5a; 1 << 16]).unwrap();
    let segment = engine.open_segment(target.local_name().as_str()).unwrap();
    let write = TransferRequest::write(ours.whole(), segment, theirs.address());
    let limit = Duration::from_secs(10);
    assert_eq!(engine.transfer(&[write], limit).unwrap(), 1 << 16);
    ours.write_from(0, &[0; 1 << 16]).unwrap();
    let read = TransferRequest::read(ours.whole(), segment, theirs.address());
    assert_eq!(engine.transfer(&[read], limit).unwrap(), 1 << 16);
    let mut seen = vec![0; 1 << 16];
    ours.read_into(0, &mut seen).unwrap();
    assert!(seen.iter().all(|byte| *byte == 0x5a), "bytes differ");
}

#[test]
fn fault34_a_custom_topology_of_absent_nics_turns_rdma_off_and_tcp_works() {
    // Peer fault 34: the peer's engine does not start. Here the file and both NICs are named, no NIC
    // is used, and TCP moves bytes.
    let custom = Custom::new("absent.json", r#"{"cpu:0":[["mlx9_8"],["mlx9_9"]]}"#);
    let engine = custom.engine();
    let told = told(&engine);
    for part in [custom.0.to_str().unwrap(), "mlx9_8, mlx9_9", "which this host does not have"] {
        assert!(told.contains(part), "{told}");
    }
    let matrix = engine.topology();
    assert!(matrix.is_empty() && matrix.rows().count() > 0, "{matrix}");
    works(&engine);
}

#[test]
fn fault34_a_custom_topology_that_is_wrong_names_every_fault_and_tcp_works() {
    // Peer fault 34, D2: nothing of it is used, and every row that is wrong is named.
    let text = r#"{"cpu:0":[["a"]],"cpu:1":[["b"],["c"]],"cuda:0":7}"#;
    let engine = Custom::new("wrong.json", text).engine();
    let told = told(&engine);
    assert!(told.contains("wrong.json") && told.contains("cpu:0"), "{told}");
    assert!(told.contains("cuda:0") && !told.contains("cpu:1"), "{told}");
    assert!(engine.topology().is_empty());
    works(&engine);
}

#[test]
fn d9_an_absent_or_empty_custom_topology_leaves_what_is_discovered() {
    // D9: as with the peer; here a warning names the file.
    let discovered = engine(|_| {}).topology();
    let empty = Custom::new("empty.json", " \n");
    assert_eq!(empty.engine().topology(), discovered);
    let absent = engine(|s| s.custom_file = Some("/nonexistent/topology.json".into()));
    assert_eq!(absent.topology(), discovered);
    for (engine, file) in [(&absent, "/nonexistent/topology.json"), (&empty.engine(), "empty.json")]
    {
        assert!(told(engine).contains(file), "{}", told(engine));
    }
}

#[test]
fn d9_a_custom_topology_is_taken_as_it_is() {
    // D9, D1: rows of any location, in both forms of file.
    let text = r#"{"cpu:0":[[],[]],"somewhere":[[],[]]}"#;
    let engine = Custom::new("custom.json", text).engine();
    assert!(engine.topology_fault().is_none());
    assert_eq!(engine.topology(), PriorityMatrix::parse(text).unwrap());
    assert_eq!(engine.topology().to_string(), text);
    let ranked = Custom::new("ranked.json", r#"{"nics":[],"mems":[]}"#).engine();
    assert!(ranked.topology_fault().is_none(), "{}", told(&ranked));
}

#[test]
fn j23_the_topology_of_an_engine_is_printed_and_parsed_without_loss() {
    // J23: also as the custom file of another engine.
    let first = engine(|_| {}).topology();
    assert_eq!(PriorityMatrix::parse(&first.to_string()).unwrap(), first);
    assert!(first.rows().count() > 0, "a machine has at least one node");
    let again = Custom::new("again.json", &first.to_string()).engine();
    assert_eq!(told(&again), "");
    assert_eq!(again.topology(), first);
}

#[test]
fn j24_filters_that_match_nothing_leave_rows_without_nics() {
    // J24: no error where RDMA is switched off, and the rows are those of the machine.
    let config = EngineConfig::default();
    let config = config.adjust(|s| s.topology.filters = vec!["mlx9_9".to_owned()]).unwrap();
    let engine = TransferEngine::builder().config(config).only(["tcp"]).build().unwrap();
    let matrix = engine.topology();
    assert!(matrix.is_empty() && matrix.rows().count() > 0);
    works(&engine);
}
