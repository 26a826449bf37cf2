//! Connecting: the rules of the handshake, with peers that keep them and peers that do not.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests are drivers")]

mod common;

use std::sync::{Arc, Barrier};
use std::time::Duration;

use common::{Host, Hub, Two, add_nic, bytes, config, until};
use te_metadata::{EndpointMessage, QpNumber};
use te_segment::{LocalBuffer, Opcode, Slice};
use te_transport::{FaultClass, Phase, RemoteSide, Transport};
use te_verbs::Fake;

const LEN: usize = 512;
const GID_A: &str = "00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:4d:01";

fn numbers(list: &[u32]) -> Vec<QpNumber> {
    list.iter().map(|number| QpNumber::new(*number).unwrap()).collect()
}

/// A question as a peer of another kind would send it to NIC rxe1 of b.
fn question(list: &[u32]) -> EndpointMessage {
    EndpointMessage {
        local_gid: GID_A.to_owned(),
        local_nic_path: "x@rxe0".to_owned(),
        peer_nic_path: "b@rxe1".to_owned(),
        qp_num: numbers(list),
        ready_ack: Some(false),
        ..EndpointMessage::default()
    }
}

fn write(from: &Host, local: &LocalBuffer, to: &Host, target: &LocalBuffer) -> Slice {
    from.slice(Opcode::Write, local, &to.remote(), target.region().address())
}

fn ask(two: &Two, question: &EndpointMessage) -> EndpointMessage {
    two.hub.question("b", question).expect("it answers")
}

/// A write of a to b works.
#[track_caller]
fn works(two: &Two) {
    let (local, target) = (two.a.offer(LEN, 7), two.b.offer(LEN, 0));
    two.a.run_until_done(|| write(&two.a, &local, &two.b, &target), Duration::from_secs(10));
    assert_eq!(bytes(&target), [7; LEN]);
}

/// §3.2, §3.3: two messages make a connection, which serves both directions from then on.
#[test]
fn one_connection_is_made_of_two_messages_and_serves_both_sides() {
    let two = Two::new();
    works(&two);
    let log = two.hub.log.lock().unwrap().clone();
    assert_eq!(log.len(), 2);
    let (asked, answered) = &log[0];
    assert_eq!((asked.local_gid.as_str(), asked.ready_ack), (GID_A, Some(false)));
    assert_eq!((asked.local_nic_path.as_str(), asked.peer_nic_path.as_str()), ("a@rxe0", "b@rxe1"));
    assert_eq!(
        (&answered.local_nic_path, &answered.peer_nic_path),
        (&asked.peer_nic_path, &asked.local_nic_path)
    );
    assert_eq!((asked.qp_num.len(), answered.qp_num.len()), (2, 2));
    assert_eq!((answered.ready_ack, answered.is_refusal()), (Some(false), false));
    let (ready, last) = &log[1];
    assert_eq!(ready, &EndpointMessage { ready_ack: Some(true), ..asked.clone() });
    assert_eq!(last, &EndpointMessage::default());
    let (back, home) = (two.b.offer(LEN, 9), two.a.offer(LEN, 0));
    assert_eq!(two.b.run(&write(&two.b, &back, &two.a, &home)).result, Ok(()));
    assert_eq!(bytes(&home), [9; LEN]);
    assert_eq!(two.hub.log.lock().unwrap().len(), 2, "the other direction needs no message");
    assert_eq!((two.nic_a.queue_pairs(), two.nic_b.queue_pairs()), (2, 2));
}

