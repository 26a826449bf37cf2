//! Moves the bytes of one round, whichever way each piece goes.
//!
//! I1  What is counted as done was copied whole, and nothing before it was left out.
//! I2  When a round ends no thread of ours is copying any more.

mod compare;
mod helper;

use std::io;
use std::sync::Arc;
use std::time::Instant;

use rustix::process::Pid;
use te_segment::{CacheGuess, Caching, CopyError, LocalRange, Opcode};
use te_transport::{FaultClass, Phase, SliceFault, Threads};

use self::compare::Compare;
use self::helper::{Help, Share};
use crate::job::{Job, Way, fault};
use crate::vm::{self, Ranges};

/// A run of pieces below this is not worth a second thread.
const WORTH_HELP: u64 = 1 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct Copier {
    ranges: Ranges,
    caches: CacheGuess,
    help: Option<Help>,
    compare: Compare,
}

impl Copier {
    /// A copier that may start a thread of `threads` where `parallel` is set.
    pub(crate) fn new(parallel: bool, threads: &Arc<Threads>) -> Self {
        Self {
            ranges: Ranges::default(),
            caches: CacheGuess::new(),
            help: parallel.then(|| Help::new(threads)),
            compare: Compare::default(),
        }
    }

    /// Copies the pieces in hand. All of them go in one direction; each advances or fails, or
    /// waits where one before it failed.
    pub(crate) fn run(&mut self, now: Instant, pid: Pid, jobs: &mut [Job]) {
        let mut rest = jobs;
        while let Some(first) = rest.first() {
            let len = match first.way() {
                Way::Within(_) | Way::Mapped(_) => 1,
                _ => rest.iter().position(is_within).unwrap_or(rest.len()),
            };
            let (run, behind) = rest.split_at_mut(len);
            if is_within(&run[0]) {
                self.within(now, &mut run[0]);
            } else {
                self.across(now, pid, run);
            }
            rest = behind;
        }
    }

    /// Ends the second thread.
    pub(crate) fn stop(&mut self) {
        self.help = None;
    }

    /// Copies one piece between memory that this process can reach.
    fn within(&mut self, now: Instant, job: &mut Job) {
        let way = job.take_way();
        let there = match &way {
            Way::Within(guard) => guard.range(),
            Way::Mapped(range) => range,
            _ => return,
        };
        let checked = job.slice().checked;
        let Some(here) = job.piece_range() else { return };
        let (from, to) = match job.op() {
            Opcode::Read => (there, &here),
            Opcode::Write => (&here, there),
        };
        let caching = self.caches.caching(to.address(), to.len());
        let copied = match self.is_shared(now, from, to, caching) {
            true => Ok(()),
            // Also what two threads did not bring to an end: this finds out why.
            false => from.copy_to(to, caching),
        };
        let equal =
            copied.and_then(|()| if checked { self.compare.within(from, to) } else { Ok(true) });
        settle(job, equal.map_err(|error| blame_within(error, &here)));
    }

    /// Copies pieces from or to another process.
    fn across(&mut self, now: Instant, pid: Pid, jobs: &mut [Job]) {
        let Some(op) = jobs.first().map(Job::op) else { return };
        let total = jobs.iter().map(Job::part).sum();
        if total == 0 {
            return;
        }
        let (mut moved, mut error) = match self.is_helped(now, (pid, op), (jobs, total)) {
            true => (total, None),
            // Also what two threads did not bring to an end: going through all of it in order finds
            // the byte that cannot be had, and changes nothing else.
            false => copy_all((pid, op), jobs, total, &mut self.ranges),
        };
        for job in jobs.iter_mut().filter(|job| job.part() > 0) {
            let (part, n) = (job.part(), job.part().min(moved));
            moved -= n;
            match error.take_if(|_| n < part) {
                Some(error) => {
                    let why = blame(pid, job, n, &error);
                    job.advance(n);
                    job.fail(why);
                }
                None if n < part => job.set_way(Way::Waits),
                None if job.slice().checked => {
                    let compared = self.compare.across(pid, job);
                    settle(job, compared.map_err(|error| blame(pid, job, 0, &error)));
                }
                None => job.advance(part),
            }
        }
    }

