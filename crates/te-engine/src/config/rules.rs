//! What single settings cannot promise: rules over two of them.

use super::Source;
use super::draft::Draft;
use super::error::SettingProblem;
use super::variables::{Variable, variable};

/// A rule that does not hold.
pub(super) struct Broken {
    /// The settings that go back together.
    pub(super) rows: Vec<&'static Variable>,
    /// As the end of a sentence that begins with the first of them.
    pub(super) reason: String,
}

impl Broken {
    pub(super) fn into_problem(self) -> SettingProblem {
        let key = self.rows.first().map_or("", |row| row.field).to_owned();
        SettingProblem { place: None, key, reason: self.reason }
    }
}

/// The kernel's range for outgoing connections: a listener there can find its port taken.
const EPHEMERAL: std::ops::RangeInclusive<i64> = 32768..=60999;

/// All rules that do not hold.
pub(super) fn broken(draft: &Draft) -> Vec<Broken> {
    [ports(draft), fragments(draft), pieces(draft)].into_iter().flatten().collect()
}

/// The two ends of the range of picked ports; either alone makes no sense.
pub(super) fn is_port_end(row: &Variable) -> bool {
    matches!(row.field, "peer.port_min" | "peer.port_max")
}

fn ports(draft: &Draft) -> Option<Broken> {
    let rows = vec![variable("peer.port_min")?, variable("peer.port_max")?];
    let (min, max) = (draft.integer(rows[0]), draft.integer(rows[1]));
    let reason = if min > max {
        format!("= {min} is above peer.port_max = {max}")
    } else if min <= *EPHEMERAL.end() && max >= *EPHEMERAL.start() {
        format!(
            "= {min} and peer.port_max = {max} overlap the ports of outgoing connections, {} to {}",
            EPHEMERAL.start(),
            EPHEMERAL.end()
        )
    } else {
        return None;
    };
    Some(Broken { rows, reason })
}

fn fragments(draft: &Draft) -> Option<Broken> {
    let row = variable("rdma.fragment_ratio")?;
    let slice = draft.integer(variable("rdma.slice_size_bytes")?);
    let ratio = draft.integer(row);
    if ratio < slice || draft.source(row) == Source::Default {
        return None;
    }
    let reason = format!("= {ratio} is not below rdma.slice_size_bytes = {slice}");
    Some(Broken { rows: vec![row], reason })
}

fn pieces(draft: &Draft) -> Option<Broken> {
    let rows = vec![variable("tcp.min_piece_bytes")?, variable("tcp.max_piece_bytes")?];
    let (min, max) = (draft.integer(rows[0]), draft.integer(rows[1]));
    let reason = format!("= {min} is above tcp.max_piece_bytes = {max}");
    (min > max).then_some(Broken { rows, reason })
}
