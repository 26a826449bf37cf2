//! The injector does what it is told, and nothing else.

use std::collections::VecDeque;

use te_metadata::{Incarnation, SegmentName};
use te_segment::{AlignedBuffer, LocalSegment, Opcode, Region, RegisterOptions, RemoteRange};

use super::*;
use crate::clock::Clock as _;
use crate::fault::{FaultClass, Phase};
use crate::testing::{Recorder, SimFabric, SimTransport};

struct Rig {
    fabric: SimFabric,
    transport: FaultyTransport<Arc<SimTransport>>,
    sink: Arc<Recorder>,
    segment: Arc<LocalSegment>,
    peer: Arc<RemoteSegment>,
    local: Region,
    remote: Region,
}

fn rig() -> Rig {
    let fabric = SimFabric::builder(1).build();
    let transport = FaultyTransport::new(fabric.endpoint("a"));
    let target = fabric.endpoint("b");
    let (sink, segment) = (Recorder::new(), Arc::new(LocalSegment::new()));
    let (local, remote) = (memory(), memory());
    let offered = Arc::new(LocalSegment::new());
    offered.register(&remote, RegisterOptions::default()).unwrap();
    let context = |segment: &Arc<LocalSegment>, sink: Arc<Recorder>| TransportContext {
        name: SegmentName::parse("node").unwrap(),
        segment: Arc::clone(segment),
        sink,
        incarnation: Incarnation::from_u128(1),
        clock: fabric.clock(),
    };
    target.start(context(&offered, Recorder::new())).unwrap();
    transport.start(context(&segment, Arc::clone(&sink))).unwrap();
    let peer = target.remote(SegmentId::from_u64(1));
    Rig { transport, sink, segment, peer, local, remote, fabric }
}

fn memory() -> Region {
    Region::from(AlignedBuffer::zeroed(4096).unwrap())
}

impl Rig {
    fn submit(&self, slots: std::ops::Range<u32>) -> usize {
        let slice = |slot: u32| Slice {
            token: SliceToken::new(slot, 1),
            op: Opcode::Write,
            local: self.local.range(0, 100).unwrap(),
            remote: RemoteRange::new(self.remote.address(), 100).unwrap(),
            peer: Arc::clone(&self.peer),
            attempt: 0,
            checked: false,
        };
        let mut queue: VecDeque<Slice> = slots.map(slice).collect();
        self.transport.submit(&self.peer, &mut queue)
    }

    fn ends(&self, slot: u32) -> usize {
        self.sink.of(SliceToken::new(slot, 1)).len()
    }
}

#[test]
fn each_twist_hits_the_slice_it_names() {
    let rig = rig();
    let fault = SliceFault::new(FaultClass::Rail, Phase::Payload, "as the test says");
    rig.transport.twist_slice(2, Twist::Duplicate);
    rig.transport.twist_slice(3, Twist::Lose);
    rig.transport.twist_slice(4, Twist::Fault(fault.clone()));
    rig.transport.twist_slice(5, Twist::Hold);
    rig.transport.twist_slice(6, Twist::Early);
    assert_eq!(rig.submit(1..8), 7);
    assert_eq!((rig.sink.count(), rig.ends(6)), (1, 1), "one was reported early");
    rig.fabric.run_until_idle();
    assert_eq!([1, 2, 3, 4, 5, 6, 7].map(|slot| rig.ends(slot)), [1, 2, 0, 1, 0, 1, 1]);
    let spoiled = &rig.sink.of(SliceToken::new(4, 1))[0];
    assert_eq!((&spoiled.result, spoiled.remote), (&Err(fault), RemoteSide::InDoubt));
    assert_eq!(rig.transport.held(), 1);
    assert_eq!(rig.transport.release(), 1);
    assert_eq!((rig.ends(5), rig.transport.release()), (1, 0));
}

#[test]
fn a_refused_registration_is_the_one_that_was_named() {
    let rig = rig();
    rig.transport.refuse_register(2);
    let buffer = rig.segment.register(&rig.local, RegisterOptions::default()).unwrap();
    let answers = [1, 2, 3].map(|_| rig.transport.register(&buffer).is_ok());
    assert_eq!(answers, [true, false, true]);
}

#[test]
fn a_submit_that_takes_nothing_is_followed_by_room() {
    let rig = rig();
    rig.transport.take_nothing(1);
    assert_eq!(rig.submit(0..3), 0);
    assert_eq!(rig.sink.rooms(), 0);
    assert_eq!(rig.transport.drive(rig.fabric.clock().now()), Driven::Ran);
    assert_eq!(rig.sink.rooms(), 1);
    assert_eq!(rig.submit(0..3), 3);
}

#[test]
fn closing_reports_what_was_held() {
    let rig = rig();
    rig.transport.twist_every_slice(Twist::Hold);
    rig.submit(0..3);
    rig.fabric.run_until_idle();
    assert_eq!((rig.sink.count(), rig.transport.held()), (0, 3));
    rig.transport.close(rig.fabric.clock().now());
    assert_eq!(rig.sink.count(), 3);
}
