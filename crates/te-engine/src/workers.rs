//! Who does what may take a while: fetching descriptors and delivering notifications.
//!
//! A bounded number of threads that start on demand and end when idle, in front of them a bounded
//! queue. In a simulation a job runs at once on the calling thread.
//!
//! I1  A job that was accepted runs, unless the engine closes first; a job that was not is given
//!     back to the caller.
//! I2  One slow peer occupies one thread; only `MAX_THREADS` of them together delay others.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam::channel::{Receiver, Sender, TrySendError, bounded};
use parking_lot::Mutex;

/// Something to do.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The threads, or the calling thread in a simulation.
pub(crate) enum Workers {
    Threads(Pool),
    Inline,
}

/// On-demand threads behind one queue.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    jobs: Mutex<Option<Sender<Job>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    queue: Receiver<Job>,
    idle: AtomicUsize,
    running: AtomicUsize,
    closed: AtomicBool,
}

const MAX_THREADS: usize = 16;
const MAX_JOBS: usize = 65_536;
/// A thread without work ends after this.
const IDLE: Duration = Duration::from_secs(5);

impl Workers {
    pub(crate) fn threads() -> Self {
        let (jobs, queue) = bounded(MAX_JOBS);
        let shared = Shared {
            queue,
            idle: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        };
        Self::Threads(Pool {
            shared: Arc::new(shared),
            jobs: Mutex::new(Some(jobs)),
            threads: Mutex::default(),
        })
    }

    /// Runs the job soon. Gives it back where the queue is full or the engine is closing.
    pub(crate) fn run(&self, job: Job) -> Result<(), Job> {
        match self {
            Self::Inline => {
                job();
                Ok(())
            }
            Self::Threads(pool) => pool.run(job),
        }
    }

    /// Takes no more jobs, and joins the threads that end within `patience`. Says whether all did.
    pub(crate) fn close(&self, patience: Duration) -> bool {
        match self {
            Self::Inline => true,
            Self::Threads(pool) => pool.close(patience),
        }
    }
}

impl Pool {
    fn run(&self, job: Job) -> Result<(), Job> {
        let jobs = self.jobs.lock();
        let Some(sender) = jobs.as_ref() else { return Err(job) };
        match sender.try_send(job) {
            Ok(()) => {
                if self.shared.idle.load(Ordering::Acquire) < self.shared.queue.len() {
                    self.add_thread();
                }
                Ok(())
            }
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => Err(job),
        }
    }

    fn add_thread(&self) {
        let mut threads = self.threads.lock();
        threads.retain(|thread| !thread.is_finished());
        if self.shared.running.load(Ordering::Acquire) >= MAX_THREADS {
            return;
        }
        self.shared.running.fetch_add(1, Ordering::AcqRel);
        let shared = Arc::clone(&self.shared);
        let builder = std::thread::Builder::new().name("te-control".into());
        match builder.spawn(move || shared.work()) {
            Ok(thread) => threads.push(thread),
            // A thread that is there already takes the job later; without any, the next call tries.
            Err(_) => drop(self.shared.running.fetch_sub(1, Ordering::AcqRel)),
        }
    }

    fn close(&self, patience: Duration) -> bool {
        self.shared.closed.store(true, Ordering::Release);
        drop(self.jobs.lock().take());
        let threads = std::mem::take(&mut *self.threads.lock());
        let (done, wait) = bounded::<()>(0);
        let joiner = std::thread::Builder::new().name("te-join".into()).spawn(move || {
            threads.into_iter().for_each(|thread| drop(thread.join()));
            drop(done);
        });
        // The channel is disconnected when every thread was joined.
        joiner.is_ok()
            && wait.recv_timeout(patience)
                == Err(crossbeam::channel::RecvTimeoutError::Disconnected)
    }
}

impl Shared {
    fn work(&self) {
        loop {
            self.idle.fetch_add(1, Ordering::AcqRel);
            let job = self.queue.recv_timeout(IDLE);
            self.idle.fetch_sub(1, Ordering::AcqRel);
            match job {
                Ok(job) if !self.closed.load(Ordering::Acquire) => job(),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        self.running.fetch_sub(1, Ordering::AcqRel);
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
