//! The handshake port and the data port among clients that are slow, silent, gone, or too many.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use te_suites::wire::{
    DataClient, Frame, HandshakeAnswer, HandshakeClient, Header, Verdict, descriptor_of,
    reset_on_close,
};
use te_suites::{
    Bound, Case, Direction, Heartbeat, Kind, Launched, Node, NodeSpec, available_memory, need, now,
    pace, say, wait_until,
};

use crate::{MIB, ours};

fn client(node: &Node) -> HandshakeClient {
    HandshakeClient::new("127.0.0.1", node.rpc_port())
}

/// Sends one byte of a question each quarter of a second until the server has had enough.
fn drip(node: &HandshakeClient, stop: &AtomicBool) -> Duration {
    let begun = now();
    let mut stream = node.connect().unwrap();
    let body = vec![b' '; 4096];
    for byte in Frame::typed(1, &body).bytes() {
        if stop.load(Ordering::Relaxed) || stream.write_all(&[*byte]).is_err() {
            break;
        }
        stream.set_read_timeout(Some(Duration::from_millis(250))).unwrap();
        if !matches!(stream.read(&mut [0]), Err(cause) if is_timeout(&cause)) {
            break;
        }
    }
    begun.elapsed()
}

fn is_timeout(cause: &std::io::Error) -> bool {
    matches!(cause.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

/// Clients that say nothing, half of them after they said that nothing will come.
fn silent(node: &HandshakeClient, n: usize) -> Vec<TcpStream> {
    let connect = |i: usize| {
        let stream = node.connect().unwrap();
        if i % 2 == 1 {
            stream.shutdown(Shutdown::Write).unwrap();
        }
        stream
    };
    (0..n).map(connect).collect()
}

#[test]
fn fault07_j111_slow_and_silent_clients_delay_nobody() {
    // Peer fault 7, J111: 20 silent clients, 6 that drip a byte each quarter of a second, and resets
    // all the while; questions of others and the first transfer of a new engine are as fast as ever,
    // and the slow ones are closed when their time is over.
    let test = "fault07_j111_slow_and_silent_clients_delay_nobody";
    need!(test, Kind::Te.available());
    let (node, mut other) = (ours(MIB), ours(MIB));
    let client = client(&node);
    let case = Case::start("fault 7: slow clients", node.pid());
    let heartbeat = Heartbeat::start();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let drips: Vec<_> = (0..6).map(|_| scope.spawn(|| drip(&client, &stop))).collect();
        let _silent = silent(&client, 20);
        let mut worst = Duration::ZERO;
        for _ in 0..100 {
            let gone = client.connect().unwrap();
            reset_on_close(&gone).unwrap();
            drop(gone);
            let begun = now();
            let answer = client.ask(&Frame::typed(1, b"{}"));
            assert!(matches!(answer, Ok(HandshakeAnswer::Framed(1, _))), "{answer:?}");
            worst = worst.max(begun.elapsed());
        }
        heartbeat.assert_within("a question meanwhile", worst, Duration::from_millis(250));
        let first = other.write(node.name(), other.addr(), node.addr(), 4096).ok();
        heartbeat.assert_within("a first transfer", first.took(), Duration::from_millis(500));
        for drip in drips {
            let took = drip.join().unwrap();
            // Five seconds is the limit of serving one question.
            heartbeat.assert_within("a dripping client", took, Duration::from_secs(6));
        }
        say(&format!("{test}: the slowest of 100 questions took {worst:?}"));
    });
    case.end(Bound::NOTHING);
    node.quit();
    other.quit();
}

#[test]
fn fault06_half_headers_and_silent_bodies_are_closed_in_time() {
    // Peer fault 6: 500 half headers, and a body that stops; all closed within their limits, their
    // descriptors given back, and good requests served meanwhile.
    let test = "fault06_half_headers_and_silent_bodies_are_closed_in_time";
    need!(test, Kind::Te.available());
    let spec = NodeSpec::new(Kind::Te, 4 * MIB)
        .env("TE_TCP_HEADER_TIMEOUT_MS", "1500")
        .env("MC_TCP_PROGRESS_TIMEOUT_SEC", "2");
    let mut node = spec.start();
    let descriptor = descriptor_of(&node);
    let case = Case::start("fault 6: 500 half headers", node.pid());
    let heartbeat = Heartbeat::start();
    let begun = now();
    let header = Header::new(0x81, node.addr(), MIB);
    let connect = || DataClient::of(&descriptor).unwrap();
    let mut halves: Vec<DataClient> = (0..500)
        .map(|i| {
            let mut client = connect();
            client.stream().write_all(&header.bytes()[..1 + i % 23]).unwrap();
            client
        })
        .collect();
    let mut body = connect();
    body.send(header, &[0x11; 1000]);
    let asked = now();
    assert_eq!(connect().write(node.addr() + 2 * MIB, &[7; 4096]).unwrap(), Verdict::Status(0));
    heartbeat.assert_within("a good request", asked.elapsed(), Duration::from_millis(500));
    for half in &mut halves {
        assert_eq!(half.until_closed().unwrap(), b"", "half a header was answered");
    }
    heartbeat.assert_within("500 half headers", begun.elapsed(), Duration::from_millis(3500));
    body.until_closed().unwrap();
    heartbeat.assert_within("a silent body", begun.elapsed(), Duration::from_secs(5));
    // Nobody writes the buffer any more: it can be taken back at once.
    let back = node.unreg(node.addr()).ok();
    heartbeat.assert_within("unregistering", back.took(), Duration::from_millis(200));
    case.end(Bound::NOTHING);
    node.quit();
}

