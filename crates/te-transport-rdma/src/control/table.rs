//! Every connection of every NIC of ours, and what is known of servers.
//!
//! Every worker takes the lock that this is behind, so that nobody asks the kernel for anything under
//! it.
//!
//! I1  A connection is found by our NIC and the path of the peer's, and there is one.
//! I2  A connection that was taken out is known to be leaving until its queue pairs are in ERR: who
//!     asks for a fence on it is told the truth.
//! I3  Who takes a connection out ends its queue pairs and tells the worker, which waits for what was
//!     posted; one that was never ready is known to no worker, and its queue pairs end where it is
//!     dropped.
//! I4  No server has more queue pairs on a NIC than it may, and no NIC more than it has room for.

mod shelf;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use te_metadata::{HostPort, QpNumber};
use te_topology::{Gid, NicIndex};
use te_verbs::{QueuePair, VerbsError};

use self::shelf::Shelf;
use crate::config::ConnectionSettings;
use crate::endpoint::{Endpoint, Ends, NicPath};
use crate::nic::NicLimits;
use crate::store::{ConnectPauses, Used};
use crate::worker::EndpointId;

/// Who has half open connections may have so many servers' worth of them in all.
const SERVERS: usize = 16;

/// One connection.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: EndpointId,
    pub(crate) machine: Endpoint,
    pub(crate) queue_pairs: Vec<Arc<dyn QueuePair>>,
    /// What we say of our end.
    pub(crate) ends: Ends,
    /// Where we asked for it.
    pub(crate) rpc: Option<HostPort>,
    pub(crate) used: Used,
}

/// A connection that was taken out, and whose queue pairs still have to end.
#[derive(Debug)]
#[must_use]
pub(crate) struct Leaving {
    pub(crate) nic: NicIndex,
    pub(crate) peer: NicPath,
    pub(crate) entry: Entry,
}

impl Leaving {
    /// Nothing passes any more, in either direction. Asks the kernel.
    ///
    /// # Errors
    /// Of the first queue pair that could not be ended.
    pub(crate) fn stop(&self) -> Result<(), VerbsError> {
        let mut stopped = Ok(());
        for pair in &self.entry.queue_pairs {
            // One that was never connected may refuse, and one of a device that is gone.
            if let Err(error) = pair.to_error() {
                tracing::trace!(%error, "a queue pair could not be ended");
                stopped = stopped.and(Err(error));
            }
        }
        stopped
    }
}

/// A connection that a worker wants.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    pub(crate) nic: NicIndex,
    pub(crate) peer: NicPath,
    /// Where the peer answers handshakes.
    pub(crate) rpc: HostPort,
    /// The GID that the peer published.
    pub(crate) gid: Option<Gid>,
    /// Whether it is of our own kind.
    pub(crate) is_te: bool,
    /// Tries that failed.
    pub(crate) failed: u32,
    /// Whether a connection that waits for the peer's ready-ack has waited long enough.
    pub(crate) takes_over: bool,
}

/// A connection that waits for the peer's ready-ack.
#[derive(Debug)]
struct HalfOpen {
    until: Instant,
    key: (NicIndex, NicPath),
    id: EndpointId,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Table {
    shelves: Vec<Shelf>,
    /// Connections that were taken out, with the peer's queue pairs, until ours are in ERR.
    leaving: HashMap<EndpointId, (NicIndex, NicPath, Vec<QpNumber>)>,
    pub(crate) pauses: ConnectPauses,
    /// How many queue pairs a server uses, where it said so.
    pub(crate) counts: HashMap<Box<str>, usize>,
    /// In the order of their ends.
    half_open: VecDeque<HalfOpen>,
    max_half_open: usize,
    /// Tries that wait for their time.
    retries: Vec<(Instant, Wish)>,
    next: EndpointId,
    pub(crate) closed: bool,
}

impl Table {
    /// `limits` are those of each NIC; one that could not be opened has none.
    pub(crate) fn new<'a>(
        limits: impl Iterator<Item = Option<&'a NicLimits>>,
        settings: &ConnectionSettings,
    ) -> Self {
        Self {
            shelves: limits.map(|limits| Shelf::new(settings, limits)).collect(),
            leaving: HashMap::new(),
            pauses: ConnectPauses::new(settings.pause),
            counts: HashMap::new(),
            half_open: VecDeque::new(),
            max_half_open: settings.max_half_open.max(1),
            retries: Vec::new(),
            next: 1,
            closed: false,
        }
    }

    pub(crate) fn entry(&mut self, nic: NicIndex, peer: &NicPath) -> Option<&mut Entry> {
        self.shelves.get_mut(nic.position())?.get_mut(peer)
    }

    /// As `entry`, where it is still that one.
    pub(crate) fn entry_of(
        &mut self,
        nic: NicIndex,
        peer: &NicPath,
        id: EndpointId,
    ) -> Option<&mut Entry> {
        self.entry(nic, peer).filter(|entry| entry.id == id)
    }

    /// Puts a connection in. Gives its number and those that leave for it.
    pub(crate) fn insert(
        &mut self,
        (nic, peer): (NicIndex, &NicPath),
        machine: Endpoint,
        (queue_pairs, ends): (Vec<Arc<dyn QueuePair>>, Ends),
    ) -> (EndpointId, Vec<Leaving>) {
        let (id, used) = (self.next, Used::default());
        self.next += 1;
        let entry = Entry { id, machine, queue_pairs, ends, rpc: None, used };
        let shelf = self.shelves.get_mut(nic.position());
        let gone = shelf.map_or_else(Vec::new, |shelf| shelf.insert(peer, entry));
        (id, self.note_leaving(nic, gone))
    }

