//! Same-host transports: `local` copies inside this process, `shm` between processes of one host.
//!
//! ```text
//!   submit ──▶ lane of the peer ──▶ driver ─ guard ─ copy a piece ─ look again ──▶ completions
//!                                              │
//!                      local: BufferGuard of our own segment, copy in this process
//!                      shm:   hold in memory shared with the owner, then process_vm_* on its pid,
//!                             or a plain copy where the memory itself is shared
//!
//!   server thread: passes the guard table to those who prove that they are of this host and user,
//!                  and waits for their holds when a buffer is unregistered
//! ```
//!
//! Whether a peer can be reached is found out when it is used first: boot, namespace, start time
//! and incarnation must agree, and a challenge must be readable in that very process. Where that
//! fails the peer is not reached, and the reason can be asked for.
//!
//! One thread or a waiting caller copies, a second one helps with large pieces while a core is
//! free. Memory of others is touched by system calls only; unsafe code is in `vm.rs` and `fd.rs`.
//!
//! This crate cuts no requests, keeps no descriptors and tries nothing again.

mod config;
mod copier;
mod fd;
mod haul;
mod host;
mod job;
mod lane;
mod link;
mod local;
mod map;
mod offer;
mod offering;
mod probe;
mod road;
mod server;
mod shm;
#[cfg(test)]
mod sleeper;
mod table;
mod target;
mod vm;
mod wire;

pub use config::ShmConfig;
pub use fd::SealError;
pub use local::LocalTransport;
pub use offer::{OfferError, ShmOffer};
pub use probe::Obstacle;
pub use shm::{ShmStartError, ShmTransport};
