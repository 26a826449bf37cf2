//! Rounds with a peer that is told what to answer.

use rustix::process::Pid;
use te_metadata::{HostPort, SegmentDescriptor, SegmentName, TcpEndpoint};
use te_segment::{AlignedBuffer, Opcode, Region, RemoteRange, RemoteSegment, Slice, SliceToken};
use te_sync::{Condvar, Mutex};
use te_transport::testing::Recorder;
use te_transport::{RemoteSide, Threads};

use super::*;

/// What the peer answers; it is this process.
#[derive(Debug, Default)]
struct Script {
    /// It is gone before a round.
    gone: bool,
    /// It leaves during a round.
    leaves: bool,
    lost: u64,
}

impl Target for Mutex<Script> {
    fn pid(&self) -> Pid {
        rustix::process::getpid()
    }

    fn enter(&self, jobs: &mut [Job], _held: &mut Vec<BufferHandle>) -> Result<(), SliceFault> {
        jobs.iter_mut().for_each(|job| job.set_way(Way::Kernel));
        match self.lock().gone {
            true => Err(fault(FaultClass::Rail, Phase::Handshake, "gone")),
            false => Ok(()),
        }
    }

    fn leave(&self, _held: &mut Vec<BufferHandle>) -> Result<(), SliceFault> {
        match self.lock().leaves {
            true => Err(fault(FaultClass::Peer, Phase::Payload, "left")),
            false => Ok(()),
        }
    }

    fn wants_tidying(&self) -> bool {
        false
    }

    fn tidy(&self) -> bool {
        false
    }

    fn on_lost(&self, _fault: &SliceFault) {
        self.lock().lost += 1;
    }
}

struct Bench {
    haul: Haul<Mutex<Script>>,
    recorder: Arc<Recorder>,
    local: Region,
    remote: Region,
    next: u32,
}

const SIZE: u64 = 3 * ROUND;

impl Bench {
    fn new() -> Self {
        let (recorder, threads) = (Recorder::new(), Arc::new(Threads::default()));
        let bell: Bell = Arc::new((Mutex::new(false), Condvar::new()));
        let sink = Arc::clone(&recorder) as Arc<dyn CompletionSink>;
        let copier = Copier::new(false, &threads);
        let haul = Haul::new(Arc::new(Inbox::new()), sink, copier, bell, Arc::default());
        let memory =
            || Region::from(AlignedBuffer::zeroed(usize::try_from(SIZE).unwrap()).unwrap());
        Self { haul, recorder, local: memory(), remote: memory(), next: 0 }
    }

    fn job(&mut self, op: Opcode, len: u64) -> Job {
        let descriptor = SegmentDescriptor::tcp("peer", TcpEndpoint::default(), Vec::new());
        let name = SegmentName::parse("peer").unwrap();
        let rpc = HostPort::new("127.0.0.1", Some(1)).unwrap();
        let id = SegmentId::from_u64(1);
        let peer = Arc::new(RemoteSegment::new(id, name, rpc, descriptor, 1));
        let token = SliceToken::new(self.next, 1);
        self.next += 1;
        let local = self.local.range(0, len).unwrap();
        let remote = RemoteRange::new(self.remote.address(), len).unwrap();
        Job::new(Slice { token, op, local, remote, peer, attempt: 0, checked: false })
    }

    /// Puts jobs into a lane of their own.
    fn lane(&mut self, jobs: impl IntoIterator<Item = Job>) -> Arc<Lane<Mutex<Script>>> {
        let lane = Arc::new(Lane::new(Mutex::default(), Load { slices: 100, bytes: 1 << 30 }));
        let (_, mut queue) = lane.reserve(SegmentId::from_u64(1)).unwrap();
        queue.extend(jobs);
        let taken = queue.iter().collect();
        assert!(lane.push((queue, taken), None));
        self.haul.inbox.add(|news| news.lanes.push(Arc::clone(&lane)));
        lane
    }

    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn step(&mut self) -> u64 {
        self.haul.step(Instant::now()).reported
    }

    fn ends(&self) -> Vec<(u32, Option<FaultClass>, RemoteSide)> {
        let ends = self.recorder.completions().into_iter();
        ends.map(|end| (end.token.slot(), end.result.err().map(|f| f.class), end.remote)).collect()
    }
}

