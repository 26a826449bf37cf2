//! Order, credit, cancels, deadlines, and what breaks the protocol.

use super::*;

#[test]
fn statuses_go_out_in_order_and_a_write_is_stored_meanwhile() {
    let mut b = bench();
    b.buffer.region().write_from(0, b"abc").unwrap();
    b.ask(1, Opcode::Write, 50, 4);
    b.data(1, b"xy", false);
    b.data(1, b"zw", true);
    b.ask(2, Opcode::Read, 0, 3);
    b.ask(3, Opcode::Read, LEN, 1);
    b.ask(4, Opcode::Write, 60, 1);
    b.data(4, b"!", true);
    assert_eq!(b.bytes(60, 1), b"!");
    let order = [
        Out::Status(1, Code::Done),
        Out::Data(2, b"abc".to_vec(), true),
        Out::Status(2, Code::Done),
        Out::Status(3, Code::OutOfRange),
        Out::Status(4, Code::Done),
    ];
    assert_eq!(b.out(), order);
}

/// J46: a cancel ends its request at once, is confirmed before other work, and touches nothing else.
#[test]
fn a_cancel_is_confirmed_and_memory_is_free() {
    let mut b = bench();
    b.ask(1, Opcode::Read, 0, 50_000);
    b.ask(2, Opcode::Read, 0, 10);
    b.ask(3, Opcode::Write, 0, 60_000);
    b.data(3, &[1; 1000], false);
    assert_eq!(b.buffer.in_flight(), 3);
    b.frame(&Frame::Cancel(3));
    b.frame(&Frame::Cancel(2));
    assert_eq!(b.buffer.in_flight(), 1, "the guards are gone before the confirmation goes out");
    let outs = b.out();
    assert_eq!(outs[..2], [Out::Status(3, Code::Cancelled), Out::Status(2, Code::Cancelled)]);
    assert_eq!(outs.last(), Some(&Out::Status(1, Code::Done)));
    b.frame(&Frame::Cancel(3));
    b.frame(&Frame::Cancel(1));
    assert_eq!(b.out(), [], "what has ended is confirmed already");
    b.ask(4, Opcode::Write, 0, 1);
    b.data(4, &[9], true);
    b.status(4, Code::Done);
    assert_eq!(b.bytes(0, 2), [9, 1]);
}

#[test]
fn a_cancel_of_a_read_whose_data_is_going_out_ends_it_with_zeros() {
    let mut b = bench();
    b.buffer.region().write_from(0, &vec![7; 50_000]).unwrap();
    b.ask(1, Opcode::Read, 0, 50_000);
    b.machine.outgoing();
    b.machine.on_sent(b.now, 16 + 20_000);
    b.frame(&Frame::Cancel(1));
    assert_eq!(b.buffer.in_flight(), 0);
    let rest = take(&mut b.machine, b.now);
    assert_eq!(rest.len(), 30_000 + 40);
    assert!(rest[..30_000].iter().all(|byte| *byte == 0));
}

#[test]
fn a_request_ends_when_its_initiator_gives_up() {
    let mut b = bench();
    let request = Request { patience: 500, ..b.request(Opcode::Write, 0, 100) };
    b.frame(&Frame::Request(1, request));
    b.data(1, &[1; 10], false);
    assert_eq!(b.machine.deadline(), Some(b.now + Duration::from_millis(500)));
    b.now += Duration::from_millis(499);
    b.machine.handle_timeout(b.now);
    assert_eq!(b.buffer.in_flight(), 1);
    b.now += Duration::from_millis(1);
    b.machine.handle_timeout(b.now);
    assert_eq!(b.buffer.in_flight(), 0);
    b.status(1, Code::TimeIsUp);
    b.data(1, &[1; 90], true);
    assert_eq!(b.bytes(10, 1), [0]);
    assert!(!b.machine.is_over());
}

/// FB04: what stands still ends, whatever it waits for; an idle connection does not.
#[test]
fn what_stands_still_ends_and_idleness_does_not() {
    let stands = |b: &mut Bench| {
        b.now += PROGRESS - Duration::from_millis(1);
        b.machine.handle_timeout(b.now);
        assert!(!b.machine.is_over());
        b.now += Duration::from_millis(1);
        b.machine.handle_timeout(b.now);
        b.machine.is_over()
    };
    let mut b = bench();
    assert!(!stands(&mut b), "idle");
    b.feed(&[1, 0, 0]);
    assert!(stands(&mut b), "in the middle of a head");
    let mut b = bench();
    b.ask(1, Opcode::Write, 0, 100);
    assert!(stands(&mut b), "without the data of a write");
    assert_eq!(b.buffer.in_flight(), 0);
    let mut b = bench();
    b.ask(1, Opcode::Read, 0, 100);
    b.machine.outgoing();
    assert!(stands(&mut b), "nobody takes a read's data");
    assert_eq!((b.buffer.in_flight(), b.stats().inbound_timeouts), (0, 1));
}

/// Each way to break the protocol ends the connection and lets go of memory.
#[test]
fn violations_end_the_connection() {
    type Break = fn(&mut Bench);
    let table: [(&str, Break); 14] = [
        ("an id that skips", |b| b.ask(2, Opcode::Read, 0, 1)),
        ("an id again", |b| {
            b.ask(1, Opcode::Read, 0, 1);
            b.ask(1, Opcode::Read, 0, 1);
        }),
        ("id 0", |b| b.ask(0, Opcode::Read, 0, 1)),
        ("more requests than the credit", |b| {
            for id in 1..=u64::from(CREDIT) + 1 {
                b.ask(id, Opcode::Read, 0, 1);
            }
        }),
        ("a request in the middle of a body", |b| {
            b.ask(1, Opcode::Write, 0, 10);
            b.ask(2, Opcode::Read, 0, 1);
        }),
        ("data for no request", |b| b.data(1, &[1], true)),
        ("data for a read", |b| {
            b.ask(1, Opcode::Read, 0, 1);
            b.data(1, &[1], true);
        }),
        ("data longer than the request", |b| {
            b.ask(1, Opcode::Write, 0, 2);
            b.data(1, &[1; 3], true);
        }),
        ("data that ends early", |b| {
            b.ask(1, Opcode::Write, 0, 2);
            b.data(1, &[1], true);
        }),
        ("data that does not say that it ends", |b| {
            b.ask(1, Opcode::Write, 0, 2);
            b.data(1, &[1; 2], false);
        }),
        ("a sum before the data", |b| {
            let request = Request { checked: true, ..b.request(Opcode::Write, 0, 2) };
            b.frame(&Frame::Request(1, request));
            b.frame(&Frame::Sum { id: 1, crc: 0 });
        }),
        ("a sum of a write that is not checked", |b| {
            b.ask(1, Opcode::Write, 0, 2);
            b.data(1, &[1; 2], true);
            b.frame(&Frame::Sum { id: 1, crc: 0 });
        }),
        ("a cancel of what was not asked", |b| b.frame(&Frame::Cancel(1))),
        ("a frame of the other side", |b| {
            b.frame(&Frame::Status(1, Status::plain(Code::Done, 0)));
        }),
    ];
    for (what, violate) in table {
        let mut b = bench();
        violate(&mut b);
        assert!(b.machine.is_over(), "{what}");
        assert_eq!((b.stats().violations, b.buffer.in_flight()), (1, 0), "{what}");
    }
}
