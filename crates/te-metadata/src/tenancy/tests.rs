//! The machine on a store in memory, with a clock that the test moves.

use super::carry::carry_out;
use super::*;
use crate::{Incarnation, Lease, MemoryStore, MetadataStore};

const RPC: &str = "mooncake/rpc_meta/a";
const RAM: &str = "mooncake/ram/a";

/// The host: what it composes, whether others live, what it was told.
#[derive(Debug)]
struct Host {
    records: Vec<(String, Arc<[u8]>)>,
    others: OwnerState,
    n_probes: usize,
}

impl TenancyHost for Host {
    fn compose(&mut self) -> Vec<(String, Arc<[u8]>)> {
        self.records.clone()
    }

    fn probe(&mut self, _key: &str, _record: &Record) -> Result<OwnerState, StoreError> {
        self.n_probes += 1;
        Ok(self.others)
    }

    fn event(&mut self, _event: TenancyEvent) {}
}

struct Bench {
    store: MemoryStore,
    lease: Lease,
    machine: Tenancy,
    host: Host,
    now: Instant,
    n_puts: usize,
    is_down: bool,
    /// A key that the service refuses.
    refused: Option<&'static str>,
}

#[expect(clippy::disallowed_methods, reason = "any instant will do as a start")]
fn start() -> Instant {
    Instant::now()
}

fn down() -> StoreError {
    StoreError::Unreachable {
        uri: "memory".into(),
        phase: crate::StorePhase::Connect,
        address: "nowhere".into(),
        source: "it is down".into(),
    }
}

impl Bench {
    fn new(owner: u128) -> Self {
        Self::on(MemoryStore::new(), owner)
    }

    fn on(store: MemoryStore, owner: u128) -> Self {
        // The store has its own clock, so records must not end in the time that a test takes.
        let ttl = Duration::from_secs(3600);
        let lease = Lease { owner: Incarnation::from_u128(owner), ttl };
        let host = Host { records: Vec::new(), others: OwnerState::Gone, n_probes: 0 };
        let machine = Tenancy::new(TenancyTimes::default());
        let (now, n_puts, is_down) = (start(), 0, false);
        let refused = None;
        let mut bench = Self { store, lease, machine, host, now, n_puts, is_down, refused };
        bench.want(&[(RPC, "1"), (RAM, "1")]);
        bench
    }

    fn value(&self, text: &str) -> Vec<u8> {
        format!("{{\"v\":\"{text}\",\"te_incarnation\":\"{}\"}}", self.lease.owner).into_bytes()
    }

    fn want(&mut self, records: &[(&str, &str)]) {
        let record = |(key, text): &(&str, &str)| ((*key).to_owned(), self.value(text).into());
        self.host.records = records.iter().map(record).collect();
        self.machine.touch(self.now);
    }

    /// Carries out what is due now; the steps' names.
    fn run(&mut self) -> Vec<String> {
        let mut steps = Vec::new();
        while let Some(step) = self.machine.poll(self.now) {
            let text = format!("{step:?}");
            steps.push(text.split([' ', '{']).next().unwrap_or_default().to_owned());
            self.n_puts += usize::from(matches!(step, Step::Claim { .. }));
            let answer = if self.is_down && step != Step::Compose {
                Answer::Failed(down())
            } else if matches!(&step, Step::Claim { key, .. } if Some(key.as_str()) == self.refused)
            {
                let (uri, reason) = ("memory".into(), "too large".into());
                Answer::Failed(StoreError::Refused { uri, key: RAM.into(), reason })
            } else {
                carry_out(step, &self.store, &self.lease, &mut self.host)
            };
            self.machine.handle(self.now, answer);
        }
        steps
    }

