//! Who does what may take a while: fetching descriptors and delivering notifications.
//!
//! A bounded number of threads that start on demand and end when idle, in front of them a bounded
//! queue. In a simulation a job runs at once on the calling thread.
//!
//! I1  A job that was accepted is run, or dropped when the engine closes; what must happen either
//!     way is in the `Drop` of what the job owns.
//! I2  A job waits for a thread only while `MAX_THREADS` are busy.
//! I3  A job that panics costs neither its thread nor the count of threads.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use te_sync::{Condvar, Mutex};

/// Something to do.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The threads, or the calling thread in a simulation.
pub(crate) enum Workers {
    Threads(Arc<Pool>),
    Inline,
}

/// On-demand threads behind one queue. All of it is behind one lock, which no job runs under.
#[derive(Default)]
pub(crate) struct Pool {
    state: Mutex<State>,
    /// Told of a new job, of closing, and of each thread that ends.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    running: usize,
    closed: bool,
    threads: Vec<JoinHandle<()>>,
}

const MAX_THREADS: usize = 16;
const MAX_JOBS: usize = 65_536;
/// A thread without work ends after this.
const IDLE: Duration = Duration::from_secs(5);

impl Workers {
    pub(crate) fn threads() -> Self {
        Self::Threads(Arc::default())
    }

    /// Runs the job soon. Gives it back where there is no room, no thread, or the engine closes.
    pub(crate) fn run(&self, job: Job) -> Result<(), Job> {
        match self {
            Self::Inline => {
                job();
                Ok(())
            }
            Self::Threads(pool) => pool.run(job),
        }
    }

    /// Takes no more jobs, drops those that wait, and joins the threads that end within
    /// `patience`. Says whether all did.
    pub(crate) fn close(&self, patience: Duration) -> bool {
        match self {
            Self::Inline => true,
            Self::Threads(pool) => pool.close(patience),
        }
    }
}

impl Pool {
    fn run(self: &Arc<Self>, job: Job) -> Result<(), Job> {
        let mut state = self.state.lock();
        if state.closed || state.jobs.len() >= MAX_JOBS {
            return Err(job);
        }
        if state.idle <= state.jobs.len() && state.running < MAX_THREADS {
            self.add_thread(&mut state);
        }
        if state.running == 0 {
            return Err(job);
        }
        state.jobs.push_back(job);
        self.changed.notify_one();
        Ok(())
    }

    /// Where the system gives no thread, those that are there do the work.
    fn add_thread(self: &Arc<Self>, state: &mut State) {
        state.threads.retain(|thread| !thread.is_finished());
        let pool = Arc::clone(self);
        let builder = std::thread::Builder::new().name("te-control".into());
        if let Ok(thread) = builder.spawn(move || pool.work()) {
            state.threads.push(thread);
            state.running += 1;
        }
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            // The panic was told by its hook; what the job owed is in the drops of what it owned.
            drop(catch_unwind(AssertUnwindSafe(job)));
        }
    }

    /// The next job; `None` when the thread shall end, which is counted under the same lock.
    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        state.idle += 1;
        let waits = |state: &mut State| state.jobs.is_empty() && !state.closed;
        self.changed.wait_while_for(&mut state, waits, IDLE);
        state.idle -= 1;
        let job = state.jobs.pop_front();
        if job.is_none() {
            state.running -= 1;
            self.changed.notify_all();
        }
        job
    }

    fn close(&self, patience: Duration) -> bool {
        let mut state = self.state.lock();
        state.closed = true;
        let jobs = std::mem::take(&mut state.jobs);
        self.changed.notify_all();
        drop(state);
        // Their drops may call back into the engine, so not under the lock.
        drop(jobs);
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, |state| state.running > 0, patience);
        if state.running > 0 {
            return false;
        }
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        threads.into_iter().all(|thread| thread.join().is_ok())
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Threads(_) => "Workers(threads)",
            Self::Inline => "Workers(inline)",
        })
    }
}

#[cfg(test)]
mod tests {
    //! Threads on demand.

    use std::sync::mpsc::{Sender, channel};

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    /// A job that says that it runs, and then waits to be let go.
    fn blocked(runs: &Sender<()>) -> (Job, Sender<()>) {
        let (go, wait) = channel::<()>();
        let runs = runs.clone();
        let job = Box::new(move || {
            runs.send(()).unwrap();
            wait.recv().ok();
        });
        (job, go)
    }

    #[test]
    fn slow_jobs_do_not_delay_others_before_every_thread_is_taken() {
        let workers = Workers::threads();
        let (runs, running) = channel();
        let jobs: Vec<_> = (0..MAX_THREADS).map(|_| blocked(&runs)).collect();
        let mut held = Vec::new();
        for (job, go) in jobs {
            assert!(workers.run(job).is_ok());
            held.push(go);
        }
        for _ in 0..MAX_THREADS {
            running.recv_timeout(LONG).unwrap();
        }
        drop(held);
        assert!(workers.close(LONG));
    }

    #[test]
    fn a_job_that_panics_costs_no_thread() {
        let workers = Workers::threads();
        for _ in 0..2 * MAX_THREADS {
            assert!(workers.run(Box::new(|| panic!("a job of the test"))).is_ok());
        }
        let (runs, running) = channel();
        assert!(workers.run(Box::new(move || runs.send(()).unwrap())).is_ok());
        running.recv_timeout(LONG).unwrap();
        assert!(workers.close(LONG));
    }

    #[test]
    fn what_waits_when_the_pool_closes_is_dropped() {
        struct Told(Sender<()>);
        impl Drop for Told {
            fn drop(&mut self) {
                self.0.send(()).ok();
            }
        }
        let workers = Workers::threads();
        let (runs, running) = channel();
        let blocked: Vec<_> = (0..MAX_THREADS).map(|_| blocked(&runs)).collect();
        let mut held = Vec::new();
        for (job, go) in blocked {
            assert!(workers.run(job).is_ok());
            held.push(go);
        }
        (0..MAX_THREADS).for_each(|_| running.recv_timeout(LONG).unwrap());
        let (told, dropped) = channel();
        let owed = Told(told);
        assert!(workers.run(Box::new(move || drop(owed))).is_ok());
        assert!(!workers.close(Duration::from_millis(1)), "the threads are busy");
        dropped.recv_timeout(LONG).unwrap();
        assert!(workers.run(Box::new(|| {})).is_err());
        drop(held);
        assert!(workers.close(LONG));
    }
}
