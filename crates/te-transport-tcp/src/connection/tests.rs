//! The target's machine, fed by hand.
#![expect(clippy::disallowed_methods, reason = "any instant will do as a start")]

use te_segment::{AlignedBuffer, LocalBuffer, Region, RegisterOptions, RemoteAccess};

use super::*;
use crate::pump::harness::{feed, take};

const LEN: usize = 4096;
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(30);

struct Bench {
    machine: Connection,
    segment: Arc<LocalSegment>,
    buffer: Arc<LocalBuffer>,
    counters: Arc<Counters>,
    now: Instant,
}

fn bench() -> Bench {
    bench_with(RemoteAccess::ReadWrite)
}

fn bench_with(remote: RemoteAccess) -> Bench {
    let segment = Arc::new(LocalSegment::new());
    let region = Region::from(AlignedBuffer::zeroed(LEN).unwrap());
    let options = RegisterOptions { remote, ..RegisterOptions::default() };
    let buffer = segment.register(&region, options).unwrap();
    let counters = Arc::new(Counters::default());
    let service = Service {
        segment: Arc::clone(&segment),
        counters: Arc::clone(&counters),
        chunk: 1000,
        header_timeout: HEADER_TIMEOUT,
        progress_timeout: PROGRESS_TIMEOUT,
        incarnation: Incarnation::from_u128(1),
        credit: 0,
    };
    let now = Instant::now();
    let machine = Connection::new(now, Arc::new(service));
    Bench { machine, segment, buffer, counters, now }
}

impl Bench {
    fn at(&self, offset: u64) -> u64 {
        self.buffer.region().address() + offset
    }

    fn request(&mut self, version: Version, op: Opcode, address: u64, size: u64) {
        let header = Header { version, op, address, size }.encode();
        assert_eq!(feed(&mut self.machine, self.now, &header), HEADER_BYTES);
    }

    fn feed(&mut self, bytes: &[u8]) -> usize {
        feed(&mut self.machine, self.now, bytes)
    }

    fn take(&mut self) -> Vec<u8> {
        take(&mut self.machine, self.now)
    }

    fn memory(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.buffer.region().read_into(offset, &mut bytes).unwrap();
        bytes
    }

    fn is_idle(&self) -> bool {
        matches!(self.machine.state, State::Header { filled: 0, .. })
    }
}

const OK: [u8; 8] = [0, 0, 0, 0, 0x56, 0x54, 0x43, 0x4d];
const REFUSED: [u8; 8] = [1, 0, 0, 0, 0x56, 0x54, 0x43, 0x4d];

/// F6: the status of a write leaves after its last byte is stored, not before.
#[test]
fn a_v2_write_is_stored_and_then_confirmed() {
    let mut b = bench();
    let body = vec![7; 2500];
    b.request(Version::V2, Opcode::Write, b.at(10), 2500);
    assert_eq!(b.feed(&body[..2499]), 2499);
    assert!(b.take().is_empty(), "nothing is confirmed before the last byte");
    b.feed(&body[2499..]);
    assert_eq!(b.memory(10, 2500), body);
    assert_eq!(b.take(), OK);
    assert!(b.is_idle());
    assert_eq!(b.counters.snapshot().served, 1);
}

/// F6, F8: v1 writes are not answered, and requests follow each other on one connection.
#[test]
fn v1_requests_follow_each_other_on_one_connection() {
    let mut b = bench();
    b.request(Version::V1, Opcode::Write, b.at(0), 5);
    b.feed(b"hello");
    assert!(b.take().is_empty() && b.is_idle());
    b.request(Version::V1, Opcode::Read, b.at(1), 3);
    assert_eq!(b.take(), b"ell");
    b.request(Version::V2, Opcode::Read, b.at(0), 5);
    let answer = b.take();
    assert_eq!((&answer[..8], &answer[8..]), (&OK[..], &b"hello"[..]));
    assert!(b.is_idle());
    assert_eq!(b.counters.snapshot().served, 3);
}

/// J50, FB32, peer fault 23: each range that is not wholly inside one buffer is refused and the
/// connection serves the next request.
#[test]
fn j50_fb32_fault23_a_range_outside_is_refused_and_the_connection_goes_on() {
    let len = LEN as u64;
    let mut b = bench();
    let start = b.at(0);
    let cases = [
        (start, 0),
        (start - 1, 1),
        (start - 1, 2),
        (start + len, 1),
        (start + len - 1, 2),
        (start, len + 1),
        (start, u64::MAX),
        (u64::MAX - 4095, 8192),
        (0, 8),
        (start, 1 << 63),
    ];
    for (address, size) in cases {
        b.request(Version::V2, Opcode::Read, address, size);
        assert_eq!(b.take(), REFUSED, "{address:#x}+{size}");
        assert!(b.is_idle(), "{address:#x}+{size}");
    }
    for (offset, size) in [(0, len), (0, 1), (len - 1, 1), (5, 10)] {
        b.request(Version::V2, Opcode::Read, b.at(offset), size);
        assert_eq!(b.take().len() as u64, 8 + size, "{offset}+{size}");
    }
    assert_eq!(b.counters.snapshot().refusals, cases.len() as u64);
}

