//! How a segment's name becomes its descriptor.

mod error;

use std::sync::Arc;
use std::time::Duration;

pub use error::ResolveError;

use crate::{
    ChunkDigest, DEFAULT_PEER_PORT, DecodeError, HostPort, KeySpace, MetadataStore, OwnerState,
    PagedDescriptor, PeerClient, RpcMeta, SegmentDescriptor, SegmentName, StoreError,
};

/// Finds segments and publishes our own, in a store or by asking the peer that the name tells.
#[derive(Debug, Clone)]
pub struct Directory {
    client: PeerClient,
    shelf: Option<Shelf>,
}

#[derive(Debug, Clone)]
struct Shelf {
    store: Arc<dyn MetadataStore>,
    keys: KeySpace,
}

/// A segment that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// What it says about itself.
    pub descriptor: SegmentDescriptor,
    /// Where its owner answers peers. In a store without an address record for the segment, this
    /// is what its name tells.
    pub rpc: HostPort,
}

impl Directory {
    /// Names are addresses of peers: whoever is asked there tells the descriptor.
    pub fn p2p(client: PeerClient) -> Self {
        Self { client, shelf: None }
    }

    /// Names are keys of a store. `client` talks to the peers that are found.
    pub fn store(store: Arc<dyn MetadataStore>, keys: KeySpace, client: PeerClient) -> Self {
        Self { client, shelf: Some(Shelf { store, keys }) }
    }

    /// Whether names are addresses of peers.
    pub fn is_p2p(&self) -> bool {
        self.shelf.is_none()
    }

    /// The client that talks to peers.
    pub fn client(&self) -> &PeerClient {
        &self.client
    }

    /// The present descriptor of a segment. `own` is our descriptor, which a peer that is asked
    /// may look at; `{}` does.
    ///
    /// Blocks for as long as the store or [`crate::PeerLimits::exchange_timeout`] allows.
    ///
    /// # Errors
    /// See [`ResolveError`].
    pub fn fetch(&self, name: &SegmentName, own: &[u8]) -> Result<Resolved, ResolveError> {
        let asked = self.shelf.is_none().then(|| peer_address(name)).transpose()?;
        let descriptor = self.fetch_at(name, asked.as_ref(), own)?;
        let rpc = match (asked, &self.shelf) {
            (None, Some(shelf)) => shelf.peer_or_name(name)?,
            (asked, _) => asked.map_or_else(|| peer_address(name), Ok)?,
        };
        Ok(Resolved { descriptor, rpc })
    }

