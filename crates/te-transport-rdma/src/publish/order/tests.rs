//! The order holds against Mooncake's walk, whatever the order of its hash map.

use proptest::prelude::*;
use te_topology::{NicName, PriorityMatrix};

use super::*;

fn name(number: usize) -> NicName {
    NicName::parse(&format!("rxe{number}")).unwrap()
}

/// The walk of a peer that numbers NICs by their first appearance: rows in the order `rows`, in each
/// the preferred and then the other NICs.
fn walk(matrix: &PriorityMatrix, rows: &[usize]) -> Vec<NicName> {
    let all: Vec<_> = matrix.rows().collect();
    let mut seen: Vec<NicName> = Vec::new();
    for row in rows {
        let tiers = all[*row].1;
        for nic in tiers.preferred.iter().chain(&tiers.available) {
            if !seen.contains(nic) {
                seen.push(nic.clone());
            }
        }
    }
    seen
}

fn order(active: &[usize], matrix: &str) -> (Vec<String>, String, Preferences) {
    let names: Vec<NicName> = active.iter().map(|number| name(*number)).collect();
    let matrix = PriorityMatrix::parse(matrix).unwrap();
    let order = Order::new(&names.iter().collect::<Vec<_>>(), Some(&matrix));
    let devices = order.places.iter().map(|place| names[*place].to_string()).collect();
    (devices, order.matrix.to_string(), order.preferences)
}

fn check(active: &[usize], matrix: &str, expected: (&[&str], &str, Preferences)) {
    let (devices, told, preferences) = order(active, matrix);
    assert_eq!(devices, expected.0, "{matrix}");
    assert_eq!((told.as_str(), preferences), (expected.1, expected.2), "{matrix}");
}

/// K12, rdma fault 2: opposed preferences have no order of their own, so both rows get one order.
#[test]
fn k12_opposed_preferences_get_one_common_order() {
    let opposed = r#"{"cpu:0":[["rxe1"],["rxe0"]],"cpu:1":[["rxe0"],["rxe1"]]}"#;
    let told = r#"{"cpu:0":[["rxe0","rxe1"],[]],"cpu:1":[["rxe0","rxe1"],[]]}"#;
    check(&[0, 1], opposed, (&["rxe0", "rxe1"], told, Preferences::Lost));
    let told = r#"{"cpu:0":[["rxe1"],[]],"cpu:1":[[],["rxe1"]]}"#;
    check(&[1], opposed, (&["rxe1"], told, Preferences::Kept));
}

/// K12: preferences that contain each other are kept.
#[test]
fn k12_preferences_that_fit_are_kept() {
    let matrix = r#"{"cpu:0":[["rxe1"],["rxe0","rxe2"]],"cpu:1":[["rxe2","rxe1"],["rxe0"]]}"#;
    let told = r#"{"cpu:0":[["rxe1"],["rxe2","rxe0"]],"cpu:1":[["rxe1","rxe2"],["rxe0"]]}"#;
    check(&[0, 1, 2], matrix, (&["rxe1", "rxe2", "rxe0"], told, Preferences::Kept));
}

/// K12: a soft-RoCE host, as the wheel publishes it.
#[test]
fn k12_a_host_without_numa_nodes_is_told_as_it_is() {
    let matrix = r#"{"cpu:0":[[],["rxe0","rxe1"]]}"#;
    check(&[0, 1], matrix, (&["rxe0", "rxe1"], matrix, Preferences::Kept));
    let told = r#"{"cpu:0":[[],["rxe1"]]}"#;
    check(&[1], matrix, (&["rxe1"], told, Preferences::Kept));
}

/// K12: rows that leave out different NICs are completed; a row that lost all its NICs as well.
#[test]
fn k12_rows_with_gaps_are_completed() {
    let matrix = r#"{"cpu:0":[[],["rxe0"]],"cpu:1":[[],["rxe1"]]}"#;
    let told = r#"{"cpu:0":[[],["rxe0","rxe1"]],"cpu:1":[[],["rxe0","rxe1"]]}"#;
    check(&[0, 1], matrix, (&["rxe0", "rxe1"], told, Preferences::Widened));
    let told = r#"{"cpu:0":[[],["rxe1"]],"cpu:1":[[],["rxe1"]]}"#;
    check(&[1], matrix, (&["rxe1"], told, Preferences::Widened));
}

