//! What is asked of a server behind HTTP, whichever it is.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::Method;
use serde::de::DeserializeOwned;
use te_sync::Mutex;

use super::client::{Answer, Call, HttpClient};
use super::json::{KeysPage, WatchPage};
use super::target::{Target, encoded};
use crate::store::{Claim, Lease, Record, Revision, StoreError};

/// The key that is asked for when only the server itself matters.
const NO_KEY: &str = "te/which-server";

/// A server and what is known of it.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) client: HttpClient,
    pub(super) target: Target,
    pub(super) uri: String,
    /// Whether the server that answered last is one of our own.
    pub(super) is_ours: AtomicBool,
    /// The versions that owners put, so that a claim over one's own record needs no look.
    pub(super) held: Mutex<HashMap<(u128, String), Revision>>,
}

/// What a conditional request came to.
enum Outcome {
    Done(Revision),
    /// The condition did not hold.
    Changed,
    /// A living owner stands in the way, whatever the condition.
    Owned,
}

impl Service {
    pub(super) fn new(client: HttpClient, target: Target, uri: String) -> Self {
        let (is_ours, held) = (AtomicBool::new(false), Mutex::default());
        Self { client, target, uri, is_ours, held }
    }

    pub(super) fn call(&self, call: &Call) -> Result<Answer, StoreError> {
        let answer = self.client.call(call)?;
        self.is_ours.store(answer.is_ours, Ordering::Relaxed);
        Ok(answer)
    }

    pub(super) fn key_call(&self, method: Method, key: &str) -> Call {
        Call::new(method, self.target.key(key))
    }

    pub(super) fn refused(&self, key: &str, answer: &Answer) -> StoreError {
        let (uri, key) = (self.uri.clone(), key.to_owned());
        StoreError::Refused { uri, key, reason: answer.says() }
    }

    pub(super) fn not_supported(&self, operation: &'static str) -> StoreError {
        StoreError::NotSupported { uri: self.uri.clone(), operation }
    }

    /// Whether the server is one of our own; one that is not is asked again, for it may have been
    /// replaced.
    pub(super) fn ask_whether_ours(&self) -> Result<bool, StoreError> {
        Ok(self.is_ours.load(Ordering::Relaxed)
            || self.call(&self.key_call(Method::GET, NO_KEY))?.is_ours)
    }

    pub(super) fn get(&self, key: &str) -> Result<(Option<Record>, bool), StoreError> {
        let answer = self.call(&self.key_call(Method::GET, key))?;
        match answer.status {
            200 => {
                let revision = answer.revision.unwrap_or_else(|| version_of(&answer.body));
                Ok((Some(Record { value: answer.body, revision }), answer.is_ours))
            }
            404 => Ok((None, answer.is_ours)),
            _ => Err(self.refused(key, &answer)),
        }
    }

    pub(super) fn json<T: DeserializeOwned>(&self, answer: &Answer) -> Result<T, StoreError> {
        let parsed = serde_json::from_slice(&answer.body);
        parsed.map_err(|error| self.client.malformed(error.to_string()))
    }

