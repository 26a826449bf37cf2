//! The suite passes on the simulator, and fails where a transport lies.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use te_segment::{LocalSegment, RemoteSegment, SegmentId};
use te_transport::testing::conformance::{Ability, Bounds, Pair, Report, Rig, Target, check};
use te_transport::testing::{
    FaultyTransport, Recorder, SimBuilder, SimFabric, SimTransport, Twist,
};
use te_transport::{CompletionSink, Transport, TransportContext};

type Spoiled = FaultyTransport<Arc<SimTransport>>;

/// Pairs on a fresh fabric each; the initiator is spoiled as the test says.
struct SimRig {
    fabric: SimBuilder,
    spoil: fn(&Spoiled),
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
        let target = Box::new(SimTarget { fabric, transport, segment: offered });
        Pair { initiator: Arc::new(initiator), segment, clock, target }
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            settle: Duration::from_secs(30),
            peer_gone: Duration::from_secs(1),
            overload: 2000,
        }
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
    let context = TransportContext { segment: Arc::clone(&segment), sink, clock: fabric.clock() };
    transport.start(context).unwrap();
    segment
}

struct SimTarget {
    fabric: SimFabric,
    transport: Arc<SimTransport>,
    segment: Arc<LocalSegment>,
}

impl Target for SimTarget {
    fn transport(&self) -> &dyn Transport {
        &*self.transport
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
    check(&SimRig { fabric: SimFabric::builder(1), spoil })
}

fn failed(report: &Report) -> Vec<&'static str> {
    report.failed().map(|row| row.name).collect()
}

#[test]
fn the_simulator_passes() {
    for seed in 0..5 {
        let report = check(&SimRig { fabric: SimFabric::builder(seed), spoil: |_| {} });
        report.assert_passed();
        assert_eq!(report.skipped().count(), 0, "{report}");
    }
}

#[test]
fn the_simulator_passes_where_slices_overtake_one_another() {
    let fabric = SimFabric::builder(9).reorder(300_000).queue_limit(16);
    check(&SimRig { fabric, spoil: |_| {} }).assert_passed();
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
