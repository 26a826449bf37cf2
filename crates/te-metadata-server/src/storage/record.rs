//! A record as bytes: version 1, revision, time of the put, time to live, owner, value.
//!
//! ```text
//!  0        1          9          17        25         27
//!  ├ 1 (u8) ┼ revision ┼ put at   ┼ ttl ms  ┼ length   ┼ owner … ┼ value …
//!  │        │ u64      │ u64      │ u64     │ u16      │         │ to the end
//! ```
//!
//! Numbers are little-endian. A time to live of 0 is none, and so is an owner of length 0.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::catalog::Record;
use crate::moment::millis;

/// `record` as it is stored.
pub(crate) fn encode(record: &Record) -> Vec<u8> {
    let owner = record.owner.as_deref().unwrap_or_default();
    let n_owner = u16::try_from(owner.len()).expect("owners are at most 4096 bytes long");
    let mut out = Vec::with_capacity(HEAD + owner.len() + record.value.len());
    out.push(VERSION);
    out.extend(record.revision.to_le_bytes());
    out.extend(record.put_at.to_le_bytes());
    out.extend(record.ttl.map_or(0, millis).to_le_bytes());
    out.extend(n_owner.to_le_bytes());
    out.extend(owner.as_bytes());
    out.extend(&record.value);
    out
}

/// Reads what [`encode`] wrote; nothing if it is anything else.
pub(crate) fn decode(bytes: &[u8]) -> Option<Record> {
    let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
    let number = |at: usize| head[at..at + 8].try_into().map(u64::from_le_bytes).ok();
    if head[0] != VERSION {
        return None;
    }
    let n_owner = usize::from(u16::from_le_bytes([head[25], head[26]]));
    let (owner, value) = rest.split_at_checked(n_owner)?;
    let owner = std::str::from_utf8(owner).ok()?;
    let ttl = number(17)?;
    Some(Record {
        value: Bytes::copy_from_slice(value),
        revision: number(1)?,
        owner: (!owner.is_empty()).then(|| Arc::from(owner)),
        ttl: (ttl > 0).then(|| Duration::from_millis(ttl)),
        put_at: number(9)?,
    })
}

const VERSION: u8 = 1;

/// Bytes before the owner.
const HEAD: usize = 27;
