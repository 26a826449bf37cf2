//! Lists of ranges, and copies to this process as if it were another one.

use std::sync::Arc;

use te_metadata::{HostPort, SegmentDescriptor, SegmentName, TcpEndpoint};
use te_segment::{
    AlignedBuffer, Region, RemoteRange, RemoteSegment, SegmentId, Slice, SliceToken,
    VanishingMemory,
};

use super::*;
use crate::job::Way;

fn job(op: Opcode, local: &Region, offset: u64, len: u64, remote: u64) -> Job {
    let descriptor = SegmentDescriptor::tcp("peer", TcpEndpoint::default(), Vec::new());
    let name = SegmentName::parse("peer").unwrap();
    let rpc = HostPort::new("127.0.0.1", Some(1)).unwrap();
    let peer = Arc::new(RemoteSegment::new(SegmentId::from_u64(1), name, rpc, descriptor, 1));
    let remote = RemoteRange::new(remote, len).unwrap();
    let local = local.range(offset, len).unwrap();
    let token = SliceToken::new(0, 1);
    let mut job = Job::new(Slice { token, op, local, remote, peer, attempt: 0, checked: false });
    job.take_piece(len);
    job.set_way(Way::Kernel);
    job
}

fn memory(len: usize, byte: u8) -> Region {
    let region = Region::from(AlignedBuffer::zeroed(len).unwrap());
    region.write_from(0, &vec![byte; len]).unwrap();
    region
}

fn bytes(region: &Region) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(region.len()).unwrap()];
    region.read_into(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn ranges_that_continue_one_another_are_one_and_any_part_can_be_taken() {
    let (local, far) = (memory(4096, 0), 1 << 40);
    let jobs = [
        job(Opcode::Write, &local, 0, 100, far),
        job(Opcode::Write, &local, 100, 100, far + 100),
        job(Opcode::Write, &local, 1000, 50, far + 200),
        job(Opcode::Write, &local, 2000, 50, far + 4000),
    ];
    let extents = |list: &[Extent], base: u64| -> Vec<(u64, usize)> {
        list.iter().map(|extent| (extent.address as u64 - base, extent.len)).collect()
    };
    let mut ranges = Ranges::default();
    let mut filled = |skip, take| {
        ranges.fill(&jobs, skip, take);
        (extents(&ranges.local, local.address()), extents(&ranges.remote, far))
    };
    let all = (vec![(0, 200), (1000, 50), (2000, 50)], vec![(0, 250), (4000, 50)]);
    assert_eq!(filled(0, 300), all);
    assert_eq!(filled(150, 75), (vec![(150, 50), (1000, 25)], vec![(150, 75)]));
    assert_eq!(filled(250, 50), (vec![(2000, 50)], vec![(4000, 50)]));
    assert_eq!(filled(299, 1), (vec![(2049, 1)], vec![(4049, 1)]));
}

#[test]
fn pieces_that_do_not_take_part_are_left_out() {
    let local = memory(4096, 0);
    let mut jobs = [0, 100, 200].map(|at| job(Opcode::Write, &local, at, 100, 4096 + at));
    jobs[1].set_way(Way::Waits);
    let mut ranges = Ranges::default();
    ranges.fill(&jobs, 0, 200);
    assert_eq!((ranges.local.len(), ranges.remote.len()), (2, 2));
}

#[test]
fn fb42_bytes_go_in_the_direction_of_the_opcode() {
    // FB42.
    let me = rustix::process::getpid();
    let (here, there) = (memory(8192, 1), memory(8192, 2));
    let mut ranges = Ranges::default();
    let write = [job(Opcode::Write, &here, 0, 4000, there.address() + 100)];
    assert_eq!(copy((me, Opcode::Write), &write, (0, 4000), &mut ranges).unwrap(), 4000);
    assert_eq!(bytes(&here), [1; 8192]);
    assert_eq!(bytes(&there)[100..4100], [1; 4000]);
    assert_eq!((bytes(&there)[99], bytes(&there)[4100]), (2, 2));
    let read = [job(Opcode::Read, &here, 5000, 10, there.address() + 5000)];
    assert_eq!(copy((me, Opcode::Read), &read, (0, 10), &mut ranges).unwrap(), 10);
    assert_eq!(bytes(&here)[5000..5010], [2; 10]);
    assert_eq!(bytes(&there)[5000..5010], [2; 10]);
}

#[test]
fn memory_that_is_gone_is_an_error_and_what_was_before_it_is_counted() {
    let me = rustix::process::getpid();
    let (here, there) = (memory(8192, 1), memory(4096, 0));
    let gone = VanishingMemory::new(AlignedBuffer::zeroed(4096).unwrap());
    let gone_at = gone.region().address();
    gone.vanish();
    let jobs = [
        job(Opcode::Write, &here, 0, 4096, there.address()),
        job(Opcode::Write, &here, 4096, 4096, gone_at),
    ];
    let mut ranges = Ranges::default();
    let by = (me, Opcode::Write);
    assert_eq!(copy(by, &jobs, (0, 8192), &mut ranges).unwrap(), 4096);
    let error = copy(by, &jobs, (4096, 4096), &mut ranges).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    assert_eq!(bytes(&there), [1; 4096]);
    let mut byte = [0];
    assert!(read(me, gone_at, &mut byte).is_err() && read(me, there.address(), &mut byte).is_ok());
    for address in [0, 8, u64::MAX - 1, 1 << 63] {
        assert!(read(me, address, &mut [0; 16]).is_err(), "{address:#x}");
    }
}

#[test]
fn a_process_that_is_not_there_is_an_error() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = Pid::from_child(&child);
    child.wait().unwrap();
    let error = read(pid, 4096, &mut [0]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
}
