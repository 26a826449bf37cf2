//! The transport passes the suite.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use te_metadata::{
    BufferDescriptor, HostPort, Incarnation, SegmentDescriptor, SegmentName, TcpEndpoint,
};
use te_segment::{LocalSegment, RemoteSegment, SegmentId};
use te_transport::testing::Recorder;
use te_transport::testing::conformance::{Ability, Bounds, Pair, Rig, Target, check};
use te_transport::{SystemClock, Transport, TransportContext};
use toy_transport::{Channel, Hub};

/// Makes pairs that meet in one hub.
#[derive(Default)]
struct ChannelRig {
    hub: Arc<Hub>,
    ports: AtomicU16,
}

impl ChannelRig {
    fn endpoint(&self, sink: Arc<Recorder>) -> (Channel, Arc<LocalSegment>, u16) {
        let port = self.ports.fetch_add(1, Ordering::Relaxed) + 1;
        let (transport, segment) = (Channel::new(&self.hub, port), Arc::new(LocalSegment::new()));
        let clock = Arc::new(SystemClock);
        let incarnation = Incarnation::from_u128(1);
        let (name, offered) = (SegmentName::parse("node"), Arc::clone(&segment));
        let name = name.expect("a plain word is a name");
        let context = TransportContext { name, segment: offered, sink, incarnation, clock };
        transport.start(context).expect("a fresh port is free");
        (transport, segment, port)
    }
}

impl Rig for ChannelRig {
    fn name(&self) -> &str {
        "the toy transport"
    }

    fn pair(&self, recorder: Arc<Recorder>) -> Pair {
        let (initiator, segment, _) = self.endpoint(recorder);
        let (transport, offered, port) = self.endpoint(Recorder::new());
        let hub = Arc::clone(&self.hub);
        let target = Box::new(ChannelTarget { transport, segment: offered, port, hub });
        Pair { initiator: Arc::new(initiator), segment, clock: Arc::new(SystemClock), target }
    }

    fn bounds(&self) -> Bounds {
        let settle = Duration::from_secs(20);
        Bounds { settle, peer_gone: Duration::from_secs(5), overload: 200 }
    }

    fn lacks(&self, _ability: Ability) -> Option<&'static str> {
        None
    }
}

#[derive(Debug)]
struct ChannelTarget {
    transport: Channel,
    segment: Arc<LocalSegment>,
    port: u16,
    hub: Arc<Hub>,
}

impl Target for ChannelTarget {
    fn transport(&self) -> &dyn Transport {
        &self.transport
    }

    fn segment(&self) -> &Arc<LocalSegment> {
        &self.segment
    }

    fn remote(&self) -> Arc<RemoteSegment> {
        let (_, open) = self.segment.snapshot();
        let buffers = open.iter().map(|buffer| BufferDescriptor {
            name: "*".to_owned(),
            addr: buffer.region().address(),
            length: buffer.region().len(),
            ..BufferDescriptor::default()
        });
        let mut descriptor =
            SegmentDescriptor::tcp("target", TcpEndpoint::default(), buffers.collect());
        self.transport.describe(&mut descriptor);
        let name = SegmentName::parse("target").expect("a plain word is a name");
        let rpc = HostPort::new("127.0.0.1", Some(self.port)).expect("a loopback address");
        Arc::new(RemoteSegment::new(SegmentId::from_u64(1), name, rpc, descriptor, 1))
    }

    fn kill(&self) {
        self.hub.cut(self.port);
    }
}

#[test]
fn the_toy_transport_passes() {
    let report = check(&ChannelRig::default());
    println!("{report}");
    report.assert_passed();
}
