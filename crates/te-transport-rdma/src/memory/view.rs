//! The keys of registered memory, for those that read them all the time.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use te_metadata::Rkey;
use te_segment::RemoteAccess;
use te_topology::{MemoryLocation, NicIndex};

use super::MemoryTable;

/// What a NIC calls a piece of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keys {
    /// For our own work requests. It never leaves this crate.
    pub(crate) lkey: u32,
    /// For peers.
    pub(crate) rkey: Rkey,
}

/// A piece of registered memory that has one key on each NIC.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chunk {
    /// First address.
    pub(crate) address: u64,
    /// Bytes.
    pub(crate) len: u64,
    /// Where the memory is.
    pub(crate) location: MemoryLocation,
    /// What peers may do.
    pub(crate) remote: RemoteAccess,
    /// By the index of the NIC; `None` for a NIC that has it not registered.
    pub(crate) keys: Vec<Option<Keys>>,
}

/// The part of a range that one key is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocalPiece {
    /// The key.
    pub(crate) lkey: u32,
    /// Bytes from the asked address on; at least 1.
    pub(crate) len: u64,
}

/// All registered memory at one moment.
#[derive(Debug, Default)]
pub(crate) struct MemoryView {
    /// Sorted by address; they do not overlap.
    chunks: Vec<Arc<Chunk>>,
}

impl Chunk {
    /// Where the memory at an address of it is.
    pub(crate) fn location_at(&self, address: u64) -> Cow<'_, MemoryLocation> {
        self.location.at(self.len, address.saturating_sub(self.address))
    }
}

impl MemoryView {
    /// Of chunks that are sorted by address and do not overlap.
    pub(super) fn new(chunks: Vec<Arc<Chunk>>) -> Self {
        Self { chunks }
    }

    /// Those that begin in a range.
    pub(crate) fn chunks_of(&self, address: u64, len: u64) -> &[Arc<Chunk>] {
        let end = address.saturating_add(len);
        let before = |limit: u64| self.chunks.partition_point(|chunk| chunk.address < limit);
        &self.chunks[before(address)..before(end)]
    }

    /// All chunks, in order of their addresses.
    #[cfg(test)]
    pub(crate) fn chunks(&self) -> &[Arc<Chunk>] {
        &self.chunks
    }

    /// The chunk that an address lies in; O(log n).
    pub(crate) fn chunk(&self, address: u64) -> Option<&Chunk> {
        let upto = self.chunks.partition_point(|chunk| chunk.address <= address);
        let chunk = self.chunks[..upto].last()?;
        (address - chunk.address < chunk.len).then_some(&**chunk)
    }

    /// The key of a NIC for the memory at an address, and how much of `len` bytes, at least 1, it is
    /// good for (C40).
    pub(crate) fn local_piece(&self, nic: NicIndex, address: u64, len: u64) -> Option<LocalPiece> {
        let chunk = self.chunk(address)?;
        let keys = chunk.keys.get(nic.position())?.as_ref()?;
        let left = chunk.len - (address - chunk.address);
        Some(LocalPiece { lkey: keys.lkey, len: len.min(left) })
    }
}

/// One thread's copy of the view.
#[derive(Debug)]
pub(crate) struct MemoryReader {
    table: Arc<MemoryTable>,
    version: u64,
    view: Arc<MemoryView>,
}

impl MemoryReader {
    pub(super) fn new(table: &Arc<MemoryTable>) -> Self {
        let (version, view) = table.numbered_view();
        Self { table: Arc::clone(table), version, view }
    }

    /// Takes the newest view; locks only if there is another one. Says whether there was.
    pub(crate) fn refresh(&mut self) -> bool {
        let is_old = self.table.version() != self.version;
        if is_old {
            (self.version, self.view) = self.table.numbered_view();
        }
        is_old
    }
}

/// What was taken last.
impl Deref for MemoryReader {
    type Target = MemoryView;

    fn deref(&self) -> &MemoryView {
        &self.view
    }
}
