//! A value that changes seldom and is read all the time: readers keep a copy, and look at one number
//! to know whether it is still the newest.
//!
//! I1  The number rises with each change, after the value is there. A reader that finds its number
//!     has a value that was the newest when it looked.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sync::Mutex;

/// The value.
pub(crate) struct Published<T> {
    version: AtomicU64,
    value: Mutex<Arc<T>>,
}

impl<T> Published<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { version: AtomicU64::new(1), value: Mutex::new(Arc::new(value)) }
    }

    /// A number that rises with each change.
    pub(crate) fn version(&self) -> u64 {
        // Pairs with the store in `set`.
        self.version.load(Ordering::Acquire)
    }

    /// The value as it is now. Takes a lock; who reads often has a [`Reader`].
    pub(crate) fn load(&self) -> Arc<T> {
        Arc::clone(&self.value.lock())
    }

    /// Replaces the value by one that is made of it.
    pub(crate) fn update(&self, next: impl FnOnce(&T) -> T) {
        let mut current = self.value.lock();
        *current = Arc::new(next(&current));
        // Pairs with the load in `version`. Changes are made under the lock, so none is lost.
        self.version.fetch_add(1, Ordering::Release);
    }

    /// The value with the number that it has.
    fn load_numbered(&self) -> (u64, Arc<T>) {
        let current = self.value.lock();
        (self.version.load(Ordering::Acquire), Arc::clone(&current))
    }
}

impl<T: fmt::Debug> fmt::Debug for Published<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Published({}, {:?})", self.version(), self.load())
    }
}

/// One thread's copy of a published value.
#[derive(Debug)]
pub(crate) struct Reader<T> {
    source: Arc<Published<T>>,
    version: u64,
    value: Arc<T>,
}

impl<T> Reader<T> {
    pub(crate) fn new(source: &Arc<Published<T>>) -> Self {
        let (version, value) = source.load_numbered();
        Self { source: Arc::clone(source), version, value }
    }

    /// Takes the newest value; locks only if there is another one. Says whether there was.
    pub(crate) fn refresh(&mut self) -> bool {
        let is_old = self.source.version() != self.version;
        if is_old {
            (self.version, self.value) = self.source.load_numbered();
        }
        is_old
    }
}

/// What was taken last.
impl<T> Deref for Reader<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::locks_taken;

    #[test]
    fn a_reader_takes_a_lock_only_where_the_value_changed() {
        let source = Arc::new(Published::new(1));
        let mut reader = Reader::new(&source);
        let before = locks_taken();
        for _ in 0..100 {
            assert!(!reader.refresh());
            assert_eq!(*reader, 1);
        }
        assert_eq!(locks_taken(), before);
        source.update(|value| value + 1);
        assert_eq!(*reader, 1, "a copy stays until it is refreshed");
        assert!(reader.refresh());
        assert_eq!(*reader, 2);
        assert!(!reader.refresh());
    }
}
