//! Commands about what the engine publishes in a metadata service, and what it knows of others.

use serde_json::{Value, json};
use te_engine::{Region, RegisterOptions};

use crate::commands::{Node, Refusal, refusal, text, word};
use crate::transfer::millis;

impl Node {
    /// The commands of this file.
    pub(crate) fn dispatch_publication(&mut self, c: &Value) -> Result<Value, Refusal> {
        match text(c, "op")? {
            "publication" => Ok(json!({ "is": self.standing() })),
            "published" => {
                let patience = millis(c, "timeout_ms").unwrap_or_default();
                let is_published = self.engine.flush_publication(patience);
                Ok(json!({ "done": is_published, "is": self.standing() }))
            }
            "reg_many" => self.register_many(c),
            "known" => self.known(c),
            _ => {
                let report = self.engine.sync_cache(None);
                Ok(json!({
                    "updated": report.updated, "unchanged": report.unchanged,
                    "failed": report.failed,
                }))
            }
        }
    }

    /// How the records stand, in the engine's word; null where there are none.
    fn standing(&self) -> Option<String> {
        self.engine.publication().map(|standing| format!("{standing:?}"))
    }

    /// Maps `n` buffers of `len` bytes, one behind the other with as much between them, and
    /// registers them: in one call, or each in its own.
    fn register_many(&mut self, c: &Value) -> Result<Value, Refusal> {
        let (n, len) = (word(c, "n")?, word(c, "len")?);
        let all = self.memory.map(2 * n * len).map_err(|why| (-1, why))?;
        let part = |i: u64| all.subregion(2 * i * len, len);
        let parts = (0..n).map(part).collect::<Result<Vec<Region>, _>>();
        let parts = parts.map_err(|error| (-1, error.to_string()))?;
        let wanted: Vec<_> =
            parts.into_iter().map(|part| (part, RegisterOptions::default())).collect();
        let at_once = if c["one_by_one"] == true { 1 } else { wanted.len().max(1) };
        for some in wanted.chunks(at_once) {
            self.engine.register_batch(some).map_err(|error| refusal(error.into()))?;
        }
        Ok(json!({ "addr": all.address() }))
    }

    /// What is known of a segment, without asking anybody if it is open: how many buffers, and
    /// whether one of them starts at `addr`.
    fn known(&self, c: &Value) -> Result<Value, Refusal> {
        let opened = self.engine.open_segment(text(c, "target")?);
        let id = opened.map_err(|error| refusal(error.into()))?;
        let segment =
            self.engine.segment(id).ok_or_else(|| (-1, "nothing is known of it".to_owned()))?;
        let buffers = segment.descriptor().buffers();
        let addr = c["addr"].as_u64();
        let has = buffers.iter().any(|buffer| Some(buffer.addr) == addr);
        Ok(json!({ "buffers": buffers.len(), "has": has }))
    }
}