/// Registered for reading only, and for nothing.
#[test]
fn fb32_a_right_that_was_not_given_is_refused() {
    for (remote, read, write) in [
        (RemoteAccess::None, false, false),
        (RemoteAccess::Read, true, false),
        (RemoteAccess::ReadWrite, true, true),
    ] {
        let mut b = bench_with(remote);
        b.request(Version::V2, Opcode::Read, b.at(0), 4);
        let answer = b.take();
        assert_eq!(answer[..8] == OK, read, "{remote:?}");
        b.request(Version::V2, Opcode::Write, b.at(0), 4);
        let mut answer = b.take();
        assert_eq!(b.feed(b"evil"), 4, "{remote:?}");
        answer.extend(b.take());
        assert_eq!(answer == OK, write, "{remote:?}");
        assert_eq!(b.memory(0, 4) == b"evil", write, "{remote:?}");
        assert!(b.is_idle());
    }
}

/// J52: a small refused write is read to its end; what follows is the next request.
#[test]
fn j52_a_small_refused_write_leaves_a_usable_connection() {
    let mut b = bench();
    b.request(Version::V2, Opcode::Write, b.at(1), LEN as u64);
    assert_eq!(b.take(), REFUSED);
    assert_eq!(b.feed(&vec![9; LEN]), LEN);
    assert!(b.is_idle());
    assert_eq!(b.memory(0, LEN), vec![0; LEN]);
    b.request(Version::V2, Opcode::Read, b.at(0), 1);
    assert_eq!(b.take()[..8], OK);
}

/// A large refused body is not worth reading: the status goes out, then this side's end.
#[test]
fn a_large_refused_write_is_answered_and_lingers_for_a_bounded_time() {
    let mut b = bench();
    b.request(Version::V2, Opcode::Write, b.at(0), 1 << 40);
    assert_eq!(b.take(), REFUSED);
    assert!(b.machine.take_half_close() && !b.machine.take_half_close());
    assert_eq!(b.feed(&vec![9; 100_000]), 100_000);
    let end = b.machine.deadline().unwrap();
    assert_eq!(end, b.now + LINGER, "bytes that arrive do not prolong it");
    b.machine.handle_timeout(end);
    assert!(b.machine.is_over());
}

/// The body of a refused write is read to its end within a bounded time, however it drips.
#[test]
fn k15_draining_has_an_absolute_deadline() {
    let mut b = bench();
    b.request(Version::V2, Opcode::Write, b.at(1), LEN as u64);
    assert_eq!(b.take(), REFUSED);
    let end = b.machine.deadline().unwrap();
    assert_eq!(end, b.now + LINGER);
    b.now += LINGER / 2;
    b.feed(&[0]);
    assert_eq!(b.machine.deadline(), Some(end), "bytes that arrive do not prolong it");
    b.machine.handle_timeout(end);
    assert!(b.machine.is_over());
    assert_eq!(b.counters.snapshot().inbound_timeouts, 1);
}

/// A connection that never served a request, or takes what nobody wants, makes room first; one that
/// serves does not.
#[test]
fn k15_only_requests_that_may_be_served_keep_a_connection() {
    let mut b = bench();
    assert_eq!(b.machine.use_of_it(), Use::Nothing, "it has served nothing");
    b.feed(&[0; 10]);
    assert_eq!(b.machine.use_of_it(), Use::Nothing, "half a header");
    let mut b = bench();
    b.request(Version::V2, Opcode::Read, 1, 1);
    assert_eq!(b.machine.use_of_it(), Use::Nothing, "a refusal proves nothing");
    b.take();
    b.request(Version::V2, Opcode::Write, b.at(0), 2);
    assert_eq!(b.machine.use_of_it(), Use::Works);
    b.feed(b"ab");
    b.take();
    assert_eq!(b.machine.use_of_it(), Use::Idle(b.now));
    b.request(Version::V2, Opcode::Write, 1, 2);
    b.take();
    assert_eq!(b.machine.use_of_it(), Use::Nothing, "its bytes are dropped");
    b.feed(b"ab");
    assert_eq!(b.machine.use_of_it(), Use::Idle(b.now));
    b.request(Version::V2, Opcode::Write, 1, 1 << 40);
    b.take();
    assert_eq!(b.machine.use_of_it(), Use::Nothing, "it lingers");
}

/// F4: v1 has no way to say no but to close.
#[test]
fn a_refused_v1_request_closes() {
    for op in [Opcode::Read, Opcode::Write] {
        let mut b = bench();
        b.request(Version::V1, op, b.at(LEN as u64), 1);
        assert!(b.machine.is_over() && b.take().is_empty());
    }
}

/// Peer fault 33.
#[test]
fn fault33_an_unknown_opcode_closes_and_is_counted() {
    let mut b = bench();
    let header = Header { version: Version::V2, op: Opcode::Read, address: b.at(0), size: 1 };
    let mut bytes = header.encode();
    bytes[16] = 0x82;
    b.feed(&bytes);
    assert!(b.machine.is_over() && b.take().is_empty());
    assert_eq!(b.counters.snapshot().bad_opcodes, 1);
}

