//! Requests that do not end well: cancels, deadlines, lost connections, broken protocol.

use super::*;

const CANCELLED: Option<FaultClass> = Some(FaultClass::Cancelled);
const RAIL: Option<FaultClass> = Some(FaultClass::Rail);
const PEER_GONE: Option<FaultClass> = Some(FaultClass::Peer);

#[test]
fn what_was_not_sent_is_called_back_at_once() {
    let mut b = bench();
    let large = region(&vec![1; 2 << 20]);
    b.push(Opcode::Write, &large);
    b.push(Opcode::Write, &large);
    take_once(&mut b.machine, b.now, 100);
    b.cancel(&[2, 77]);
    assert_eq!(b.ended(), [(2, CANCELLED, RemoteSide::Untouched)]);
    take(&mut b.machine, b.now);
    b.status(1, Code::Done);
    assert_eq!(b.ended(), [(1, None, SETTLED)]);
}

/// A cancel lets the frame that is on its way end, sends no more data, and waits for the status.
#[test]
fn j46_a_cancel_ends_with_the_peers_confirmation() {
    let mut b = bench();
    b.push(Opcode::Write, &region(&vec![7; 3 << 20]));
    b.push(Opcode::Read, &region(&[0; 4]));
    take_once(&mut b.machine, b.now, 1000);
    b.cancel(&[1]);
    assert!(b.ended().is_empty(), "not before it is confirmed");
    let rest = take(&mut b.machine, b.now);
    let body = (1 << 20) + 72 - 1000;
    assert!(rest[..body].iter().all(|byte| *byte == 7));
    let sent = frames(&rest[body..]);
    assert!(matches!(sent[..], [Sent::Cancel(1), Sent::Request(2, _)]), "{sent:?}");
    assert_eq!(b.machine.deadline(), Some(b.now + CANCEL));
    b.cancel(&[1]);
    assert!(b.sent().is_empty(), "asked once");
    b.status(1, Code::Cancelled);
    assert_eq!(b.ended(), [(1, CANCELLED, SETTLED)]);
    assert_eq!(b.machine.take_confirmed_cancels(), 1);
}

#[test]
fn a_cancel_that_came_too_late_leaves_the_request_as_it_ended() {
    let mut b = bench();
    b.push(Opcode::Write, &region(b"abc"));
    b.sent();
    b.cancel(&[1]);
    b.status(1, Code::Done);
    assert_eq!(b.ended(), [(1, None, SETTLED)]);
    b.push(Opcode::Read, &region(b"abc"));
    b.sent();
    b.cancel(&[2]);
    b.status(2, Code::NoSuchBuffer);
    assert_eq!(b.ended(), [(2, CANCELLED, SETTLED)]);
}

/// A confirmed cancel may overtake, and the data of a read that goes on still finds its place.
#[test]
fn a_confirmation_may_overtake_the_statuses_before_it() {
    let mut b = bench();
    let kept = region(&[0; 3]);
    b.push(Opcode::Read, &kept);
    b.push(Opcode::Read, &region(&[0; 3]));
    b.push(Opcode::Write, &region(b"x"));
    b.sent();
    b.cancel(&[2]);
    assert_eq!(b.sent(), [Sent::Cancel(2)]);
    b.data(1, b"a", false);
    b.status(2, Code::Cancelled);
    b.data(1, b"bc", true);
    b.status(1, Code::Done);
    b.status(3, Code::Done);
    assert_eq!(b.ended(), [(2, CANCELLED, SETTLED), (1, None, SETTLED), (3, None, SETTLED)]);
    assert_eq!(bytes_of(&kept), b"abc");
}

#[test]
fn an_unconfirmed_cancel_costs_the_connection_in_bounded_time() {
    let mut b = bench();
    b.push(Opcode::Write, &region(b"abc"));
    b.push(Opcode::Read, &region(b"abc"));
    b.sent();
    b.cancel(&[1]);
    b.later(CANCEL - Duration::from_millis(1));
    assert!(b.machine.fate().is_none());
    b.later(Duration::from_millis(1));
    assert_eq!(b.machine.fate(), Some(Fate::Reset));
    assert_eq!(b.ended(), [(1, CANCELLED, RemoteSide::InDoubt), (2, RAIL, SETTLED)]);
}

