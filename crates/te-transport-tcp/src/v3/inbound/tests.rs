//! The target's machine, moved by hand.
#![expect(clippy::disallowed_methods, reason = "any instant will do as a start")]

mod fuzz;
mod memory;
mod order;

use te_metadata::{BufferHandle, Incarnation};
use te_segment::{
    AlignedBuffer, LocalBuffer, LocalSegment, Opcode, Region, RegisterOptions, RemoteAccess,
};

use super::*;
use crate::pump::harness::{feed, take};
use crate::stats::{Counters, TcpStats};
use crate::v3::frame::{Request, encode};
use crate::v3::sum::crc32c;

const ME: Incarnation = Incarnation::from_u128(0xabcd);
const CREDIT: u32 = 4;
const PROGRESS: Duration = Duration::from_secs(30);
const LEN: u64 = 100_000;

struct Bench {
    machine: Inbound,
    segment: Arc<LocalSegment>,
    buffer: Arc<LocalBuffer>,
    counters: Arc<Counters>,
    now: Instant,
}

/// What came out.
#[derive(Debug, PartialEq, Eq)]
enum Out {
    Data(u64, Vec<u8>, bool),
    Status(u64, Code),
    Goodbye,
}

fn hello() -> Hello {
    let incarnation = Incarnation::from_u128(1);
    Hello {
        version: 3,
        offered: 1,
        required: 0,
        wanted: 256,
        from: incarnation,
        to: ME,
        session: 5,
        connection: 1,
        fence: 0,
    }
}

fn granted() -> Answer {
    let code = AnswerCode::Ok;
    Answer { code, features: 1, credit: CREDIT, target: ME, fenced: 0 }
}

fn memory(len: u64) -> Region {
    Region::from(AlignedBuffer::zeroed(usize::try_from(len).unwrap()).unwrap())
}

/// A machine that has not seen a hello but its first 24 bytes.
fn before_hello() -> Bench {
    let segment = Arc::new(LocalSegment::new());
    let counters = Arc::new(Counters::default());
    let service = Service {
        segment: Arc::clone(&segment),
        counters: Arc::clone(&counters),
        chunk: 1 << 20,
        header_timeout: Duration::from_secs(10),
        progress_timeout: PROGRESS,
        incarnation: ME,
        credit: CREDIT,
    };
    let now = Instant::now();
    let first = hello().encode()[..HEADER_BYTES].try_into().unwrap();
    let machine = Inbound::new(now, Arc::new(service), &first);
    let buffer = segment.register(&memory(LEN), RegisterOptions::default()).unwrap();
    Bench { machine, segment, buffer, counters, now }
}

/// A machine whose hello was answered.
fn bench() -> Bench {
    let mut b = before_hello();
    b.feed(&hello().encode()[HEADER_BYTES..]);
    assert_eq!(b.machine.take_hello(), Some(hello()));
    assert_eq!(b.machine.take_hello(), None, "once");
    b.machine.answer(b.now, &granted());
    assert_eq!(take(&mut b.machine, b.now), granted().encode());
    b
}

impl Bench {
    fn feed(&mut self, bytes: &[u8]) -> usize {
        feed(&mut self.machine, self.now, bytes)
    }

    fn frame(&mut self, frame: &Frame) {
        let mut bytes = Vec::new();
        encode(frame, &mut bytes);
        self.feed(&bytes);
    }

    fn data(&mut self, id: u64, bytes: &[u8], last: bool) {
        let mut out = Vec::new();
        let len = u32::try_from(bytes.len()).unwrap();
        encode(&Frame::Data { id, len, last }, &mut out);
        out.extend(bytes);
        self.feed(&out);
    }

    fn request(&self, op: Opcode, offset: u64, length: u64) -> Request {
        let buffer = self.buffer.id().into();
        Request { op, checked: false, attempt: 0, patience: 0, buffer, offset, length }
    }

    fn ask(&mut self, id: u64, op: Opcode, offset: u64, length: u64) {
        let request = self.request(op, offset, length);
        self.frame(&Frame::Request(id, request));
    }

    /// Everything that goes out now.
    fn out(&mut self) -> Vec<Out> {
        let bytes = take(&mut self.machine, self.now);
        let (mut rest, mut outs) = (bytes.as_slice(), Vec::new());
        let mut intake = Intake::new();
        while !rest.is_empty() {
            outs.push(match intake.take(&mut rest).unwrap().unwrap() {
                Frame::Data { id, len, last } => {
                    let (payload, later) = rest.split_at(len as usize);
                    rest = later;
                    Out::Data(id, payload.to_vec(), last)
                }
                Frame::Status(id, status) => Out::Status(id, status.code),
                Frame::Goodbye => Out::Goodbye,
                other => panic!("a target sent {other:?}"),
            });
        }
        assert!(!intake.is_within());
        outs
    }

