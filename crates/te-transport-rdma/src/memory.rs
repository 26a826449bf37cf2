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

mod error;
mod pretouch;
mod region;
mod view;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use te_segment::{LocalBuffer, LocalRange};
use te_topology::{MemoryLocation, NicIndex};
use te_verbs::{Device, MemoryAccess};

pub(crate) use self::error::MemoryError;
use self::region::{DmaBuf, Made, Maker, release};
pub(crate) use self::view::{Chunk, Keys, MemoryReader, MemoryView};
use crate::config::{MemorySettings, Parallel};
use crate::nic::Nics;
use crate::sync::Mutex;

/// The registered memory of this process.
#[derive(Debug)]
pub(crate) struct MemoryTable {
    nics: Arc<Nics>,
    settings: MemorySettings,
    version: AtomicU64,
    state: Mutex<State>,
    /// Held while a buffer is registered, and where it is looked for what a NIC lacks, so that no NIC
    /// becomes active without a buffer that was registered meanwhile. Taken before `state`.
    changing: Mutex<()>,
    /// Dma-bufs of memory that will be registered, by first address.
    offers: Mutex<BTreeMap<u64, DmaBuf>>,
}

#[derive(Debug, Default)]
struct State {
    /// By first address.
    buffers: BTreeMap<u64, Registered>,
    /// What was made of `buffers`, until they change.
    view: Option<Arc<MemoryView>>,
}

/// A buffer with its regions.
#[derive(Debug)]
struct Registered {
    /// Tells it from others that begin at the same address later.
    number: u64,
    access: MemoryAccess,
    dmabuf: Option<DmaBuf>,
    ranges: Vec<LocalRange>,
    /// One for each range.
    chunks: Vec<Arc<Chunk>>,
    /// By the index of the NIC; each is empty, or has a region for each range.
    regions: Vec<Vec<Made>>,
}

impl MemoryTable {
    /// An empty one.
    pub(crate) fn new(nics: Arc<Nics>, settings: MemorySettings) -> Self {
        let (version, changing) = (AtomicU64::new(1), Mutex::new(()));
        let (state, offers) = (Mutex::default(), Mutex::default());
        Self { nics, settings, version, state, changing, offers }
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

    /// Says that the memory from `address` on is a dma-buf from `offset` on (C37). The next buffer
    /// that is registered there is registered by it; a refusal spends the offer as well.
    pub(crate) fn offer_dmabuf(&self, address: u64, file: OwnedFd, offset: u64) {
        self.offers.lock().insert(address, DmaBuf::new(file, offset));
    }

    /// Registers a buffer on every NIC that is open. One that is open and not active may refuse; it
    /// gets another chance before it becomes active.
    ///
    /// # Errors
    /// [`MemoryError`]; nothing of the buffer is registered then (C33).
    pub(crate) fn register(&self, buffer: &LocalBuffer) -> Result<(), MemoryError> {
        let _changing = self.changing.lock();
        let address = buffer.region().address();
        let dmabuf = self.offers.lock().remove(&address);
        if self.state.lock().buffers.contains_key(&address) {
            return Err(MemoryError::Twice { address });
        }
        let access = MemoryAccess {
            remote: buffer.options().remote,
            relaxed_ordering: self.settings.relaxed_ordering,
        };
        let ranges = cut(buffer, self.longest_region());
        let (chunks, regions) = (Vec::new(), Vec::new());
        // It rises with each buffer that is put in, and only one is registered at a time.
        let number = self.version();
        let mut registered = Registered { number, access, dmabuf, ranges, chunks, regions };
        registered.regions = self.make_all(&registered, buffer.region().len())?;
        registered.chunks = registered.tell(buffer);
        self.change(|buffers| buffers.insert(address, registered));
        Ok(())
    }

    /// Releases a buffer; one that is not registered is no fault (C41).
    pub(crate) fn deregister(&self, buffer: &LocalBuffer) {
        let address = buffer.region().address();
        let left = self.change(|buffers| buffers.remove(&address));
        if let Some(registered) = left {
            let pays = buffer.region().len() >= RELEASE_APART;
            release(registered.regions, pays && self.settings.parallel != Parallel::Never);
        }
    }

    /// Registers on a NIC whatever is not registered there, which may take long and keeps nobody
    /// waiting. To be called before the NIC is said to be active, and once more after that: a buffer
    /// may come in between.
    ///
    /// # Errors
    /// [`MemoryError::Refused`]; what was registered stays.
    pub(crate) fn complete(&self, nic: NicIndex) -> Result<(), MemoryError> {
        let Some(device) = self.nics.nic(nic).and_then(|nic| nic.device()) else { return Ok(()) };
        while let Some((address, number, maker)) = self.next_missing(nic) {
            let made = maker.make(&**device)?;
            let unwanted = self.change(|buffers| match buffers.get_mut(&address) {
                Some(registered) if registered.number == number => {
                    registered.fill(nic, made);
                    None
                }
                // It left meanwhile.
                _ => Some(made),
            });
            drop(unwanted);
        }
        Ok(())
    }

    /// A buffer that is not registered on a NIC. Waits for one that is being registered.
    fn next_missing(&self, nic: NicIndex) -> Option<(u64, u64, Maker)> {
        let _changing = self.changing.lock();
        let state = self.state.lock();
        let missing = |registered: &Registered| registered.regions[nic.position()].is_empty();
        let (address, found) = state.buffers.iter().find(|(_, registered)| missing(registered))?;
        Some((*address, found.number, found.maker()))
    }

    /// The regions of a buffer on all NICs, or on none.
    fn make_all(&self, registered: &Registered, len: u64) -> Result<Vec<Vec<Made>>, MemoryError> {
        let maker = registered.maker();
        let devices: Vec<Option<&dyn Device>> =
            self.nics.iter().map(|nic| nic.device().map(|device| &**device)).collect();
        let open = || devices.iter().flatten();
        let touched = match (open().next(), &registered.dmabuf) {
            (Some(device), None) if len >= self.settings.pre_touch_from => {
                pretouch::touch(*device, &registered.ranges, self.settings.pre_touch_threads)
            }
            _ => false,
        };
        let together = open().count() > 1
            && match self.settings.parallel {
                Parallel::Auto => touched,
                Parallel::Never => false,
                Parallel::Always => true,
            };
        let snapshot = self.nics.snapshot();
        let mut regions = Vec::with_capacity(devices.len());
        let mut refusal = None;
        for (nic, made) in self.nics.iter().zip(maker.make_on(&devices, together)) {
            match made {
                Ok(made) => regions.push(made),
                Err(error) => {
                    regions.push(Vec::new());
                    let is_worse = snapshot.is_active(nic.index());
                    match (&refusal, is_worse) {
                        (None, _) | (Some((false, _)), true) => refusal = Some((is_worse, error)),
                        _ => {}
                    }
                }
            }
        }
        let is_anywhere = regions.iter().any(|made| !made.is_empty());
        match refusal {
            Some((is_active, error)) if is_active || !is_anywhere => Err(error),
            _ => Ok(regions),
        }
    }

    /// The longest region that every open NIC takes.
    fn longest_region(&self) -> u64 {
        let limits = self.nics.iter().filter_map(|nic| nic.limits());
        limits.map(|limits| limits.max_region).min().unwrap_or(self.settings.max_region).max(1)
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<u64, Registered>) -> T) -> T {
        let mut state = self.state.lock();
        let result = change(&mut state.buffers);
        state.view = None;
        // Pairs with the load in `version`.
        self.version.fetch_add(1, Ordering::Release);
        result
    }

