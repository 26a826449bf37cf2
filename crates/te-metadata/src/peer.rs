//! The peer link: one question and one answer on a connection of its own.
//!
//! ```text
//!   PeerClient                         PeerServer (one thread)
//!     connect ───────────────────────▶   accept
//!     frame   ───────────────────────▶   read, answer by PeerService
//!     frame   ◀───────────────────────   write, half-close, linger for the client's end
//! ```
//!
//! Every exchange has a total deadline on both sides, so a silent, dripping or dead peer costs a
//! bounded time and nobody else anything. Whoever closes calls off what it still asks.

mod answer;
mod client;
mod connection;
mod deadline;
mod error;
mod evict;
mod interrupt;
mod limits;
pub(crate) mod resolve;
mod serve;
mod server;
mod service;
mod stats;

pub use client::PeerClient;
pub use error::{PeerError, PeerPhase};
pub use limits::{LimitsError, PeerLimits};
pub use server::{BoundPeerServer, CloseError, PeerServer, StartError};
pub use service::{NotifyRefused, PeerService};
pub use stats::PeerServerStats;
