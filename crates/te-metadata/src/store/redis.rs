//! A store in redis (te-classic row B6): values under the plain keys, `AUTH`, `SELECT`.
//!
//! A record is given an end with `PEXPIRE`; what must be one step is a script. Redis keeps no
//! versions, so the digest of the value is one. It tells changes only where its configuration says
//! so, which is why nothing is watched here.
//!
//! One connection, used by one call at a time. A call on a connection that was lost is made once
//! more on a new one: every call may be made twice.

mod connection;
mod script;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ::redis::{Cmd, Value, cmd, from_redis_value};
use te_sync::Mutex;

use self::connection::Link;
use super::{
    Capabilities, Claim, KeyInfo, Lease, MAX_LISTED, MAX_VALUE_BYTES, MetadataStore,
    OpenStoreError, Record, Release, Renewal, Revision, StoreError, StoreOptions, Watch,
};
use crate::{HostPort, Incarnation};

/// Keys that one step of a list looks at.
const SCAN_COUNT: usize = 1000;

/// A store in redis.
#[derive(Debug)]
pub(super) struct RedisStore {
    link: Link,
    /// What each owner claimed through this store, for renewals.
    claimed: Mutex<BTreeMap<u128, BTreeSet<String>>>,
}

impl RedisStore {
    pub(super) fn open(address: &HostPort, options: &StoreOptions) -> Result<Self, OpenStoreError> {
        Ok(Self { link: Link::new(address, options)?, claimed: Mutex::default() })
    }

    fn call(&self, key: &str, command: &Cmd) -> Result<Value, StoreError> {
        self.link.call(key, command)
    }

    fn typed<T: ::redis::FromRedisValue>(&self, key: &str, command: &Cmd) -> Result<T, StoreError> {
        let value = self.call(key, command)?;
        from_redis_value(value).map_err(|error| self.link.malformed(error.to_string()))
    }
}

fn script(text: &str, keys: &[&str]) -> Cmd {
    let mut command = cmd("EVAL");
    command.arg(text).arg(keys.len()).arg(keys);
    command
}

fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1)
}

impl MetadataStore for RedisStore {
    fn capabilities(&self) -> Result<Capabilities, StoreError> {
        self.call("", &cmd("PING"))?;
        Ok(Capabilities { ownership: true, expiry: true, list: true, watch: false })
    }

    fn get(&self, key: &str) -> Result<Option<Record>, StoreError> {
        let found: Option<(Vec<u8>, String)> = self.typed(key, &script(script::GET, &[key]))?;
        if found.as_ref().is_some_and(|(value, _)| value.len() > MAX_VALUE_BYTES) {
            return Err(self
                .link
                .malformed(format!("{key} has more than {MAX_VALUE_BYTES} bytes")));
        }
        Ok(found.map(|(value, digest)| Record { value, revision: Revision::new(digest) }))
    }

    fn revision(&self, key: &str) -> Result<Option<Revision>, StoreError> {
        let found: Option<String> = self.typed(key, &script(script::REVISION, &[key]))?;
        Ok(found.map(Revision::new))
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.call(key, cmd("SET").arg(key).arg(value)).map(drop)
    }

    fn remove(&self, key: &str) -> Result<(), StoreError> {
        self.call(key, cmd("DEL").arg(key)).map(drop)
    }

    fn claim(
        &self,
        key: &str,
        value: &[u8],
        lease: &Lease,
        over: Option<&Revision>,
    ) -> Result<Claim, StoreError> {
        let mut command = script(script::CLAIM, &[key]);
        command.arg(value).arg(lease.owner.to_string()).arg(millis(lease.ttl));
        command.arg(over.map_or("", Revision::as_str));
        let (digest, stands): (String, Option<Vec<u8>>) = self.typed(key, &command)?;
        let revision = Revision::new(digest);
        if let Some(value) = stands {
            return Ok(Claim::Taken(Record { value, revision }));
        }
        let mut claimed = self.claimed.lock();
        claimed.entry(lease.owner.as_u128()).or_default().insert(key.to_owned());
        Ok(Claim::Held(revision))
    }

    fn renew(&self, lease: &Lease) -> Result<Renewal, StoreError> {
        let keys: Vec<String> = {
            let claimed = self.claimed.lock();
            claimed.get(&lease.owner.as_u128()).into_iter().flatten().cloned().collect()
        };
        let mut command = cmd("EVAL");
        command.arg(script::RENEW).arg(keys.len()).arg(&keys);
        command.arg(lease.owner.to_string()).arg(millis(lease.ttl));
        let n_kept: u64 = self.typed("", &command)?;
        Ok(if n_kept == 0 { Renewal::Lost } else { Renewal::Kept })
    }

    fn release(&self, key: &str, owner: Incarnation) -> Result<Release, StoreError> {
        let mut command = script(script::RELEASE, &[key]);
        command.arg(owner.to_string());
        let answer: i64 = self.typed(key, &command)?;
        if let Some(keys) = self.claimed.lock().get_mut(&owner.as_u128()) {
            keys.remove(key);
        }
        Ok(match answer {
            1 => Release::Removed,
            0 => Release::Absent,
            _ => Release::Foreign,
        })
    }

    fn list(&self, prefix: &str) -> Result<Vec<KeyInfo>, StoreError> {
        let pattern = script::pattern_of(prefix);
        let mut found = BTreeSet::new();
        let mut cursor = 0_u64;
        loop {
            let mut command = cmd("SCAN");
            command.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(SCAN_COUNT);
            let (next, keys): (u64, Vec<String>) = self.typed(prefix, &command)?;
            found.extend(keys);
            if found.len() > MAX_LISTED {
                return Err(self.link.malformed("it has too many keys to list".to_owned()));
            }
            if next == 0 {
                break;
            }
            cursor = next;
        }
        let info = |key| KeyInfo { key, revision: None, bytes: None };
        Ok(found.into_iter().map(info).collect())
    }

    fn watch(&self, _prefix: &str) -> Result<Box<dyn Watch>, StoreError> {
        Err(StoreError::NotSupported { uri: self.uri(), operation: "watch keys" })
    }

    fn uri(&self) -> String {
        self.link.uri().to_owned()
    }
}

#[cfg(test)]
mod tests;
