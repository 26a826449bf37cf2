//! docs/sabotage.tsv: switch, package, test filter, what it proves.

use anyhow::{bail, ensure};

/// Where the table is.
pub(crate) const PATH: &str = "docs/sabotage.tsv";

/// One guard that can be switched off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Switch {
    /// The value of `TE_SABOTAGE`.
    pub(crate) name: String,
    /// The package whose tests must notice.
    pub(crate) package: String,
    /// The tests: those whose full name contains one of these words.
    pub(crate) filter: Vec<String>,
    /// What a failing test proves.
    pub(crate) proves: String,
}

/// Reads the table. Lines that begin with `#` are for readers; the first other line is the heading.
pub(crate) fn parse(text: &str) -> anyhow::Result<Vec<Switch>> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    let heading = lines.next().map(|(_, line)| line);
    ensure!(heading == Some("switch\tpackage\tfilter\tproves"), "{PATH} has no heading");
    lines.map(|(index, line)| parse_line(index + 1, line)).collect()
}

fn parse_line(number: usize, line: &str) -> anyhow::Result<Switch> {
    let cells: Vec<&str> = line.split('\t').map(str::trim).collect();
    let [name, package, filter, proves] = cells[..] else {
        bail!("{PATH}:{number}: four cells, {} found", cells.len());
    };
    ensure!(!name.is_empty() && !filter.is_empty(), "{PATH}:{number}: an empty cell");
    let filter = filter.split_whitespace().map(str::to_owned).collect();
    let (name, package, proves) = (name.to_owned(), package.to_owned(), proves.to_owned());
    Ok(Switch { name, package, filter, proves })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    #[test]
    fn four_cells_make_a_switch() {
        let text = "switch\tpackage\tfilter\tproves\nno-range\tte-x\tj1 j2\tranges\n";
        assert_eq!(parse(text).unwrap()[0].filter, ["j1", "j2"]);
        assert!(parse("switch\tpackage\tfilter\tproves\nno-range\tte-x\n").is_err());
        assert!(parse("no-range\tte-x\tj1\tranges\n").is_err());
    }

    #[test]
    fn our_table_names_packages_that_exist() {
        let workspace = Workspace::open().unwrap();
        let text = std::fs::read_to_string(workspace.path(PATH)).unwrap();
        for switch in parse(&text).unwrap() {
            let there = workspace.packages().any(|package| package.name() == switch.package);
            assert!(there, "{} names {}", switch.name, switch.package);
        }
    }
}
