//! What an engine is made of: strings as Mooncake's calls take them.

use te_engine::{ConfigError, EngineBuilder, EngineConfig, Settings, TransferEngine};

use crate::failure::{Failure, chain};

/// How to make an [`crate::Engine`].
///
/// Everything else comes from the environment, as with Mooncake: `MC_…` and `TE_…` variables and the
/// file that `TE_CONFIG` names.
#[derive(Debug, Clone)]
#[must_use]
pub struct Options {
    metadata: String,
    name: String,
    filters: Vec<String>,
    protocol: Protocol,
    port: Option<u16>,
    config: Option<EngineConfig>,
}

/// What a protocol string asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Protocol {
    /// All transports that there are, the best one for each peer.
    #[default]
    Automatic,
    /// All but RDMA.
    Tcp,
}

impl Protocol {
    /// Reads a protocol string. `tcp` leaves RDMA out; `rdma`, the empty string and the names of
    /// Mooncake's other transports leave the choice to the engine, as Mooncake does for all of them
    /// (A152), with a warning where this engine has no such transport.
    ///
    /// # Errors
    /// [`crate::Code::InvalidArgument`] for `xgmi`, as with Mooncake.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        match text.to_ascii_lowercase().as_str() {
            "tcp" => Ok(Self::Tcp),
            "" | "rdma" | "auto" => Ok(Self::Automatic),
            "xgmi" => Err(Failure::invalid("build", "protocol \"xgmi\" is not supported")),
            other => {
                tracing::warn!(protocol = other, "no such transport: the engine chooses");
                Ok(Self::Automatic)
            }
        }
    }
}

impl Options {
    /// An engine of this local name, behind this metadata connection string: `P2PHANDSHAKE`,
    /// `scheme://rest`, or a bare `host:port`, which is etcd (B1).
    pub fn new(metadata: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            metadata: metadata.into(),
            name: name.into(),
            filters: Vec::new(),
            protocol: Protocol::Automatic,
            port: None,
            config: None,
        }
    }

    /// The metadata connection string of Python's calls, which give the scheme apart: it counts
    /// where the server names none.
    pub fn connection(server: &str, scheme: &str) -> String {
        let server = server.trim();
        let is_whole = server.eq_ignore_ascii_case("P2PHANDSHAKE") || server.contains("://");
        if is_whole || scheme.is_empty() || scheme.eq_ignore_ascii_case("P2PHANDSHAKE") {
            return server.to_owned();
        }
        format!("{scheme}://{server}")
    }

    /// Only the NICs of these names, commas between; an empty text is no filter. A name that this
    /// host does not have is an error of [`crate::Engine::new`].
    pub fn filters(mut self, names: &str) -> Self {
        let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        self.filters = names.map(str::to_owned).collect();
        self
    }

    /// What the protocol string asked for.
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// Takes exactly this handshake port, so that an engine that starts anew keeps its P2P name.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// This configuration instead of that of the environment.
    pub fn config(mut self, config: EngineConfig) -> Self {
        self.config = Some(config);
        self
    }

    /// Starts the log, so that what goes wrong while the engine is made is seen; see
    /// [`crate::start_logging`]. A configuration that cannot be read is told by making the engine.
    pub fn start_logging(&self) {
        if let Ok(config) = self.loaded() {
            crate::logging::start_logging(&config);
        }
    }

    fn loaded(&self) -> Result<EngineConfig, ConfigError> {
        self.config.clone().map_or_else(EngineConfig::from_process, Ok)
    }

    /// The builder of the engine.
    pub(crate) fn builder(&self) -> Result<EngineBuilder, Failure> {
        let adjusted = self.loaded().and_then(|config| config.adjust(|it| self.adjust(it)));
        let config = adjusted.map_err(|error| Failure::invalid("build", chain(&error)))?;
        let builder = TransferEngine::builder().config(config);
        let builder = builder.metadata(self.metadata.as_str()).name(self.name.as_str());
        Ok(match self.port {
            Some(port) => builder.port(port),
            None => builder,
        })
    }

    fn adjust(&self, settings: &mut Settings) {
        if !self.filters.is_empty() {
            settings.topology.filters.clone_from(&self.filters);
        }
        let engine = &mut settings.engine;
        let is_said = !engine.transports.is_empty() || engine.force_tcp || engine.force_hca;
        if self.protocol == Protocol::Tcp && !is_said {
            engine.transports = WITHOUT_RDMA.iter().map(|name| (*name).to_owned()).collect();
        }
    }
}

/// The transports that are compiled in but RDMA, in order of preference.
const WITHOUT_RDMA: &[&str] = &[
    #[cfg(feature = "shm")]
    "local",
    #[cfg(feature = "shm")]
    "shm",
    #[cfg(feature = "tcp")]
    "tcp",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a151_a152_the_scheme_counts_where_the_server_names_none() {
        // A151, A152: every form in which a metadata server is written.
        let checks = [
            ("127.0.0.1:2379", "etcd", "etcd://127.0.0.1:2379"),
            ("http://h:1/m", "etcd", "http://h:1/m"),
            ("h:1", "redis", "redis://h:1"),
            ("P2PHANDSHAKE", "etcd", "P2PHANDSHAKE"),
            ("P2PHANDSHAKE", "P2PHANDSHAKE", "P2PHANDSHAKE"),
            ("h:1", "", "h:1"),
        ];
        for (server, scheme, whole) in checks {
            assert_eq!(Options::connection(server, scheme), whole);
        }
    }

    #[test]
    fn a152_protocol_strings_are_read() {
        // A152: only `tcp` changes something, and `xgmi` is refused.
        assert_eq!(Protocol::parse("TCP").unwrap(), Protocol::Tcp);
        for text in ["", "rdma", "efa", "nonsense"] {
            assert_eq!(Protocol::parse(text).unwrap(), Protocol::Automatic);
        }
        assert_eq!(Protocol::parse("xgmi").unwrap_err().code().as_i32(), -1);
    }
}
