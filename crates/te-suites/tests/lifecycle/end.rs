//! The end of engines, in every state that one can be in; and of those that were forked.

use std::time::Duration;

use serde_json::json;
use te_suites::wire::{
    BASE, DataManner, Deaf, Fault, Front, HandTarget, TargetSpec, descriptor_of,
};
use te_suites::{
    Bound, Case, Direction, Heartbeat, Kind, Node, NodeSpec, Parts, available_memory, need, now,
    pace, say,
};

use crate::{MIB, ours, whole};

const LONG: u64 = 256 * MIB;

/// In what ways a program ends.
const WAYS: [&str; 4] = ["quit", "drop", "exit", "panic"];

/// What closing may take: the engine's own limit is 5 s, and nothing here needs it.
const BOUND: Duration = Duration::from_secs(3);

/// What an engine is in the middle of when it ends, with what that needs to live on.
struct State {
    what: &'static str,
    /// Puts the first node into the state; the second is a healthy peer.
    enter: fn(&mut Node, &mut Node) -> Keep,
}

/// Whatever must live while the state is to last.
type Keep = Vec<Box<dyn std::any::Any>>;

const STATES: &[State] = &[
    State { what: "idle", enter: |_, _| Vec::new() },
    State { what: "after a transfer", enter: after_a_transfer },
    State { what: "connecting", enter: connecting },
    State { what: "in a write", enter: |node, peer| moving(node, peer, Direction::Write) },
    State { what: "in a read", enter: |node, peer| moving(node, peer, Direction::Read) },
    State { what: "towards a silent peer", enter: silent },
    State { what: "waiting for a descriptor", enter: parked },
    State { what: "sending a notification", enter: notifying },
    State { what: "cancelled", enter: cancelled },
    State { what: "being written", enter: |node, peer| moving(peer, node, Direction::Write) },
    State { what: "being read", enter: |node, peer| moving(peer, node, Direction::Read) },
    State { what: "being opened", enter: opened },
];

fn after_a_transfer(node: &mut Node, peer: &mut Node) -> Keep {
    node.write(peer.name(), node.addr(), peer.addr(), 4096).ok();
    Vec::new()
}

fn moving(from: &mut Node, to: &mut Node, dir: Direction) -> Keep {
    let parts = Parts::tiled(16, LONG, (from.addr(), to.addr(), LONG));
    from.submit(dir, to.name(), &parts);
    pace(Duration::from_millis(40));
    Vec::new()
}

/// One request of ours to a target made by hand.
fn submit(node: &mut Node, target: &str, len: u64) -> u64 {
    let mut parts = Parts::default();
    parts.push(node.addr(), BASE, len);
    node.submit(Direction::Write, target, &parts)
}

fn connecting(node: &mut Node, _: &mut Node) -> Keep {
    let deaf = Deaf::start().unwrap();
    let port = deaf.address().port();
    let target = HandTarget::start(TargetSpec::default(), |descriptor| {
        descriptor["tcp_data_port"] = port.into();
    });
    let target = target.unwrap();
    submit(node, target.name(), 4096);
    pace(Duration::from_millis(20));
    vec![Box::new(deaf), Box::new(target)]
}

fn silent(node: &mut Node, _: &mut Node) -> Keep {
    let manner = DataManner::NeverReads;
    let size = usize::try_from(LONG).unwrap();
    let target = HandTarget::start(TargetSpec { size, manner, ..TargetSpec::default() }, |_| ());
    let target = target.unwrap();
    submit(node, target.name(), LONG);
    pace(Duration::from_millis(20));
    vec![Box::new(target)]
}

/// The range is not known, and whoever is asked for a newer descriptor does not answer.
fn parked(node: &mut Node, peer: &mut Node) -> Keep {
    let front = Front::start(peer, Fault::None).unwrap();
    node.write(front.name(), node.addr(), peer.addr(), 64).ok();
    front.mute(true);
    let mut parts = Parts::default();
    parts.push(node.addr(), 1 << 46, 64);
    node.submit(Direction::Write, front.name(), &parts);
    pace(Duration::from_millis(20));
    vec![Box::new(front)]
}

