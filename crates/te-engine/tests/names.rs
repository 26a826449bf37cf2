//! What a local name may be, with and without a port: FB15 and FB18.
#![cfg(feature = "tcp")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use te_engine::{BuildError, EngineConfig, TransferEngine};

/// What a name and an explicit port lead to in P2P mode.
#[derive(Debug, PartialEq)]
enum Expected {
    /// This host, with some picked port.
    Host(&'static str),
    /// This host, with the explicit port.
    Exact(&'static str),
    /// A named error.
    Refused,
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("[::]:0").unwrap().local_addr().unwrap().port()
}

fn check(name: &str, explicit: bool, legacy: bool, expected: &Expected) {
    let config = EngineConfig::default().adjust(|s| s.peer.legacy_port_binding = legacy).unwrap();
    let mut builder = TransferEngine::builder().name(name).config(config);
    let port = free_port();
    if explicit {
        builder = builder.port(port);
    }
    let context = format!("name {name:?}, explicit {explicit}, legacy {legacy}");
    match (builder.build(), expected) {
        (Ok(engine), Expected::Host(host)) => {
            assert_eq!(engine.local_address().host(), *host, "{context}");
            assert!((15_000..=17_000).contains(&engine.rpc_port()), "{context}");
        }
        (Ok(engine), Expected::Exact(host)) => {
            assert_eq!(engine.local_address().host(), *host, "{context}");
            assert_eq!(engine.rpc_port(), port, "{context}");
        }
        (Err(BuildError::LocalName { name: told, .. }), Expected::Refused) => {
            assert_eq!(told, name, "{context}");
        }
        (outcome, _) => panic!("{context}: {outcome:?}, expected {expected:?}"),
    }
}

#[test]
fn fb18_every_form_of_name_with_and_without_a_port_has_one_meaning() {
    use Expected::{Exact, Host, Refused};
    let table = [
        ("127.0.0.1", Host("127.0.0.1"), Exact("127.0.0.1")),
        ("127.0.0.1:23456", Host("127.0.0.1"), Exact("127.0.0.1")),
        ("localhost", Host("localhost"), Exact("localhost")),
        ("localhost:1", Host("localhost"), Exact("localhost")),
        ("::1", Host("::1"), Exact("::1")),
        ("[::1]", Host("::1"), Exact("::1")),
        ("[::1]:5", Host("::1"), Exact("::1")),
        ("", Refused, Refused),
        ("host:", Refused, Refused),
        ("host:99999", Refused, Refused),
        ("host:port", Refused, Refused),
        ("0.0.0.0", Refused, Refused),
        ("[::]:7", Refused, Refused),
        ("a b", Refused, Refused),
    ];
    for (name, alone, with_port) in &table {
        check(name, false, false, alone);
        check(name, true, false, with_port);
    }
}

#[test]
fn a06_legacy_binding_takes_the_port_of_the_name() {
    let config = EngineConfig::default().adjust(|s| s.peer.legacy_port_binding = true).unwrap();
    let port = free_port();
    let builder =
        || TransferEngine::builder().name(format!("127.0.0.1:{port}")).config(config.clone());
    let engine = builder().build().unwrap();
    assert_eq!(engine.rpc_port(), port);
    assert_eq!(engine.local_name().as_str(), format!("127.0.0.1:{port}"));
    // A second claimant of the port is told so, and the first goes on.
    assert!(matches!(builder().build(), Err(BuildError::Listen { .. })));
    drop(engine);
    // The port is free again at once.
    assert_eq!(builder().build().unwrap().rpc_port(), port);
}

#[test]
fn fb24_b2_unknown_schemes_are_errors_that_name_what_there_is() {
    // FB24, B2: a scheme that nobody knows, and one that this build does not have.
    let missing = ["etcd://127.0.0.1:2379", "127.0.0.1:2379", "P2PHANDSHAKEx"];
    let missing = missing.into_iter().filter(|_| !cfg!(feature = "etcd"));
    for text in missing.chain(["foo://x"]) {
        let error = TransferEngine::builder().metadata(text).build().unwrap_err();
        assert!(matches!(error, BuildError::UnknownScheme { .. }), "{text:?}: {error}");
        assert!(error.to_string().contains("P2PHANDSHAKE, "), "{error}");
    }
    for text in ["", "http://", "redis://user:word@host:1", "redis://host:70000"] {
        let error = TransferEngine::builder().metadata(text).build().unwrap_err();
        assert!(matches!(error, BuildError::Metadata { .. }), "{text:?}: {error}");
        assert!(!format!("{error:?} {error}").contains("word"), "{error:?}");
    }
    for text in ["P2PHANDSHAKE", "p2phandshake"] {
        assert!(TransferEngine::builder().metadata(text).build().is_ok());
    }
}

#[test]
fn rdma_that_is_demanded_and_not_there_is_an_error() {
    let config = EngineConfig::default().adjust(|s| s.engine.force_hca = true).unwrap();
    let refused = TransferEngine::builder().config(config.clone()).build();
    assert!(matches!(refused, Err(BuildError::NoRdma { .. })), "{refused:?}");
    let config = config.adjust(|s| s.engine.force_tcp = true).unwrap();
    assert!(TransferEngine::builder().config(config).build().is_ok());
}

#[test]
fn fb09_fifty_engines_start_at_once_on_ports_of_their_own() {
    let engines: Vec<_> = std::thread::scope(|scope| {
        let build = || TransferEngine::builder().name("127.0.0.1").build().unwrap();
        let started: Vec<_> = (0..50).map(|_| scope.spawn(build)).collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut ports: Vec<u16> = engines.iter().map(TransferEngine::rpc_port).collect();
    ports.extend(engines.iter().filter_map(|e| e.descriptor().tcp.data_port));
    assert_eq!(ports.len(), 100);
    for port in &ports {
        std::net::TcpStream::connect(("127.0.0.1", *port)).unwrap();
    }
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 100, "a port was advertised twice");
}
