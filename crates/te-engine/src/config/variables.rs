//! The table of settings: names of variables, what is allowed, one line of meaning.
//!
//! Reading variables, checking a TOML file, warnings, `te config` and `docs/configuration.md` are
//! all driven by it. Defaults are not repeated here: they are those of [`super::Settings`].
//!
//! I1  Every field of [`super::Settings`] has exactly one row, every row has a field.
//! I2  No variable name stands in two rows.

mod rdma;
mod transport;

use super::kind::{Integer, Kind};

/// One setting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variable {
    /// Section and key in the TOML form, with a dot between.
    pub(crate) field: &'static str,
    /// What it may be.
    pub(crate) kind: Kind,
    /// Mooncake's variable, where it has one.
    pub(crate) mooncake: Option<&'static str>,
    /// Other names that are read when `mooncake` is not set.
    pub(crate) aliases: &'static [Alias],
    /// Our variable, where it is not Mooncake's with another prefix.
    own: Option<&'static str>,
    /// What an absent value means.
    pub(crate) unset: &'static str,
    /// One line.
    pub(crate) meaning: &'static str,
}

/// Another name of a variable.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Alias {
    /// Misspelt or outdated: taken with a warning.
    Old(&'static str),
    /// Of another library: taken silently.
    Foreign(&'static str),
}

impl Alias {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Old(name) | Self::Foreign(name) => name,
        }
    }
}

impl Variable {
    const fn new(field: &'static str, kind: Kind, meaning: &'static str) -> Self {
        Self { field, kind, mooncake: None, aliases: &[], own: None, unset: "none", meaning }
    }

    const fn mooncake(mut self, name: &'static str) -> Self {
        self.mooncake = Some(name);
        self
    }

    const fn also(mut self, aliases: &'static [Alias]) -> Self {
        self.aliases = aliases;
        self
    }

    const fn own(mut self, name: &'static str) -> Self {
        self.own = Some(name);
        self
    }

    const fn unset(mut self, meaning: &'static str) -> Self {
        self.unset = meaning;
        self
    }

    /// Our variable: Mooncake's name with `TE_` for its prefix, or one of our own.
    pub(crate) fn own_name(&self) -> String {
        if let Some(name) = self.own {
            return name.to_owned();
        }
        match self.mooncake {
            Some(name) => {
                let rest = name.strip_prefix("MC_").unwrap_or(name);
                format!("TE_{}", rest.strip_prefix("TE_").unwrap_or(rest))
            }
            None => format!("TE_{}", self.field.replace('.', "_").to_uppercase()),
        }
    }

    /// Section and key.
    pub(crate) fn path(&self) -> (&'static str, &'static str) {
        self.field.split_once('.').unwrap_or(("", self.field))
    }
}

/// All rows, section by section.
pub(crate) fn variables() -> impl Iterator<Item = &'static Variable> {
    ENGINE.iter().chain(transport::ROWS).chain(rdma::ROWS)
}

/// The row of a field.
pub(crate) fn variable(field: &str) -> Option<&'static Variable> {
    variables().find(|row| row.field == field)
}

/// Variables of Mooncake that ask for something this build does not have: when one is set, the
/// caller is told instead of being served something else in silence.
pub(crate) const UNSUPPORTED: &[(&str, &str)] = &[
    ("MC_USE_TENT", "the tent engine is not part of this build"),
    ("MC_USE_TEV1", "the tent engine is not part of this build"),
    ("MC_FORCE_MNNVL", "transports between GPUs are not part of this build"),
    ("MC_FORCE_MUSA", "transports between GPUs are not part of this build"),
    ("MC_INTRANODE_NVLINK", "transports between GPUs are not part of this build"),
    ("MC_CXL_DEV_PATH", "the CXL transport is not part of this build"),
];

/// What a presence-only variable of Mooncake means when it is there.
const fn presence(means: bool) -> Kind {
    Kind::Switch { by_presence: Some(means) }
}

const fn switch() -> Kind {
    Kind::Switch { by_presence: None }
}

const fn integer(min: i64, max: i64, unit: &'static str) -> Kind {
    Kind::Integer(Integer { min, max, unit, zero: None, raise: false })
}

const fn integer_or_zero(min: i64, max: i64, unit: &'static str, zero: &'static str) -> Kind {
    Kind::Integer(Integer { min, max, unit, zero: Some(zero), raise: false })
}

