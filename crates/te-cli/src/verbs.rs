//! The verbs, one file each; those that exchange one small message share a file.

pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod meta;
pub(crate) mod metadata_server;
pub(crate) mod peer;
pub(crate) mod read;
pub(crate) mod segment;
pub(crate) mod serve;
mod summary;
pub(crate) mod topo;
pub(crate) mod write;
