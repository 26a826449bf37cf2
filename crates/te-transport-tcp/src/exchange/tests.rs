//! The initiator's machine, fed by hand and joined to the target's.
#![expect(clippy::disallowed_methods, reason = "any instant will do as a start")]

use std::sync::Arc;

use te_metadata::{HostPort, Incarnation, SegmentDescriptor, SegmentName, TcpEndpoint, TeObject};
use te_segment::{
    AlignedBuffer, LocalSegment, Region, RegisterOptions, RemoteRange, RemoteSegment, SegmentId,
    Slice, SliceToken,
};

use super::*;
use crate::connection::{Connection, Service, Use};
use crate::io::Acked;
use crate::pump::harness::{feed, take, take_once};

const STATUS: Duration = Duration::from_secs(3);
const PROGRESS: Duration = Duration::from_secs(8);

fn peer() -> Arc<RemoteSegment> {
    peer_of(None)
}

fn te_peer() -> Arc<RemoteSegment> {
    peer_of(Some(TeObject::new(Incarnation::from_u128(1))))
}

fn peer_of(te: Option<TeObject>) -> Arc<RemoteSegment> {
    let tcp = SegmentDescriptor::tcp("peer", TcpEndpoint::default(), Vec::new());
    let descriptor = SegmentDescriptor { te, ..tcp };
    let name = SegmentName::parse("peer").unwrap();
    let rpc = HostPort::new("localhost", Some(1)).unwrap();
    Arc::new(RemoteSegment::new(SegmentId::from_u64(1), name, rpc, descriptor, 1))
}

pub(crate) fn job(op: Opcode, version: Version, region: &Region, at: u64) -> Job {
    let remote = RemoteRange::new(at, region.len()).unwrap();
    let token = SliceToken::new(1, 1);
    let local = region.whole();
    let slice = Slice { token, op, local, remote, peer: peer(), attempt: 0, checked: false };
    Job::new(slice, version, None)
}

fn memory(bytes: &[u8]) -> Region {
    let region = Region::from(AlignedBuffer::zeroed(bytes.len()).unwrap());
    region.write_from(0, bytes).unwrap();
    region
}

fn bytes_of(region: &Region) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(region.len()).unwrap()];
    region.read_into(0, &mut bytes).unwrap();
    bytes
}

struct Bench {
    machine: Exchange,
    now: Instant,
}

fn bench(op: Opcode, version: Version, region: &Region) -> Bench {
    let now = Instant::now();
    let address = SocketAddr::from(([127, 0, 0, 1], 9));
    let bounds = Bounds { chunk: 100, status_timeout: STATUS, progress_timeout: PROGRESS };
    Bench { machine: Exchange::new(now, job(op, version, region, 0x1000), address, bounds), now }
}

impl Bench {
    fn feed(&mut self, bytes: &[u8]) -> usize {
        feed(&mut self.machine, self.now, bytes)
    }

    fn take(&mut self) -> Vec<u8> {
        take(&mut self.machine, self.now)
    }

    /// Class and phase of the fault, or `None` for success; what is known of the peer; the fate of
    /// the connection.
    fn end(&mut self) -> (Option<(FaultClass, Phase)>, RemoteSide, Fate) {
        let ending = self.machine.take_ending().expect("it has ended");
        assert!(self.machine.take_ending().is_none(), "an ending is given once");
        let fault = ending.result.err().map(|fault| (fault.class, fault.phase));
        (fault, ending.remote, self.machine.fate().expect("it has ended"))
    }

    fn runs(&mut self) -> bool {
        self.machine.take_ending().is_none() && self.machine.fate().is_none()
    }
}

const OK: [u8; 8] = [0, 0, 0, 0, 0x56, 0x54, 0x43, 0x4d];
const REFUSED: [u8; 8] = [1, 0, 0, 0, 0x56, 0x54, 0x43, 0x4d];

/// FB05, F45: a write is done when its status came, not when its bytes were sent.
#[test]
fn fb05_a_v2_write_ends_with_its_status() {
    let region = memory(&[7; 250]);
    let mut b = bench(Opcode::Write, Version::V2, &region);
    let out = b.take();
    assert_eq!((out.len(), &out[24..]), (274, &[7; 250][..]));
    assert!(b.runs(), "sent is not done");
    b.feed(&OK[..7]);
    assert!(b.runs());
    b.feed(&OK[7..]);
    assert_eq!(b.end(), (None, RemoteSide::Settled, Fate::Keep));
}

/// F12: a confirmation that overtakes the payload is remembered.
#[test]
fn f12_an_early_ok_counts_when_the_payload_is_out() {
    let region = memory(&[7; 250]);
    let mut b = bench(Opcode::Write, Version::V2, &region);
    take_once(&mut b.machine, b.now, 30);
    b.feed(&OK);
    assert!(b.runs());
    b.take();
    assert_eq!(b.end(), (None, RemoteSide::Settled, Fate::Keep));
}

