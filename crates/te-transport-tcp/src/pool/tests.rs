//! The lanes of one peer, moved by hand.
#![expect(clippy::disallowed_methods, reason = "any instant will do as a start")]

use std::sync::Arc;

use te_metadata::{HostPort, SegmentDescriptor, SegmentName, TcpEndpoint};
use te_segment::{AlignedBuffer, Opcode, Region, RemoteRange, RemoteSegment, SegmentId, Slice};
use te_transport::{FaultClass, Phase};

use crate::frame::Version;

use super::*;

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_millis(50);
const ROUND: Duration = Duration::from_secs(5);

struct Bench {
    pool: Pool,
    now: Instant,
    region: Region,
    peer: Arc<RemoteSegment>,
    next: u32,
}

/// An order without what a test does not look at: jobs are told by their number.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Connect(usize),
    Start(usize, u32),
    Fail(Vec<u32>),
}

fn bench(lanes: usize) -> Bench {
    let config = TcpConfig { lanes_per_peer: lanes, ..TcpConfig::default() };
    assert_eq!((config.first_pause, config.max_pause), (FIRST_PAUSE, MAX_PAUSE));
    let descriptor = SegmentDescriptor::tcp("peer", TcpEndpoint::default(), Vec::new());
    let name = SegmentName::parse("peer").unwrap();
    let rpc = HostPort::new("localhost", Some(1)).unwrap();
    let peer = RemoteSegment::new(SegmentId::from_u64(1), name, rpc, descriptor, 1);
    Bench {
        pool: Pool::new(lanes, &config),
        now: Instant::now(),
        region: Region::from(AlignedBuffer::zeroed(1).unwrap()),
        peer: Arc::new(peer),
        next: 0,
    }
}

impl Bench {
    fn job(&mut self) -> Job {
        let slice = Slice {
            token: SliceToken::new(self.next, 1),
            op: Opcode::Read,
            local: self.region.whole(),
            remote: RemoteRange::new(1, 1).unwrap(),
            peer: Arc::clone(&self.peer),
            attempt: 0,
            checked: false,
        };
        self.next += 1;
        Job::new(slice, Version::V2, None)
    }

    fn push(&mut self, n: u32) {
        for _ in 0..n {
            let job = self.job();
            self.pool.push(job);
        }
    }

    fn poll(&mut self) -> Option<Seen> {
        let number = |job: &Job| job.slice.token.slot();
        Some(match self.pool.poll(self.now)? {
            Order::Connect(lane) => Connect(lane),
            Order::Start(lane, job) => Start(lane, number(&job)),
            Order::Fail(jobs, _) => Fail(jobs.iter().map(number).collect()),
        })
    }

    #[track_caller]
    fn expect(&mut self, orders: &[Seen]) {
        for order in orders {
            assert_eq!(self.poll().as_ref(), Some(order));
        }
        assert_eq!(self.poll(), None);
    }

    fn fail(&mut self, lane: usize) {
        let fault = SliceFault::new(FaultClass::Peer, Phase::Connect, "cannot connect");
        self.pool.on_connect_failed(self.now, lane, fault);
    }

    fn later(&mut self, time: Duration) {
        self.now += time;
    }
}

use Seen::{Connect, Fail, Start};

/// J63: one lane serves what waits in order, over one connection.
#[test]
fn j63_one_lane_serves_in_order_over_one_connection() {
    let mut b = bench(1);
    b.push(3);
    b.expect(&[Connect(0)]);
    b.pool.on_connected(b.now, 0, 1);
    for number in 0..3 {
        b.expect(&[Start(0, number)]);
        b.pool.on_finished(0, true);
    }
    b.expect(&[]);
}

/// F32: idle lanes first; a lane is opened only when work waits; one attempt at a time.
#[test]
fn f32_a_lane_is_opened_only_when_work_waits_one_at_a_time() {
    let mut b = bench(4);
    b.expect(&[]);
    b.push(1);
    b.expect(&[Connect(0)]);
    b.pool.on_connected(b.now, 0, 1);
    b.expect(&[Start(0, 0)]);
    b.pool.on_finished(0, true);
    b.push(3);
    b.expect(&[Start(0, 1), Connect(1)]);
    b.pool.on_connected(b.now, 1, 1);
    b.expect(&[Start(1, 2), Connect(2)]);
    b.pool.on_finished(0, true);
    b.expect(&[Start(0, 3)]);
    b.pool.on_connected(b.now, 2, 1);
    b.expect(&[]);
}

/// J59, F34: a failed lane reconnects while a sibling goes on; what waits is not failed.
#[test]
fn j59_a_failed_lane_reconnects_while_a_sibling_goes_on() {
    let mut b = bench(2);
    b.push(4);
    b.expect(&[Connect(0)]);
    b.pool.on_connected(b.now, 0, 1);
    b.expect(&[Start(0, 0), Connect(1)]);
    b.pool.on_connected(b.now, 1, 1);
    b.expect(&[Start(1, 1)]);
    b.pool.on_finished(1, false);
    b.expect(&[Connect(1)]);
    b.pool.on_finished(0, true);
    b.expect(&[Start(0, 2)]);
    b.pool.on_connected(b.now, 1, 1);
    b.expect(&[Start(1, 3)]);
}

