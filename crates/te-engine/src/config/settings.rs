//! The settings themselves: plain values, one struct per part of the engine.
//!
//! Each struct is also a section of the TOML form. A number's unit is part of its TOML key where
//! it is a time. What a setting may be, its default and its variable names stand in
//! [`super::variables`]; the defaults here are the only place where a default is written.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use te_metadata::{NicAddress, Secret};

use super::form::{millis, millis_or_off, seconds, seconds_or_off, secret};
use super::rdma::RdmaSettings;

/// Everything that can be configured, by section.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// Where descriptors come from and how long they are believed.
    pub metadata: MetadataSettings,
    /// The port on which peers ask for descriptors, and our own questions to theirs.
    pub peer: PeerSettings,
    /// Batches, tasks, retries, deadlines.
    pub engine: EngineSettings,
    /// Bytes over TCP.
    pub tcp: TcpSettings,
    /// Bytes over RDMA.
    pub rdma: RdmaSettings,
    /// Which NICs are near which memory.
    pub topology: TopologySettings,
    /// What is logged, and where.
    pub log: LogSettings,
}

/// Section `metadata`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MetadataSettings {
    /// Extra part of every key in a metadata service; empty for none. Engines with different
    /// values do not see each other.
    pub cluster_id: String,
    /// Keep descriptors of peers (default). Off: ask again before every use.
    pub cache: bool,
    /// How often cached descriptors are asked for again in the background. None (default): only
    /// when a transfer fails or the caller asks.
    #[serde(rename = "refresh_interval_seconds", with = "seconds_or_off")]
    pub refresh_interval: Option<Duration>,
    /// Limit of one attempt to connect to a metadata service. Default 1.5 s.
    #[serde(rename = "connect_timeout_ms", with = "millis")]
    pub connect_timeout: Duration,
    /// Limit of one question to a metadata service, connecting included. Default 3 s.
    #[serde(rename = "call_timeout_ms", with = "millis")]
    pub call_timeout: Duration,
    /// How long our records live in a service that lets them end, after we were last heard of.
    /// They are renewed at a third of it. Default 30 s.
    #[serde(rename = "ttl_seconds", with = "seconds")]
    pub ttl: Duration,
    /// How often it is looked whether our records still stand, at most half of `ttl`. Default 4 s.
    #[serde(rename = "verify_interval_ms", with = "millis")]
    pub verify_interval: Duration,
    /// Changes that come within this time are published together; it grows while they keep
    /// coming. Default 20 ms.
    #[serde(rename = "publish_window_ms", with = "millis")]
    pub publish_window: Duration,
    /// User of an etcd or a redis. None by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Its password. None by default.
    #[serde(with = "secret", skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// Token for HTTP services, sent as `Authorization: Bearer`. None by default.
    #[serde(with = "secret", skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// The database of a redis. Default 0.
    pub redis_database: u8,
    /// The proxy through which HTTP services are reached, `http://host:port`. None by default;
    /// variables such as `http_proxy` do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_proxy: Option<String>,
    /// Certificates of the authorities that are trusted, PEM. None (default): the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// Our own certificate, PEM; needs `key_file`. None by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_file: Option<PathBuf>,
    /// Its key, PEM. None by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
}

impl Default for MetadataSettings {
    fn default() -> Self {
        Self {
            cluster_id: String::new(),
            cache: true,
            refresh_interval: None,
            connect_timeout: Duration::from_millis(1500),
            call_timeout: Duration::from_secs(3),
            ttl: Duration::from_secs(30),
            verify_interval: Duration::from_secs(4),
            publish_window: Duration::from_millis(20),
            username: None,
            password: None,
            token: None,
            redis_database: 0,
            http_proxy: None,
            ca_file: None,
            certificate_file: None,
            key_file: None,
        }
    }
}

/// Section `peer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PeerSettings {
    /// Port of a peer whose name tells none. Default 12001.
    pub handshake_port: u16,
    /// Lowest port that the engine picks for itself. Default 15000.
    pub port_min: u16,
    /// Highest port that the engine picks for itself. Default 17000.
    pub port_max: u16,
    /// Listen exactly where the local name says instead of on a picked port. Default off.
    pub legacy_port_binding: bool,
    /// Connections that may wait to be accepted. Default 128.
    pub listen_backlog: u32,
    /// Limit of connecting to a peer's handshake port. Default 5 s: a living host answers within
    /// a second even across a slow network, so more only delays the news.
    #[serde(rename = "connect_timeout_seconds", with = "seconds")]
    pub connect_timeout: Duration,
    /// Limit of a whole question to a peer, connecting included. Default 10 s.
    #[serde(rename = "exchange_timeout_seconds", with = "seconds")]
    pub exchange_timeout: Duration,
    /// Limit of serving one question of a peer, first to last byte. Default 5 s.
    #[serde(rename = "serve_timeout_seconds", with = "seconds")]
    pub serve_timeout: Duration,
    /// Longest message on the handshake port, in bytes. Default 1 MiB.
    pub max_frame_bytes: u32,
    /// Use IPv6 for the handshake socket, the choice of an interface and names. Default off.
    pub ipv6: bool,
    /// The address that is published when a metadata service is used. None (default): the local
    /// name, if it is an address, else one of the interface with the default route. It does not
    /// restrict where the engine listens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertise_address: Option<IpAddr>,
    /// Connections to the handshake port that are served at once. Default 1024.
    pub max_connections: u32,
    /// The same for one remote host. Default 512: one host cannot take all places, and many
    /// engines of one host start at once.
    pub max_connections_per_host: u32,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            handshake_port: 12001,
            port_min: 15000,
            port_max: 17000,
            legacy_port_binding: false,
            listen_backlog: 128,
            connect_timeout: Duration::from_secs(5),
            exchange_timeout: Duration::from_secs(10),
            serve_timeout: Duration::from_secs(5),
            max_frame_bytes: 1 << 20,
            ipv6: false,
            advertise_address: None,
            max_connections: 1024,
            max_connections_per_host: 512,
        }
    }
}