/// J53: after an early refusal nothing more is taken from the source.
#[test]
fn j53_an_early_refusal_stops_reading_the_source() {
    let region = memory(&[7; 250]);
    let mut b = bench(Opcode::Write, Version::V2, &region);
    take_once(&mut b.machine, b.now, 30);
    b.feed(&REFUSED);
    assert!(b.take().is_empty());
    let refused = Some((FaultClass::Refused, Phase::Payload));
    assert_eq!(b.end(), (refused, RemoteSide::Settled, Fate::Reset));
}

/// J52, J54: a refusal after the whole request leaves a usable connection where the peer keeps it;
/// a Mooncake peer closes it (peer fault 10).
#[test]
fn j52_j54_a_refusal_after_the_whole_request_keeps_the_connection_of_a_te_peer() {
    for op in [Opcode::Write, Opcode::Read] {
        for (te, fate) in [(true, Fate::Keep), (false, Fate::Close)] {
            let region = memory(&[7; 250]);
            let mut b = bench(op, Version::V2, &region);
            if te {
                b.machine.job.slice.peer = te_peer();
            }
            b.take();
            b.feed(&REFUSED);
            let refused = Some((FaultClass::Refused, Phase::Status));
            assert_eq!(b.end(), (refused, RemoteSide::Settled, fate), "{op:?} {te}");
        }
    }
}

/// F13, J56: a peer that published v2 and answers like v1.
#[test]
fn f13_an_answer_without_a_status_is_a_protocol_fault() {
    for (op, remote) in [(Opcode::Write, RemoteSide::InDoubt), (Opcode::Read, RemoteSide::Settled)]
    {
        let region = memory(&[7; 250]);
        let mut b = bench(op, Version::V2, &region);
        b.take();
        b.feed(b"payload.");
        let protocol = Some((FaultClass::Protocol, Phase::Status));
        assert_eq!(b.end(), (protocol, remote, Fate::Reset));
    }
}

/// J54: status, then payload.
#[test]
fn j54_a_v2_read_takes_status_and_payload() {
    let region = memory(&[0; 250]);
    let mut b = bench(Opcode::Read, Version::V2, &region);
    assert_eq!(b.take().len(), 24);
    let answer = [&OK[..], &[9; 250]].concat();
    assert_eq!(b.feed(&answer[..100]), 100);
    assert!(b.runs());
    assert_eq!(b.feed(&answer[100..]), 158);
    assert_eq!(bytes_of(&region), [9; 250]);
    assert_eq!(b.end(), (None, RemoteSide::Settled, Fate::Keep));
}

#[test]
fn a_v1_read_takes_payload_at_once() {
    let region = memory(&[0; 3]);
    let mut b = bench(Opcode::Read, Version::V1, &region);
    assert_eq!(b.take()[16], 0);
    b.feed(b"abc");
    assert_eq!(bytes_of(&region), b"abc");
    assert_eq!(b.end(), (None, RemoteSide::Settled, Fate::Keep));
}

/// Peer fault 5: a v1 write is done when a read that follows it is answered.
#[test]
fn fault05_a_v1_write_is_proved_by_a_read_of_its_last_byte() {
    let region = memory(&[7; 250]);
    let mut b = bench(Opcode::Write, Version::V1, &region);
    let out = b.take();
    assert_eq!(out.len(), 24 + 250 + 24);
    let proof = Header::decode(out[274..].try_into().unwrap()).unwrap();
    let last = Header { version: Version::V1, op: Opcode::Read, address: 0x1000 + 249, size: 1 };
    assert_eq!(proof, last);
    assert!(b.runs(), "sent is not done");
    b.feed(&[7]);
    assert_eq!(b.end(), (None, RemoteSide::Settled, Fate::Keep));

    let mut b = bench(Opcode::Write, Version::V1, &region);
    b.take();
    b.machine.on_end(b.now);
    let rail = Some((FaultClass::Rail, Phase::Status));
    assert_eq!(b.end(), (rail, RemoteSide::InDoubt, Fate::Reset));
}

/// The header, the payload and the proof of a small v1 write leave in one call, a chunk at a time
/// otherwise.
#[test]
fn frames_and_payload_leave_together_where_they_fit() {
    let small = memory(&[7; 50]);
    let mut b = bench(Opcode::Write, Version::V1, &small);
    assert_eq!(take_once(&mut b.machine, b.now, 1000).len(), 98);
    let large = memory(&[7; 250]);
    let mut b = bench(Opcode::Write, Version::V1, &large);
    let calls: Vec<_> = (0..4).map(|_| take_once(&mut b.machine, b.now, 1000).len()).collect();
    assert_eq!(calls, [124, 100, 74, 0]);
}

