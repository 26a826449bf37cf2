//! What peers say about themselves: names, descriptors, stores, the peer link.
//!
//! ```text
//!   SegmentName ──▶ Directory ──▶ MetadataStore   (keys of KeySpace)      ──▶ SegmentDescriptor
//!                       └───────▶ PeerClient ──frames──▶ PeerServer       ──▶ (asked from the peer)
//! ```
//!
//! Every byte that comes from a peer or a store is hostile: decoding is typed and bounded, and an
//! error names the field. The formats are those of Mooncake's Transfer Engine, byte for byte.
//!
//! This crate registers no memory, moves no user data and caches no descriptor. Its only threads
//! are the one of a started [`PeerServer`] and short-lived ones for name look-ups.

mod descriptor;
mod directory;
mod frame;
mod json;
mod keyspace;
mod listen;
mod log_limit;
mod message;
mod name;
mod peer;
mod rpc_meta;
pub mod sabotage;
mod store;
mod tenancy;
mod timestamp;

pub use descriptor::{
    BufferDescriptor, BufferHandle, ChunkDigest, ChunkList, ChunkRef, DecodeError, DescriptorChunk,
    DeviceDescriptor, FileDescriptor, Incarnation, MAX_BUFFERS, MAX_DESCRIPTOR_BYTES, MAX_DEVICES,
    MAX_NIC_ADDRESSES, MIN_PAGE_BYTES, NicAddress, PAGE_BYTES, PagedDescriptor,
    ParseIncarnationError, ParseNicAddressError, ProtocolPart, Rkey, SegmentDescriptor,
    TE_OBJECT_VERSION, TcpEndpoint, TeObject,
};
pub use directory::{Directory, ResolveError, Resolved};
pub use frame::{
    Frame, FrameError, FrameKind, FrameReader, FrameType, LENGTH_BYTES, MAX_FRAME_LIMIT,
    MIN_FRAME_LIMIT, encode_frame,
};
pub use json::ShapeError;
pub use keyspace::KeySpace;
pub use listen::{BindError, ListenAddress, PortChoice, PortRange, PortRangeError, bind_listener};
pub use message::{
    EndpointMessage, MAX_QUEUE_PAIRS, MessageError, Notify, QpNumber, QpNumberError,
};
pub use name::{
    AddressFamily, DEFAULT_PEER_PORT, DevicePort, HostPort, MAX_SEGMENT_NAME_BYTES,
    ParseAddressError, ParseNameError, SegmentName, parse_device_port,
};
pub use peer::{
    Asker, BoundPeerServer, CloseError, EndpointQuestion, LimitsError, NotifyRefused, PeerClient,
    PeerError, PeerLimits, PeerPhase, PeerServer, PeerServerStats, PeerService, StartError,
};
pub use rpc_meta::RpcMeta;
#[cfg(any(test, feature = "conformance"))]
pub use store::check_store;
pub use store::{
    Capabilities, Change, ChangeKind, Changes, Claim, Credentials, KeyInfo, Lease, MAX_LISTED,
    MAX_VALUE_BYTES, MemoryStore, MetadataStore, OpenStoreError, ParseStoreUriError, Record,
    Release, Renewal, Revision, Secret, StoreError, StoreOptions, StorePhase, StoreUri, TlsFiles,
    Watch, available_stores, open_store,
};
pub use tenancy::{
    Caretaker, CaretakerError, OwnerState, Standing, TenancyEvent, TenancyHost, TenancyTimes,
};
pub use timestamp::format_timestamp;
