//! What moves, and what is refused.

use te_segment::VanishingMemory;

use super::*;

#[test]
fn bytes_land_and_leave_and_each_request_ends_with_one_status() {
    let mut b = bench();
    b.ask(1, Opcode::Write, 10, 5);
    assert_eq!(b.buffer.in_flight(), 1, "the guard is held while bytes move");
    b.data(1, b"he", false);
    assert_eq!(b.out(), []);
    b.data(1, b"llo", true);
    b.status(1, Code::Done);
    assert_eq!(b.buffer.in_flight(), 0);
    assert_eq!(b.bytes(9, 7), b"\0hello\0");
    b.ask(2, Opcode::Read, 10, 5);
    assert_eq!(b.out(), [Out::Data(2, b"hello".to_vec(), true), Out::Status(2, Code::Done)]);
    assert_eq!(b.buffer.in_flight(), 0);
    let stats = b.stats();
    assert_eq!((stats.served, stats.served_v3, stats.bytes_in, stats.bytes_out), (2, 2, 5, 5));
    assert_eq!(b.machine.use_of_it(), Use::Idle(b.now));
}

/// A connection that never served a request, or takes what nobody wants, makes room first; one that
/// serves does not.
#[test]
fn k15_only_requests_that_may_be_served_keep_a_connection() {
    let b = before_hello();
    assert_eq!(b.machine.use_of_it(), Use::Nothing);
    let mut b = bench();
    assert_eq!(b.machine.use_of_it(), Use::Nothing, "it has served nothing");
    b.ask(1, Opcode::Write, LEN, 5);
    assert_eq!(b.machine.use_of_it(), Use::Nothing, "a refusal proves nothing");
    b.status(1, Code::OutOfRange);
    b.ask(2, Opcode::Write, 10, 5);
    assert_eq!(b.machine.use_of_it(), Use::Works);
    b.data(2, b"hello", true);
    b.status(2, Code::Done);
    assert_eq!(b.machine.use_of_it(), Use::Idle(b.now));
    b.ask(3, Opcode::Write, LEN, 5);
    b.status(3, Code::OutOfRange);
    b.feed(&data_head(3, 5));
    assert_eq!(b.machine.use_of_it(), Use::Nothing, "its bytes are dropped");
}

/// Bytes that nobody wants do not prolong a connection, however they drip.
#[test]
fn k15_dropped_data_has_an_absolute_deadline() {
    let mut b = bench();
    b.ask(1, Opcode::Write, LEN, 1000);
    b.status(1, Code::OutOfRange);
    b.feed(&data_head(1, 1000));
    let end = b.machine.deadline().unwrap();
    assert!(end <= b.now + PROGRESS);
    while b.now < end {
        assert!(!b.machine.is_over());
        b.feed(&[0]);
        b.now += Duration::from_secs(1);
        b.machine.handle_timeout(b.now);
    }
    assert!(b.machine.is_over());
    assert_eq!(b.stats().inbound_timeouts, 1);
}

fn data_head(id: u64, len: u32) -> Vec<u8> {
    let mut head = Vec::new();
    encode(&Frame::Data { id, len, last: true }, &mut head);
    head
}

/// Large payload goes straight to and from memory, in frames of at most 1 MiB.
#[test]
fn large_requests_go_in_frames_of_at_most_a_mebibyte() {
    let mut b = bench();
    let len: u64 = (2 << 20) + 17;
    b.buffer = b.segment.register(&memory(len), RegisterOptions::default()).unwrap();
    let bytes: Vec<u8> = (0..len).map(|i| (i / 7).to_le_bytes()[0]).collect();
    b.ask(1, Opcode::Write, 0, len);
    let cuts = [300_000, 1 << 20];
    let (one, rest) = bytes.split_at(cuts[0]);
    let (two, three) = rest.split_at(cuts[1]);
    b.data(1, one, false);
    b.data(1, two, false);
    assert_eq!(b.out(), []);
    b.data(1, three, true);
    b.status(1, Code::Done);
    assert!(b.bytes(0, bytes.len()) == bytes);
    b.ask(2, Opcode::Read, 0, len);
    let mut outs = b.out();
    assert_eq!(outs.pop(), Some(Out::Status(2, Code::Done)));
    let mut back: Vec<u8> = Vec::new();
    for (index, out) in outs.iter().enumerate() {
        let Out::Data(2, payload, last) = out else { panic!("{out:?}") };
        assert!(payload.len() <= 1 << 20);
        assert_eq!(*last, index + 1 == outs.len());
        back.extend(payload);
    }
    assert!(back == bytes);
}

