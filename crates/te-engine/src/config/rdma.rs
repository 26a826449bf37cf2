//! Section `rdma`: queue depths, addressing, pauses. Plain values for the RDMA transport.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::form::{millis, millis_or_off, seconds};

/// Section `rdma`. Device limits lower a value for that device only, never here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RdmaSettings {
    /// Completion queues per NIC. Default 1.
    pub completion_queues: u32,
    /// Completion channels per NIC. Default 1.
    pub completion_channels: u32,
    /// Port of the NIC. Default 1.
    pub port: u32,
    /// Index of the GID. None (default): chosen from the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid_index: Option<u32>,
    /// The index of the GID of single NICs, as `mlx5_0=3`, at most 64; counts more than `gid_index`.
    /// Empty (default): none.
    pub gid_indices: Vec<String>,
    /// Index of the partition key. Default 0.
    pub pkey_index: u32,
    /// Entries per completion queue. Default 4096.
    pub max_cqe: u32,
    /// Endpoints per NIC. Default 65,536.
    pub max_endpoints: u32,
    /// Queue pairs per endpoint; the peer must use as many. Default 2.
    pub queue_pairs_per_endpoint: u32,
    /// Scatter-gather entries per work request. Default 4.
    pub max_sge: u32,
    /// Work requests per queue pair. Default 256.
    pub max_wr: u32,
    /// Inline bytes that a queue pair is created for. Default 64.
    pub max_inline_bytes: u32,
    /// Upper bound of the path MTU. Default 4096.
    pub mtu_bytes: PathMtu,
    /// Accepted for Mooncake's sake and without effect: each NIC has one worker.
    pub workers: u32,
    /// Bytes per slice. Default 64 KiB.
    pub slice_size_bytes: u64,
    /// A tail shorter than the slice size divided by this joins the slice before it. Default 4.
    pub fragment_ratio: u64,
    /// Attempts with another GID. Default 2.
    pub auto_gid_max_retries: u32,
    /// How long a rail rests after it failed; while no other is left it is tried all the same. Default
    /// 30 s.
    #[serde(rename = "rail_pause_seconds", with = "seconds")]
    pub rail_pause: Duration,
    /// How long connecting to a peer that refused is not tried again. None (default): at once.
    #[serde(rename = "connect_pause_ms", with = "millis_or_off")]
    pub connect_pause: Option<Duration>,
    /// Which endpoint leaves when there are too many. Default SIEVE.
    pub endpoint_store: EndpointStore,
    /// Traffic class. None (default): the NIC's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic_class: Option<u32>,
    /// Service level. None (default): the NIC's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_level: Option<u32>,
    /// Relaxed ordering on PCI: 0 never, 1 (default) and 2 where the system's library can.
    pub relaxed_ordering: u32,
    /// Accepted for Mooncake's sake and without effect: the NIC chooses the UDP source ports.
    pub udp_source_ports: Vec<u16>,
    /// Accepted for Mooncake's sake and without effect: the NIC spreads queue pairs over bonded ports.
    pub lag_port_balance: bool,
    /// Longest memory region in bytes; longer memory is registered in pieces. Default 1 TiB.
    pub max_region_bytes: u64,
    /// Register with several NICs at once: -1 (default) where it pays, 0 never, 1 always.
    pub parallel_registration: ParallelRegistration,
    /// Accepted for Mooncake's sake and without effect: one registration runs on each NIC.
    pub max_concurrent_registrations: u32,
    /// Prefer the peer's NIC of the same name. Default off. With `peer_affinity`, neither counts.
    pub destination_affinity: bool,
    /// Use the rules of `nic_peer_affinity`, for memory of accelerators. Default off.
    pub peer_affinity: bool,
    /// Rules that pair our NICs with a peer's, `ours=theirs1,theirs2;…`; empty (default): none.
    pub nic_peer_affinity: String,
    /// Accepted for Mooncake's sake and without effect: slices are not logged.
    pub log_slice_affinity: bool,
    /// Accepted for Mooncake's sake and without effect: slices are counted always.
    pub track_posted_slices: bool,
    /// Accepted for Mooncake's sake and without effect: NICs are named by the segment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind_address: Option<IpAddr>,
    /// Accepted for Mooncake's sake and without effect: there is no EFA transport.
    pub efa_nic_selection: EfaNicSelection,
    /// How often the NIC repeats what the peer does not acknowledge, 0 to 7. Default 7, which some
    /// NICs take as endless; `progress_timeout` ends it then.
    pub retries: u32,
    /// The NIC waits for an acknowledgement 4.096 µs × 2 to this power, 1 to 31. Default 14 (67 ms).
    pub ack_timeout: u32,
    /// A request whose connection moves nothing for this long fails. Default 10 s.
    #[serde(rename = "progress_timeout_ms", with = "millis")]
    pub progress_timeout: Duration,
    /// How long a broken connection may take to give back what was posted. Default 1 s.
    #[serde(rename = "flush_timeout_ms", with = "millis")]
    pub flush_timeout: Duration,
    /// How long a peer of our kind may take to confirm that it has let go of requests. Default 2 s.
    #[serde(rename = "fence_timeout_ms", with = "millis")]
    pub fence_timeout: Duration,
    /// How long a connection that a peer began may wait for its last message. Default 10 s.
    #[serde(rename = "ready_ack_timeout_ms", with = "millis")]
    pub ready_ack_timeout: Duration,
    /// Connections that one peer may have begun and not completed. Default 64.
    pub max_half_open: u32,
    /// Queue pairs that one peer may have on a NIC of ours; its oldest connection there ends where it
    /// wants more. Default 1024, at least the 64 of one connection.
    pub max_peer_queue_pairs: u32,
    /// Tries to connect two NICs before the work that waits is given back. Default 4.
    pub connect_attempts: u32,
    /// The pause before the second try; each is twice as long as the one before. Default 20 ms.
    #[serde(rename = "connect_backoff_ms", with = "millis")]
    pub connect_backoff: Duration,
    /// The longest such pause. Default 500 ms.
    #[serde(rename = "connect_backoff_max_ms", with = "millis")]
    pub connect_backoff_max: Duration,
    /// From "port active" until the NIC is used again. Default 0.5 s.
    #[serde(rename = "recover_after_ms", with = "millis")]
    pub recover_after: Duration,
    /// How long the worker of a NIC looks for what has ended before it sleeps, µs. Default 50. 0 uses
    /// the least processor time.
    pub spin_us: u32,
    /// Slices that wait for the NICs, together. Default 4096; a longer batch waits, it does not fail.
    pub max_queued: u32,
}

