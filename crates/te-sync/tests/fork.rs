//! Processes that fork while their threads wait (FB52).
#![allow(unsafe_code, reason = "fork and waitpid are calls of C; docs/memory-safety.md")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use te_sync::{Condvar, Mutex, RwLock};

/// Threads of the parent that wait, so that their stacks hold whatever a lock puts there.
const WAITERS: usize = 48;
const FORKS: usize = 50;

/// Two threads that hand a number to each other, so that every wake-up counts.
fn hand_over(rounds: u64) {
    let shared = Arc::new((Mutex::new(0_u64), Condvar::new()));
    let other = Arc::clone(&shared);
    let partner = thread::spawn(move || turns(&other, rounds, 1));
    turns(&shared, rounds, 0);
    drop(partner.join());
}

fn turns((number, changed): &(Mutex<u64>, Condvar), rounds: u64, mine: u64) {
    for round in 0..rounds {
        let mut number = number.lock();
        changed.wait_while(&mut number, |number| *number != 2 * round + mine);
        *number += 1;
        changed.notify_all();
    }
}

/// What an engine does when it is made and ended: threads that wait for a bell, and somebody who waits
/// for them to end.
fn ring_and_join() {
    let bell = Arc::new((Mutex::new(false), Condvar::new(), RwLock::new(0)));
    let wait = |bell: Arc<(Mutex<bool>, Condvar, RwLock<i32>)>| {
        move || {
            let mut rung = bell.0.lock();
            while !*rung {
                bell.1.wait_for(&mut rung, Duration::from_secs(3600));
            }
            *bell.2.write() += 1;
        }
    };
    let threads: Vec<_> = (0..8).map(|_| thread::spawn(wait(Arc::clone(&bell)))).collect();
    thread::yield_now();
    *bell.0.lock() = true;
    bell.1.notify_all();
    threads.into_iter().for_each(|thread| drop(thread.join()));
    assert_eq!(*bell.2.read(), 8);
}

/// Runs `work` in a child; gives how that ended, as `waitpid` says it. A child that hangs is ended.
fn in_a_child(work: fn()) -> i32 {
    // SAFETY: the child uses what it makes itself, and the allocator, which glibc makes fit for it.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a call without conditions.
        unsafe { libc::alarm(10) };
        let ended = std::panic::catch_unwind(work);
        // SAFETY: ends the process without running what belongs to the parent.
        unsafe { libc::_exit(i32::from(ended.is_err())) };
    }
    let mut ended = 0;
    // SAFETY: the place is ours.
    unsafe { libc::waitpid(child, &raw mut ended, 0) };
    ended
}

type Bell = Arc<(Mutex<bool>, Condvar)>;

fn wait(bell: &(Mutex<bool>, Condvar), waits: &AtomicUsize) {
    let mut rung = bell.0.lock();
    waits.fetch_add(1, Ordering::SeqCst);
    bell.1.wait_while(&mut rung, |rung| !*rung);
}

#[test]
fn fb52_a_child_loses_no_wake_up_though_threads_of_its_parent_wait() {
    // FB52: what the child makes anew works, whatever the parent's threads were doing. With locks that
    // share a table of waiting threads a few of these children hang.
    let waits = Arc::new(AtomicUsize::new(0));
    let bells: Vec<Bell> = (0..WAITERS).map(|_| Bell::default()).collect();
    let start = |bell: &Bell| {
        let (bell, waits) = (Arc::clone(bell), Arc::clone(&waits));
        thread::spawn(move || wait(&bell, &waits))
    };
    let threads: Vec<_> = bells.iter().map(start).collect();
    while waits.load(Ordering::SeqCst) < WAITERS {
        thread::yield_now();
    }
    for _ in 0..FORKS {
        let work = || {
            ring_and_join();
            hand_over(100);
            ring_and_join();
        };
        assert_eq!(in_a_child(work), 0, "14 is a child that hung");
        hand_over(10);
    }
    for bell in &bells {
        *bell.0.lock() = true;
        bell.1.notify_all();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
