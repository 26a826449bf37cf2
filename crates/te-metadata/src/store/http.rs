//! A store behind HTTP: Mooncake's two metadata servers and our own (te-classic row B7).
//!
//! All three take `GET`, `PUT` and `DELETE` of `<uri>?key=<key>`. Our own server is known by a
//! header in its answers; it has revisions, owners, ends, a list and a watch. On Mooncake's servers
//! claims and releases are a look and then a request: what another puts between the two is lost.
//! Their rule that an `rpc_meta` key is not overwritten narrows that for the keys that matter most.

mod client;
mod json;
mod target;
mod watch;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper::Method;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use self::client::{Answer, Call, HttpClient};
use self::json::{KeysPage, WatchPage};
use self::target::{Target, encoded};
use super::record::names_owner;
use super::{
    Capabilities, Claim, KeyInfo, Lease, MAX_LISTED, MetadataStore, OpenStoreError, Record,
    Release, Renewal, Revision, StoreError, StoreOptions, StoreUri, Watch,
};
use crate::Incarnation;

/// Keys on a page of a list.
const PAGE: usize = 1000;
/// How often a claim or release looks again because the record changed meanwhile.
const ROUNDS: usize = 4;
/// The key that is asked for when only the server itself matters.
const NO_KEY: &str = "te/which-server";

/// A store behind HTTP.
#[derive(Debug)]
pub(super) struct HttpStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    client: HttpClient,
    target: Target,
    uri: String,
    /// Whether the server that answered last is one of our own.
    is_ours: AtomicBool,
    /// The versions that owners put, so that a claim over one's own record needs no look.
    held: Mutex<HashMap<(u128, String), Revision>>,
}

/// What a conditional request came to.
enum Outcome {
    Done(Revision),
    /// The condition did not hold.
    Changed,
    /// A living owner stands in the way, whatever the condition.
    Owned,
}

impl HttpStore {
    pub(super) fn open(uri: &StoreUri, options: &StoreOptions) -> Result<Self, OpenStoreError> {
        let StoreUri::Http { address, path, .. } = uri else {
            return Err(OpenStoreError::NoStore);
        };
        let text = uri.to_string();
        let client = HttpClient::open(text.clone(), address.to_string(), options)?;
        let origin = format!("{}://{address}", uri.scheme());
        let inner = Inner {
            client,
            target: Target::new(origin, path.clone()),
            uri: text,
            is_ours: AtomicBool::new(false),
            held: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }
}

impl Inner {
    fn call(&self, call: &Call) -> Result<Answer, StoreError> {
        let answer = self.client.call(call)?;
        self.is_ours.store(answer.is_ours, Ordering::Relaxed);
        Ok(answer)
    }

    fn key_call(&self, method: Method, key: &str) -> Call {
        Call::new(method, self.target.key(key))
    }

    fn refused(&self, key: &str, answer: &Answer) -> StoreError {
        let (uri, key) = (self.uri.clone(), key.to_owned());
        StoreError::Refused { uri, key, reason: answer.says() }
    }

    fn not_supported(&self, operation: &'static str) -> StoreError {
        StoreError::NotSupported { uri: self.uri.clone(), operation }
    }

    /// Whether the server is one of our own; one that is not is asked again, for it may have been
    /// replaced.
    fn ask_whether_ours(&self) -> Result<bool, StoreError> {
        Ok(self.is_ours.load(Ordering::Relaxed)
            || self.call(&self.key_call(Method::GET, NO_KEY))?.is_ours)
    }

