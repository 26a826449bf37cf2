//! Tables of GIDs and what is chosen of them.

use proptest::prelude::*;

use super::*;

const NDEV: &str = "eth0";

fn entry(index: u16, gid: &str, kind: GidType, interface: Option<&str>) -> GidEntry {
    let interface = interface.map(str::to_owned);
    GidEntry { index, gid: Gid::parse(gid).unwrap(), kind, interface }
}

fn v2(index: u16, gid: &str, interface: Option<&str>) -> GidEntry {
    entry(index, gid, GidType::RoceV2, interface)
}

fn table(entries: Vec<GidEntry>) -> GidTable {
    GidTable { entries, slots: 256 }
}

fn nic() -> NicName {
    NicName::parse("mlx5_0").unwrap()
}

fn chosen(entries: Vec<GidEntry>) -> (u16, GidClass) {
    let choice = choose_gid(&nic(), false, &table(entries), &GidWish::default()).unwrap();
    (choice.index, choice.class)
}

/// FB48: a private range is better than link-local.
#[test]
fn fb48_private_beats_link_local() {
    let entries = vec![v2(0, "fe80::1", Some(NDEV)), v2(1, "::ffff:10.102.9.101", Some(NDEV))];
    assert_eq!(chosen(entries), (1, GidClass::OwnPrivate));
}

/// FB48: another container's address has no interface here, and is not taken before our own.
#[test]
fn fb48_an_address_of_another_container_is_not_taken() {
    let foreign = v2(3, "::ffff:26.208.8.250", None);
    let entries = vec![foreign.clone(), v2(7, "::ffff:26.208.8.252", Some("eth1"))];
    assert_eq!(chosen(entries), (7, GidClass::OwnRoutable));
    let entries = vec![foreign, v2(7, "::ffff:10.0.0.2", Some("eth1"))];
    assert_eq!(chosen(entries), (7, GidClass::OwnPrivate), "even if ours is private");
}

/// FB48: on a NIC with IPv6 only, a global or unique local address is taken, not index 0.
#[test]
fn fb48_ipv6_only_takes_a_routable_one() {
    for address in ["2001:db8::5", "fd00::5"] {
        let entries = vec![v2(0, "fe80::1", Some(NDEV)), v2(2, address, Some(NDEV))];
        assert_eq!(chosen(entries), (2, GidClass::OwnRoutable), "{address}");
    }
}

/// FB48, E12: the second RoCE is better than the first, whatever the order.
#[test]
fn fb48_v2_beats_v1() {
    let v1 = entry(2, "::ffff:192.168.1.5", GidType::RoceV1, Some(NDEV));
    let good = v2(3, "::ffff:192.168.1.5", Some(NDEV));
    assert_eq!(chosen(vec![v1.clone(), good.clone()]), (3, GidClass::OwnRoutable));
    assert_eq!(chosen(vec![good, v1]), (3, GidClass::OwnRoutable));
}

/// FB48, E13: link-local of IPv4, overlays and loopback are last resorts.
#[test]
fn fb48_degraded_addresses_are_last_resorts() {
    let good = || v2(9, "::ffff:10.0.0.1", Some(NDEV));
    for bad in [
        v2(0, "::ffff:169.254.3.4", Some(NDEV)),
        v2(0, "::ffff:172.17.0.1", Some("docker0")),
        v2(0, "::ffff:192.168.5.1", Some("flannel.1")),
        v2(0, "::ffff:192.168.5.1", Some("tunl0")),
        v2(0, "::ffff:127.0.0.1", Some("lo")),
    ] {
        assert_eq!(chosen(vec![bad.clone(), good()]).0, 9, "{bad:?}");
        assert_eq!(chosen(vec![bad.clone()]), (0, GidClass::OwnDegraded), "{bad:?}");
    }
}

/// FB48: only old types: the first one is taken, and the reason says so.
#[test]
fn fb48_only_v1_is_the_fallback() {
    let v1 = |index| entry(index, "fe80::7", GidType::RoceV1, Some(NDEV));
    assert_eq!(chosen(vec![v1(4), v1(6)]), (4, GidClass::OtherType));
}

/// FB48: the same address twice: the smaller index.
#[test]
fn fb48_duplicates_take_the_smaller_index() {
    let same = |index| v2(index, "::ffff:10.0.0.1", Some(NDEV));
    assert_eq!(chosen(vec![same(5), same(3)]).0, 3);
}

