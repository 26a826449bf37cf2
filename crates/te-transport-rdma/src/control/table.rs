//! Every connection of every NIC of ours, and what is known of servers.
//!
//! I1  A connection is found by our NIC and the path of the peer's, and there is one.
//! I2  A connection that is not here any more has its queue pairs in ERR: who asks for a fence on it
//!     is told the truth.
//! I3  Who takes a connection out tells the worker, which waits for what was posted; one that was
//!     never ready is known to no worker, and its queue pairs end where it is dropped.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use te_metadata::HostPort;
use te_topology::{Gid, NicIndex};
use te_verbs::QueuePair;

use crate::config::ConnectionSettings;
use crate::endpoint::{Endpoint, Ends, NicPath};
use crate::store::{ConnectPauses, Store, Used};
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
    pub(crate) used: Used,
}

impl Entry {
    /// Nothing passes any more, in either direction.
    fn stop(&self) {
        for pair in &self.queue_pairs {
            // One that was never connected may refuse, and one of a device that is gone.
            if let Err(error) = pair.to_error() {
                tracing::trace!(%error, "a queue pair could not be ended");
            }
        }
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
    stores: Vec<Store<NicPath, Entry>>,
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
    /// `bounds` are the numbers of connections that the NICs may have.
    pub(crate) fn new(bounds: impl Iterator<Item = u32>, settings: &ConnectionSettings) -> Self {
        let store = |bound| Store::new(settings.store, bound as usize);
        Self {
            stores: bounds.map(store).collect(),
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
        self.stores.get_mut(nic.position())?.get_mut(peer)
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
    ) -> (EndpointId, Vec<Entry>) {
        let (id, used) = (self.next, Used::default());
        self.next += 1;
        let entry = Entry { id, machine, queue_pairs, ends, used: used.clone() };
        match self.stores.get_mut(nic.position()) {
            Some(store) => {
                let gone = store.insert(peer.clone(), entry, used);
                gone.iter().for_each(Entry::stop);
                (id, gone)
            }
            None => (id, vec![entry]),
        }
    }

    /// Takes a connection out, where it is still that one.
    pub(crate) fn remove(
        &mut self,
        nic: NicIndex,
        peer: &NicPath,
        id: EndpointId,
    ) -> Option<Entry> {
        self.entry_of(nic, peer, id)?.stop();
        self.stores.get_mut(nic.position())?.remove(peer)
    }

    /// Takes out every connection of a NIC that `wanted` says.
    pub(crate) fn drain(
        &mut self,
        nic: NicIndex,
        wanted: impl Fn(&Entry) -> bool,
    ) -> Vec<(NicPath, Entry)> {
        let Some(store) = self.stores.get_mut(nic.position()) else { return Vec::new() };
        let found = store.iter().filter(|(_, entry)| wanted(entry));
        let stopped = found.inspect(|(_, entry)| entry.stop());
        let paths: Vec<NicPath> = stopped.map(|(path, _)| path.clone()).collect();
        let take = |path: NicPath| store.remove(&path).map(|entry| (path, entry));
        paths.into_iter().filter_map(take).collect()
    }

    /// Whether a NIC has a connection that works.
    pub(crate) fn is_connected(&self, nic: NicIndex) -> bool {
        let store = self.stores.get(nic.position());
        store.is_some_and(|store| store.iter().any(|(_, entry)| entry.machine.is_connected()))
    }

    /// Notes that a connection waits for the ready-ack. Gives those that have to go because their
    /// peer has too many of them.
    pub(crate) fn note_half_open(
        &mut self,
        until: Instant,
        (nic, peer): (NicIndex, &NicPath),
        id: EndpointId,
    ) -> Vec<(NicIndex, NicPath, EndpointId)> {
        let stores = &self.stores;
        self.half_open.retain(|half| {
            let store = stores.get(half.key.0.position());
            let entry = store.and_then(|store| store.get(&half.key.1));
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
    pub(crate) fn overdue(&mut self, now: Instant) -> Option<(NicIndex, NicPath, Entry)> {
        while self.half_open.front().is_some_and(|half| half.until <= now) {
            let HalfOpen { key: (nic, peer), id, .. } = self.half_open.pop_front()?;
            if self.entry_of(nic, &peer, id).is_some_and(|entry| entry.machine.is_overdue(now)) {
                let entry = self.remove(nic, &peer, id)?;
                return Some((nic, peer, entry));
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
    pub(crate) fn close(&mut self) -> Vec<Entry> {
        self.closed = true;
        self.retries.clear();
        self.half_open.clear();
        let mut gone = Vec::new();
        for nic in (0..self.stores.len()).filter_map(NicIndex::new) {
            gone.extend(self.drain(nic, |_| true).into_iter().map(|(_, entry)| entry));
        }
        gone
    }
}
