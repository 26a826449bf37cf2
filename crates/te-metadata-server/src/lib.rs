//! A metadata server for transfer engines.
#![doc = include_str!("../README.md")]
//!
//! # Inside
//!
//! ```text
//!   connection ─▶ http ─▶ keeper (one thread) ─▶ catalog ─▶ storage
//!   patient,      kv, api,   one commit for all     keys, owners,   a redb file,
//!   admission,    page,      that waits             times, events   or nothing
//!   tls, rate     health
//! ```
//!
//! `catalog`, `watchers`, `rate`, `admission`, `query` and `summary` know neither sockets nor
//! clocks. *The crate knows nothing of engines: a value is bytes to it, and a descriptor is only
//! looked into for the status page.*

mod admission;
mod catalog;
mod clock;
mod config;
mod connection;
mod counters;
mod error;
mod http;
mod keeper;
mod limits;
mod moment;
mod patient;
mod query;
mod rate;
mod server;
mod storage;
mod summary;
mod tls;
mod token;
mod watchers;

pub use config::{ServerConfig, TlsFiles};
pub use error::{StartError, TokenError};
pub use limits::Limits;
pub use server::Server;
pub use storage::StorageError;
pub use token::Token;
