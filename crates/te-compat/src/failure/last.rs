//! The last failure of each thread, for surfaces that answer with numbers.

use std::cell::RefCell;

use crate::failure::Failure;

thread_local! {
    static LAST: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

/// The last failure of a call on this thread. A call that succeeds leaves it as it is.
pub fn last_failure() -> Option<Failure> {
    LAST.try_with(|last| last.borrow().clone()).ok().flatten()
}

/// Keeps a failure as the last one of this thread.
pub fn set_last_failure(failure: &Failure) {
    // A thread that is ending has no place for it any more.
    let _ = LAST.try_with(|last| last.replace(Some(failure.clone())));
}

/// Forgets the last failure of this thread.
pub fn clear_last_failure() {
    let _ = LAST.try_with(|last| last.take());
}

/// What a call that returns an integer returns: 0, or the code, and the failure is kept (A54).
pub fn answer(result: Result<(), Failure>) -> i32 {
    told(result).map_or_else(|failure| failure.code().as_i32(), |()| 0)
}

/// What a call that returns a status returns: 0, or the code, and the failure is kept (A53).
pub fn answer_status(result: Result<(), Failure>) -> i32 {
    told(result).map_or_else(|failure| failure.code().as_status(), |()| 0)
}

fn told(result: Result<(), Failure>) -> Result<(), Failure> {
    result.inspect_err(set_last_failure)
}