/// J60: a lane that could not connect is tried again while a sibling is usable, after its pause;
/// lanes that were never tried come first; when the last usable lane goes, a fresh round starts.
#[test]
fn j60_failed_lanes_are_tried_again_after_never_tried_ones() {
    let mut b = bench(3);
    b.push(9);
    b.expect(&[Connect(0)]);
    b.pool.on_connected(b.now, 0, 1);
    b.expect(&[Start(0, 0), Connect(1)]);
    b.fail(1);
    b.later(MAX_PAUSE);
    b.expect(&[Connect(2)]);
    b.fail(2);
    b.expect(&[Connect(1)]);
    b.fail(1);
    b.pool.on_finished(0, false);
    b.expect(&[Connect(0)]);
    b.fail(0);
    b.expect(&[Connect(2)]);
    b.fail(2);
    b.expect(&[Connect(1)]);
    b.fail(1);
    b.expect(&[Fail((1..9).collect())]);
}

/// J61 as changed (peer faults 9, 10): a pause follows only a failed attempt, doubles up to 50 ms
/// per lane, and one timer starts the next round.
#[test]
fn j61_pauses_double_up_to_fifty_milliseconds() {
    let mut b = bench(1);
    let mut expected = FIRST_PAUSE;
    for _ in 0..6 {
        b.push(1);
        let number = b.next - 1;
        b.expect(&[Connect(0)]);
        b.fail(0);
        b.expect(&[Fail(vec![number])]);
        b.push(1);
        b.expect(&[]);
        assert_eq!(b.pool.deadline(), Some(b.now + expected));
        b.later(expected - Duration::from_nanos(1));
        b.expect(&[]);
        b.later(Duration::from_nanos(1));
        let gone = b.pool.drain();
        assert_eq!(gone.len(), 1);
        expected = (expected * 2).min(MAX_PAUSE);
    }
    assert_eq!(expected, MAX_PAUSE);
    b.push(1);
    b.expect(&[Connect(0)]);
    assert_eq!(b.pool.deadline(), None, "no second round while one runs");
    b.pool.on_connected(b.now, 0, 1);
    b.expect(&[Start(0, b.next - 1)]);
    b.pool.on_finished(0, false);
    b.push(1);
    b.expect(&[Connect(0)]);
}

/// Peer fault 10: whatever requests come to, no lane pauses.
#[test]
fn fault10_refused_requests_and_lost_connections_cost_no_pause() {
    let mut b = bench(2);
    for number in 0..100 {
        b.push(1);
        let Some(Connect(lane)) = b.poll() else { panic!("no attempt for job {number}") };
        b.pool.on_connected(b.now, lane, 1);
        b.expect(&[Start(lane, number)]);
        b.pool.on_finished(lane, false);
        assert_eq!(b.pool.deadline(), None);
    }
}

/// I4: a round lasts no longer than one attempt may.
#[test]
fn a_round_whose_first_attempt_timed_out_tries_no_further_lane() {
    let mut b = bench(4);
    b.push(2);
    b.expect(&[Connect(0)]);
    b.later(ROUND);
    b.fail(0);
    b.expect(&[Fail(vec![0, 1])]);
}

/// Peer fault 11: a job that lost its kept connection goes first, on a fresh connection only.
#[test]
fn fault11_a_job_that_goes_again_takes_a_fresh_connection() {
    let mut b = bench(2);
    b.push(2);
    b.expect(&[Connect(0)]);
    b.pool.on_connected(b.now, 0, 1);
    b.expect(&[Start(0, 0), Connect(1)]);
    b.pool.on_connected(b.now, 1, 1);
    b.expect(&[Start(1, 1)]);
    b.pool.on_finished(1, true);
    b.pool.on_finished(0, false);
    let job = b.job();
    b.pool.push_again(job);
    b.push(1);
    b.expect(&[Start(1, 3), Connect(0)]);
    b.pool.on_connected(b.now, 0, 1);
    b.expect(&[Start(0, 2)]);
}

/// Where every lane is idle, one is given up for a job that needs a fresh connection.
#[test]
fn an_idle_lane_is_given_up_for_a_job_that_goes_again() {
    let mut b = bench(1);
    b.push(1);
    b.expect(&[Connect(0)]);
    b.pool.on_connected(b.now, 0, 1);
    b.expect(&[Start(0, 0)]);
    b.pool.on_finished(0, true);
    let job = b.job();
    b.pool.push_again(job);
    b.expect(&[Connect(0)]);
    b.pool.on_connected(b.now, 0, 1);
    b.expect(&[Start(0, 1)]);
}

