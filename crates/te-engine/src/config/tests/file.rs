//! The TOML form: what it takes, and where it says that it is wrong.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::super::{ConfigError, EngineConfig, LoadOptions, Settings};

/// A file that is gone when the test ends.
pub(super) struct TestFile(PathBuf);

impl TestFile {
    pub(super) fn path(&self) -> PathBuf {
        self.0.clone()
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

pub(super) fn write(name: &str, text: &str) -> TestFile {
    let path = std::env::temp_dir().join(format!("te-config-{}-{name}.toml", std::process::id()));
    fs::write(&path, text).unwrap();
    TestFile(path)
}

fn load(name: &str, text: &str) -> Result<EngineConfig, ConfigError> {
    let file = write(name, text);
    let environment = BTreeMap::<String, String>::new();
    EngineConfig::load(&LoadOptions { file: Some(file.path()), environment: &environment })
}

/// The problems of a file as "line: key reason".
fn problems(name: &str, text: &str) -> Vec<String> {
    match load(name, text).unwrap_err() {
        ConfigError::Settings { problems } => problems
            .into_iter()
            .map(|problem| {
                format!("{}: {} {}", problem.place.unwrap().1, problem.key, problem.reason)
            })
            .collect(),
        other => panic!("{other}"),
    }
}

#[test]
fn every_setting_survives_the_file_form() {
    let settings = Settings::default();
    let text = toml::to_string(&settings).unwrap();
    let config = load("round", &text).unwrap();
    assert_eq!(*config, settings);
    let back: Settings = toml::from_str(&text).unwrap();
    assert_eq!(back, settings);
}

#[test]
fn settings_of_every_kind_are_taken() {
    let config = load(
        "kinds",
        "[peer]\nipv6 = true\nadvertise_address = \"::1\"\n\
         [log]\nlevel = \"ERROR\"\ndirectory = \"/tmp\"\n\
         [topology]\nfilters = [\"a\", \"b\"]\n\
         [rdma]\nmtu_bytes = 1024\nudp_source_ports = [1, 2]\nparallel_registration = 1\n\
         [engine]\nrequest_timeout_ms = 0\n",
    )
    .unwrap();
    assert!(config.peer.ipv6);
    assert_eq!(config.rdma.mtu_bytes.verbs(), 3);
    assert_eq!(config.rdma.udp_source_ports, [1, 2]);
    assert_eq!(config.topology.filters, ["a", "b"]);
    assert_eq!(config.engine.request_timeout, None);
}

#[test]
fn all_problems_are_told_with_line_and_key() {
    let text =
        "[tcp]\nlanes_per_peer = 99\nlanes = 3\n\n[nothing]\nx = 1\n\n[log]\nlevel = \"LOUD\"\n";
    let mut told = problems("problems", text);
    told.sort();
    assert_eq!(told.len(), 4, "{told:#?}");
    assert_eq!(told[0], "2: tcp.lanes_per_peer = 99 is not a whole number from 1 to 16");
    assert_eq!(told[1], "3: tcp.lanes is not a setting; lanes_per_peer is");
    assert_eq!(
        told[2],
        "5: nothing is not a section; they are engine, log, metadata, peer, rdma, tcp, topology"
    );
    assert_eq!(
        told[3],
        "9: log.level = \"LOUD\" is not \"TRACE\", \"INFO\", \"WARNING\" or \"ERROR\""
    );
}

#[test]
fn a_key_like_no_other_is_answered_with_all_there_are() {
    let told = problems("unlike", "[topology]\nnics = 3\n");
    let keys = "custom_file, filters, path_round_robin";
    assert_eq!(told, [format!("2: topology.nics is not a setting; [topology] has {keys}")]);
}

#[test]
fn a_value_of_the_wrong_type_is_told() {
    assert_eq!(
        problems("type", "[tcp]\nlanes_per_peer = \"4\"\n"),
        ["2: tcp.lanes_per_peer = \"4\" is not a whole number from 1 to 16"]
    );
    assert_eq!(
        problems("flag", "[engine]\nforce_tcp = 1\n"),
        ["2: engine.force_tcp = 1 is not true or false"]
    );
    assert_eq!(problems("section", "tcp = 4\n"), ["1: tcp is not a section: write [tcp]"]);
}

#[test]
fn rules_over_two_settings_hold_for_files_too() {
    assert_eq!(
        problems("ports", "[peer]\nport_min = 20000\nport_max = 19000\n"),
        ["2: peer.port_min = 20000 is above peer.port_max = 19000"]
    );
    assert_eq!(
        problems("pieces", "[tcp]\nmax_piece_bytes = 4096\n"),
        ["2: tcp.min_piece_bytes = 1048576 is above tcp.max_piece_bytes = 4096"]
    );
    assert_eq!(
        problems("ratio", "[rdma]\nslice_size_bytes = 8\nfragment_ratio = 8\n"),
        ["3: rdma.fragment_ratio = 8 is not below rdma.slice_size_bytes = 8"]
    );
}

#[test]
fn syntax_errors_have_a_line() {
    let error = load("syntax", "[tcp]\n\nlanes_per_peer = = 4\n").unwrap_err();
    assert!(matches!(error, ConfigError::Syntax { line: 3, .. }), "{error}");
    let error = load("twice", "[tcp]\nlanes_per_peer = 4\nlanes_per_peer = 5\n").unwrap_err();
    assert!(matches!(error, ConfigError::Syntax { line: 3, .. }), "{error}");
}

#[test]
fn a_file_that_is_missing_or_far_too_long_is_told_by_name() {
    let environment = BTreeMap::<String, String>::new();
    let file = Some(PathBuf::from("/nonexistent/te.toml"));
    let error = EngineConfig::load(&LoadOptions { file, environment: &environment }).unwrap_err();
    assert_eq!(error.to_string(), "cannot read configuration file /nonexistent/te.toml");
    let long = "# comment\n".repeat(200_000);
    assert!(matches!(load("long", &long).unwrap_err(), ConfigError::TooLong { .. }));
}

#[test]
fn odd_bytes_never_panic() {
    for text in [
        "\u{0}",
        "[",
        "[[tcp]]\n",
        "[tcp.more]\nx=1\n",
        "a.b.c = 1",
        "[tcp]\nslice_size_bytes = 1e300",
    ] {
        assert!(load("odd", text).is_err(), "{text:?}");
    }
    let deep = format!("[tcp]\nlanes_per_peer = {}{}", "[".repeat(5000), "]".repeat(5000));
    assert!(load("deep", &deep).is_err());
}