const fn integer_raised(min: i64, max: i64, unit: &'static str) -> Kind {
    Kind::Integer(Integer { min, max, unit, zero: None, raise: true })
}

const SECONDS: &str = "s";
const MILLIS: &str = "ms";
const MICROS: &str = "µs";
const BYTES: &str = "bytes";
const NUMBER: &str = "";

/// Most seconds of a limit whose range the peers leave open.
const MANY_SECONDS: i64 = i32::MAX as i64;
/// A longer limit of a transport is as good as none, and there is to be one.
const DAY_SECONDS: i64 = 24 * 3600;
const DAY_MILLIS: i64 = DAY_SECONDS * 1000;
/// A week.
const MANY_MILLIS: i64 = 7 * DAY_MILLIS;

const ENGINE: &[Variable] = &[
    Variable::new(
        "metadata.cluster_id",
        Kind::Text,
        "extra part of every key in a metadata service",
    )
    .mooncake("MC_METADATA_CLUSTER_ID"),
    Variable::new(
        "metadata.cache",
        presence(false),
        "keep descriptors of peers; off: ask before every use",
    )
    .mooncake("MC_DISABLE_METACACHE")
    .own("TE_METACACHE"),
    Variable::new(
        "metadata.refresh_interval_seconds",
        integer_or_zero(0, MANY_SECONDS, SECONDS, "off"),
        "how often kept descriptors are asked for again in the background",
    )
    .mooncake("MC_TE_METADATA_REFRESH_INTERVAL_SECONDS"),
    Variable::new(
        "metadata.connect_timeout_ms",
        integer(1, DAY_MILLIS, MILLIS),
        "limit of one attempt to connect to a metadata service",
    ),
    Variable::new(
        "metadata.call_timeout_ms",
        integer(1, DAY_MILLIS, MILLIS),
        "limit of one question to a metadata service, connecting included",
    ),
    Variable::new(
        "metadata.ttl_seconds",
        integer(3, DAY_SECONDS, SECONDS),
        "how long our records outlive us in a service that lets them end; renewed at a third",
    ),
    Variable::new(
        "metadata.verify_interval_ms",
        integer(100, DAY_MILLIS, MILLIS),
        "how often it is looked whether our records still stand",
    ),
    Variable::new(
        "metadata.publish_window_ms",
        integer(1, 60_000, MILLIS),
        "changes that come within this time are published together",
    ),
    Variable::new("metadata.username", Kind::Text, "user of an etcd or a redis")
        .mooncake("MC_REDIS_USERNAME")
        .own("TE_METADATA_USERNAME"),
    Variable::new("metadata.password", Kind::Secret, "its password; never shown")
        .mooncake("MC_REDIS_PASSWORD")
        .own("TE_METADATA_PASSWORD"),
    Variable::new(
        "metadata.token",
        Kind::Secret,
        "token for HTTP services, sent as bearer; never shown",
    ),
    Variable::new("metadata.redis_database", integer(0, 255, NUMBER), "database of a redis")
        .mooncake("MC_REDIS_DB_INDEX")
        .own("TE_METADATA_REDIS_DATABASE"),
    Variable::new(
        "metadata.http_proxy",
        Kind::Text,
        "proxy towards HTTP services, http://host:port; http_proxy and its like do not count",
    ),
    Variable::new(
        "metadata.ca_file",
        Kind::Path,
        "certificates of the authorities that are trusted, PEM",
    )
    .unset("the system's"),
    Variable::new("metadata.certificate_file", Kind::Path, "our own certificate, PEM"),
    Variable::new("metadata.key_file", Kind::Path, "the key of our certificate, PEM"),
    Variable::new(
        "peer.handshake_port",
        integer(1, 65535, NUMBER),
        "port of a peer whose name tells none",
    )
    .mooncake("MC_HANDSHAKE_PORT"),
    Variable::new(
        "peer.port_min",
        integer(1024, 65535, NUMBER),
        "lowest port that the engine picks for itself; not 32768-60999, not above the highest",
    )
    .mooncake("MC_MIN_RPC_PORT")
    .also(&[Alias::Old("MC_MIN_PRC_PORT")]),
    Variable::new(
        "peer.port_max",
        integer(1024, 65535, NUMBER),
        "highest port that the engine picks for itself; not 32768-60999, not below the lowest",
    )
    .mooncake("MC_MAX_RPC_PORT")
    .also(&[Alias::Old("MC_MAX_PRC_PORT")]),
    Variable::new(
        "peer.legacy_port_binding",
        presence(true),
        "listen exactly where the local name says",
    )
    .mooncake("MC_LEGACY_RPC_PORT_BINDING"),
    Variable::new(
        "peer.listen_backlog",
        integer(1, i32::MAX as i64, NUMBER),
        "connections that may wait to be accepted",
    )
    .mooncake("MC_HANDSHAKE_LISTEN_BACKLOG"),
    Variable::new(
        "peer.connect_timeout_seconds",
        integer(1, 3599, SECONDS),
        "limit of connecting to a peer's handshake port",
    )
    .mooncake("MC_HANDSHAKE_CONNECT_TIMEOUT"),
    Variable::new(
        "peer.exchange_timeout_seconds",
        integer(1, 3599, SECONDS),
        "limit of a whole question to a peer, connecting included",
    ),
    Variable::new(
        "peer.serve_timeout_seconds",
        integer(1, 3599, SECONDS),
        "limit of serving one question of a peer",
    ),
    Variable::new(
        "peer.max_frame_bytes",
        integer(1 << 20, 128 << 20, BYTES),
        "longest message on the handshake port",
    )
    .mooncake("MC_HANDSHAKE_MAX_LENGTH"),
    Variable::new(
        "peer.ipv6",
        presence(true),
        "IPv6 for the handshake socket, interface and names",
    )
    .mooncake("MC_USE_IPV6"),
    Variable::new(
        "peer.advertise_address",
        Kind::Address,
        "address that is published in a metadata service; does not restrict listening",
    )
    .mooncake("MC_TCP_BIND_ADDRESS")
    .unset("the local name, if it is an address, else that of the default route"),
    Variable::new(
        "peer.max_connections",
        integer(1, 65535, NUMBER),
        "connections to the handshake port that are served at once",
    ),
    Variable::new(
        "peer.max_connections_per_host",
        integer(1, 65535, NUMBER),
        "the same for one remote host",
    ),
    Variable::new(
        "engine.transfer_timeout_seconds",
        integer_raised(5, MANY_SECONDS, SECONDS),
        "limit of one synchronous call, plus 1 ns per byte; less than the minimum becomes it",
    )
    .mooncake("MC_TRANSFER_TIMEOUT"),
    Variable::new(
        "engine.slice_timeout_seconds",
        integer_or_zero(1, 65535, SECONDS, "off"),
        "limit of one slice, then it is tried again or fails",
    )
    .mooncake("MC_SLICE_TIMEOUT"),
    Variable::new(
        "engine.retry_count",
        integer(1, 127, NUMBER),
        "how often a slice is tried again",
    )
    .mooncake("MC_RETRY_CNT"),
    Variable::new(
        "engine.request_timeout_ms",
        integer_or_zero(1, MANY_MILLIS, MILLIS, "no deadline"),
        "deadline of a task whose request names none",
    ),
    Variable::new(
        "engine.max_requests",
        integer(1, 1 << 24, NUMBER),
        "requests of all batches together that are not final",
    ),
    Variable::new(
        "engine.max_bytes",
        integer(1 << 20, 1 << 62, BYTES),
        "bytes of all requests together that are not final",
    ),
    Variable::new(
        "engine.shutdown_timeout_ms",
        integer(1, MANY_MILLIS, MILLIS),
        "limit of closing the engine",
    ),
    Variable::new(
        "engine.unregister_timeout_ms",
        integer(1, MANY_MILLIS, MILLIS),
        "how long unregistering waits for transfers that use the memory",
    ),
    Variable::new(
        "engine.quarantine_after_ms",
        integer(1, MANY_MILLIS, MILLIS),
        "how long an ended task waits for its slices before its memory is put in quarantine",
    ),
    Variable::new(
        "engine.notify_queue",
        integer(1, 1 << 24, NUMBER),
        "notifications that are kept until the caller takes them",
    ),
    Variable::new(
        "engine.transports",
        Kind::Names,
        "transports that may be used, in order of preference, such as shm,tcp; empty: all, the fastest first",
    )
    .own("TE_TRANSPORTS"),
    Variable::new("engine.force_tcp", presence(true), "TCP only, whatever NICs there are")
        .mooncake("MC_FORCE_TCP"),
    Variable::new(
        "engine.force_hca",
        presence(true),
        "RDMA even where no NIC was found, so that the engine refuses to start",
    )
    .mooncake("MC_FORCE_HCA"),
];