    fn numbered_view(&self) -> (u64, Arc<MemoryView>) {
        let mut state = self.state.lock();
        let State { buffers, view } = &mut *state;
        let made = || {
            let chunks = buffers.values().flat_map(|registered| &registered.chunks);
            Arc::new(MemoryView::new(chunks.cloned().collect()))
        };
        let view = Arc::clone(view.get_or_insert_with(made));
        (self.version(), view)
    }
}

impl Registered {
    fn maker(&self) -> Maker {
        let dmabuf = self.dmabuf.as_ref().map(DmaBuf::share);
        Maker { access: self.access, dmabuf, ranges: self.ranges.clone() }
    }

    /// The keys of each range.
    fn tell(&self, buffer: &LocalBuffer) -> Vec<Arc<Chunk>> {
        let chunk = |(place, range): (usize, &LocalRange)| {
            Arc::new(Chunk {
                address: range.address(),
                len: range.len(),
                location: location(buffer, range),
                remote: self.access.remote,
                keys: self.regions.iter().map(|made| Some(keys(made.get(place)?))).collect(),
            })
        };
        self.ranges.iter().enumerate().map(chunk).collect()
    }

    fn fill(&mut self, nic: NicIndex, made: Vec<Made>) {
        for (chunk, region) in self.chunks.iter_mut().zip(&made) {
            Arc::make_mut(chunk).keys[nic.position()] = Some(keys(region));
        }
        self.regions[nic.position()] = made;
    }
}

fn keys(region: &Made) -> Keys {
    Keys { lkey: region.lkey(), rkey: te_metadata::Rkey::new(region.rkey()) }
}

/// Consecutive ranges of at most `longest` bytes (C32).
fn cut(buffer: &LocalBuffer, longest: u64) -> Vec<LocalRange> {
    let len = buffer.region().len();
    let mut ranges = Vec::new();
    let mut offset = 0;
    while offset < len {
        let part = longest.min(len - offset);
        ranges.extend(buffer.region().range(offset, part));
        offset += part;
    }
    ranges
}

/// Where a range of a buffer is. Parts of it on several nodes have a name only as a whole.
fn location(buffer: &LocalBuffer, range: &LocalRange) -> MemoryLocation {
    let whole = &buffer.options().location;
    if range.len() == buffer.region().len() || !matches!(whole, MemoryLocation::Segments { .. }) {
        return whole.clone();
    }
    let (first, end) = (range.offset(), range.offset() + range.len());
    let parts = whole.parts(buffer.region().len());
    let mut touched = parts.into_iter().filter(|(at, len, _)| *at < end && at + len > first);
    match (touched.next(), touched.next()) {
        (Some((_, _, location)), None) => location,
        _ => MemoryLocation::Any,
    }
}

/// Buffers from this length on are released by one thread for each NIC, bytes. Starting threads costs
/// as much as releasing some megabytes.
const RELEASE_APART: u64 = 64 << 20;

#[cfg(test)]
mod tests;