/// K12: a host of which nothing is known, and a NIC that no row names.
#[test]
fn k12_every_active_nic_is_published() {
    let one = r#"{"cpu:0":[[],["rxe0","rxe1"]]}"#;
    check(&[0, 1], "{}", (&["rxe0", "rxe1"], one, Preferences::Kept));
    let matrix = r#"{"cpu:0":[["rxe1"],[]]}"#;
    check(&[0, 1], matrix, (&["rxe1", "rxe0"], matrix, Preferences::Kept));
}

const NICS: usize = 6;

fn list() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(0..NICS, 0..=NICS)
}

fn matrix() -> impl Strategy<Value = PriorityMatrix> {
    proptest::collection::btree_map("[a-z]{2}:[0-3]", (list(), list()), 0..5).prop_map(|rows| {
        let mut matrix = PriorityMatrix::new();
        for (location, (preferred, available)) in rows {
            let names = |list: Vec<usize>| list.into_iter().map(name).collect();
            let tiers = NicTiers { preferred: names(preferred), available: names(available) };
            matrix.insert(&location, tiers).unwrap();
        }
        matrix
    })
}

/// A matrix, the NICs that are active, and an order of rows (the longest there can be).
fn worlds() -> impl Strategy<Value = (PriorityMatrix, Vec<usize>, Vec<usize>)> {
    let active = proptest::sample::subsequence((0..NICS).collect::<Vec<_>>(), 1..=NICS);
    let rows = Just((0..6).collect::<Vec<usize>>()).prop_shuffle();
    (matrix(), active, rows)
}

proptest! {
    // Seeds of failures are printed; a counter-proof shall not write files.
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]

    /// K12, J115: place i of the walk is device i, in whatever order the rows are visited.
    #[test]
    fn k12_every_walk_finds_the_order_of_devices((matrix, active, rows) in worlds()) {
        let names: Vec<NicName> = active.iter().map(|number| name(*number)).collect();
        let order = Order::new(&names.iter().collect::<Vec<_>>(), Some(&matrix));
        let devices: Vec<NicName> = order.places.iter().map(|place| names[*place].clone()).collect();
        let mut sorted = devices.clone();
        sorted.sort();
        prop_assert_eq!(&sorted, &names, "each active NIC once");
        let rows: Vec<usize> =
            rows.into_iter().filter(|row| *row < order.matrix.rows().count()).collect();
        let walked = walk(&order.matrix, &rows);
        prop_assert!(!walked.is_empty());
        prop_assert_eq!(&devices[..walked.len()], &walked[..], "{}", order.matrix);
        // A peer that finds no row for a location takes any NIC, so nothing else must be named.
        prop_assert!(walked.iter().all(|nic| names.contains(nic)));
    }

    /// K12: preferences are lost only where no order of the active NICs fits them.
    #[test]
    fn k12_preferences_are_lost_only_where_no_order_fits((matrix, active, _) in worlds()) {
        let names: Vec<NicName> = active.iter().map(|number| name(*number)).collect();
        let order = Order::new(&names.iter().collect::<Vec<_>>(), Some(&matrix));
        let preferred: Vec<Vec<usize>> = rows(&names.iter().collect::<Vec<_>>(), Some(&matrix))
            .into_iter()
            .map(|row| row.preferred)
            .collect();
        let fits = permutations(active.len()).into_iter().any(|order| {
            preferred.iter().all(|set| order[..set.len()].iter().all(|place| set.contains(place)))
        });
        prop_assert_eq!(order.preferences == Preferences::Lost, !fits);
        if fits && matrix.rows().count() > 0 {
            for (location, tiers) in order.matrix.rows() {
                let mut told = tiers.preferred.clone();
                told.sort();
                let wanted = &matrix.get(location).unwrap().preferred;
                let wanted: Vec<NicName> =
                    names.iter().filter(|nic| wanted.contains(nic)).cloned().collect();
                prop_assert_eq!(told, wanted, "{}", location);
            }
        }
    }
}

fn permutations(n: usize) -> Vec<Vec<usize>> {
    let Some(last) = n.checked_sub(1) else { return vec![Vec::new()] };
    let shorter = permutations(last);
    let longer = |shorter: &Vec<usize>| {
        (0..n).map(|at| [&shorter[..at], &[last], &shorter[at..]].concat()).collect::<Vec<_>>()
    };
    shorter.iter().flat_map(longer).collect()
}
