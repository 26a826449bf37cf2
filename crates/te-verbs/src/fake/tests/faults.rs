//! Faults that a test asks for.

use te_segment::{AlignedBuffer, Opcode, VanishingMemory};

use super::bed::{ALL, Bed, name};
use crate::error::VerbsCall;
use crate::event::DeviceEvent;
use crate::port::PortState;
use crate::queue_pair::QueuePairState;
use crate::work::WorkStatus::{self, Flushed, RetryExceeded, Success};
use crate::work::{Payload, Sge, WorkRequest};
use crate::{PostError, Verbs};

#[test]
fn a_port_that_goes_down_is_told_and_comes_back() {
    let bed = Bed::new(1);
    let (near, far) = bed.pairs(6);
    bed.b.nic.port_down(1);
    assert_eq!(bed.b.device.port(1).unwrap().state, PortState::Down);
    assert_eq!(bed.b.device.next_event().unwrap(), Some(DeviceEvent::PortError { port: 1 }));
    bed.write(&*near, 1);
    assert_eq!(bed.a.ended(), [(1, RetryExceeded)]);
    assert_eq!(far.state().unwrap(), QueuePairState::ReadyToSend);
    bed.b.nic.port_up(1);
    assert_eq!(bed.b.device.next_event().unwrap(), Some(DeviceEvent::PortActive { port: 1 }));
    assert_eq!(bed.b.device.next_event().unwrap(), None);
    let (near, _far) = bed.pairs(6);
    bed.write(&*near, 2);
    assert_eq!(bed.a.ended(), [(2, Success)]);
}

/// Endless tries wait out a link that is gone for a while.
#[test]
fn endless_tries_outlast_a_port() {
    let bed = Bed::new(1);
    let (near, _far) = bed.pairs(7);
    bed.b.nic.port_down(1);
    bed.write(&*near, 1);
    bed.fake.expire();
    assert_eq!(bed.a.ended(), []);
    bed.b.nic.port_up(1);
    assert_eq!(bed.a.ended(), [(1, Success)]);
}

#[test]
fn a_changed_address_is_told_and_old_ways_end() {
    let bed = Bed::new(1);
    let (near, _far) = bed.pairs(6);
    let mut gids = bed.b.device.gids(1).unwrap();
    gids.remove(1);
    bed.b.nic.set_gids(1, gids.clone());
    assert_eq!(bed.b.device.next_event().unwrap(), Some(DeviceEvent::GidChange { port: 1 }));
    assert_eq!(bed.b.device.gids(1).unwrap(), gids);
    bed.write(&*near, 1);
    assert_eq!(bed.a.ended(), [(1, RetryExceeded)]);
}

#[test]
fn a_queue_pair_may_fail_by_itself() {
    let bed = Bed::new(1);
    let (near, _far) = bed.pairs(6);
    bed.fake.hold_traffic();
    (1..3).for_each(|id| bed.write(&*near, id));
    assert!(bed.a.nic.fail_queue_pair(near.number()));
    assert_eq!(bed.a.ended(), [(1, Flushed), (2, Flushed)]);
    let event = DeviceEvent::QueuePairFatal { number: near.number() };
    assert_eq!(bed.a.device.next_event().unwrap(), Some(event));
    assert!(!bed.a.nic.fail_queue_pair(12345));
}

#[test]
fn a_dead_device_refuses_everything() {
    let bed = Bed::new(1);
    let (near, _far) = bed.pairs(7);
    bed.fake.hold_traffic();
    bed.write(&*near, 1);
    bed.a.nic.die();
    assert_eq!(bed.a.ended(), [(1, Flushed)]);
    assert_eq!(bed.a.device.next_event().unwrap(), Some(DeviceEvent::DeviceFatal));
    let errno = |error: crate::VerbsError| error.errno;
    assert_eq!(bed.a.device.port(1).map_err(errno), Err(Some(libc::EIO)));
    assert_eq!(near.to_reset().map_err(errno), Err(Some(libc::EIO)));
    let posted = bed.post(&*near, Opcode::Write, 2);
    assert_eq!(posted, Err(PostError { posted: 0, errno: libc::EIO }));
}

