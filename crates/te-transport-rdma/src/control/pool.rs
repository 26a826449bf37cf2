//! A bounded number of threads for what may wait for a peer or for the kernel.
//!
//! Threads are started when work comes that no idle one takes, and stay.
//!
//! I1  At most `threads` run; at most [`MAX_WAITING`] jobs wait, and [`MAX_OF_ONE`] of one server, more
//!     are refused.
//! I2  Servers take turns, and at most a quarter of the threads works for one of them.
//! I3  Once stopped nothing more is taken, and what waited is dropped.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use te_sync::Condvar;
use te_transport::Threads;

use crate::sync::Mutex;

/// Jobs that wait at most.
const MAX_WAITING: usize = 1024;
/// Those of one server.
const MAX_OF_ONE: usize = 64;
/// One server has so many threads' share.
const SHARES: usize = 4;

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
    /// Those that have something waiting or running.
    servers: HashMap<Box<str>, Server>,
    /// Those that have something waiting; the next one first.
    turns: VecDeque<Box<str>>,
    waiting: usize,
    running: usize,
    idle: usize,
    stopped: bool,
}

#[derive(Default)]
struct Server {
    jobs: VecDeque<Job>,
    running: usize,
}

impl State {
    /// Puts a job in; whether there was room.
    fn put(&mut self, server: &str, job: Job) -> bool {
        let lane = self.servers.get(server);
        let of_one = lane.map_or(0, |lane| lane.jobs.len());
        if self.stopped || self.waiting >= MAX_WAITING || of_one >= MAX_OF_ONE {
            return false;
        }
        if of_one == 0 {
            self.turns.push_back(server.into());
        }
        self.servers.entry(server.into()).or_default().jobs.push_back(job);
        self.waiting += 1;
        true
    }

    /// Takes the next job of the first server that has not its share of threads.
    fn next(&mut self, share: usize) -> Option<(Box<str>, Job)> {
        for _ in 0..self.turns.len() {
            let server = self.turns.pop_front()?;
            let Some(lane) = self.servers.get_mut(&server) else { continue };
            if lane.running >= share {
                self.turns.push_back(server);
                continue;
            }
            let Some(job) = lane.jobs.pop_front() else { continue };
            lane.running += 1;
            if !lane.jobs.is_empty() {
                self.turns.push_back(server.clone());
            }
            self.waiting -= 1;
            return Some((server, job));
        }
        None
    }

    /// A job of a server is over.
    fn ended(&mut self, server: &str) {
        if let Some(lane) = self.servers.get_mut(server) {
            lane.running -= 1;
            if lane.running == 0 && lane.jobs.is_empty() {
                self.servers.remove(server);
            }
        }
    }

    /// Whether a server has its share of threads.
    fn is_served(&self, server: &str, share: usize) -> bool {
        self.servers.get(server).is_some_and(|lane| lane.running >= share)
    }

    /// Takes all jobs out.
    fn clear(&mut self) -> Vec<Job> {
        self.turns.clear();
        self.waiting = 0;
        let lanes = self.servers.values_mut();
        lanes.flat_map(|lane| std::mem::take(&mut lane.jobs)).collect()
    }
}

impl Pool {
    pub(crate) fn new(name: &'static str, bound: usize, threads: &Arc<Threads>) -> Arc<Self> {
        let (bound, threads) = (bound.max(1), Arc::clone(threads));
        let (state, changed) = (Mutex::default(), Condvar::new());
        Arc::new(Self { name, bound, threads, state, changed })
    }

    fn share(&self) -> usize {
        (self.bound / SHARES).max(1)
    }

    /// Runs a job for a server soon. Whether it was taken; dropped otherwise.
    pub(crate) fn run(self: &Arc<Self>, server: &str, job: impl FnOnce() + Send + 'static) -> bool {
        let mut state = self.state.lock();
        if !state.put(server, Box::new(job)) {
            return false;
        }
        if state.is_served(server, self.share()) {
            // Who works for it goes on with this.
            return true;
        }
        if state.idle >= state.waiting || state.running == self.bound {
            drop(state);
            self.changed.notify_one();
            return true;
        }
        state.running += 1;
        drop(state);
        let pool = Arc::clone(self);
        if let Err(error) = self.threads.spawn(self.name, move || pool.work()) {
            tracing::warn!(%error, pool = self.name, "no thread for a handshake");
            return self.has_others();
        }
        true
    }

    /// A thread could not be started. Whether others work the jobs off; all jobs are dropped where there
    /// are none.
    fn has_others(&self) -> bool {
        let mut state = self.state.lock();
        state.running -= 1;
        let dropped = if state.running == 0 { state.clear() } else { Vec::new() };
        drop(state);
        dropped.is_empty()
    }

    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        let jobs = state.clear();
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
            if let Some((server, job)) = state.next(self.share()) {
                drop(state);
                let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                if ended.is_err() {
                    tracing::error!(pool = self.name, "a handshake panicked");
                }
                state = self.state.lock();
                state.ended(&server);
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
        write!(f, "Pool({}, {} waiting, {} running)", self.name, state.waiting, state.running)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn jobs_of_one_server_have_a_quarter_of_the_threads_and_none_after_the_stop() {
        let threads = Arc::new(Threads::default());
        let pool = Pool::new("test", 8, &threads);
        let (started, starts) = mpsc::channel();
        let (go_on, gate) = mpsc::channel::<()>();
        let gate = Arc::new(te_sync::Mutex::new(gate));
        for i in 0..3 {
            let (started, gate) = (started.clone(), Arc::clone(&gate));
            assert!(pool.run("a", move || {
                started.send(i).unwrap();
                let _ = gate.lock().recv();
            }));
        }
        let patience = Duration::from_secs(30);
        assert_eq!(starts.recv_timeout(patience), Ok(0));
        assert_eq!(starts.recv_timeout(patience), Ok(1));
        for (i, server) in [(10, "b"), (11, "c")] {
            let started = started.clone();
            assert!(pool.run(server, move || started.send(i).unwrap()));
            assert_eq!(starts.recv_timeout(patience), Ok(i), "others go on");
        }
        go_on.send(()).unwrap();
        assert_eq!(starts.recv_timeout(patience), Ok(2));
        pool.stop();
        assert!(!pool.run("a", || ()));
        drop(go_on);
        #[expect(clippy::disallowed_methods, reason = "tests are drivers")]
        let deadline = std::time::Instant::now() + patience;
        assert!(threads.wait_until_none(deadline));
    }

    #[test]
    fn servers_take_turns_and_one_of_them_does_not_fill_the_queue() {
        let mut state = State::default();
        let noted = Arc::new(te_sync::Mutex::new(Vec::new()));
        let mut put = |server: &'static str| {
            let noted = Arc::clone(&noted);
            state.put(server, Box::new(move || noted.lock().push(server)))
        };
        let taken = (0..2 * MAX_OF_ONE).filter(|_| put("greedy")).count();
        assert_eq!(taken, MAX_OF_ONE);
        assert!(put("b") && put("c") && put("b"));
        for _ in 0..6 {
            let (server, job) = state.next(1).unwrap();
            job();
            state.ended(&server);
        }
        assert_eq!(*noted.lock(), ["greedy", "b", "c", "greedy", "b", "greedy"]);
        let (server, _) = state.next(1).unwrap();
        assert!(state.next(1).is_none(), "it has its share");
        state.ended(&server);
        assert_eq!(state.clear().len(), state.servers.len() * (MAX_OF_ONE - 4));
    }
}