    /// Lets time pass, from one deadline of the machine to the next.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.run();
            match self.machine.poll_timeout(self.now).filter(|at| *at <= end) {
                Some(at) => self.now = at.max(self.now + Duration::from_millis(1)),
                None => break,
            }
        }
        self.now = end;
        self.run();
    }

    fn events(&mut self) -> Vec<String> {
        let mut events = Vec::new();
        while let Some(event) = self.machine.take_event() {
            let text = format!("{event:?}");
            events.push(text.split([' ', '{']).next().unwrap_or_default().to_owned());
        }
        events
    }

    fn stands(&self, key: &str) -> Option<Vec<u8>> {
        self.store.get(key).unwrap().map(|record| record.value)
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn records_are_put_in_order_and_given_back() {
    let mut bench = Bench::new(1);
    assert_eq!(bench.run(), ["Survey", "Compose", "Claim", "Claim"]);
    assert_eq!(bench.events(), ["Published"]);
    assert_eq!(bench.machine.standing(), Standing::Published);
    assert_eq!(bench.stands(RAM), Some(bench.value("1")));
    bench.machine.leave();
    assert_eq!(bench.run(), ["Release", "Release"]);
    assert!(bench.machine.has_left() && bench.store.is_empty());
    assert_eq!(bench.machine.poll_timeout(bench.now), None);
}

/// Peer fault 20: what is gone is put back within 5 s of the loss.
#[test]
fn fault20_what_is_gone_is_put_back_within_five_seconds() {
    let mut bench = Bench::new(1);
    bench.run();
    bench.pass(17 * SECOND / 10);
    bench.store.remove(RAM).unwrap();
    bench.store.remove(RPC).unwrap();
    bench.pass(5 * SECOND);
    assert_eq!(bench.stands(RPC), Some(bench.value("1")));
    assert_eq!(bench.stands(RAM), Some(bench.value("1")));
    assert_eq!(bench.events(), ["Published", "Missed", "Missed", "Published"]);
}

/// Peer fault 14: the record of a dead owner is replaced after a failed probe.
#[test]
fn fault14_a_dead_owners_record_is_replaced() {
    let mut bench = Bench::new(1);
    bench.store.put(RPC, b"{\"rpc_port\":1}").unwrap();
    bench.run();
    assert_eq!(bench.host.n_probes, 1);
    assert_eq!(bench.stands(RPC), Some(bench.value("1")));
    assert_eq!(bench.machine.standing(), Standing::Published);
}

/// Peer faults 15 and 16: the second claimant of a living name is told so, and deletes nothing.
#[test]
fn fault15_the_second_claimant_is_told_and_deletes_nothing() {
    let mut first = Bench::new(1);
    first.run();
    let mut second = Bench::on(first.store.clone(), 2);
    second.host.others = OwnerState::Alive;
    assert_eq!(second.run(), ["Survey", "Compose", "Claim", "Probe"]);
    assert_eq!(second.events(), ["Taken"]);
    assert_eq!(second.machine.standing(), Standing::Taken);
    second.machine.leave();
    second.run();
    assert!(second.machine.has_left());
    assert_eq!(first.stands(RPC), Some(first.value("1")));
    assert_eq!(first.stands(RAM), Some(first.value("1")));
}

/// Peer fault 16: a Mooncake engine puts over both keys. While it lives the name is lost, which is
/// told once; when it is gone the name is taken back.
#[test]
fn fault16_a_stolen_name_is_told_and_taken_back() {
    let mut bench = Bench::new(1);
    bench.run();
    bench.host.others = OwnerState::Alive;
    let thief = b"{\"rpc_port\":2}";
    bench.store.put(RPC, thief).unwrap();
    bench.store.put(RAM, thief).unwrap();
    bench.pass(30 * SECOND);
    assert_eq!(bench.events(), ["Published", "Missed", "Missed", "Taken"]);
    assert_eq!(bench.machine.standing(), Standing::Taken);
    assert_eq!(bench.stands(RPC).as_deref(), Some(&thief[..]));
    bench.host.others = OwnerState::Gone;
    bench.pass(5 * SECOND);
    assert_eq!(bench.stands(RPC), Some(bench.value("1")));
    assert_eq!(bench.stands(RAM), Some(bench.value("1")));
    assert_eq!(bench.events(), ["Published"]);
}

/// Many changes cost few puts; the first one costs no waiting, the last one is in.
#[test]
fn ten_thousand_changes_cost_tens_of_puts() {
    let mut bench = Bench::new(1);
    bench.run();
    bench.n_puts = 0;
    bench.pass(2 * SECOND);
    for n in 0..10_000 {
        bench.want(&[(RPC, "1"), (RAM, &n.to_string())]);
        bench.pass(Duration::from_millis(1));
        assert!(n > 0 || bench.n_puts == 1, "the first change is published at once");
    }
    bench.pass(2 * SECOND);
    assert!((10..=40).contains(&bench.n_puts), "{} puts in 12 s", bench.n_puts);
    assert_eq!(bench.stands(RAM), Some(bench.value("9999")));
    // After a quiet time the next change is at once again.
    bench.n_puts = 0;
    bench.want(&[(RPC, "1"), (RAM, "last")]);
    bench.run();
    assert_eq!(bench.n_puts, 1);
}

#[test]
fn the_lease_is_renewed_at_a_third() {
    let mut bench = Bench::new(1);
    bench.run();
    let mut renewed = Vec::new();
    for second in 1..=60 {
        bench.now += SECOND;
        if bench.run().contains(&"Renew".to_owned()) {
            renewed.push(second);
        }
    }
    assert_eq!(renewed, [10, 20, 30, 40, 50, 60]);
}

/// A process that was stopped for longer than its lease puts everything again, and knows until
/// then that it may be unknown.
#[test]
fn a_paused_owner_publishes_again() {
    let mut bench = Bench::new(1);
    bench.run();
    assert!(!bench.machine.may_have_ended(bench.now));
    bench.store.remove(RPC).unwrap();
    bench.store.remove(RAM).unwrap();
    bench.now += 120 * SECOND;
    assert!(bench.machine.may_have_ended(bench.now));
    assert_eq!(bench.run()[..3], ["Renew", "Claim", "Claim"]);
    assert!(!bench.machine.may_have_ended(bench.now));
    assert_eq!(bench.events(), ["Published", "LeaseEnded", "Published"]);
}

/// Peer fault 19: while the service is down nothing is lost but time, and it is told once.
#[test]
fn fault19_a_service_that_is_down_is_told_once_and_tried_again() {
    let mut bench = Bench::new(1);
    bench.is_down = true;
    bench.pass(10 * SECOND);
    assert_eq!(bench.machine.standing(), Standing::Failing);
    assert_eq!(bench.events(), ["Failed"]);
    bench.is_down = false;
    bench.pass(SECOND);
    assert_eq!(bench.events(), ["Recovered", "Published"]);
    bench.is_down = true;
    bench.want(&[(RPC, "1"), (RAM, "2")]);
    bench.pass(60 * SECOND);
    bench.is_down = false;
    bench.pass(SECOND);
    assert_eq!(bench.stands(RAM), Some(bench.value("2")));
    assert_eq!(bench.events(), ["Failed", "Recovered"]);
}

/// Peer fault 20: a service that comes back empty gets what it has lost before what is new, so that
/// no reader finds a descriptor whose owner has no address.
#[test]
fn fault20_what_an_emptied_service_lost_comes_before_what_is_new() {
    let mut bench = Bench::new(1);
    bench.run();
    bench.is_down = true;
    bench.want(&[(RPC, "1"), (RAM, "2")]);
    bench.run();
    bench.store.remove(RPC).unwrap();
    bench.store.remove(RAM).unwrap();
    bench.is_down = false;
    bench.now += 2 * SECOND;
    assert_eq!(bench.run(), ["Verify", "Claim", "Claim"]);
    assert_eq!(bench.stands(RPC), Some(bench.value("1")));
    assert_eq!(bench.stands(RAM), Some(bench.value("2")));
}

#[test]
fn chunks_come_before_what_names_them_and_go_after() {
    let mut bench = Bench::new(1);
    bench.want(&[(RPC, "1"), ("chunk/a", "a"), ("chunk/b", "b"), (RAM, "a b")]);
    bench.run();
    bench.pass(2 * SECOND);
    bench.want(&[(RPC, "1"), ("chunk/a", "a"), ("chunk/c", "c"), (RAM, "a c")]);
    bench.n_puts = 0;
    assert_eq!(bench.run(), ["Compose", "Claim", "Claim", "Release"]);
    assert_eq!(bench.n_puts, 2, "what is the same is not put again");
    assert_eq!(bench.stands("chunk/b"), None);
    assert_eq!(bench.stands("chunk/c"), Some(bench.value("c")));
}

#[test]
fn leaving_a_service_that_is_down_ends() {
    let mut bench = Bench::new(1);
    bench.run();
    bench.is_down = true;
    bench.machine.leave();
    bench.run();
    assert!(bench.machine.has_left());
}

/// The thread: published when it is told to, given back when it leaves.
#[test]
fn the_caretaker_publishes_and_gives_back() {
    let store = MemoryStore::new();
    let bench = Bench::on(store.clone(), 3);
    let host = Box::new(bench.host);
    let times = TenancyTimes::default();
    let care = Caretaker::start(Arc::new(store.clone()), bench.lease, times, host).unwrap();
    assert_eq!(care.settle(10 * SECOND), Standing::Published);
    assert_eq!(store.len(), 2);
    care.touch();
    assert_eq!(care.settle(10 * SECOND), Standing::Published);
    assert!(!care.may_have_ended());
    assert!(care.leave(10 * SECOND));
    assert!(store.is_empty());
}

/// A record that the service refuses, as one that is too large, is told once; the others live.
#[test]
fn a_refusal_is_told_once_and_costs_the_others_nothing() {
    let mut bench = Bench::new(1);
    bench.run();
    bench.want(&[(RPC, "1"), (RAM, "too large")]);
    bench.refused = Some(RAM);
    bench.pass(60 * SECOND);
    assert_eq!(bench.events(), ["Published", "Failed"]);
    assert_eq!(bench.machine.standing(), Standing::Failing);
    bench.store.remove(RPC).unwrap();
    bench.pass(6 * SECOND);
    assert_eq!(bench.stands(RPC), Some(bench.value("1")));
    bench.refused = None;
    bench.pass(2 * SECOND);
    assert_eq!(bench.machine.standing(), Standing::Published);
    assert_eq!(bench.stands(RAM), Some(bench.value("too large")));
}
