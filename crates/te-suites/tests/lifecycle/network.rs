//! Networks that swallow, half-close, crawl, or lead nowhere.

use std::time::Duration;

use serde_json::{Value, json};
use te_suites::wire::{BASE, DataManner, Deaf, Fault, Front, HandTarget, TargetSpec};
use te_suites::{
    Bound, Case, Direction, Heartbeat, Kind, Netns, Node, NodeSpec, Parts, Wish, need, now, pace,
    say,
};

use crate::{MIB, amount, ours};

const SIZE: u64 = 64 * MIB;

/// One of ours that gives up after two seconds without progress.
fn impatient() -> NodeSpec {
    NodeSpec::new(Kind::Te, SIZE).env("MC_TCP_PROGRESS_TIMEOUT_SEC", "2")
}

/// What a request that stands still may take with a progress limit of 2 s.
const STILL: std::ops::Range<Duration> = Duration::from_secs(2)..Duration::from_secs(4);

#[track_caller]
fn assert_given_up(heartbeat: &Heartbeat, what: &str, took: Duration) {
    assert!(took >= STILL.start - Duration::from_millis(50), "{what} was given up after {took:?}");
    heartbeat.assert_within(what, took, STILL.end);
}

#[test]
fn fb04_a_peer_that_never_reads_is_given_up_in_time() {
    // FB04: it takes the header of a 64 MiB write and reads nothing any more. The request fails
    // after the progress limit of 2 s, and its connection is not used again.
    let test = "fb04_a_peer_that_never_reads_is_given_up_in_time";
    need!(test, Kind::Te.available());
    let mut from = impatient().start();
    let size = usize::try_from(SIZE).unwrap();
    let spec = TargetSpec { size, manner: DataManner::NeverReads, ..TargetSpec::default() };
    let target = HandTarget::start(spec, |_| ()).unwrap();
    // Pages that are only read count as well where the memory can be lent.
    from.fill(0, SIZE, 0xa5);
    let case = Case::start("FB04: a peer that never reads", from.pid());
    let heartbeat = Heartbeat::start();
    for round in 1..=2 {
        let answer = from.write(target.name(), from.addr(), BASE, SIZE);
        let error = answer.refused();
        assert!(error.contains(target.name()), "{error}");
        assert_eq!(answer.value("remote"), "in doubt", "{answer:?}");
        assert_eq!(answer.number("quarantined"), 0, "{answer:?}");
        assert_given_up(&heartbeat, "a write that nobody reads", answer.took());
        say(&format!("{test}: {:?}: {error}", answer.took()));
        assert!(target.connections() >= round, "round {round} used an old connection");
    }
    case.end(Bound::NOTHING.with_rss_mib(16));
    from.quit();
}

#[test]
fn fb04_between_two_of_ours_a_peer_that_stops_reading_is_given_up_in_time() {
    // FB04 in version 3: the line goes silent in both directions in the middle of a write, and of a
    // read; afterwards the same peer serves as before.
    let test = "fb04_between_two_of_ours_a_peer_that_stops_reading_is_given_up_in_time";
    need!(test, Kind::Te.available());
    let (mut from, mut to) = (impatient().start(), ours(SIZE));
    let front = Front::start(&to, Fault::None).unwrap();
    let case = Case::start("FB04: version 3 goes silent", from.pid());
    let heartbeat = Heartbeat::start();
    for fault in [Fault::Stall, Fault::Swallow] {
        for dir in Direction::BOTH {
            front.proxy().set(Fault::None);
            from.transfer(dir, front.name(), (from.addr(), to.addr()), 4096).ok();
            front.proxy().set(fault);
            let ends = (from.addr(), to.addr());
            let answer = from.transfer(dir, front.name(), ends, SIZE);
            assert!(!answer.refused().is_empty(), "{fault:?} {}", dir.word());
            assert_eq!(answer.number("quarantined"), 0, "{answer:?}");
            say(&format!(
                "{test}: {fault:?} {}: {:?}: {}",
                dir.word(),
                answer.took(),
                answer.refused()
            ));
            heartbeat.assert_within("a transfer that stands still", answer.took(), STILL.end);
        }
    }
    front.proxy().set(Fault::CutAll);
    front.proxy().set(Fault::None);
    from.pattern(0, SIZE, 4);
    from.write(front.name(), from.addr(), to.addr(), SIZE).ok();
    to.verify(0, SIZE, 4);
    case.end(Bound::NOTHING.with_rss_mib(SIZE / MIB + 16));
    from.quit();
    to.quit();
}

