//! The peer link: one question and one answer on a connection of its own.
//!
//! ```text
//!   PeerClient                         PeerServer (one thread)
//!     connect ───────────────────────▶   accept
//!     frame   ───────────────────────▶   read, answer by PeerService
//!     frame   ◀───────────────────────   write, half-close, linger for the client's end
//! ```
//!
//! An endpoint handshake may be answered later, while others are served.
//!
//! Every exchange has a total deadline on both sides, so a silent, dripping or dead peer costs a
//! bounded time and nobody else anything. Whoever closes calls off what it still asks.

mod answer;
mod asker;
mod client;
mod connection;
mod deadline;
mod error;
mod evict;
mod interrupt;
mod limits;
mod question;
mod resolve;
mod serve;
mod server;
mod service;
mod stats;

pub use asker::Asker;
pub use client::PeerClient;
pub use error::{PeerError, PeerPhase};
pub use limits::{LimitsError, PeerLimits};
pub use question::EndpointQuestion;
pub use server::{BoundPeerServer, CloseError, PeerServer, StartError};
pub use service::{NotifyRefused, PeerService};
pub use stats::PeerServerStats;

/// The addresses of a host, or an error of kind `TimedOut` after `limit`.
#[cfg(feature = "redis")]
pub(crate) fn addresses_within(
    host: &crate::HostPort,
    limit: std::time::Duration,
) -> std::io::Result<Vec<std::net::SocketAddr>> {
    let nobody = interrupt::Interrupt::default();
    resolve::resolve_within(host, crate::AddressFamily::Any, limit, &nobody)
}
