//! Devices that leave, refuse or fall silent: what was with them ends as soon as that is true, and not
//! before.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests are drivers")]

#[path = "common/bench.rs"]
mod bench;
mod common;

use std::time::{Duration, Instant};

use bench::{Bench, LEN, class};
use common::{Host, config, until};
use te_metadata::EndpointMessage;
use te_segment::{Opcode, Slice};
use te_transport::{Completion, FaultClass, RemoteSide, Transport};
use te_verbs::VerbsCall;

/// More tries than a test has time for.
const ALWAYS: usize = 10_000;

fn refuse_resets(bench: &Bench, times: usize) {
    (0..times).for_each(|_| bench.two.nic_a.fail_call(VerbsCall::ToReset, 0, libc::EIO));
}

/// Posted on both lanes: a write, a read, and one whose completion is there and was not taken.
fn posted(bench: &Bench) -> Vec<Slice> {
    bench.two.fake.hold_completions();
    let done = bench.write();
    bench.two.a.submit(&done);
    bench.two.a.pump();
    bench.two.fake.hold_traffic();
    let [write, read] = [bench.write(), bench.slice(Opcode::Read)];
    for slice in [&write, &read] {
        bench.two.a.submit(slice);
        bench.two.a.pump();
    }
    vec![done, write, read]
}

fn ends(host: &Host, slices: &[Slice]) -> Vec<Completion> {
    slices.iter().flat_map(|slice| host.ends.of(slice.token)).collect()
}

/// Whether anything is mapped at an address.
fn is_mapped(address: u64) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let holds = |line: &str| {
        let (first, end) = line.split(' ').next()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some((number(first)?..number(end)?).contains(&address))
    };
    maps.lines().any(|line| holds(line) == Some(true))
}

/// The kernel destroys what was made of a device that is pulled out, and nothing comes back. With it
/// go the queue pairs, so that a fence settles what the peer may have.
#[test]
fn what_went_with_its_device_ends_and_a_fence_settles_it() {
    let bench = Bench::new();
    let slices = posted(&bench);
    bench.two.nic_a.vanish();
    for slice in &slices {
        let end = bench.two.a.end(slice);
        assert_eq!((class(&end), end.remote), (Some(FaultClass::Rail), RemoteSide::Settled));
    }
    let end = bench.two.a.run(&bench.write());
    assert_eq!((class(&end), end.remote), (Some(FaultClass::Rail), RemoteSide::Untouched));
    bench.two.a.close();
}

#[test]
fn what_went_with_its_device_is_in_doubt_where_no_fence_is_confirmed() {
    let bench = Bench::new();
    *bench.two.hub.twist.lock().unwrap() =
        Some(|question, answer| match question.payload.contains("fence") {
            false => answer,
            true => EndpointMessage::refusal("no fence today"),
        });
    let slices = posted(&bench);
    bench.two.nic_a.vanish();
    for (slice, wanted) in
        slices.iter().zip([RemoteSide::InDoubt, RemoteSide::InDoubt, RemoteSide::Settled])
    {
        let end = bench.two.a.end(slice);
        assert_eq!((class(&end), end.remote), (Some(FaultClass::Rail), wanted));
    }
}

/// Also where it goes so late that only the closing worker can hear of it.
#[test]
fn close_ends_what_went_with_its_device() {
    for waits in [false, true] {
        let bench = Bench::new();
        let slices = posted(&bench);
        bench.two.nic_a.vanish();
        if waits {
            until("the NIC to be away", || !bench.two.a.rdma.reaches(&bench.two.b.remote()));
        }
        let begun = Instant::now();
        bench.two.a.close();
        assert!(begun.elapsed() < Duration::from_secs(5));
        let ends = ends(&bench.two.a, &slices);
        assert_eq!(ends.len(), slices.len(), "{ends:?}");
        assert!(ends.iter().all(|end| end.result.is_err()), "{ends:?}");
    }
}

/// What such a device may still touch stays mapped, although everything that used it is gone.
#[test]
fn memory_that_went_with_a_device_is_never_given_back() {
    let mapped = |vanishes: bool| {
        let bench = Bench::new();
        let local = bench.two.a.offer(8 << 20, 1);
        let target = bench.two.b.offer(8 << 20, 2);
        let address = local.region().address();
        let (peer, at) = (bench.two.b.remote(), target.region().address());
        bench.two.fake.hold_traffic();
        let slice = bench.two.a.slice(Opcode::Read, &local, &peer, at);
        bench.two.a.submit(&slice);
        bench.two.a.pump();
        if vanishes {
            bench.two.nic_a.vanish();
        } else {
            bench.two.nic_a.die();
        }
        bench.two.a.end(&slice);
        bench.two.a.close();
        drop((slice, local));
        drop(bench);
        is_mapped(address)
    };
    assert!(mapped(true), "it was given back");
    assert!(!mapped(false), "a device that flushes gives its memory back");
}