impl RdmaSettings {
    /// A tail of at most this many bytes joins the slice before it. It follows the slice size.
    pub fn fragment_limit(&self) -> u64 {
        self.slice_size_bytes / self.fragment_ratio.max(1)
    }
}

impl Default for RdmaSettings {
    fn default() -> Self {
        Self {
            completion_queues: 1,
            completion_channels: 1,
            port: 1,
            gid_index: None,
            gid_indices: Vec::new(),
            pkey_index: 0,
            max_cqe: 4096,
            max_endpoints: 65_536,
            queue_pairs_per_endpoint: 2,
            max_sge: 4,
            max_wr: 256,
            max_inline_bytes: 64,
            mtu_bytes: PathMtu::Mtu4096,
            workers: 2,
            slice_size_bytes: 64 << 10,
            fragment_ratio: 4,
            auto_gid_max_retries: 2,
            rail_pause: Duration::from_secs(30),
            connect_pause: None,
            endpoint_store: EndpointStore::Sieve,
            traffic_class: None,
            service_level: None,
            relaxed_ordering: 1,
            udp_source_ports: Vec::new(),
            lag_port_balance: false,
            max_region_bytes: 1 << 40,
            parallel_registration: ParallelRegistration::Auto,
            max_concurrent_registrations: 0,
            destination_affinity: false,
            peer_affinity: false,
            nic_peer_affinity: String::new(),
            log_slice_affinity: false,
            track_posted_slices: false,
            bind_address: None,
            efa_nic_selection: EfaNicSelection::All,
            retries: 7,
            ack_timeout: 14,
            progress_timeout: Duration::from_secs(10),
            flush_timeout: Duration::from_secs(1),
            fence_timeout: Duration::from_secs(2),
            ready_ack_timeout: Duration::from_secs(10),
            max_half_open: 64,
            max_peer_queue_pairs: 1024,
            connect_attempts: 4,
            connect_backoff: Duration::from_millis(20),
            connect_backoff_max: Duration::from_millis(500),
            recover_after: Duration::from_millis(500),
            spin_us: 50,
            max_queued: 4096,
        }
    }
}

/// A path MTU that verbs knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub enum PathMtu {
    /// 512 bytes.
    Mtu512,
    /// 1024 bytes.
    Mtu1024,
    /// 2048 bytes.
    Mtu2048,
    /// 4096 bytes.
    Mtu4096,
}

impl PathMtu {
    /// In bytes.
    pub fn bytes(self) -> u32 {
        match self {
            Self::Mtu512 => 512,
            Self::Mtu1024 => 1024,
            Self::Mtu2048 => 2048,
            Self::Mtu4096 => 4096,
        }
    }

    /// The number that stands for it in `enum ibv_mtu`.
    pub fn verbs(self) -> u32 {
        match self {
            Self::Mtu512 => 2,
            Self::Mtu1024 => 3,
            Self::Mtu2048 => 4,
            Self::Mtu4096 => 5,
        }
    }
}

impl TryFrom<u32> for PathMtu {
    type Error = UnknownNumber;

    fn try_from(bytes: u32) -> Result<Self, UnknownNumber> {
        [Self::Mtu512, Self::Mtu1024, Self::Mtu2048, Self::Mtu4096]
            .into_iter()
            .find(|mtu| mtu.bytes() == bytes)
            .ok_or_else(|| UnknownNumber(i64::from(bytes)))
    }
}

impl From<PathMtu> for u32 {
    fn from(mtu: PathMtu) -> Self {
        mtu.bytes()
    }
}

/// Whether memory is registered with several NICs at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub enum ParallelRegistration {
    /// Where it pays.
    Auto,
    /// Never.
    Off,
    /// Always.
    On,
}

impl TryFrom<i64> for ParallelRegistration {
    type Error = UnknownNumber;

    fn try_from(number: i64) -> Result<Self, UnknownNumber> {
        match number {
            -1 => Ok(Self::Auto),
            0 => Ok(Self::Off),
            1 => Ok(Self::On),
            other => Err(UnknownNumber(other)),
        }
    }
}

impl From<ParallelRegistration> for i64 {
    fn from(choice: ParallelRegistration) -> Self {
        match choice {
            ParallelRegistration::Auto => -1,
            ParallelRegistration::Off => 0,
            ParallelRegistration::On => 1,
        }
    }
}

/// A number that stands for none of the choices.
#[derive(Debug, thiserror::Error)]
#[error("{0} stands for none of the choices")]
pub struct UnknownNumber(i64);

/// Which endpoint leaves when a NIC has too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EndpointStore {
    /// The oldest.
    Fifo,
    /// One that was not used since the hand last passed it.
    Sieve,
}

/// Which EFA NICs are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EfaNicSelection {
    /// All.
    All,
    /// Those local to the memory.
    Local,
}