/// What is known of the peer when the connection breaks, by what was sent.
#[test]
fn a_broken_connection_tells_what_may_have_reached_the_peer() {
    let cases = [
        (Opcode::Write, 0, RemoteSide::Untouched, Phase::Request),
        (Opcode::Write, 1, RemoteSide::InDoubt, Phase::Request),
        (Opcode::Write, 100, RemoteSide::InDoubt, Phase::Payload),
        (Opcode::Write, 274, RemoteSide::InDoubt, Phase::Status),
        (Opcode::Read, 0, RemoteSide::Untouched, Phase::Request),
        (Opcode::Read, 24, RemoteSide::Settled, Phase::Status),
    ];
    for (op, sent, remote, phase) in cases {
        let region = memory(&[7; 250]);
        let mut b = bench(op, Version::V2, &region);
        let mut left = sent;
        while left > 0 {
            left -= take_once(&mut b.machine, b.now, left).len();
        }
        b.machine.on_error(b.now, Side::Receive, io::Error::from_raw_os_error(libc::ECONNRESET));
        let ending = b.machine.take_ending().unwrap();
        let fault = ending.result.unwrap_err();
        assert_eq!((fault.class, fault.phase, ending.remote), (FaultClass::Rail, phase, remote));
        assert_eq!(fault.errno, Some(libc::ECONNRESET));
        assert_eq!(ending.lost, Some(Loss::Broken), "a fresh connection may do better");
    }
}

/// A peer that refuses and closes may reset the connection under our sending; its status counts.
#[test]
fn a_failed_send_waits_for_what_the_peer_said_before() {
    let region = memory(&[7; 250]);
    let mut b = bench(Opcode::Write, Version::V2, &region);
    take_once(&mut b.machine, b.now, 50);
    b.machine.on_error(b.now, Side::Send, io::Error::from_raw_os_error(libc::EPIPE));
    assert!(b.runs() && b.take().is_empty());
    b.feed(&REFUSED);
    assert_eq!(b.end().0, Some((FaultClass::Refused, Phase::Payload)));

    let mut b = bench(Opcode::Write, Version::V2, &region);
    take_once(&mut b.machine, b.now, 50);
    b.machine.on_error(b.now, Side::Send, io::Error::from_raw_os_error(libc::EPIPE));
    b.machine.on_end(b.now);
    let ending = b.machine.take_ending().unwrap();
    assert_eq!(ending.result.unwrap_err().errno, Some(libc::EPIPE), "the first cause is told");
    assert_eq!(ending.lost, Some(Loss::Ended));

    let mut b = bench(Opcode::Write, Version::V2, &region);
    take_once(&mut b.machine, b.now, 50);
    b.machine.on_error(b.now, Side::Send, io::Error::from_raw_os_error(libc::ECONNRESET));
    b.machine.on_end(b.now);
    let ending = b.machine.take_ending().unwrap();
    assert_eq!(ending.lost, Some(Loss::Broken), "an end after a reset tells nothing");
}

/// FB13, peer fault 28: local memory that is gone fails the request with its cause.
#[test]
fn fb13_fault28_unmapped_local_memory_is_a_local_fault() {
    let fault = || io::Error::from_raw_os_error(libc::EFAULT);
    let region = memory(&[7; 250]);
    let mut b = bench(Opcode::Write, Version::V2, &region);
    b.machine.on_error(b.now, Side::Send, fault());
    let local = Some((FaultClass::Local, Phase::Request));
    assert_eq!(b.end(), (local, RemoteSide::Untouched, Fate::Keep));

    let mut b = bench(Opcode::Write, Version::V2, &region);
    take_once(&mut b.machine, b.now, 124);
    b.machine.on_error(b.now, Side::Send, fault());
    let local = Some((FaultClass::Local, Phase::Payload));
    assert_eq!(b.end(), (local, RemoteSide::InDoubt, Fate::Reset));

    let mut b = bench(Opcode::Read, Version::V2, &region);
    b.take();
    b.feed(&OK);
    b.machine.on_error(b.now, Side::Receive, fault());
    assert_eq!(b.end(), (local, RemoteSide::Settled, Fate::Reset));
}

/// FB04: any progress prolongs, also bytes that only the peer's kernel took; silence ends.
#[test]
fn fb04_progress_prolongs_and_silence_ends() {
    let region = memory(&[7; 250]);
    let mut b = bench(Opcode::Write, Version::V2, &region);
    take_once(&mut b.machine, b.now, 124);
    b.now += PROGRESS - Duration::from_millis(1);
    take_once(&mut b.machine, b.now, 100);
    let acked = |ago| Some(Acked { bytes: 60, ago });
    let second = Duration::from_secs(1);
    let due = b.now + PROGRESS;
    b.machine.handle_timeout(due, acked(second));
    let due = due + PROGRESS - second;
    b.machine.handle_timeout(due - Duration::from_millis(1), acked(Duration::ZERO));
    assert_eq!(b.machine.fate(), None, "the kernel took bytes a second before the first look");
    assert_eq!(b.machine.deadline(), Some(due));
    b.machine.handle_timeout(due, acked(Duration::ZERO));
    let stalled = Some((FaultClass::Peer, Phase::Payload));
    assert_eq!(b.end(), (stalled, RemoteSide::InDoubt, Fate::Reset));
}