/// A device that is taken away tells of its end and of nothing that was on it.
#[test]
fn a_device_that_vanishes_gives_nothing_back() {
    let bed = Bed::new(1);
    let (near, _far) = bed.pairs(7);
    bed.fake.hold_completions();
    bed.write(&*near, 1);
    bed.fake.hold_traffic();
    bed.write(&*near, 2);
    bed.a.nic.vanish();
    bed.fake.release();
    assert_eq!(bed.a.ended(), []);
    assert_eq!(bed.a.device.next_event().unwrap(), Some(DeviceEvent::DeviceFatal));
    let errno = |error: crate::VerbsError| error.errno;
    assert_eq!(near.to_error().map_err(errno), Err(Some(libc::EIO)));
    assert_eq!(near.to_reset().map_err(errno), Err(Some(libc::EIO)));
}

/// Some providers poll a dead queue as an empty one.
#[test]
fn a_completion_queue_may_fail_without_a_word_of_its_own() {
    let bed = Bed::new(1);
    let (near, _far) = bed.pairs(6);
    bed.a.nic.silence_completion_queues();
    bed.write(&*near, 1);
    assert_eq!(bed.a.ended(), []);
    assert!(bed.a.queue.arm().is_ok());
    assert_eq!(bed.a.device.next_event().unwrap(), Some(DeviceEvent::CompletionQueueError));
}

/// A chain may be queued although the call fails.
#[test]
fn a_post_may_be_refused_after_it_was_taken() {
    let bed = Bed::new(1);
    let (near, _far) = bed.pairs(6);
    bed.a.nic.take_and_refuse(9, libc::ENOMEM);
    let refused = bed.post(&*near, Opcode::Write, 1);
    assert_eq!(refused, Err(PostError { posted: 1, errno: libc::ENOMEM }));
    bed.write(&*near, 2);
    assert_eq!(bed.a.ended(), [(1, Success), (2, Success)]);
}

/// The channel of a queue fails as arming it does.
#[test]
fn reading_a_channel_fails_once_where_a_test_says_so() {
    let bed = Bed::new(1);
    bed.a.nic.fail_call(VerbsCall::Notify, 1, libc::EIO);
    assert!(bed.a.queue.arm().is_ok());
    assert_eq!(bed.a.queue.acknowledge().unwrap_err().errno, Some(libc::EIO));
    assert!(bed.a.queue.acknowledge().is_ok());
    assert_eq!((bed.a.nic.completion_queues(), bed.b.nic.completion_queues()), (1, 1));
}

/// A refused call is refused once, after those that shall go well.
#[test]
fn calls_fail_once_where_a_test_says_so() {
    let bed = Bed::new(1);
    bed.a.nic.fail_call(VerbsCall::Register, 1, libc::ENOMEM);
    let whole = bed.a.memory.whole();
    assert!(bed.a.device.register(&whole, ALL).is_ok());
    let refused = bed.a.device.register(&whole, ALL).unwrap_err();
    assert_eq!((refused.call, refused.errno), (VerbsCall::Register, Some(libc::ENOMEM)));
    assert!(bed.a.device.register(&whole, ALL).is_ok());
    bed.b.nic.fail_call(VerbsCall::Open, 0, libc::ENODEV);
    assert!(bed.fake.host("b").open(&name("mlx_0")).is_err());
    assert!(bed.fake.host("b").open(&name("mlx_0")).is_ok());
    let (near, _far) = bed.pairs(6);
    bed.a.nic.fail_post(2, libc::ENOMEM);
    (0..2).for_each(|id| bed.write(&*near, id));
    let third = bed.post(&*near, Opcode::Write, 2);
    assert_eq!(third, Err(PostError { posted: 0, errno: libc::ENOMEM }));
    bed.write(&*near, 3);
    assert_eq!(bed.a.ended(), [(0, Success), (1, Success), (3, Success)]);
}

