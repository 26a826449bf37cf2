//! A bounded number of threads for what may wait for a peer or for the kernel.
//!
//! Threads are started when work comes that no idle one takes, and stay.
//!
//! I1  At most `threads` run; at most [`MAX_WAITING`] jobs wait, more are refused.
//! I2  Once stopped nothing more is taken, and what waited is dropped.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use te_sync::Condvar;
use te_transport::Threads;

use crate::sync::Mutex;

/// Jobs that wait at most.
const MAX_WAITING: usize = 1024;

type Job = Box<dyn FnOnce() + Send>;

/// See the module.
pub(crate) struct Pool {
    name: &'static str,
    bound: usize,
    threads: Arc<Threads>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    running: usize,
    idle: usize,
    stopped: bool,
}

impl Pool {
    pub(crate) fn new(name: &'static str, bound: usize, threads: &Arc<Threads>) -> Arc<Self> {
        let (bound, threads) = (bound.max(1), Arc::clone(threads));
        let (state, changed) = (Mutex::default(), Condvar::new());
        Arc::new(Self { name, bound, threads, state, changed })
    }

    /// Runs a job soon. Whether it was taken; dropped otherwise.
    pub(crate) fn run(self: &Arc<Self>, job: impl FnOnce() + Send + 'static) -> bool {
        let mut state = self.state.lock();
        if state.stopped || state.jobs.len() >= MAX_WAITING {
            return false;
        }
        state.jobs.push_back(Box::new(job));
        if state.idle >= state.jobs.len() || state.running == self.bound {
            drop(state);
            self.changed.notify_one();
            return true;
        }
        state.running += 1;
        drop(state);
        let pool = Arc::clone(self);
        if let Err(error) = self.threads.spawn(self.name, move || pool.work()) {
            let mut state = self.state.lock();
            state.running -= 1;
            tracing::warn!(%error, pool = self.name, "no thread for a handshake");
            // Others work the job off, if there are any.
            return state.running > 0 || state.jobs.pop_back().is_none();
        }
        true
    }

    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        let jobs = std::mem::take(&mut state.jobs);
        drop(state);
        self.changed.notify_all();
        drop(jobs);
    }

    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                state.running -= 1;
                return;
            }
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                if ended.is_err() {
                    tracing::error!(pool = self.name, "a handshake panicked");
                }
                state = self.state.lock();
                continue;
            }
            state.idle += 1;
            self.changed.wait(&mut state);
            state.idle -= 1;
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        write!(f, "Pool({}, {} waiting, {} running)", self.name, state.jobs.len(), state.running)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn jobs_run_side_by_side_up_to_the_bound_and_not_after_the_stop() {
        let threads = Arc::new(Threads::default());
        let pool = Pool::new("test", 2, &threads);
        let (started, starts) = mpsc::channel();
        let (go_on, gate) = mpsc::channel::<()>();
        let gate = Arc::new(te_sync::Mutex::new(gate));
        for i in 0..3 {
            let (started, gate) = (started.clone(), Arc::clone(&gate));
            assert!(pool.run(move || {
                started.send(i).unwrap();
                let _ = gate.lock().recv();
            }));
        }
        let patience = Duration::from_secs(30);
        assert_eq!(starts.recv_timeout(patience), Ok(0));
        assert_eq!(starts.recv_timeout(patience), Ok(1));
        go_on.send(()).unwrap();
        assert_eq!(starts.recv_timeout(patience), Ok(2));
        pool.stop();
        assert!(!pool.run(|| ()));
        drop(go_on);
        #[expect(clippy::disallowed_methods, reason = "tests are drivers")]
        let deadline = std::time::Instant::now() + patience;
        assert!(threads.wait_until_none(deadline));
    }
}