#[test]
fn fb04_many_requests_to_a_silent_peer_fail_together() {
    // FB04: more than can be under way at once. What waits fails with what was sent, instead of
    // being sent in its turn and failing after another 2 s each time; in both protocols.
    let test = "fb04_many_requests_to_a_silent_peer_fail_together";
    need!(test, Kind::Te.available());
    let mut from = impatient().env("TE_TCP_CONNECT_TIMEOUT_MS", "2000").start();
    let mut to = ours(SIZE);
    let front = Front::start(&to, Fault::None).unwrap();
    let size = usize::try_from(SIZE).unwrap();
    let spec = TargetSpec { size, manner: DataManner::NeverReads, ..TargetSpec::default() };
    let silent = HandTarget::start(spec, |_| ()).unwrap();
    let heartbeat = Heartbeat::start();
    from.write(front.name(), from.addr(), to.addr(), 4096).ok();
    front.proxy().set(Fault::Stall);
    for (version, name, at) in [(2, silent.name(), BASE), (3, front.name(), to.addr())] {
        for n in [16, 256] {
            let parts = Parts::tiled(n, SIZE, (from.addr(), at, SIZE));
            let id = from.submit(Direction::Write, name, &parts);
            let begun = now();
            let answer = from.wait(id);
            say(&format!("{test}: version {version}: {n} in {:?}", begun.elapsed()));
            assert_eq!(answer.number("failed"), n, "{answer:?}");
            heartbeat.assert_within("all of them", begun.elapsed(), STILL.end);
            front.proxy().set(Fault::CutAll);
            front.proxy().set(Fault::Stall);
        }
    }
    front.proxy().set(Fault::CutAll);
    front.proxy().set(Fault::None);
    from.pattern(0, SIZE, 5);
    from.write(front.name(), from.addr(), to.addr(), SIZE).ok();
    to.verify(0, SIZE, 5);
    from.quit();
    to.quit();
}

#[test]
fn fb04_a_peer_that_crawls_is_waited_for() {
    // FB04: 1 MiB a second is progress, however long the whole takes.
    let test = "fb04_a_peer_that_crawls_is_waited_for";
    need!(test, Kind::Te.available());
    let len = amount(test, 64, 6) * MIB;
    let mut from = impatient().env("TE_ENGINE_REQUEST_TIMEOUT_MS", "120000").start();
    from.pattern(0, len, 6);
    let manner = DataManner::Drains(1 << 20);
    let size = usize::try_from(len).unwrap();
    let target = HandTarget::start(TargetSpec { size, manner, ..TargetSpec::default() }, |_| ());
    let target = target.unwrap();
    let answer = from.write(target.name(), from.addr(), BASE, len).ok();
    say(&format!("{test}: {} MiB in {:?}", len / MIB, answer.took()));
    assert_eq!(target.bytes(0, size), te_suites::pattern::bytes(6, size));
    // Two of ours, with a slow line between them.
    let mut to = ours(SIZE);
    let front = Front::start(&to, Fault::Slow(1 << 20)).unwrap();
    from.write(front.name(), from.addr(), to.addr(), len / 2).ok();
    to.verify(0, len / 2, 6);
    from.quit();
    to.quit();
}

/// Writes for `ms` milliseconds to a healthy peer; gives the 99th percentile in milliseconds.
fn healthy(from: &mut Node, to: &Node, ms: u64) -> f64 {
    let role = json!({
        "target": to.name(), "src": from.addr(), "dst": to.addr(), "len": 65_536, "threads": 1,
    });
    let command = json!({ "op": "flood", "ms": ms, "roles": [role] });
    let answer = from.ask(&command).ok();
    let gained: &Value = &answer.value("roles")[0];
    assert_eq!(gained["failed"], 0, "{gained}");
    gained["p99_ms"].as_f64().unwrap()
}

