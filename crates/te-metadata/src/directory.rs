//! How a segment's name becomes its descriptor.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::{
    DEFAULT_PEER_PORT, DecodeError, HostPort, KeySpace, MetadataStore, ParseAddressError,
    PeerClient, PeerError, RpcMeta, SegmentDescriptor, SegmentName, StoreError,
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
        let (bytes, rpc) = match &self.shelf {
            None => {
                let rpc = peer_address(name)?;
                let asked = self.client.metadata(&rpc, own);
                (asked.map_err(|source| ResolveError::Peer { name: name.clone(), source })?, rpc)
            }
            Some(shelf) => {
                let bytes = shelf.get(name, &shelf.keys.segment(name))?;
                (bytes.ok_or_else(|| not_found(name))?, shelf.peer_or_name(name)?)
            }
        };
        if bytes.trim_ascii() == b"null" {
            return Err(not_found(name));
        }
        let descriptor = SegmentDescriptor::decode(&bytes).map_err(malformed(name))?;
        Ok(Resolved { descriptor, rpc })
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

    /// Publishes the descriptor of our segment; nothing to do where peers ask us for it.
    ///
    /// # Errors
    /// What the store says.
    pub fn publish(
        &self,
        name: &SegmentName,
        descriptor: &SegmentDescriptor,
    ) -> Result<(), StoreError> {
        self.shelf.as_ref().map_or(Ok(()), |shelf| {
            shelf.store.put(&shelf.keys.segment(name), &descriptor.encode())
        })
    }

    /// Publishes where we answer peers; nothing to do where the name tells it.
    ///
    /// # Errors
    /// What the store says.
    pub fn publish_rpc(&self, name: &SegmentName, record: &RpcMeta) -> Result<(), StoreError> {
        self.shelf
            .as_ref()
            .map_or(Ok(()), |shelf| shelf.store.put(&shelf.keys.rpc_meta(name), &record.encode()))
    }

    /// Takes both records of our segment out of the store.
    ///
    /// # Errors
    /// What the store says; both removals are tried.
    pub fn withdraw(&self, name: &SegmentName) -> Result<(), StoreError> {
        let Some(shelf) = &self.shelf else { return Ok(()) };
        let record = shelf.store.remove(&shelf.keys.rpc_meta(name));
        shelf.store.remove(&shelf.keys.segment(name)).and(record)
    }
}

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

/// Why a segment could not be found.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// Nobody published it, or the peer has none.
    #[error("segment {name} is not known")]
    NotFound {
        /// The segment.
        name: SegmentName,
    },
    /// What was published is wrong; the cause names the field.
    #[error("segment {name} has a malformed descriptor")]
    Malformed {
        /// The segment.
        name: SegmentName,
        /// What is wrong.
        #[source]
        source: DecodeError,
    },
    /// The segment has a protocol that this engine does not speak.
    #[error("segment {name} has protocol {protocol}, which is not supported")]
    NotSupported {
        /// The segment.
        name: SegmentName,
        /// The protocol as published.
        protocol: String,
    },
    /// The name, or the address in its record, is no address.
    #[error("segment {name} tells no usable address")]
    BadAddress {
        /// The segment.
        name: SegmentName,
        /// What is wrong.
        #[source]
        source: ParseAddressError,
    },
    /// The store could not be asked.
    #[error("segment {name} could not be looked up")]
    Store {
        /// The segment.
        name: SegmentName,
        /// Why.
        #[source]
        source: StoreError,
    },
    /// The peer could not be asked.
    #[error("segment {name} could not be asked for its descriptor")]
    Peer {
        /// The segment.
        name: SegmentName,
        /// Why.
        #[source]
        source: PeerError,
    },
}

impl ResolveError {
    /// The segment.
    pub fn name(&self) -> &SegmentName {
        match self {
            Self::NotFound { name }
            | Self::Malformed { name, .. }
            | Self::NotSupported { name, .. }
            | Self::BadAddress { name, .. }
            | Self::Store { name, .. }
            | Self::Peer { name, .. } => name,
        }
    }

    /// Whether there is no such segment.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether what was published cannot be used, whoever asks again.
    pub fn is_malformed(&self) -> bool {
        matches!(self, Self::Malformed { .. })
    }

    /// Whether the store or the peer did not answer, so that asking later may work.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Store { source, .. } => source.is_retryable(),
            Self::Peer { source, .. } => source.is_retryable(),
            _ => false,
        }
    }

    /// The whole chain of causes as one line.
    pub fn chain(&self) -> impl fmt::Display + '_ {
        Chain(self)
    }
}

struct Chain<'a>(&'a dyn std::error::Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
