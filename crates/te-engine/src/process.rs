//! Which process an engine belongs to. After `fork` the child has the engine's memory but none of
//! its threads, and its locks as they were at that moment: it must not use them (FB52).

use std::process;

use te_segment::ForkMark;

/// The process that built an engine.
#[derive(Debug)]
pub(crate) struct Owner {
    /// Absent where the system has no such thing; then the process is known by its number, which
    /// costs a system call for each look.
    mark: Option<ForkMark>,
    number: u32,
}

impl Owner {
    pub(crate) fn present() -> Self {
        Self { mark: ForkMark::new().ok(), number: process::id() }
    }

    /// Whether the calling process is the one that built the engine.
    pub(crate) fn is_here(&self) -> bool {
        let is_here = match &self.mark {
            Some(mark) => mark.is_here(),
            None => self.number == process::id(),
        };
        is_here || te_metadata::sabotage::is_off("fork-check")
    }
}