/// Both begin at once, again and again: one connection, whoever was first, and bytes both ways.
#[test]
fn both_sides_connecting_at_once_a_hundred_times_end_with_one_connection() {
    let two = Two::new();
    let (local, target) = (two.a.offer(LEN, 1), two.b.offer(LEN, 2));
    let (back, home) = (two.b.offer(LEN, 3), two.a.offer(LEN, 4));
    for round in 0..100_u8 {
        local.region().write_from(0, &[round; LEN]).unwrap();
        back.region().write_from(0, &[!round; LEN]).unwrap();
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                two.a.run_until_done(
                    || write(&two.a, &local, &two.b, &target),
                    Duration::from_secs(20),
                );
            });
            scope.spawn(|| {
                start.wait();
                two.b.run_until_done(
                    || write(&two.b, &back, &two.a, &home),
                    Duration::from_secs(20),
                );
            });
        });
        assert_eq!((bytes(&target), bytes(&home)), (vec![round; LEN], vec![!round; LEN]));
        until("one connection", || (two.nic_a.queue_pairs(), two.nic_b.queue_pairs()) == (2, 2));
        // Break it on both sides.
        two.nic_a.set_gids(1, vec![]);
        two.nic_b.set_gids(1, vec![]);
        let gids =
            |last| te_verbs::FakePort::ethernet(std::net::Ipv4Addr::new(192, 168, 77, last)).gids;
        until("both ends to be gone", || two.fake.queue_pairs() == 0);
        two.nic_a.set_gids(1, gids(1));
        two.nic_b.set_gids(1, gids(2));
        let reaches = || two.a.rdma.reaches(&two.b.remote()) && two.b.rdma.reaches(&two.a.remote());
        until("both NICs to be back", reaches);
    }
}

/// J95: the peer comes back under its name with other queue pairs and other keys.
#[test]
fn j95_a_peer_that_was_restarted_is_reached_again() {
    let two = Two::new();
    works(&two);
    two.b.close();
    let Two { fake, hub, a, b, .. } = two;
    drop(b);
    let b = Host::new(&fake, &hub, "b", config());
    let (local, target) = (a.offer(LEN, 5), b.offer(LEN, 0));
    a.run_until_done(|| write(&a, &local, &b, &target), Duration::from_secs(10));
    assert_eq!(bytes(&target), [5; LEN]);
}

/// J95: the initiator comes back under its name; the target lets the old connection go.
#[test]
fn j95_an_initiator_that_was_restarted_takes_the_place_of_the_old_one() {
    let two = Two::new();
    works(&two);
    let Two { fake, hub, a, b, nic_b, .. } = two;
    // It dies without a word: its queue pairs go, the target keeps its own.
    a.close();
    drop(a);
    assert_eq!(nic_b.queue_pairs(), 2);
    let a = Host::new(&fake, &hub, "a", config());
    let (local, target) = (a.offer(LEN, 6), b.offer(LEN, 0));
    let tries = a.run_until_done(|| write(&a, &local, &b, &target), Duration::from_secs(10));
    assert_eq!((tries, bytes(&target)), (1, vec![6; LEN]));
    until("the old queue pairs to go", || nic_b.queue_pairs() == 2);
}

/// The host of a starts again, and its NIC counts queue pairs from the beginning.
#[track_caller]
fn comes_back_with_the_same_numbers(is_te: bool, wait: Duration) {
    let two = Two::new();
    let asked = |hub: &Hub| {
        let log = hub.log.lock().unwrap();
        log.iter().rev().find(|(q, _)| q.ready_ack == Some(false)).unwrap().0.qp_num.clone()
    };
    let Two { fake, hub, mut a, mut b, nic_a, nic_b } = two;
    (a.is_te, b.is_te) = (is_te, is_te);
    let run = |a: &Host, byte| {
        let (local, target) = (a.offer(LEN, byte), b.offer(LEN, 0));
        let tries = a.run_until_done(|| write(a, &local, &b, &target), Duration::from_secs(10));
        (tries, bytes(&target))
    };
    assert_eq!(run(&a, 1), (1, vec![1; LEN]));
    let numbers = asked(&hub);
    a.close();
    drop(a);
    nic_a.set_gids(1, vec![]);
    add_nic(&fake, "a, started again", "rxe0", 1);
    std::thread::sleep(wait);
    let mut a = Host::on(fake.host("a, started again"), &hub, "a", config());
    a.is_te = is_te;
    assert_eq!(run(&a, 2), (1, vec![2; LEN]), "is_te {is_te}");
    assert_eq!(asked(&hub), numbers, "the numbers are those of the first connection");
    until("the old queue pairs to go", || nic_b.queue_pairs() == 2);
}

