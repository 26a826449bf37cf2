//! What becomes of slices when something breaks, and that traffic goes on afterwards.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests are drivers")]

#[path = "common/bench.rs"]
mod bench;
mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::{Bench, LEN, class};
use common::{Host, Hub, PATIENCE, add_nic, bytes, config, until};
use te_metadata::{EndpointMessage, ProtocolPart, Rkey, SegmentName};
use te_segment::{Opcode, RemoteRange, RemoteSegment, SegmentId, Slice};
use te_transport::{FaultClass, Phase, RemoteSide, Transport};
use te_verbs::Fake;

/// The same peer as it would say with other keys.
fn with_keys(peer: &RemoteSegment, change: impl Fn(&mut Rkey)) -> Arc<RemoteSegment> {
    let mut descriptor = peer.descriptor().clone();
    let ProtocolPart::Rdma { buffers, .. } = &mut descriptor.part else { panic!("not RDMA") };
    buffers.iter_mut().flat_map(|buffer| &mut buffer.rkeys).for_each(change);
    let (name, rpc) = (peer.name().clone(), peer.rpc().clone());
    Arc::new(RemoteSegment::new(SegmentId::from_u64(1), name, rpc, descriptor, 2))
}

fn is_fence(question: &EndpointMessage) -> bool {
    question.payload.contains("fence")
}

/// A key that is wrong may be one that is old; the second time the peer means it.
#[test]
fn a_bad_key_is_tried_again_and_then_a_refusal() {
    let bench = Bench::new();
    let peer = with_keys(&bench.two.b.remote(), |key| *key = Rkey::new(key.value() ^ 0x5555));
    for (attempt, wanted) in [(0, FaultClass::Rail), (1, FaultClass::Refused)] {
        let mut slice = bench.write();
        (slice.peer, slice.attempt) = (Arc::clone(&peer), attempt);
        let end = bench.two.a.run(&slice);
        assert_eq!(class(&end), Some(wanted), "{end:?}");
        assert_eq!(end.remote, RemoteSide::Settled);
    }
    bench.goes_on();
}

#[test]
fn memory_that_was_unregistered_at_the_target_is_not_touched_any_more() {
    let bench = Bench::new();
    let old = bench.write();
    bench.two.b.rdma.deregister(&bench.target);
    let end = bench.two.a.run(&old);
    assert_eq!(class(&end), Some(FaultClass::Rail), "{end:?}");
    assert_eq!(end.remote, RemoteSide::Settled);
    let end = bench.two.a.run(&bench.write());
    assert_eq!((class(&end), end.remote), (Some(FaultClass::Refused), RemoteSide::Untouched));
    bench.two.b.rdma.register(&bench.target).unwrap();
    bench.goes_on();
}

#[test]
fn local_memory_that_is_not_registered_is_a_local_fault() {
    let bench = Bench::new();
    bench.two.a.rdma.deregister(&bench.local);
    let end = bench.two.a.run(&bench.write());
    assert_eq!((class(&end), end.remote), (Some(FaultClass::Local), RemoteSide::Untouched));
}

/// A slice that has to be compared at the destination goes another way.
#[test]
fn a_checked_slice_is_not_taken_for_done() {
    let bench = Bench::new();
    let mut slice = bench.write();
    slice.checked = true;
    let end = bench.two.a.run(&slice);
    assert_eq!((class(&end), end.remote), (Some(FaultClass::Rail), RemoteSide::Untouched));
}