/// K4, peer fault 4: between two chunks a buffer that is going away ends the connection.
#[test]
fn fault04_a_revoked_guard_stops_the_transfer_before_the_next_byte() {
    for op in [Opcode::Read, Opcode::Write] {
        let mut b = bench();
        b.request(Version::V2, op, b.at(0), LEN as u64);
        if op == Opcode::Write {
            assert_eq!(b.feed(&[1; 100]), 100);
        }
        assert!(b.machine.holds(b.buffer.id()));
        let segment = Arc::clone(&b.segment);
        let retiring = segment.retire(b.at(0)).unwrap().unwrap();
        assert_eq!((b.feed(&[2; 100]), b.take().len()), (0, 0), "{op:?}");
        assert!(b.machine.is_over());
        retiring.finish(Duration::ZERO).unwrap();
        assert_eq!(b.counters.snapshot().revoked, 1);
    }
}

/// Peer fault 6: half a header and half a body have deadlines; an idle connection has none.
#[test]
fn fault06_half_a_header_and_half_a_body_end_in_time() {
    let mut b = bench();
    assert_eq!(b.machine.deadline(), None, "idle");
    let header =
        Header { version: Version::V2, op: Opcode::Write, address: b.at(0), size: 100 }.encode();
    b.feed(&header[..1]);
    let due = b.now + HEADER_TIMEOUT;
    assert_eq!(b.machine.deadline(), Some(due));
    b.now += Duration::from_secs(9);
    b.feed(&header[1..2]);
    assert_eq!(b.machine.deadline(), Some(due), "a drip does not prolong it");
    b.feed(&header[2..]);
    b.now += Duration::from_secs(5);
    b.feed(&[0; 50]);
    let due = b.now + PROGRESS_TIMEOUT;
    assert_eq!(b.machine.deadline(), Some(due), "progress prolongs");
    b.machine.handle_timeout(due - Duration::from_millis(1));
    assert!(!b.machine.is_over());
    b.machine.handle_timeout(due);
    assert!(b.machine.is_over());
    assert_eq!(b.counters.snapshot().inbound_timeouts, 1);
    assert_eq!(b.buffer.in_flight(), 0, "the guard is gone");
}

/// Peer fault 29: memory that its owner unmapped fails this request and no other.
#[test]
fn fault29_unmapped_memory_fails_only_its_request() {
    let fault = || io::Error::from_raw_os_error(libc::EFAULT);
    let mut b = bench();
    b.request(Version::V2, Opcode::Write, b.at(0), 100);
    b.feed(&[1; 60]);
    b.machine.on_error(b.now, Side::Receive, fault());
    assert_eq!(b.take(), REFUSED);
    assert_eq!(b.feed(&[1; 40]), 40);
    assert!(b.is_idle());
    b.request(Version::V2, Opcode::Read, b.at(0), 100);
    b.machine.on_error(b.now, Side::Send, fault());
    assert_eq!(b.take(), REFUSED);
    assert!(b.is_idle());
}

/// The end of the stream is normal between requests (F8) and ends anything else too.
#[test]
fn the_end_of_the_stream_ends_the_connection_in_every_state() {
    let ends = |prepare: &dyn Fn(&mut Bench)| {
        let mut b = bench();
        prepare(&mut b);
        b.machine.on_end(b.now);
        b.machine.is_over() && b.buffer.in_flight() == 0
    };
    assert!(ends(&|_| {}));
    assert!(ends(&|b| b.request(Version::V2, Opcode::Write, b.at(0), 9)));
    assert!(ends(&|b| b.request(Version::V2, Opcode::Read, b.at(0), 9)));
}

mod fuzz {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Any header: no panic, and only an open range moves memory.
        #[test]
        fn fb32_any_header_is_served_refused_or_closed(
            address in prop_oneof![any::<u64>(), Just(u64::MAX), Just(0)],
            near in any::<i16>(),
            use_near in any::<bool>(),
            size in prop_oneof![any::<u64>(), 0u64..10_000],
            opcode in any::<u8>(),
            cut in 0usize..24,
        ) {
            let mut b = bench();
            let address = if use_near { b.at(0).wrapping_add_signed(near.into()) } else { address };
            let header = Header { version: Version::V2, op: Opcode::Read, address, size };
            let mut bytes = header.encode();
            bytes[16] = opcode;
            b.feed(&bytes[..cut]);
            b.feed(&bytes[cut..]);
            let inside = size > 0 && address >= b.at(0)
                && address.checked_add(size).is_some_and(|end| end <= b.at(LEN as u64));
            let known = [0, 1, 0x80, 0x81].contains(&opcode);
            prop_assert_eq!(b.machine.holds(b.buffer.id()), inside && known);
            let out = b.take();
            if !known {
                prop_assert!(out.is_empty() && b.machine.is_over());
            } else if !inside {
                prop_assert_eq!(out, if opcode >= 0x80 { REFUSED.to_vec() } else { Vec::new() });
            }
        }
    }
}
