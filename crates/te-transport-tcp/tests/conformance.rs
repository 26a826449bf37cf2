//! The suite that every transport passes, on loopback, in both protocol versions.
#![allow(clippy::disallowed_methods, reason = "tests are drivers")]
#![allow(clippy::print_stdout, reason = "the table belongs into the test's output")]

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use te_metadata::{
    HostPort, Incarnation, ListenAddress, SegmentDescriptor, SegmentName, TcpEndpoint, TeObject,
};
use te_segment::{LocalSegment, RemoteSegment, SegmentId};
use te_transport::testing::Recorder;
use te_transport::testing::conformance::{Ability, Bounds, Pair, Rig, Target, check};
use te_transport::{Clock, CompletionSink, SystemClock, Transport, TransportContext};
use te_transport_tcp::{TcpConfig, TcpTransport};

#[derive(Debug)]
struct TcpRig {
    force_v1: bool,
    te_peer: bool,
}

impl Rig for TcpRig {
    fn name(&self) -> &str {
        if self.force_v1 { "tcp, version 1" } else { "tcp, version 2" }
    }

    fn pair(&self, recorder: Arc<Recorder>) -> Pair {
        let (initiator, segment) = start(self.force_v1, recorder);
        let (transport, offered) = start(false, Recorder::new());
        let target = Box::new(TcpTarget { transport, segment: offered, te: self.te_peer });
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
        let untold = self.force_v1 && ability == Ability::TellsRefusal;
        untold.then_some("a version 1 target says no by closing")
    }
}

fn start(force_v1: bool, sink: Arc<dyn CompletionSink>) -> (Arc<TcpTransport>, Arc<LocalSegment>) {
    let listen = ListenAddress::Ip(Ipv4Addr::LOCALHOST.into());
    let config = TcpConfig { listen, force_v1, ..TcpConfig::default() };
    let transport = Arc::new(TcpTransport::new(config));
    let segment = Arc::new(LocalSegment::new());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let context = TransportContext { segment: Arc::clone(&segment), sink, clock };
    transport.start(context).expect("a port is free");
    (transport, segment)
}

#[derive(Debug)]
struct TcpTarget {
    transport: Arc<TcpTransport>,
    segment: Arc<LocalSegment>,
    te: bool,
}

impl Target for TcpTarget {
    fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    fn segment(&self) -> &Arc<LocalSegment> {
        &self.segment
    }

    fn remote(&self) -> Arc<RemoteSegment> {
        let mut descriptor = SegmentDescriptor::tcp("target", TcpEndpoint::default(), Vec::new());
        self.transport.describe(&mut descriptor);
        descriptor.te = self.te.then(|| TeObject::new(Incarnation::from_u128(1)));
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
fn version_2_passes_the_conformance_suite() {
    run(&TcpRig { force_v1: false, te_peer: true });
}

#[test]
fn version_2_passes_the_conformance_suite_with_a_peer_that_closes_after_refusals() {
    run(&TcpRig { force_v1: false, te_peer: false });
}

#[test]
fn version_1_passes_the_conformance_suite() {
    run(&TcpRig { force_v1: true, te_peer: true });
}
