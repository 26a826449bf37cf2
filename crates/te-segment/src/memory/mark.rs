//! A mark that a forked child does not have.

use std::io;

use super::mapping::{Mapping, Source, page_size};

/// Tells the process that made it from its forked children, without a system call: the kernel shows
/// them zeros in its place (madvise(2), `MADV_WIPEONFORK`, since Linux 4.14).
#[derive(Debug)]
pub struct ForkMark(Mapping);

impl ForkMark {
    /// A mark of this process. Takes one page.
    ///
    /// # Errors
    /// Where the system has no page to spare, or does not know the advice.
    pub fn new() -> io::Result<Self> {
        let mapping = Mapping::new(1, page_size(), Source::Private, true)?;
        mapping.wipe_on_fork()?;
        mapping.set_first(1);
        Ok(Self(mapping))
    }

    /// Whether the calling process made it.
    pub fn is_here(&self) -> bool {
        self.0.first() == 1
    }
}