/// F14, H87: the status deadline runs from the end of the request.
#[test]
fn f14_the_status_deadline_runs_from_the_end_of_the_request() {
    for (op, remote) in [(Opcode::Write, RemoteSide::InDoubt), (Opcode::Read, RemoteSide::Settled)]
    {
        let region = memory(&[7; 250]);
        let mut b = bench(op, Version::V2, &region);
        b.now += Duration::from_secs(1);
        b.take();
        b.now += Duration::from_secs(1);
        b.feed(&OK[..3]);
        let due = b.now + STATUS - Duration::from_secs(1);
        b.machine.handle_timeout(due - Duration::from_millis(1), None);
        assert_eq!(b.machine.deadline(), Some(due), "part of a status is no progress");
        b.machine.handle_timeout(due, None);
        let silent = Some((FaultClass::Peer, Phase::Status));
        assert_eq!(b.end(), (silent, remote, Fate::Reset));
        assert_eq!(b.machine.deadline(), None);
    }
}

#[test]
fn a_call_back_ends_with_what_was_sent() {
    for (sent, remote) in [(0, RemoteSide::Untouched), (40, RemoteSide::InDoubt)] {
        let region = memory(&[7; 250]);
        let mut b = bench(Opcode::Write, Version::V2, &region);
        take_once(&mut b.machine, b.now, sent);
        b.machine.abort(FaultClass::Cancelled, "called back");
        assert!(b.take().is_empty() && b.feed(&OK) == 0, "nothing moves any more");
        let (fault, told, fate) = b.end();
        assert_eq!(fault.unwrap().0, FaultClass::Cancelled);
        assert_eq!((told, fate), (remote, Fate::Reset));
    }
}

mod joined {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::Counters;

    /// Passes bytes between the two machines in pieces of the given sizes until the exchange ends.
    fn join(ours: &mut Exchange, theirs: &mut Connection, now: Instant, sizes: &[usize]) {
        let mut sizes = sizes.iter().copied().cycle();
        for _ in 0..10_000 {
            let size = sizes.next().unwrap();
            let sent = take_once(ours, now, size);
            assert_eq!(feed(theirs, now, &sent), sent.len());
            let answered = take_once(theirs, now, size);
            assert_eq!(feed(ours, now, &answered), answered.len());
            if ours.is_over() {
                return;
            }
        }
        panic!("no end");
    }

    proptest! {
        /// Both versions and directions, cut anywhere: the bytes arrive and both ends agree.
        #[test]
        fn fb14_any_cut_of_the_stream_moves_the_same_bytes(
            len in 1usize..600,
            write in any::<bool>(),
            v2 in any::<bool>(),
            sizes in prop::collection::vec(1usize..40, 1..8),
        ) {
            let op = if write { Opcode::Write } else { Opcode::Read };
            let version = if v2 { Version::V2 } else { Version::V1 };
            let local = memory(&vec![3; len]);
            let remote = memory(&vec![4; len]);
            let segment = Arc::new(LocalSegment::new());
            segment.register(&remote, RegisterOptions::default()).unwrap();
            let service = Arc::new(Service {
                segment, counters: Arc::new(Counters::default()), chunk: 64,
                header_timeout: PROGRESS, progress_timeout: PROGRESS,
                incarnation: Incarnation::from_u128(1),
                credit: 0,
            });
            let now = Instant::now();
            let bounds = Bounds { chunk: 64, status_timeout: STATUS, progress_timeout: PROGRESS };
            let address = SocketAddr::from(([127, 0, 0, 1], 9));
            let job = job(op, version, &local, remote.address());
            let mut ours = Exchange::new(now, job, address, bounds);
            let mut theirs = Connection::new(now, service);
            join(&mut ours, &mut theirs, now, &sizes);
            let ending = ours.take_ending().unwrap();
            prop_assert_eq!((ending.result, ending.remote), (Ok(()), RemoteSide::Settled));
            prop_assert_eq!(ours.fate(), Some(Fate::Keep));
            let (from, to) = if write { (&local, &remote) } else { (&remote, &local) };
            prop_assert_eq!(bytes_of(from), bytes_of(to));
            prop_assert!(matches!(theirs.use_of_it(), Use::Idle(_)));
        }
    }
}
