//! Settings of the transport: plain values, every wait among them.
//!
//! A device that cannot do what is set does what it can; the setting itself stays as it is, for the
//! other devices (te-classic E5, where the first small device lowers it for all).

use std::time::Duration;

use te_topology::{GidWish, NicName, PeerAffinity, PriorityMatrix};
use te_verbs::Mtu;

/// What the transport is made of.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RdmaConfig {
    /// The NICs to use; empty (default): all that are there, or those of `matrix`. A name that no
    /// device has is an error.
    pub nics: Vec<NicName>,
    /// Which NIC is near which memory. Default: every NIC serves every location alike.
    pub matrix: Option<PriorityMatrix>,
    /// How devices are opened.
    pub device: DeviceSettings,
    /// How connections are made.
    pub connection: ConnectionSettings,
    /// How memory is registered.
    pub memory: MemorySettings,
    /// How work is cut, posted and waited for.
    pub work: WorkSettings,
    /// What happens after faults.
    pub faults: FaultSettings,
    /// Which NIC of a peer goes with which of ours. Default: what the peer's matrix says.
    pub pairing: Pairing,
    /// Equally good NICs are taken in turn instead of at random. Default no.
    pub in_turn: bool,
    /// Starts also where every port is down, and uses the NICs when they come. Default yes.
    pub wait_for_ports: bool,
}

/// How devices are opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSettings {
    /// Port, from 1. Default 1.
    pub port: u8,
    /// Which GID. Default: chosen from the table.
    pub gid: GidWish,
    /// Index of the partition key. Default 0.
    pub pkey_index: u16,
    /// Completion queues; 0 is refused. Default 1.
    pub completion_queues: u32,
    /// Completion channels; 0 is refused. Default 1.
    pub completion_channels: u32,
    /// Entries of a completion queue. Default 4096.
    pub completion_entries: u32,
    /// Upper bound of the path MTU. Default 4096 bytes.
    pub mtu: Mtu,
}

/// How connections are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// Queue pairs of a connection; a peer must use as many. Default 2.
    pub queue_pairs: u32,
    /// Connections of a NIC. Default 65,536.
    pub max_endpoints: u32,
    /// Which connection leaves when there are too many. Default SIEVE.
    pub store: StorePolicy,
    /// Work requests of a queue pair. Default 256.
    pub max_requests: u32,
    /// Ranges of a work request. Default 4.
    pub max_ranges: u32,
    /// Bytes that a work request may carry in itself. Default 64; none on a device that refuses
    /// queue pairs with so many.
    pub inline_bytes: u32,
    /// Traffic class. Default 0.
    pub traffic_class: u8,
    /// Service level, 0 to 15. Default 0.
    pub service_level: u8,
    /// Hop limit. Default 16.
    pub hop_limit: u8,
    /// READs outstanding in each direction. Default 16.
    pub reads: u8,
    /// An acknowledgement is waited for 4.096 µs × 2 to this power. Default 14 (67 ms).
    pub ack_timeout: u8,
    /// Tries after the first, 0 to 7. Default 7, which some providers take as endless.
    pub retries: u8,
    /// Tries after "receiver not ready", 0 to 7; 7 (default) is endless.
    pub rnr_retries: u8,
    /// Code of the wait after "receiver not ready", 0 to 31. Default 12 (0.64 ms).
    pub min_rnr_timer: u8,
    /// How long the peer may take to accept a message of the handshake. Default 5 s.
    pub connect_limit: Duration,
    /// How long it may take to answer. Default 10 s: it may wait 1 s for each of its queue pairs.
    pub answer_limit: Duration,
    /// How long a connection that the peer began may wait for the ready-ack. Default 10 s.
    pub ready_ack_limit: Duration,
    /// Connections of one peer that may wait for the ready-ack at once. Default 64.
    pub max_half_open: usize,
    /// Queue pairs that one peer may have on a NIC of ours; its oldest connection there ends where it
    /// wants more. Default 1024: 16 NICs of a peer with as many queue pairs as a peer may choose.
    pub max_peer_queue_pairs: usize,
    /// Tries to connect before the waiting work is given back. Default 4.
    pub attempts: u32,
    /// The wait before the second try; each is twice as long as the one before. Default 20 ms.
    pub first_backoff: Duration,
    /// The longest such wait. Default 500 ms.
    pub longest_backoff: Duration,
    /// Tries with another GID where the route is refused. Default 2.
    pub gid_retries: u32,
    /// How long a peer that failed is not connected to. `None` (default): at once again.
    pub pause: Option<Duration>,
    /// How long a question of a peer may wait for its turn. Default 5 s: then the listener has closed,
    /// and what would be made is for nobody.
    pub serve_limit: Duration,
    /// A connection on which we moved nothing for so long is asked whether the peer is there, by a write
    /// of no bytes; where it is not the connection ends. Default 5 minutes. `None`: nobody is asked.
    pub idle_probe: Option<Duration>,
    /// Threads that make connections, and as many that answer peers; they are started when they are
    /// needed. One peer has at most a quarter of them, so that one that cannot be reached keeps no
    /// other waiting. Default 8.
    pub threads: usize,
}

/// Which connection leaves when a NIC has too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorePolicy {
    /// The oldest.
    Fifo,
    /// One that was not used since the hand last passed it.
    Sieve,
}

