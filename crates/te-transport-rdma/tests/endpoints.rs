//! What becomes of connections that ended, and what a queue pair is made with.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests are drivers")]

mod common;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Host, Hub, Two, add_nic, bytes, config, until};
use te_metadata::{EndpointMessage, QpNumber};
use te_segment::Opcode;
use te_topology::NicName;
use te_transport::Transport;
use te_verbs::{Fake, FakeDevice, FakePort};

const LEN: usize = 48;
/// Connections that end, more than a store of a peer ever kept.
const MANY: u32 = 1100;
/// How long ended connections may keep their queue pairs.
const DRAINED: Duration = Duration::from_millis(1500);

/// A peer whose name no other has connects to NIC rxe1 of b, and says that it is ready.
fn connect(two: &Two, i: u32) {
    let numbers = [1000 + 2 * i, 1001 + 2 * i].map(|number| QpNumber::new(number).unwrap());
    let question = EndpointMessage {
        local_gid: "00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:4d:01".to_owned(),
        local_nic_path: format!("x{i}@rxe0"),
        peer_nic_path: "b@rxe1".to_owned(),
        qp_num: numbers.to_vec(),
        ready_ack: Some(false),
        ..EndpointMessage::default()
    };
    let answer = two.hub.question("b", &question).expect("it answers");
    assert!(!answer.is_refusal(), "{answer:?}");
    let ready = EndpointMessage { ready_ack: Some(true), ..question };
    assert!(!two.hub.question("b", &ready).expect("it answers").is_refusal());
}

#[track_caller]
fn writes(two: &Two, byte: u8) {
    let (local, target) = (two.a.offer(LEN, byte), two.b.offer(LEN, 0));
    let address = target.region().address();
    let slice = two.a.slice(Opcode::Write, &local, &two.b.remote(), address);
    assert_eq!(two.a.run(&slice).result, Ok(()));
    assert_eq!(bytes(&target), [byte; LEN]);
}

/// The NIC of b loses its address, and gets it again.
fn blink(two: &Two) {
    two.nic_b.set_gids(1, vec![]);
    until("the NIC to be away", || !two.b.rdma.reaches(&two.a.remote()));
    two.nic_b.set_gids(1, FakePort::ethernet(Ipv4Addr::new(192, 168, 77, 2)).gids);
    until("the NIC to be back", || two.b.rdma.reaches(&two.a.remote()));
}

/// J89, E34: where nothing is connected nothing is to do; each of over 1000 connections that had to
/// leave gives its queue pairs back, the one that is in use stays; and nothing more happens later.
#[test]
fn j89_connections_that_left_give_their_queue_pairs_back_and_the_one_in_use_stays() {
    let mut config = config();
    config.connection.max_endpoints = 2;
    let two = Two::with(config);
    blink(&two);
    assert_eq!(two.nic_b.queue_pairs(), 0);
    writes(&two, 1);
    let handshakes = two.hub.log.lock().unwrap().len();
    let (local, home) = (two.b.offer(LEN, 9), two.a.offer(LEN, 0));
    for i in 0..MANY {
        if i % 16 == 0 {
            // In use: the hand of the store passes it over.
            let address = home.region().address();
            let slice = two.b.slice(Opcode::Write, &local, &two.a.remote(), address);
            assert_eq!(two.b.run(&slice).result, Ok(()));
        }
        connect(&two, i);
    }
    let ended = Instant::now();
    until("the others to give back", || two.nic_b.queue_pairs() <= 4);
    assert!(ended.elapsed() < DRAINED, "{:?}", ended.elapsed());
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!((two.nic_b.queue_pairs(), two.nic_a.queue_pairs()), (4, 2));
    writes(&two, 2);
    assert_eq!(two.hub.log.lock().unwrap().len(), handshakes, "it never connected again");
}

/// J89: over 1000 at once, when their NIC goes away; while work is out its queue pairs stay.
#[test]
fn j89_over_a_thousand_at_once_are_given_back_in_time() {
    let two = Two::new();
    for i in 0..MANY {
        connect(&two, i);
    }
    assert_eq!(two.nic_b.queue_pairs(), 2 * MANY as usize);
    writes(&two, 1);
    let (local, target) = (two.a.offer(LEN, 3), two.b.offer(LEN, 0));
    two.fake.hold_completions();
    let address = target.region().address();
    let out = two.a.slice(Opcode::Write, &local, &two.b.remote(), address);
    two.a.submit(&out);
    two.a.pump();
    let ended = Instant::now();
    blink(&two);
    until("all of them to go", || two.nic_b.queue_pairs() == 0);
    assert!(ended.elapsed() < DRAINED, "{:?}", ended.elapsed());
    assert_eq!(two.nic_a.queue_pairs(), 2, "what is out has not come back");
    two.fake.release();
    two.a.end(&out);
    blink(&two);
    assert_eq!(two.nic_b.queue_pairs(), 0);
}

/// A device that refuses requests with bytes in themselves is asked for none; another one of the same
/// host keeps them.
#[test]
fn a_device_that_takes_no_inline_bytes_is_used_without_them() {
    let (fake, hub) = (Fake::new(1), Arc::new(Hub::default()));
    let mut poor = FakeDevice::new(NicName::parse("rxe0").unwrap(), Ipv4Addr::new(192, 168, 77, 1));
    poor.max_inline = 0;
    let nic_a = fake.add("a", poor);
    let nic_b = add_nic(&fake, "b", "rxe1", 2);
    let (a, b) = (Host::new(&fake, &hub, "a", config()), Host::new(&fake, &hub, "b", config()));
    let two = Two { fake, hub, a, b, nic_a, nic_b };
    writes(&two, 1);
    writes(&two, 2);
    assert_eq!((two.nic_a.queue_pairs(), two.nic_b.queue_pairs()), (2, 2));
}