#[test]
fn fb25_an_address_that_leads_nowhere_is_named_in_time_and_harms_nobody() {
    // FB25: connect limit 1 s; failed within 2 s, with segment, address and phase in the text;
    // a healthy stream beside it does not notice.
    let test = "fb25_an_address_that_leads_nowhere_is_named_in_time_and_harms_nobody";
    need!(test, Kind::Te.available());
    let deaf = Deaf::start().unwrap();
    let spec = NodeSpec::new(Kind::Te, SIZE)
        .env("TE_TCP_CONNECT_TIMEOUT_MS", "1000")
        .env("MC_HANDSHAKE_CONNECT_TIMEOUT", "1");
    let (mut from, to) = (spec.start(), ours(MIB));
    let nowhere = HandTarget::start(TargetSpec::default(), |descriptor| {
        descriptor["tcp_data_port"] = deaf.address().port().into();
    });
    let nowhere = nowhere.unwrap();
    let case = Case::start("FB25: an address that leads nowhere", from.pid());
    let heartbeat = Heartbeat::start();
    let before = healthy(&mut from, &to, 2000);
    let mut parts = Parts::default();
    parts.push(from.addr(), BASE, 4096);
    let begun = now();
    let id = from.submit(Direction::Write, nowhere.name(), &parts);
    let beside = healthy(&mut from, &to, 2000);
    let task = from.task(id, 0);
    assert_eq!(task.value("state"), "failed", "after {:?}: {task:?}", begun.elapsed());
    let error = from.wait(id).refused().to_owned();
    for word in [nowhere.name(), &deaf.address().to_string(), "connect"] {
        assert!(error.contains(word), "`{error}` does not say `{word}`");
    }
    say(&format!(
        "{test}: {error}; a healthy stream's p99 {before:.2} ms before, {beside:.2} ms beside"
    ));
    assert!(beside < 3.0 * before + 20.0, "p99 {before} ms before, {beside} ms beside");
    let answer = from.write(nowhere.name(), from.addr(), BASE, 4096);
    answer.refused();
    heartbeat.assert_within("an unreachable data port", answer.took(), Duration::from_secs(2));
    // The same at the handshake port.
    let name = deaf.address().to_string();
    let answer = from.write(&name, from.addr(), BASE, 4096);
    let error = answer.refused();
    assert!(error.contains(&name) && error.contains("connect"), "{error}");
    heartbeat.assert_within("an unreachable handshake port", answer.took(), Duration::from_secs(2));
    case.end(Bound::NOTHING.with_threads(2));
    from.quit();
    to.quit();
}

#[test]
fn packets_that_vanish_are_found_out_and_forgiven() {
    // Architecture §3.2: two hosts; in the middle of a transfer every packet is dropped without a
    // word. It ends in time, and when packets pass again so do requests.
    let test = "packets_that_vanish_are_found_out_and_forgiven";
    need!(test, Kind::Te.available());
    let (left, right) = (need!(test, Netns::new()), need!(test, Netns::new()));
    need!(test, left.join("10.88.0.1/24", &right, "10.88.0.2/24"));
    let mut from = impatient().host("10.88.0.1").within(&left).start();
    let mut to = NodeSpec::new(Kind::Te, SIZE).host("10.88.0.2").within(&right).start();
    let heartbeat = Heartbeat::start();
    for dir in Direction::BOTH {
        from.transfer(dir, to.name(), (from.addr(), to.addr()), 4096).ok();
        let parts = Parts::tiled(16, SIZE, (from.addr(), to.addr(), SIZE));
        let id = from.submit(dir, to.name(), &parts);
        pace(Duration::from_millis(50));
        need!(test, lose(&left, &right, true));
        let begun = now();
        let answer = from.wait(id);
        say(&format!("{test}: {}: {:?}: {}", dir.word(), begun.elapsed(), answer.refused()));
        heartbeat.assert_within("a silent network", begun.elapsed(), Duration::from_millis(4500));
        assert_eq!(answer.number("quarantined"), 0, "{answer:?}");
        need!(test, lose(&left, &right, false));
        from.pattern(0, MIB, 8);
        let begun = now();
        let wish = Wish::within(Duration::from_secs(10));
        let ends = (from.addr(), to.addr());
        from.transfer_wishing((Direction::Write, to.name()), ends, MIB, wish).ok();
        heartbeat.assert_within("recovery", begun.elapsed(), Duration::from_secs(3));
        to.verify(0, MIB, 8);
    }
    from.quit();
    to.quit();
}

