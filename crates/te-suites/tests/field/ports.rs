//! Ports that are short, and ports that are taken.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use te_suites::wire::{DataClient, descriptor_of};
use te_suites::{Bound, Case, Netns, Node, NodeSpec, need, pace, say};

use crate::{MIB, OURS};

/// Sockets to `port` that are open or fading, as the kernel lists them for the network namespace
/// of process `pid`.
fn sockets_to(pid: u32, port: u64) -> usize {
    let tables = ["tcp", "tcp6"].map(|table| {
        std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default()
    });
    let wanted = format!(":{port:04X}");
    let counts = |line: &&str| {
        let mut fields = line.split_whitespace().skip(2);
        let remote = fields.next().is_some_and(|remote| remote.ends_with(&wanted));
        // 01 is established, 06 is TIME_WAIT.
        remote && fields.next().is_some_and(|state| state == "01" || state == "06")
    };
    tables.iter().flat_map(|table| table.lines()).filter(counts).count()
}

/// Runs a storm of writes and samples the sockets meanwhile; gives the most that were seen.
fn storm(from: &mut Node, to: &mut Node, threads: u64, rounds: u64) -> usize {
    // We are not in its namespace, so it looks at itself.
    let descriptor = to.ask(&json!({ "op": "descriptor" })).ok();
    let port = descriptor.value("descriptor")["tcp_data_port"].as_u64().unwrap();
    let command = json!({
        "op": "storm", "target": to.name(), "src": from.addr(), "dst": to.addr(), "len": 4096,
        "threads": threads, "rounds": rounds,
    });
    let (stop, most) = (AtomicBool::new(false), AtomicUsize::new(0));
    let pid = from.pid();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                most.fetch_max(sockets_to(pid, port), Ordering::Relaxed);
                pace(Duration::from_millis(5));
            }
        });
        let answer = from.ask_within(&command, Duration::from_secs(120));
        stop.store(true, Ordering::Relaxed);
        say(&format!("{threads} callers, {rounds} writes each: {:?}", answer.took()));
        answer.ok();
    });
    most.into_inner()
}

#[test]
fn fb01_sixty_four_ports_are_enough() {
    // FB01: connections are reused, so that 10 000 writes need a handful of local ports.
    let test = "fb01_sixty_four_ports_are_enough";
    need!(test, OURS.0.available());
    let netns = need!(test, Netns::new());
    need!(test, netns.set("net/ipv4/ip_local_port_range", "40000 40063"));
    let mut to = NodeSpec::new(OURS.1, MIB).within(&netns).start();
    let mut from = NodeSpec::new(OURS.0, MIB).within(&netns).start();
    let case = Case::start("FB01: 10 000 writes", from.pid());
    for (threads, rounds) in [(1, 5000), (32, 157)] {
        let most = storm(&mut from, &mut to, threads, rounds);
        say(&format!("{test}: at most {most} sockets to the peer at a time"));
        assert!(most > 0, "no socket was seen, so nothing was counted");
        assert!(most < 64, "{most} sockets to the peer");
    }
    case.end(Bound::NOTHING);
    to.ping();
    from.quit();
    to.quit();
}

#[test]
fn fb09_fifty_engines_start_at_once_among_taken_ports() {
    // FB09: every odd port of the range is taken; ports are had by binding, never by guessing.
    const RANGE: std::ops::Range<u16> = 21_000..21_400;
    let test = "fb09_fifty_engines_start_at_once_among_taken_ports";
    need!(test, OURS.0.available());
    let taken: Vec<TcpListener> = RANGE
        .filter(|port| port % 2 == 1)
        .filter_map(|port| TcpListener::bind(("0.0.0.0", port)).ok())
        .collect();
    assert!(taken.len() > 150, "only {} odd ports could be taken", taken.len());
    let spec = NodeSpec::new(OURS.0, 4096)
        .env("MC_MIN_RPC_PORT", &RANGE.start.to_string())
        .env("MC_MAX_RPC_PORT", &(RANGE.end - 1).to_string());
    let launched: Vec<_> = (0..50).map(|_| spec.launch()).collect();
    let nodes: Vec<Node> = launched.into_iter().map(te_suites::Launched::ready).collect();
    let case = Case::start("FB09: one of 50 engines", nodes[0].pid());
    let mut ports = Vec::new();
    for node in &nodes {
        let descriptor = descriptor_of(node);
        ports.push(u64::from(node.rpc_port()));
        ports.push(descriptor["tcp_data_port"].as_u64().unwrap());
        let mut client = DataClient::of(&descriptor).unwrap();
        assert!(client.read(node.addr(), 4096).unwrap().is_ok(), "{}", node.name());
    }
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 100, "two engines advertise one port");
    assert!(ports.iter().all(|port| port % 2 == 0), "a taken port is advertised");
    case.end(Bound::NOTHING);
    say(&format!("{test}: 50 engines on 100 ports, beside {} that were taken", taken.len()));
}

#[test]
fn fb09_no_free_port_is_a_named_error() {
    // FB09: a range without a free port ends the start with an error that says so.
    let test = "fb09_no_free_port_is_a_named_error";
    need!(test, OURS.0.available());
    let taken: Vec<TcpListener> =
        (21_500..21_504).filter_map(|port| TcpListener::bind(("0.0.0.0", port)).ok()).collect();
    let spec =
        NodeSpec::new(OURS.0, 4096).env("MC_MIN_RPC_PORT", "21500").env("MC_MAX_RPC_PORT", "21503");
    let (why, code) = spec.launch().outcome().unwrap_err();
    assert_eq!(code, Some(3), "{why}");
    assert!(why.contains("21500") && why.contains("21503"), "{why}");
    drop(taken);
}