/// How memory is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemorySettings {
    /// Longest region, bytes; longer memory is registered in pieces. Default 1 TiB; devices lower
    /// it.
    pub max_region: u64,
    /// Writes may pass each other on PCI. Default yes.
    pub relaxed_ordering: bool,
    /// Whether several NICs register at once. Default [`Parallel::Auto`].
    pub parallel: Parallel,
    /// Buffers from this length on are faulted in by several threads first, bytes. Default 4 GiB.
    pub pre_touch_from: u64,
    /// Threads that do that; 0 (default): 8, or 16 with more than 64 hardware threads, and none
    /// with fewer than 4.
    pub pre_touch_threads: usize,
}

/// Whether several NICs register memory at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parallel {
    /// Where it pays: several NICs, and memory that was faulted in first. Released in parallel
    /// wherever there are several NICs.
    Auto,
    /// Never.
    Never,
    /// Always.
    Always,
}

/// How work is cut, posted and waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkSettings {
    /// Bytes of a slice. Default 64 KiB.
    pub slice: u64,
    /// A tail of at most so many bytes joins the slice before it. Default 16 KiB.
    pub tail: u64,
    /// Slices that wait for one NIC at most. Default 4096.
    pub queue: usize,
    /// How long a worker polls without result before it waits for an event. Default 50 µs.
    pub spin: Duration,
    /// How long a posted slice may go without any progress of its queue pair. Default 10 s.
    pub patience: Duration,
    /// How long a queue pair in ERR may take to give back what was posted. Default 1 s.
    pub flush_limit: Duration,
    /// How long one of our own engines may take to confirm a fence. Default 2 s.
    pub fence_limit: Duration,
}

/// What happens after faults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultSettings {
    /// Failures of a NIC in a row that make it inactive. Default 32.
    pub nic_failures: u32,
    /// From "port active" until the NIC is tried again. Default 500 ms.
    pub recover_after: Duration,
    /// The longest wait between two tries; each is twice as long as the one before. Default 5 s.
    pub recover_longest: Duration,
    /// Errors of a rail that pause it. Default 5.
    pub rail_errors: u32,
    /// The time within which these errors count; as long without one forgets them. Default 5 s.
    pub rail_window: Duration,
    /// How long a rail pauses. Default 30 s. While no other rail is left it is tried all the same.
    pub rail_pause: Duration,
}

/// Which NIC of a peer goes with which of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pairing {
    /// What the peer's matrix says.
    Matrix,
    /// The NIC of the same name where the peer has one.
    SameName,
    /// For memory of accelerators, what the rules say.
    Rules(PeerAffinity),
}

impl Default for RdmaConfig {
    fn default() -> Self {
        Self {
            nics: Vec::new(),
            matrix: None,
            device: DeviceSettings::default(),
            connection: ConnectionSettings::default(),
            memory: MemorySettings::default(),
            work: WorkSettings::default(),
            faults: FaultSettings::default(),
            pairing: Pairing::Matrix,
            in_turn: false,
            wait_for_ports: true,
        }
    }
}

impl Default for DeviceSettings {
    fn default() -> Self {
        Self {
            port: 1,
            gid: GidWish::default(),
            pkey_index: 0,
            completion_queues: 1,
            completion_channels: 1,
            completion_entries: 4096,
            mtu: Mtu::B4096,
        }
    }
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self {
            queue_pairs: 2,
            max_endpoints: 65_536,
            store: StorePolicy::Sieve,
            max_requests: 256,
            max_ranges: 4,
            inline_bytes: 64,
            traffic_class: 0,
            service_level: 0,
            hop_limit: 16,
            reads: 16,
            ack_timeout: 14,
            retries: 7,
            rnr_retries: 7,
            min_rnr_timer: 12,
            connect_limit: Duration::from_secs(5),
            answer_limit: Duration::from_secs(10),
            ready_ack_limit: Duration::from_secs(10),
            max_half_open: 64,
            max_peer_queue_pairs: 1024,
            attempts: 4,
            first_backoff: Duration::from_millis(20),
            longest_backoff: Duration::from_millis(500),
            gid_retries: 2,
            pause: None,
            serve_limit: Duration::from_secs(5),
            idle_probe: Some(Duration::from_secs(300)),
            threads: 8,
        }
    }
}

impl Default for MemorySettings {
    fn default() -> Self {
        Self {
            max_region: 1 << 40,
            relaxed_ordering: true,
            parallel: Parallel::Auto,
            pre_touch_from: 4 << 30,
            pre_touch_threads: 0,
        }
    }
}

impl Default for WorkSettings {
    fn default() -> Self {
        Self {
            slice: 64 << 10,
            tail: 16 << 10,
            queue: 4096,
            spin: Duration::from_micros(50),
            patience: Duration::from_secs(10),
            flush_limit: Duration::from_secs(1),
            fence_limit: Duration::from_secs(2),
        }
    }
}

impl Default for FaultSettings {
    fn default() -> Self {
        Self {
            nic_failures: 32,
            recover_after: Duration::from_millis(500),
            recover_longest: Duration::from_secs(5),
            rail_errors: 5,
            rail_window: Duration::from_secs(5),
            rail_pause: Duration::from_secs(30),
        }
    }
}
