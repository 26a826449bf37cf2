//! Completion queues of the fake.

use std::collections::VecDeque;
use std::sync::Arc;

use super::signal::Signal;
use super::state::State;
use crate::event::DeviceEvent;
use crate::work::WorkCompletion;

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) nic: usize,
    pub(super) context: usize,
    capacity: usize,
    entries: VecDeque<Entry>,
    /// Completions that are there and not shown.
    held: Vec<Entry>,
    is_armed: bool,
    has_failed: bool,
    /// Whether it failed without saying so.
    is_silent: bool,
    signal: Arc<Signal>,
}

/// A completion, and what taking it frees.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) told: WorkCompletion,
    pub(super) pair: usize,
    pub(super) serial: u64,
    /// Work requests of the queue pair before this one are done.
    pub(super) done: u64,
}

impl Queue {
    pub(super) fn new(at: (usize, usize), capacity: usize, signal: Arc<Signal>) -> Self {
        let entries = VecDeque::with_capacity(capacity);
        let (nic, context) = at;
        let (held, is_armed, has_failed, is_silent) = (Vec::new(), false, false, false);
        Self { nic, context, capacity, entries, held, is_armed, has_failed, is_silent, signal }
    }

    /// Adds a completion; false where there was no room, and it is lost.
    fn push(&mut self, entry: Entry) -> bool {
        if self.is_silent {
            return true;
        }
        if self.has_failed || self.entries.len() == self.capacity {
            self.has_failed = true;
            return false;
        }
        self.entries.push_back(entry);
        if std::mem::take(&mut self.is_armed) {
            self.signal.raise();
        }
        true
    }

    pub(super) fn arm(&mut self) -> Result<(), i32> {
        self.is_armed = true;
        if self.has_failed { Err(libc::EIO) } else { Ok(()) }
    }

    pub(super) fn fail(&mut self) {
        self.has_failed = true;
        self.signal.raise();
    }

    pub(super) fn fall_silent(&mut self) {
        self.is_silent = true;
        self.entries.clear();
        self.held.clear();
    }

    /// Queue pairs that have held completions, each once.
    pub(super) fn holders(&self) -> impl Iterator<Item = usize> + '_ {
        let first = |at: usize| self.held[..at].iter().all(|e| e.pair != self.held[at].pair);
        (0..self.held.len()).filter(move |at| first(*at)).map(|at| self.held[at].pair)
    }
}

impl State {
    /// Shows a completion, or keeps it.
    pub(super) fn complete(&mut self, queue: usize, entry: Entry) {
        let held = self.completions_held;
        let Some(target) = self.queues[queue].as_mut() else { return };
        if held && !target.is_silent {
            target.held.push(entry);
        } else {
            self.show(queue, entry);
        }
    }

    fn show(&mut self, queue: usize, entry: Entry) {
        let Some(target) = self.queues[queue].as_mut() else { return };
        if !target.push(entry) {
            let (nic, context) = (target.nic, target.context);
            target.signal.raise();
            if let Some(context) = self.nics[nic].contexts[context].as_mut() {
                context.push(DeviceEvent::CompletionQueueError);
            }
        }
    }

    /// Shows the oldest held completion of a queue pair.
    pub(super) fn show_held(&mut self, queue: usize, pair: usize) {
        let Some(target) = self.queues[queue].as_mut() else { return };
        if let Some(at) = target.held.iter().position(|entry| entry.pair == pair) {
            let entry = target.held.remove(at);
            self.show(queue, entry);
        }
    }

    /// Drops the completions of a queue pair that nobody was shown.
    pub(super) fn forget_held(&mut self, slot: usize) {
        let (queue, serial) = (self.pair(slot).queue, self.pair(slot).serial);
        if let Some(queue) = self.queues[queue].as_mut() {
            queue.held.retain(|entry| entry.serial != serial);
        }
    }

    /// Takes completions, and frees the work requests they stand for.
    pub(super) fn take(&mut self, queue: usize, out: &mut [WorkCompletion]) -> Result<usize, i32> {
        let Some(source) = self.queues[queue].as_mut() else { return Err(libc::EINVAL) };
        if source.entries.is_empty() && source.has_failed {
            return Err(libc::EIO);
        }
        let count = source.entries.len().min(out.len());
        for (slot, entry) in out.iter_mut().zip(source.entries.drain(..count)) {
            *slot = entry.told;
            if let Some(pair) = self.pairs[entry.pair].as_mut()
                && pair.serial == entry.serial
            {
                pair.free_to(entry.done);
            }
        }
        Ok(count)
    }
}
