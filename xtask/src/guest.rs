//! `guest`: a program on another machine, with RDMA devices and NUMA nodes that this one lacks.
//!
//! The machine is emulated by qemu and runs Debian's own kernel with soft-RoCE. Every run is a fresh
//! boot: nothing of one run is seen by the next. What is needed is made on first use and kept in
//! `target/guest`. docs/testing.md says how it is used and what it cannot show.
//!
//! ```text
//!   verbs ──▶ request ──▶ image + machine ──▶ session ◀──frames──▶ init (in the guest)
//! ```

mod affinity;
mod budget;
mod cpio;
mod elf;
mod end;
mod files;
mod flags;
mod image;
mod init;
mod job;
mod kernel;
mod libraries;
mod look;
mod machine;
mod prepare;
mod probe;
mod request;
mod session;
mod smoke;
mod verbs;
mod wire;

pub(crate) use affinity::{Programs as AffinityPrograms, run as run_affinity};
pub(crate) use elf::{libraries_of, strings_of};
pub(crate) use flags::GuestFlags;
pub(crate) use init::{is_first_process, main as first_process};
pub(crate) use prepare::lacking;
pub(crate) use smoke::run as run_suite;
pub(crate) use verbs::run;
