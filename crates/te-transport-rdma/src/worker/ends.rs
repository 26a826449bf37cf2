//! How many slices are taken, and who waits for room.
//!
//! I1  Taken and not ended slices never exceed the bound.
//! I2  Whoever was turned away is told of room once half of it is free: the one that turns away looks
//!     again after it has left its name.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use te_segment::SegmentId;
use te_transport::CompletionSink;

use crate::sync::Mutex;

/// See the module.
#[derive(Debug)]
pub(crate) struct Admission {
    bound: usize,
    taken: AtomicUsize,
    wanted: AtomicBool,
    left_behind: Mutex<Vec<SegmentId>>,
}

impl Admission {
    pub(crate) fn new(bound: usize) -> Self {
        let (taken, wanted) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { bound: bound.max(1), taken, wanted, left_behind: Mutex::default() }
    }

    /// Takes a place; false where there is none.
    pub(crate) fn take(&self) -> bool {
        let before = self.taken.fetch_add(1, Ordering::SeqCst);
        if before >= self.bound {
            self.taken.fetch_sub(1, Ordering::SeqCst);
            return false;
        }
        true
    }

    /// Gives places back.
    pub(crate) fn on_ended(&self, n: usize) {
        self.taken.fetch_sub(n, Ordering::SeqCst);
    }

    /// Somebody was turned away. Whether there is room already, so that a worker has to tell.
    pub(crate) fn leave_behind(&self, peer: SegmentId) -> bool {
        let mut left_behind = self.left_behind.lock();
        if !left_behind.contains(&peer) {
            left_behind.push(peer);
        }
        self.wanted.store(true, Ordering::SeqCst);
        self.has_room()
    }

    fn has_room(&self) -> bool {
        self.taken.load(Ordering::SeqCst) <= self.bound / 2
    }

    /// Tells those that were turned away, where there is room.
    pub(crate) fn tell_room(&self, sink: &dyn CompletionSink) {
        if !self.wanted.load(Ordering::SeqCst) || !self.has_room() {
            return;
        }
        let told = {
            let mut left_behind = self.left_behind.lock();
            self.wanted.store(false, Ordering::SeqCst);
            std::mem::take(&mut *left_behind)
        };
        told.into_iter().for_each(|peer| sink.room(peer));
    }
}

#[cfg(test)]
mod tests {
    use te_transport::testing::Recorder;

    use super::*;

    #[test]
    fn who_is_turned_away_is_told_once_half_is_free() {
        let (admission, sink) = (Admission::new(4), Recorder::new());
        assert!((0..4).all(|_| admission.take()) && !admission.take());
        assert!(!admission.leave_behind(SegmentId::from_u64(1)));
        assert!(!admission.leave_behind(SegmentId::from_u64(1)));
        admission.on_ended(1);
        admission.tell_room(&*sink);
        assert_eq!(sink.rooms(), 0);
        admission.on_ended(1);
        admission.tell_room(&*sink);
        admission.tell_room(&*sink);
        assert_eq!(sink.rooms(), 1);
        assert!(admission.leave_behind(SegmentId::from_u64(2)), "there is room already");
    }
}
