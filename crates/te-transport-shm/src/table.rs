//! Which of our buffers others may touch now, and who is touching them: the guard of a one-sided
//! copy, in memory that both processes see.
//!
//! ```text
//!   guard table (the owner writes, every initiator reads)   holds (one page for each initiator)
//!     header  magic, size, incarnation, open                  header  magic
//!     slot 0  generation | lent, open, write, read            hold 0  generation | slot + 1
//!     slot 1  …                                               …       0 = free
//!
//!   initiator:  hold = slot ── fence ── slot open? ── copy ── still the same? ── hold = 0
//!   owner:      slot closed ── fence ── any hold on it? wait : the buffer is free
//! ```
//!
//! I1  An initiator that saw a slot open after it had put its hold is seen by an owner that looks
//!     for holds after it closed the slot: each writes its own word, then reads the other's, all of
//!     it in one total order (`SeqCst`). So no copy runs on a slot that was found free of holds.
//! I2  Holds of one initiator are on a page of its own: nobody else can clear or forge them, and
//!     when its process is dead the page is forgotten as a whole.
//! I3  Every word of the other side is a number that may have any value: it is compared, never used
//!     as an address, a length or a count.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use te_metadata::{BufferHandle, Incarnation};
use te_segment::{Access, BufferId, RemoteAccess};

use crate::fd::{ReadWords, SealError, Words};

/// Buffers that can be offered at the same time; the pages of slots that no buffer had take no
/// memory.
pub(crate) const SLOTS: u32 = 1 << 20;
/// Buffers that one initiator can hold at the same time.
pub(crate) const HOLDS: usize = 64;

const TABLE_MAGIC: u64 = u64::from_le_bytes(*b"te-guard");
const HOLDS_MAGIC: u64 = u64::from_le_bytes(*b"te-holds");
/// Words of either header: one cache line.
const HEADER: usize = 8;
const SIZE_WORD: usize = 1;
const INCARNATION_WORDS: [usize; 2] = [2, 3];
const OPEN_WORD: usize = 4;
const PRIVATE_WORD: usize = 5;
/// Bytes of the guard table: slots of eight bytes, and a page for the header.
const TABLE_BYTES: usize = (SLOTS as usize) * 8 + 4096;
const HOLDS_BYTES: usize = 4096;

/// A slot's word: generation in the high half, rights and state in the low bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SlotWord(u64);

impl SlotWord {
    const READ: u64 = 1;
    const WRITE: u64 = 2;
    const OPEN: u64 = 4;
    /// Its memory can be mapped; see `map.rs`.
    const LENT: u64 = 8;

    fn open(generation: u32, remote: RemoteAccess, lent: bool) -> Self {
        let rights = match remote {
            RemoteAccess::None => 0,
            RemoteAccess::Read => Self::READ,
            RemoteAccess::ReadWrite => Self::READ | Self::WRITE,
        };
        let lent = if lent { Self::LENT } else { 0 };
        Self((u64::from(generation) << 32) | lent | Self::OPEN | rights)
    }

    fn closed(generation: u32) -> Self {
        Self(u64::from(generation) << 32)
    }

    fn is_of(self, generation: u32) -> bool {
        self.0 >> 32 == u64::from(generation)
    }

    fn check(self, generation: u32, access: Access) -> Result<(), Denial> {
        let right = match access {
            Access::Read => Self::READ,
            Access::Write => Self::WRITE,
        };
        if !self.is_of(generation) || self.0 & Self::OPEN == 0 {
            Err(Denial::Gone)
        } else if self.0 & right == 0 {
            Err(Denial::Forbidden)
        } else {
            Ok(())
        }
    }
}

/// Why a peer's buffer may not be touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denial {
    /// It is being unregistered, or was.
    #[error("the peer has unregistered the buffer")]
    Gone,
    /// The right is missing.
    #[error("the peer does not offer the buffer for this")]
    Forbidden,
    /// The peer's table does not reach so far, or all our holds are taken.
    #[error("the guard table has no place for the buffer")]
    NoPlace,
}

