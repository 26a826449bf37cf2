//! The row ids that each issue must prove. They stand here and not only in docs/rows.tsv, so that a
//! line that is deleted there is missed.

/// One issue.
struct Issue {
    name: &'static str,
    /// Faults that the real peer was put through, by number.
    faults: &'static [std::ops::RangeInclusive<u32>],
    /// Bugs from the field, by number.
    field_bugs: &'static [u32],
    /// Rows of acceptance, by number.
    acceptance: &'static [std::ops::RangeInclusive<u32>],
    /// Further rows that the tests of the issue name.
    further: &'static [&'static str],
}

const ISSUES: &[Issue] = &[
    Issue {
        name: "skeleton",
        faults: &[1..=2, 9..=9, 11..=12, 21..=27, 29..=33],
        field_bugs: &[1, 5, 9, 13, 14, 15, 18, 28, 32, 49],
        acceptance: &[
            3..=9,
            11..=22,
            31..=34,
            36..=38,
            42..=42,
            44..=47,
            49..=67,
            110..=110,
            112..=112,
            116..=116,
            118..=118,
        ],
        further: &[],
    },
    Issue {
        name: "truth",
        faults: &[1..=12, 21..=33],
        field_bugs: &[3, 4, 10, 25, 26, 29, 31, 33, 35, 36, 38, 39, 54],
        acceptance: &[43..=43, 78..=78, 111..=111, 113..=114, 117..=117],
        further: &[],
    },
    Issue {
        name: "topology",
        faults: &[34..=34],
        field_bugs: &[16, 44, 45, 48],
        acceptance: &[23..=30, 115..=115],
        further: &[
            "D1", "D2", "D3", "D4", "D6", "D7", "D8", "D9", "D10", "D11", "D12", "D13", "D15",
            "E10", "E11", "E12", "E13", "E14", "K12", "K25", "T95g", "T95h", "T95i",
        ],
    },
    Issue {
        name: "metadata",
        faults: &[13..=20],
        field_bugs: &[10, 15, 19, 20, 22, 24, 25, 26, 28],
        acceptance: &[35..=35],
        // B48 is about names of RDMA endpoints and comes with that transport.
        further: &[
            "B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B10", "B11", "B12", "B13", "B14",
            "B40", "B41", "B42", "B43", "B44", "B45", "B46", "B47",
        ],
    },
    Issue {
        name: "fast",
        faults: &[],
        field_bugs: &[11, 40, 41, 42, 57],
        acceptance: &[68..=68],
        further: &[],
    },
    Issue {
        name: "rdma",
        faults: &[3..=4, 13..=13],
        field_bugs: &[44, 48],
        acceptance: &[10..=10, 82..=97],
        // Of what the wire shows of connections.
        further: &["E14", "E22", "E26", "E31", "E32", "E55", "E57", "E58"],
    },
    Issue {
        name: "bindings",
        faults: &[28..=28],
        field_bugs: &[50, 52, 53, 54],
        acceptance: &[77..=77],
        // The calls of C, of the peer's Rust binding, and of Python.
        further: &[
            "A100", "A101", "A102", "A103", "A104", "A105", "A106", "A107", "A108", "A109", "A110",
            "A111", "A112", "A113", "A114", "A115", "A116", "A117", "A118", "A119", "A120", "A121",
            "A130", "A131", "A132", "A133", "A134", "A135", "A136", "A137", "A138", "A139", "A140",
            "A141", "A150", "A151", "A152", "A153", "A154", "A155", "A156", "A157", "A158", "A159",
            "A160", "A161", "A162", "A163", "A164", "A165", "A166",
        ],
    },
];

/// The ids of an issue in the order of the issue, or `None` if there is no such issue.
pub(crate) fn ids(name: &str) -> Option<Vec<String>> {
    let issue = ISSUES.iter().find(|issue| issue.name == name)?;
    let faults = issue.faults.iter().cloned().flatten().map(|n| format!("fault{n:02}"));
    let bugs = issue.field_bugs.iter().map(|n| format!("FB{n:02}"));
    let acceptance = issue.acceptance.iter().cloned().flatten().map(|n| format!("J{n}"));
    let further = issue.further.iter().map(|id| (*id).to_owned());
    Some(faults.chain(bugs).chain(acceptance).chain(further).collect())
}

/// The names of the issues.
pub(crate) fn names() -> Vec<&'static str> {
    ISSUES.iter().map(|issue| issue.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_issue_of_lifecycles_has_all_its_rows() {
        let ids = ids("truth").unwrap();
        assert_eq!(ids.iter().filter(|id| id.starts_with("fault")).count(), 25);
        assert_eq!(ids.iter().filter(|id| id.starts_with("FB")).count(), 13);
        assert_eq!(ids.iter().filter(|id| id.starts_with('J')).count(), 6);
        assert!(
            ["fault12", "fault21", "FB54", "J117"].iter().all(|id| ids.iter().any(|i| i == id))
        );
    }

    #[test]
    fn the_issue_of_speed_has_all_its_rows() {
        assert_eq!(ids("fast").unwrap(), ["FB11", "FB40", "FB41", "FB42", "FB57", "J68"]);
    }

    #[test]
    fn the_issue_of_rdma_has_all_its_rows() {
        let ids = ids("rdma").unwrap();
        assert_eq!(ids.iter().filter(|id| id.starts_with('J')).count(), 17);
        let some = ["fault03", "fault13", "FB44", "FB48", "J10", "J82", "J97"];
        assert!(some.iter().all(|id| ids.iter().any(|i| i == id)));
    }

    #[test]
    fn the_issue_of_bindings_has_all_its_rows() {
        let ids = ids("bindings").unwrap();
        assert_eq!(ids.iter().filter(|id| id.starts_with('A')).count(), 22 + 12 + 17);
        let some = ["fault28", "FB50", "FB54", "J77", "A100", "A121", "A141", "A150", "A166"];
        assert!(some.iter().all(|id| ids.iter().any(|i| i == id)));
    }

    #[test]
    fn the_issue_of_topology_has_all_its_rows() {
        let ids = ids("topology").unwrap();
        assert_eq!(ids.iter().filter(|id| id.starts_with('J')).count(), 9);
        let some = ["fault34", "FB16", "FB44", "J30", "J115", "D10", "T95i"];
        assert!(some.iter().all(|id| ids.iter().any(|i| i == id)));
    }

    #[test]
    fn the_issue_of_metadata_has_all_its_rows() {
        let ids = ids("metadata").unwrap();
        assert_eq!(ids.iter().filter(|id| id.starts_with("fault")).count(), 8);
        assert_eq!(ids.iter().filter(|id| id.starts_with("FB")).count(), 9);
        assert_eq!(
            ids.iter().filter(|id| !id.starts_with("FB") && id.starts_with('B')).count(),
            21
        );
        let some = ["fault13", "FB22", "J35", "B1", "B47"];
        assert!(some.iter().all(|id| ids.iter().any(|i| i == id)));
    }

    #[test]
    fn the_first_issue_has_all_its_rows() {
        let ids = ids("skeleton").unwrap();
        assert_eq!(ids.iter().filter(|id| id.starts_with("fault")).count(), 17);
        assert_eq!(ids.iter().filter(|id| id.starts_with("FB")).count(), 10);
        assert_eq!(ids.iter().filter(|id| id.starts_with('J')).count(), 54);
        assert!(["fault01", "FB09", "J67", "J118"].iter().all(|id| ids.iter().any(|i| i == id)));
    }
}