#[test]
fn what_is_called_back_never_starts() {
    let mut b = bench(1);
    b.push(5);
    let tokens = [1, 3].map(|slot| SliceToken::new(slot, 1)).into();
    assert_eq!(b.pool.cancel(&tokens).len(), 2);
    b.expect(&[Connect(0)]);
    b.pool.on_connected(b.now, 0, 1);
    for number in [0, 2, 4] {
        b.expect(&[Start(0, number)]);
        b.pool.on_finished(0, true);
    }
    b.expect(&[]);
}

#[test]
fn a_pool_is_forgotten_only_when_nothing_waits_is_open_or_pauses() {
    let mut b = bench(2);
    assert!(b.pool.is_forgettable(b.now));
    b.push(1);
    assert!(!b.pool.is_forgettable(b.now));
    b.expect(&[Connect(0)]);
    b.fail(0);
    b.expect(&[Connect(1)]);
    b.fail(1);
    b.expect(&[Fail(vec![0])]);
    assert!(!b.pool.is_forgettable(b.now));
    assert!(b.pool.is_forgettable(b.now + FIRST_PAUSE));
}

mod model;
mod rails;

/// A peer that answers each hello and then ends the connection before a request is on it: attempts
/// are paused as failed ones are, and what waits is failed after a few of them.
#[test]
fn connections_lost_unused_pause_and_end_the_round() {
    let mut b = bench(1);
    b.push(2);
    let fault = || SliceFault::new(FaultClass::Peer, Phase::Handshake, "lost unused");
    for attempt in 1..UNUSED {
        b.expect(&[Connect(0)]);
        b.pool.on_greeted(0, 8);
        b.pool.on_greeted_lost(b.now, 0, fault());
        b.expect(&[]);
        let pause = FIRST_PAUSE * (1 << (attempt - 1));
        assert_eq!(b.pool.deadline(), Some(b.now + pause));
        b.later(pause);
    }
    b.expect(&[Connect(0)]);
    b.pool.on_greeted(0, 8);
    b.pool.on_greeted_lost(b.now, 0, fault());
    b.expect(&[Fail(vec![0, 1])]);
    // What comes next finds the lane paused, for longer.
    b.push(1);
    b.expect(&[]);
    assert_eq!(b.pool.deadline(), Some(b.now + FIRST_PAUSE * 4));
}

/// A connection that carried a request costs no pause when it goes; only an answer to a request
/// makes the lane good again.
#[test]
fn fault09_a_greeted_connection_that_was_used_costs_no_pause() {
    let mut b = bench(1);
    let fault = || SliceFault::new(FaultClass::Peer, Phase::Handshake, "lost unused");
    b.push(1);
    b.expect(&[Connect(0)]);
    b.pool.on_greeted(0, 8);
    b.pool.on_greeted_lost(b.now, 0, fault());
    b.later(FIRST_PAUSE);
    b.expect(&[Connect(0)]);
    b.pool.on_greeted(0, 8);
    b.expect(&[Start(0, 0)]);
    b.pool.on_used(0);
    b.pool.on_finished(0, true);
    b.pool.on_greeted_lost(b.now, 0, fault());
    b.push(1);
    b.expect(&[Connect(0)]);
    b.fail(0);
    b.expect(&[Fail(vec![1])]);
    b.push(1);
    assert_eq!(b.pool.deadline(), Some(b.now + FIRST_PAUSE * 2), "the failure before still counts");
    b.later(FIRST_PAUSE * 2);
    b.expect(&[Connect(0)]);
    b.pool.on_greeted(0, 8);
    b.expect(&[Start(0, 2)]);
    b.pool.on_used(0);
    b.pool.on_proven(b.now, 0);
    b.pool.on_greeted_lost(b.now, 0, fault());
    b.push(1);
    b.expect(&[Connect(0)]);
    b.fail(0);
    b.push(1);
    b.expect(&[Fail(vec![3])]);
    b.push(1);
    assert_eq!(b.pool.deadline(), Some(b.now + FIRST_PAUSE), "forgotten");
}

/// Attempts of one round share its time; a round that is over makes way for another.
#[test]
fn a_round_bounds_its_attempts_and_ends() {
    let mut b = bench(2);
    assert_eq!(b.pool.round_ends(), None);
    b.push(2);
    b.expect(&[Connect(0)]);
    let end = b.now + ROUND;
    b.later(ROUND - Duration::from_secs(1));
    b.fail(0);
    b.expect(&[Connect(1)]);
    assert_eq!(b.pool.round_ends(), Some(end), "the second attempt has the rest of it");
    b.pool.on_connected(b.now, 1, 1);
    b.later(FIRST_PAUSE);
    b.expect(&[Start(1, 0), Connect(0)]);
    assert_eq!(b.pool.round_ends(), Some(b.now + ROUND));
    b.later(ROUND);
    b.fail(0);
    b.later(MAX_PAUSE);
    b.expect(&[Connect(0)]);
    assert_eq!(b.pool.round_ends(), Some(b.now + ROUND), "another round");
}
