//! The initiator's machine, moved by hand.
#![expect(clippy::disallowed_methods, reason = "any instant will do as a start")]

mod answers;
mod ends;
mod fuzz;
mod requests;

use std::sync::Arc;

use te_metadata::{BufferHandle, HostPort, SegmentDescriptor, SegmentName, TcpEndpoint};
use te_segment::{
    AlignedBuffer, Region, RemoteRange, RemoteSegment, SegmentId, Slice, VanishingMemory,
};

use super::*;
use crate::frame::Version;
use crate::pool::Place;
use crate::pump::harness::{feed, take, take_once};
use crate::v3::frame::{Code, Request, Status, encode};
use crate::v3::hello::{Answer, AnswerCode, HELLO_BYTES};
use crate::v3::sum::crc32c;

const PEER: Incarnation = Incarnation::from_u128(0xabcd);
const PROGRESS: Duration = Duration::from_secs(30);
const STATUS: Duration = Duration::from_secs(20);
const CANCEL: Duration = Duration::from_secs(2);
const BUFFER: BufferHandle = BufferHandle { slot: 3, generation: 5 };

struct Bench {
    machine: Session,
    now: Instant,
    next: u32,
}

/// What went out.
#[derive(Debug, PartialEq, Eq)]
enum Sent {
    Request(u64, Request),
    Data(u64, Vec<u8>, bool),
    Sum(u64, u32),
    Cancel(u64),
    Goodbye,
}

/// How a request ended: its number, the class of its fault, the remote side.
type Ended = (u32, Option<FaultClass>, RemoteSide);

fn address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 9))
}

fn granted() -> Answer {
    Answer { code: AnswerCode::Ok, features: 1, credit: 8, target: PEER, fenced: 4 }
}

fn greeting() -> Bench {
    let hello = Hello {
        version: 3,
        offered: 1,
        required: 0,
        wanted: 8,
        from: Incarnation::from_u128(1),
        to: PEER,
        session: 1,
        connection: 4,
        fence: 4,
    };
    let limits = Limits {
        chunk: 1 << 20,
        status_timeout: STATUS,
        progress_timeout: PROGRESS,
        cancel_timeout: CANCEL,
    };
    let now = Instant::now();
    let mut machine = Session::new(now, address(), &hello, limits);
    assert_eq!(take(&mut machine, now), hello.encode());
    Bench { machine, now, next: 1 }
}

/// A session whose hello was answered.
fn bench() -> Bench {
    let mut b = greeting();
    b.feed(&granted().encode());
    let Some(News::Open { credit: 8, fenced: 4 }) = b.machine.take_news() else { panic!() };
    b
}

fn region(bytes: &[u8]) -> Region {
    let region = Region::from(AlignedBuffer::zeroed(bytes.len()).unwrap());
    region.write_from(0, bytes).unwrap();
    region
}

fn bytes_of(region: &Region) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(region.len()).unwrap()];
    region.read_into(0, &mut bytes).unwrap();
    bytes
}

fn peer() -> Arc<RemoteSegment> {
    let descriptor = SegmentDescriptor::tcp("peer", TcpEndpoint::default(), Vec::new());
    let name = SegmentName::parse("peer").unwrap();
    let rpc = HostPort::new("localhost", Some(1)).unwrap();
    Arc::new(RemoteSegment::new(SegmentId::from_u64(1), name, rpc, descriptor, 1))
}

impl Bench {
    /// Hands a request over; gives its number, which is its id on the wire as well.
    fn push(&mut self, op: Opcode, region: &Region) -> u32 {
        self.push_job(op, region, false)
    }

    fn push_job(&mut self, op: Opcode, region: &Region, checked: bool) -> u32 {
        let number = self.next;
        self.next += 1;
        let (local, remote) = (region.whole(), RemoteRange::new(4096, region.len()).unwrap());
        let (token, attempt) = (SliceToken::new(number, 1), 2);
        let slice = Slice { token, op, local, remote, peer: peer(), attempt, checked };
        let place = Place { buffer: BUFFER, offset: 64 };
        self.machine.push(self.now, Job::new(slice, Version::V2, Some(place)));
        number
    }

    fn feed(&mut self, bytes: &[u8]) -> usize {
        feed(&mut self.machine, self.now, bytes)
    }

    fn frame(&mut self, frame: &Frame) {
        let mut bytes = Vec::new();
        encode(frame, &mut bytes);
        self.feed(&bytes);
    }

    fn status(&mut self, id: u64, code: Code) {
        self.frame(&Frame::Status(id, Status::plain(code, 0)));
    }

    fn data(&mut self, id: u64, bytes: &[u8], last: bool) {
        let mut out = Vec::new();
        let len = u32::try_from(bytes.len()).unwrap();
        encode(&Frame::Data { id, len, last }, &mut out);
        out.extend(bytes);
        self.feed(&out);
    }

    fn cancel(&mut self, numbers: &[u32]) {
        let tokens = numbers.iter().map(|number| SliceToken::new(*number, 1)).collect();
        self.machine.cancel(self.now, &tokens);
    }

    fn sent(&mut self) -> Vec<Sent> {
        let bytes = take(&mut self.machine, self.now);
        frames(&bytes)
    }

    fn ended(&mut self) -> Vec<Ended> {
        let class = |result: &Result<(), SliceFault>| result.as_ref().err().map(|f| f.class);
        let finished = self.machine.take_finished();
        finished.iter().map(|f| (f.job.slice.token.slot(), class(&f.result), f.remote)).collect()
    }

    fn later(&mut self, time: Duration) {
        self.now += time;
        self.machine.handle_timeout(self.now, None);
    }
}

fn frames(bytes: &[u8]) -> Vec<Sent> {
    let (mut rest, mut sent, mut intake) = (bytes, Vec::new(), Intake::new());
    while !rest.is_empty() {
        sent.push(match intake.take(&mut rest).unwrap().unwrap() {
            Frame::Request(id, request) => Sent::Request(id, request),
            Frame::Data { id, len, last } => {
                let (payload, later) = rest.split_at(len as usize);
                rest = later;
                Sent::Data(id, payload.to_vec(), last)
            }
            Frame::Sum { id, crc } => Sent::Sum(id, crc),
            Frame::Cancel(id) => Sent::Cancel(id),
            Frame::Goodbye => Sent::Goodbye,
            other => panic!("an initiator sent {other:?}"),
        });
    }
    sent
}

const SETTLED: RemoteSide = RemoteSide::Settled;
