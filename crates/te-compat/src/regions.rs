//! From addresses to regions: what is registered, by address, and what is made for one call.
//!
//! I1  An entry is a name for bytes and no right to them: the engine checks what is registered. A
//!     stale entry therefore costs nothing but a look.

use std::collections::BTreeMap;

use te_engine::{LocalRange, Region, RegionError};
use te_sync::RwLock;

use crate::door::{self, CallerMemory};

/// The regions of an engine.
#[derive(Debug)]
pub(crate) struct Regions {
    memory: CallerMemory,
    known: RwLock<BTreeMap<u64, Region>>,
    /// Stands for the local side of what moves no byte.
    nothing: Region,
}

/// Looks up ranges of one call; remembers the region of the last one.
#[derive(Debug)]
pub(crate) struct Finder<'a> {
    regions: &'a Regions,
    last: Option<Region>,
}

impl Regions {
    pub(crate) fn new(memory: CallerMemory, nothing: Region) -> Self {
        Self { memory, known: RwLock::default(), nothing }
    }

    /// A region of these bytes: the one that is known to start there, or one that is made now.
    pub(crate) fn name(&self, address: u64, len: u64) -> Result<Region, RegionError> {
        let same = self.known.read().get(&address).filter(|it| it.len() == len).cloned();
        same.map_or_else(|| door::region(self.memory, address, len), Ok)
    }

    /// It is registered.
    pub(crate) fn add(&self, region: &Region) {
        self.known.write().insert(region.address(), region.clone());
    }

    /// No registered buffer starts there any more.
    pub(crate) fn remove(&self, address: u64) {
        self.known.write().remove(&address);
    }

    pub(crate) fn finder(&self) -> Finder<'_> {
        Finder { regions: self, last: None }
    }

    /// An empty range.
    pub(crate) fn nothing(&self) -> LocalRange {
        self.nothing.range(0, 0).unwrap_or_else(|_| self.nothing.whole())
    }

    fn find(&self, address: u64, len: u64) -> Option<Region> {
        let known = self.known.read();
        let (_, region) = known.range(..=address).next_back()?;
        is_inside(region, address, len).then(|| region.clone())
    }
}

impl Finder<'_> {
    /// The range of these bytes. Memory that is not registered is named for this call (peer fault 28).
    pub(crate) fn range(&mut self, address: u64, len: u64) -> Result<LocalRange, RegionError> {
        if len == 0 {
            return Ok(self.regions.nothing());
        }
        let is_hit = self.last.as_ref().is_some_and(|region| is_inside(region, address, len));
        if !is_hit {
            self.last = match self.regions.find(address, len) {
                Some(region) => Some(region),
                None => Some(door::region(self.regions.memory, address, len)?),
            };
        }
        let region = self.last.as_ref().ok_or(RegionError::Null)?;
        Ok(region.range(address - region.address(), len)?)
    }
}

fn is_inside(region: &Region, address: u64, len: u64) -> bool {
    let offset = address.checked_sub(region.address());
    offset.and_then(|offset| offset.checked_add(len)).is_some_and(|end| end <= region.len())
}
