//! How a store is reached: bounds, credentials, certificates.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What a store is opened with. Variables such as `http_proxy` are not looked at: a metadata service
/// is on the inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOptions {
    /// Bound for one attempt to connect. Default 1.5 s, as Mooncake's HTTP client has it.
    pub connect_timeout: Duration,
    /// Bound for a whole round trip, connecting and every endpoint that is tried included.
    /// Default 3 s, as Mooncake's HTTP client has it.
    pub call_timeout: Duration,
    /// Who we say we are.
    pub credentials: Credentials,
    /// The database of a redis, 0 to 255. Default 0.
    pub redis_database: u8,
    /// The proxy through which HTTP services are reached, `http://host:port`. Default none. etcd and
    /// redis are reached without.
    pub http_proxy: Option<String>,
    /// Certificates in files. Default none: the system's authorities are trusted.
    pub tls: TlsFiles,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_millis(1500),
            call_timeout: Duration::from_secs(3),
            credentials: Credentials::default(),
            redis_database: 0,
            http_proxy: None,
            tls: TlsFiles::default(),
        }
    }
}

/// Who we say we are to a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// User of an etcd or redis. Redis takes a password alone.
    pub username: Option<String>,
    /// Its password.
    pub password: Option<Secret>,
    /// Token for HTTP services, sent as `Authorization: Bearer`.
    pub token: Option<Secret>,
}

/// Files with certificates in PEM form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Authorities that are trusted instead of the system's.
    pub authorities: Option<PathBuf>,
    /// Our own certificate, with those that lead to its authority; needs `key`.
    pub certificate: Option<PathBuf>,
    /// The key of `certificate`.
    pub key: Option<PathBuf>,
}

impl TlsFiles {
    /// Whether any file is named.
    pub fn is_any(&self) -> bool {
        *self != Self::default()
    }
}

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret, for the service.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}
