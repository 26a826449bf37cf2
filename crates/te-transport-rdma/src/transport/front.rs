//! What `submit` chooses our NIC with, where there are several.
//!
//! I1  Choosing takes no lock: whoever submits takes a chooser that nobody uses, and makes one where
//!     all are in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam::queue::ArrayQueue;
use te_segment::Slice;
use te_topology::{MemoryLocation, NicIndex, Picker};

use crate::choose::Chooser;
use crate::config::RdmaConfig;
use crate::memory::{MemoryReader, MemoryTable};
use crate::nic::Nics;

/// Choosers that are kept for later calls.
const KEPT: usize = 64;

/// See the module.
pub(super) struct Fronts {
    idle: ArrayQueue<Box<Front>>,
    /// Makes choosers that are not alike.
    seeds: AtomicU64,
    config: RdmaConfig,
    nics: Arc<Nics>,
    memory: Arc<MemoryTable>,
}

/// One chooser with its copies of the tables.
pub(super) struct Front {
    chooser: Chooser,
    memory: MemoryReader,
}

/// A chooser over these NICs; seeds make them differ.
pub(super) fn chooser(config: &RdmaConfig, nics: &Nics, seed: u64) -> Chooser {
    let picker = if config.in_turn { Picker::in_turn(seed) } else { Picker::random(seed) };
    Chooser::new(nics, config.matrix.as_ref(), config.pairing.clone(), picker)
}

impl Fronts {
    pub(super) fn new(
        config: &RdmaConfig,
        nics: &Arc<Nics>,
        memory: &Arc<MemoryTable>,
        seed: u64,
    ) -> Self {
        let (idle, seeds) = (ArrayQueue::new(KEPT), AtomicU64::new(seed));
        let (nics, memory) = (Arc::clone(nics), Arc::clone(memory));
        Self { idle, seeds, config: config.clone(), nics, memory }
    }

    /// One that nobody else has.
    pub(super) fn take(&self) -> Box<Front> {
        let make = || {
            let seed = self.seeds.fetch_add(1, Ordering::Relaxed);
            let chooser = chooser(&self.config, &self.nics, seed);
            Box::new(Front { chooser, memory: self.memory.reader() })
        };
        self.idle.pop().unwrap_or_else(make)
    }

    /// Gives it back. More than are kept are dropped.
    pub(super) fn give_back(&self, front: Box<Front>) {
        drop(self.idle.push(front));
    }
}

impl Front {
    /// The place of our NIC for a slice; `None` where none is active.
    pub(super) fn choose(&mut self, slice: &Slice) -> Option<usize> {
        self.memory.refresh();
        let address = slice.local.address();
        let chunk = self.memory.chunk(address);
        let location = chunk.map(|chunk| chunk.location_at(address));
        let location = location.as_deref().unwrap_or(&MemoryLocation::Any);
        let nic = self.chooser.local_nic(location, slice.attempt);
        nic.map(NicIndex::position)
    }
}

/// Which workers got something.
#[derive(Default)]
pub(super) struct Touched {
    first: u64,
    /// Whether there is one behind those of `first`.
    others: bool,
}

impl Touched {
    pub(super) fn add(&mut self, lane: usize) {
        match lane {
            0..64 => self.first |= 1 << lane,
            _ => self.others = true,
        }
    }

    pub(super) fn has(&self, lane: usize) -> bool {
        if lane < 64 { self.first >> lane & 1 == 1 } else { self.others }
    }
}
