//! The table of docs/rdma-faults.md.

use std::collections::BTreeSet;
use std::time::Duration;

use te_transport::Completion;

const TEXT: &str = include_str!("../../../../docs/rdma-faults.md");

/// What may become of a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// How slices may end.
    pub(crate) ends: BTreeSet<String>,
    /// From the fault to the last end.
    pub(crate) within: Duration,
    /// From the moment when the way is whole to the first success.
    pub(crate) after: Duration,
    /// Whether that moment is the fault itself.
    pub(crate) stays_whole: bool,
}

/// The row of a fault with so many NICs a side.
#[track_caller]
pub(crate) fn row(fault: &str, nics: usize) -> Row {
    let name = format!("`{fault}`");
    let cells = TEXT.lines().filter_map(|line| {
        let line = line.strip_prefix('|')?.strip_suffix('|')?;
        Some(line.split('|').map(str::trim).collect::<Vec<_>>())
    });
    let mut found = cells.filter(|cells| {
        cells.len() == 6 && cells[0].starts_with(&name) && cells[1] == nics.to_string()
    });
    let cells = found.next().unwrap_or_else(|| panic!("docs/rdma-faults.md has no {name}"));
    Row {
        ends: cells[2].split(';').map(|end| end.trim().to_owned()).collect(),
        within: seconds(cells[3]),
        stays_whole: match cells[4] {
            "fault" => true,
            "healed" => false,
            other => panic!("`{other}` is no moment"),
        },
        after: seconds(cells[5]),
    }
}

fn seconds(cell: &str) -> Duration {
    let number = cell.strip_suffix(" s").and_then(|number| number.parse().ok());
    Duration::from_secs(number.unwrap_or_else(|| panic!("`{cell}` is no time")))
}

/// An end in the words of the table.
pub(crate) fn words(end: &Completion) -> String {
    match &end.result {
        Ok(()) => "done".to_owned(),
        Err(fault) => format!("{}, {}", format!("{:?}", fault.class).to_lowercase(), end.remote),
    }
}