#[test]
fn fault08_probes_of_stopped_peers_end_in_time_and_beside_each_other() {
    // Peer fault 8: seven stopped peers and one that lives, probed at once: nobody waits for another.
    let test = "fault08_probes_of_stopped_peers_end_in_time_and_beside_each_other";
    need!(test, Kind::Te.available());
    let mut asker = ours(MIB);
    let mut stopped: Vec<Node> = (0..7).map(|_| ours(4096)).collect();
    let live = ours(4096);
    stopped.iter_mut().for_each(|node| node.child().stop());
    let heartbeat = Heartbeat::start();
    let mut names = vec![live.name()];
    names.extend(stopped.iter().map(Node::name));
    let answer = asker.probe_at_once(&names);
    assert_eq!(answer.number("failed"), 7, "{answer:?}");
    heartbeat.assert_within("eight probes", answer.took(), Duration::from_millis(2200));
    let alive = answer.value("ms")[0].as_f64().unwrap();
    let alive = Duration::from_secs_f64(alive / 1000.0);
    heartbeat.assert_within("the one that lives", alive, Duration::from_millis(200));
    for node in &mut stopped {
        node.child().resume();
    }
    asker.probe(stopped[0].name()).ok();
    asker.quit();
}

#[test]
fn notifications_are_bounded_and_full_is_an_answer() {
    // Architecture §3.3, K7: what nobody takes does not grow without end, and the sender is told.
    let test = "notifications_are_bounded_and_full_is_an_answer";
    need!(test, Kind::Te.available());
    let mut to = NodeSpec::new(Kind::Te, MIB).env("TE_ENGINE_NOTIFY_QUEUE", "100").start();
    let mut from = ours(MIB);
    let case = Case::start("100 notifications", to.pid());
    let long = "x".repeat(1000);
    for _ in 0..3 {
        let told = from.tell(to.name(), ("n", &long), 101);
        assert_eq!(told.number("taken"), 100, "{told:?}");
        assert!(is_full(told.refused()), "{told:?}");
        let write = (from.addr(), to.addr(), 64);
        let with_write = from.notify(to.name(), write, ("n", "after a write"));
        assert!(is_full(with_write.refused()), "{with_write:?}");
        let stats = to.stat("notify_refused");
        assert!(stats >= 2, "{stats} refusals were counted");
        assert_eq!(to.notifies().len(), 100);
    }
    case.end(Bound::NOTHING);
    from.quit();
    to.quit();
}

#[test]
fn k7_a_mooncake_sender_is_unharmed_by_a_full_receiver() {
    // K7: "full" stands where Mooncake does not look; its sender sees a notification that was not
    // taken, lives on, and is heard once there is room.
    let test = "k7_a_mooncake_sender_is_unharmed_by_a_full_receiver";
    need!(test, Kind::Peer.available());
    let mut to = NodeSpec::new(Kind::Te, MIB).env("TE_ENGINE_NOTIFY_QUEUE", "1").start();
    let mut from = NodeSpec::new(Kind::Peer, MIB).start();
    let write = (from.addr(), to.addr(), 64);
    for round in 0..2 {
        from.notify(to.name(), write, ("n", "taken")).ok();
        let answer = from.notify(to.name(), write, ("n", "not taken"));
        say(&format!("{test}: the sender says {answer:?}"));
        wait_until(Duration::from_secs(10), "a refusal", || {
            (to.stat("notify_refused") > round).then_some(())
        });
        assert_eq!(to.notifies(), [("n".to_owned(), "taken".to_owned())]);
        from.write(to.name(), from.addr(), to.addr(), 4096).ok();
    }
    from.quit();
    to.quit();
}

/// Whether an error tells that there is no room, and not only that something went wrong.
fn is_full(error: &str) -> bool {
    error.contains("full") || error.contains("wait to be taken")
}

/// Starts `n` nodes at once.
fn many(n: u64) -> Result<Vec<Node>, String> {
    Kind::Te.available()?;
    available_memory(n * 32 * MIB)?;
    let spec = NodeSpec::new(Kind::Te, 65_536);
    let launched: Vec<_> = (0..n).map(|_| spec.launch()).collect();
    Ok(launched.into_iter().map(Launched::ready).collect())
}

