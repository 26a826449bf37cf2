//! What is asked, and how it ends well.

use super::*;

#[test]
fn requests_follow_each_other_without_waiting_and_end_in_order() {
    let mut b = bench();
    let (one, two, three) = (region(b"hello"), region(&[0; 3]), region(b"!"));
    b.push(Opcode::Write, &one);
    b.push(Opcode::Read, &two);
    b.push(Opcode::Write, &three);
    let request = |op, length| Request {
        op,
        checked: false,
        attempt: 2,
        patience: 0,
        buffer: BUFFER,
        offset: 64,
        length,
    };
    let expected = [
        Sent::Request(1, request(Opcode::Write, 5)),
        Sent::Data(1, b"hello".to_vec(), true),
        Sent::Request(2, request(Opcode::Read, 3)),
        Sent::Request(3, request(Opcode::Write, 1)),
        Sent::Data(3, b"!".to_vec(), true),
    ];
    let all = take_once(&mut b.machine, b.now, usize::MAX);
    assert_eq!(frames(&all), expected, "small requests go out in one call");
    assert!(b.ended().is_empty());
    b.status(1, Code::Done);
    assert_eq!(b.ended(), [(1, None, SETTLED)]);
    b.data(2, b"ab", false);
    assert!(b.ended().is_empty());
    b.data(2, b"c", true);
    b.status(2, Code::Done);
    b.status(3, Code::Done);
    assert_eq!(b.ended(), [(2, None, SETTLED), (3, None, SETTLED)]);
    assert_eq!(bytes_of(&two), b"abc");
    assert!(b.machine.is_idle() && b.machine.fate().is_none());
}

/// Large payload goes straight from and to memory, in frames of at most 1 MiB.
#[test]
fn large_requests_move_without_a_copy_in_frames() {
    let mut b = bench();
    let len: usize = (2 << 20) + 9;
    let bytes: Vec<u8> = (0..len).map(|i| (i / 5).to_le_bytes()[0]).collect();
    let source = region(&bytes);
    b.push(Opcode::Write, &source);
    let sent = b.sent();
    let payload = |sent: &Sent| match sent {
        Sent::Data(1, payload, last) => (payload.clone(), *last),
        other => panic!("{other:?}"),
    };
    let pieces: Vec<_> = sent[1..].iter().map(payload).collect();
    assert_eq!(pieces.iter().map(|(_, last)| *last).collect::<Vec<_>>(), [false, false, true]);
    assert!(pieces.iter().flat_map(|(payload, _)| payload).eq(&bytes));
    b.status(1, Code::Done);
    let target = region(&vec![0; len]);
    b.push(Opcode::Read, &target);
    b.sent();
    for (index, piece) in bytes.chunks(1 << 20).enumerate() {
        b.data(2, piece, index == 2);
    }
    b.status(2, Code::Done);
    assert_eq!(b.ended(), [(1, None, SETTLED), (2, None, SETTLED)]);
    assert!(bytes_of(&target) == bytes);
}

#[test]
fn a_checked_write_sends_the_sum_of_what_it_sent() {
    let mut b = bench();
    let len = 300_000;
    let bytes: Vec<u8> = (0..len).map(|i: u32| (i / 5).to_le_bytes()[0]).collect();
    b.push_job(Opcode::Write, &region(&bytes), true);
    let sent = b.sent();
    assert!(matches!(&sent[0], Sent::Request(1, request) if request.checked));
    assert_eq!(sent.last(), Some(&Sent::Sum(1, crc32c(&bytes))));
    b.status(1, Code::Corrupt);
    assert_eq!(b.ended(), [(1, Some(FaultClass::Corrupt), SETTLED)]);
}

#[test]
fn a_checked_read_compares_what_lies_in_memory() {
    for (sum, class) in [(crc32c(b"hello"), None), (1, Some(FaultClass::Corrupt))] {
        let mut b = bench();
        b.push_job(Opcode::Read, &region(&[0; 5]), true);
        b.sent();
        b.data(1, b"hello", true);
        let status = Status { sum: Some(sum), ..Status::plain(Code::Done, 5) };
        b.frame(&Frame::Status(1, status));
        assert_eq!(b.ended(), [(1, class, SETTLED)]);
    }
}

#[test]
fn a_peer_without_checksums_is_asked_for_none() {
    let mut b = greeting();
    b.feed(&Answer { features: 0, ..granted() }.encode());
    b.push_job(Opcode::Write, &region(b"x"), true);
    assert_eq!(b.ended(), [(1, Some(FaultClass::Protocol), RemoteSide::Untouched)]);
    assert!(b.sent().is_empty());
}

/// Each code of a status, with the class it becomes.
#[test]
fn statuses_become_classes_of_faults() {
    let table = [
        (Code::OutOfRange, FaultClass::Refused),
        (Code::Forbidden, FaultClass::Refused),
        (Code::NoSuchBuffer, FaultClass::Refused),
        (Code::TakenBack, FaultClass::Refused),
        (Code::MemoryFault, FaultClass::Refused),
        (Code::TimeIsUp, FaultClass::Cancelled),
    ];
    for (code, class) in table {
        for op in [Opcode::Read, Opcode::Write] {
            let mut b = bench();
            b.push(op, &region(b"abc"));
            b.sent();
            let status = Status { errno: 14, ..Status::plain(code, 0) };
            b.frame(&Frame::Status(1, status));
            let finished = b.machine.take_finished();
            let fault = finished[0].result.as_ref().unwrap_err();
            assert_eq!((fault.class, fault.phase), (class, Phase::Status), "{code:?} {op:?}");
            assert_eq!((fault.address, fault.errno), (Some(address()), Some(14)));
            assert_eq!(finished[0].remote, SETTLED);
            assert!(b.machine.fate().is_none());
        }
    }
}

/// A refusal that comes early stops the data: what was announced goes out as zeros, and local memory
/// is free at once.
#[test]
fn an_early_refusal_lets_go_of_local_memory() {
    let mut b = bench();
    let source = region(&vec![7; 3 << 20]);
    b.push(Opcode::Write, &source);
    b.push(Opcode::Write, &region(b"next"));
    let begun = take_once(&mut b.machine, b.now, 56 + 16 + 1000);
    assert_eq!(begun.len(), 56 + 16 + 1000);
    b.status(1, Code::NoSuchBuffer);
    assert_eq!(b.ended(), [(1, Some(FaultClass::Refused), SETTLED)]);
    let rest = take(&mut b.machine, b.now);
    let zeros = (1 << 20) - 1000;
    assert!(rest[..zeros].iter().all(|byte| *byte == 0));
    let sent = frames(&rest[zeros..]);
    assert!(matches!(sent[..], [Sent::Request(2, _), Sent::Data(2, _, true)]), "{sent:?}");
}

#[test]
fn goodbye_is_said_only_by_an_idle_session() {
    let mut b = bench();
    b.machine.say_goodbye();
    assert_eq!(b.sent(), [Sent::Goodbye]);
    b.push(Opcode::Read, &region(b"x"));
    b.sent();
    b.machine.say_goodbye();
    assert!(b.sent().is_empty());
}

#[test]
fn the_peer_may_change_the_credit() {
    let mut b = bench();
    b.frame(&Frame::Credit(3));
    assert!(matches!(b.machine.take_news(), Some(News::Credit(3))));
    b.frame(&Frame::Credit(0));
    assert!(b.machine.fate().is_some(), "no request at all would be a goodbye");
}
