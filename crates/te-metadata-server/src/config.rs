//! What the server is started with.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::limits::Limits;
use crate::token::Token;

/// What the server is started with.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Where it listens. With port 0 the system chooses one, which
    /// [`Server::address`](crate::Server::address) tells.
    pub listen: SocketAddr,
    /// The data file, made where it is not there. Without one, everything is forgotten at the end.
    pub data: Option<PathBuf>,
    /// Clients must show it, if there is one.
    pub token: Option<Token>,
    /// With these it speaks https only; needs the feature `tls`.
    pub tls: Option<TlsFiles>,
    /// What it takes from anybody.
    pub limits: Limits,
}

impl ServerConfig {
    /// Without data file, token and TLS, with the usual limits.
    pub fn new(listen: SocketAddr) -> Self {
        Self { listen, data: None, token: None, tls: None, limits: Limits::default() }
    }
}

/// A certificate and its key, both as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, then those that lead to its authority.
    pub certificates: PathBuf,
    /// Its private key: PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
}
