//! NICs on a fake fabric: opening, events, recovery, addresses.

use std::net::Ipv4Addr;
use std::time::Duration;

use te_topology::{Gid, GidWish, PriorityMatrix};
use te_verbs::{Fake, FakeDevice, FakeNic, GidEntry, GidKind, Mtu, VerbsCall};

use super::open::NicsError;
use super::*;
use crate::config::RdmaConfig;
use crate::sync::locks_taken;

#[expect(clippy::disallowed_methods, reason = "any instant will do as the first")]
fn begin() -> Instant {
    Instant::now()
}

fn name(text: &str) -> NicName {
    NicName::parse(text).unwrap()
}

fn device(number: u8) -> FakeDevice {
    FakeDevice::new(name(&format!("rxe{number}")), Ipv4Addr::new(192, 168, 77, number + 1))
}

/// A fabric whose host "a" has so many NICs.
fn fabric(nics: u8) -> (Fake, Vec<FakeNic>) {
    let fake = Fake::new(1);
    let nics = (0..nics).map(|number| fake.add("a", device(number))).collect();
    (fake, nics)
}

fn open(fake: &Fake, config: &RdmaConfig) -> Result<Nics, NicsError> {
    Nics::open(&*fake.host("a"), config, begin())
}

fn index(position: usize) -> NicIndex {
    NicIndex::new(position).unwrap()
}

fn nothing_missing(_: NicIndex) -> Result<(), Box<str>> {
    Ok(())
}

fn advance(nics: &Nics, nic: usize, now: Instant) -> Vec<NicChange> {
    nics.advance_and_complete(index(nic), now, &nothing_missing).changes
}

impl Nics {
    /// As the thread of devices and that of a NIC that comes back do it.
    pub(crate) fn advance_and_complete(
        &self,
        index: NicIndex,
        now: Instant,
        complete: &dyn Fn(NicIndex) -> Result<(), Box<str>>,
    ) -> Advance {
        let mut step = self.advance(index, now);
        if step.returns {
            let changes = self.on_completed(index, now, complete(index));
            let is_active = changes.contains(&NicChange::Activated);
            step.changes.extend(changes);
            if let Some(cause) = is_active.then(|| complete(index).err()).flatten() {
                step.changes.extend(self.on_lost(index, now, cause));
            }
            // Nothing is due at that time.
            step.deadline = self.advance(index, now - MS).deadline;
        }
        step
    }
}

const MS: Duration = Duration::from_millis(1);

/// J84: without a completion queue or channel nothing is opened.
#[test]
fn j84_zero_queues_or_channels_are_refused_before_a_device_is_opened() {
    let (fake, nics) = fabric(1);
    let mut no_queues = RdmaConfig::default();
    no_queues.device.completion_queues = 0;
    let mut no_channels = RdmaConfig::default();
    no_channels.device.completion_channels = 0;
    for (config, what) in [(no_queues, "queues"), (no_channels, "channels")] {
        // A device that was tried would spend this fault.
        nics[0].fail_call(VerbsCall::Open, 0, libc::EIO);
        let error = open(&fake, &config).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
        let error = open(&fake, &RdmaConfig::default()).unwrap_err();
        assert!(matches!(error, NicsError::AllFailed { .. }), "{error}");
    }
    assert_eq!(nics[0].openings(), 0);
    assert!(open(&fake, &RdmaConfig::default()).is_ok());
}

/// J84, E2: a device that cannot signal completions is not used, and not kept open.
#[test]
fn j84_a_device_without_completion_vectors_is_not_used() {
    let (fake, _) = fabric(1);
    let mut mute = device(1);
    mute.attributes.completion_vectors = 0;
    let mute = fake.add("a", mute);
    let nics = open(&fake, &RdmaConfig::default()).unwrap();
    assert_eq!(mute.openings(), 0);
    let snapshot = nics.snapshot();
    let (_, view) = snapshot.iter().nth(1).unwrap();
    assert_eq!(view.link, Err(NicFault::NoCompletionVector));
}