    pub(super) fn keys(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<KeysPage, StoreError> {
        let (prefix, after) = (encoded(prefix), encoded(after));
        let path = format!("keys?prefix={prefix}&after={after}&limit={limit}");
        let answer = self.call(&Call::new(Method::GET, self.target.api(&path)))?;
        match answer.status {
            200 => self.json(&answer),
            404 if !answer.is_ours => Err(self.not_supported("list keys")),
            _ => Err(self.refused("", &answer)),
        }
    }

    pub(super) fn watch_page(
        &self,
        prefix: &str,
        since: Option<u64>,
        wait_ms: u128,
    ) -> Result<WatchPage, StoreError> {
        let since = since.map_or_else(String::new, |since| format!("&since={since}"));
        let path = format!("watch?prefix={}{since}&wait_ms={wait_ms}", encoded(prefix));
        let mut call = Call::new(Method::GET, self.target.api(&path));
        call.patience = Duration::from_millis(u64::try_from(wait_ms).unwrap_or(u64::MAX));
        let answer = self.call(&call)?;
        match answer.status {
            200 => self.json(&answer),
            404 if !answer.is_ours => Err(self.not_supported("watch keys")),
            _ => Err(self.refused("", &answer)),
        }
    }

    /// Where the list of keys stands now.
    pub(super) fn present(&self, prefix: &str) -> Result<u64, StoreError> {
        #[derive(serde::Deserialize)]
        struct Present {
            revision: u64,
        }
        let path = format!("keys?prefix={}&limit=1", encoded(prefix));
        let answer = self.call(&Call::new(Method::GET, self.target.api(&path)))?;
        match answer.status {
            200 => Ok(self.json::<Present>(&answer)?.revision),
            404 if !answer.is_ours => Err(self.not_supported("watch keys")),
            _ => Err(self.refused("", &answer)),
        }
    }

    /// Puts a record on our own server if the condition holds.
    fn put_if(
        &self,
        key: &str,
        value: &[u8],
        lease: &Lease,
        stands: Option<&Revision>,
    ) -> Result<Outcome, StoreError> {
        let call = self.key_call(Method::PUT, key).body(value);
        let call = call.header("te-owner", lease.owner).header("te-ttl-ms", lease.ttl.as_millis());
        let answer = self.call(&conditional(call, stands))?;
        match answer.status {
            200 => Ok(Outcome::Done(answer.revision.clone().ok_or_else(|| {
                self.client.malformed("a put was answered without a version".to_owned())
            })?)),
            412 => Ok(Outcome::Changed),
            409 => Ok(Outcome::Owned),
            _ => Err(self.refused(key, &answer)),
        }
    }

    /// Takes a record of a dead owner away that its server still believes in.
    fn replace(
        &self,
        key: &str,
        value: &[u8],
        lease: &Lease,
        stands: &Revision,
    ) -> Result<Outcome, StoreError> {
        let call = self.key_call(Method::DELETE, key);
        self.call(&conditional(call, Some(stands)))?;
        self.put_if(key, value, lease, None)
    }

    /// Puts over what stands there, as long as it still does. `None` when it does not.
    fn claim_ours(
        &self,
        key: &str,
        value: &[u8],
        lease: &Lease,
        stands: Option<&Revision>,
    ) -> Result<Option<Claim>, StoreError> {
        let outcome = match (self.put_if(key, value, lease, stands)?, stands) {
            (Outcome::Owned, Some(stands)) => self.replace(key, value, lease, stands)?,
            (outcome, _) => outcome,
        };
        Ok(match outcome {
            Outcome::Done(revision) => Some(Claim::Held(revision)),
            Outcome::Changed | Outcome::Owned => None,
        })
    }

    /// Puts on one of Mooncake's servers over what stood there when it was looked at.
    fn claim_plain(
        &self,
        key: &str,
        value: &[u8],
        stands: Option<&Record>,
    ) -> Result<Option<Claim>, StoreError> {
        let is_guarded = key.contains("rpc_meta");
        match stands {
            Some(record) if record.value == value => {
                return Ok(Some(Claim::Held(version_of(value))));
            }
            // One of these servers never overwrites such a key, the other not with another value.
            Some(_) if is_guarded => {
                self.call(&self.key_call(Method::DELETE, key))?;
            }
            _ => {}
        }
        let answer = self.call(&self.key_call(Method::PUT, key).body(value))?;
        match answer.status {
            200 => Ok(Some(Claim::Held(version_of(value)))),
            400 if is_guarded => Ok(None),
            _ => Err(self.refused(key, &answer)),
        }
    }

    /// One look at a key, and the put if it may be. `None`: it changed meanwhile.
    pub(super) fn claim_once(
        &self,
        key: &str,
        value: &[u8],
        lease: &Lease,
        over: Option<&Revision>,
    ) -> Result<Option<Claim>, StoreError> {
        let (record, is_ours) = self.get(key)?;
        match record {
            Some(record) if !record.belongs_to(lease.owner) && over != Some(&record.revision) => {
                Ok(Some(Claim::Taken(record)))
            }
            record if is_ours => {
                let stands = record.map(|record| record.revision);
                self.claim_ours(key, value, lease, stands.as_ref())
            }
            record => self.claim_plain(key, value, record.as_ref()),
        }
    }

    /// The put over our own record, without a look, on our own server.
    pub(super) fn claim_again(
        &self,
        key: &str,
        value: &[u8],
        lease: &Lease,
    ) -> Result<Option<Claim>, StoreError> {
        let held = self.held.lock().get(&(lease.owner.as_u128(), key.to_owned())).cloned();
        match held {
            Some(held) if self.is_ours.load(Ordering::Relaxed) => {
                self.claim_ours(key, value, lease, Some(&held))
            }
            _ => Ok(None),
        }
    }
}

pub(super) fn conditional(call: Call, stands: Option<&Revision>) -> Call {
    match stands {
        Some(revision) => call.header("if-match", format!("\"{revision}\"")),
        None => call.header("if-none-match", "*"),
    }
}

/// The version of a value on a server that tells none.
fn version_of(value: &[u8]) -> Revision {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    Revision::new(format!("{:016x}-{}", hasher.finish(), value.len()))
}