/// FB48, E11: empty tables are an error with a name, and empty slots are no candidates.
#[test]
fn fb48_empty_slots_are_nothing() {
    let empty = || v2(0, "::", Some(NDEV));
    let ask = |entries| choose_gid(&nic(), false, &table(entries), &GidWish::default());
    assert_eq!(ask(vec![]), Err(GidError::EmptyTable));
    assert_eq!(ask(vec![empty()]), Err(GidError::EmptyTable));
    assert_eq!(ask(vec![empty(), v2(255, "fe80::1", Some(NDEV))]).unwrap().index, 255);
}

/// Kernels that do not name interfaces tell nothing by that.
#[test]
fn without_any_interface_none_is_foreign() {
    let entries = vec![v2(0, "fe80::1", None), v2(1, "::ffff:10.0.0.1", None)];
    assert_eq!(chosen(entries), (1, GidClass::OwnPrivate));
}

/// E13: InfiniBand addresses are link-local by nature, and are not the worse for it.
#[test]
fn e13_infiniband_is_not_penalised() {
    let entries = vec![entry(0, "fe80::11:7500:77:cfc8", GidType::RoceV1, None)];
    let choice = choose_gid(&nic(), true, &table(entries), &GidWish::default()).unwrap();
    assert_eq!((choice.index, choice.class), (0, GidClass::OwnRoutable));
}

/// E10, FB48: an index that is asked for wins, one for this NIC before the common one; it must be
/// in the table.
#[test]
fn e10_an_index_that_is_asked_for_wins() {
    let entries = vec![v2(0, "fe80::1", None), v2(1, "::ffff:10.0.0.1", Some(NDEV))];
    let ask = |wish: &GidWish| choose_gid(&nic(), false, &table(entries.clone()), wish);
    let common = |index| GidWish { index: Some(index), ..GidWish::default() };
    let choice = ask(&common(0)).unwrap();
    assert_eq!((choice.index, choice.class), (0, GidClass::Asked));
    assert_eq!(ask(&common(3)), Err(GidError::EmptySlot { index: 3 }));
    assert_eq!(ask(&common(256)), Err(GidError::OutOfRange { index: 256, slots: 256 }));
    let own = GidWish { index: Some(3), per_nic: [(nic(), 1)].into() };
    assert_eq!(ask(&own).unwrap().index, 1);
    let other = GidWish { index: Some(1), per_nic: [("mlx5_1".parse().unwrap(), 9)].into() };
    assert_eq!(ask(&other).unwrap().index, 1);
}

/// E14: what is tried next is the best one that differs from the last.
#[test]
fn e14_the_others_follow_in_their_order() {
    let entries = vec![
        v2(0, "fe80::1", Some(NDEV)),
        v2(1, "::ffff:10.0.0.1", Some(NDEV)),
        v2(2, "::ffff:192.168.0.1", None),
        v2(3, "::ffff:192.168.0.2", Some(NDEV)),
    ];
    let ranked = rank_gids(false, &table(entries));
    let order: Vec<u16> = ranked.iter().map(|choice| choice.index).collect();
    assert_eq!(order, [3, 1, 2, 0]);
    assert!(ranked.iter().all(|choice| choice.others == 3));
}

#[test]
fn j82_every_class_has_its_place_and_its_words() {
    assert!(GidClass::ALL.is_sorted());
    let words: std::collections::BTreeSet<&str> = GidClass::ALL.map(GidClass::reason).into();
    assert_eq!(words.len(), GidClass::ALL.len());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// I1: the order of the table does not matter, and what is chosen is in it and not empty.
    #[test]
    fn the_choice_does_not_depend_on_the_order(
        gids in prop::collection::vec((prop::array::uniform16(any::<u8>()), 0_u8..4, any::<bool>()), 0..12),
        seed in any::<usize>(),
    ) {
        let entries: Vec<GidEntry> = gids.iter().zip(0_u16..).map(|((gid, kind, own), index)| GidEntry {
            index,
            gid: Gid::new(*gid),
            kind: [GidType::Ib, GidType::RoceV1, GidType::RoceV2, GidType::Other][usize::from(*kind)],
            interface: own.then(|| NDEV.to_owned()),
        }).collect();
        let mut turned = entries.clone();
        let n = turned.len().max(1);
        turned.rotate_left(seed % n);
        turned.reverse();
        let ask = |entries: &[GidEntry]| {
            choose_gid(&nic(), false, &table(entries.to_vec()), &GidWish::default())
        };
        let choice = ask(&entries);
        prop_assert_eq!(&choice, &ask(&turned));
        match choice {
            Ok(choice) => prop_assert!(!choice.gid.is_null()),
            Err(error) => {
                prop_assert_eq!(error, GidError::EmptyTable);
                prop_assert!(entries.iter().all(|entry| entry.gid.is_null()));
            }
        }
    }

    #[test]
    fn gids_print_as_sysfs_does(bytes in prop::array::uniform16(any::<u8>())) {
        let gid = Gid::new(bytes);
        prop_assert_eq!(gid.to_string().len(), 39);
        prop_assert_eq!(Gid::parse(&gid.to_string()), Some(gid));
    }
}

