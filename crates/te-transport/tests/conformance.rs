//! The suite passes on the simulator, and fails where a transport lies.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use te_metadata::{Incarnation, SegmentDescriptor, SegmentName};
use te_segment::{LocalBuffer, LocalSegment, RemoteSegment, SegmentId, SliceToken};
use te_transport::testing::conformance::{Ability, Bounds, Pair, Report, Rig, Target, check};
use te_transport::testing::{
    FaultyTransport, Recorder, SimBuilder, SimFabric, SimTransport, Twist,
};
use te_transport::{
    Capabilities, CloseReport, CompletionSink, Driven, FaultClass, Phase, SliceFault, SliceSource,
    StartError, Transport, TransportContext, TransportRegisterError,
};

type Spoiled = FaultyTransport<Arc<SimTransport>>;

/// Pairs on a fresh fabric each; the initiator is spoiled as the test says.
struct SimRig {
    fabric: SimBuilder,
    spoil: fn(&Spoiled),
    /// Wraps the target's transport.
    target: fn(Arc<SimTransport>) -> Arc<dyn Transport>,
    settle: Duration,
}

fn honest(fabric: SimBuilder) -> SimRig {
    SimRig { fabric, spoil: |_| {}, target: |t| t, settle: Duration::from_secs(30) }
}

impl Rig for SimRig {
    fn name(&self) -> &str {
        "the simulator"
    }

    fn pair(&self, recorder: Arc<Recorder>) -> Pair {
        let fabric = self.fabric.clone().build();
        let initiator = FaultyTransport::new(fabric.endpoint("initiator"));
        (self.spoil)(&initiator);
        let segment = start(&fabric, &initiator, recorder);
        let transport = fabric.endpoint("target");
        let offered = start(&fabric, &transport, Recorder::new());
        let clock = fabric.clock();
        let seen = (self.target)(Arc::clone(&transport));
        let target = Box::new(SimTarget { fabric, transport, seen, segment: offered });
        Pair { initiator: Arc::new(initiator), segment, clock, target }
    }

    fn bounds(&self) -> Bounds {
        Bounds { settle: self.settle, peer_gone: Duration::from_secs(1), overload: 2000 }
    }

    fn lacks(&self, _ability: Ability) -> Option<&'static str> {
        None
    }
}

fn start(
    fabric: &SimFabric,
    transport: &dyn Transport,
    sink: Arc<dyn CompletionSink>,
) -> Arc<LocalSegment> {
    let segment = Arc::new(LocalSegment::new());
    let context = TransportContext {
        name: SegmentName::parse("node").expect("a plain word is a name"),
        segment: Arc::clone(&segment),
        sink,
        incarnation: Incarnation::from_u128(1),
        clock: fabric.clock(),
    };
    transport.start(context).expect("a new endpoint starts");
    segment
}

struct SimTarget {
    fabric: SimFabric,
    transport: Arc<SimTransport>,
    seen: Arc<dyn Transport>,
    segment: Arc<LocalSegment>,
}

impl Target for SimTarget {
    fn transport(&self) -> &dyn Transport {
        &*self.seen
    }

    fn segment(&self) -> &Arc<LocalSegment> {
        &self.segment
    }

    fn remote(&self) -> Arc<RemoteSegment> {
        self.transport.remote(SegmentId::from_u64(1))
    }

    fn kill(&self) {
        self.fabric.kill(self.transport.number());
    }
}

impl fmt::Debug for SimTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.transport)
    }
}

fn spoiled(spoil: fn(&Spoiled)) -> Report {
    check(&SimRig { spoil, ..honest(SimFabric::builder(1)) })
}

fn failed(report: &Report) -> Vec<&'static str> {
    report.failed().map(|row| row.name).collect()
}

#[test]
fn the_simulator_passes() {
    for seed in 0..5 {
        let report = check(&honest(SimFabric::builder(seed)));
        report.assert_passed();
        assert_eq!(report.skipped().count(), 0, "{report}");
    }
}

