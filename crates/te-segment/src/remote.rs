//! The cache of remote descriptors: asks for fetches, never fetches.
//!
//! ```text
//!            open              complete(ok)                 want_newer
//!   absent ───────▶ fetching ───────────────▶ known ──────────────────────▶ known + fetching
//!      ▲                │ complete(error)       ▲        complete(any)             │
//!      └────────────────┘                       └──────────────────────────────────┘
//! ```
//!
//! I1  A name has one number for the life of the engine (te-classic B40).
//! I2  At most one fetch per segment is outstanding: a burst of faults costs one (FB26).
//! I3  Readers get immutable snapshots; a refresh replaces the snapshot (te-classic B41).
//! I4  A failed refresh keeps the old snapshot (te-classic B45). Of one whose name was absent several
//!     times in a row a new opening is told; who has it open may still find its successor (FB26).

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use te_metadata::{BufferDescriptor, HostPort, ProtocolPart, SegmentDescriptor, SegmentName};

use crate::id::SegmentId;
use crate::range::RemoteRange;

/// A peer as known at one moment. Immutable.
pub struct RemoteSegment {
    id: SegmentId,
    name: SegmentName,
    rpc: HostPort,
    descriptor: SegmentDescriptor,
    epoch: u64,
    /// Sorted by start.
    index: Vec<Reach>,
}

/// One buffer of a descriptor, and how far it and all buffers that start below it reach. A range
/// is inside some buffer exactly when it ends within that reach, so that one binary search answers
/// even where a hostile descriptor lists buffers inside buffers.
struct Reach {
    start: u64,
    /// The furthest end so far, and the list position of the buffer that has it.
    end: u64,
    position: usize,
}

impl RemoteSegment {
    /// A snapshot; `epoch` counts the snapshots of one segment from 1.
    pub fn new(
        id: SegmentId,
        name: SegmentName,
        rpc: HostPort,
        descriptor: SegmentDescriptor,
        epoch: u64,
    ) -> Self {
        let index = reaches(&descriptor);
        Self { id, name, rpc, descriptor, epoch, index }
    }

    /// Its number in this engine.
    pub fn id(&self) -> SegmentId {
        self.id
    }

    /// The name it was opened under.
    pub fn name(&self) -> &SegmentName {
        &self.name
    }

    /// Where its handshake port is.
    pub fn rpc(&self) -> &HostPort {
        &self.rpc
    }

    /// What it says about itself.
    pub fn descriptor(&self) -> &SegmentDescriptor {
        &self.descriptor
    }

    /// Which snapshot of the segment this is, from 1.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Position in the descriptor's list of a buffer that wholly contains a range; O(log n).
    /// Touching buffers do not combine (te-classic C3).
    pub fn locate(&self, range: &RemoteRange) -> Option<usize> {
        let reach = self.reach(range.address())?;
        (range.end() <= reach.end).then_some(reach.position)
    }

    /// Whether a range can be asked for in one request: a buffer wholly contains it, or touching pieces
    /// of a registration that an RDMA segment had to split do (te-classic C3, C32).
    pub fn covers(&self, range: &RemoteRange) -> bool {
        self.locate(range).is_some() || self.is_in_pieces(range)
    }

    /// What has a handle of its own is no piece of anything. Mooncake's engines give none, so that
    /// there touching buffers cannot be told from pieces.
    fn is_in_pieces(&self, range: &RemoteRange) -> bool {
        if !matches!(self.descriptor.part, ProtocolPart::Rdma { .. }) {
            return false;
        }
        let mut address = range.address();
        while let Some((position, end)) = self.locate_from(address) {
            let is_piece = self.descriptor.buffers().get(position).is_some_and(|b| b.te.is_none());
            if !is_piece || end >= range.end() {
                return is_piece;
            }
            address = end;
        }
        false
    }

    /// Position and end of the buffer that reaches furthest from an address on, the address itself
    /// included; O(log n). Who moves a range that no buffer wholly contains cuts it there.
    pub fn locate_from(&self, address: u64) -> Option<(usize, u64)> {
        let reach = self.reach(address)?;
        (address < reach.end).then_some((reach.position, reach.end))
    }

    fn reach(&self, address: u64) -> Option<&Reach> {
        let upto = self.index.partition_point(|reach| reach.start <= address);
        self.index[..upto].last()
    }

    /// The buffer that [`RemoteSegment::locate`] finds.
    pub fn buffer_of(&self, range: &RemoteRange) -> Option<&BufferDescriptor> {
        self.descriptor.buffers().get(self.locate(range)?)
    }
}