    /// Whether a connection of so many queue pairs may be.
    pub(crate) fn has_place(&self, nic: NicIndex, queue_pairs: usize) -> bool {
        self.shelves.get(nic.position()).is_some_and(|shelf| shelf.has_place(queue_pairs))
    }

    /// Takes out connections of a device that has no room for more queue pairs, so many of whoever has
    /// most.
    pub(crate) fn make_room(&mut self, nic: NicIndex, queue_pairs: usize) -> Vec<Leaving> {
        let shelf = self.shelves.get_mut(nic.position());
        let gone = shelf.map_or_else(Vec::new, |shelf| shelf.take_from_the_largest(queue_pairs));
        self.note_leaving(nic, gone)
    }

    /// Takes a connection out, where it is still that one.
    pub(crate) fn remove(
        &mut self,
        nic: NicIndex,
        peer: &NicPath,
        id: EndpointId,
    ) -> Option<Leaving> {
        self.entry_of(nic, peer, id)?;
        let entry = self.shelves.get_mut(nic.position())?.remove(peer)?;
        self.note_leaving(nic, vec![(peer.clone(), entry)]).pop()
    }

    /// Takes out every connection of a NIC that `wanted` says.
    pub(crate) fn drain(&mut self, nic: NicIndex, wanted: impl Fn(&Entry) -> bool) -> Vec<Leaving> {
        let shelf = self.shelves.get_mut(nic.position());
        let gone = shelf.map_or_else(Vec::new, |shelf| shelf.drain(wanted));
        self.note_leaving(nic, gone)
    }

    fn note_leaving(&mut self, nic: NicIndex, gone: Vec<(NicPath, Entry)>) -> Vec<Leaving> {
        let leave = |(peer, entry): (NicPath, Entry)| {
            // Nobody can fence what was never connected.
            let theirs = entry.machine.peer();
            if !theirs.is_empty() {
                self.leaving.insert(entry.id, (nic, peer.clone(), theirs.to_vec()));
            }
            Leaving { nic, peer, entry }
        };
        gone.into_iter().map(leave).collect()
    }

    /// The queue pairs of a connection that left are in ERR.
    pub(crate) fn left(&mut self, id: EndpointId) {
        self.leaving.remove(&id);
    }

    /// Whether a connection with these queue pairs of the peer was taken out, and ours may still pass
    /// something.
    pub(crate) fn is_leaving(&self, nic: NicIndex, peer: &NicPath, theirs: &[QpNumber]) -> bool {
        let mut leaving = self.leaving.values();
        leaving.any(|(of, path, numbers)| *of == nic && path == peer && numbers == theirs)
    }

    /// Whether a NIC has a connection that works.
    pub(crate) fn is_connected(&self, nic: NicIndex) -> bool {
        let shelf = self.shelves.get(nic.position());
        shelf.is_some_and(|shelf| shelf.iter().any(|(_, entry)| entry.machine.is_connected()))
    }

    /// Notes that a connection waits for the ready-ack. Gives those that have to go because their
    /// peer has too many of them.
    pub(crate) fn note_half_open(
        &mut self,
        until: Instant,
        (nic, peer): (NicIndex, &NicPath),
        id: EndpointId,
    ) -> Vec<(NicIndex, NicPath, EndpointId)> {
        let shelves = &self.shelves;
        self.half_open.retain(|half| {
            let shelf = shelves.get(half.key.0.position());
            let entry = shelf.and_then(|shelf| shelf.get(&half.key.1));
            entry.is_some_and(|e| e.id == half.id && e.machine.half_open_until().is_some())
        });
        self.half_open.push_back(HalfOpen { until, key: (nic, peer.clone()), id });
        let of_server = |half: &&HalfOpen| half.key.1.server() == peer.server();
        let mut gone = Vec::new();
        if self.half_open.iter().filter(of_server).count() > self.max_half_open {
            gone.extend(self.half_open.iter().find(of_server));
        } else if self.half_open.len() > SERVERS * self.max_half_open {
            gone.extend(self.half_open.front());
        }
        gone.into_iter().map(|half| (half.key.0, half.key.1.clone(), half.id)).collect()
    }

    /// Takes the next connection whose ready-ack did not come in time.
    pub(crate) fn overdue(&mut self, now: Instant) -> Option<Leaving> {
        while self.half_open.front().is_some_and(|half| half.until <= now) {
            let HalfOpen { key: (nic, peer), id, .. } = self.half_open.pop_front()?;
            if self.entry_of(nic, &peer, id).is_some_and(|entry| entry.machine.is_overdue(now)) {
                return self.remove(nic, &peer, id);
            }
        }
        None
    }

    pub(crate) fn retry_at(&mut self, at: Instant, wish: Wish) {
        self.retries.push((at, wish));
    }

    /// Takes a try whose time has come.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Wish> {
        let at = self.retries.iter().position(|(at, _)| *at <= now)?;
        Some(self.retries.swap_remove(at).1)
    }

    /// When to look again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let retries = self.retries.iter().map(|(at, _)| *at).min();
        let half_open = self.half_open.front().map(|half| half.until);
        [retries, half_open].into_iter().flatten().min()
    }

    /// Takes everything out; nothing comes in any more.
    pub(crate) fn close(&mut self) -> Vec<Leaving> {
        self.closed = true;
        self.retries.clear();
        self.half_open.clear();
        let nics = (0..self.shelves.len()).filter_map(NicIndex::new);
        nics.flat_map(|nic| self.drain(nic, |_| true)).collect()
    }
}
