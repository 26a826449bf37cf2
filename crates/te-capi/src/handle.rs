//! Handles of engines: numbers in the clothes of pointers, looked up in a table.
//!
//! ```text
//!   bits 63–56   55–48   47–16        15–0
//!        0x7e    era     generation   slot
//! ```
//!
//! A pointer to the engine itself, which is what Mooncake gives, cannot be checked: a stale one reads
//! freed memory. A number can, at the price of a lock for readers and a look at the table. The highest
//! byte makes it an address that x86-64 and aarch64 never map for a program, so that no real pointer is
//! taken for a handle, and a caller that reads through one is stopped at once.
//!
//! I1  A handle names one engine for good: a slot that is used again has another generation.
//! I2  The table's lock is never held while an engine is made, called or closed.
//! I3  A forked process has a table of its own, an *era*: the parent's may be locked for ever by a thread
//!     that is not here. A handle of an earlier era is known as one of the parent (FB52).

use std::ffi::c_void;

use te_compat::{Engine, Failure};
use te_segment::ForkMark;
use te_sync::RwLock;

use crate::raw::Lasting;

/// An engine handle, as C passes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Handle(*mut c_void);

impl Handle {
    /// No engine.
    pub(crate) const NULL: Self = Self(std::ptr::null_mut());

    /// The engine.
    ///
    /// # Errors
    /// What is no handle, was destroyed, or belongs to the parent of this process.
    pub(crate) fn engine(self) -> Result<Engine, Failure> {
        let (era, place) = self.place()?;
        let slots = era.slots.read();
        let slot = slots.get(place.slot).filter(|slot| slot.generation >= place.generation);
        let slot = slot.ok_or_else(foreign)?;
        let engine = slot.engine.as_ref().filter(|_| slot.generation == place.generation);
        engine.cloned().ok_or_else(|| failure("the engine was destroyed"))
    }

    fn place(self) -> Result<(&'static Era, Place), Failure> {
        let number = self.0.addr() as u64;
        if number == 0 {
            return Err(failure("the engine handle is a null pointer"));
        }
        let era = Era::current();
        let place = Place::of(number).ok_or_else(foreign)?;
        match place.era {
            same if same == era.number => Ok((era, place)),
            older if older < era.number => Err(Failure::forked()),
            _ => Err(foreign()),
        }
    }
}

/// Gives an engine a handle.
///
/// # Errors
/// All slots are taken.
pub(crate) fn insert(engine: Engine) -> Result<Handle, Failure> {
    let era = Era::current();
    let mut slots = era.slots.write();
    let free = slots.iter().position(|slot| slot.engine.is_none() && !slot.is_worn());
    let slot = match free {
        Some(slot) => slot,
        None if slots.len() < MAX_SLOTS => {
            slots.push(Slot::default());
            slots.len() - 1
        }
        None => return Err(failure("too many engines")),
    };
    slots[slot].generation += 1;
    slots[slot].engine = Some(engine);
    let generation = slots[slot].generation;
    Ok(Place { era: era.number, generation, slot }.handle())
}

/// Ends a handle; gives the engine that it named.
///
/// # Errors
/// As [`Handle::engine`].
pub(crate) fn remove(handle: Handle) -> Result<Engine, Failure> {
    let (era, place) = handle.place()?;
    let mut slots = era.slots.write();
    let slot = slots.get_mut(place.slot).filter(|slot| slot.generation >= place.generation);
    let slot = slot.ok_or_else(foreign)?;
    let is_same = slot.generation == place.generation;
    let engine = if is_same { slot.engine.take() } else { None };
    engine.ok_or_else(|| failure("the engine was destroyed already"))
}

/// A handle taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    era: u8,
    generation: u32,
    slot: usize,
}

const TAG: u64 = 0x7e;

/// As many as 16 bits name.
const MAX_SLOTS: usize = 1 << 16;

impl Place {
    #[expect(clippy::cast_possible_truncation, reason = "the fields are taken apart")]
    fn of(number: u64) -> Option<Self> {
        let place = Self {
            era: (number >> 48) as u8,
            generation: (number >> 16) as u32,
            slot: number as usize & (MAX_SLOTS - 1),
        };
        (number >> 56 == TAG).then_some(place)
    }

    fn handle(self) -> Handle {
        let Self { era, generation, slot } = self;
        let number = TAG << 56 | u64::from(era) << 48 | u64::from(generation) << 16 | slot as u64;
        // A handle is as wide as an address; nothing here is for machines of 32 bits.
        let address = usize::try_from(number).unwrap_or(0);
        Handle(std::ptr::without_provenance_mut(address))
    }
}

#[derive(Debug, Default)]
struct Slot {
    /// Of the engine that is or was here last; 0 before the first.
    generation: u32,
    engine: Option<Engine>,
}

impl Slot {
    fn is_worn(&self) -> bool {
        self.generation == u32::MAX
    }
}

/// The table of one process.
#[derive(Debug)]
struct Era {
    /// How many tables there were before, through forks.
    number: u8,
    mark: Option<ForkMark>,
    process: u32,
    slots: RwLock<Vec<Slot>>,
}

static ERA: Lasting<Era> = Lasting::empty();

impl Era {
    fn new(number: u8) -> Self {
        let (mark, process) = (ForkMark::new().ok(), std::process::id());
        Self { number, mark, process, slots: RwLock::default() }
    }

    /// That of this process.
    fn current() -> &'static Self {
        match ERA.get() {
            Some(era) if era.is_here() => era,
            // The old table stays as it is: its lock, and the engines, may be in any state.
            Some(old) => ERA.replace(Some(old), Self::new(old.number.saturating_add(1))),
            None => ERA.replace(None, Self::new(0)),
        }
    }

    fn is_here(&self) -> bool {
        match &self.mark {
            Some(mark) => mark.is_here(),
            None => self.process == std::process::id(),
        }
    }
}

fn foreign() -> Failure {
    failure("this is no engine handle")
}

fn failure(cause: &str) -> Failure {
    Failure::invalid("handle", cause)
}

#[cfg(test)]
mod tests;
