//! What peers cost that are many, slow, greedy or gone: they keep neither others nor our NICs waiting.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests are drivers")]

mod common;

use std::sync::{Arc, mpsc};
use std::time::Duration;

use common::gated::{Call, Gate};
use common::{Host, Hub, Two, add_nic, bytes, config, until};
use te_metadata::{EndpointMessage, QpNumber};
use te_segment::Opcode;
use te_topology::NicName;
use te_transport::Transport;
use te_verbs::{Fake, Verbs};

const LEN: usize = 512;
const PATIENCE: Duration = Duration::from_secs(30);
const GID_A: &str = "00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:4d:01";
const NOBODY: &str = "00:00:00:00:00:00:00:00:00:00:ff:ff:0a:00:00:63";

/// A question of an engine that does not know the ready-ack.
fn question(from: &str, to: &str, n: u32) -> EndpointMessage {
    EndpointMessage {
        local_gid: GID_A.to_owned(),
        local_nic_path: from.to_owned(),
        peer_nic_path: to.to_owned(),
        qp_num: (0..n).map(|i| QpNumber::new(1000 + i).unwrap()).collect(),
        ..EndpointMessage::default()
    }
}

#[track_caller]
fn writes(from: &Host, to: &Host, byte: u8) {
    let (local, target) = (from.offer(LEN, byte), to.offer(LEN, 0));
    let address = target.region().address();
    let slice = from.slice(Opcode::Write, &local, &to.remote(), address);
    assert_eq!(from.run(&slice).result, Ok(()));
    assert_eq!(bytes(&target), [byte; LEN]);
}

/// A peer says how many queue pairs a connection has. One that asks on and on, with other NICs of its
/// own each time, has a bounded number of ours, and takes none from others.
#[test]
fn one_peer_has_a_bounded_number_of_our_queue_pairs() {
    let mut config = config();
    config.connection.max_peer_queue_pairs = 256;
    let two = Two::with(config);
    writes(&two.a, &two.b, 1);
    let handshakes = two.hub.log.lock().unwrap().len();
    let mut most = 0;
    for i in 0..200 {
        let asked = question(&format!("x@rxe{i}"), "b@rxe1", 64);
        assert!(!two.hub.question("b", &asked).unwrap().is_refusal());
        most = most.max(two.nic_b.queue_pairs());
    }
    until("the last ones to stay", || two.nic_b.queue_pairs() == 256 + 2);
    assert!(most <= 256 + 2 + 20 * 64, "{most} queue pairs");
    writes(&two.a, &two.b, 2);
    assert_eq!(two.hub.log.lock().unwrap().len(), handshakes, "it never connected again");
}

/// The bound of a NIC counts queue pairs, whoever asks; what can never have room is refused.
#[test]
fn the_queue_pairs_of_a_nic_are_bounded_whoever_asks() {
    let mut config = config();
    config.connection.max_endpoints = 100;
    let two = Two::with(config);
    for i in 0..200 {
        let asked = question(&format!("x{i}@rxe0"), "b@rxe1", 64);
        assert!(!two.hub.question("b", &asked).unwrap().is_refusal());
    }
    until("the last ones to stay", || two.nic_b.queue_pairs() == 3 * 64);
    writes(&two.a, &two.b, 1);
    let mut small = common::config();
    small.connection.max_endpoints = 2;
    let two = Two::with(small);
    let refused = two.hub.question("b", &question("x@rxe0", "b@rxe1", 64)).unwrap();
    assert!(refused.is_refusal(), "{refused:?}");
    writes(&two.a, &two.b, 2);
}

/// Another process may hold what the device has. Who has most here gives one up; others stay.
#[test]
fn a_device_without_room_takes_it_from_whoever_has_most() {
    let (fake, hub) = (Fake::new(1), Arc::new(Hub::default()));
    let nic_a = add_nic(&fake, "a", "rxe0", 1);
    let name = NicName::parse("rxe1").unwrap();
    let mut device =
        te_verbs::FakeDevice::new(name.clone(), std::net::Ipv4Addr::new(192, 168, 77, 2));
    device.attributes.max_qp = 12;
    let nic_b = fake.add("b", device);
    let (a, b) = (Host::new(&fake, &hub, "a", config()), Host::new(&fake, &hub, "b", config()));
    let two = Two { fake, hub, a, b, nic_a, nic_b };
    writes(&two.a, &two.b, 1);
    for i in 0..2 {
        let asked = question(&format!("greedy@rxe{i}"), "b@rxe1", 3);
        assert!(!two.hub.question("b", &asked).unwrap().is_refusal());
    }
    let other = two.fake.host("b").open(&name).unwrap();
    let queue = other.completion_queue(16).unwrap();
    let capacity = te_verbs::QueuePairCapacity {
        send_requests: 1,
        receive_requests: 1,
        ranges: 1,
        inline_bytes: 0,
    };
    let _held: Vec<_> = (0..4).map(|_| other.queue_pair(&queue, capacity).unwrap()).collect();
    let asked = two.hub.question("b", &question("new@rxe0", "b@rxe1", 2)).unwrap();
    assert!(!asked.is_refusal(), "{asked:?}");
    until("the greedy one to have one left", || two.nic_b.queue_pairs() == 4 + 2 + 3 + 2);
    let handshakes = two.hub.log.lock().unwrap().len();
    writes(&two.a, &two.b, 2);
    assert_eq!(two.hub.log.lock().unwrap().len(), handshakes, "it never connected again");
}

