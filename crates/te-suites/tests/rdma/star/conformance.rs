//! The suite that every transport passes, on real verbs.

use std::sync::Arc;
use std::time::Duration;

use te_segment::{LocalSegment, RemoteSegment};
use te_suites::{need, say};
use te_transport::testing::Recorder;
use te_transport::testing::conformance::{Ability, Bounds, Pair, Rig, Target, check};
use te_transport::{SystemClock, Transport};

use crate::host::{Host, config};
use crate::links::nics;
use crate::watched::Watched;

struct Verbs {
    name: String,
    verbs: Watched,
    n_nics: usize,
    n_pairs: u32,
}

impl Rig for Verbs {
    fn name(&self) -> &str {
        &self.name
    }

    fn pair(&self, recorder: Arc<Recorder>) -> Pair {
        let configured = |first: usize| {
            let mut config = config(nics(first..first + self.n_nics));
            config.connection.queue_pairs = self.n_pairs;
            config
        };
        let initiator = Host::at(&self.verbs, configured(0), 0, recorder);
        let target = Host::new(&self.verbs, configured(4));
        let (transport, segment) = (Arc::clone(initiator.rdma()), Arc::clone(initiator.segment()));
        let target = Box::new(Peer { host: target, _initiator: initiator });
        Pair { initiator: transport, segment, clock: Arc::new(SystemClock), target }
    }

    fn bounds(&self) -> Bounds {
        let (settle, peer_gone) = (Duration::from_secs(60), Duration::from_secs(60));
        Bounds { settle, peer_gone, overload: 9000 }
    }

    fn lacks(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::TellsRefusal => {
                Some("a NIC answers a key that is too old and a right that lacks alike")
            }
            Ability::VanishingMemory => Some(
                "registered memory is pinned: a NIC reaches it whatever becomes of its mapping",
            ),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct Peer {
    host: Host,
    /// Its handshake port lives as long.
    _initiator: Host,
}

impl Target for Peer {
    fn transport(&self) -> &dyn Transport {
        &**self.host.rdma()
    }

    fn segment(&self) -> &Arc<LocalSegment> {
        self.host.segment()
    }

    fn remote(&self) -> Arc<RemoteSegment> {
        self.host.remote()
    }

    fn kill(&self) {
        self.host.die();
    }
}

fn run(test: &str, n_nics: usize, n_pairs: u32) {
    let verbs = need!(test, Watched::with_devices(8));
    let name = format!("rdma over soft-RoCE, {n_nics} NICs, {n_pairs} queue pairs");
    let report = check(&Verbs { name, verbs, n_nics, n_pairs });
    say(&format!("{report}"));
    report.assert_passed();
}

#[test]
fn one_nic_passes() {
    run("star::conformance::one_nic_passes", 1, 2);
}

#[test]
fn four_nics_pass() {
    run("star::conformance::four_nics_pass", 4, 1);
}