/// Each refusal, with its code; the connection stays, and the body of a refused write is dropped.
#[test]
fn j54_k16_refusals_have_their_codes_and_harm_nothing() {
    let mut b = bench();
    let read_only = RegisterOptions { remote: RemoteAccess::Read, ..RegisterOptions::default() };
    let shown = b.segment.register(&memory(100), read_only).unwrap();
    let closing = b.segment.register(&memory(100), RegisterOptions::default()).unwrap();
    let _held = closing.hold(closing.region().whole()).unwrap();
    let _retiring = b.segment.retire(closing.region().address()).unwrap().unwrap();
    let BufferHandle { slot, generation } = b.buffer.id().into();
    let handle = |slot, generation| BufferHandle { slot, generation };
    let mine = handle(slot, generation);
    let cases = [
        (mine, 0, LEN + 1, Code::OutOfRange),
        (mine, LEN, 1, Code::OutOfRange),
        (mine, u64::MAX, 2, Code::OutOfRange),
        (mine, 0, 0, Code::OutOfRange),
        (mine, 1, 1 << 63, Code::OutOfRange),
        (handle(slot, generation + 1), 0, 8, Code::NoSuchBuffer),
        (handle(slot, 0), 0, 8, Code::NoSuchBuffer),
        (handle(u32::MAX, 0), 0, 8, Code::NoSuchBuffer),
        (shown.id().into(), 0, 8, Code::Forbidden),
        (closing.id().into(), 0, 8, Code::TakenBack),
    ];
    for (n, (buffer, offset, length, code)) in cases.into_iter().enumerate() {
        let id = n as u64 * 2 + 1;
        let request = Request { buffer, ..b.request(Opcode::Write, offset, length) };
        b.frame(&Frame::Request(id, request));
        b.status(id, code);
        // What was on its way when the status came is dropped.
        b.data(id, &[0xee; 1000], false);
        b.data(id, &[0xee; 10], true);
        b.frame(&Frame::Sum { id, crc: 1 });
        b.ask(id + 1, Opcode::Write, 7, 1);
        b.data(id + 1, &[0x55], true);
        b.status(id + 1, Code::Done);
        assert!(!b.machine.is_over(), "{code:?}");
    }
    assert_eq!(b.bytes(0, 9), [0, 0, 0, 0, 0, 0, 0, 0x55, 0]);
    assert_eq!(b.stats().refusals, cases.len() as u64);
}

#[test]
fn a_checked_write_is_summed_as_it_lies_in_memory() {
    for (crc, code) in [(crc32c(b"hello"), Code::Done), (77, Code::Corrupt)] {
        let mut b = bench();
        let request = Request { checked: true, ..b.request(Opcode::Write, 0, 5) };
        b.frame(&Frame::Request(1, request));
        b.data(1, b"hello", true);
        assert_eq!(b.out(), [], "it is not done before the sum was compared");
        b.frame(&Frame::Sum { id: 1, crc });
        b.status(1, code);
        assert_eq!(b.buffer.in_flight(), 0);
    }
}

#[test]
fn a_checked_read_says_the_sum_of_what_went_out() {
    let mut b = bench();
    let len = 70_000;
    let bytes: Vec<u8> = (0..len).map(|i: u32| (i / 3).to_le_bytes()[0]).collect();
    b.buffer.region().write_from(0, &bytes).unwrap();
    let request = Request { checked: true, ..b.request(Opcode::Read, 0, u64::from(len)) };
    b.frame(&Frame::Request(1, request));
    let out = take(&mut b.machine, b.now);
    let (data, status) = out.split_at(out.len() - 40);
    assert!(data[16..] == bytes);
    let mut rest = status;
    let frame = Intake::new().take(&mut rest).unwrap();
    let Some(Frame::Status(1, status)) = frame else { panic!("{frame:?}") };
    assert_eq!((status.code, status.sum), (Code::Done, Some(crc32c(&bytes))));
    assert_eq!(status.moved, u64::from(len));
}

/// Architecture 3.4: memory that its owner unmapped ends the request with the error number; the
/// connection and the others go on. What a read announced goes out as zeros.
#[test]
fn vanished_memory_ends_the_request_and_not_the_connection() {
    for len in [1000, 60_000] {
        let mut b = bench();
        let vanishing = VanishingMemory::new(AlignedBuffer::zeroed(64 << 10).unwrap());
        let whole = b.buffer.id();
        let gone = b.segment.register(vanishing.region(), RegisterOptions::default()).unwrap();
        vanishing.vanish();
        let buffer = gone.id().into();
        let request = Request { buffer, ..b.request(Opcode::Write, 0, len) };
        b.frame(&Frame::Request(1, request));
        let bytes = vec![1; usize::try_from(len).unwrap()];
        if len == 1000 {
            b.data(1, &bytes, true);
        } else {
            let mut head = Vec::new();
            let len = u32::try_from(len).unwrap();
            encode(&Frame::Data { id: 1, len, last: true }, &mut head);
            b.feed(&head);
            let fault = io::Error::from_raw_os_error(libc::EFAULT);
            b.machine.on_error(b.now, Side::Receive, fault);
            b.feed(&bytes);
        }
        b.status(1, Code::MemoryFault);
        let request = Request { op: Opcode::Read, ..request };
        b.frame(&Frame::Request(2, request));
        if len > 1000 {
            let head = b.machine.outgoing().unwrap().head_bytes();
            b.machine.on_sent(b.now, head);
            let fault = io::Error::from_raw_os_error(libc::EFAULT);
            b.machine.on_error(b.now, Side::Send, fault);
            let fault = io::Error::from_raw_os_error(libc::EFAULT);
            b.machine.on_error(b.now, Side::Send, fault);
            let rest = take(&mut b.machine, b.now);
            assert!(rest[..rest.len() - 40].iter().all(|byte| *byte == 0));
            assert_eq!(rest.len() as u64, len + 40);
        } else {
            b.status(2, Code::MemoryFault);
        }
        assert_eq!((gone.in_flight(), b.machine.is_over()), (0, false));
        assert_eq!(whole, b.buffer.id());
        b.ask(3, Opcode::Read, 0, 1);
        assert_eq!(b.out().len(), 2);
    }
}

