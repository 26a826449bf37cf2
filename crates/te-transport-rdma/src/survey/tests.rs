//! Each finding on a fake fabric, and what two descriptors say of one another.

use std::net::Ipv4Addr;

use te_metadata::{DeviceDescriptor, Incarnation, SegmentDescriptor, TcpEndpoint, TeObject};
use te_topology::{Gid, GidError, GidWish, PriorityMatrix};
use te_verbs::{Fake, FakeDevice, FakeNic, FakePort, GidKind, Mtu, VerbsCall};

use super::*;

fn name(text: &str) -> NicName {
    NicName::parse(text).unwrap()
}

fn host(devices: u8) -> (Fake, Vec<FakeNic>) {
    let fake = Fake::new(1);
    let device = |n: u8| FakeDevice::new(name(&format!("rxe{n}")), [192, 168, 77, n + 1].into());
    let nics = (0..devices).map(|n| fake.add("a", device(n))).collect();
    (fake, nics)
}

fn look(fake: &Fake, config: &RdmaConfig) -> Survey {
    let mut survey = survey(&*fake.host("a"), config).unwrap();
    survey.findings.retain(|finding| !matches!(finding, Finding::LittleMemlock { .. }));
    survey
}

#[test]
fn a_healthy_device_is_shown_whole_and_nothing_is_found() {
    let (fake, nics) = host(1);
    let Survey { devices, findings } = look(&fake, &RdmaConfig::default());
    assert_eq!(findings, []);
    assert_eq!((devices.len(), devices[0].name.as_str()), (1, "rxe0"));
    assert!(devices[0].is_allowed && devices[0].attributes.is_some());
    let port = &devices[0].ports[0];
    assert_eq!((port.number, port.attributes.active_mtu, port.gids.len()), (1, Mtu::B4096, 2));
    assert_eq!(port.gids[0].class, GidClass::OwnDegraded);
    let chosen = port.chosen.as_ref().unwrap();
    assert_eq!((chosen.index, chosen.class), (1, GidClass::OwnRoutable));
    assert_eq!(nics[0].openings(), 0, "it is closed again");
}