/// E27: what descriptors and handshakes carry is 16 bytes; capitals and single digits are read too.
#[test]
fn e27_the_byte_form_is_exactly_16_bytes() {
    let text = "00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:4d:01";
    let gid = Gid::parse_bytes(text).unwrap();
    assert_eq!(gid, Gid::parse("::ffff:192.168.77.1").unwrap());
    assert_eq!(gid.byte_text(), text);
    assert_eq!(Gid::parse_bytes(&text.to_uppercase()), Some(gid));
    assert_eq!(Gid::parse_bytes("0:0:0:0:0:0:0:0:0:0:ff:ff:c0:a8:4d:1"), Some(gid));
    let short = &text[3..];
    let long = format!("{text}:00");
    let doubled = text.replacen("00", "000", 1);
    let signed = text.replacen("00", "+1", 1);
    let empty = text.replacen("00", "", 1);
    for bad in ["", "::", "not a gid", short, &long, &doubled, &signed, &empty, "fe80::1"] {
        assert_eq!(Gid::parse_bytes(bad), None, "{bad}");
    }
}

/// J82, E12, E13: the ranking as a table, the best first; ties keep the order of indices, empty slots
/// are skipped, and what is of another type comes last, in order.
#[test]
fn j82_the_ranking_is_a_table() {
    let entries = vec![
        entry(0, "2001:db8::1", GidType::Other, Some(NDEV)),
        entry(1, "::", GidType::RoceV2, Some(NDEV)),
        v2(2, "fe80::1", None),
        v2(3, "::ffff:172.16.0.1", None),
        v2(4, "::ffff:8.8.8.8", Some("docker0")),
        v2(5, "::ffff:8.8.4.4", None),
        v2(6, "::ffff:100.64.0.1", Some(NDEV)),
        v2(7, "::ffff:192.168.0.1", Some(NDEV)),
        v2(8, "2001:db8::2", Some(NDEV)),
        entry(9, "::ffff:192.168.0.1", GidType::RoceV1, Some(NDEV)),
    ];
    let ranked = rank_gids(false, &table(entries));
    let told: Vec<_> = ranked.iter().map(|choice| (choice.index, choice.class)).collect();
    let expected = [
        (7, GidClass::OwnRoutable),
        (8, GidClass::OwnRoutable),
        (6, GidClass::OwnPrivate),
        (5, GidClass::ForeignRoutable),
        (4, GidClass::OwnDegraded),
        (3, GidClass::ForeignPrivate),
        (2, GidClass::ForeignDegraded),
        (0, GidClass::OtherType),
        (9, GidClass::OtherType),
    ];
    assert_eq!(told, expected);
}

/// J82: a port with old types only takes the first that is not empty; an InfiniBand port is not worse
/// for having no RoCE v2, nor for a link-local prefix.
#[test]
fn j82_old_types_are_a_fallback_and_infiniband_is_none() {
    let old = |index, gid| entry(index, gid, GidType::RoceV1, Some(NDEV));
    let entries = vec![old(0, "::"), old(3, "fe80::3"), old(5, "::ffff:8.8.8.8")];
    assert_eq!(chosen(entries), (3, GidClass::OtherType));
    let subnet = entry(0, "fe80::1", GidType::Ib, None);
    let choice = choose_gid(&nic(), true, &table(vec![subnet]), &GidWish::default()).unwrap();
    assert_eq!((choice.index, choice.class), (0, GidClass::OwnRoutable));
}