/// The numbers of a connection that is older than a handshake may take are no proof that it is the
/// same: its packets begin anew, and a NIC that expects later ones drops their bytes and says yes.
#[test]
fn the_same_numbers_of_a_host_that_started_again_are_another_connection() {
    let limit = config().connection.ready_ack_limit;
    comes_back_with_the_same_numbers(true, limit);
    comes_back_with_the_same_numbers(false, limit);
}

/// One of our own engines says who it is, so that even the next moment is not too early.
#[test]
fn the_same_numbers_of_another_process_of_ours_are_another_connection_at_once() {
    comes_back_with_the_same_numbers(true, Duration::ZERO);
}

/// §3.6: the same numbers again get the same answer, new ones retire the old connection.
#[test]
fn the_same_numbers_get_the_same_answer_and_new_ones_another_connection() {
    let two = Two::new();
    let first = ask(&two, &question(&[100, 101]));
    assert!(!first.is_refusal() && first.qp_num.len() == 2, "{first:?}");
    assert_eq!(ask(&two, &question(&[100, 101])), first);
    assert_eq!(two.nic_b.queue_pairs(), 2);
    let second = ask(&two, &question(&[200, 201]));
    assert_ne!(second.qp_num, first.qp_num);
    until("the old ones to go", || two.nic_b.queue_pairs() == 2);
    let ack = |list: &[u32]| EndpointMessage { ready_ack: Some(true), ..question(list) };
    assert!(ask(&two, &ack(&[100, 101])).is_refusal(), "stale");
    assert_eq!(ask(&two, &ack(&[200, 201])), EndpointMessage::default());
    assert_eq!(ask(&two, &ack(&[200, 201])), EndpointMessage::default(), "it may be repeated");
    works(&two);
}

/// An ack from a path that is not known leaves no queue pair behind (defect of the wheel).
#[test]
fn an_ack_from_nowhere_leaves_nothing_behind() {
    let two = Two::new();
    let ack = EndpointMessage { ready_ack: Some(true), ..question(&[1, 2]) };
    assert!(ask(&two, &ack).is_refusal());
    assert_eq!(two.nic_b.queue_pairs(), 0);
}

/// The count of the request is taken, and who does not know the ready-ack is connected at once.
#[test]
fn e26_the_passive_side_takes_the_count_of_the_request() {
    let two = Two::new();
    for count in [1_u32, 5] {
        let list: Vec<u32> = (0..count).map(|i| 50 + i).collect();
        let old = EndpointMessage { ready_ack: None, ..question(&list) };
        let answer = ask(&two, &old);
        assert_eq!((answer.qp_num.len(), answer.ready_ack), (list.len(), None));
    }
    for list in [vec![], (0..65).collect::<Vec<u32>>()] {
        assert!(ask(&two, &question(&list)).is_refusal(), "{} queue pairs", list.len());
    }
}

/// Defect 3 of the wheel, and §3.6: what a peer says of itself changes nothing of ours.
#[test]
fn hostile_questions_are_refused_by_name_and_change_nothing() {
    let two = Two::new();
    works(&two);
    let before = two.b.descriptor();
    let zero = "00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00";
    let link_local = "fe:80:00:00:00:00:00:00:00:00:00:00:00:00:00:01";
    let nobody = "00:00:00:00:00:00:00:00:00:00:ff:ff:0a:00:00:63";
    let with = |change: &dyn Fn(&mut EndpointMessage)| {
        let mut message = question(&[900, 901]);
        change(&mut message);
        message
    };
    let table = [
        ("zero GID", with(&|m| m.local_gid = zero.to_owned())),
        ("no GID", with(&|m| m.local_gid.clear())),
        ("bad GID", with(&|m| m.local_gid = "nonsense".to_owned())),
        ("link-local GID", with(&|m| m.local_gid = link_local.to_owned())),
        ("GID of nobody", with(&|m| m.local_gid = nobody.to_owned())),
        ("unknown NIC", with(&|m| m.peer_nic_path = "b@rxe9".to_owned())),
        ("other server", with(&|m| m.peer_nic_path = "c@rxe1".to_owned())),
        ("no path", with(&|m| m.peer_nic_path = "rxe1".to_owned())),
        ("no own path", with(&|m| m.local_nic_path.clear())),
        ("empty", EndpointMessage::default()),
    ];
    for (what, message) in table {
        let answer = ask(&two, &message);
        assert!(answer.is_refusal(), "{what}: {answer:?}");
        until(what, || two.nic_b.queue_pairs() == 2);
    }
    let mut after = two.b.descriptor();
    after.timestamp = before.timestamp.clone();
    assert_eq!(after, before);
    works(&two);
}