/// Sends what both hosts send to a card that nobody has, or sets that right.
fn lose(left: &Netns, right: &Netns, lost: bool) -> Result<(), String> {
    for (netns, other) in [(left, "10.88.0.2"), (right, "10.88.0.1")] {
        if lost {
            let card = ["lladdr", "02:00:00:00:00:99", "dev", "te0", "nud", "permanent"];
            netns.ip(&[&["neigh", "replace", other], &card[..]].concat())?;
        } else {
            netns.ip(&["neigh", "del", other, "dev", "te0"])?;
        }
    }
    Ok(())
}

#[test]
fn half_closed_connections_hold_nothing_and_hang_nothing() {
    // Architecture §3.2: the target sees the end of what comes while the initiator's side stays
    // open. The transfer ends, in time and truly, and the next one works.
    let test = "half_closed_connections_hold_nothing_and_hang_nothing";
    need!(test, Kind::Te.available());
    for version in ["3", "2"] {
        let mut from = impatient().env("MC_TCP_PROTO", version).start();
        let mut to = ours(SIZE);
        let front = Front::start(&to, Fault::None).unwrap();
        let cases = [
            Case::start(&format!("half-closed, version {version}: from"), from.pid()),
            Case::start(&format!("half-closed, version {version}: to"), to.pid()),
        ];
        let heartbeat = Heartbeat::start();
        for dir in Direction::BOTH {
            front.proxy().set(Fault::None);
            from.pattern(0, SIZE, 7);
            to.pattern(0, SIZE, 7);
            let parts = Parts::tiled(8, SIZE, (from.addr(), to.addr(), SIZE));
            let id = from.submit(dir, front.name(), &parts);
            pace(Duration::from_millis(30));
            front.proxy().set(Fault::HalfClose);
            let begun = now();
            let answer = from.wait(id);
            heartbeat.assert_within("the end", begun.elapsed(), Duration::from_secs(5));
            say(&format!("{test}: version {version} {}: {answer:?}", dir.word()));
            front.proxy().set(Fault::None);
            from.transfer(dir, front.name(), (from.addr(), to.addr()), SIZE).ok();
            from.verify(0, SIZE, 7);
            to.verify(0, SIZE, 7);
        }
        cases.into_iter().for_each(|case| case.end(Bound::NOTHING.with_rss_mib(SIZE / MIB + 16)));
        from.quit();
        to.quit();
    }
}

#[test]
fn without_a_free_port_requests_fail_by_name_and_then_go_on() {
    // Architecture §3.2, FB01: every local port is taken; the request says so and does not hang,
    // and works as soon as there is a port.
    let test = "without_a_free_port_requests_fail_by_name_and_then_go_on";
    need!(test, Kind::Te.available());
    let netns = need!(test, Netns::new());
    need!(test, netns.set("net/ipv4/ip_local_port_range", "40000 40015"));
    let mut from = NodeSpec::new(Kind::Te, MIB).within(&netns).start();
    let to = NodeSpec::new(Kind::Te, MIB).within(&netns).start();
    let case = Case::start("no free port", from.pid());
    let heartbeat = Heartbeat::start();
    assert_eq!(from.open_at_once(&[to.name()]).number("failed"), 0);
    // Only connections to one and the same port use ports up.
    let descriptor = from_inside(&to, &mut from);
    let port = descriptor["tcp_data_port"].as_u64().unwrap();
    let hog = json!({ "op": "hog", "host": "127.0.0.1", "port": port, "n": 100 });
    let hogged = from.ask(&hog).ok();
    assert!(hogged.number("n") < 100, "there were ports for all: {hogged:?}");
    let answer = from.write(to.name(), from.addr(), to.addr(), 4096);
    let error = answer.refused();
    assert!(error.contains("assign requested address"), "{error}");
    heartbeat.assert_within("a request without a port", answer.took(), Duration::from_secs(2));
    say(&format!("{test}: {:?}: {error}", answer.took()));
    from.ask(&json!({ "op": "unhog" })).ok();
    let begun = now();
    from.write(to.name(), from.addr(), to.addr(), 4096).ok();
    heartbeat.assert_within("a request with a port", begun.elapsed(), Duration::from_secs(1));
    case.end(Bound::NOTHING.with_threads(2));
    from.quit();
    to.quit();
}

/// What `node` publishes, as another node in its namespace reads it.
fn from_inside(node: &Node, asker: &mut Node) -> Value {
    let command = json!({ "op": "descriptor", "port": node.rpc_port() });
    asker.ask(&command).ok().value("descriptor").clone()
}