fn reaches(descriptor: &SegmentDescriptor) -> Vec<Reach> {
    let listed = descriptor.buffers().iter().enumerate();
    let mut index: Vec<Reach> = listed
        .map(|(position, b)| Reach {
            start: b.addr,
            end: b.addr.saturating_add(b.length),
            position,
        })
        .collect();
    index.sort_by_key(|reach| reach.start);
    for i in 1..index.len() {
        if index[i - 1].end > index[i].end {
            index[i].end = index[i - 1].end;
            index[i].position = index[i - 1].position;
        }
    }
    index
}

impl fmt::Debug for RemoteSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}[{}, epoch {}]", self.id, self.name.as_str(), self.epoch)
    }
}

/// Permission to fetch one descriptor; give it back with [`RemoteSegments::complete`], or nobody
/// else ever gets one for this segment.
#[must_use = "no other fetch of the segment begins before the ticket is given back"]
#[derive(Debug, PartialEq, Eq)]
pub struct FetchTicket {
    id: SegmentId,
    name: SegmentName,
    begun: Instant,
}

impl FetchTicket {
    /// Whose descriptor to fetch.
    pub fn name(&self) -> &SegmentName {
        &self.name
    }

    /// The number the segment has or will have.
    pub fn id(&self) -> SegmentId {
        self.id
    }

    /// When the fetch was asked for.
    pub fn begun(&self) -> Instant {
        self.begun
    }
}

/// Answer to [`RemoteSegments::open`].
#[derive(Debug)]
pub enum Lookup {
    /// Known.
    Known(Arc<RemoteSegment>),
    /// Not known; somebody else fetches it already.
    Pending(SegmentId),
    /// Not known; the caller fetches.
    Fetch(FetchTicket),
}

/// Answer to [`RemoteSegments::want_newer`].
#[derive(Debug)]
pub enum Refresh {
    /// There is a snapshot whose fetch began late enough.
    Newer(Arc<RemoteSegment>),
    /// A fetch is under way.
    Pending,
    /// The caller fetches.
    Fetch(FetchTicket),
    /// The last fetch failed a moment ago; not before this instant.
    NotBefore(Instant),
    /// No such segment.
    Unknown,
}

#[derive(Default)]
struct Entry {
    name: Option<SegmentName>,
    known: Option<Arc<RemoteSegment>>,
    /// When the fetch that gave `known` began.
    known_since: Option<Instant>,
    /// How many snapshots there were, also before the name was forgotten.
    epochs: u64,
    fetching: bool,
    failed_at: Option<Instant>,
    failures: u32,
    /// How often in a row the name was absent.
    absences: u32,
}

/// The cache. Not shared: its owner puts a lock around it and never holds that across a fetch.
#[derive(Default)]
pub struct RemoteSegments {
    by_name: HashMap<SegmentName, SegmentId>,
    /// Segment n is at n − 1: numbers are given in order, and every request looks one up.
    entries: Vec<Entry>,
}

impl RemoteSegments {
    /// After a failed refresh the next one waits this long, doubled for each failure in a row.
    pub const FIRST_BACKOFF: Duration = Duration::from_millis(10);
    /// The longest such wait.
    pub const MAX_BACKOFF: Duration = Duration::from_millis(500);
    /// A name that was absent so often in a row is fetched anew when it is opened.
    pub const MAX_ABSENCES: u32 = 3;

    /// An empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks a name up, or asks the caller to fetch it.
    pub fn open(&mut self, now: Instant, name: &SegmentName) -> Lookup {
        let (id, entry) = self.of_name(name);
        if let Some(known) = &entry.known
            && entry.absences < Self::MAX_ABSENCES
        {
            return Lookup::Known(Arc::clone(known));
        }
        if entry.fetching {
            return Lookup::Pending(id);
        }
        entry.fetching = true;
        Lookup::Fetch(FetchTicket { id, name: name.clone(), begun: now })
    }

    /// The snapshot of an open segment.
    pub fn current(&self, id: SegmentId) -> Option<Arc<RemoteSegment>> {
        self.entry(id)?.known.clone()
    }

    /// Whether a fetch of this segment is outstanding.
    pub fn is_fetching(&self, id: SegmentId) -> bool {
        self.entry(id).is_some_and(|e| e.fetching)
    }

