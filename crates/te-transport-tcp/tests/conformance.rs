//! The suite that every transport passes, on loopback, in both protocol versions.
#![allow(clippy::disallowed_methods, reason = "tests are drivers")]
#![allow(clippy::print_stdout, reason = "the table belongs into the test's output")]

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use te_metadata::{
    BufferDescriptor, HostPort, Incarnation, ListenAddress, SegmentDescriptor, SegmentName,
    TcpEndpoint, TeObject,
};
use te_segment::{LocalSegment, RemoteSegment, SegmentId};
use te_transport::testing::Recorder;
use te_transport::testing::conformance::{Ability, Bounds, Pair, Rig, Target, check};
use te_transport::{Clock, CompletionSink, SystemClock, Transport, TransportContext};
use te_transport_tcp::{TcpConfig, TcpTransport};

#[derive(Debug)]
struct TcpRig {
    /// The highest version that the initiator speaks.
    version: u8,
    te_peer: bool,
}

impl Rig for TcpRig {
    fn name(&self) -> &str {
        ["tcp, version 1", "tcp, version 2", "tcp, version 3"][usize::from(self.version) - 1]
    }

    fn pair(&self, recorder: Arc<Recorder>) -> Pair {
        let (initiator, segment) = start(self.version, Incarnation::random(), recorder);
        let incarnation = Incarnation::random();
        let (transport, offered) = start(self.version.max(2), incarnation, Recorder::new());
        let te = self.te_peer.then(|| TeObject::new(incarnation));
        let target = Box::new(TcpTarget { transport, segment: offered, te });
        Pair { initiator, segment, clock: Arc::new(SystemClock), target }
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            settle: Duration::from_secs(60),
            peer_gone: Duration::from_secs(10),
            overload: 5000,
        }
    }

    fn lacks(&self, ability: Ability) -> Option<&'static str> {
        let untold = self.version == 1 && ability == Ability::TellsRefusal;
        untold.then_some("a version 1 target says no by closing")
    }
}

fn start(
    max_version: u8,
    incarnation: Incarnation,
    sink: Arc<dyn CompletionSink>,
) -> (Arc<TcpTransport>, Arc<LocalSegment>) {
    let listen = ListenAddress::Ip(Ipv4Addr::LOCALHOST.into());
    let config = TcpConfig { listen, max_version, ..TcpConfig::default() };
    let transport = Arc::new(TcpTransport::new(config));
    let segment = Arc::new(LocalSegment::new());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let (name, offered) =
        (SegmentName::parse("node").expect("a plain word is a name"), Arc::clone(&segment));
    let context = TransportContext { name, segment: offered, sink, incarnation, clock };
    transport.start(context).expect("a port is free");
    (transport, segment)
}

#[derive(Debug)]
struct TcpTarget {
    transport: Arc<TcpTransport>,
    segment: Arc<LocalSegment>,
    te: Option<TeObject>,
}

impl Target for TcpTarget {
    fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    fn segment(&self) -> &Arc<LocalSegment> {
        &self.segment
    }

    fn remote(&self) -> Arc<RemoteSegment> {
        let (_, open) = self.segment.snapshot();
        let listed = open.iter().map(|buffer| BufferDescriptor {
            name: "target".into(),
            addr: buffer.region().address(),
            length: buffer.region().len(),
            te: Some(buffer.id().into()),
            ..BufferDescriptor::default()
        });
        let endpoint = TcpEndpoint::default();
        let mut descriptor = SegmentDescriptor::tcp("target", endpoint, listed.collect());
        descriptor.te.clone_from(&self.te);
        self.transport.describe(&mut descriptor);
        let name = SegmentName::parse("target").expect("a good name");
        let rpc = HostPort::new("127.0.0.1", Some(1)).expect("a good address");
        Arc::new(RemoteSegment::new(SegmentId::from_u64(1), name, rpc, descriptor, 1))
    }

    fn kill(&self) {
        self.transport.close(Instant::now() + Duration::from_secs(10));
    }
}

/// Prints the table, skipped rows with their reasons.
#[track_caller]
fn run(rig: &TcpRig) {
    let report = check(rig);
    println!("{report}");
    report.assert_passed();
}

#[test]
fn version_3_passes_the_conformance_suite() {
    run(&TcpRig { version: 3, te_peer: true });
}

#[test]
fn version_2_passes_the_conformance_suite() {
    run(&TcpRig { version: 2, te_peer: true });
}

#[test]
fn version_2_passes_the_conformance_suite_with_a_peer_that_closes_after_refusals() {
    run(&TcpRig { version: 2, te_peer: false });
}

#[test]
fn version_1_passes_the_conformance_suite() {
    run(&TcpRig { version: 1, te_peer: true });
}