#[test]
fn no_device_and_names_of_none_are_fatal() {
    let (fake, _) = host(0);
    assert_eq!(look(&fake, &RdmaConfig::default()).findings, [Finding::NoDevice]);
    let (fake, _) = host(2);
    let nics = vec![name("rxe1"), name("rxe7")];
    let config = RdmaConfig { nics, ..RdmaConfig::default() };
    let Survey { devices, findings } = look(&fake, &config);
    let here = vec![name("rxe0"), name("rxe1")];
    assert_eq!(findings, [Finding::UnknownNic { nic: name("rxe7"), here }]);
    assert_eq!(findings[0].severity(), Severity::Fatal);
    let text = "rxe7 is asked for, and there is no such device; there is rxe0, rxe1";
    assert_eq!(findings[0].to_string(), text);
    assert_eq!(devices.iter().map(|d| d.is_allowed).collect::<Vec<_>>(), [false, true]);
    let matrix = PriorityMatrix::parse(r#"{"cpu:0":[["rxe0"],["x"]]}"#).ok();
    let config = RdmaConfig { matrix, ..RdmaConfig::default() };
    assert_eq!(look(&fake, &config).findings.len(), 1);
}

/// One device that is spoiled, and the one thing that is found.
fn found(spoil: impl Fn(&FakeNic), config: &RdmaConfig) -> Finding {
    let (fake, nics) = host(1);
    spoil(&nics[0]);
    let mut findings = look(&fake, config).findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    let finding = findings.remove(0);
    assert_eq!(finding.nic(), Some(&name("rxe0")));
    assert!(!finding.advice().is_empty());
    finding
}

#[test]
fn what_is_wrong_with_a_device_is_named() {
    let usual = RdmaConfig::default();
    let opening = found(|nic| nic.fail_call(VerbsCall::Open, 0, libc::EACCES), &usual);
    assert!(matches!(opening, Finding::CannotOpen { ref cause, .. } if cause.errno == Some(13)));
    let reading = found(|nic| nic.fail_call(VerbsCall::QueryPort, 0, libc::EIO), &usual);
    assert!(matches!(reading, Finding::CannotRead { port: 1, .. }), "{reading:?}");
    let down = found(|nic| nic.port_down(1), &usual);
    assert!(matches!(down, Finding::PortDown { port: 1, state: PortState::Down, .. }), "{down:?}");
    assert_eq!(down.severity(), Severity::Nic);
    let mut config = RdmaConfig::default();
    config.device.port = 3;
    let no_port = Finding::NoSuchPort { nic: name("rxe0"), port: 3, ports: 1 };
    assert_eq!(found(|_| {}, &config), no_port);
    let mut config = RdmaConfig::default();
    config.device.pkey_index = 1;
    let no_pkey = Finding::NoSuchPkey { nic: name("rxe0"), index: 1, rows: 1 };
    assert_eq!(found(|_| {}, &config), no_pkey);
}

#[test]
fn a_device_without_completion_vectors_is_named() {
    let fake = Fake::new(1);
    let mut mute = FakeDevice::new(name("rxe0"), Ipv4Addr::new(192, 168, 77, 1));
    mute.attributes.completion_vectors = 0;
    fake.add("a", mute);
    let mute = Finding::NoCompletionVector { nic: name("rxe0") };
    assert_eq!(look(&fake, &RdmaConfig::default()).findings, [mute]);
}

#[test]
fn a_small_mtu_is_named_whether_it_is_the_ports_or_set() {
    let shrink = |nic: &FakeNic| {
        let mut port = FakePort::ethernet(Ipv4Addr::new(192, 168, 77, 1)).attributes;
        port.active_mtu = Mtu::B512;
        nic.set_port(1, port);
    };
    let small = |active| Finding::SmallMtu { nic: name("rxe0"), mtu: Mtu::B512, active };
    assert_eq!(found(shrink, &RdmaConfig::default()), small(Mtu::B512));
    let mut config = RdmaConfig::default();
    config.device.mtu = Mtu::B512;
    assert_eq!(found(|_| {}, &config), small(Mtu::B4096));
    config.device.mtu = Mtu::B1024;
    assert_eq!(look(&host(1).0, &config).findings, []);
}

#[test]
fn fb48_a_gid_that_is_not_there_or_leads_nowhere_is_named() {
    let usual = RdmaConfig::default();
    let none = |cause| Finding::NoGid { nic: name("rxe0"), cause };
    assert_eq!(found(|nic| nic.set_gids(1, Vec::new()), &usual), none(GidError::EmptyTable));
    let asking = |index| {
        let mut config = RdmaConfig::default();
        config.device.gid = GidWish { index: Some(index), ..GidWish::default() };
        config
    };
    assert_eq!(found(|_| {}, &asking(5)), none(GidError::EmptySlot { index: 5 }));
    let out = GidError::OutOfRange { index: 1024, slots: 1024 };
    assert_eq!(found(|_| {}, &asking(1024)), none(out));
    // Row 0 is link-local, whoever chose it.
    let poor = found(|_| {}, &asking(0));
    assert!(matches!(poor, Finding::PoorGid { ref choice, .. } if choice.index == 0), "{poor:?}");
    let row = |kind| te_verbs::GidEntry {
        index: 0,
        gid: Gid::parse("::ffff:10.0.0.1").unwrap(),
        kind,
        interface: 1,
    };
    let old = found(|nic| nic.set_gids(1, vec![row(GidKind::RoceV1)]), &usual);
    assert_eq!(old.severity(), Severity::Advice);
    let fake = Fake::new(1);
    let mut infiniband = FakeDevice::new(name("mlx5_0"), Ipv4Addr::LOCALHOST);
    infiniband.ports = vec![FakePort::infiniband(7)];
    fake.add("a", infiniband);
    assert_eq!(look(&fake, &usual).findings, [], "an InfiniBand GID is what it is");
}

// ---- two descriptors

fn segment(nics: &[(&str, u16, &str)], mtu: u32, queue_pairs: u32) -> SegmentDescriptor {
    let mut descriptor = SegmentDescriptor::tcp("seg", TcpEndpoint::default(), Vec::new());
    let device = |(nic, lid, gid): &(&str, u16, &str)| DeviceDescriptor {
        name: name(nic),
        lid: *lid,
        gid: Gid::parse(gid).unwrap().byte_text(),
    };
    descriptor.part = te_metadata::ProtocolPart::Rdma {
        devices: nics.iter().map(device).collect(),
        buffers: Vec::new(),
        priority_matrix: None,
    };
    let mtus: serde_json::Map<_, _> =
        nics.iter().map(|(nic, ..)| ((*nic).to_owned(), mtu.into())).collect();
    let part = serde_json::json!({ "fences": true, "queue_pairs": queue_pairs, "mtu": mtus });
    let mut te = TeObject::new(Incarnation::random());
    te.transports.insert("rdma".into(), part);
    descriptor.te = Some(te);
    descriptor
}

const V4: &str = "::ffff:192.168.77.1";

#[test]
fn equal_segments_have_nothing_between_them() {
    let ours = segment(&[("rxe0", 0, V4), ("rxe1", 0, V4)], 4096, 2);
    assert_eq!(compare(&ours, &ours), []);
}

#[test]
fn what_is_in_the_way_of_two_segments_is_named() {
    let ours = segment(&[("rxe0", 0, V4)], 4096, 2);
    let said = |theirs: &SegmentDescriptor| {
        compare(&ours, theirs).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let tcp = SegmentDescriptor::tcp("plain", TcpEndpoint::default(), Vec::new());
    assert_eq!(said(&tcp), ["plain offers tcp, not rdma"]);
    let infiniband = segment(&[("mlx5_0", 9, "fe80::2")], 4096, 2);
    assert_eq!(said(&infiniband), ["rxe0 and mlx5_0 have links of different kinds"]);
    let local = segment(&[("rxe1", 0, "fe80::2"), ("rxe2", 0, "fd00::1")], 4096, 2);
    let expected = [
        "the GID of rxe0 is an IPv4 address, that of rxe1 is link-local",
        "the GID of rxe0 is an IPv4 address, that of rxe2 is an IPv6 address",
    ];
    assert_eq!(said(&local), expected);
    let small = segment(&[("rxe1", 0, V4)], 1024, 8);
    let expected = [
        "connections have 2 queue pairs at one end and 8 at the other",
        "rxe0 moves 4096 bytes a packet and rxe1 1024",
    ];
    assert_eq!(said(&small), expected);
    let mut wheel = segment(&[("rxe1", 0, V4)], 1024, 8);
    wheel.te = None;
    assert_eq!(said(&wheel), Vec::<String>::new(), "Mooncake tells neither");
}

/// What the transport publishes is what is compared.
#[test]
fn the_published_mtu_is_read_back() {
    let mut te = TeObject::new(Incarnation::random());
    for odd in [serde_json::json!({ "mtu": 7 }), serde_json::json!({ "mtu": { "rxe0": "x" } })] {
        te.transports.insert("rdma".into(), odd);
        assert!(crate::publish::TeFacts::mtus(&te).is_empty());
    }
}