/// The owner's side of the guard table.
#[derive(Debug)]
pub(crate) struct GuardTable {
    words: Words,
    fd: OwnedFd,
}

impl GuardTable {
    /// A table of which every slot is closed.
    pub(crate) fn create(incarnation: Incarnation) -> io::Result<Self> {
        let (fd, words) = Words::create("te-shm-guards", TABLE_BYTES, true)?;
        let table = Self { words, fd };
        let number = incarnation.as_u128().to_le_bytes();
        let half = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| number[at + i]));
        table.set(INCARNATION_WORDS[0], half(0));
        table.set(INCARNATION_WORDS[1], half(8));
        table.set(SIZE_WORD, u64::from(SLOTS));
        table.set(OPEN_WORD, 1);
        table.set(0, TABLE_MAGIC);
        Ok(table)
    }

    /// What initiators are given.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Offers a buffer, to be mapped as well where it is `lent`. Says whether its slot has a place
    /// in the table.
    pub(crate) fn open(&self, buffer: BufferId, remote: RemoteAccess, lent: bool) -> bool {
        let has_place = buffer.slot() < SLOTS;
        if has_place {
            let word = SlotWord::open(buffer.generation(), remote, lent);
            self.set(slot_index(buffer.slot()), word.0);
        }
        has_place
    }

    /// Says how many buffers are offered that cannot be mapped.
    pub(crate) fn set_private(&self, n: usize) {
        self.set(PRIVATE_WORD, n as u64);
    }

    /// Takes a buffer back: whoever looks at its slot from now on may not begin to touch it.
    pub(crate) fn close(&self, buffer: BufferId) {
        if buffer.slot() < SLOTS {
            self.set(slot_index(buffer.slot()), SlotWord::closed(buffer.generation()).0);
        }
    }

    /// Says that nothing is offered any more.
    pub(crate) fn shut(&self) {
        self.set(OPEN_WORD, 0);
    }

    fn set(&self, index: usize, value: u64) {
        if let Some(word) = self.words.word(index) {
            // Pairs with the loads in `PeerTable`; see I1.
            word.store(value, Ordering::SeqCst);
        }
    }
}

/// An initiator's side of the guard table of a peer.
#[derive(Debug)]
pub(crate) struct PeerTable(ReadWords);

impl PeerTable {
    pub(crate) fn open(fd: &OwnedFd, incarnation: Incarnation) -> Result<Self, SealError> {
        let table = Self(ReadWords::open(fd, TABLE_BYTES)?);
        let halves = INCARNATION_WORDS.map(|index| u128::from(table.word(index)));
        let is_good = table.word(0) == TABLE_MAGIC
            && table.word(SIZE_WORD) == u64::from(SLOTS)
            && halves[0] | (halves[1] << 64) == incarnation.as_u128();
        if is_good { Ok(table) } else { Err(SealError::Kind) }
    }

    /// Whether the peer's engine still offers anything.
    pub(crate) fn is_open(&self) -> bool {
        self.word(OPEN_WORD) == 1
    }

    /// Whether a buffer may be touched now. Counts only where a hold was put before (I1).
    pub(crate) fn check(&self, buffer: BufferHandle, access: Access) -> Result<(), Denial> {
        self.slot(buffer)?.check(buffer.generation, access)
    }

    /// Whether the buffer is offered now, for whatever.
    pub(crate) fn is_offered(&self, buffer: BufferHandle) -> bool {
        let open = |word: SlotWord| word.is_of(buffer.generation) && word.0 & SlotWord::OPEN != 0;
        self.slot(buffer).is_ok_and(open)
    }

    /// Whether a slot is still that of the buffer: what was copied under a hold is good then, also
    /// where the owner began to close it meanwhile.
    pub(crate) fn is_same(&self, buffer: BufferHandle) -> bool {
        self.slot(buffer).is_ok_and(|word| word.is_of(buffer.generation))
    }