/// On a slow path a cancel waits its turn behind bytes that still move: it costs nobody anything.
/// When nothing moves any more, whatever was not called back ends as on any lost connection.
#[test]
fn a_cancel_waits_while_bytes_move_and_then_costs_the_others_a_retry_only() {
    let mut b = bench();
    b.push(Opcode::Write, &region(&vec![7; 3 << 20]));
    b.push(Opcode::Read, &region(b"abc"));
    b.push(Opcode::Write, &region(&vec![7; 3 << 20]));
    b.push(Opcode::Write, &region(b"abc"));
    take_once(&mut b.machine, b.now, 1000);
    b.cancel(&[1]);
    let step = CANCEL - Duration::from_millis(1);
    for _ in 0..4 {
        b.later(step);
        assert!(b.machine.fate().is_none(), "bytes are sent");
        take_once(&mut b.machine, b.now, 200_000);
    }
    for bytes in 1..4 {
        b.now += CANCEL;
        b.machine.handle_timeout(b.now, Some(Acked { bytes, ago: Duration::from_millis(1) }));
        assert!(b.machine.fate().is_none(), "bytes are acknowledged");
    }
    b.later(CANCEL);
    assert_eq!(b.machine.fate(), Some(Fate::Reset));
    let finished = b.machine.take_finished();
    assert!(finished.iter().all(|f| f.lost));
    let told = finished.iter().map(|f| (f.result.as_ref().unwrap_err().class, f.remote));
    let untouched = RemoteSide::Untouched;
    let expected = [
        (FaultClass::Cancelled, RemoteSide::InDoubt),
        (FaultClass::Rail, untouched),
        (FaultClass::Rail, untouched),
        (FaultClass::Rail, untouched),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

/// A peer that moves bytes for ever and never confirms is given up all the same.
#[test]
fn a_cancel_that_is_never_confirmed_ends_while_bytes_move() {
    let mut b = bench();
    b.push(Opcode::Write, &region(b"abc"));
    b.sent();
    b.cancel(&[1]);
    let begun = b.now;
    let mut bytes = 0;
    while b.machine.fate().is_none() {
        bytes += 1;
        b.now += CANCEL / 2;
        b.machine.handle_timeout(b.now, Some(Acked { bytes, ago: Duration::ZERO }));
        assert!(b.now <= begun + PROGRESS, "bounded");
    }
    assert_eq!(b.ended(), [(1, CANCELLED, RemoteSide::InDoubt)]);
}

/// Every request of a lost connection ends, and what is told of it is true.
#[test]
fn fault09_a_lost_connection_ends_each_request_as_far_as_it_had_come() {
    let mut b = bench();
    let large = region(&vec![1; 2 << 20]);
    b.push(Opcode::Read, &region(b"abc"));
    b.push(Opcode::Write, &large);
    b.push(Opcode::Write, &large);
    b.push(Opcode::Read, &large);
    take_once(&mut b.machine, b.now, 200);
    b.machine.on_end(b.now);
    let finished = b.machine.take_finished();
    assert!(finished.iter().all(|f| f.lost));
    let told: Vec<_> =
        finished.iter().map(|f| (f.remote, f.result.as_ref().unwrap_err().phase)).collect();
    let expected = [
        (SETTLED, Phase::Status),
        (RemoteSide::InDoubt, Phase::Payload),
        (RemoteSide::Untouched, Phase::Queue),
        (RemoteSide::Untouched, Phase::Queue),
    ];
    assert_eq!(told, expected);
    assert_eq!(b.machine.fate(), Some(Fate::Reset));
    assert!(b.machine.outgoing().is_none(), "no byte of local memory goes out any more");
}

#[test]
fn a_request_whose_frames_wait_here_is_untouched() {
    let mut b = bench();
    b.push(Opcode::Write, &region(b"abc"));
    b.push(Opcode::Write, &region(b"def"));
    // Both are written out; only the first one is given to the kernel.
    take_once(&mut b.machine, b.now, 75);
    b.machine.on_end(b.now);
    assert_eq!(b.ended(), [(1, RAIL, RemoteSide::InDoubt), (2, RAIL, RemoteSide::Untouched)]);
}

/// A peer that closes says that it is done with what is in flight.
#[test]
fn a_goodbye_settles_what_is_in_flight() {
    let mut b = bench();
    b.push(Opcode::Write, &region(b"abc"));
    b.sent();
    b.push(Opcode::Write, &region(b"abc"));
    b.frame(&Frame::Goodbye);
    let peer = Some(FaultClass::Peer);
    assert_eq!(b.ended(), [(1, peer, SETTLED), (2, peer, RemoteSide::Untouched)]);
    assert_eq!(b.machine.fate(), Some(Fate::Close));
}

/// FB04: a peer that stands still is given up; what the peer's kernel takes counts as progress.
#[test]
fn fb04_a_silent_peer_is_given_up() {
    let mut b = bench();
    b.later(Duration::from_secs(1000));
    assert!(b.machine.fate().is_none(), "idleness is no fault");
    b.push(Opcode::Write, &region(b"abc"));
    b.machine.handle_timeout(b.now + PROGRESS - Duration::from_millis(1), None);
    assert_eq!(b.machine.deadline(), Some(b.now + PROGRESS));
    b.sent();
    assert_eq!(b.machine.deadline(), Some(b.now + STATUS), "it has the whole request");
    b.now += STATUS;
    let acked = |ago| Some(Acked { bytes: 1, ago });
    let second = Duration::from_secs(1);
    b.machine.handle_timeout(b.now, acked(second));
    assert!(b.machine.fate().is_none(), "the peer's kernel took more a second ago");
    b.now += STATUS - second;
    b.machine.handle_timeout(b.now, acked(Duration::ZERO));
    assert_eq!(b.ended(), [(1, PEER_GONE, RemoteSide::InDoubt)]);
}

#[test]
fn vanished_local_memory_is_a_local_fault() {
    let local = Some(FaultClass::Local);
    let gone = |len| {
        let memory = VanishingMemory::new(AlignedBuffer::zeroed(len).unwrap());
        memory.vanish();
        memory
    };
    let mut b = bench();
    b.push(Opcode::Write, gone(2000).region());
    assert!(b.sent().is_empty(), "nothing of it went out");
    assert_eq!(b.ended(), [(1, local, RemoteSide::Untouched)]);
    let memory = gone(2000);
    b.push(Opcode::Read, memory.region());
    b.sent();
    b.data(1, &[1; 2000], true);
    assert_eq!(b.sent(), [Sent::Cancel(1)]);
    b.status(1, Code::Done);
    assert_eq!(b.ended(), [(2, local, SETTLED)]);
    // Straight into memory, and straight from it.
    let large = region(&vec![0; 1 << 20]);
    b.push(Opcode::Read, &large);
    b.sent();
    let mut head = Vec::new();
    encode(&Frame::Data { id: 2, len: 1 << 20, last: true }, &mut head);
    b.feed(&head);
    let fault = || io::Error::from_raw_os_error(libc::EFAULT);
    b.machine.on_error(b.now, Side::Receive, fault());
    b.feed(&vec![1; 1 << 20]);
    b.status(2, Code::Done);
    assert_eq!(b.ended(), [(3, local, SETTLED)]);
    assert_eq!(bytes_of(&large)[..10], [0; 10]);
    b.push(Opcode::Write, &large);
    b.push(Opcode::Write, &large);
    take_once(&mut b.machine, b.now, 72 + 16);
    // A call that named the memory of both does not say whose is gone; one that names one does.
    b.machine.on_error(b.now, Side::Send, fault());
    assert_eq!(b.ended(), []);
    assert_eq!(b.machine.outgoing().unwrap().load().len(), (1 << 20) - 16);
    b.machine.on_error(b.now, Side::Send, fault());
    let untouched = RemoteSide::Untouched;
    assert_eq!(b.ended(), [(4, local, RemoteSide::InDoubt), (5, RAIL, untouched)]);
}

/// A send that fails waits for what the peer may have said before.
#[test]
fn a_failed_send_waits_for_the_peers_last_words() {
    let mut b = bench();
    b.push(Opcode::Write, &region(b"abc"));
    b.sent();
    b.push(Opcode::Write, &region(b"def"));
    let broken = io::Error::from_raw_os_error(libc::EPIPE);
    b.machine.on_error(b.now, Side::Send, broken);
    assert!(b.machine.outgoing().is_none());
    b.status(1, Code::Done);
    b.machine.on_end(b.now);
    assert_eq!(b.ended(), [(1, None, SETTLED), (2, RAIL, RemoteSide::Untouched)]);
}

/// Each way to break the protocol ends the connection, and every request with a named fault.
#[test]
fn violations_end_the_connection() {
    type Break = fn(&mut Bench);
    let table: [(&str, Break); 15] = [
        ("a status for no request", |b| b.status(4, Code::Done)),
        ("a status out of order", |b| b.status(2, Code::Done)),
        ("a status again", |b| {
            b.status(1, Code::Done);
            b.status(1, Code::Done);
        }),
        ("done before the data of a read", |b| {
            b.status(1, Code::Done);
            b.status(2, Code::Done);
        }),
        ("done before all data of a write went out", |b| {
            b.status(1, Code::Done);
            b.data(2, b"abc", true);
            b.status(2, Code::Done);
            b.status(3, Code::Done);
        }),
        ("cancelled without a cancel", |b| b.status(1, Code::Cancelled)),
        ("corrupt without a check", |b| b.status(1, Code::Corrupt)),
        ("data for a write", |b| b.data(1, b"abc", true)),
        ("data for no request", |b| b.data(9, b"abc", true)),
        ("data that is too long", |b| b.data(2, b"abcd", true)),
        ("data that ends early", |b| b.data(2, b"ab", true)),
        ("data that does not say that it ends", |b| b.data(2, b"abc", false)),
        ("a frame of the other side", |b| b.frame(&Frame::Cancel(1))),
        ("an unknown type", |b| {
            b.feed(&[99; 16]);
        }),
        ("data of 2 GiB", |b| {
            let mut head = vec![2, 0, 0, 0];
            head.extend((1u32 << 31).to_le_bytes());
            head.extend(2u64.to_le_bytes());
            b.feed(&head);
        }),
    ];
    for (what, violate) in table {
        let mut b = bench();
        b.push(Opcode::Write, &region(b"abc"));
        b.push(Opcode::Read, &region(b"abc"));
        b.sent();
        b.push(Opcode::Write, &region(&vec![1; 2 << 20]));
        take_once(&mut b.machine, b.now, 100);
        violate(&mut b);
        assert_eq!(b.machine.fate(), Some(Fate::Reset), "{what}");
        let ended = b.ended();
        assert_eq!(ended.len(), 3, "{what}: each once");
        assert_eq!(ended[2], (3, Some(FaultClass::Protocol), RemoteSide::InDoubt), "{what}");
    }
}
