//! A second thread for large pieces, while a core is free.
//!
//! ```text
//!   driver:  share ─▶ chunk, chunk, chunk ── waits for the other's last one
//!   helper:  ……… looks a moment, else sleeps ─▶ chunk, chunk ……
//! ```
//!
//! Either takes the next chunk until there is none, so it does not matter how late the helper comes.
//! It looks for the next share for a moment only, and sleeps then.
//!
//! I1  [`Help::copy`] returns when no chunk of its share is being copied any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use te_segment::{Caching, LocalRange, Opcode};
use te_sync::{Condvar, Mutex};
use te_transport::Threads;

use crate::job::Job;
use crate::vm::{self, Ranges};

/// Bytes that a thread takes at once: some 20 µs of work, so that neither waits long for the other.
const CHUNK: u64 = 256 << 10;
/// How often the helper looks for a share before it sleeps; about 20 µs.
const LOOKS: u32 = 400;
/// How often the driver looks for the helper's last chunk before it gives its core away.
const LAST_LOOKS: u32 = 4000;
/// How long one look at the machine's load counts.
const LOAD_COUNTS: Duration = Duration::from_millis(5);

/// What two threads copy.
#[derive(Debug)]
enum Load {
    /// The pieces of a round, laid end to end, from or to another process.
    Across { by: (Pid, Opcode), jobs: Vec<Job> },
    /// One piece, between ranges that do not overlap.
    Within { from: LocalRange, to: LocalRange, caching: Caching },
}

impl Load {
    /// Copies from the bytes `at..at + len` as many as one call does; 0 where it fails.
    fn copy(&self, at: u64, len: u64, ranges: &mut Ranges) -> u64 {
        match self {
            Self::Across { by, jobs } => vm::copy(*by, jobs, (at, len), ranges).unwrap_or(0),
            Self::Within { from, to, caching } => match (from.part(at, len), to.part(at, len)) {
                (Ok(from), Ok(to)) if from.copy_to(&to, *caching).is_ok() => len,
                _ => 0,
            },
        }
    }
}

/// A load, and how far it is.
#[derive(Debug)]
pub(crate) struct Share {
    load: Load,
    total: u64,
    /// Where the next chunk begins.
    next: AtomicU64,
    /// Bytes of chunks that were taken and are over.
    over: AtomicU64,
    failed: AtomicBool,
}

impl Share {
    pub(crate) fn across(by: (Pid, Opcode), jobs: &[Job], total: u64) -> Self {
        Self::new(Load::Across { by, jobs: jobs.iter().map(Job::twin).collect() }, total)
    }

    /// Of two ranges of one length that do not overlap.
    pub(crate) fn within(from: &LocalRange, to: &LocalRange, caching: Caching) -> Self {
        let total = to.len();
        Self::new(Load::Within { from: from.clone(), to: to.clone(), caching }, total)
    }

    fn new(load: Load, total: u64) -> Self {
        let (next, over) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { load, total, next, over, failed: AtomicBool::new(false) }
    }

    /// Copies chunks until none is left.
    fn work(&self, ranges: &mut Ranges) {
        loop {
            let begin = self.next.fetch_add(CHUNK, Ordering::Relaxed);
            if begin >= self.total {
                return;
            }
            let len = CHUNK.min(self.total - begin);
            let mut done = 0;
            while done < len && !self.failed.load(Ordering::Relaxed) {
                match self.load.copy(begin + done, len - done, ranges) {
                    0 => self.failed.store(true, Ordering::Relaxed),
                    n => done += n,
                }
            }
            // Release pairs with the load in `is_over`: the bytes come before it.
            self.over.fetch_add(len, Ordering::Release);
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire) >= self.total
    }
}

#[derive(Debug, Default)]
struct State {
    share: Option<Arc<Share>>,
    stop: bool,
}

#[derive(Debug, Default)]
struct Common {
    state: Mutex<State>,
    /// Told of a share, and of the end.
    changed: Condvar,
    /// Counts the shares, so that the helper can look without the lock.
    posted: AtomicU64,
    /// Whether the helper is awake.
    awake: AtomicBool,
}

/// The helper, as the driver sees it.
#[derive(Debug)]
pub(crate) struct Help {
    threads: Arc<Threads>,
    common: Arc<Common>,
    started: bool,
    cpus: u32,
    /// When it was last looked whether a core is free, and whether one was.
    looked: Option<(Instant, bool)>,
}