    /// Whether the buffer's memory can be mapped.
    pub(crate) fn is_lent(&self, buffer: BufferHandle) -> bool {
        self.slot(buffer).is_ok_and(|word| word.0 & SlotWord::LENT != 0)
    }

    /// Whether every buffer that the peer offers can be mapped.
    pub(crate) fn lends_all(&self) -> bool {
        self.word(PRIVATE_WORD) == 0
    }

    fn slot(&self, buffer: BufferHandle) -> Result<SlotWord, Denial> {
        if buffer.slot >= SLOTS {
            return Err(Denial::NoPlace);
        }
        Ok(SlotWord(self.word(slot_index(buffer.slot))))
    }

    fn word(&self, index: usize) -> u64 {
        // Pairs with the stores in `GuardTable::set`.
        self.0.load(index, Ordering::SeqCst).unwrap_or(0)
    }
}

fn slot_index(slot: u32) -> usize {
    HEADER + slot as usize
}

/// The holds of one initiator, as either side sees them.
#[derive(Debug)]
pub(crate) struct Holds(Words);

impl Holds {
    /// A page without holds, made by the owner.
    pub(crate) fn create() -> io::Result<(OwnedFd, Self)> {
        let (fd, words) = Words::create("te-shm-holds", HOLDS_BYTES, false)?;
        let holds = Self(words);
        holds.set(0, HOLDS_MAGIC, Ordering::SeqCst);
        Ok((fd, holds))
    }

    /// The page as the initiator maps it.
    pub(crate) fn open(fd: &OwnedFd) -> Result<Self, SealError> {
        let holds = Self(Words::open(fd, HOLDS_BYTES)?);
        if holds.get(0) == HOLDS_MAGIC { Ok(holds) } else { Err(SealError::Kind) }
    }

    /// Puts hold number `index`. Whether the buffer may be touched is looked at afterwards.
    pub(crate) fn put(&self, index: usize, buffer: BufferHandle) -> Result<(), Denial> {
        if index >= HOLDS || buffer.slot >= SLOTS {
            return Err(Denial::NoPlace);
        }
        // Pairs with the loads in `names`; see I1.
        self.set(HEADER + index, hold_word(buffer), Ordering::SeqCst);
        Ok(())
    }

    /// Takes one hold away, under which nothing was copied.
    pub(crate) fn free(&self, index: usize) {
        self.set(HEADER + index, 0, Ordering::Release);
    }

    /// Takes the first `n` holds away. What was copied under them comes before it: release pairs
    /// with the loads in `names`.
    pub(crate) fn clear(&self, n: usize) {
        (0..n.min(HOLDS)).for_each(|index| self.free(index));
    }

    /// Whether the initiator holds the buffer in this slot, of whatever generation.
    pub(crate) fn names(&self, slot: u32) -> bool {
        (0..HOLDS).any(|index| slot_of(self.get(HEADER + index)) == Some(slot))
    }

    /// Whether the initiator holds nothing.
    pub(crate) fn is_idle(&self) -> bool {
        (0..HOLDS).all(|index| self.get(HEADER + index) == 0)
    }

    fn set(&self, index: usize, value: u64, order: Ordering) {
        if let Some(word) = self.0.word(index) {
            word.store(value, order);
        }
    }

    fn get(&self, index: usize) -> u64 {
        // Pairs with the stores in `put` and `clear`.
        self.0.word(index).map_or(0, |word| word.load(Ordering::SeqCst))
    }
}

fn hold_word(buffer: BufferHandle) -> u64 {
    (u64::from(buffer.generation) << 32) | (u64::from(buffer.slot) + 1)
}

/// The slot that a hold names; `None` where it is free, or no slot of ours.
fn slot_of(word: u64) -> Option<u32> {
    let low = u32::try_from(word & u64::from(u32::MAX)).ok()?;
    low.checked_sub(1)
}

#[cfg(test)]
mod tests;
