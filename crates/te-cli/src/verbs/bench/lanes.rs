//! The measured loop: threads that submit a batch, wait for it, and note how long it took.
//!
//! ```text
//!   lane         warm up │ A │        │ B │ batches … │ C │           │ D │ ends
//!   coordinator          │ A │ CPU of │ B │           │ C │ CPU after │ D │
//!                              before
//! ```
//!
//! The bars are meetings of all. Lanes live until the processor time after was read: what a thread
//! used is known only while it lives.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use hdrhistogram::Histogram;
use te_engine::{BatchId, Opcode, TaskState, TransferRequest};

use super::args::Operation;
use super::row::Row;
use super::{ACTION, Cell, Setup};
use crate::clock::Watch;
use crate::cpu;
use crate::error::{CliError, Failure};

/// What one thread did.
struct Lane {
    batches: u64,
    time: Duration,
    latency: Histogram<u64>,
}

/// Processor time of this side and of the other, as far as it is known.
type Spent = (Option<Duration>, Option<Duration>);

impl Setup<'_> {
    /// Measures one row.
    pub(super) fn measure(&self, cell: Cell) -> Result<Row, CliError> {
        let threads = usize::from(self.args.threads);
        let meeting = Barrier::new(threads + 1);
        let (lanes, spent) = thread::scope(|scope| {
            let run = |thread| self.lane(cell, thread, &meeting);
            let running: Vec<_> =
                (0..threads as u64).map(|thread| scope.spawn(move || run(thread))).collect();
            meeting.wait();
            let before = self.spent();
            meeting.wait();
            meeting.wait();
            let after = self.spent();
            meeting.wait();
            let lanes: Vec<_> = running.into_iter().map(thread::ScopedJoinHandle::join).collect();
            (lanes, (less(after.0, before.0), less(after.1, before.1)))
        });
        let panicked = || CliError::new(Failure::Other, ACTION, "a thread panicked");
        let lanes = lanes.into_iter().map(|lane| lane.unwrap_or_else(|_| Err(panicked())));
        let lanes = lanes.collect::<Result<Vec<Lane>, CliError>>()?;
        Ok(self.row(cell, &lanes, spent))
    }

    /// Moves all places of a row once.
    pub(super) fn move_all(&self, cell: Cell) -> Result<(), CliError> {
        for thread in 0..u64::from(self.args.threads) {
            for requests in self.requests(cell, thread)? {
                self.batch(&requests)?;
            }
        }
        Ok(())
    }

    /// A thread. It comes to every meeting, whatever happens to it.
    fn lane(&self, cell: Cell, thread: u64, meeting: &Barrier) -> Result<Lane, CliError> {
        let prepared = self.requests(cell, thread).and_then(|places| {
            self.turns(&places, self.args.warm_up)?;
            Ok(places)
        });
        meeting.wait();
        meeting.wait();
        let lane = prepared.and_then(|places| self.turns(&places, self.args.duration));
        meeting.wait();
        meeting.wait();
        lane
    }

    /// Batch after batch until the time is over.
    fn turns(&self, places: &[Vec<TransferRequest>], time: Duration) -> Result<Lane, CliError> {
        let mut latency = histogram();
        let mut batches = 0;
        let watch = Watch::start();
        for requests in places.iter().cycle() {
            if let Some(pause) = self.args.pause {
                Watch::start().rest(pause);
            }
            let took = self.batch(requests)?;
            latency.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
            batches += 1;
            if watch.elapsed() >= time {
                break;
            }
        }
        Ok(Lane { batches, time: watch.elapsed(), latency })
    }

    /// Moves a batch; gives the time from before it was submitted until it was final.
    fn batch(&self, requests: &[TransferRequest]) -> Result<Duration, CliError> {
        let engine = self.engine;
        let limit = engine.config().engine.transfer_timeout;
        let batch = engine.allocate_batch(requests.len()).map_err(|error| self.failed(&error))?;
        let begun = Watch::start();
        engine.submit(batch, requests).map_err(|error| self.failed(&error))?;
        let status = engine.wait(batch, limit).map_err(|error| self.failed(&error))?;
        let took = begun.elapsed();
        if status.state != TaskState::Completed {
            return Err(self.explain(batch, status.total));
        }
        engine.free_batch(batch).map_err(|error| self.failed(&error))?;
        Ok(took)
    }

    /// The first request of a batch that did not complete.
    fn explain(&self, batch: BatchId, total: usize) -> CliError {
        let mut tasks = (0..total).filter_map(|index| self.engine.status(batch, index).ok());
        match tasks.find(|status| status.state != TaskState::Completed) {
            Some(status) => CliError::task(ACTION, &self.opened.name, &status),
            None => CliError::new(Failure::Other, ACTION, "a batch failed"),
        }
    }

    /// The batches of one thread, one for each place.
    fn requests(&self, cell: Cell, thread: u64) -> Result<Vec<Vec<TransferRequest>>, CliError> {
        let (slots, batch) = (self.args.slots(cell.block), u64::from(self.args.batch));
        let op = match cell.op {
            Operation::Write => Opcode::Write,
            Operation::Read => Opcode::Read,
        };
        let request = |slot: u64, index: u64| {
            let at = ((slot * u64::from(self.args.threads) + thread) * batch + index) * cell.block;
            let local = self.region.range(at, cell.block).map_err(|error| self.failed(&error))?;
            let request = TransferRequest::new(op, local, self.opened.id, self.remote + at);
            Ok(if self.args.checked { request.checked() } else { request })
        };
        let place = |slot| (0..batch).map(|index| request(slot, index)).collect();
        (0..slots).map(place).collect()
    }

    fn spent(&self) -> Spent {
        let there = self.child.as_ref().and_then(|child| cpu::used(child.pid()));
        (cpu::used(std::process::id()), there)
    }

    fn row(&self, cell: Cell, lanes: &[Lane], spent: Spent) -> Row {
        let mut latency = histogram();
        for lane in lanes {
            // All have the same bounds.
            let _ = latency.add(&lane.latency);
        }
        Row {
            cell,
            batches: lanes.iter().map(|lane| lane.batches).sum(),
            requests_per_batch: u64::from(self.args.batch),
            time: lanes.iter().map(|lane| lane.time).max().unwrap_or_default(),
            latency,
            spent,
            verified: None,
            transport: self.transport(),
        }
    }
}

fn less(after: Option<Duration>, before: Option<Duration>) -> Option<Duration> {
    after?.checked_sub(before?)
}

/// Nanoseconds, in three digits; longer than an hour counts as an hour.
fn histogram() -> Histogram<u64> {
    let bounds = Histogram::new_with_bounds(1, 3_600_000_000_000, 3);
    bounds.expect("1 is above 0, an hour above twice that, and 3 digits are allowed")
}
