//! The affinity matrix: strict reading, lossless printing, order of NICs.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn names(matrix: &PriorityMatrix) -> Vec<&str> {
    matrix.nics().into_iter().map(NicName::as_str).collect()
}

fn rejected(text: &str, location: Option<&str>, says: &str) {
    let error = PriorityMatrix::parse(text).unwrap_err();
    assert_eq!(error.location(), location, "{text}");
    assert!(error.to_string().contains(says), "{text}: {error}");
}

/// D1, J23 (text half): printing then parsing is lossless, for the matrices that were captured.
#[test]
fn d1_captured_matrices_print_as_they_were_read() {
    for text in [
        "{}",
        r#"{"cpu:0":[[],[]]}"#,
        r#"{"cpu:0":[[],["rxe0","rxe1"]]}"#,
        r#"{"cpu:0":[["rxe1"],["rxe0"]],"cpu:1":[["rxe0"],["rxe1"]]}"#,
    ] {
        let matrix = PriorityMatrix::parse(text).unwrap();
        assert_eq!(matrix.to_string(), text);
        assert_eq!(PriorityMatrix::from_value(&matrix.to_value()).unwrap(), matrix);
    }
}

/// D2, K25: every other shape is refused as a whole and the location is named.
#[test]
fn d2_bad_rows_are_refused_by_location() {
    rejected("", None, "no JSON");
    rejected("{", None, "no JSON");
    rejected("[]", None, "an array, expected an object");
    rejected("null", None, "null, expected an object");
    let at = Some("cuda:1");
    rejected(r#"{"cpu:0":[[],[]],"cuda:1":[["a"]]}"#, at, "found 1");
    rejected(r#"{"cpu:0":[[],[]],"cuda:1":[[],[],[]]}"#, at, "found 3");
    rejected(r#"{"cuda:1":{}}"#, at, "an object");
    rejected(r#"{"cuda:1":5}"#, at, "a number");
    rejected(r#"{"cuda:1":["a",[]]}"#, at, "the preferred list is a string");
    rejected(r#"{"cuda:1":[[],null]}"#, at, "the available list is null");
    rejected(r#"{"cuda:1":[["a",7],[]]}"#, at, "entry 1 of the preferred list is a number");
    rejected(r#"{"cuda:1":[[],[""]]}"#, at, "entry 0 of the available list");
}

#[test]
fn limits_are_enforced() {
    let many: Vec<String> = (0..=MAX_NICS_PER_LIST).map(|n| format!("n{n}")).collect();
    let error = PriorityMatrix::from_value(&json!({ "cpu:0": [many, []] })).unwrap_err();
    assert!(error.to_string().contains("1025 NICs"), "{error}");

    let rows: serde_json::Map<String, Value> =
        (0..=MAX_LOCATIONS).map(|n| (format!("cpu:{n}"), json!([[], []]))).collect();
    let error = PriorityMatrix::from_value(&Value::Object(rows)).unwrap_err();
    assert!(matches!(error, MatrixError::TooManyLocations { count: 4097 }), "{error}");

    let long = "x".repeat(MAX_LOCATION_BYTES + 1);
    let error = PriorityMatrix::from_value(&json!({ &long: [[], []] })).unwrap_err();
    assert_eq!(error.location().unwrap().len(), 80);

    let mut matrix = PriorityMatrix::new();
    assert!(matrix.insert(&long, NicTiers::default()).is_err());
    assert_eq!(matrix, PriorityMatrix::new());

    let deep = "[".repeat(100_000);
    assert!(matches!(PriorityMatrix::parse(&deep), Err(MatrixError::Json(_))));
}

/// D3, K12, J25: NICs come in order of first appearance over sorted locations, preferred first.
#[test]
fn d3_nic_order_does_not_depend_on_the_order_of_rows() {
    let text = r#"{"cuda:0":[["n3"],["n0"]],"cpu:1":[["n2"],["n1","n2"]],"cpu:0":[["n1"],["n0"]]}"#;
    let matrix = PriorityMatrix::parse(text).unwrap();
    assert_eq!(names(&matrix), ["n1", "n0", "n2", "n3"]);
    let n2 = NicName::parse("n2").unwrap();
    assert_eq!(matrix.nic_index(&n2), NicIndex::new(2));
    assert_eq!(matrix.nic_index(&NicName::parse("n9").unwrap()), None);
}

/// D4, D8: the wildcard row is every NIC once; rows without NICs leave the matrix empty.
#[test]
fn d4_wildcard_and_d8_emptiness() {
    let matrix = PriorityMatrix::parse(r#"{"cpu:0":[["b"],["a","b"]]}"#).unwrap();
    let wildcard = matrix.wildcard();
    assert_eq!(wildcard.preferred.len(), 2);
    assert!(wildcard.available.is_empty());
    assert!(!matrix.is_empty());
    assert!(PriorityMatrix::parse(r#"{"cpu:0":[[],[]]}"#).unwrap().is_empty());
}

fn any_matrix() -> impl Strategy<Value = PriorityMatrix> {
    let nic = "[a-z0-9_\"\\\\é]{1,8}".prop_map(|text| NicName::parse(&text).unwrap());
    let list = prop::collection::vec(nic, 0..5);
    let tiers =
        (list.clone(), list).prop_map(|(preferred, available)| NicTiers { preferred, available });
    prop::collection::btree_map("\\PC{0,10}", tiers, 0..6).prop_map(|rows| PriorityMatrix { rows })
}

proptest! {
    // Seeds of failures are printed; a counter-proof shall not write files.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn printing_and_parsing_is_lossless(matrix in any_matrix()) {
        let text = matrix.to_string();
        let again = PriorityMatrix::parse(&text).unwrap();
        prop_assert_eq!(&again, &matrix);
        prop_assert_eq!(again.to_string(), text);
    }

    #[test]
    fn arbitrary_text_never_panics(text in "[\\[\\]{}\",:a-z0-9 ]{0,60}") {
        let _ = PriorityMatrix::parse(&text);
    }
}
