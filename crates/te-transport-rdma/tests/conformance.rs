//! The transport passes the suite over a fake fabric.

mod common;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Host, Hub, add_nic, config};
use te_segment::{LocalSegment, RemoteSegment};
use te_transport::testing::Recorder;
use te_transport::testing::conformance::{Ability, Bounds, Pair, Report, Rig, Target, check};
use te_transport::{SystemClock, Transport};
use te_transport_rdma::RdmaConfig;
use te_verbs::{Fake, FakeNic};

/// Makes pairs of hosts, each pair on a fabric of its own.
struct RdmaRig {
    name: String,
    nics: u8,
    config: RdmaConfig,
    seeds: AtomicU32,
}

impl Rig for RdmaRig {
    fn name(&self) -> &str {
        &self.name
    }

    fn pair(&self, recorder: Arc<Recorder>) -> Pair {
        let seed = self.seeds.fetch_add(1, Ordering::Relaxed);
        let (fake, hub) = (Fake::new(seed.into()), Arc::new(Hub::default()));
        for i in 0..self.nics {
            add_nic(&fake, "a", &format!("rxe{i}"), 10 + i);
        }
        let nics = (0..self.nics).map(|i| add_nic(&fake, "b", &format!("mlx{i}"), 20 + i));
        let nics = nics.collect();
        let a = Host::reporting(&fake, &hub, "a", self.config.clone(), recorder);
        let b = Host::new(&fake, &hub, "b", self.config.clone());
        let (initiator, segment) = (Arc::clone(&a.rdma), Arc::clone(&a.segment));
        let target = Box::new(RdmaTarget { host: b, nics, _hosts: Mutex::new(a) });
        Pair { initiator, segment, clock: Arc::new(SystemClock), target }
    }

    fn bounds(&self) -> Bounds {
        let settle = Duration::from_secs(20);
        Bounds { settle, peer_gone: Duration::from_secs(10), overload: 9000 }
    }

    fn lacks(&self, ability: Ability) -> Option<&'static str> {
        let text = "a NIC answers a key that is too old and a right that lacks alike";
        (ability == Ability::TellsRefusal).then_some(text)
    }
}

#[derive(Debug)]
struct RdmaTarget {
    host: Host,
    nics: Vec<FakeNic>,
    /// Lives as long.
    _hosts: Mutex<Host>,
}

impl Target for RdmaTarget {
    fn transport(&self) -> &dyn Transport {
        &*self.host.rdma
    }

    fn segment(&self) -> &Arc<LocalSegment> {
        &self.host.segment
    }

    fn remote(&self) -> Arc<RemoteSegment> {
        self.host.remote()
    }

    fn kill(&self) {
        self.host.hub.remove("b");
        self.nics.iter().for_each(|nic| nic.lose_traffic(1));
    }
}

#[expect(clippy::print_stdout, reason = "the table is the result")]
fn run(nics: u8, change: impl Fn(&mut RdmaConfig)) -> Report {
    let mut config = config();
    change(&mut config);
    let pairs = config.connection.queue_pairs;
    let name = format!("rdma over a fake fabric, {nics} NICs, {pairs} queue pairs");
    let report = check(&RdmaRig { name, nics, config, seeds: AtomicU32::new(1) });
    println!("{report}");
    report
}

#[test]
fn one_nic_passes() {
    run(1, |_| ()).assert_passed();
}

#[test]
fn two_nics_a_side_pass() {
    run(2, |config| config.connection.queue_pairs = 1).assert_passed();
}

#[test]
fn four_nics_with_eight_queue_pairs_of_few_requests_pass() {
    run(4, |config| {
        config.connection.queue_pairs = 8;
        config.connection.max_requests = 4;
        config.memory.max_region = 64 << 10;
    })
    .assert_passed();
}