#[test]
fn the_simulator_passes_where_slices_overtake_one_another() {
    let fabric = SimFabric::builder(9).reorder(300_000).queue_limit(16);
    check(&honest(fabric)).assert_passed();
}

#[test]
fn fb05_a_transport_that_reports_early_is_found_out() {
    let report = spoiled(|t| t.twist_every_slice(Twist::Early));
    let failed = failed(&report);
    assert!(failed.contains(&"a finished write is visible at once"), "{report}");
    assert!(failed.contains(&"a finished read is in place at once"), "{report}");
}

#[test]
fn a_transport_that_reports_twice_is_found_out() {
    let report = spoiled(|t| t.twist_slice(7, Twist::Duplicate));
    assert!(failed(&report).contains(&"many slices of mixed sizes end once"), "{report}");
}

#[test]
fn a_transport_that_loses_a_slice_is_found_out() {
    let report = spoiled(|t| t.twist_slice(300, Twist::Lose));
    assert!(failed(&report).contains(&"many slices of mixed sizes end once"), "{report}");
}

#[test]
fn a_transport_that_takes_nothing_once_is_no_less_right() {
    spoiled(|t| t.take_nothing(2)).assert_passed();
}

/// A target that forgets to deregister, and whose threads outlive its close.
#[derive(Debug)]
struct Careless(Arc<SimTransport>);

impl Transport for Careless {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn start(&self, context: TransportContext) -> Result<(), StartError> {
        self.0.start(context)
    }

    fn describe(&self, descriptor: &mut SegmentDescriptor) {
        self.0.describe(descriptor);
    }

    fn reaches(&self, peer: &RemoteSegment) -> bool {
        self.0.reaches(peer)
    }

    fn register(&self, buffer: &Arc<LocalBuffer>) -> Result<(), TransportRegisterError> {
        self.0.register(buffer)
    }

    fn deregister(&self, _buffer: &Arc<LocalBuffer>) {}

    fn submit(&self, peer: &Arc<RemoteSegment>, source: &mut dyn SliceSource) -> usize {
        self.0.submit(peer, source)
    }

    fn cancel(&self, tokens: &[SliceToken]) {
        self.0.cancel(tokens);
    }

    fn drive(&self, until: Instant) -> Driven {
        self.0.drive(until)
    }

    fn close(&self, deadline: Instant) -> CloseReport {
        CloseReport { joined: false, ..self.0.close(deadline) }
    }
}

#[test]
fn a_target_that_does_not_deregister_or_join_is_found_out() {
    let rig = SimRig {
        target: |t| Arc::new(Careless(t)),
        settle: Duration::from_secs(1),
        ..honest(SimFabric::builder(1))
    };
    let report = check(&rig);
    let failed = failed(&report);
    assert!(failed.contains(&"nothing changes after an unregister"), "{report}");
    assert!(failed.contains(&"close of an idle transport is quick and repeatable"), "{report}");
}

// A check that no lie can fail proves nothing.
#[test]
fn every_check_of_slices_finds_some_lie_out() {
    let lies: [fn(&Spoiled); 4] = [
        |t| t.twist_every_slice(Twist::Early),
        |t| t.twist_every_slice(Twist::Duplicate),
        |t| t.twist_every_slice(Twist::Lose),
        |t| {
            let fault = SliceFault::new(FaultClass::Protocol, Phase::Status, "a lie");
            t.twist_every_slice(Twist::Fault(fault));
        },
    ];
    let reports = lies.map(spoiled);
    let found: BTreeSet<_> = reports.iter().flat_map(failed).collect();
    let rows = reports[0].rows().iter().map(|row| row.name);
    let missed: Vec<_> = rows.filter(|name| !found.contains(name)).collect();
    // This one hands no slice over; the test above finds it.
    assert_eq!(missed, ["close of an idle transport is quick and repeatable"]);
}
