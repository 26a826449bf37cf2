//! An etcd of three members, of which one dies or is paused.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use te_metadata::{Claim, Incarnation, Lease, Renewal, StoreOptions};
use te_suites::{TempDir, free_port, need, now, say, wait_until};

use crate::service::{Kind, Service, open, program};

struct Cluster {
    members: Vec<Service>,
}

impl Cluster {
    fn start() -> Self {
        let peers: Vec<u16> = (0..3).map(|_| free_port("127.0.0.1").unwrap()).collect();
        let named = |(n, port): (usize, &u16)| format!("m{n}=http://127.0.0.1:{port}");
        let all: Vec<String> = peers.iter().enumerate().map(named).collect();
        let all = all.join(",");
        let member = |(n, port): (usize, &u16)| {
            let folder = Arc::new(TempDir::new().unwrap());
            let url = format!("http://127.0.0.1:{port}");
            let name = format!("m{n}");
            let more = [
                "--name",
                &name,
                "--listen-peer-urls",
                &url,
                "--initial-advertise-peer-urls",
                &url,
                "--initial-cluster",
                &all,
            ];
            Service::start_in(Kind::Etcd, folder, &more)
        };
        let cluster = Self { members: peers.iter().enumerate().map(member).collect() };
        cluster.members.iter().for_each(Service::wait_until_it_answers);
        cluster
    }

    fn uri(&self) -> String {
        let addresses: Vec<String> = self.members.iter().map(Service::address).collect();
        format!("etcd://{}", addresses.join(","))
    }

    /// Which member leads.
    fn leader(&self) -> Option<usize> {
        self.members.iter().position(|member| {
            let mut command = Command::new(program("etcdctl").unwrap());
            command.env("ETCDCTL_API", "3").args(["--endpoints", &member.address()]);
            let output = command.args(["endpoint", "status", "-w", "fields"]).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let field = |name: &str| {
                let line = text.lines().find(|line| line.starts_with(&format!("\"{name}\"")));
                line.and_then(|line| line.split(':').nth(1)).map(str::trim).map(str::to_owned)
            };
            field("MemberID").is_some() && field("MemberID") == field("Leader")
        })
    }
}

fn survives(test: &str, strike: impl Fn(&mut Service)) {
    need!(test, Kind::Etcd.available());
    need!(test, program("etcdctl"));
    let mut cluster = Cluster::start();
    let store = open(&cluster.uri(), &StoreOptions::default());
    let lease = Lease { owner: Incarnation::random(), ttl: Duration::from_secs(30) };
    let value = format!("{{\"te_incarnation\":\"{}\"}}", lease.owner);
    let claim = || store.claim("mooncake/rpc_meta/a", value.as_bytes(), &lease, None);
    assert!(matches!(claim().unwrap(), Claim::Held(_)));
    let mut watch = store.watch("mooncake/ram/").unwrap();
    let leader = wait_until(Duration::from_secs(10), "a leader", || cluster.leader());
    strike(&mut cluster.members[leader]);
    let begun = now();
    let put = || store.put("mooncake/ram/a", b"{}").ok();
    wait_until(Duration::from_secs(15), "the others take over", put);
    let took = begun.elapsed();
    assert_eq!(store.renew(&lease).unwrap(), Renewal::Kept, "the lease outlives its leader");
    assert!(matches!(claim().unwrap(), Claim::Held(_)));
    assert_eq!(store.get("mooncake/rpc_meta/a").unwrap().unwrap().value, value.as_bytes());
    let seen = || {
        let changes = watch.wait(Duration::from_millis(500)).ok()?;
        (changes.is_reset || !changes.changes.is_empty()).then_some(())
    };
    wait_until(Duration::from_secs(30), "the watch goes on", seen);
    say(&format!("{test}: m{leader} led; the next put was in after {took:?}"));
}

#[test]
fn an_etcd_whose_leader_is_killed_goes_on() {
    survives("an_etcd_whose_leader_is_killed_goes_on", Service::kill);
}

#[test]
fn an_etcd_whose_leader_is_paused_goes_on() {
    survives("an_etcd_whose_leader_is_paused_goes_on", |leader| leader.signal("STOP"));
}