    fn get(&self, key: &str) -> Result<(Option<Record>, bool), StoreError> {
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

    fn json<T: DeserializeOwned>(&self, answer: &Answer) -> Result<T, StoreError> {
        let parsed = serde_json::from_slice(&answer.body);
        parsed.map_err(|error| self.client.malformed(error.to_string()))
    }

    fn keys(&self, prefix: &str, after: &str, limit: usize) -> Result<KeysPage, StoreError> {
        let (prefix, after) = (encoded(prefix), encoded(after));
        let path = format!("keys?prefix={prefix}&after={after}&limit={limit}");
        let answer = self.call(&Call::new(Method::GET, self.target.api(&path)))?;
        match answer.status {
            200 => self.json(&answer),
            404 if !answer.is_ours => Err(self.not_supported("list keys")),
            _ => Err(self.refused("", &answer)),
        }
    }

    fn watch_page(
        &self,
        prefix: &str,
        since: Option<u64>,
        wait_ms: u128,
    ) -> Result<WatchPage, StoreError> {
        let since = since.map_or_else(String::new, |since| format!("&since={since}"));
        let path = format!("watch?prefix={}{since}&wait_ms={wait_ms}", encoded(prefix));
        let mut call = Call::new(Method::GET, self.target.api(&path));
        call.patience =
            std::time::Duration::from_millis(u64::try_from(wait_ms).unwrap_or(u64::MAX));
        let answer = self.call(&call)?;
        match answer.status {
            200 => self.json(&answer),
            404 if !answer.is_ours => Err(self.not_supported("watch keys")),
            _ => Err(self.refused("", &answer)),
        }
    }

    /// Where the list of keys stands now.
    fn present(&self, prefix: &str) -> Result<u64, StoreError> {
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
    fn claim_once(
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
    fn claim_again(
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

fn conditional(call: Call, stands: Option<&Revision>) -> Call {
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

impl MetadataStore for HttpStore {
    fn capabilities(&self) -> Result<Capabilities, StoreError> {
        let ours = self.inner.ask_whether_ours()?;
        Ok(Capabilities { ownership: ours, expiry: ours, list: ours, watch: ours })
    }

    fn get(&self, key: &str) -> Result<Option<Record>, StoreError> {
        Ok(self.inner.get(key)?.0)
    }

    fn revision(&self, key: &str) -> Result<Option<Revision>, StoreError> {
        if !self.inner.is_ours.load(Ordering::Relaxed) {
            return Ok(self.inner.get(key)?.0.map(|record| record.revision));
        }
        // Of the keys that begin with this one, it is the first.
        let page = self.inner.keys(key, "", 1)?;
        let found = page.keys.into_iter().find(|line| line.key == key);
        Ok(found.and_then(|line| KeyInfo::from(line).revision))
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        let put = || self.inner.call(&self.inner.key_call(Method::PUT, key).body(value));
        let answer = put()?;
        match answer.status {
            200 => Ok(()),
            // Mooncake's servers do not overwrite such a key.
            400 if !answer.is_ours && key.contains("rpc_meta") => {
                self.remove(key)?;
                let answer = put()?;
                (answer.status == 200).then_some(()).ok_or_else(|| self.inner.refused(key, &answer))
            }
            _ => Err(self.inner.refused(key, &answer)),
        }
    }

    fn remove(&self, key: &str) -> Result<(), StoreError> {
        let answer = self.inner.call(&self.inner.key_call(Method::DELETE, key))?;
        match answer.status {
            200 | 404 => Ok(()),
            _ => Err(self.inner.refused(key, &answer)),
        }
    }

    fn claim(
        &self,
        key: &str,
        value: &[u8],
        lease: &Lease,
        over: Option<&Revision>,
    ) -> Result<Claim, StoreError> {
        let inner = &self.inner;
        let mut claim = inner.claim_again(key, value, lease)?;
        for _ in 0..ROUNDS {
            match claim {
                None => claim = inner.claim_once(key, value, lease, over)?,
                Some(_) => break,
            }
        }
        if let Some(claim) = claim {
            if let Claim::Held(revision) = &claim {
                let place = (lease.owner.as_u128(), key.to_owned());
                inner.held.lock().insert(place, revision.clone());
            }
            return Ok(claim);
        }
        let (uri, key) = (inner.uri.clone(), key.to_owned());
        Err(StoreError::Refused { uri, key, reason: "it changes all the time".to_owned() })
    }

    fn renew(&self, lease: &Lease) -> Result<Renewal, StoreError> {
        let inner = &self.inner;
        let body =
            format!("{{\"owner\":\"{}\",\"ttl_ms\":{}}}", lease.owner, lease.ttl.as_millis());
        let call = Call::new(Method::POST, inner.target.api("renew")).body(body.as_bytes());
        let answer = inner.call(&call)?;
        match answer.status {
            200 => Ok(Renewal::Kept),
            404 if answer.is_ours => Ok(Renewal::Lost),
            404 | 405 => Err(inner.not_supported("end records")),
            _ => Err(inner.refused("", &answer)),
        }
    }

    fn release(&self, key: &str, owner: Incarnation) -> Result<Release, StoreError> {
        let inner = &self.inner;
        inner.held.lock().remove(&(owner.as_u128(), key.to_owned()));
        for _ in 0..ROUNDS {
            let (record, ours) = inner.get(key)?;
            let Some(record) = record else { return Ok(Release::Absent) };
            if !names_owner(&record.value, owner) {
                return Ok(Release::Foreign);
            }
            let call = inner.key_call(Method::DELETE, key);
            let call = if ours { conditional(call, Some(&record.revision)) } else { call };
            let answer = inner.call(&call)?;
            match answer.status {
                200 => return Ok(Release::Removed),
                404 => return Ok(Release::Absent),
                412 => {}
                _ => return Err(inner.refused(key, &answer)),
            }
        }
        Ok(Release::Foreign)
    }

    fn list(&self, prefix: &str) -> Result<Vec<KeyInfo>, StoreError> {
        let mut found: Vec<KeyInfo> = Vec::new();
        loop {
            let after = found.last().map_or("", |info| info.key.as_str());
            let page = self.inner.keys(prefix, after, PAGE)?;
            let is_last = !page.more || page.keys.is_empty();
            found.extend(page.keys.into_iter().map(KeyInfo::from));
            if is_last {
                return Ok(found);
            }
            if found.len() >= MAX_LISTED {
                return Err(self.inner.client.malformed("it has too many keys to list".to_owned()));
            }
        }
    }

    fn watch(&self, prefix: &str) -> Result<Box<dyn Watch>, StoreError> {
        let since = self.inner.present(prefix)?;
        Ok(Box::new(watch::HttpWatch::new(Arc::clone(&self.inner), prefix.to_owned(), since)))
    }

    fn uri(&self) -> String {
        self.inner.uri.clone()
    }
}

#[cfg(test)]
mod tests;
