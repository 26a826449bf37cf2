//! Moves a stream through a window of chunks: while some are on the wire, the next is filled or
//! the last one emptied.
//!
//! ```text
//!   source ──fill──▶ chunk 0 ─┐                    write: fill, then submit
//!                    chunk 1 ─┼──▶ wire ──▶ peer   read:  submit, then empty, oldest first
//!                    chunk 2 ─┘
//! ```
//!
//! I1  A chunk's memory is touched only while no request names it.
//! I2  Chunks are finished in the order in which they were started.

use std::collections::VecDeque;
use std::time::Duration;

use te_engine::{BatchId, Opcode, Region, TaskState, TransferEngine, TransferRequest, WaitError};

use crate::args::Moving;
use crate::clock::Watch;
use crate::error::{CliError, Failure, chain};
use crate::place::Place;
use crate::progress::Progress;
use crate::session::{self, Opened};
use crate::sink::Sink;
use crate::source::Source;
use crate::units;

/// Chunks that are in use at once: one being filled, one on the wire, one that waits for it.
const CHUNKS: u64 = 3;

/// How often progress is shown while a chunk is on the wire.
const LOOK: Duration = Duration::from_millis(100);

/// Moves bytes between this process and one segment.
pub(crate) struct Mover<'a> {
    engine: &'a TransferEngine,
    opened: &'a Opened,
    /// Begins the line of an error.
    action: &'static str,
    chunk: u64,
    timeout: Option<Duration>,
    checked: bool,
    region: Region,
}

/// What was moved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moved {
    pub(crate) bytes: u64,
    pub(crate) time: Duration,
    pub(crate) sum: u32,
}

/// A chunk on the wire.
#[derive(Debug)]
struct Flight {
    batch: BatchId,
    /// Where its memory begins in the region.
    offset: u64,
    length: u64,
}

impl<'a> Mover<'a> {
    /// `most` is how much there is to move, where that is known.
    pub(crate) fn new(
        engine: &'a TransferEngine,
        opened: &'a Opened,
        action: &'static str,
        moving: &Moving,
        most: Option<u64>,
    ) -> Result<Self, CliError> {
        let chunk = moving.chunk.min(most.unwrap_or(u64::MAX)).max(1);
        let memory = chunk * CHUNKS;
        let region = engine.allocate(memory).map_err(|error| CliError::memory(memory, &error))?;
        session::keep_to_ourselves(engine, &region)?;
        let Moving { timeout, checked, .. } = *moving;
        Ok(Self { engine, opened, action, chunk, timeout, checked, region })
    }

    /// Writes until the source or the place ends.
    pub(crate) fn write(
        &self,
        mut place: Place,
        source: &mut Source,
        progress: &Progress,
    ) -> Result<Moved, CliError> {
        let watch = Watch::start();
        let mut window = Window::default();
        loop {
            if window.flights.len() as u64 == CHUNKS {
                self.finish(&mut window, progress)?;
            }
            let offset = self.slot(&window);
            let filled = source.fill(&self.region, offset, self.chunk.min(place.length()))?;
            if filled == 0 {
                break;
            }
            self.start(&mut window, Opcode::Write, offset, &place.take(filled))?;
        }
        while self.finish(&mut window, progress)?.is_some() {}
        Ok(Moved { bytes: window.done, time: watch.elapsed(), sum: source.sum.value() })
    }

    /// Reads the whole place.
    pub(crate) fn read(
        &self,
        mut place: Place,
        sink: &mut Sink,
        progress: &Progress,
    ) -> Result<Moved, CliError> {
        let watch = Watch::start();
        let mut window = Window::default();
        loop {
            while place.length() > 0 && (window.flights.len() as u64) < CHUNKS {
                let offset = self.slot(&window);
                self.start(&mut window, Opcode::Read, offset, &place.take(self.chunk))?;
            }
            let Some(flight) = self.finish(&mut window, progress)? else {
                break;
            };
            sink.take(&self.region, flight.offset, flight.length)
                .map_err(|error| error.of_transfer(self.action, &self.opened.name))?;
        }
        sink.finish()?;
        Ok(Moved { bytes: window.done, time: watch.elapsed(), sum: sink.sum.value() })
    }

    /// Where the next chunk's memory begins.
    fn slot(&self, window: &Window) -> u64 {
        window.started % CHUNKS * self.chunk
    }

    fn start(
        &self,
        window: &mut Window,
        op: Opcode,
        offset: u64,
        spans: &[(u64, u64)],
    ) -> Result<(), CliError> {
        let mut requests = Vec::with_capacity(spans.len());
        let mut at = offset;
        for (address, length) in spans {
            let local = self
                .region
                .range(at, *length)
                .map_err(|error| self.failed(Failure::Local, chain(&error)))?;
            let target = self.opened.id;
            let request = TransferRequest::new(op, local, target, *address);
            requests.push(TransferRequest {
                timeout: self.timeout,
                checked: self.checked,
                ..request
            });
            at += length;
        }
        let batch = self
            .engine
            .allocate_batch(requests.len())
            .map_err(|error| self.failed(Failure::Other, chain(&error)))?;
        self.engine
            .submit(batch, &requests)
            .map_err(|error| self.failed(Failure::Other, chain(&error)))?;
        window.flights.push_back(Flight { batch, offset, length: at - offset });
        window.started += 1;
        Ok(())
    }

    /// Waits for the oldest chunk; none when nothing is on the wire.
    fn finish(&self, window: &mut Window, progress: &Progress) -> Result<Option<Flight>, CliError> {
        let Some(flight) = window.flights.pop_front() else {
            return Ok(None);
        };
        let lost = |error: &dyn std::error::Error| self.failed(Failure::Other, chain(error));
        let status = loop {
            match self.engine.wait(flight.batch, LOOK) {
                Ok(status) => break status,
                Err(WaitError::TimedOut { .. }) => {
                    let status = self.engine.batch_status(flight.batch).map_err(|e| lost(&e))?;
                    progress.set(window.done + status.bytes);
                }
                Err(error) => return Err(lost(&error)),
            }
        };
        if status.state != TaskState::Completed {
            return Err(self.explain(flight.batch, status.total, window.done));
        }
        self.engine.free_batch(flight.batch).map_err(|error| lost(&error))?;
        window.done += flight.length;
        progress.set(window.done);
        Ok(Some(flight))
    }

    /// The first request of a batch that did not complete.
    fn explain(&self, batch: BatchId, total: usize, done: u64) -> CliError {
        let mut tasks = (0..total).filter_map(|index| self.engine.status(batch, index).ok());
        let failed = tasks.find(|status| status.state != TaskState::Completed);
        let error = match failed {
            Some(status) => CliError::task(self.action, &self.opened.name, &status),
            None => self.failed(Failure::Other, "the batch failed".to_owned()),
        };
        match done {
            0 => error,
            done => error.after(&units::length(done)),
        }
    }

    fn failed(&self, failure: Failure, cause: String) -> CliError {
        CliError::new(failure, self.action, cause).with_peer(&self.opened.name)
    }
}

/// The chunks on the wire, oldest first.
#[derive(Debug, Default)]
struct Window {
    flights: VecDeque<Flight>,
    started: u64,
    done: u64,
}
