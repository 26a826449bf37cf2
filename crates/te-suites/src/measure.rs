//! What a process holds and has used, from `/proc`, before and after a case; and the machine's own
//! stalls, so that a bound on a wait is not blamed for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::{now, pace, wait_for};
use crate::report::say;

/// What one process holds and has used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Open file descriptors.
    pub fds: u64,
    /// Threads.
    pub threads: u64,
    /// Resident memory, KiB.
    pub rss_kib: u64,
    /// Processor time, user and system, seconds.
    pub cpu: f64,
}

impl Usage {
    /// Reads `/proc/PID`.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn of(pid: u32) -> std::io::Result<Self> {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Ok(Self {
            fds,
            threads: status_number(&status, "Threads:"),
            rss_kib: status_number(&status, "VmRSS:"),
            cpu: cpu_seconds(&stat),
        })
    }
}

fn status_number(status: &str, key: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Fields 14 and 15, which follow the bracketed name; Linux counts them in hundredths on every
/// architecture that we run on.
fn cpu_seconds(stat: &str) -> f64 {
    let Some((_, rest)) = stat.rsplit_once(')') else { return 0.0 };
    let ticks = rest.split_whitespace().skip(11).take(2);
    ticks.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Whether this many bytes of memory can be used here.
///
/// # Errors
/// A sentence with what there is; it is the reason for a skip.
pub fn available_memory(bytes: u64) -> Result<(), String> {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let there = status_number(&info, "MemAvailable:") << 10;
    if there >= bytes {
        return Ok(());
    }
    let gib = |n: u64| n >> 30;
    Err(format!("cannot be had here: {} GiB of memory ({} are free)", gib(bytes), gib(there)))
}

/// How much a process may have grown over a case.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// More file descriptors.
    pub fds: u64,
    /// More threads.
    pub threads: u64,
    /// More resident memory, KiB.
    pub rss_kib: u64,
}

impl Bound {
    /// For a case that must leave nothing behind: the few kept connections, no thread, 16 MiB for
    /// the allocator's own keeping.
    pub const NOTHING: Self = Self { fds: 12, threads: 0, rss_kib: 16 << 10 };

    /// The same with more room for memory that the case touches.
    #[must_use]
    pub const fn with_rss_mib(self, mib: u64) -> Self {
        Self { rss_kib: mib << 10, ..self }
    }

    /// The same with room for this many descriptors.
    #[must_use]
    pub const fn with_fds(self, fds: u64) -> Self {
        Self { fds, ..self }
    }

    /// The same with room for this many threads.
    #[must_use]
    pub const fn with_threads(self, threads: u64) -> Self {
        Self { threads, ..self }
    }
}

/// A process watched over one case.
#[derive(Debug)]
pub struct Case {
    name: String,
    pid: u32,
    before: Usage,
}

impl Case {
    /// Takes the numbers before.
    ///
    /// # Panics
    /// When the process is gone.
    #[track_caller]
    pub fn start(name: &str, pid: u32) -> Self {
        Self { name: name.to_owned(), pid, before: usage(pid) }
    }

    /// The process that is watched.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Prints the row and checks growth. Descriptors and threads get ten seconds to go, because
    /// the other side closes in its own time.
    ///
    /// # Panics
    /// When the process is gone or has grown beyond the bound.
    #[track_caller]
    pub fn end(self, bound: Bound) {
        let settled = wait_for(Duration::from_secs(10), || {
            let after = usage(self.pid);
            self.over(after, bound).is_none().then_some(after)
        });
        let after = settled.unwrap_or_else(|| usage(self.pid));
        self.print(after);
        if let Some(over) = self.over(after, bound) {
            panic!("{}: {over}", self.name);
        }
    }

    fn over(&self, after: Usage, bound: Bound) -> Option<String> {
        let before = self.before;
        let rows = [
            ("fds", before.fds, after.fds, bound.fds),
            ("threads", before.threads, after.threads, bound.threads),
            ("rss KiB", before.rss_kib, after.rss_kib, bound.rss_kib),
        ];
        let over = rows.into_iter().find(|(_, old, new, more)| *new > old + more);
        over.map(|(what, old, new, more)| {
            format!("{what} grew from {old} to {new}, by more than {more}")
        })
    }

    fn print(&self, after: Usage) {
        let before = self.before;
        say(&format!(
            "row {:<44} fds {:>4} -> {:<4} threads {:>3} -> {:<3} rss MiB {:>6.1} -> {:<6.1} cpu s {:.2}",
            self.name,
            before.fds,
            after.fds,
            before.threads,
            after.threads,
            mib(before.rss_kib),
            mib(after.rss_kib),
            after.cpu - before.cpu,
        ));
    }
}

#[track_caller]
fn usage(pid: u32) -> Usage {
    Usage::of(pid).unwrap_or_else(|cause| panic!("process {pid} is gone: {cause}"))
}

#[expect(clippy::cast_precision_loss, reason = "a number of KiB is far below 2^52")]
fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

/// A thread that wakes every few milliseconds and notes by how much it came late. What it saw is
/// what the machine itself took from everybody: `waited <= bound + heartbeat.worst()`.
#[derive(Debug)]
pub struct Heartbeat {
    stop: Arc<AtomicBool>,
    worst_us: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    /// Starts to watch.
    pub fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let worst_us = Arc::new(AtomicU64::new(0));
        let thread = std::thread::spawn({
            let (stop, worst) = (Arc::clone(&stop), Arc::clone(&worst_us));
            move || beat(&stop, &worst)
        });
        Self { stop, worst_us, thread: Some(thread) }
    }

    /// The worst lateness so far.
    pub fn worst(&self) -> Duration {
        Duration::from_micros(self.worst_us.load(Ordering::Relaxed))
    }

    /// Asserts that `took` is within `bound` plus what the machine itself lost meanwhile, twice:
    /// both processes of a pair may have been hit.
    ///
    /// # Panics
    /// When it is not.
    #[track_caller]
    pub fn assert_within(&self, what: &str, took: Duration, bound: Duration) {
        let allowed = bound + 2 * self.worst();
        assert!(
            took <= allowed,
            "{what} took {took:?}, allowed {bound:?} + stalls {:?}",
            self.worst()
        );
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread cannot panic, and a failing test must not fail twice.
            let _ = thread.join();
        }
    }
}

fn beat(stop: &AtomicBool, worst: &AtomicU64) {
    const PERIOD: Duration = Duration::from_millis(5);
    while !stop.load(Ordering::Relaxed) {
        let start = now();
        pace(PERIOD);
        let late = start.elapsed().saturating_sub(PERIOD);
        worst.fetch_max(u64::try_from(late.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_process_is_read() {
        let usage = Usage::of(std::process::id()).unwrap();
        assert!(usage.fds > 2 && usage.threads > 0 && usage.rss_kib > 100, "{usage:?}");
    }

    #[test]
    fn processor_time_is_found_behind_a_name_with_brackets() {
        let stat = "7 (a) b) S 1 1 1 0 -1 4194560 1 2 3 4 150 50 0 0 20";
        assert!((cpu_seconds(stat) - 2.0).abs() < 1e-9);
    }
}