#[test]
fn fb29_forty_engines_open_all_others_at_once() {
    // FB29: 1560 openings at the same moment beside 20 clients that say nothing.
    const N: u64 = 40;
    let test = "fb29_forty_engines_open_all_others_at_once";
    let mut nodes = need!(test, many(N));
    let case = Case::start("FB29: one of 40 engines", nodes[0].pid());
    let heartbeat = Heartbeat::start();
    let silent: Vec<_> = nodes.iter().take(20).map(|node| silent(&client(node), 1)).collect();
    let names: Vec<String> = nodes.iter().map(|node| node.name().to_owned()).collect();
    let begun = now();
    for (i, node) in nodes.iter_mut().enumerate() {
        let others = names.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, name)| name);
        let others: Vec<_> = others.collect();
        node.send(&json!({ "op": "open", "targets": others }));
    }
    let mut slowest = 0.0_f64;
    for node in &mut nodes {
        let answer = node.receive(Duration::from_secs(60));
        assert_eq!(answer.number("failed"), 0, "{answer:?}");
        slowest = slowest.max(answer.value("slowest_ms").as_f64().unwrap());
    }
    heartbeat.assert_within("1560 openings", begun.elapsed(), Duration::from_secs(10));
    say(&format!("{test}: all in {:?}, the slowest {slowest:.0} ms", begun.elapsed()));
    drop(silent);
    case.end(Bound::NOTHING.with_fds(64));
}

#[test]
fn fb10_sixty_four_engines_at_once_have_names_of_their_own() {
    // FB10: no two have one name, and a ring of stamped transfers reaches whom it is meant for.
    const N: u64 = 64;
    let test = "fb10_sixty_four_engines_at_once_have_names_of_their_own";
    let mut nodes = need!(test, many(N));
    let mut names: Vec<String> = nodes.iter().map(|node| node.name().to_owned()).collect();
    let next: Vec<(String, u64)> = (0..nodes.len())
        .map(|i| {
            let node = &nodes[(i + 1) % nodes.len()];
            (node.name().to_owned(), node.addr())
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), nodes.len(), "two engines have one name");
    for (seed, node) in (0..).zip(&mut nodes) {
        node.pattern(0, 4096, seed);
    }
    for (node, (name, addr)) in nodes.iter_mut().zip(&next) {
        let command = json!({
            "op": "write", "target": name, "src": node.addr(), "dst": addr + 8192, "len": 4096,
        });
        node.send(&command);
    }
    for node in &mut nodes {
        node.receive(Duration::from_secs(60)).ok();
    }
    for i in 0..nodes.len() {
        let before = (i + nodes.len() - 1) % nodes.len();
        nodes[i].verify(8192, 4096, before as u64);
    }
}

#[test]
fn fb31_opening_oneself_while_others_do_the_same_ends() {
    // FB31: 16 threads open their own engine's name while 16 peers open it too.
    let test = "fb31_opening_oneself_while_others_do_the_same_ends";
    let mut nodes = need!(test, many(17));
    let heartbeat = Heartbeat::start();
    let name = nodes[0].name().to_owned();
    for node in &mut nodes {
        let times = if node.name() == name { 16 } else { 1 };
        let targets = vec![name.clone(); times];
        node.send(&json!({ "op": "open", "targets": targets }));
    }
    for node in &mut nodes {
        let answer = node.receive(Duration::from_secs(30));
        assert_eq!(answer.number("failed"), 0, "{answer:?}");
        heartbeat.assert_within("opening", answer.took(), Duration::from_secs(3));
    }
    // And to move bytes to oneself.
    let node = &mut nodes[0];
    node.pattern(0, 4096, 31);
    node.transfer(Direction::Write, &name, (node.addr(), node.addr() + 8192), 4096).ok();
    node.verify(8192, 4096, 31);
}

#[test]
fn hostile_clients_beside_a_transfer_cost_it_nothing() {
    // Peer fault 7, architecture §3.3: garbage, floods and resets on both ports while 100 requests
    // run; all complete, and nothing is kept.
    let test = "hostile_clients_beside_a_transfer_cost_it_nothing";
    need!(test, Kind::Te.available());
    let (mut node, mut other) = (ours(16 * MIB), ours(16 * MIB));
    let descriptor = descriptor_of(&node);
    let case = Case::start("hostile clients", node.pid());
    other.pattern(0, 16 * MIB, 9);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (client, descriptor, stop) = (client(&node), &descriptor, &stop);
            scope.spawn(move || attack(&client, descriptor, seed, stop));
        }
        for _ in 0..100 {
            other.write(node.name(), other.addr(), node.addr(), 16 * MIB).ok();
        }
        stop.store(true, Ordering::Relaxed);
    });
    node.verify(0, 16 * MIB, 9);
    case.end(Bound::NOTHING.with_rss_mib(48));
    node.quit();
    other.quit();
}

fn attack(client: &HandshakeClient, descriptor: &serde_json::Value, seed: u64, stop: &AtomicBool) {
    let mut random = te_suites::pattern::Random::new(seed);
    while !stop.load(Ordering::Relaxed) {
        let len = usize::try_from(random.below(2000)).unwrap();
        let bytes = random.bytes(len);
        if let Ok(mut stream) = client.connect() {
            drop(reset_on_close(&stream));
            drop(stream.write_all(&bytes));
        }
        if let Ok(mut data) = DataClient::of(descriptor) {
            drop(reset_on_close(data.stream()));
            drop(data.stream().write_all(&bytes));
        }
        pace(Duration::from_millis(1));
    }
}