impl Help {
    /// A helper whose thread is started when it is used first.
    pub(crate) fn new(threads: &Arc<Threads>) -> Self {
        let cpus = rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count());
        let common = Arc::default();
        Self { threads: Arc::clone(threads), common, started: false, cpus, looked: None }
    }

    /// Whether a second thread would find a core.
    pub(crate) fn is_worth(&mut self, now: Instant) -> bool {
        if self.cpus < 2 {
            return false;
        }
        if let Some((at, free)) = self.looked
            && now.saturating_duration_since(at) < LOAD_COUNTS
        {
            return free;
        }
        let ours = 1 + u32::from(self.common.awake.load(Ordering::Relaxed));
        let others = running().map_or(u32::MAX, |all| all.saturating_sub(ours));
        let free = others + 2 <= self.cpus;
        self.looked = Some((now, free));
        free
    }

    /// Copies a share on both threads. Whether all of it was copied; where not, some of it was.
    pub(crate) fn copy(&mut self, share: Share, ranges: &mut Ranges) -> bool {
        if !self.started {
            let common = Arc::clone(&self.common);
            self.started = self.threads.spawn("te-shm-helper", move || common.run()).is_ok();
        }
        let share = Arc::new(share);
        self.common.post(&share);
        share.work(ranges);
        self.common.withdraw();
        let mut looks = 0;
        while !share.is_over() {
            looks += 1;
            if looks < LAST_LOOKS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        !share.failed.load(Ordering::Relaxed)
    }
}

impl Drop for Help {
    fn drop(&mut self) {
        self.common.state.lock().stop = true;
        self.common.changed.notify_all();
    }
}

impl Common {
    fn post(&self, share: &Arc<Share>) {
        self.state.lock().share = Some(Arc::clone(share));
        // Pairs with the load in `look`.
        self.posted.fetch_add(1, Ordering::Release);
        if !self.awake.load(Ordering::SeqCst) {
            self.changed.notify_one();
        }
    }

    /// Nothing of the share is left to be taken.
    fn withdraw(&self) {
        self.state.lock().share = None;
    }

    /// The helper's thread.
    fn run(&self) {
        let mut ranges = Ranges::default();
        while let Some(share) = self.next() {
            share.work(&mut ranges);
            self.look();
        }
    }

    /// Looks for the next share for a moment.
    fn look(&self) {
        let seen = self.posted.load(Ordering::Acquire);
        for _ in 0..LOOKS {
            if self.posted.load(Ordering::Acquire) != seen {
                return;
            }
            std::hint::spin_loop();
        }
    }

    /// Sleeps until there is a share with something left; `None` at the end.
    fn next(&self) -> Option<Arc<Share>> {
        let mut state = self.state.lock();
        loop {
            if state.stop {
                return None;
            }
            if let Some(share) = state.share.take() {
                return Some(share);
            }
            self.awake.store(false, Ordering::SeqCst);
            self.changed.wait(&mut state);
            self.awake.store(true, Ordering::SeqCst);
        }
    }
}

/// Threads that run on the machine, or want to.
fn running() -> Option<u32> {
    running_of(&std::fs::read_to_string("/proc/loadavg").ok()?)
}

/// The fourth field: `0.10 0.20 0.30 2/345 678`.
fn running_of(text: &str) -> Option<u32> {
    text.split_ascii_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use te_segment::{AlignedBuffer, Allocation, Region, VanishingMemory};

    use super::*;

    #[test]
    fn the_number_of_running_threads_is_found() {
        assert_eq!(running_of("0.10 0.20 0.30 2/345 678\n"), Some(2));
        assert_eq!(running_of("0.10 0.20"), None);
        assert_eq!(running_of(""), None);
        assert!(running().is_some_and(|n| n >= 1));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn on_one_processor_there_is_no_help_and_one_look_counts_for_a_while() {
        let threads = Arc::new(Threads::default());
        let mut help = Help::new(&threads);
        let now = Instant::now();
        help.cpus = 1;
        assert!(!help.is_worth(now) && help.looked.is_none());
        help.cpus = 4096;
        assert!(help.is_worth(now));
        help.looked = Some((now, false));
        assert!(!help.is_worth(now + LOAD_COUNTS / 2), "that was looked at a moment ago");
        assert!(help.is_worth(now + LOAD_COUNTS));
    }

    #[test]
    fn two_threads_copy_a_piece_exactly_or_say_that_they_did_not() {
        let threads = Arc::new(Threads::default());
        let (mut help, mut ranges) = (Help::new(&threads), Ranges::default());
        let len = (3 << 20) + 77;
        let new = || Region::from(Allocation::new(len + 10).allocate().unwrap());
        let (from, to) = (new(), new());
        let bytes: Vec<u8> = (0..len).map(|i| i.to_le_bytes()[i % 3]).collect();
        from.write_from(3, &bytes).unwrap();
        for caching in [Caching::Bypass, Caching::Keep] {
            to.write_from(0, &vec![0xA5; len + 10]).unwrap();
            let piece = |region: &Region, at| region.range(at, len as u64).unwrap();
            let share = Share::within(&piece(&from, 3), &piece(&to, 5), caching);
            assert!(help.copy(share, &mut ranges));
            let mut seen = vec![0; len + 10];
            to.read_into(0, &mut seen).unwrap();
            assert!(seen[5..len + 5] == bytes, "{caching:?}");
            assert!(seen[..5].iter().chain(&seen[len + 5..]).all(|byte| *byte == 0xA5));
        }
        let gone = VanishingMemory::new(AlignedBuffer::zeroed(len).unwrap());
        gone.vanish();
        let share = Share::within(
            &gone.region().whole(),
            &to.range(0, len as u64).unwrap(),
            Caching::Bypass,
        );
        assert!(!help.copy(share, &mut ranges));
    }
}
