//! Counters of an engine, since it was built.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of an engine since it was built.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct EngineStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The same, while they count.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
        }

        impl Counters {
            pub(crate) fn read(&self) -> EngineStats {
                EngineStats { $($name: self.$name.read(),)* }
            }
        }
    };
}

counters! {
    /// Tasks submitted.
    submitted,
    /// Tasks that completed.
    completed,
    /// Tasks that ended otherwise.
    failed,
    /// Bytes of completed tasks.
    bytes,
    /// Pieces that were tried again.
    retries,
    /// Pieces that went over to another transport because the path of theirs failed.
    detours,
    /// Descriptors fetched anew because of a fault or an unknown range.
    refreshes,
    /// Completions for slices that were not in flight; counted, not believed.
    stale_completions,
    /// Notifications that no peer took.
    notify_failures,
    /// Notifications refused because the inbox was full.
    notify_refused,
}

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