/// Peer fault 4: a buffer that is taken back ends the requests on it and no others, in whatever state.
#[test]
fn a_buffer_that_is_taken_back_ends_its_requests_only() {
    let mut b = bench();
    let other = b.segment.register(&memory(LEN), RegisterOptions::default()).unwrap();
    b.ask(1, Opcode::Read, 0, 50_000);
    let on_other = Request { buffer: other.id().into(), ..b.request(Opcode::Read, 0, 3) };
    b.frame(&Frame::Request(2, on_other));
    b.ask(3, Opcode::Write, 0, 60_000);
    let mut head = Vec::new();
    encode(&Frame::Data { id: 3, len: 50_000, last: false }, &mut head);
    b.feed(&head);
    b.feed(&[1; 30_000]);
    // Half of the read's frame is out, and half of the write's is in.
    b.machine.outgoing();
    b.machine.on_sent(b.now, 16 + 20_000);
    let _retiring = b.segment.retire(b.buffer.region().address()).unwrap().unwrap();
    b.machine.revoke(b.buffer.id());
    assert_eq!(b.buffer.in_flight(), 0);
    b.feed(&[1; 20_000]);
    let rest = take(&mut b.machine, b.now);
    assert!(rest[..30_000].iter().all(|byte| *byte == 0), "no byte of it goes out any more");
    let mut bytes = &rest[30_000..];
    let (mut intake, mut seen) = (Intake::new(), Vec::new());
    while !bytes.is_empty() {
        match intake.take(&mut bytes).unwrap() {
            Some(Frame::Status(id, status)) => seen.push((id, status.code)),
            Some(Frame::Data { id: 2, len, last: true }) => bytes = &bytes[len as usize..],
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen, [(1, Code::TakenBack), (2, Code::Done), (3, Code::TakenBack)]);
    assert_eq!(b.stats().revoked, 2);
    assert!(!b.machine.is_over());
}

/// A guard that says so itself is enough: no byte moves after it.
#[test]
fn a_revoked_guard_stops_the_next_byte() {
    for op in [Opcode::Read, Opcode::Write] {
        let mut b = bench();
        b.ask(1, op, 0, 50_000);
        let address = b.buffer.region().address();
        let segment = Arc::clone(&b.segment);
        let _retiring = segment.retire(address).unwrap().unwrap();
        if op == Opcode::Write {
            b.data(1, &[7; 50_000], true);
        }
        b.status(1, Code::TakenBack);
        assert!(b.bytes(0, 50_000).iter().all(|byte| *byte == 0));
    }
}

/// Architecture §3.4: a small read is done once its data is put out. Where its buffer is taken back, or
/// the engine leaves, before that is sent, the bytes go out as they were, and nobody waits for the
/// socket.
#[test]
fn what_was_promised_goes_out_as_it_was_when_the_buffer_is_taken_back() {
    for leaves in [false, true] {
        let mut b = bench();
        b.buffer.region().write_from(0, &vec![7; 10_000]).unwrap();
        b.ask(1, Opcode::Read, 0, 10_000);
        b.machine.outgoing();
        b.machine.on_sent(b.now, 16 + 1000);
        assert_eq!(b.buffer.in_flight(), 1, "the guard is held while bytes move");
        assert_eq!(b.machine.use_of_it(), Use::Works);
        if leaves {
            b.machine.say_goodbye(&granted());
        } else {
            b.machine.revoke(b.buffer.id());
        }
        assert_eq!(b.buffer.in_flight(), 0);
        b.buffer.region().write_from(0, &vec![8; 10_000]).unwrap();
        let rest = take(&mut b.machine, b.now);
        assert!(rest[..9000].iter().all(|byte| *byte == 7));
        let ended = Intake::new().take(&mut &rest[9000..]).unwrap();
        let is_done = match ended {
            Some(Frame::Done { last, count }) => (last, count) == (1, 1),
            Some(Frame::Status(id, status)) => (id, status.code) == (1, Code::Done),
            _ => false,
        };
        assert!(is_done, "{ended:?}");
    }
}