/// E56: a queue pair that fails ends its connection only; what the peer may still apply is fenced.
#[test]
fn e56_a_failed_queue_pair_ends_what_was_on_it_and_the_fence_settles_it() {
    let bench = Bench::new();
    let slice = bench.held(Opcode::Write);
    let question = bench.two.hub.log.lock().unwrap()[0].0.clone();
    for number in &question.qp_num {
        assert!(bench.two.nic_a.fail_queue_pair(number.value()));
    }
    let end = bench.two.a.end(&slice);
    assert_eq!((class(&end), end.remote), (Some(FaultClass::Rail), RemoteSide::Settled));
    let log = bench.two.hub.log.lock().unwrap().clone();
    let (fence, answer) = log.last().unwrap();
    assert_eq!(fence.payload, r#"{"te":{"fence":1}}"#);
    assert_eq!(answer.payload, r#"{"te":{"fenced":1}}"#);
    bench.goes_on();
}

/// Towards a peer of another kind a flushed write stays in doubt, and a read is settled.
#[test]
fn a_peer_without_fences_leaves_a_flushed_write_in_doubt() {
    let mut bench = Bench::new();
    bench.two.b.is_te = false;
    for (op, wanted) in [(Opcode::Write, RemoteSide::InDoubt), (Opcode::Read, RemoteSide::Settled)]
    {
        let slice = bench.held(op);
        bench.two.a.rdma.cancel(&[slice.token]);
        let end = bench.two.a.end(&slice);
        assert_eq!((class(&end), end.remote), (Some(FaultClass::Cancelled), wanted));
        bench.goes_on();
    }
    let log = bench.two.hub.log.lock().unwrap();
    assert!(log.iter().all(|(question, _)| !question.payload.contains("fence")), "none is asked");
}

#[test]
fn a_posted_slice_that_is_called_back_ends_cancelled_and_settled() {
    let bench = Bench::new();
    let slice = bench.held(Opcode::Write);
    let begun = Instant::now();
    bench.two.a.rdma.cancel(&[slice.token]);
    let end = bench.two.a.end(&slice);
    assert_eq!((class(&end), end.remote), (Some(FaultClass::Cancelled), RemoteSide::Settled));
    assert!(begun.elapsed() < Duration::from_secs(5));
    // What was held is let go now: nothing of the old write may come after its end.
    bench.target.region().write_from(0, &[9; LEN]).unwrap();
    bench.two.fake.release();
    assert_eq!(bytes(&bench.target), [9; LEN]);
    bench.goes_on();
}

/// rxe never gives up with 7 tries: the deadline is our own (defect 8 of the wheel).
#[test]
fn lost_traffic_ends_by_our_own_deadline() {
    let bench = Bench::new();
    bench.two.nic_b.lose_traffic(1);
    let begun = Instant::now();
    let end = bench.two.a.run(&bench.write());
    let took = begun.elapsed();
    assert_eq!(class(&end), Some(FaultClass::Rail), "{end:?}");
    assert!(took >= Duration::from_millis(400) && took < Duration::from_secs(5), "{took:?}");
    assert_eq!(end.remote, RemoteSide::Settled, "the handshake port still answers the fence");
    bench.two.nic_b.heal(1);
    bench.goes_on();
}

/// A write whose answer is lost may have been carried out: without a fence it is in doubt.
#[test]
fn a_lost_answer_is_no_success_and_in_doubt_without_a_fence() {
    let bench = Bench::new();
    bench.two.nic_a.lose_answers(1);
    bench.two.nic_b.lose_answers(1);
    *bench.two.hub.twist.lock().unwrap() = Some(|question, answer| match is_fence(question) {
        false => answer,
        true => EndpointMessage::refusal("no fence today"),
    });
    let end = bench.two.a.run(&bench.write());
    assert_eq!((class(&end), end.remote), (Some(FaultClass::Rail), RemoteSide::InDoubt));
    *bench.two.hub.twist.lock().unwrap() = None;
    bench.two.nic_a.heal(1);
    bench.two.nic_b.heal(1);
    bench.goes_on();
}

/// RDMA fault 8: the peer is gone, its handshake port too.
#[test]
fn rdma_fault08_slices_to_a_peer_that_is_gone_end_and_later_ones_end_soon() {
    let bench = Bench::new();
    let remote = bench.two.b.remote();
    let slice = bench.held(Opcode::Write);
    bench.two.hub.remove("b");
    bench.two.nic_b.lose_traffic(1);
    let end = bench.two.a.end(&slice);
    assert_eq!((class(&end), end.remote), (Some(FaultClass::Rail), RemoteSide::InDoubt));
    let begun = Instant::now();
    let late =
        bench.two.a.slice(Opcode::Write, &bench.local, &remote, bench.target.region().address());
    let end = bench.two.a.run(&late);
    assert_eq!((class(&end), end.remote), (Some(FaultClass::Peer), RemoteSide::Untouched));
    assert_eq!(end.result.unwrap_err().phase, Phase::Connect);
    assert!(begun.elapsed() < Duration::from_secs(2));
}

/// RDMA fault 6: the only NIC loses its link for a moment: slices fail at once, and traffic is back within 2 s.
#[test]
fn rdma_fault06_a_link_that_flaps_is_used_again_within_two_seconds() {
    let bench = Bench::new();
    bench.two.nic_a.port_down(1);
    until("the NIC to be inactive", || !bench.two.a.rdma.reaches(&bench.two.b.remote()));
    let begun = Instant::now();
    let end = bench.two.a.run(&bench.write());
    assert_eq!((class(&end), end.remote), (Some(FaultClass::Rail), RemoteSide::Untouched));
    assert!(begun.elapsed() < Duration::from_secs(1));
    bench.two.nic_a.port_up(1);
    let up = Instant::now();
    bench.goes_on();
    assert!(up.elapsed() < Duration::from_secs(2), "{:?}", up.elapsed());
}

/// A port that goes down with work on it: the work ends, nothing hangs.
#[test]
fn a_port_that_goes_down_ends_what_was_posted() {
    let bench = Bench::new();
    let slice = bench.held(Opcode::Write);
    bench.two.nic_a.port_down(1);
    let end = bench.two.a.end(&slice);
    assert_eq!(class(&end), Some(FaultClass::Rail), "{end:?}");
    bench.two.nic_a.port_up(1);
    bench.goes_on();
}

#[test]
fn a_refused_post_is_made_again_or_costs_the_connection() {
    let bench = Bench::new();
    bench.two.nic_a.fail_post(0, libc::EINVAL);
    let end = bench.two.a.run(&bench.write());
    assert_eq!((class(&end), end.remote), (Some(FaultClass::Rail), RemoteSide::Untouched));
    bench.goes_on();
}

/// A full send queue in the middle of a chain is waited out.
#[test]
fn a_full_send_queue_costs_nothing() {
    let bench = Bench::new();
    let local = bench.two.a.offer(64 << 10, 5);
    let target = bench.two.b.offer(1 << 20, 0);
    let remote = bench.two.b.remote();
    bench.two.nic_a.fail_post(3, libc::ENOMEM);
    let slices: Vec<Slice> = (0..16)
        .map(|i| {
            // A gap between neighbours, so that each has a request of its own.
            let address = target.region().address() + i * (64 << 10);
            let mut slice = bench.two.a.slice(Opcode::Write, &local, &remote, address);
            slice.local = local.region().range(0, 32 << 10).unwrap();
            slice.remote = RemoteRange::new(address, 32 << 10).unwrap();
            slice
        })
        .collect();
    let mut queue: std::collections::VecDeque<Slice> = slices.iter().cloned().collect();
    assert_eq!(bench.two.a.rdma.submit(&remote, &mut queue), 16);
    for slice in &slices {
        assert_eq!(bench.two.a.end(slice).result, Ok(()));
    }
}

/// A provider queues a chain, fails and does not say what it refused. What it queued may be carried
/// out at any time, so nothing may be told done, or posted again, on that connection.
#[test]
fn a_post_that_fails_after_it_was_taken_is_neither_done_nor_made_again() {
    for (told, errno) in [(0, libc::ENOMEM), (3, libc::ENOMEM), (3, libc::EINVAL)] {
        let bench = Bench::new();
        let (local, target) = (bench.two.a.offer(8 * LEN, 5), bench.two.b.offer(8 * LEN, 0));
        bench.two.fake.hold_traffic();
        // The first of three is posted alone, and nothing tells of it.
        bench.two.nic_a.fail_post(1, libc::ENOMEM);
        let first = bench.apart(&local, &target, 3);
        bench.two.nic_a.take_and_refuse(told, errno);
        bench.submit(&first);
        bench.two.a.pump();
        // What was queued is carried out up to the end of the second chain.
        (0..3).for_each(|_| {
            bench.two.fake.step();
        });
        bench.two.a.pump();
        let ends: Vec<_> = first.iter().map(|slice| bench.two.a.end(slice)).collect();
        local.region().write_from(0, &[6; 8 * LEN]).unwrap();
        bench.two.fake.release();
        let there = bytes(&target);
        for (place, end) in ends.iter().enumerate() {
            assert_ne!(end.remote, RemoteSide::InDoubt, "the peer confirmed a fence");
            assert_ne!(there[2 * place * LEN], 6, "{told}: read after its end: {end:?}");
            assert!(end.result.is_err() || there[2 * place * LEN] == 5, "{told}: {end:?}");
        }
        bench.goes_on();
    }
}

#[test]
fn a_dead_device_ends_its_work_and_close_ends_too() {
    let bench = Bench::new();
    let slice = bench.held(Opcode::Write);
    bench.two.nic_a.die();
    let end = bench.two.a.end(&slice);
    assert_eq!(class(&end), Some(FaultClass::Rail), "{end:?}");
    let end = bench.two.a.run(&bench.write());
    assert_eq!((class(&end), end.remote), (Some(FaultClass::Rail), RemoteSide::Untouched));
    bench.two.a.close();
}

/// E54: a completion queue that fails costs what was on it; the NIC works again with another one.
#[test]
fn e54_a_failed_completion_queue_is_replaced() {
    let bench = Bench::new();
    let slice = bench.held(Opcode::Write);
    bench.two.nic_a.fail_completion_queues();
    let end = bench.two.a.end(&slice);
    assert_eq!(class(&end), Some(FaultClass::Rail), "{end:?}");
    bench.goes_on();
}

/// I3 of the worker: a device that gives nothing back is reset, and then everything ends.
#[test]
fn close_does_not_wait_for_completions_that_never_come() {
    let bench = Bench::new();
    bench.two.fake.hold_completions();
    let slices: Vec<Slice> = (0..3).map(|_| bench.write()).collect();
    slices.iter().for_each(|slice| bench.two.a.submit(slice));
    bench.two.a.pump();
    let begun = Instant::now();
    bench.two.a.close();
    assert!(begun.elapsed() < Duration::from_secs(5));
    for slice in &slices {
        let end = bench.two.a.ends.of(slice.token).pop().expect("it ended");
        assert_eq!((class(&end), end.remote), (Some(FaultClass::Closed), RemoteSide::InDoubt));
    }
}

/// One lane came back and left a write in doubt, the other did not: closing ends both, whatever the
/// link waits for.
#[test]
fn close_ends_what_is_in_doubt_on_a_link_that_did_not_come_back_whole() {
    for refused in [0, 1, 1000] {
        let bench = Bench::new();
        bench.two.fake.hold_traffic();
        bench.two.fake.hold_completions();
        let slices = [bench.write(), bench.write()];
        for slice in &slices {
            bench.two.a.submit(slice);
            bench.two.a.pump();
        }
        let question = bench.two.hub.log.lock().unwrap()[0].0.clone();
        question.qp_num.iter().for_each(|number| {
            assert!(bench.two.nic_a.fail_queue_pair(number.value()));
        });
        assert!(bench.two.fake.step(), "one of two is shown");
        bench.two.a.pump();
        (0..refused).for_each(|_| {
            bench.two.nic_a.fail_call(te_verbs::VerbsCall::ToReset, 0, libc::EIO);
        });
        bench.two.a.close();
        let ends: Vec<_> = slices.iter().flat_map(|s| bench.two.a.ends.of(s.token)).collect();
        // A reset that is refused again and again leaves the other one with the device.
        assert_eq!(ends.len(), if refused < 1000 { 2 } else { 1 }, "{refused}: {ends:?}");
        assert!(ends.iter().all(|end| end.result.is_err()));
        assert!(ends.iter().all(|end| end.remote == RemoteSide::InDoubt), "{ends:?}");
    }
}

/// J96: with a second NIC alive no request fails, whichever side loses one.
#[test]
fn j96_with_a_second_nic_every_slice_is_done_in_a_few_tries() {
    let (fake, hub) = (Fake::new(3), Arc::new(Hub::default()));
    let nics: Vec<_> = [("a", "rxe0", 1), ("a", "rxe1", 2), ("b", "rxe2", 3), ("b", "rxe3", 4)]
        .into_iter()
        .map(|(host, nic, last)| add_nic(&fake, host, nic, last))
        .collect();
    let a = Host::new(&fake, &hub, "a", config());
    let b = Host::new(&fake, &hub, "b", config());
    let (local, target) = (a.offer(LEN, 1), b.offer(LEN, 2));
    let write = || a.slice(Opcode::Write, &local, &b.remote(), target.region().address());
    for round in 0..12 {
        let nic = &nics[round % 4];
        if round < 4 {
            nic.port_down(1);
        } else {
            nic.lose_traffic(1);
        }
        for i in 0..8 {
            local.region().write_from(0, &[u8::try_from(round * 8 + i).unwrap(); LEN]).unwrap();
            let tries = a.run_until_done(write, Duration::from_secs(20));
            assert!(tries <= 8, "{tries} tries");
            assert_eq!(bytes(&target), bytes(&local));
        }
        if round < 4 {
            nic.port_up(1);
            let devices = |host: &Host| match host.descriptor().part {
                ProtocolPart::Rdma { devices, .. } => devices.len(),
                _ => 0,
            };
            until("the NIC to be back", || devices(&a) == 2 && devices(&b) == 2);
        } else {
            nic.heal(1);
        }
    }
}

/// Completion is the only promise of order: a flag word is written after the payload has ended.
#[test]
fn a_flag_that_is_written_after_the_completion_follows_the_payload() {
    let bench = Bench::new();
    let flag = bench.two.a.offer(8, 0);
    let target = bench.two.b.offer(8, 0);
    for round in 1..=20 {
        bench.local.region().write_from(0, &[round; LEN]).unwrap();
        flag.region().write_from(0, &[round; 8]).unwrap();
        assert_eq!(bench.two.a.run(&bench.write()).result, Ok(()));
        let remote = bench.two.b.remote();
        let address = target.region().address();
        let slice = bench.two.a.slice(Opcode::Write, &flag, &remote, address);
        assert_eq!(bench.two.a.run(&slice).result, Ok(()));
        assert_eq!((bytes(&target), bytes(&bench.target)), (vec![round; 8], vec![round; LEN]));
    }
}

#[test]
fn an_unknown_device_is_a_named_error_and_nothing_runs() {
    let (fake, hub) = (Fake::new(1), Arc::new(Hub::default()));
    add_nic(&fake, "a", "rxe0", 1);
    let mut wanted = config();
    wanted.nics = vec![te_topology::NicName::parse("rxe9").unwrap()];
    let verbs: Arc<dyn te_verbs::Verbs> = fake.host("a");
    let rdma = te_transport_rdma::Rdma::new(wanted, verbs);
    let context = te_transport::TransportContext {
        name: SegmentName::parse("a").unwrap(),
        segment: Arc::default(),
        sink: te_transport::testing::Recorder::new(),
        incarnation: te_metadata::Incarnation::random(),
        clock: Arc::new(te_transport::SystemClock),
    };
    let error = rdma.start(context).unwrap_err();
    let mut text = String::new();
    let mut cause: Option<&dyn std::error::Error> = Some(&error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    assert!(text.contains("rxe9") && text.contains("rxe0"), "{text}");
    drop(hub);
    assert!(rdma.close(Instant::now() + PATIENCE).joined);
}
