//! Rows of the section `rdma`.

use super::{
    Alias, BYTES, DAY_MILLIS, Kind, MICROS, MILLIS, NUMBER, SECONDS, Variable, integer,
    integer_or_zero, presence, switch,
};

pub(super) const ROWS: &[Variable] = &[
    Variable::new("rdma.completion_queues", integer(1, 255, NUMBER), "completion queues per NIC")
        .mooncake("MC_NUM_CQ_PER_CTX"),
    Variable::new(
        "rdma.completion_channels",
        integer(1, 255, NUMBER),
        "completion channels per NIC",
    )
    .mooncake("MC_NUM_COMP_CHANNELS_PER_CTX"),
    Variable::new("rdma.port", integer(1, 255, NUMBER), "port of the NIC").mooncake("MC_IB_PORT"),
    Variable::new("rdma.gid_index", integer(0, 255, NUMBER), "index of the GID")
        .mooncake("MC_GID_INDEX")
        .also(&[Alias::Foreign("NCCL_IB_GID_INDEX")])
        .unset("chosen from the table"),
    Variable::new(
        "rdma.gid_indices",
        Kind::NicIndices,
        "index of the GID of single NICs; counts more than gid_index",
    ),
    Variable::new("rdma.pkey_index", integer(0, 65535, NUMBER), "index of the partition key")
        .mooncake("MC_PKEY_INDEX"),
    Variable::new("rdma.max_cqe", integer(1, 65535, NUMBER), "entries per completion queue")
        .mooncake("MC_MAX_CQE_PER_CTX"),
    Variable::new("rdma.max_endpoints", integer(1, 65536, NUMBER), "endpoints per NIC")
        .mooncake("MC_MAX_EP_PER_CTX"),
    Variable::new(
        "rdma.queue_pairs_per_endpoint",
        integer(1, 255, NUMBER),
        "queue pairs per endpoint; the peer must use as many",
    )
    .mooncake("MC_NUM_QP_PER_EP"),
    Variable::new("rdma.max_sge", integer(1, 65535, NUMBER), "scatter-gather entries per request")
        .mooncake("MC_MAX_SGE"),
    Variable::new("rdma.max_wr", integer(1, 65535, NUMBER), "work requests per queue pair")
        .mooncake("MC_MAX_WR"),
    Variable::new(
        "rdma.max_inline_bytes",
        integer(0, 65535, BYTES),
        "inline bytes that a queue pair is created for",
    )
    .mooncake("MC_MAX_INLINE"),
    Variable::new(
        "rdma.mtu_bytes",
        Kind::Choice { numbers: &[512, 1024, 2048, 4096], unit: BYTES },
        "upper bound of the path MTU",
    )
    .mooncake("MC_MTU"),
    Variable::new("rdma.workers", integer(1, 8, NUMBER), "without effect: each NIC has one worker")
        .mooncake("MC_WORKERS_PER_CTX"),
    Variable::new("rdma.slice_size_bytes", integer(1, 1 << 31, BYTES), "bytes per slice")
        .mooncake("MC_SLICE_SIZE"),
    Variable::new(
        "rdma.fragment_ratio",
        integer(1, (1 << 31) - 1, NUMBER),
        "a tail shorter than slice size / this joins the slice before; less than the slice size",
    )
    .mooncake("MC_FRAGMENT_RATIO"),
    Variable::new("rdma.auto_gid_max_retries", integer(0, 16, NUMBER), "attempts with another GID")
        .mooncake("MC_AUTO_GID_MAX_RETRIES"),
    Variable::new(
        "rdma.rail_pause_seconds",
        integer(1, 3599, SECONDS),
        "how long a rail rests after it failed; the last one left is tried all the same",
    )
    .mooncake("MC_RDMA_RAIL_PAUSE_SECONDS"),
    Variable::new(
        "rdma.connect_pause_ms",
        integer_or_zero(0, 600_000, MILLIS, "off"),
        "how long connecting to a peer that refused is not tried again",
    )
    .mooncake("MC_CONN_PAUSE_TTL_MS"),
    Variable::new(
        "rdma.endpoint_store",
        Kind::Word { words: &["FIFO", "SIEVE"], any_case: false },
        "which endpoint leaves when there are too many",
    )
    .mooncake("MC_ENDPOINT_STORE_TYPE"),
    Variable::new("rdma.traffic_class", integer(0, 255, NUMBER), "traffic class")
        .mooncake("MC_IB_TC")
        .unset("the NIC's"),
    Variable::new("rdma.service_level", integer(0, 15, NUMBER), "service level")
        .mooncake("MC_IB_SL")
        .unset("the NIC's"),
    Variable::new(
        "rdma.relaxed_ordering",
        integer(0, 2, NUMBER),
        "relaxed ordering on PCI: 0 never, 1 and 2 where the system's library can",
    )
    .mooncake("MC_IB_PCI_RELAXED_ORDERING"),
    Variable::new(
        "rdma.udp_source_ports",
        Kind::Ports,
        "without effect: the NIC chooses UDP source ports",
    )
    .mooncake("MC_MLX5_QP_UDP_SPORTS"),
    Variable::new(
        "rdma.lag_port_balance",
        switch(),
        "without effect: the NIC spreads queue pairs over bonded ports",
    )
    .mooncake("MC_MLX5_QP_LAG_PORT_BALANCE"),
    Variable::new(
        "rdma.max_region_bytes",
        integer(1, i64::MAX, BYTES),
        "longest memory region; longer memory is registered in pieces",
    )
    .mooncake("MC_MAX_MR_SIZE"),
    Variable::new(
        "rdma.parallel_registration",
        Kind::Choice { numbers: &[-1, 0, 1], unit: NUMBER },
        "register with several NICs at once: -1 where it pays, 0 never, 1 always",
    )
    .mooncake("MC_ENABLE_PARALLEL_REG_MR"),
    Variable::new(
        "rdma.max_concurrent_registrations",
        integer_or_zero(0, u32::MAX as i64, NUMBER, "no limit"),
        "without effect: one registration runs on each NIC",
    )
    .mooncake("MC_MAX_CONCURRENT_REG_MR"),
    Variable::new(
        "rdma.destination_affinity",
        presence(true),
        "prefer the peer's NIC of the same name; with peer_affinity neither counts",
    )
    .mooncake("MC_ENABLE_DEST_DEVICE_AFFINITY"),
    Variable::new(
        "rdma.peer_affinity",
        switch(),
        "use the rules of `nic_peer_affinity`, for memory of accelerators",
    )
    .mooncake("MC_ENABLE_HCA_PEER_AFFINITY"),
    Variable::new(
        "rdma.nic_peer_affinity",
        Kind::Text,
        "rules that pair our NICs with a peer's: ours=theirs1,theirs2;…",
    )
    .mooncake("MC_NIC_PEER_AFFINITY"),
    Variable::new("rdma.log_slice_affinity", switch(), "without effect: slices are not logged")
        .mooncake("MC_LOG_RDMA_SLICE_AFFINITY"),
    Variable::new(
        "rdma.track_posted_slices",
        switch(),
        "without effect: slices are always counted",
    )
    .mooncake("MC_TRACK_RDMA_POSTED_SLICES"),
    Variable::new(
        "rdma.bind_address",
        Kind::Address,
        "without effect: NICs are named by the segment",
    )
    .mooncake("MC_RDMA_BIND_ADDRESS")
    .unset("any"),
    Variable::new(
        "rdma.efa_nic_selection",
        Kind::Word { words: &["all", "local"], any_case: true },
        "without effect: there is no EFA transport",
    )
    .mooncake("MC_EFA_NIC_SELECTION"),
    Variable::new(
        "rdma.retries",
        integer(0, 7, NUMBER),
        "how often the NIC repeats what is not acknowledged; some take 7 as endless",
    ),
    Variable::new(
        "rdma.ack_timeout",
        integer(1, 31, NUMBER),
        "the NIC waits for an acknowledgement 4.096 µs × 2 to this power",
    ),
    Variable::new(
        "rdma.progress_timeout_ms",
        integer(10, DAY_MILLIS, MILLIS),
        "a request whose connection moves nothing for this long fails",
    ),
    Variable::new(
        "rdma.flush_timeout_ms",
        integer(1, DAY_MILLIS, MILLIS),
        "how long a broken connection may take to give back what was posted",
    ),
    Variable::new(
        "rdma.fence_timeout_ms",
        integer(1, DAY_MILLIS, MILLIS),
        "how long a peer may take to confirm that it has let go of requests",
    ),
    Variable::new(
        "rdma.ready_ack_timeout_ms",
        integer(1, DAY_MILLIS, MILLIS),
        "how long a connection that a peer began may wait for its last message",
    ),
    Variable::new(
        "rdma.max_half_open",
        integer(1, 65536, NUMBER),
        "connections that one peer may have begun and not completed",
    ),
    Variable::new(
        "rdma.max_peer_queue_pairs",
        integer(64, 1_048_576, NUMBER),
        "queue pairs that one peer may have on a NIC of ours; its oldest connection there ends where \
         it wants more",
    ),
    Variable::new(
        "rdma.connect_attempts",
        integer(1, 100, NUMBER),
        "tries to connect two NICs before the work that waits is given back",
    ),
    Variable::new(
        "rdma.connect_backoff_ms",
        integer(1, 60_000, MILLIS),
        "pause before the second try; each is twice as long as the one before",
    ),
    Variable::new(
        "rdma.connect_backoff_max_ms",
        integer(1, 60_000, MILLIS),
        "the longest pause between two tries",
    ),
    Variable::new(
        "rdma.recover_after_ms",
        integer(1, 600_000, MILLIS),
        "from \"port active\" until the NIC is used again",
    ),
    Variable::new(
        "rdma.spin_us",
        integer(0, 10_000, MICROS),
        "how long the worker of a NIC looks for ends before it sleeps; 0 spares the processor",
    ),
    Variable::new(
        "rdma.max_queued",
        integer(1, 1 << 20, NUMBER),
        "slices that wait for the NICs, together; more wait with their batch",
    ),
];
