//! The suite that every transport passes: inside one engine, and between two engines. The two are
//! in one process here, which the transport treats as any other two.
#![allow(clippy::disallowed_methods, reason = "tests are drivers")]
#![allow(clippy::print_stdout, reason = "the table belongs into the test's output")]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Engine, remote};
use te_metadata::Incarnation;
use te_segment::{LocalSegment, RemoteSegment};
use te_transport::testing::Recorder;
use te_transport::testing::conformance::{Ability, Bounds, Pair, Rig, Target, check};
use te_transport::{SystemClock, Transport};
use te_transport_shm::{LocalTransport, ShmConfig, ShmTransport};

const BOUNDS: Bounds =
    Bounds { settle: Duration::from_secs(60), peer_gone: Duration::from_secs(10), overload: 5000 };

/// Either end of a pair.
#[derive(Debug)]
struct End<T>(Arc<Engine<T>>);

impl<T: Transport> Target for End<T> {
    fn transport(&self) -> &dyn Transport {
        &*self.0.transport
    }

    fn segment(&self) -> &Arc<LocalSegment> {
        &self.0.segment
    }

    fn remote(&self) -> Arc<RemoteSegment> {
        remote(&self.0)
    }

    fn kill(&self) {
        self.0.transport.close(Instant::now() + Duration::from_secs(10));
    }
}

#[derive(Debug)]
struct LocalRig;

impl Rig for LocalRig {
    fn name(&self) -> &'static str {
        "local"
    }

    fn pair(&self, recorder: Arc<Recorder>) -> Pair {
        let transport = LocalTransport::new(ShmConfig::default());
        let engine = Arc::new(Engine::start(transport, Incarnation::random(), recorder));
        let (segment, initiator) = (Arc::clone(&engine.segment), Arc::clone(&engine.transport));
        Pair { initiator, segment, clock: Arc::new(SystemClock), target: Box::new(End(engine)) }
    }

    fn bounds(&self) -> Bounds {
        BOUNDS
    }

    fn lacks(&self, ability: Ability) -> Option<&'static str> {
        (ability == Ability::PeerDeath).then_some("the peer is this process")
    }
}

/// How the bytes of the two engines may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ways {
    Any,
    OneThread,
    /// By the kernel alone.
    Kernel,
    /// By mapping alone.
    Mapped,
}

impl Rig for Ways {
    fn name(&self) -> &str {
        match self {
            Self::Any => "shm",
            Self::OneThread => "shm, one thread",
            Self::Kernel => "shm, by the kernel",
            Self::Mapped => "shm, mapped",
        }
    }

    fn pair(&self, recorder: Arc<Recorder>) -> Pair {
        let config = ShmConfig {
            parallel: *self != Self::OneThread,
            kernel: *self != Self::Mapped,
            mapped: *self != Self::Kernel,
            ..ShmConfig::default()
        };
        let start =
            |sink| Engine::start(ShmTransport::new(config.clone()), Incarnation::random(), sink);
        let (initiator, target) = (start(recorder), Arc::new(start(Recorder::new())));
        let Engine { transport: initiator, segment, .. } = initiator;
        Pair { initiator, segment, clock: Arc::new(SystemClock), target: Box::new(End(target)) }
    }

    fn bounds(&self) -> Bounds {
        BOUNDS
    }

    fn lacks(&self, ability: Ability) -> Option<&'static str> {
        let mapped = *self == Self::Mapped && ability == Ability::VanishingMemory;
        mapped.then_some("memory that can be mapped does not vanish")
    }
}

/// Prints the table, skipped rows with their reasons.
#[track_caller]
fn run(rig: &dyn Rig) {
    let report = check(rig);
    println!("{report}");
    report.assert_passed();
}

#[test]
fn local_passes_the_conformance_suite() {
    run(&LocalRig);
}

#[test]
fn shm_passes_the_conformance_suite() {
    run(&Ways::Any);
}

#[test]
fn shm_passes_the_conformance_suite_with_one_thread() {
    run(&Ways::OneThread);
}

#[test]
fn shm_passes_the_conformance_suite_by_the_kernel_alone() {
    run(&Ways::Kernel);
}

#[test]
fn shm_passes_the_conformance_suite_by_mapping_alone() {
    run(&Ways::Mapped);
}