/// Defect 5 of the wheel: 300 questions that are never acknowledged cost nothing for long.
#[test]
fn three_hundred_half_open_connections_go_by_themselves() {
    let two = Two::new();
    let mut most = 0;
    for i in 0..300_u32 {
        let path = format!("x{}@rxe{}", i % 3, i);
        let message =
            EndpointMessage { local_nic_path: path, ..question(&[1000 + 2 * i, 1001 + 2 * i]) };
        assert!(!ask(&two, &message).is_refusal());
        most = most.max(two.nic_b.queue_pairs());
    }
    assert!(most <= 2 * 3 * 65, "{most} queue pairs of three peers");
    until("all of them to go", || two.nic_b.queue_pairs() == 0);
    works(&two);
}

/// A kernel that looks for an address keeps neither the listener nor a worker waiting.
#[test]
fn looking_for_an_address_stops_neither_the_listener_nor_traffic() {
    let two = Two::new();
    works(&two);
    two.fake.hold_routes(true);
    std::thread::scope(|scope| {
        for i in 0..2_u32 {
            let two = &two;
            scope.spawn(move || {
                let path = format!("slow{i}@rxe0");
                ask(two, &EndpointMessage { local_nic_path: path, ..question(&[70 + i]) })
            });
        }
        assert!(two.fake.wait_for_routing(2, Duration::from_secs(30)));
        works(&two);
        two.fake.hold_routes(false);
    });
}

/// A refusal: bounded tries, nothing left behind, and nothing was sent.
#[test]
fn a_peer_that_refuses_is_asked_a_bounded_number_of_times() {
    let two = Two::new();
    *two.hub.twist.lock().unwrap() = Some(|_, _| EndpointMessage::refusal("not today"));
    let (local, target) = (two.a.offer(LEN, 1), two.b.offer(LEN, 0));
    let end = two.a.run(&write(&two.a, &local, &two.b, &target));
    let fault = end.result.unwrap_err();
    assert_eq!((fault.class, fault.phase), (FaultClass::Rail, Phase::Handshake));
    assert!(fault.cause.contains("not today"), "{fault}");
    assert_eq!(end.remote, RemoteSide::Untouched);
    assert_eq!(two.hub.log.lock().unwrap().len(), 4);
    assert_eq!(two.nic_a.queue_pairs(), 0);
    *two.hub.twist.lock().unwrap() = None;
    works(&two);
}

/// A peer that takes another count says so in a filled refusal; the next try has that count.
#[test]
fn the_active_side_learns_the_count_from_a_filled_refusal() {
    let two = Two::new();
    *two.hub.twist.lock().unwrap() = Some(|question, answer| match question.qp_num.len() {
        3 => answer,
        _ => EndpointMessage {
            qp_num: numbers(&[1, 2, 3]),
            reply_msg: "QP count mismatch in peer and local endpoints".to_owned(),
            ..answer
        },
    });
    works(&two);
    assert_eq!((two.nic_a.queue_pairs(), two.nic_b.queue_pairs()), (3, 3));
}

/// §3.5: an answer without the key `ready_ack` means connected at once.
#[test]
fn a_peer_that_does_not_know_the_ready_ack_gets_no_second_message() {
    let two = Two::new();
    *two.hub.twist.lock().unwrap() =
        Some(|_, answer| EndpointMessage { ready_ack: None, ..answer });
    works(&two);
    assert_eq!(two.hub.log.lock().unwrap().len(), 1);
}