/// One reset that fails is no end of the world.
#[test]
fn a_reset_that_is_refused_for_a_while_is_made_again() {
    for refused in [1, 4] {
        let bench = Bench::new();
        let slices = posted(&bench);
        refuse_resets(&bench, refused);
        bench.two.a.rdma.cancel(&[slices[1].token]);
        for slice in &slices {
            let end = bench.two.a.end(slice);
            assert_eq!(end.remote, RemoteSide::Settled, "{end:?}");
        }
        bench.goes_on();
    }
}

/// A living device that keeps what was posted may write it at any time: nothing of that is told as
/// ended, and what was on another lane is.
#[test]
fn what_a_living_device_keeps_is_not_told_as_ended() {
    let bench = Bench::new();
    let slices = posted(&bench);
    refuse_resets(&bench, ALWAYS);
    bench.two.a.rdma.cancel(&[slices[1].token]);
    // Several times as long as a device that is gone would take.
    let soon = Instant::now() + 4 * config().work.flush_limit;
    while Instant::now() < soon {
        bench.two.a.rdma.drive(Instant::now() + Duration::from_millis(5));
    }
    assert_eq!(ends(&bench.two.a, &slices), []);
    let begun = Instant::now();
    bench.two.a.close();
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(ends(&bench.two.a, &slices), []);
}

/// E54: whichever call says first that the completion queue failed, another one takes its place and
/// the links that used it go: their completions would come to nobody.
#[test]
fn e54_a_queue_that_cannot_be_armed_or_read_is_replaced() {
    for skip in 0..6 {
        let mut set = config();
        // What is not heard of would take that long.
        set.work.patience = Duration::from_secs(60);
        let bench = Bench::with(set);
        bench.two.nic_a.fail_call(VerbsCall::Notify, skip, libc::EIO);
        // With work, and without any for a while.
        for _ in 0..3 {
            bench.goes_on();
            bench.two.a.rdma.drive(Instant::now() + Duration::from_millis(120));
        }
        bench.goes_on();
    }
}

/// Some providers poll a dead queue as an empty one: the event alone tells of it, and must reach the
/// worker, in whatever state the NIC is.
#[test]
fn e54_a_queue_that_falls_silent_is_replaced() {
    for is_down in [false, true] {
        let mut set = config();
        set.work.patience = Duration::from_secs(60);
        let bench = Bench::with(set);
        let slice = bench.held(Opcode::Write);
        if is_down {
            bench.two.nic_a.port_down(1);
            until("the NIC to be away", || !bench.two.a.rdma.reaches(&bench.two.b.remote()));
        }
        bench.two.nic_a.silence_completion_queues();
        let end = bench.two.a.end(&slice);
        assert_eq!((class(&end), end.remote), (Some(FaultClass::Rail), RemoteSide::Settled));
        bench.two.nic_a.port_up(1);
        bench.goes_on();
        assert_eq!(bench.two.nic_a.completion_queues(), 1, "the old one is gone");
    }
}

/// Queue pairs may be made before the queue fails and be connected after it was replaced.
#[test]
fn e54_a_connection_that_was_made_for_the_old_queue_is_none() {
    let mut set = config();
    set.work.patience = Duration::from_secs(60);
    let two = common::Two::with(set);
    let (local, target) = (two.a.offer(LEN, 1), two.b.offer(LEN, 2));
    let write = || two.a.slice(Opcode::Write, &local, &two.b.remote(), target.region().address());
    two.fake.hold_routes(true);
    let slice = write();
    two.a.submit(&slice);
    assert!(two.fake.wait_for_routing(1, common::PATIENCE));
    two.nic_a.fail_call(VerbsCall::Notify, 0, libc::EIO);
    let end = two.a.end(&slice);
    assert_eq!((class(&end), end.remote), (Some(FaultClass::Rail), RemoteSide::Untouched));
    until("another queue", || {
        two.a.rdma.drive(Instant::now() + Duration::from_millis(5));
        two.nic_a.completion_queues() == 2
    });
    let late = write();
    two.a.submit(&late);
    two.a.pump();
    two.fake.hold_routes(false);
    two.a.end(&late);
    two.a.run_until_done(write, Duration::from_secs(10));
    assert_eq!(common::bytes(&target), [1; LEN]);
}
