//! docs/rows.tsv: issue, row id, suite, test, note.

use anyhow::{bail, ensure};

/// Where the table is.
pub(crate) const PATH: &str = "docs/rows.tsv";

/// One line. The note is for readers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// The issue that asks for it.
    pub(crate) issue: String,
    /// The id that the issue names.
    pub(crate) id: String,
    /// The suite that runs the test.
    pub(crate) suite: String,
    /// The name of the test, from its end as far as it is needed to be the only one; empty if
    /// there is no test yet.
    pub(crate) test: String,
}

/// Reads the table. Lines that begin with `#` are for readers; the first other line is the heading.
pub(crate) fn parse(text: &str) -> anyhow::Result<Vec<Row>> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    let heading = lines.next().map(|(_, line)| line);
    ensure!(heading == Some("issue\trow\tsuite\ttest\tnote"), "{PATH} has no heading");
    let mut rows = Vec::new();
    for (index, line) in lines {
        let cells: Vec<&str> = line.split('\t').map(str::trim).collect();
        let [issue, id, suite, test, _note] = cells[..] else {
            bail!("{PATH}:{}: five cells, {} found", index + 1, cells.len());
        };
        let owned = str::to_owned;
        let row =
            Row { issue: owned(issue), id: owned(id), suite: owned(suite), test: owned(test) };
        rows.push(row);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::required;
    use crate::suites;
    use crate::workspace::Workspace;

    const HEADING: &str = "issue\trow\tsuite\ttest\tnote";

    #[test]
    fn five_cells_make_a_row() {
        let rows = parse(&format!("# x\n{HEADING}\ni\tJ1\tunit\ta::b\t\n")).unwrap();
        assert_eq!((rows[0].id.as_str(), rows[0].test.as_str()), ("J1", "a::b"));
        assert!(parse(&format!("{HEADING}\ni\tJ1\tunit\n")).is_err());
        assert!(parse("i\tJ1\tunit\ta::b\tx\n").is_err());
    }

    #[test]
    fn our_table_has_every_required_id_and_only_known_suites() {
        let workspace = Workspace::open().unwrap();
        let rows = parse(&std::fs::read_to_string(workspace.path(PATH)).unwrap()).unwrap();
        for name in required::names() {
            for id in required::ids(name).unwrap() {
                let there = rows.iter().any(|row| row.issue == name && row.id == id);
                assert!(there, "{name} {id} is missing in {PATH}");
            }
        }
        assert!(rows.iter().all(|row| suites::find(&row.suite).is_ok()));
    }
}