/// Answers that are none: a named fault, and the next handshake works.
#[test]
fn hostile_answers_are_named_faults() {
    let table: [(&str, common::Twist); 5] = [
        ("empty", |_, _| EndpointMessage::default()),
        ("foreign path", |_, a| EndpointMessage { local_nic_path: "z@rxe1".to_owned(), ..a }),
        ("bad GID", |_, a| EndpointMessage { local_gid: "zz".to_owned(), ..a }),
        ("no queue pairs", |_, a| EndpointMessage { qp_num: Vec::new(), ..a }),
        ("refused ack", |q, a| match q.ready_ack {
            Some(true) => EndpointMessage::refusal("stale"),
            _ => a,
        }),
    ];
    let two = Two::new();
    let (local, target) = (two.a.offer(LEN, 1), two.b.offer(LEN, 0));
    for (what, twist) in table {
        *two.hub.twist.lock().unwrap() = Some(twist);
        let end = two.a.run(&write(&two.a, &local, &two.b, &target));
        let fault = end.result.unwrap_err();
        assert_eq!(
            (fault.class, end.remote),
            (FaultClass::Rail, RemoteSide::Untouched),
            "{what}: {fault}"
        );
        until(what, || two.nic_a.queue_pairs() == 0);
        *two.hub.twist.lock().unwrap() = None;
    }
    works(&two);
}

/// E35: with room for two connections a third peer is served, and one of the others leaves.
#[test]
fn e35_a_full_store_lets_one_connection_go_for_another() {
    let (fake, hub) = (Fake::new(1), Arc::new(Hub::default()));
    let nic_a = add_nic(&fake, "a", "rxe0", 1);
    let mut small = config();
    small.connection.max_endpoints = 2;
    let a = Host::new(&fake, &hub, "a", small);
    let peers: Vec<Host> = (0..4_u8)
        .map(|i| {
            let name = format!("p{i}");
            add_nic(&fake, &name, "rxe1", 10 + i);
            Host::new(&fake, &hub, &name, config())
        })
        .collect();
    let local = a.offer(LEN, 8);
    for round in 0..3 {
        for (i, peer) in peers.iter().enumerate() {
            let target = peer.offer(LEN, 0);
            let remote = || {
                let whole = peer.remote();
                let id = te_segment::SegmentId::from_u64(i as u64 + 1);
                let (name, rpc) = (whole.name().clone(), whole.rpc().clone());
                let descriptor = whole.descriptor().clone();
                Arc::new(te_segment::RemoteSegment::new(id, name, rpc, descriptor, round + 1))
            };
            let make = || a.slice(Opcode::Write, &local, &remote(), target.region().address());
            a.run_until_done(make, Duration::from_secs(10));
            assert_eq!(bytes(&target), [8; LEN]);
            until("the others to leave", || nic_a.queue_pairs() <= 4);
        }
    }
}

/// §3.3.7: a NIC that writes to itself is connected to itself without a message.
#[test]
fn a_nic_reaches_itself_without_a_message() {
    let two = Two::new();
    let (local, target) = (two.a.offer(LEN, 4), two.a.offer(LEN, 0));
    assert_eq!(two.a.run(&write(&two.a, &local, &two.a, &target)).result, Ok(()));
    assert_eq!(bytes(&target), [4; LEN]);
    assert!(two.hub.log.lock().unwrap().is_empty());
}

/// E58, J90: a peer that failed is left alone for a while where that is set.
#[test]
fn e58_a_peer_that_failed_is_left_alone_for_the_pause() {
    let mut with_pause = config();
    with_pause.connection.pause = Some(Duration::from_secs(3600));
    let two = Two::with(with_pause);
    *two.hub.twist.lock().unwrap() = Some(|_, _| EndpointMessage::refusal("no"));
    let (local, target) = (two.a.offer(LEN, 1), two.b.offer(LEN, 0));
    let run = || two.a.run(&write(&two.a, &local, &two.b, &target)).result.unwrap_err();
    assert_eq!(run().phase, Phase::Handshake);
    let asked = two.hub.log.lock().unwrap().len();
    let fault = run();
    assert_eq!((fault.class, fault.phase), (FaultClass::Peer, Phase::Connect));
    assert_eq!(two.hub.log.lock().unwrap().len(), asked, "nobody was asked");
    *two.hub.twist.lock().unwrap() = None;
    let (back, home) = (two.b.offer(LEN, 3), two.a.offer(LEN, 0));
    assert_eq!(two.b.run(&write(&two.b, &back, &two.a, &home)).result, Ok(()), "it may still come");
}