const SETTLED: RemoteSide = RemoteSide::Settled;

#[test]
fn a_small_slice_does_not_wait_for_a_large_one_of_another_peer() {
    let mut bench = Bench::new();
    let (large, small) = (bench.job(Opcode::Write, SIZE), bench.job(Opcode::Write, 64));
    bench.lane([large]);
    bench.lane([small]);
    assert_eq!([bench.step(), bench.step()], [0, 1]);
    assert_eq!(bench.ends(), [(1, None, SETTLED)]);
    assert_eq!([bench.step(), bench.step()], [0, 1]);
    assert!(!bench.haul.is_eager(), "nothing is left");
    assert_eq!(bench.ends().len(), 2);
}

#[test]
fn a_round_has_one_direction_and_ends_what_fits() {
    let mut bench = Bench::new();
    let ops = [Opcode::Write, Opcode::Write, Opcode::Read, Opcode::Read, Opcode::Read];
    let jobs: Vec<_> = ops.iter().map(|op| bench.job(*op, 4096)).collect();
    bench.lane(jobs);
    assert_eq!([bench.step(), bench.step(), bench.step()], [2, 3, 0]);
    let all: Vec<_> = (0..5).map(|slot| (slot, None, SETTLED)).collect();
    assert_eq!(bench.ends(), all);
}

#[test]
fn what_was_copied_while_the_peer_left_is_in_doubt_and_not_repeated() {
    let mut bench = Bench::new();
    let jobs = [bench.job(Opcode::Write, 64), bench.job(Opcode::Read, 64)];
    let lane = bench.lane(jobs);
    lane.target.lock().leaves = true;
    assert_eq!([bench.step(), bench.step()], [1, 1]);
    let peer = Some(FaultClass::Peer);
    let expected = [(0, peer, RemoteSide::InDoubt), (1, peer, RemoteSide::Untouched)];
    assert_eq!(bench.ends(), expected);
    assert_eq!(lane.target.lock().lost, 2);
}

#[test]
fn a_peer_that_is_gone_before_a_round_is_not_touched() {
    let mut bench = Bench::new();
    bench.local.write_from(0, &[7; 64]).unwrap();
    let job = bench.job(Opcode::Write, 64);
    let lane = bench.lane([job]);
    lane.target.lock().gone = true;
    assert_eq!(bench.step(), 1);
    assert_eq!(bench.ends(), [(0, Some(FaultClass::Rail), RemoteSide::Untouched)]);
    let mut seen = [1; 64];
    bench.remote.read_into(0, &mut seen).unwrap();
    assert_eq!(seen, [0; 64]);
}

#[test]
fn a_slice_that_is_called_back_in_the_middle_ends_there() {
    let mut bench = Bench::new();
    let (large, other) = (bench.job(Opcode::Write, SIZE), bench.job(Opcode::Write, 64));
    let token = large.token();
    bench.lane([large, other]);
    assert_eq!(bench.step(), 0);
    bench.haul.inbox.add(|news| news.cancelled.push(token));
    assert_eq!(bench.step(), 2, "one was called back, the other done in the same step");
    let expected = [(0, Some(FaultClass::Cancelled), SETTLED), (1, None, SETTLED)];
    assert_eq!(bench.ends(), expected);
}

#[test]
fn at_the_end_everything_is_settled() {
    let mut bench = Bench::new();
    let (moving, queued) = (bench.job(Opcode::Write, SIZE), bench.job(Opcode::Read, 64));
    bench.lane([moving, queued]);
    bench.step();
    let late = bench.job(Opcode::Read, 64);
    bench.lane([late]);
    let now = te_transport::Clock::now(&te_transport::SystemClock);
    bench.haul.finish(now);
    let closed = Some(FaultClass::Closed);
    let untouched = RemoteSide::Untouched;
    assert_eq!(
        bench.ends(),
        [(0, closed, SETTLED), (1, closed, untouched), (2, closed, untouched)]
    );
    assert_eq!(bench.haul.closed.load(Ordering::Relaxed), 3);
    assert!(!bench.haul.inbox.add(|_| {}), "nothing gets in any more");
}