/// Section `engine`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct EngineSettings {
    /// Limit of one synchronous call; a nanosecond per byte is added. Default 30 s, at least 5 s.
    #[serde(rename = "transfer_timeout_seconds", with = "seconds")]
    pub transfer_timeout: Duration,
    /// Limit of one slice, after which it is tried again or fails. None (default): the limits of
    /// the transport and of the task decide.
    #[serde(rename = "slice_timeout_seconds", with = "seconds_or_off")]
    pub slice_timeout: Option<Duration>,
    /// How often a slice is tried again. Default 9.
    pub retry_count: u32,
    /// Deadline of a task whose request names none. Default 60 s: every wait has an end. None: a
    /// task may take for ever.
    #[serde(rename = "request_timeout_ms", with = "millis_or_off")]
    pub request_timeout: Option<Duration>,
    /// Requests of all batches together that are not final. Default 1,048,576.
    pub max_requests: u32,
    /// Bytes of all requests together that are not final. Default 1 TiB; nothing is allocated for
    /// them, the limit stops a caller that runs away.
    pub max_bytes: u64,
    /// Limit of closing the engine. Default 5 s.
    #[serde(rename = "shutdown_timeout_ms", with = "millis")]
    pub shutdown_timeout: Duration,
    /// How long unregistering waits for transfers that use the memory. Default 5 s.
    #[serde(rename = "unregister_timeout_ms", with = "millis")]
    pub unregister_timeout: Duration,
    /// How long a task that was ended waits for its slices before it is final with its memory in
    /// quarantine. Default 3 s: enough for a peer to confirm a cancel or a fence.
    #[serde(rename = "quarantine_after_ms", with = "millis")]
    pub quarantine_after: Duration,
    /// Notifications from peers that are kept until the caller takes them. Default 65,536.
    pub notify_queue: u32,
    /// The transports that may be used, by name, in order of preference. Empty (default): all that
    /// there are, the fastest first. One that is not there is an error.
    pub transports: Vec<String>,
    /// TCP only, whatever NICs there are. Default off; `transports` counts more.
    pub force_tcp: bool,
    /// RDMA even where no NIC was found, so that the engine refuses to start. Default off.
    pub force_hca: bool,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            transfer_timeout: Duration::from_secs(30),
            slice_timeout: None,
            retry_count: 9,
            request_timeout: Some(Duration::from_secs(60)),
            max_requests: 1 << 20,
            max_bytes: 1 << 40,
            shutdown_timeout: Duration::from_secs(5),
            unregister_timeout: Duration::from_secs(5),
            quarantine_after: Duration::from_secs(3),
            notify_queue: 65_536,
            transports: Vec::new(),
            force_tcp: false,
            force_hca: false,
        }
    }
}