/// A host whose NICs rxe1 and rxe2 ask at a gate, and two others.
fn guarded() -> (Gate, Fake, Arc<Hub>, Host, [Host; 2]) {
    let (fake, hub, gate) = (Fake::new(1), Arc::new(Hub::default()), Gate::default());
    add_nic(&fake, "b", "rxe1", 2);
    add_nic(&fake, "b", "rxe2", 3);
    add_nic(&fake, "a", "rxe0", 1);
    add_nic(&fake, "c", "rxe0", 4);
    let b = Host::on(gate.guard(fake.host("b")), &hub, "b", config());
    let others = ["a", "c"].map(|name| Host::new(&fake, &hub, name, config()));
    (gate, fake, hub, b, others)
}

/// A NIC whose port goes down has its queue pairs ended one by one. Meanwhile other NICs work, connect
/// and are connected to, and who asks for a fence on what is about to end is not told that it has.
#[test]
fn ending_the_connections_of_one_nic_keeps_no_other_waiting() {
    let (gate, fake, hub, b, [a, c]) = guarded();
    let asked = question("x@rxe0", "b@rxe1", 2);
    assert!(!hub.question("b", &asked).unwrap().is_refusal());
    gate.hold("rxe1", Call::End);
    fake.nic("b", &NicName::parse("rxe1").unwrap()).unwrap().port_down(1);
    assert!(gate.wait(PATIENCE), "the device thread ends queue pairs");
    let fence = EndpointMessage {
        payload: r#"{"te":{"fence":1}}"#.to_owned(),
        ..question("x@rxe0", "b@rxe1", 2)
    };
    std::thread::scope(|scope| {
        let (done, answer) = mpsc::channel();
        let hub = &hub;
        scope.spawn(move || drop(done.send(hub.question("b", &fence))));
        let (done, worked) = mpsc::channel();
        scope.spawn({
            let (a, b, c) = (&a, &b, &c);
            move || {
                writes(b, c, 1);
                writes(a, b, 2);
                done.send(()).unwrap();
            }
        });
        let went_on = worked.recv_timeout(PATIENCE);
        let told = answer.try_recv().ok().flatten();
        gate.open();
        went_on.expect("other NICs work on");
        assert!(told.is_none_or(|told| told.is_refusal()), "nothing has ended yet");
    });
    let fence = EndpointMessage {
        payload: r#"{"te":{"fence":1}}"#.to_owned(),
        ..question("x@rxe0", "b@rxe1", 2)
    };
    let answer = hub.question("b", &fence).unwrap();
    assert_eq!(answer.payload, r#"{"te":{"fenced":1}}"#, "{answer:?}");
}

/// A peer's NIC takes fewer READs at once than ours would send.
#[test]
fn no_more_reads_are_sent_at_once_than_the_peers_nic_takes() {
    let (fake, hub, gate) = (Fake::new(1), Arc::new(Hub::default()), Gate::default());
    add_nic(&fake, "a", "rxe0", 1);
    let mut small = te_verbs::FakeDevice::new(
        NicName::parse("rxe1").unwrap(),
        std::net::Ipv4Addr::new(192, 168, 77, 2),
    );
    small.attributes.max_qp_rd_atom = 4;
    fake.add("b", small);
    let a = Host::on(gate.guard(fake.host("a")), &hub, "a", config());
    let b = Host::on(gate.guard(fake.host("b")), &hub, "b", config());
    writes(&a, &b, 1);
    assert_eq!((gate.reads("rxe0"), gate.reads("rxe1")), (vec![4, 4], vec![16, 16]));
    // Who is of another kind says nothing, and gets what is set.
    assert!(!hub.question("a", &question("x@rxe0", "a@rxe0", 1)).unwrap().is_refusal());
    assert_eq!(gate.reads("rxe0"), [4, 4, 16]);
}

/// The kernel looks for an address that nobody has for a second, and each question about one holds a
/// thread for as long. Others are answered meanwhile; what waited until its asker is gone is dropped.
#[test]
fn a_peer_that_cannot_be_reached_keeps_no_other_waiting() {
    let mut config = config();
    config.connection.serve_limit = Duration::from_millis(300);
    let two = Two::with(config);
    two.fake.set_resolve_limit(Duration::from_secs(3600));
    let (done, answers) = mpsc::channel();
    std::thread::scope(|scope| {
        for i in 0..40 {
            let (two, done) = (&two, done.clone());
            scope.spawn(move || {
                // Half of them repeat one that is not answered yet.
                let path = format!("lost@rxe{}", if i % 2 == 0 { 0 } else { i });
                let asked = EndpointMessage {
                    local_gid: NOBODY.to_owned(),
                    ..question(&path, "b@rxe1", 1)
                };
                done.send(two.hub.question("b", &asked).expect("an answer")).unwrap();
            });
        }
        assert!(two.fake.wait_for_routing(1, PATIENCE));
        for i in 0..10 {
            let asked = question(&format!("x{i}@rxe0"), "b@rxe1", 2);
            assert!(!two.hub.question("b", &asked).unwrap().is_refusal());
            writes(&two.a, &two.b, i);
        }
        std::thread::sleep(Duration::from_millis(300));
        // Now somebody has the address.
        let address = std::net::Ipv4Addr::new(10, 0, 0, 99);
        let device = te_verbs::FakeDevice::new(NicName::parse("rxe9").unwrap(), address);
        two.fake.add("late", device);
    });
    let made = answers.try_iter().filter(|answer| !answer.is_refusal()).count();
    assert!((1..=3).contains(&made), "{made} of 40 were begun in time");
    assert!(two.nic_b.queue_pairs() <= 2 + 10 * 2 + made, "{}", two.nic_b.queue_pairs());
}

/// Registering what there is on a NIC that comes back may take minutes. Meanwhile what happens to other
/// NICs is seen, and memory is registered.
#[test]
fn a_nic_that_comes_back_keeps_no_other_waiting() {
    let (gate, fake, _hub, b, [a, c]) = guarded();
    let nic = |name| fake.nic("b", &NicName::parse(name).unwrap()).unwrap();
    let devices = || match b.descriptor().part {
        te_metadata::ProtocolPart::Rdma { devices, .. } => devices.len(),
        other => panic!("{other:?}"),
    };
    nic("rxe1").port_down(1);
    until("the NIC to be away", || devices() == 1);
    nic("rxe1").fail_call(te_verbs::VerbsCall::Register, 0, libc::ENOMEM);
    let missing = b.offer(LEN, 1);
    gate.hold_next("rxe1", Call::Register);
    nic("rxe1").port_up(1);
    assert!(gate.wait(PATIENCE), "what is missing is registered");
    let _another = b.offer(LEN, 2);
    writes(&c, &b, 3);
    nic("rxe2").port_down(1);
    until("the other NIC to be away", || devices() == 0);
    nic("rxe2").port_up(1);
    until("the other NIC to be back", || devices() == 1);
    // Its port goes and comes once more, while what is missing is still being registered.
    nic("rxe1").port_down(1);
    nic("rxe1").port_up(1);
    b.rdma.deregister(&missing);
    gate.open();
    until("the NIC to be back", || devices() == 2);
    writes(&a, &b, 4);
}

/// A port that went down again while memory was registered is not taken for one that is there.
#[test]
fn a_nic_that_goes_again_while_it_comes_back_is_not_active() {
    let (gate, fake, _hub, b, _others) = guarded();
    let nic = |name| fake.nic("b", &NicName::parse(name).unwrap()).unwrap();
    let devices = || match b.descriptor().part {
        te_metadata::ProtocolPart::Rdma { devices, .. } => devices.len(),
        other => panic!("{other:?}"),
    };
    nic("rxe1").port_down(1);
    until("the NIC to be away", || devices() == 1);
    nic("rxe1").fail_call(te_verbs::VerbsCall::Register, 0, libc::ENOMEM);
    let _missing = b.offer(LEN, 1);
    gate.hold_next("rxe1", Call::Register);
    nic("rxe1").port_up(1);
    assert!(gate.wait(PATIENCE), "what is missing is registered");
    nic("rxe1").port_down(1);
    let version = b.rdma.description_version();
    gate.open();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!((devices(), b.rdma.description_version()), (1, version));
    nic("rxe1").port_up(1);
    until("the NIC to be back", || devices() == 2);
}

/// A peer that dies without a word leaves nothing behind for ever; one that only has nothing to say
/// keeps its connection.
#[test]
fn a_connection_of_a_peer_that_is_gone_ends_and_one_that_is_quiet_stays() {
    let mut config = config();
    config.connection.idle_probe = Some(Duration::from_millis(20));
    let (fake, hub) = (Fake::new(1), Arc::new(Hub::default()));
    let nic_b = add_nic(&fake, "b", "rxe1", 2);
    add_nic(&fake, "a", "rxe0", 1);
    add_nic(&fake, "c", "rxe0", 4);
    let b = Host::new(&fake, &hub, "b", config);
    let [mut a, c] = ["a", "c"].map(|name| Host::new(&fake, &hub, name, common::config()));
    a.is_te = false;
    writes(&a, &b, 1);
    writes(&c, &b, 2);
    let handshakes = hub.log.lock().unwrap().len();
    assert_eq!(nic_b.queue_pairs(), 4);
    a.close();
    drop(a);
    until("what a left behind to go", || nic_b.queue_pairs() == 2);
    // Many times as long as it takes to ask c.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(nic_b.queue_pairs(), 2);
    writes(&c, &b, 3);
    assert_eq!(hub.log.lock().unwrap().len(), handshakes, "c never connected again");
}
