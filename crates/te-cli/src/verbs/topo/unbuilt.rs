//! What stands in the place of RDMA devices in a build without RDMA.

use serde_json::{Value, json};
use te_engine::{EngineConfig, RdmaAbsence};

use super::wrap::wrapped;

/// That there is nothing, and why.
pub(crate) struct Rdma;

impl Rdma {
    pub(crate) fn look(_config: &EngineConfig) -> Self {
        Self
    }

    /// One line.
    pub(crate) fn table(&self, columns: usize) -> String {
        wrapped("RDMA: ", &RdmaAbsence::NotBuilt.to_string(), columns)
    }

    /// The same shape as with RDMA.
    pub(crate) fn json(&self) -> Value {
        json!({ "absence": RdmaAbsence::NotBuilt.to_string(), "devices": [], "findings": [] })
    }
}