/// Section `tcp`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TcpSettings {
    /// Accepted for Mooncake's sake and without effect: connections are always kept and reused.
    pub connection_pool: bool,
    /// Addresses of this host's NICs, at most 8, each with its weight where that is not 1:
    /// `10.1.0.7*25`. Empty (default): the system's routes choose. Bytes to a peer are dealt out over
    /// them by weight, and peers of this kind are told all of them.
    pub local_addresses: Vec<NicAddress>,
    /// Connections to one peer. Default 4.
    pub lanes_per_peer: u32,
    /// Connections of version 3 over each pair of NICs to a peer. Default 1; further ones are opened
    /// for large batches only, and help where one connection does not fill the line.
    pub lanes_per_rail: u32,
    /// Slices queued for one peer. Default 1024; a longer batch waits, it does not fail.
    pub max_queued_per_peer: u32,
    /// Bytes of such slices, and in version 3 of all slices under way to one peer; one slice may be
    /// larger. Default 16 MiB: less lets batches take turns sooner, more fills a long line better.
    pub max_queued_bytes_per_peer: u64,
    /// Accepted for Mooncake's sake and without effect: what finds no place in a peer's queue
    /// stays with its batch.
    pub max_pending_admissions_per_peer: u32,
    /// Accepted for Mooncake's sake and without effect: a batch waits for places until its own
    /// deadline.
    #[serde(rename = "admission_timeout_ms", with = "millis")]
    pub admission_timeout: Duration,
    /// Bytes moved by one socket call at most; less than 4 KiB acts as 4 KiB. Default 1 MiB: fewer
    /// calls cost less time per byte, and it is not seen on the wire.
    pub slice_size_bytes: u64,
    /// Newest data protocol that is spoken to a peer that offers it: 3 (default) between engines of
    /// this kind, 2 with Mooncake, 1 whose writes the peer does not confirm.
    pub protocol_version: u32,
    /// Requests in flight on one connection of version 3. Default 256.
    pub max_in_flight: u32,
    /// How long whoever waits for the network looks for events before it sleeps, µs. Default 50: a
    /// wake-up costs about that much. 0 uses the least processor time.
    pub spin_us: u32,
    /// How long the end of requests whose connection was lost waits for the peer to say that it has
    /// let go of them. Default 1 s.
    #[serde(rename = "fence_timeout_ms", with = "millis")]
    pub fence_timeout: Duration,
    /// How long a peer may take to confirm a cancel before its connection is closed. Default 0.5 s.
    #[serde(rename = "cancel_timeout_ms", with = "millis")]
    pub cancel_timeout: Duration,
    /// Limit of the wait for a peer's status after the last byte. Default 30 s.
    #[serde(rename = "status_timeout_seconds", with = "seconds")]
    pub status_timeout: Duration,
    /// A request that moves no byte for this long fails. Default 30 s: a stopped peer is noticed
    /// before the deadline of a task.
    #[serde(rename = "progress_timeout_seconds", with = "seconds")]
    pub progress_timeout: Duration,
    /// A pair of NICs whose far end is silent for this long, while requests stand still and another
    /// pair is there, is not used for a while. Default 1.5 s, which is the least.
    #[serde(rename = "rail_timeout_ms", with = "millis")]
    pub rail_timeout: Duration,
    /// Limit of connecting to a peer's data port. Default 5 s.
    #[serde(rename = "connect_timeout_ms", with = "millis")]
    pub connect_timeout: Duration,
    /// A connected peer must send a whole request header within this time once it has begun one.
    /// Default 10 s.
    #[serde(rename = "header_timeout_ms", with = "millis")]
    pub header_timeout: Duration,
    /// Send and receive buffer of a socket; 0 (default): the kernel's choice, which it adapts.
    pub socket_buffer_bytes: u64,
    /// A request is not cut into pieces smaller than this. Default 1 MiB.
    pub min_piece_bytes: u64,
    /// No piece of a request is larger than this, in versions 1 and 2. Default 64 MiB.
    pub max_piece_bytes: u64,
    /// Connections to the data port that are served at once. Default 4096.
    pub max_connections: u32,
    /// The same for one remote host. Default 1024.
    pub max_connections_per_host: u32,
}

impl Default for TcpSettings {
    fn default() -> Self {
        Self {
            connection_pool: true,
            local_addresses: Vec::new(),
            lanes_per_peer: 4,
            lanes_per_rail: 1,
            max_queued_per_peer: 1024,
            max_queued_bytes_per_peer: 16 << 20,
            max_pending_admissions_per_peer: 1024,
            admission_timeout: Duration::from_secs(1),
            slice_size_bytes: 1 << 20,
            protocol_version: 3,
            max_in_flight: 256,
            spin_us: 50,
            fence_timeout: Duration::from_secs(1),
            cancel_timeout: Duration::from_millis(500),
            status_timeout: Duration::from_secs(30),
            progress_timeout: Duration::from_secs(30),
            rail_timeout: Duration::from_millis(1500),
            connect_timeout: Duration::from_secs(5),
            header_timeout: Duration::from_secs(10),
            socket_buffer_bytes: 0,
            min_piece_bytes: 1 << 20,
            max_piece_bytes: 64 << 20,
            max_connections: 4096,
            max_connections_per_host: 1024,
        }
    }
}

/// Section `topology`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TopologySettings {
    /// A file with the NIC priority matrix, in two lists or ranked; what is discovered, and
    /// `filters`, do not count then. If it is wrong or names NICs that are not here, RDMA is off; if
    /// it is absent or empty, a warning says so. None (default): discover.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_file: Option<PathBuf>,
    /// Names of the NICs that may be used; empty (default): all.
    pub filters: Vec<String>,
    /// Take the NICs of a location in turn instead of at random. Default off.
    pub path_round_robin: bool,
}

/// Section `log`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LogSettings {
    /// The least important level that is logged. Default INFO.
    pub level: LogLevel,
    /// Directory for log files. None (default): standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// Log the engine's counters periodically. Default off.
    pub metrics: bool,
    /// How often. Default 5 s.
    #[serde(rename = "metrics_interval_seconds", with = "seconds")]
    pub metrics_interval: Duration,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            level: LogLevel::Info,
            directory: None,
            metrics: false,
            metrics_interval: Duration::from_secs(5),
        }
    }
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum LogLevel {
    /// Every step.
    Trace,
    /// What happens rarely and is worth a line.
    #[default]
    Info,
    /// Only what is not as it should be.
    Warning,
    /// Only what failed.
    Error,
}
