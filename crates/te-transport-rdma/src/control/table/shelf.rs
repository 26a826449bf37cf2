//! The connections of one NIC of ours, and who has how many queue pairs of them.
//!
//! I1  What is counted for a server is what its connections here have.
//! I2  A server that wants more than it may have gives up its own oldest ones; a NIC without room takes
//!     from whoever has most.

use std::collections::{BTreeMap, HashMap};

use super::Entry;
use crate::config::ConnectionSettings;
use crate::endpoint::NicPath;
use crate::nic::NicLimits;
use crate::store::{Bounds, Store};
use crate::worker::EndpointId;

/// See the module.
#[derive(Debug)]
pub(super) struct Shelf {
    store: Store<NicPath, Entry>,
    by_server: HashMap<Box<str>, Held>,
    /// Queue pairs that one server may have.
    most: usize,
}

/// What one server has.
#[derive(Debug, Default)]
struct Held {
    queue_pairs: usize,
    /// Numbers rise, so that the first is the oldest.
    by_age: BTreeMap<EndpointId, NicPath>,
}

impl Shelf {
    pub(super) fn new(settings: &ConnectionSettings, limits: Option<&NicLimits>) -> Self {
        let (entries, weight) = limits.map_or((1, 1), |l| (l.max_endpoints, l.max_queue_pairs));
        let bounds = Bounds { entries: entries as usize, weight: weight as usize };
        let store = Store::new(settings.store, bounds);
        Self { store, by_server: HashMap::new(), most: settings.max_peer_queue_pairs }
    }

    pub(super) fn get(&self, peer: &NicPath) -> Option<&Entry> {
        self.store.get(peer)
    }

    pub(super) fn get_mut(&mut self, peer: &NicPath) -> Option<&mut Entry> {
        self.store.get_mut(peer)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&NicPath, &Entry)> {
        self.store.iter()
    }

    /// Whether a connection of so many queue pairs may be.
    pub(super) fn has_place(&self, queue_pairs: usize) -> bool {
        queue_pairs <= self.most && queue_pairs <= self.store.bounds().weight
    }

    /// Puts a connection in; gives the one in its place, and those that leave for it.
    pub(super) fn insert(&mut self, peer: &NicPath, entry: Entry) -> Vec<(NicPath, Entry)> {
        let count = entry.queue_pairs.len();
        let mut gone: Vec<_> =
            self.remove(peer).map(|old| (peer.clone(), old)).into_iter().collect();
        while let Some(oldest) = self.too_much_of(peer.server(), count) {
            gone.extend(self.take(oldest));
        }
        while let Some((path, entry)) = self.store.evict_for(count) {
            self.uncount(&path, &entry);
            gone.push((path, entry));
        }
        let held = self.by_server.entry(peer.server().into()).or_default();
        held.queue_pairs += count;
        held.by_age.insert(entry.id, peer.clone());
        let used = entry.used.clone();
        self.store.insert(peer.clone(), entry, (used, count));
        gone
    }

    pub(super) fn remove(&mut self, peer: &NicPath) -> Option<Entry> {
        let entry = self.store.remove(peer)?;
        self.uncount(peer, &entry);
        Some(entry)
    }

    pub(super) fn drain(&mut self, wanted: impl Fn(&Entry) -> bool) -> Vec<(NicPath, Entry)> {
        let found = self.store.iter().filter(|(_, entry)| wanted(entry));
        let paths: Vec<NicPath> = found.map(|(path, _)| path.clone()).collect();
        paths.into_iter().filter_map(|path| self.take(path)).collect()
    }

    /// At least so many queue pairs, of whoever has most, as far as they are there.
    pub(super) fn take_from_the_largest(&mut self, queue_pairs: usize) -> Vec<(NicPath, Entry)> {
        let (mut gone, mut taken) = (Vec::new(), 0);
        while taken < queue_pairs {
            let largest = self.by_server.values().max_by_key(|held| held.queue_pairs);
            // Where each has one connection the store knows which is used least.
            let oldest = largest
                .filter(|held| held.by_age.len() > 1)
                .and_then(|held| held.by_age.first_key_value());
            let found = match oldest.map(|(_, path)| path.clone()) {
                Some(path) => self.take(path),
                None => self.store.evict().inspect(|(path, entry)| self.uncount(path, entry)),
            };
            let Some(found) = found else { break };
            taken += found.1.queue_pairs.len();
            gone.push(found);
        }
        gone
    }

    /// The oldest connection of a server that would have too much with so many queue pairs more.
    fn too_much_of(&self, server: &str, count: usize) -> Option<NicPath> {
        let held =
            self.by_server.get(server).filter(|held| held.queue_pairs + count > self.most)?;
        held.by_age.first_key_value().map(|(_, path)| path.clone())
    }

    fn take(&mut self, path: NicPath) -> Option<(NicPath, Entry)> {
        let entry = self.remove(&path)?;
        Some((path, entry))
    }

    fn uncount(&mut self, path: &NicPath, entry: &Entry) {
        if let Some(held) = self.by_server.get_mut(path.server()) {
            held.by_age.remove(&entry.id);
            held.queue_pairs -= entry.queue_pairs.len();
            if held.by_age.is_empty() {
                self.by_server.remove(path.server());
            }
        }
    }
}
