//! One key's value and terms.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::summary::Summary;

/// What is kept of a key, in memory and in storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) value: Bytes,
    /// That of the last change of value or owner.
    pub(crate) revision: u64,
    pub(crate) owner: Option<Arc<str>>,
    /// How long it lives without being renewed.
    pub(crate) ttl: Option<Duration>,
    /// When it was last put, in milliseconds since 1970; only shown.
    pub(crate) put_at: u64,
}

/// A record that is in force.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) record: Record,
    pub(crate) expires: Option<Instant>,
    /// What the status page says about the value. It is found out when somebody looks, and kept:
    /// reading a descriptor of a hundred thousand buffers takes milliseconds.
    pub(crate) summary: Arc<OnceLock<Summary>>,
}

impl Entry {
    pub(crate) fn new(record: Record, now: Instant) -> Self {
        let expires = record.ttl.and_then(|ttl| now.checked_add(ttl));
        Self { record, expires, summary: Arc::default() }
    }

    pub(crate) fn owner(&self) -> Option<&Arc<str>> {
        self.record.owner.as_ref()
    }
}

/// What counts against the limit of bytes: keys and values.
pub(crate) fn cost(key: &str, value: &[u8]) -> u64 {
    (key.len() + value.len()) as u64
}
