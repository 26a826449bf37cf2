//! What others tell a worker: slices through a queue without a lock, everything else seldom.
//!
//! I1  Whoever fills it rings or wakes afterwards; the worker looks after it said that it sleeps.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam::queue::ArrayQueue;
use rustix::event::{EventfdFlags, eventfd};
use te_segment::{Slice, SliceToken};
use te_transport::SliceFault;
use te_verbs::QueuePair;

use super::whom::Whom;
use crate::endpoint::NicPath;
use crate::store::Used;
use crate::sync::Mutex;

/// Which endpoint; never given twice.
pub(crate) type EndpointId = u64;

/// What a worker is told.
#[derive(Debug)]
pub(crate) enum Command {
    /// A connection may be used.
    Open {
        id: EndpointId,
        peer: NicPath,
        whom: Whom,
        queue_pairs: Vec<Arc<dyn QueuePair>>,
        used: Used,
    },
    /// A connection could not be had.
    Failed { peer: NicPath, fault: SliceFault },
    /// A connection has to end.
    Retire { id: EndpointId, fault: SliceFault },
    /// A completion queue of the NIC failed; there is one in use.
    QueueFailed,
    /// Connections on which nothing moved for so long may be of peers that are gone.
    Probe { idle: Duration },
    /// Slices are called back.
    Cancel(Vec<SliceToken>),
    /// The peer answered whether it will touch its memory no more by that connection.
    Fenced { id: EndpointId, is_confirmed: bool },
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Inbox {
    slices: ArrayQueue<Slice>,
    commands: Mutex<Vec<Command>>,
    filled: AtomicBool,
    bell: OwnedFd,
}

impl Inbox {
    /// # Errors
    /// The system gives no descriptor.
    pub(crate) fn new(capacity: usize) -> std::io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let slices = ArrayQueue::new(capacity.max(1));
        Ok(Self { slices, commands: Mutex::default(), filled: AtomicBool::new(false), bell })
    }

    /// Hands a slice over; gives it back where there is no place.
    pub(crate) fn push(&self, slice: Slice) -> Result<(), Slice> {
        self.slices.push(slice)
    }

    pub(crate) fn pop(&self) -> Option<Slice> {
        self.slices.pop()
    }

    /// Tells the worker, and rings.
    pub(crate) fn tell(&self, command: Command) {
        self.commands.lock().push(command);
        // Pairs with the load in `take`.
        self.filled.store(true, Ordering::SeqCst);
        self.ring();
    }

    /// Takes what was told.
    pub(crate) fn take(&self) -> Vec<Command> {
        if !self.filled.load(Ordering::SeqCst) {
            return Vec::new();
        }
        let mut commands = self.commands.lock();
        self.filled.store(false, Ordering::SeqCst);
        std::mem::take(&mut *commands)
    }

    pub(crate) fn is_filled(&self) -> bool {
        self.filled.load(Ordering::SeqCst) || !self.slices.is_empty()
    }

    /// Makes [`Inbox::bell`] readable.
    pub(crate) fn ring(&self) {
        // A full counter is readable as well, which is all that is wanted.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Takes back that the bell rang.
    pub(crate) fn hush(&self) {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }
}