fn notifying(node: &mut Node, peer: &mut Node) -> Keep {
    let front = Front::start(peer, Fault::None).unwrap();
    node.write(front.name(), node.addr(), peer.addr(), 64).ok();
    front.mute(true);
    let command = json!({
        "op": "notify", "target": front.name(), "src": node.addr(), "dst": peer.addr(), "len": 64,
        "name": "n", "msg": "m", "wait": false,
    });
    node.ask(&command).ok();
    pace(Duration::from_millis(20));
    vec![Box::new(front)]
}

fn cancelled(node: &mut Node, peer: &mut Node) -> Keep {
    let parts = Parts::tiled(16, LONG, (node.addr(), peer.addr(), LONG));
    let id = node.submit(Direction::Write, peer.name(), &parts);
    pace(Duration::from_millis(20));
    node.cancel(id).ok();
    Vec::new()
}

fn opened(node: &mut Node, peer: &mut Node) -> Keep {
    let name = node.name().to_owned();
    peer.send(&json!({ "op": "open", "targets": vec![&name; 32] }));
    Vec::new()
}

/// Ends one engine in one state; its peer lives, and what was under way there has an end.
fn ends(test: &str, way: &str) {
    need!(test, Kind::Te.available());
    need!(test, available_memory(4 * LONG));
    let heartbeat = Heartbeat::start();
    let mut peer = ours(LONG);
    let mut healthy = ours(MIB);
    let case = Case::start(&format!("ended by {way}: the peer"), peer.pid());
    for State { what, enter } in STATES {
        let mut node = ours(LONG);
        let keep = enter(&mut node, &mut peer);
        let begun = now();
        let code = node.end(way, BOUND + Duration::from_secs(5));
        let took = begun.elapsed();
        let wanted = if way == "panic" { 101 } else { 0 };
        assert_eq!(code, Some(wanted), "{what}, ended by {way}, after {took:?}");
        heartbeat.assert_within(&format!("{what}: the end by {way}"), took, BOUND);
        drop(keep);
        if *what == "being opened" {
            peer.receive(Duration::from_secs(30));
        }
        let good = healthy.write(peer.name(), healthy.addr(), peer.addr(), 4096).ok();
        heartbeat.assert_within("a peer's other work", good.took(), Duration::from_secs(1));
        say(&format!("{test}: {what}: {took:?}"));
    }
    let back = peer.unreg(peer.addr()).ok();
    heartbeat.assert_within("the peer's memory", back.took(), Duration::from_millis(1500));
    case.end(Bound::NOTHING.with_threads(2).with_rss_mib(LONG / MIB + 48));
    peer.quit();
    healthy.quit();
}

#[test]
fn closing_ends_an_engine_in_every_state() {
    // Issue, item 7: close, then the end of the program.
    ends("closing_ends_an_engine_in_every_state", WAYS[0]);
}

#[test]
fn dropping_ends_an_engine_in_every_state() {
    // Issue, item 7: the engine goes out of scope.
    ends("dropping_ends_an_engine_in_every_state", WAYS[1]);
}

#[test]
fn leaving_ends_an_engine_in_every_state() {
    // Issue, item 7: the process exits while the engine lives.
    ends("leaving_ends_an_engine_in_every_state", WAYS[2]);
}

#[test]
fn unwinding_ends_an_engine_in_every_state() {
    // Issue, item 7: a panic unwinds through the engine's owner.
    ends("unwinding_ends_an_engine_in_every_state", WAYS[3]);
}

