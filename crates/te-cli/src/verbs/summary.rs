//! What a transfer ends with: one line, or one JSON object.

use serde_json::{Value, json};

use crate::mover::Moved;
use crate::units;

/// A finished transfer.
pub(super) struct Summary<'a> {
    /// "wrote" or "read".
    pub(super) verb: &'static str,
    /// "to" or "from".
    pub(super) preposition: &'static str,
    pub(super) segment: &'a str,
    pub(super) address: u64,
    pub(super) moved: Moved,
    /// What was compared, if anything.
    pub(super) checked: Option<&'static str>,
}

impl Summary<'_> {
    pub(super) fn line(&self) -> String {
        let Moved { bytes, time, sum } = self.moved;
        let checked = self.checked.map(|what| format!(", {what}")).unwrap_or_default();
        if bytes == 0 {
            return format!(
                "{} nothing {} {}: there was none",
                self.verb, self.preposition, self.segment
            );
        }
        format!(
            "{} {} {} {} at {:#x} in {}: {}, crc32 {sum:08x}{checked}",
            self.verb,
            units::length(bytes),
            self.preposition,
            self.segment,
            self.address,
            units::shown_time(time),
            units::shown_rate(bytes, time),
        )
    }

    pub(super) fn json(&self) -> Value {
        let Moved { bytes, time, sum } = self.moved;
        json!({
            "verb": self.verb,
            "segment": self.segment,
            "address": format!("{:#x}", self.address),
            "bytes": bytes,
            "seconds": time.as_secs_f64(),
            "gigabytes_per_second": units::rate(bytes, time),
            "crc32": format!("{sum:08x}"),
            "checked": self.checked,
        })
    }
}