    /// Asks for a snapshot whose fetch began after `since`: the moment when the attempt that failed
    /// was begun, with what was known then. All slices of a burst were begun before the first of
    /// them failed, so one fetch answers all their wishes. A fetch of the very same moment is no
    /// proof: the attempt may have been made with it.
    pub fn want_newer(&mut self, now: Instant, id: SegmentId, since: Instant) -> Refresh {
        let Some(entry) = self.entry_mut(id) else { return Refresh::Unknown };
        let Some(name) = entry.name.clone() else { return Refresh::Unknown };
        if let (Some(known), Some(at)) = (&entry.known, entry.known_since)
            && at > since
        {
            return Refresh::Newer(Arc::clone(known));
        }
        if entry.fetching {
            return Refresh::Pending;
        }
        if let Some(at) = entry.not_before()
            && at > now
        {
            return Refresh::NotBefore(at);
        }
        entry.fetching = true;
        Refresh::Fetch(FetchTicket { id, name, begun: now })
    }

    /// Takes the result of a fetch. Gives the snapshot that holds from now on, if there is one.
    pub fn complete(
        &mut self,
        now: Instant,
        ticket: FetchTicket,
        result: Option<(HostPort, SegmentDescriptor)>,
    ) -> Option<Arc<RemoteSegment>> {
        let entry = self.entry_mut(ticket.id)?;
        entry.fetching = false;
        let Some((rpc, descriptor)) = result else {
            entry.failed_at = Some(now);
            entry.failures = entry.failures.saturating_add(1);
            return entry.known.clone();
        };
        entry.failures = 0;
        entry.absences = 0;
        entry.failed_at = None;
        entry.known_since = Some(ticket.begun);
        if let Some(known) = &entry.known
            && known.descriptor.same_for_cache(&descriptor)
            && known.rpc == rpc
        {
            return Some(Arc::clone(known));
        }
        entry.epochs += 1;
        let FetchTicket { id, name, .. } = ticket;
        let fresh = Arc::new(RemoteSegment::new(id, name, rpc, descriptor, entry.epochs));
        entry.known = Some(Arc::clone(&fresh));
        Some(fresh)
    }

    /// Takes the news that nothing stands under the name, which is a failure that is remembered.
    pub fn absent(&mut self, now: Instant, ticket: FetchTicket) {
        if let Some(entry) = self.entry_mut(ticket.id) {
            entry.absences = entry.absences.saturating_add(1);
        }
        drop(self.complete(now, ticket, None));
    }

    /// Forgets what is known of a name; its number stays, and its epochs go on (te-classic A22).
    pub fn forget(&mut self, name: &SegmentName) {
        let id = self.by_name.get(name).copied();
        if let Some(entry) = id.and_then(|id| self.entry_mut(id)) {
            entry.known = None;
            entry.known_since = None;
        }
    }

    /// Numbers and names of all segments that are known.
    pub fn known(&self) -> Vec<(SegmentId, SegmentName)> {
        let known = self.entries.iter().filter_map(|e| e.known.as_ref());
        let mut list: Vec<_> = known.map(|k| (k.id, k.name.clone())).collect();
        list.sort_unstable_by_key(|(id, _)| *id);
        list
    }

    /// The number and the entry of a name, made on first use.
    fn of_name(&mut self, name: &SegmentName) -> (SegmentId, &mut Entry) {
        let count = self.entries.len();
        let place = match self.by_name.get(name) {
            Some(id) => place(*id).unwrap_or(count),
            None => count,
        };
        let id = SegmentId::from_u64(place as u64 + 1);
        if place == count {
            self.by_name.insert(name.clone(), id);
            self.entries.push(Entry { name: Some(name.clone()), ..Entry::default() });
        }
        (id, &mut self.entries[place])
    }

    fn entry(&self, id: SegmentId) -> Option<&Entry> {
        self.entries.get(place(id)?)
    }

    fn entry_mut(&mut self, id: SegmentId) -> Option<&mut Entry> {
        self.entries.get_mut(place(id)?)
    }
}

/// Where a segment's entry is; `None` for our own.
fn place(id: SegmentId) -> Option<usize> {
    usize::try_from(id.as_u64().checked_sub(1)?).ok()
}

impl Entry {
    fn not_before(&self) -> Option<Instant> {
        let doubled =
            RemoteSegments::FIRST_BACKOFF * (1 << self.failures.saturating_sub(1).min(10));
        Some(self.failed_at? + doubled.min(RemoteSegments::MAX_BACKOFF))
    }
}

impl fmt::Debug for RemoteSegments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteSegments({} segments)", self.entries.len())
    }
}

#[cfg(test)]
mod tests;