/// A queue that overran loses the completion, says so, and gives nothing after what it had.
#[test]
fn a_completion_queue_overruns() {
    let bed = Bed::new(1);
    let queue = bed.a.device.completion_queue(2).unwrap();
    let pair = bed.a.device.queue_pair(&queue, super::bed::CAPACITY).unwrap();
    let far = bed.b.pair();
    Bed::connect(&*pair, &Bed::route(2, far.number()), 6);
    Bed::connect(&*far, &Bed::route(1, pair.number()), 6);
    (0..3).for_each(|id| bed.write(&*pair, id));
    assert_eq!(bed.a.device.next_event().unwrap(), Some(DeviceEvent::CompletionQueueError));
    let empty =
        crate::WorkCompletion { id: 0, status: WorkStatus::Fatal, queue_pair: 0, vendor_error: 0 };
    assert_eq!(queue.poll(&mut [empty; 4]).unwrap(), 2);
    assert_eq!(queue.poll(&mut [empty; 4]).unwrap_err().errno, Some(libc::EIO));
    assert_eq!(queue.arm().unwrap_err().errno, Some(libc::EIO));
}

/// Memory that is gone is an error of the side that has it, and both go on.
#[test]
fn vanished_memory_is_told_by_its_side() {
    let bed = Bed::new(1);
    for is_near in [true, false] {
        let (near, _far) = bed.pairs(6);
        let memory = VanishingMemory::new(AlignedBuffer::zeroed(4096).unwrap());
        let region = memory.region();
        let device = if is_near { &bed.a.device } else { &bed.b.device };
        let keys = device.register(&region.whole(), ALL).unwrap();
        let (mut address, mut lkey) = (bed.a.memory.address(), bed.a.keys.lkey());
        let (mut remote_address, mut rkey) = (bed.b.memory.address(), bed.b.keys.rkey());
        if is_near {
            (address, lkey) = (region.address(), keys.lkey());
        } else {
            (remote_address, rkey) = (region.address(), keys.rkey());
        }
        memory.vanish();
        let payload = Payload::Ranges(&[Sge { address, len: 64, lkey }]);
        let op = Opcode::Write;
        let request = WorkRequest { id: 1, op, payload, remote_address, rkey, signaled: true };
        near.post(&[request]).unwrap();
        let side = if is_near { WorkStatus::LocalProtection } else { WorkStatus::RemoteOperation };
        assert_eq!(bed.a.ended(), [(1, side)]);
    }
}

/// Hardware tells the owner of a queue pair that a peer asked for what may not be.
#[test]
fn access_errors_are_told_where_the_device_does() {
    let fake = crate::Fake::new(1);
    let device = |last| {
        let mut device = crate::FakeDevice::new(name("mlx_0"), super::bed::address(last));
        device.tells_access_errors = true;
        device
    };
    let a = super::bed::Side::new(&fake, "a", device(1));
    let b = super::bed::Side::new(&fake, "b", device(2));
    let bed = Bed { fake, a, b };
    let (near, far) = bed.pairs(6);
    let range = Sge { address: bed.a.memory.address(), len: 1, lkey: bed.a.keys.lkey() };
    let payload = Payload::Ranges(&[range]);
    let (op, remote_address) = (Opcode::Write, bed.b.memory.address());
    near.post(&[WorkRequest { id: 1, op, payload, remote_address, rkey: 5, signaled: false }])
        .unwrap();
    assert_eq!(bed.a.ended(), [(1, WorkStatus::RemoteAccess)]);
    let event = DeviceEvent::QueuePairFatal { number: far.number() };
    assert_eq!(bed.b.device.next_event().unwrap(), Some(event));
}