    /// Copies with a second thread where that is worth it. Whether all of it was copied so.
    fn is_helped(&mut self, now: Instant, by: (Pid, Opcode), of: (&[Job], u64)) -> bool {
        let (jobs, total) = of;
        if total < WORTH_HELP {
            return false;
        }
        let Some(help) = self.help.as_mut() else { return false };
        help.is_worth(now) && help.copy(Share::across(by, jobs, total), &mut self.ranges)
    }

    /// The same inside this process. Bytes that are in the cache are copied before a second thread
    /// has got hold of any.
    fn is_shared(
        &mut self,
        now: Instant,
        from: &LocalRange,
        to: &LocalRange,
        caching: Caching,
    ) -> bool {
        let overlap =
            from.address() < to.address() + to.len() && to.address() < from.address() + from.len();
        if to.len() < WORTH_HELP || caching == Caching::Keep || overlap {
            return false;
        }
        let Some(help) = self.help.as_mut() else { return false };
        help.is_worth(now) && help.copy(Share::within(from, to, caching), &mut self.ranges)
    }
}

fn is_within(job: &Job) -> bool {
    matches!(job.way(), Way::Within(_) | Way::Mapped(_))
}

/// A piece was copied and, where that was asked for, found equal or not.
fn settle(job: &mut Job, equal: Result<bool, SliceFault>) {
    match equal {
        Ok(true) => job.advance(job.part()),
        Ok(false) => {
            let cause = "the bytes that arrived are not those that were sent";
            job.fail_touched(fault(FaultClass::Corrupt, Phase::Status, cause));
        }
        Err(why) => job.fail_touched(why),
    }
}

/// Copies the pieces in order; gives how much that was, and why not all.
fn copy_all(
    by: (Pid, Opcode),
    jobs: &[Job],
    total: u64,
    ranges: &mut Ranges,
) -> (u64, Option<io::Error>) {
    let mut moved = 0;
    while moved < total {
        match vm::copy(by, jobs, (moved, total - moved), ranges) {
            // No byte and no error cannot be; it must not loop for ever.
            Ok(0) => return (moved, Some(io::Error::from_raw_os_error(libc::EFAULT))),
            Ok(n) => moved += n,
            Err(error) => return (moved, Some(error)),
        }
    }
    (moved, None)
}

/// Whose fault it is that the byte behind the first `n` of a piece could not be copied.
fn blame(pid: Pid, job: &Job, n: u64, error: &io::Error) -> SliceFault {
    let (here, there) = job.piece();
    let here = here.ptr().addr() as u64 + n;
    let mut byte = [0];
    let (class, cause) = match error.raw_os_error() {
        Some(libc::ESRCH) => (FaultClass::Peer, "the peer's process has ended"),
        Some(libc::EPERM) => (FaultClass::Rail, "the system does not permit it any more"),
        Some(libc::EFAULT) => {
            let is_ours = match job.op() {
                Opcode::Write => vm::read(rustix::process::getpid(), here, &mut byte).is_err(),
                Opcode::Read => vm::read(pid, there + n, &mut byte).is_ok(),
            };
            match is_ours {
                true => (FaultClass::Local, "local memory cannot be used"),
                false => (FaultClass::Refused, "the peer's memory cannot be used"),
            }
        }
        _ => (FaultClass::Local, "the copy failed"),
    };
    fault(class, Phase::Payload, cause).with_os_error(error)
}

/// The same for a copy inside this process.
fn blame_within(error: CopyError, here: &LocalRange) -> SliceFault {
    let (class, cause) = match &error {
        CopyError::Fault { address, .. }
            if (here.address()..here.address() + here.len()).contains(address) =>
        {
            (FaultClass::Local, "local memory cannot be used")
        }
        _ => (FaultClass::Refused, "the memory of the target cannot be used"),
    };
    let told = fault(class, Phase::Payload, cause);
    match &error {
        CopyError::Fault { cause, .. } => told.with_os_error(cause),
        _ => told,
    }
}

#[cfg(test)]
mod tests;