    fn fetch_at(
        &self,
        name: &SegmentName,
        asked: Option<&HostPort>,
        own: &[u8],
    ) -> Result<SegmentDescriptor, ResolveError> {
        let mut rounds = 0;
        loop {
            rounds += 1;
            let main = self.part(name, asked, Part::Main { own })?;
            let main = main.ok_or_else(|| not_found(name))?;
            let mut descriptor = SegmentDescriptor::decode(&main).map_err(malformed(name))?;
            match self.complete(name, asked, &mut descriptor) {
                Ok(()) => return Ok(descriptor),
                // The owner published anew between our questions.
                Err(error) if error.is_outdated() && rounds < MAX_ROUNDS => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Asks the owner of a segment that was found in a store what it says now: what was published
    /// may be a moment behind. `None` where it does not answer, is another process, or is no engine
    /// of our kind. In P2P mode there is nobody else to ask.
    pub fn ask_owner(&self, name: &SegmentName, found: &Resolved, own: &[u8]) -> Option<Resolved> {
        let incarnation = found.descriptor.te.as_ref()?.incarnation;
        self.shelf.as_ref()?;
        let owner = Self { client: self.client.clone(), shelf: None };
        let now = owner.fetch_at(name, Some(&found.rpc), own).ok()?;
        let is_same = now.te.as_ref().is_some_and(|te| te.incarnation == incarnation);
        is_same.then(|| Resolved { descriptor: now, rpc: found.rpc.clone() })
    }

    /// Adds the parts that a descriptor lacks.
    fn complete(
        &self,
        name: &SegmentName,
        asked: Option<&HostPort>,
        descriptor: &mut SegmentDescriptor,
    ) -> Result<(), ResolveError> {
        let Some(list) = descriptor.missing_chunks().map_err(malformed(name))? else {
            return Ok(());
        };
        for wanted in &list.chunks {
            let body = self.part(name, asked, Part::Chunk(wanted.digest))?;
            let outdated = || ResolveError::Outdated { name: name.clone() };
            let body = body.ok_or_else(outdated)?;
            descriptor.add_chunk(wanted, &body).map_err(malformed(name))?;
        }
        descriptor.seal();
        Ok(())
    }

    /// A part of a descriptor, of the peer that is asked or of the store; `None` when it is not
    /// there.
    fn part(
        &self,
        name: &SegmentName,
        asked: Option<&HostPort>,
        part: Part<'_>,
    ) -> Result<Option<Vec<u8>>, ResolveError> {
        let bytes = match (&self.shelf, asked) {
            (Some(shelf), _) => shelf.get(name, &part.key(&shelf.keys, name))?,
            (None, None) => None,
            (None, Some(peer)) => {
                let answer = self.client.metadata(peer, &part.question());
                let failed = |source| ResolveError::Peer { name: name.clone(), source };
                Some(answer.map_err(failed)?)
            }
        };
        Ok(bytes.filter(|bytes| bytes.trim_ascii() != b"null"))
    }

    /// What is to stand in the store for a segment of ours, in the order in which it is to be
    /// put: where we answer peers, the further parts, and the part that names them. Nothing where
    /// peers ask us.
    pub fn records(
        &self,
        name: &SegmentName,
        record: &RpcMeta,
        descriptor: &PagedDescriptor,
    ) -> Vec<(String, Arc<[u8]>)> {
        let Some(Shelf { keys, .. }) = &self.shelf else { return Vec::new() };
        let mut records = vec![(keys.rpc_meta(name), record.encode().into())];
        for chunk in &descriptor.chunks {
            records.push((keys.chunk(name, chunk.digest), chunk.body.as_slice().into()));
        }
        records.push((keys.segment(name), descriptor.main.as_slice().into()));
        records
    }

    /// Whether the owner of a segment's records lives: whether somebody answers a probe where its
    /// address record says, other than we ourselves at `own`, who may have inherited the address.
    ///
    /// # Errors
    /// The store could not be asked. Records that cannot be read are nobody's.
    pub fn owner_state(
        &self,
        name: &SegmentName,
        own: &HostPort,
        timeout: Duration,
    ) -> Result<OwnerState, StoreError> {
        let Some(shelf) = &self.shelf else { return Ok(OwnerState::Gone) };
        let address = match shelf.rpc_record(name) {
            Ok(Some(address)) => address,
            Err(ResolveError::Store { source, .. }) => return Err(source),
            Ok(None) | Err(_) => return Ok(OwnerState::Gone),
        };
        let is_own = address.is_same_host(own) && address.port() == own.port();
        let answers = || self.client.probe(&address, timeout).is_ok();
        Ok(if !is_own && answers() { OwnerState::Alive } else { OwnerState::Gone })
    }

    /// Where the descriptor of a segment stands; it is put after the records that belong to it.
    /// `None` where peers ask each other.
    pub fn segment_key(&self, name: &SegmentName) -> Option<String> {
        self.shelf.as_ref().map(|shelf| shelf.keys.segment(name))
    }

    /// What all keys of our cluster begin with; `None` where peers ask each other.
    pub fn key_prefix(&self) -> Option<&str> {
        self.shelf.as_ref().map(|shelf| shelf.keys.prefix())
    }

    /// The store; `None` where peers ask each other.
    pub fn metadata_store(&self) -> Option<&Arc<dyn MetadataStore>> {
        self.shelf.as_ref().map(|shelf| &shelf.store)
    }

    /// Where the owner of a segment answers peers, for notifications and probes.
    ///
    /// # Errors
    /// See [`ResolveError`].
    pub fn rpc_address(&self, name: &SegmentName) -> Result<HostPort, ResolveError> {
        match &self.shelf {
            None => peer_address(name),
            Some(shelf) => shelf.rpc_record(name)?.ok_or_else(|| not_found(name)),
        }
    }
}

/// A part of a descriptor.
#[derive(Clone, Copy)]
enum Part<'a> {
    /// Ours is shown to a peer that is asked.
    Main {
        own: &'a [u8],
    },
    Chunk(ChunkDigest),
}

impl Part<'_> {
    fn key(self, keys: &KeySpace, name: &SegmentName) -> String {
        match self {
            Self::Main { .. } => keys.segment(name),
            Self::Chunk(digest) => keys.chunk(name, digest),
        }
    }

    fn question(self) -> Vec<u8> {
        match self {
            Self::Main { own } => own.to_vec(),
            Self::Chunk(digest) => digest.question(),
        }
    }
}

/// How often a descriptor whose owner publishes all the time is read again.
const MAX_ROUNDS: usize = 5;

impl Shelf {
    fn get(&self, name: &SegmentName, key: &str) -> Result<Option<Vec<u8>>, ResolveError> {
        let found = self.store.get(key);
        let found = found.map_err(|source| ResolveError::Store { name: name.clone(), source })?;
        Ok(found.map(|record| record.value))
    }

    fn rpc_record(&self, name: &SegmentName) -> Result<Option<HostPort>, ResolveError> {
        let Some(bytes) = self.get(name, &self.keys.rpc_meta(name))? else { return Ok(None) };
        let record = RpcMeta::decode(&bytes).map_err(malformed(name))?;
        let port = (record.rpc_port != 0).then_some(record.rpc_port);
        let address = HostPort::new(&record.ip_or_host_name, port);
        address.map(Some).map_err(|source| ResolveError::BadAddress { name: name.clone(), source })
    }

    fn peer_or_name(&self, name: &SegmentName) -> Result<HostPort, ResolveError> {
        let from_name = || HostPort::parse_lenient(name.as_str(), DEFAULT_PEER_PORT).0;
        Ok(self.rpc_record(name)?.unwrap_or_else(from_name))
    }
}

/// The address that a name is. A missing port is the default one; a wrong one is an error.
fn peer_address(name: &SegmentName) -> Result<HostPort, ResolveError> {
    let address = name.host_port();
    let address =
        address.map_err(|source| ResolveError::BadAddress { name: name.clone(), source })?;
    Ok(address.with_port(address.port_or(DEFAULT_PEER_PORT)))
}

fn not_found(name: &SegmentName) -> ResolveError {
    ResolveError::NotFound { name: name.clone() }
}

fn malformed(name: &SegmentName) -> impl FnOnce(DecodeError) -> ResolveError + '_ {
    |source| match source {
        DecodeError::NotSupported { protocol } => {
            ResolveError::NotSupported { name: name.clone(), protocol }
        }
        source => ResolveError::Malformed { name: name.clone(), source },
    }
}

#[cfg(test)]
mod tests;
