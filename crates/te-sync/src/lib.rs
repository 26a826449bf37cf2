//! Locks for processes that fork.
//!
//! Names and calls are those of the crate `parking_lot`, as far as they are used here. There a lock waits by
//! way of one table for the whole process, whose entries lie on the stacks of the waiting threads. A
//! forked child inherits the table; its threads are not there, and their stacks are given to the child's
//! own threads, which destroys the entries: an engine that the child makes for itself loses wake-ups
//! (FB52). Here each lock is a word and a futex of its own.
//!
//! I1  A lock has no state outside of itself: what a forked child makes anew works as if the parent had
//!     never been. A lock that was held or waited for at the moment of the fork must not be used there.
//! I2  None is poisoned: a panic with a lock held releases it.

mod condvar;
mod futex;
mod mutex;
mod rwlock;

pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::RawMutex;
pub use rwlock::RawRwLock;

/// A mutual exclusion. Not fair: a thread that asks again may get it before one that waits.
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;
/// The right to what a [`Mutex`] guards.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
/// A lock for many readers or one writer. A writer that waits keeps new readers out, but not those of
/// `read_recursive`.
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
/// The right to read.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;
/// The right to write.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;