/// J85: a device that fails keeps its slot, so that the indices of others do not move.
#[test]
fn j85_a_device_that_fails_keeps_its_slot() {
    let (fake, devices) = fabric(3);
    devices[1].fail_call(VerbsCall::Open, 0, libc::ENODEV);
    let nics = open(&fake, &RdmaConfig::default()).unwrap();
    let snapshot = nics.snapshot();
    let active: Vec<_> = snapshot.active().map(|(at, name, _)| (at.position(), name)).collect();
    assert_eq!(active, [(0, &name("rxe0")), (2, &name("rxe2"))]);
    assert_eq!(nics.len(), 3);
    assert!(nics.nic(index(1)).unwrap().device().is_none());
    assert_eq!(nics.named("rxe2").unwrap().index(), index(2));
    assert!(advance(&nics, 1, begin()).is_empty(), "there is nothing to look at");
}

/// E1: when no device can be used the cause of each is told.
#[test]
fn e1_no_usable_device_is_an_error_that_names_each_cause() {
    let (fake, devices) = fabric(2);
    devices[0].fail_call(VerbsCall::Open, 0, libc::EACCES);
    devices[1].port_down(1);
    let at_once = RdmaConfig { wait_for_ports: false, ..RdmaConfig::default() };
    let error = open(&fake, &at_once).unwrap_err().to_string();
    for part in ["rxe0: the device does not answer: ", "rxe1: port 1 is not active"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(matches!(open(&Fake::new(1), &RdmaConfig::default()), Err(NicsError::NoDevice)));
}

/// A port that is down at the start is waited for; what will not pass by itself is not.
#[test]
fn ports_that_are_down_at_the_start_are_waited_for() {
    let (fake, devices) = fabric(2);
    devices.iter().for_each(|device| device.port_down(1));
    let nics = open(&fake, &RdmaConfig::default()).unwrap();
    assert!(!nics.snapshot().has_served() && nics.snapshot().active().next().is_none());
    devices[1].port_up(1);
    let later = begin() + RdmaConfig::default().faults.recover_after * 2;
    assert!(advance(&nics, 1, begin()).is_empty());
    assert_eq!(advance(&nics, 1, later), [NicChange::Activated]);
    assert!(nics.snapshot().has_served() && nics.snapshot().is_active(index(1)));
    devices[0].port_up(1);
    let mut config = RdmaConfig::default();
    config.device.gid = GidWish { index: Some(7), per_nic: [].into() };
    assert!(matches!(open(&fake, &config), Err(NicsError::AllFailed { .. })), "no GID 7 comes");
}

/// rdma fault 9: an unknown device name is a named error, also from the topology.
#[test]
fn rdma_fault09_unknown_names_are_an_error() {
    let (fake, nics) = fabric(2);
    let by_list = RdmaConfig { nics: vec![name("rxe1"), name("rxe9")], ..RdmaConfig::default() };
    let matrix = PriorityMatrix::parse(r#"{"cpu:0":[["rxe9"],["rxe0"]]}"#).unwrap();
    let by_matrix = RdmaConfig { matrix: Some(matrix.clone()), ..RdmaConfig::default() };
    for config in [&by_list, &by_matrix] {
        let error = open(&fake, config).unwrap_err().to_string();
        assert_eq!(error, "there is no RDMA device rxe9; there is rxe0, rxe1");
    }
    assert_eq!(nics[0].openings() + nics[1].openings(), 0);
    let filtered = RdmaConfig { nics: vec![name("rxe0")], matrix: Some(matrix), ..by_list };
    let nics = open(&fake, &filtered).unwrap();
    assert_eq!(nics.iter().map(|nic| nic.name().as_str()).collect::<Vec<_>>(), ["rxe0"]);
}

/// D3: indices follow the topology where there is one.
#[test]
fn d3_indices_follow_the_topology() {
    let (fake, _) = fabric(3);
    let matrix = PriorityMatrix::parse(r#"{"cpu:0":[["rxe2"],["rxe0"]]}"#).unwrap();
    let config = RdmaConfig { matrix: Some(matrix), ..RdmaConfig::default() };
    let nics = open(&fake, &config).unwrap();
    assert_eq!(nics.iter().map(|nic| nic.name().as_str()).collect::<Vec<_>>(), ["rxe2", "rxe0"]);
}

/// FB48, E12: on a soft-RoCE table the routable GID at index 1 is taken; an index that is asked for
/// counts, on that NIC only; one that is absent makes the NIC unusable.
#[test]
fn fb48_the_gid_is_chosen_per_device() {
    let (fake, _) = fabric(2);
    let mut config = RdmaConfig::default();
    config.device.gid = GidWish { index: None, per_nic: [(name("rxe1"), 0)].into() };
    config.device.mtu = Mtu::B1024;
    let nics = open(&fake, &config).unwrap();
    let snapshot = nics.snapshot();
    let links: Vec<NicLink> = snapshot.active().map(|(_, _, link)| *link).collect();
    assert_eq!(links.iter().map(|link| link.gid.index).collect::<Vec<_>>(), [1, 0]);
    let mapped = Gid::parse("::ffff:192.168.77.1").unwrap();
    assert_eq!((links[0].gid.gid, links[0].mtu, links[0].lid), (mapped, Mtu::B1024, 0));
    config.device.gid = GidWish { index: Some(7), per_nic: [(name("rxe1"), 1)].into() };
    let nics = open(&fake, &config).unwrap();
    assert!(!nics.snapshot().is_active(index(0)));
    assert!(nics.snapshot().is_active(index(1)));
}

/// J87: a burst of events is drained at once, whether it concerns us or not.
#[test]
fn j87_a_burst_of_events_is_drained_at_once() {
    let (fake, devices) = fabric(1);
    let nics = open(&fake, &RdmaConfig::default()).unwrap();
    let opened = nics.nic(index(0)).unwrap().device().unwrap();
    assert!(advance(&nics, 0, begin()).is_empty(), "none pending is no fault");
    for number in 0..100 {
        devices[0].announce(DeviceEvent::QueuePairFatal { number });
        devices[0].announce(DeviceEvent::Other(number));
        devices[0].announce(DeviceEvent::PortError { port: 2 });
    }
    let changes = advance(&nics, 0, begin());
    let expected = (0..100).map(|number| NicChange::QueuePairFatal { number });
    assert_eq!(changes, expected.collect::<Vec<_>>());
    assert_eq!(opened.next_event().unwrap(), None);
    assert!(nics.snapshot().is_active(index(0)), "another port's error is not ours");
}

/// J87: events that cannot be read any more end the draining, and the NIC.
#[test]
fn j87_a_device_that_tells_nothing_is_gone() {
    let (fake, devices) = fabric(1);
    let nics = open(&fake, &RdmaConfig::default()).unwrap();
    devices[0].fail_call(VerbsCall::Event, 0, libc::EIO);
    let advance = nics.advance_and_complete(index(0), begin(), &nothing_missing);
    assert!(matches!(&advance.changes[..], [NicChange::Deactivated(NicFault::Gone(_))]));
    assert_eq!(advance.deadline, None);
}

/// E54, E55, rdma fault 6: the NIC leaves with its port, and is back half a second after it.
#[test]
fn e55_a_flapping_port_is_back_soon_after_it_is_active() {
    let (fake, devices) = fabric(2);
    let nics = open(&fake, &RdmaConfig::default()).unwrap();
    let (now, version) = (begin(), nics.version());
    devices[0].port_down(1);
    assert_eq!(advance(&nics, 0, now), [NicChange::Deactivated(NicFault::PortDown { port: 1 })]);
    assert!(!nics.snapshot().is_active(index(0)) && nics.snapshot().is_active(index(1)));
    assert!(nics.version() > version);
    devices[0].port_up(1);
    let flapped = now + 300 * MS;
    let back = nics.advance_and_complete(index(0), flapped, &nothing_missing);
    assert!(back.changes.is_empty());
    assert_eq!(back.deadline, Some(flapped + 500 * MS));
    assert!(advance(&nics, 0, flapped + 499 * MS).is_empty());
    assert_eq!(advance(&nics, 0, flapped + 500 * MS), [NicChange::Activated]);
    assert!(nics.snapshot().is_active(index(0)));
    assert_eq!([0, 1].map(|nic| nics.snapshot().returns(index(nic))), [1, 0]);
}

/// E55: a link that comes back without an event is found too.
#[test]
fn e55_a_port_that_comes_back_silently_is_found() {
    let (fake, devices) = fabric(1);
    let nics = open(&fake, &RdmaConfig::default()).unwrap();
    let now = begin();
    devices[0].port_down(1);
    let down = nics.advance_and_complete(index(0), now, &nothing_missing);
    let deadline = down.deadline.unwrap();
    assert_eq!(deadline, now + Duration::from_secs(5));
    let mut port = device(0).ports[0].attributes;
    port.gid_rows = 16;
    devices[0].set_port(1, port);
    assert_eq!(advance(&nics, 0, deadline), [NicChange::Activated]);
}

/// E55: where memory or the address is not to be had the NIC stays away, and the waits grow.
#[test]
fn e55_looks_that_fail_back_off() {
    let (fake, devices) = fabric(1);
    let nics = open(&fake, &RdmaConfig::default()).unwrap();
    let mut now = begin();
    devices[0].port_down(1);
    advance(&nics, 0, now);
    devices[0].port_up(1);
    let refuse = |_: NicIndex| Err("no room".into());
    let mut waits = Vec::new();
    for _ in 0..7 {
        let step = nics.advance_and_complete(index(0), now, &refuse);
        assert!(step.changes.is_empty());
        let next = step.deadline.unwrap();
        waits.push((next - now).as_millis());
        now = next;
    }
    assert_eq!(waits, [500, 500, 1000, 2000, 4000, 5000, 5000]);
    assert_eq!(advance(&nics, 0, now), [NicChange::Activated]);
}

/// I2: a buffer that came while the NIC came back is registered before anybody relies on it.
#[test]
fn what_is_missing_is_asked_for_again_after_the_news() {
    let (fake, devices) = fabric(1);
    let nics = open(&fake, &RdmaConfig::default()).unwrap();
    let now = begin();
    devices[0].port_down(1);
    advance(&nics, 0, now);
    devices[0].port_up(1);
    advance(&nics, 0, now);
    let asked = std::cell::RefCell::new(Vec::new());
    let complete = |nic: NicIndex| {
        let is_active = nics.snapshot().is_active(nic);
        asked.borrow_mut().push(is_active);
        if is_active { Err("no room".into()) } else { Ok(()) }
    };
    let step = nics.advance_and_complete(index(0), now + 500 * MS, &complete);
    let lost = NicChange::Deactivated(NicFault::Memory("no room".into()));
    assert_eq!(step.changes, [NicChange::Activated, lost]);
    assert_eq!(*asked.borrow(), [false, true]);
    assert_eq!(step.deadline, Some(now + 1000 * MS));
}

/// E54: 32 failures in a row, and no fewer; a success begins the count again.
#[test]
fn e54_failures_in_a_row_make_a_nic_inactive() {
    let (fake, _) = fabric(1);
    let nics = open(&fake, &RdmaConfig::default()).unwrap();
    let now = begin();
    for _ in 0..31 {
        assert_eq!(nics.on_failure(index(0), now), None);
    }
    nics.on_success(index(0));
    for _ in 0..31 {
        assert_eq!(nics.on_failure(index(0), now), None);
    }
    let fault = NicFault::Failures { failures: 32 };
    assert_eq!(nics.on_failure(index(0), now), Some(NicChange::Deactivated(fault)));
    assert!(!nics.snapshot().is_active(index(0)));
    assert_eq!(advance(&nics, 0, now + 500 * MS), [NicChange::Activated]);
}

#[test]
fn a_success_takes_no_lock() {
    let (fake, _) = fabric(1);
    let nics = open(&fake, &RdmaConfig::default()).unwrap();
    let mut reader = nics.reader();
    let before = locks_taken();
    for _ in 0..100 {
        nics.on_success(index(0));
        assert!(!reader.refresh() && reader.is_active(index(0)));
    }
    assert_eq!(locks_taken(), before);
}

fn row(index: u32, address: &str) -> GidEntry {
    GidEntry { index, gid: Gid::parse(address).unwrap(), kind: GidKind::RoceV2, interface: 0 }
}

/// E15: a change of the table that leaves our GID as it is ends no connection; another GID does; an
/// empty table makes the NIC inactive.
#[test]
fn e15_a_changed_gid_ends_connections_and_an_equal_one_does_not() {
    let (fake, devices) = fabric(1);
    let nics = open(&fake, &RdmaConfig::default()).unwrap();
    let now = begin();
    let ours = row(1, "::ffff:192.168.77.1");
    devices[0].set_gids(1, vec![ours, row(2, "fe80::9")]);
    assert!(advance(&nics, 0, now).is_empty());
    devices[0].set_gids(1, vec![row(1, "::ffff:192.168.78.1")]);
    assert_eq!(advance(&nics, 0, now), [NicChange::Moved]);
    let link = *nics.snapshot().link(index(0)).unwrap();
    assert_eq!(link.gid.gid, Gid::parse("::ffff:192.168.78.1").unwrap());
    devices[0].set_gids(1, Vec::new());
    let gone = NicChange::Deactivated(NicFault::Gid(te_topology::GidError::EmptyTable));
    assert_eq!(advance(&nics, 0, now), [gone]);
    devices[0].set_gids(1, vec![ours]);
    assert!(advance(&nics, 0, now).is_empty());
    assert_eq!(advance(&nics, 0, now + 500 * MS), [NicChange::Activated]);
}

/// E15: a subnet manager may give a port another LID.
#[test]
fn e15_another_lid_ends_connections() {
    let (fake, devices) = fabric(1);
    let nics = open(&fake, &RdmaConfig::default()).unwrap();
    let mut port = device(0).ports[0].attributes;
    port.lid = 7;
    devices[0].set_port(1, port);
    devices[0].announce(DeviceEvent::LidChange { port: 1 });
    assert_eq!(advance(&nics, 0, begin()), [NicChange::Moved]);
    assert_eq!(nics.snapshot().link(index(0)).unwrap().lid, 7);
}

/// E54: a device that reports its death does not come back.
#[test]
fn e54_a_dead_device_stays_away() {
    let (fake, devices) = fabric(2);
    let nics = open(&fake, &RdmaConfig::default()).unwrap();
    let now = begin();
    devices[0].die();
    assert_eq!(advance(&nics, 0, now), [NicChange::Deactivated(NicFault::Fatal)]);
    devices[0].announce(DeviceEvent::PortActive { port: 1 });
    let step = nics.advance_and_complete(index(0), now + 100_000 * MS, &nothing_missing);
    assert!(step.changes.is_empty() && step.deadline.is_none());
    devices[1].fail_completion_queues();
    assert_eq!(advance(&nics, 1, now), [NicChange::Deactivated(NicFault::CompletionQueue)]);
    assert_eq!(advance(&nics, 1, now + 500 * MS), [NicChange::Activated]);
}

/// J83, E14: another, untried GID in order of rank; none where the index was asked for; the one in
/// use where somebody else changed it already.
#[test]
fn j83_another_gid_is_one_that_was_not_tried() {
    let fake = Fake::new(1);
    let mut many = device(0);
    let rows = [row(0, "fe80::1"), row(1, "::ffff:192.168.77.1"), row(4, "::ffff:10.0.0.1")];
    many.ports[0].gids = rows.to_vec();
    fake.add("a", many);
    let nics = open(&fake, &RdmaConfig::default()).unwrap();
    let slot = |row: &GidEntry| GidSlot { index: row.index, gid: row.gid };
    let [worst, first, second] = [slot(&rows[0]), slot(&rows[1]), slot(&rows[2])];
    assert_eq!(nics.snapshot().link(index(0)).unwrap().gid, first);
    assert_eq!(nics.other_gid(index(0), first, &[first]).unwrap(), Some(second));
    assert_eq!(nics.snapshot().link(index(0)).unwrap().gid, second);
    assert_eq!(nics.other_gid(index(0), first, &[first]).unwrap(), Some(second), "changed already");
    assert_eq!(nics.other_gid(index(0), first, &[first, second]).unwrap(), None);
    assert_eq!(nics.other_gid(index(0), second, &[first, second]).unwrap(), Some(worst));
    assert_eq!(nics.other_gid(index(0), worst, &[first, second, worst]).unwrap(), None);
    let mut config = RdmaConfig::default();
    config.device.gid = GidWish { index: Some(1), per_nic: Default::default() };
    let nics = open(&fake, &config).unwrap();
    assert_eq!(nics.other_gid(index(0), first, &[first]).unwrap(), None);
}
