//! Pieces that are there, gone, or different afterwards.

use te_metadata::{HostPort, SegmentDescriptor, SegmentName, TcpEndpoint};
use te_segment::{
    AlignedBuffer, Region, RemoteRange, RemoteSegment, SegmentId, Slice, SliceToken,
    VanishingMemory,
};
use te_transport::{Completion, RemoteSide};

use super::*;

fn job(op: Opcode, local: &Region, remote: &Region, checked: bool) -> Job {
    let descriptor = SegmentDescriptor::tcp("peer", TcpEndpoint::default(), Vec::new());
    let name = SegmentName::parse("peer").unwrap();
    let rpc = HostPort::new("127.0.0.1", Some(1)).unwrap();
    let peer = Arc::new(RemoteSegment::new(SegmentId::from_u64(1), name, rpc, descriptor, 1));
    let at = RemoteRange::new(remote.address(), local.len()).unwrap();
    let token = SliceToken::new(0, 1);
    let local = local.whole();
    let mut job = Job::new(Slice { token, op, local, remote: at, peer, attempt: 0, checked });
    job.take_piece(u64::MAX);
    job.set_way(Way::Kernel);
    job
}

fn memory(len: usize, byte: u8) -> Region {
    let region = Region::from(AlignedBuffer::zeroed(len).unwrap());
    region.write_from(0, &vec![byte; len]).unwrap();
    region
}

fn gone(len: usize) -> VanishingMemory {
    let memory = VanishingMemory::new(AlignedBuffer::zeroed(len).unwrap());
    memory.vanish();
    memory
}

#[expect(clippy::disallowed_methods, reason = "any instant will do")]
fn run(copier: &mut Copier, jobs: &mut [Job]) {
    copier.run(Instant::now(), rustix::process::getpid(), jobs);
}

fn copier(parallel: bool) -> Copier {
    Copier::new(parallel, &Arc::new(Threads::default()))
}

fn end(job: Job) -> Completion {
    assert!(job.is_over());
    job.into_end(false)
}

fn class(end: &Completion) -> Option<FaultClass> {
    end.result.as_ref().err().map(|fault| fault.class)
}

#[test]
fn the_side_whose_memory_is_gone_is_blamed_and_the_others_go_on() {
    for op in [Opcode::Read, Opcode::Write] {
        for (ours, expected) in [(true, FaultClass::Local), (false, FaultClass::Refused)] {
            let (a, b) = (memory(4096, 1), memory(4096, 2));
            let (here, there) = (gone(4096), gone(4096));
            let bad = match ours {
                true => job(op, here.region(), &b, false),
                false => job(op, &a, there.region(), false),
            };
            let mut jobs = vec![job(op, &a, &b, false), bad, job(op, &a, &b, false)];
            run(&mut copier(false), &mut jobs);
            assert!(!jobs[2].is_over() && jobs[2].part() == 0, "it waits for the next round");
            let bad = end(jobs.remove(1));
            assert_eq!(class(&bad), Some(expected), "{op:?} {bad:?}");
            assert_eq!(bad.remote, RemoteSide::Untouched);
            assert_eq!(class(&end(jobs.remove(0))), None);
        }
    }
}

#[test]
fn a_write_that_broke_off_in_the_middle_has_touched_the_peer() {
    let (here, there) = (memory(8192, 1), memory(8192, 2));
    for (op, expected) in
        [(Opcode::Write, RemoteSide::Settled), (Opcode::Read, RemoteSide::Untouched)]
    {
        let mut broken = job(op, &here, &there, false);
        broken.advance(4096);
        broken.fail(fault(FaultClass::Refused, Phase::Payload, "gone"));
        assert_eq!(end(broken).remote, expected);
    }
}

#[test]
fn a_checked_piece_is_compared_on_both_sides() {
    let (here, there) = (memory(200_000, 1), memory(200_000, 2));
    let mut copier = copier(false);
    let mut jobs = vec![job(Opcode::Write, &here, &there, true)];
    run(&mut copier, &mut jobs);
    assert_eq!(class(&end(jobs.remove(0))), None);
    // What differs is found, also in the last byte.
    let moved = job(Opcode::Write, &here, &there, true);
    let pid = rustix::process::getpid();
    assert!(copier.compare.across(pid, &moved).unwrap());
    assert!(copier.compare.within(&here.whole(), &there.whole()).unwrap());
    there.write_from(199_999, &[9]).unwrap();
    assert!(!copier.compare.across(pid, &moved).unwrap());
    assert!(!copier.compare.within(&here.whole(), &there.whole()).unwrap());
    let mut different = moved;
    settle(&mut different, Ok(false));
    let told = end(different);
    assert_eq!((class(&told), told.remote), (Some(FaultClass::Corrupt), RemoteSide::Settled));
}

#[test]
fn a_process_that_ended_is_blamed() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = Pid::from_child(&child);
    child.wait().unwrap();
    let (here, there) = (memory(4096, 1), memory(4096, 2));
    let mut jobs = vec![job(Opcode::Write, &here, &there, false)];
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    copier(false).run(Instant::now(), pid, &mut jobs);
    let ended = end(jobs.remove(0));
    assert_eq!((class(&ended), ended.remote), (Some(FaultClass::Peer), RemoteSide::Untouched));
}

#[test]
fn two_threads_copy_every_byte_and_memory_that_is_gone_is_found_all_the_same() {
    let len = 8 << 20;
    let threads = Arc::new(Threads::default());
    let mut help = Help::new(&threads);
    let mut ranges = Ranges::default();
    let pid = rustix::process::getpid();
    for round in 0..20 {
        let (here, there) = (memory(len, round), memory(len, 0xff));
        let jobs = [job(Opcode::Write, &here, &there, false)];
        assert!(help.copy(Share::across((pid, Opcode::Write), &jobs, len as u64), &mut ranges));
        let mut seen = vec![0; len];
        there.read_into(0, &mut seen).unwrap();
        assert!(seen.iter().all(|byte| *byte == round), "round {round}");
    }
    let (here, lost) = (memory(len, 1), gone(len));
    let jobs = [job(Opcode::Write, &here, lost.region(), false)];
    assert!(!help.copy(Share::across((pid, Opcode::Write), &jobs, len as u64), &mut ranges));
    drop(help);
    #[expect(clippy::disallowed_methods, reason = "tests are drivers")]
    let deadline = Instant::now() + std::time::Duration::from_secs(10);
    assert!(threads.wait_until_none(deadline), "the helper ends");
}
