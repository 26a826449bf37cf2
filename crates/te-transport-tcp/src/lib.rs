//! TCP transport: Mooncake's data protocol, versions 1 and 2, pooled and striped, and version 3
//! between our own engines.
//!
//! ```text
//!   submit ──▶ inbox ──▶ client driver ─ pool ─ lanes ═══ TCP ═══ connections ─ server driver
//!                              │                                        │
//!                         completions                           guards on the segment
//! ```
//!
//! Two threads: one drives our requests, one serves those of peers. A caller that waits may run the
//! first one's step. Protocol logic is in machines without sockets (`connection`, `exchange`,
//! `pool`); `pump` joins machine and socket; `io` is the only file with unsafe code.
//!
//! This crate cuts no requests, keeps no descriptors and decides no retry, except for one: a
//! request on a kept connection that turns out dead goes again once, on a fresh one, where the peer
//! cannot have taken any of it.

mod client;
mod config;
mod connection;
mod exchange;
mod frame;
mod inbox;
mod io;
mod keep;
mod paths;
mod pool;
mod progress;
mod pump;
mod resolver;
mod server;
mod stats;
mod timers;
mod transport;
mod v3;

pub use config::{TcpConfig, TcpConfigError};
pub use stats::{RailStats, TcpStats};
pub use transport::{TcpStartError, TcpTransport};

/// The examples of the README are compiled with those of the code.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
