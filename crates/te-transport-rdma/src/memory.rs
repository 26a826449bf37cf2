//! Registered memory: a key for each NIC and each piece of a buffer.
//!
//! ```text
//!   buffer ──cut at the longest region──▶ chunk ──▶ one region on each NIC that is open
//!                                           └─────▶ keys, which workers and peers are told
//! ```
//!
//! I1  A buffer is in the table with all its chunks, each registered on every NIC that was active,
//!     or not at all.
//! I2  Views hold keys, never regions: memory is released when its buffer leaves the table, however
//!     old the views are that somebody keeps.
//! I3  A piece that a key is for lies in one chunk.

mod pretouch;
mod region;
mod view;

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use te_segment::{LocalBuffer, LocalRange};
use te_topology::{MemoryLocation, NicIndex, NicName};
use te_verbs::{MemoryAccess, VerbsError};
use thiserror::Error;

use self::region::{Made, Source};
pub(crate) use self::view::{Chunk, Keys, LocalPiece, MemoryReader, MemoryView};
use crate::config::{MemorySettings, Parallel};
use crate::nic::Nics;
use crate::sync::Mutex;

/// Why a buffer was not registered. Nothing of it is.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(crate) enum MemoryError {
    /// A NIC refused a piece of it.
    #[error("NIC {nic} cannot register {len} bytes at {address:#x}")]
    Refused {
        /// Which NIC.
        nic: NicName,
        /// First address of the piece.
        address: u64,
        /// Its bytes.
        len: u64,
        /// Why.
        #[source]
        cause: VerbsError,
    },
    /// No NIC is active that could register it. Look at the links.
    #[error("no NIC is active that could register {len} bytes at {address:#x}")]
    NoNic {
        /// First address of the buffer.
        address: u64,
        /// Its bytes.
        len: u64,
    },
    /// A buffer that begins there is registered already.
    #[error("memory at {address:#x} is registered already")]
    Twice {
        /// That address.
        address: u64,
    },
}

/// The registered memory of this process.
#[derive(Debug)]
pub(crate) struct MemoryTable {
    nics: Arc<Nics>,
    settings: MemorySettings,
    version: AtomicU64,
    state: Mutex<State>,
    /// Held while a buffer is registered or a NIC is completed, so that no NIC becomes active
    /// without a buffer that was registered meanwhile.
    changing: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// By first address.
    buffers: BTreeMap<u64, Registered>,
    /// What was made of `buffers`, until they change.
    view: Option<Arc<MemoryView>>,
}

/// A buffer with its regions, chunk by chunk.
#[derive(Debug)]
struct Registered {
    buffer: Arc<LocalBuffer>,
    access: MemoryAccess,
    chunks: Vec<Piece>,
}

#[derive(Debug)]
struct Piece {
    range: LocalRange,
    location: MemoryLocation,
    /// By the index of the NIC.
    regions: Vec<Option<Made>>,
    told: Arc<Chunk>,
}

impl MemoryTable {
    /// An empty one.
    pub(crate) fn new(nics: Arc<Nics>, settings: MemorySettings) -> Self {
        let (version, changing) = (AtomicU64::new(1), Mutex::new(()));
        Self { nics, settings, version, state: Mutex::default(), changing }
    }

    /// A number that rises with each change.
    pub(crate) fn version(&self) -> u64 {
        // Pairs with the addition in `change`.
        self.version.load(Ordering::Acquire)
    }

    /// The keys as they are now. Takes a lock; who reads often has a reader.
    pub(crate) fn view(&self) -> Arc<MemoryView> {
        self.numbered_view().1
    }

    /// A copy of the keys for one thread.
    pub(crate) fn reader(self: &Arc<Self>) -> MemoryReader {
        MemoryReader::new(self)
    }

    /// Registers a buffer on every NIC that is open. One that is open and not active may refuse; it
    /// gets another chance before it becomes active.
    ///
    /// # Errors
    /// [`MemoryError`]; nothing of the buffer is registered then (C33).
    pub(crate) fn register(&self, buffer: &Arc<LocalBuffer>) -> Result<(), MemoryError> {
        self.register_from(buffer, Source::Memory)
    }

    /// Registers a buffer whose bytes are those of a dma-buf from `offset` on (C37).
    ///
    /// # Errors
    /// As [`MemoryTable::register`].
    pub(crate) fn register_dmabuf(
        &self,
        buffer: &Arc<LocalBuffer>,
        file: BorrowedFd<'_>,
        offset: u64,
    ) -> Result<(), MemoryError> {
        self.register_from(buffer, Source::DmaBuf { file, offset })
    }

    /// Releases a buffer; one that is not registered is no fault (C41).
    pub(crate) fn deregister(&self, buffer: &LocalBuffer) {
        let _ = buffer;
        todo!()
    }

    /// Registers on a NIC whatever is not registered there, before it becomes active.
    ///
    /// # Errors
    /// [`MemoryError::Refused`]; what was registered stays.
    pub(crate) fn complete(&self, nic: NicIndex) -> Result<(), MemoryError> {
        let _ = nic;
        todo!()
    }

    fn register_from(
        &self,
        buffer: &Arc<LocalBuffer>,
        source: Source<'_>,
    ) -> Result<(), MemoryError> {
        let _ = (buffer, source);
        todo!()
    }

    fn numbered_view(&self) -> (u64, Arc<MemoryView>) {
        todo!()
    }
}