#[test]
fn a_closed_engine_settles_every_task_and_says_what_it_left() {
    // Issue, item 7: every task of a closed engine is final, no thread is left, and every call
    // afterwards is refused by name.
    let test = "a_closed_engine_settles_every_task_and_says_what_it_left";
    need!(test, Kind::Te.available());
    need!(test, available_memory(4 * LONG));
    let heartbeat = Heartbeat::start();
    for stop in [false, true] {
        let (mut from, mut to) = (ours(LONG), ours(LONG));
        let parts = Parts::tiled(8, LONG, (from.addr(), to.addr(), LONG));
        let id = from.submit(Direction::Write, to.name(), &parts);
        pace(Duration::from_millis(40));
        if stop {
            to.child().stop();
        }
        let report = from.close(Duration::from_secs(5));
        heartbeat.assert_within("closing", report.took(), BOUND);
        assert_eq!(report.number("open_tasks"), 0, "{report:?}");
        assert_eq!(report.value("joined"), true, "{report:?}");
        assert_eq!(report.number("kept"), 0, "{report:?}");
        for index in 0..8 {
            let task = from.task(id, index);
            assert_ne!(task.value("state"), "waiting", "{task:?}");
        }
        from.fill(0, LONG, 0xb2);
        to.child().resume();
        pace(Duration::from_millis(200));
        assert_eq!(to.count(0, LONG, 0xb2), 0, "bytes were sent after closing");
        let refused = from.write(to.name(), from.addr(), to.addr(), 64);
        assert!(refused.refused().contains("closed"), "{refused:?}");
        assert!(from.reg(from.addr(), 64).refused().contains("closed"));
        let again = from.close(Duration::from_secs(5));
        assert!(again.took() < Duration::from_millis(100), "{again:?}");
        say(&format!("{test}: stopped peer {stop}: {:?}", report.took()));
        from.quit();
        to.quit();
    }
}

#[test]
fn fb52_a_forked_child_is_told_and_the_parent_does_not_notice() {
    // FB52 (Rust part): in the middle of a transfer the process forks. Each call of the child on the
    // inherited engine is refused by name within a second, an engine of its own works, it ends, and
    // the parent's transfer is exact.
    let test = "fb52_a_forked_child_is_told_and_the_parent_does_not_notice";
    need!(test, Kind::Te.available());
    need!(test, available_memory(4 * LONG));
    let (mut from, mut to) = (ours(LONG), ours(LONG));
    let mut other = NodeSpec::new(Kind::Te, MIB).start();
    let case = Case::start("FB52: the parent", from.pid());
    let heartbeat = Heartbeat::start();
    for round in 0..5 {
        from.pattern(0, LONG, round);
        let parts = whole(&from, &to, LONG);
        let id = from.submit(Direction::Write, to.name(), &parts);
        let fork = json!({
            "op": "fork", "target": other.name(), "src": from.addr(), "dst": other.addr(),
            "len": 65_536,
        });
        let child = from.ask(&fork);
        let calls = child.value("calls").as_array().unwrap_or_else(|| panic!("{child:?}")).clone();
        assert_eq!(calls.len(), 6, "{child:?}");
        for call in &calls {
            let error = call["error"].as_str().unwrap_or_else(|| panic!("went through: {call}"));
            assert!(error.contains("forked"), "{call}");
            let took = Duration::from_secs_f64(call["s"].as_f64().unwrap());
            heartbeat.assert_within("a call of the child", took, Duration::from_secs(1));
        }
        assert_eq!(child.value("own"), &serde_json::Value::Null, "{child:?}");
        assert_eq!(child.value("exit"), &json!(0), "{child:?}");
        heartbeat.assert_within("the child's life", child.took(), Duration::from_secs(5));
        other.verify_filled(0, 65_536, 0xc4);
        other.fill(0, 65_536, 0);
        from.wait(id).ok();
        to.verify(0, LONG, round);
        if round == 0 {
            say(&format!("{test}: {}", calls[0]["error"]));
        }
    }
    case.end(Bound::NOTHING.with_rss_mib(LONG / MIB + 16));
    from.quit();
    to.quit();
    other.quit();
}

#[test]
fn what_was_published_is_gone_with_its_engine() {
    // Issue, item 7: a closed engine answers nobody, and whoever knew it finds out at once.
    let test = "what_was_published_is_gone_with_its_engine";
    need!(test, Kind::Te.available());
    let (mut from, mut to) = (ours(MIB), ours(MIB));
    from.write(to.name(), from.addr(), to.addr(), 64).ok();
    let data = descriptor_of(&to)["tcp_data_port"].as_u64().unwrap();
    let data = u16::try_from(data).unwrap();
    to.close(Duration::from_secs(5));
    for port in [to.rpc_port(), data] {
        let open = std::net::TcpStream::connect(("127.0.0.1", port));
        assert!(open.is_err(), "port {port} is still open");
    }
    let answer = from.write(to.name(), from.addr(), to.addr(), 64);
    assert!(!answer.refused().is_empty());
    assert!(answer.took() < Duration::from_secs(1), "{answer:?}");
    from.quit();
    to.quit();
}