    fn status(&mut self, id: u64, code: Code) {
        assert_eq!(self.out(), [Out::Status(id, code)]);
    }

    fn bytes(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.buffer.region().read_into(offset, &mut bytes).unwrap();
        bytes
    }

    fn stats(&self) -> TcpStats {
        self.counters.snapshot()
    }
}

#[test]
fn a_hello_is_put_together_from_pieces_and_a_bad_one_ends_the_connection() {
    let mut b = before_hello();
    for byte in &hello().encode()[HEADER_BYTES..] {
        assert_eq!(b.machine.take_hello(), None);
        b.feed(&[*byte]);
    }
    assert_eq!(b.machine.take_hello(), Some(hello()));
    assert!(b.machine.outgoing().is_none() && b.machine.incoming().is_none(), "it waits");
    for at in [30, 100, 127] {
        let mut b = before_hello();
        let mut bytes = hello().encode();
        bytes[at] ^= 1;
        b.feed(&bytes[HEADER_BYTES..]);
        assert!(b.machine.is_over(), "byte {at}");
        assert_eq!((b.machine.take_hello(), b.stats().violations), (None, 1));
    }
}

/// Peer fault 6: a hello that drips is ended by a deadline that its bytes do not move.
#[test]
fn fault06_a_dripping_hello_ends_in_bounded_time() {
    let mut b = before_hello();
    let begun = b.now;
    for byte in &hello().encode()[HEADER_BYTES..40] {
        b.now += Duration::from_secs(1);
        b.machine.handle_timeout(b.now);
        b.feed(&[*byte]);
    }
    assert!(b.machine.is_over());
    assert!(b.now <= begun + Duration::from_secs(16));
    assert_eq!(b.stats().inbound_timeouts, 1);
}

#[test]
fn any_other_answer_goes_out_and_ends_the_connection() {
    let mut b = before_hello();
    b.feed(&hello().encode()[HEADER_BYTES..]);
    let answer = Answer { code: AnswerCode::OtherIncarnation, ..granted() };
    b.machine.answer(b.now, &answer);
    assert!(!b.machine.is_over());
    assert_eq!(take(&mut b.machine, b.now), answer.encode());
    assert!(b.machine.is_over());
}

#[test]
fn a_fence_names_earlier_connections_of_its_session_only() {
    let b = bench();
    let fence = Hello { connection: 9, fence: 2, ..hello() };
    assert!(b.machine.is_fenced_by(&fence));
    let others = [
        Hello { fence: 1, ..fence },
        Hello { fence: 0, ..fence },
        Hello { session: 6, ..fence },
        Hello { from: Incarnation::from_u128(2), ..fence },
    ];
    assert!(others.iter().all(|other| !b.machine.is_fenced_by(other)));
    assert!(!before_hello().machine.is_fenced_by(&fence));
}

#[test]
fn goodbye_of_either_side_ends_what_is_in_flight() {
    let mut b = bench();
    b.ask(1, Opcode::Write, 0, 100);
    assert_eq!(b.buffer.in_flight(), 1);
    b.machine.say_goodbye(&granted());
    assert_eq!(b.buffer.in_flight(), 0);
    assert_eq!(b.out(), [Out::Goodbye]);
    assert!(b.machine.is_over());
    // In the middle of a read's data: the frame ends first, with zeros.
    let mut b = bench();
    b.buffer.region().write_from(0, &vec![7; 90_000]).unwrap();
    b.ask(1, Opcode::Read, 0, 90_000);
    b.machine.outgoing();
    b.machine.on_sent(b.now, 16 + 10_000);
    b.machine.say_goodbye(&granted());
    assert_eq!(b.buffer.in_flight(), 0);
    let rest = take(&mut b.machine, b.now);
    assert!(rest[..80_000].iter().all(|byte| *byte == 0));
    let goodbye = Intake::new().take(&mut &rest[80_000..]);
    assert_eq!(goodbye, Ok(Some(Frame::Goodbye)));
    assert!(b.machine.is_over());
    let mut b = bench();
    b.ask(1, Opcode::Write, 0, 100);
    b.frame(&Frame::Goodbye);
    assert!(b.machine.is_over());
    assert_eq!(b.buffer.in_flight(), 0);
}
