//! Choices of NICs: rows of the acceptance list, evenness, and properties of random matrices.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn selector(text: &str) -> NicSelector {
    NicSelector::new(&PriorityMatrix::parse(text).unwrap())
}

fn name(text: &str) -> NicName {
    NicName::parse(text).unwrap()
}

fn at(text: &str) -> MemoryLocation {
    MemoryLocation::from(text)
}

fn picker() -> Picker {
    Picker::random(42)
}

/// J26: retries 1 and 2 visit both NICs of a row, also for `*`.
#[test]
fn j26_retries_visit_every_nic() {
    let selector = selector(r#"{"cpu:0":[["a"],["b"]]}"#);
    for location in ["cpu:0", "*"] {
        let pick = |attempt| {
            selector.select(&at(location), attempt, &mut picker()).unwrap().name.to_string()
        };
        assert_eq!([pick(1), pick(2)], ["a", "b"], "{location}");
        assert_eq!(pick(3), "a", "the walk begins again");
    }
}

/// J27: a row without NICs gives an error at every attempt; so does a location without a row.
#[test]
fn j27_rows_without_nics_give_an_error() {
    let selector = selector(r#"{"cpu:0":[[],[]],"cpu:1":[["a"],[]]}"#);
    for attempt in [0, 1, u32::MAX] {
        let error = selector.select(&at("cpu:0"), attempt, &mut picker()).unwrap_err();
        assert_eq!(error, SelectError::NoNic { location: at("cpu:0") });
    }
    let error = selector.select(&at("cpu:7"), 0, &mut picker()).unwrap_err();
    assert_eq!(error, SelectError::UnknownLocation { location: at("cpu:7") });
    assert!(selector.select(&at("segments:4096:"), 0, &mut picker()).is_ok(), "as good as `*`");
}

/// D16: where a location has no row, or its NICs are off, any NIC is taken.
#[test]
fn d16_any_nic_serves_a_location_without_one() {
    let mut selector = selector(r#"{"cpu:0":[["a"],[]],"cpu:1":[["b"],["c"]],"cpu:2":[[],[]]}"#);
    let names = |selector: &NicSelector, location: &str| -> Vec<String> {
        let attempts = 1..=3;
        let pick = |attempt| selector.select_or_any(&at(location), attempt, &mut picker());
        attempts.filter_map(pick).map(|pick| pick.name.to_string()).collect()
    };
    assert_eq!(names(&selector, "cpu:0"), ["a", "a", "a"]);
    for location in ["cpu:2", "cpu:9", "any text", "*"] {
        assert_eq!(names(&selector, location), ["a", "b", "c"], "{location}");
    }
    selector.disable(&name("a"));
    assert_eq!(names(&selector, "cpu:0"), ["b", "c", "b"]);
    for nic in ["b", "c"] {
        selector.disable(&name(nic));
    }
    assert!(names(&selector, "cpu:0").is_empty());
    assert!(selector.select_or_any(&at("*"), 0, &mut picker()).is_none());
}

/// D10: without a preferred NIC the first attempt takes an available one.
#[test]
fn d10_available_nics_stand_in_for_preferred_ones() {
    let selector = selector(r#"{"cpu:0":[[],["a","b"]]}"#);
    let picks: std::collections::BTreeSet<String> = (0..50)
        .map(|seed| {
            let mut picker = Picker::random(seed);
            selector.select(&at("cpu:0"), 0, &mut picker).unwrap().name.to_string()
        })
        .collect();
    assert_eq!(picks.len(), 2);
}

/// J28: a NIC that is off is not found, by row, by `*`, or by hint; D15: indices stay.
#[test]
fn j28_a_nic_that_is_off_is_never_chosen() {
    let mut only = selector(r#"{"cpu:0":[["a"],[]]}"#);
    assert!(only.disable(&name("a")) && !only.disable(&name("z")));
    for location in ["cpu:0", "*"] {
        assert!(only.select(&at(location), 0, &mut picker()).is_err());
        let hinted = only.select_hinted(&at(location), &name("a"), 0, &mut picker());
        assert_eq!(hinted.unwrap_err(), SelectError::NoNic { location: at(location) });
    }
    let mut three = selector(r#"{"cpu:0":[["a","b"],["c"]]}"#);
    three.disable(&name("a"));
    for attempt in 0..20 {
        let pick = three.select(&at("cpu:0"), attempt, &mut picker()).unwrap();
        assert_ne!(pick.name.as_str(), "a");
        assert_eq!(three.nics()[pick.index.position()], *pick.name);
    }
    let pick = three.select_hinted(&at("cpu:0"), &name("c"), 0, &mut picker()).unwrap();
    assert_eq!(pick.index.position(), 2, "the index is that of the full list");
    three.enable(&name("a"));
    assert_eq!(three.select(&at("cpu:0"), 1, &mut picker()).unwrap().name.as_str(), "a");
}

/// J29, D12: a hint is taken for rows of accelerators also, 64 times of 64, whatever the attempt.
#[test]
fn j29_a_hint_is_taken_for_accelerators() {
    let selector = selector(r#"{"cuda:0":[["a","b"],["c"]]}"#);
    for (seed, hint) in (0..64).zip(["a", "b", "c"].iter().cycle()) {
        let mut picker = Picker::random(seed);
        let attempt = u32::try_from(seed % 4).unwrap();
        let pick = selector.select_hinted(&at("cuda:0"), &name(hint), attempt, &mut picker);
        assert_eq!(pick.unwrap().name.as_str(), *hint);
    }
    let pick = selector.select_hinted(&at("cuda:0"), &name("z"), 1, &mut picker()).unwrap();
    assert_eq!(pick.name.as_str(), "a", "a hint that is not there is no hint");
}

/// D13: rules pair NICs for memory of accelerators, among the preferred ones only.
#[test]
fn d13_rules_pair_nics() {
    let (rules, errors) = PeerAffinity::parse(" a = c , b ; bad ; x=; \u{7}=b ;d=q");
    assert_eq!(errors.len(), 3, "{errors:?}");
    let selector = selector(r#"{"cuda:0":[["b","c"],["d"]],"cpu:0":[["d"],[]]}"#);
    let pick = |location: &str, local: &str, attempt| {
        let rule = (&rules, &name(local));
        selector
            .select_paired(&at(location), rule, attempt, &mut picker())
            .unwrap()
            .name
            .to_string()
    };
    assert_eq!([pick("cuda:0", "a", 1), pick("cuda:0", "a", 2)], ["c", "b"], "order of the rule");
    assert_eq!(pick("cpu:0", "a", 0), "d", "host memory has no pairs");
    assert!(["b", "c"].contains(&pick("cuda:0", "d", 0).as_str()), "q is not there");
    assert!(["b", "c"].contains(&pick("cuda:0", "z", 0).as_str()), "no rule");
}

/// J115, K12: whatever the order of a peer's matrix, and with a NIC of it switched off, an index
/// is the place in the list of devices that the peer published, so that it finds the right key.
#[test]
fn j115_keys_are_found_by_name() {
    let published: Vec<NicName> = ["c", "a", "b"].map(name).into();
    let keys = BTreeMap::from([("a", 0xa), ("b", 0xb), ("c", 0xc)]);
    let keys_as_published: Vec<i32> = published.iter().map(|nic| keys[nic.as_str()]).collect();
    for text in [
        r#"{"cpu:0":[["a","b","c"],[]]}"#,
        r#"{"cpu:0":[["b"],["c","a"]]}"#,
        r#"{"cpu:0":[["c"],["b"]]}"#,
        r#"{"cpu:0":[["gone","b"],["a"]]}"#,
    ] {
        let matrix = PriorityMatrix::parse(text).unwrap();
        let selector = NicSelector::with_nics(&matrix, published.clone());
        for attempt in 0..8 {
            for location in ["cpu:0", "*"] {
                let pick = selector.select(&at(location), attempt, &mut picker()).unwrap();
                let key = keys_as_published[pick.index.position()];
                assert_eq!(key, keys[pick.name.as_str()], "{text}");
            }
        }
    }
}

#[test]
fn strict_selection_keeps_to_preferred_nics() {
    let text = r#"{"cpu:0":[["a"],["b"]],"cpu:1":[[],["b"]]}"#;
    let mut strict = selector(text).preferred_only();
    for attempt in 0..5 {
        let pick = strict.select(&at("cpu:0"), attempt, &mut picker()).unwrap();
        assert_eq!(pick.name.as_str(), "a");
    }
    assert_eq!(strict.select(&at("cpu:1"), 0, &mut picker()).unwrap().name.as_str(), "b");
    strict.disable(&name("a"));
    assert!(strict.select(&at("cpu:0"), 0, &mut picker()).is_err(), "not even when a is off");
}

fn counts(n: usize, seed: u64, draws: usize) -> Vec<usize> {
    let nics: Vec<String> = (0..n).map(|nic| format!("\"mlx5_{nic}\"")).collect();
    let selector = selector(&format!(r#"{{"cpu:0":[[{}],["far"]]}}"#, nics.join(",")));
    let mut picker = Picker::random(seed);
    let mut counts = vec![0; n];
    for _ in 0..draws {
        let pick = selector.select(&at("cpu:0"), 0, &mut picker).unwrap();
        counts[pick.index.position()] += 1;
    }
    counts
}

/// FB44: up to eight equal NICs each get within 10 % of an even share of 10,000.
#[test]
fn fb44_equal_nics_share_evenly() {
    for n in 1..=8 {
        for seed in 0..4 {
            let share = 10_000 / n;
            for count in counts(n, seed, 10_000) {
                assert!(count.abs_diff(share) <= share / 10, "{n} NICs, seed {seed}: {count}");
            }
        }
    }
}

/// FB44: beyond eight, χ² is below the value that chance exceeds once in a thousand.
#[test]
fn fb44_many_equal_nics_pass_chi_square() {
    for (n, limit) in [(9, 26.12), (16, 37.70), (32, 61.10), (64, 103.44)] {
        let expected = 10_000.0 / f64::from(n);
        let counts = counts(usize::try_from(n).unwrap(), 1, 10_000);
        let square = |count: usize| {
            let off = f64::from(u32::try_from(count).unwrap()) - expected;
            off * off / expected
        };
        let chi: f64 = counts.into_iter().map(square).sum();
        assert!(chi < limit, "{n} NICs: {chi}");
    }
}

/// D11: in turn, every NIC gets exactly its share.
#[test]
fn d11_in_turn_is_exactly_even() {
    let selector = selector(r#"{"cpu:0":[["a","b","c"],[]]}"#);
    let mut picker = Picker::in_turn(1);
    let picks: String = (0..6)
        .map(|_| selector.select(&at("cpu:0"), 0, &mut picker).unwrap().name.to_string())
        .collect();
    assert_eq!(picks, "bcabca");
}

#[test]
fn a_seed_gives_one_sequence() {
    assert_eq!(counts(5, 9, 100), counts(5, 9, 100));
    assert_ne!(counts(5, 9, 100), counts(5, 10, 100));
    assert_eq!(Picker::random(1).pick(0), None);
    assert_eq!(Picker::in_turn(u64::MAX).pick(3), Some(0));
}

fn any_matrix() -> impl Strategy<Value = PriorityMatrix> {
    let list = || prop::collection::vec(0_u8..6, 0..5);
    let row = (list(), list());
    prop::collection::btree_map("cpu:[0-3]", row, 0..4).prop_map(|rows| {
        let mut matrix = PriorityMatrix::new();
        let names = |list: Vec<u8>| list.into_iter().map(|n| name(&format!("n{n}"))).collect();
        for (location, (preferred, available)) in rows {
            let tiers = NicTiers { preferred: names(preferred), available: names(available) };
            matrix.insert(&location, tiers).unwrap();
        }
        matrix
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// I1 to I3 for random matrices, lists and NICs that are off.
    #[test]
    fn choices_are_of_the_row_on_and_complete(
        matrix in any_matrix(),
        published in prop::collection::vec(0_u8..8, 0..10),
        off in prop::collection::btree_set(0_u8..8, 0..4),
        seed in any::<u64>(),
    ) {
        let published: Vec<NicName> = published.iter().map(|n| name(&format!("n{n}"))).collect();
        let off: Vec<NicName> = off.iter().map(|n| name(&format!("n{n}"))).collect();
        let mut selector = NicSelector::with_nics(&matrix, published.clone());
        off.iter().for_each(|nic| { selector.disable(nic); });
        let mut picker = Picker::random(seed);
        for (location, tiers) in matrix.rows() {
            let usable = |nic: &&NicName| published.contains(nic) && !off.contains(nic);
            let set = |list: &[NicName]| -> std::collections::BTreeSet<NicName> {
                list.iter().filter(usable).cloned().collect()
            };
            let (preferred, available) = (set(&tiers.preferred), set(&tiers.available));
            let all = &preferred | &available;
            let location = at(location);
            match selector.select(&location, 0, &mut picker) {
                Ok(pick) => {
                    let from = if preferred.is_empty() { &available } else { &preferred };
                    prop_assert!(from.contains(pick.name));
                    prop_assert_eq!(&published[pick.index.position()], pick.name);
                }
                Err(_) => prop_assert!(all.is_empty()),
            }
            let walked: std::collections::BTreeSet<NicName> = (1..=u32::try_from(all.len()).unwrap())
                .map(|attempt| selector.select(&location, attempt, &mut picker).unwrap().name.clone())
                .collect();
            prop_assert_eq!(walked, all, "each once");
        }
    }

    #[test]
    fn any_text_of_rules_is_read(text in "[a-c=,; ]{0,30}|\\PC{0,30}") {
        PeerAffinity::parse(&text);
    }
}
