//! Rows of the sections `tcp`, `topology` and `log`.

use super::{
    Alias, BYTES, DAY_MILLIS, DAY_SECONDS, Kind, MANY_SECONDS, MICROS, MILLIS, NUMBER, SECONDS,
    Variable, integer, integer_or_zero, switch,
};

pub(super) const ROWS: &[Variable] = &[
    Variable::new(
        "tcp.connection_pool",
        switch(),
        "accepted and without effect: connections are always kept and reused",
    )
    .mooncake("MC_TCP_ENABLE_CONNECTION_POOL"),
    Variable::new(
        "tcp.local_addresses",
        Kind::NicAddresses,
        "addresses of NICs that carry bytes to peers, by their weights; empty: the system's choice",
    )
    .own("TE_TCP_ADDRESSES"),
    Variable::new(
        "tcp.lanes_per_rail",
        integer(1, 16, NUMBER),
        "connections of version 3 over each pair of NICs to a peer",
    ),
    Variable::new("tcp.lanes_per_peer", integer(1, 16, NUMBER), "connections to one peer")
        .mooncake("MC_TCP_LANES_PER_PEER")
        .also(&[Alias::Old("MC_TCP_MAX_CONNECTIONS_PER_PEER")]),
    Variable::new(
        "tcp.max_queued_per_peer",
        integer(1, 65535, NUMBER),
        "slices queued for one peer; a longer batch waits, it does not fail",
    )
    .mooncake("MC_TCP_MAX_QUEUED_TRANSFERS_PER_PEER"),
    Variable::new(
        "tcp.max_queued_bytes_per_peer",
        integer(4096, 1 << 40, BYTES),
        "bytes of such slices, in version 3 of all slices under way to one peer",
    ),
    Variable::new(
        "tcp.max_pending_admissions_per_peer",
        integer(1, 65535, NUMBER),
        "accepted and without effect: what finds no place in the queue stays with its batch",
    )
    .mooncake("MC_TCP_MAX_PENDING_ADMISSIONS_PER_PEER"),
    Variable::new(
        "tcp.admission_timeout_ms",
        integer(1, 600_000, MILLIS),
        "accepted and without effect: a batch waits for places until its own deadline",
    )
    .mooncake("MC_TCP_ADMISSION_TIMEOUT_MS"),
    Variable::new(
        "tcp.slice_size_bytes",
        integer(1, 1 << 30, BYTES),
        "bytes moved by one socket call at most; less than 4 KiB acts as 4 KiB",
    )
    .mooncake("MC_TCP_SLICE_SIZE"),
    Variable::new(
        "tcp.protocol_version",
        Kind::Choice { numbers: &[1, 2, 3], unit: NUMBER },
        "newest data protocol; 3 is spoken between engines of this kind only",
    )
    .mooncake("MC_TCP_PROTO"),
    Variable::new(
        "tcp.max_in_flight",
        integer(1, 65_535, NUMBER),
        "requests in flight on one connection of version 3",
    ),
    Variable::new(
        "tcp.spin_us",
        integer(0, 10_000, MICROS),
        "how long whoever waits for the network looks for events before it sleeps; 0 saves processor time",
    ),
    Variable::new(
        "tcp.fence_timeout_ms",
        integer(1, DAY_MILLIS, MILLIS),
        "how long requests of a lost connection wait to hear that the peer let go of them",
    ),
    Variable::new(
        "tcp.cancel_timeout_ms",
        integer(1, DAY_MILLIS, MILLIS),
        "how long a peer may take to confirm a cancel before its connection is closed",
    ),
    Variable::new(
        "tcp.status_timeout_seconds",
        integer(1, DAY_SECONDS, SECONDS),
        "limit of the wait for a peer's status after the last byte",
    )
    .mooncake("MC_TCP_STATUS_TIMEOUT_SEC"),
    Variable::new(
        "tcp.progress_timeout_seconds",
        integer(1, DAY_SECONDS, SECONDS),
        "a request that moves no byte for this long fails",
    )
    .mooncake("MC_TCP_PROGRESS_TIMEOUT_SEC"),
    Variable::new(
        "tcp.rail_timeout_ms",
        integer(1500, DAY_MILLIS, MILLIS),
        "how long a pair of NICs may be silent under requests before the others take them over",
    ),
    Variable::new(
        "tcp.connect_timeout_ms",
        integer(1, DAY_MILLIS, MILLIS),
        "limit of connecting to a peer's data port",
    ),
    Variable::new(
        "tcp.header_timeout_ms",
        integer(1, DAY_MILLIS, MILLIS),
        "a request header that was begun must be whole within this time",
    ),
    Variable::new(
        "tcp.socket_buffer_bytes",
        integer_or_zero(4096, 1 << 30, BYTES, "the kernel's choice"),
        "send and receive buffer of a socket",
    ),
    Variable::new(
        "tcp.min_piece_bytes",
        integer(1, 1 << 40, BYTES),
        "a request is not cut into pieces smaller than this",
    ),
    Variable::new(
        "tcp.max_piece_bytes",
        integer(1, 1 << 40, BYTES),
        "no piece of a request is larger than this; not below the smallest",
    ),
    Variable::new(
        "tcp.max_connections",
        integer(1, 65535, NUMBER),
        "connections to the data port that are served at once",
    ),
    Variable::new(
        "tcp.max_connections_per_host",
        integer(1, 65535, NUMBER),
        "the same for one remote host",
    ),
    Variable::new(
        "topology.custom_file",
        Kind::Path,
        "file with the NIC priority matrix, instead of discovery",
    )
    .mooncake("MC_CUSTOM_TOPO_JSON")
    .unset("discover"),
    Variable::new("topology.filters", Kind::Names, "NICs that may be used; empty: all")
        .mooncake("MC_TE_FILTERS"),
    Variable::new(
        "topology.path_round_robin",
        switch(),
        "take the NICs of a location in turn instead of at random",
    )
    .mooncake("MC_PATH_ROUNDROBIN"),
    Variable::new(
        "log.level",
        Kind::Word { words: &["TRACE", "INFO", "WARNING", "ERROR"], any_case: false },
        "the least important level that is logged",
    )
    .mooncake("MC_LOG_LEVEL"),
    Variable::new("log.directory", Kind::Path, "directory for log files")
        .mooncake("MC_LOG_DIR")
        .unset("standard error"),
    Variable::new("log.metrics", switch(), "log the engine's counters periodically")
        .mooncake("MC_TE_METRIC"),
    Variable::new("log.metrics_interval_seconds", integer(1, MANY_SECONDS, SECONDS), "how often")
        .mooncake("MC_TE_METRIC_INTERVAL_SECONDS"),
];
