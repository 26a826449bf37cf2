//! A store behind HTTP: Mooncake's two metadata servers and our own (te-classic row B7).
//!
//! All three take `GET`, `PUT` and `DELETE` of `<uri>?key=<key>`. Our own server is known by a
//! header in its answers; it has revisions, owners, ends, a list and a watch. On Mooncake's servers
//! claims and releases are a look and then a request: what another puts between the two is lost.
//! Their rule that an `rpc_meta` key is not overwritten narrows that for the keys that matter most.

mod client;
mod json;
mod road;
mod service;
mod target;
mod watch;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper::Method;

use self::client::{Call, HttpClient};
use self::service::{Service, conditional};
use self::target::Target;
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

/// A store behind HTTP.
#[derive(Debug)]
pub(super) struct HttpStore {
    service: Arc<Service>,
}

impl HttpStore {
    pub(super) fn open(uri: &StoreUri, options: &StoreOptions) -> Result<Self, OpenStoreError> {
        let StoreUri::Http { address, path, .. } = uri else {
            return Err(OpenStoreError::NoStore);
        };
        let text = uri.to_string();
        let client = HttpClient::open(text.clone(), address.to_string(), options)?;
        let origin = format!("{}://{address}", uri.scheme());
        let target = Target::new(origin, path.clone());
        Ok(Self { service: Arc::new(Service::new(client, target, text)) })
    }
}

impl MetadataStore for HttpStore {
    fn capabilities(&self) -> Result<Capabilities, StoreError> {
        let ours = self.service.ask_whether_ours()?;
        Ok(Capabilities { ownership: ours, expiry: ours, list: ours, watch: ours })
    }

    fn get(&self, key: &str) -> Result<Option<Record>, StoreError> {
        Ok(self.service.get(key)?.0)
    }

    fn revision(&self, key: &str) -> Result<Option<Revision>, StoreError> {
        if !self.service.is_ours.load(Ordering::Relaxed) {
            return Ok(self.service.get(key)?.0.map(|record| record.revision));
        }
        // Of the keys that begin with this one, it is the first.
        let page = self.service.keys(key, "", 1)?;
        let found = page.keys.into_iter().find(|line| line.key == key);
        Ok(found.and_then(|line| KeyInfo::from(line).revision))
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        let put = || self.service.call(&self.service.key_call(Method::PUT, key).body(value));
        let answer = put()?;
        match answer.status {
            200 => Ok(()),
            // Mooncake's servers do not overwrite such a key.
            400 if !answer.is_ours && key.contains("rpc_meta") => {
                self.remove(key)?;
                let answer = put()?;
                (answer.status == 200)
                    .then_some(())
                    .ok_or_else(|| self.service.refused(key, &answer))
            }
            _ => Err(self.service.refused(key, &answer)),
        }
    }

    fn remove(&self, key: &str) -> Result<(), StoreError> {
        let answer = self.service.call(&self.service.key_call(Method::DELETE, key))?;
        match answer.status {
            200 | 404 => Ok(()),
            _ => Err(self.service.refused(key, &answer)),
        }
    }

    fn claim(
        &self,
        key: &str,
        value: &[u8],
        lease: &Lease,
        over: Option<&Revision>,
    ) -> Result<Claim, StoreError> {
        let service = &self.service;
        let mut claim = service.claim_again(key, value, lease)?;
        for _ in 0..ROUNDS {
            match claim {
                None => claim = service.claim_once(key, value, lease, over)?,
                Some(_) => break,
            }
        }
        if let Some(claim) = claim {
            if let Claim::Held(revision) = &claim {
                let place = (lease.owner.as_u128(), key.to_owned());
                service.held.lock().insert(place, revision.clone());
            }
            return Ok(claim);
        }
        let (uri, key) = (service.uri.clone(), key.to_owned());
        Err(StoreError::Refused { uri, key, reason: "it changes all the time".to_owned() })
    }

    fn renew(&self, lease: &Lease) -> Result<Renewal, StoreError> {
        let service = &self.service;
        let body =
            format!("{{\"owner\":\"{}\",\"ttl_ms\":{}}}", lease.owner, lease.ttl.as_millis());
        let call = Call::new(Method::POST, service.target.api("renew")).body(body.as_bytes());
        let answer = service.call(&call)?;
        match answer.status {
            200 => Ok(Renewal::Kept),
            404 if answer.is_ours => Ok(Renewal::Lost),
            404 | 405 => Err(service.not_supported("end records")),
            _ => Err(service.refused("", &answer)),
        }
    }

    fn release(&self, key: &str, owner: Incarnation) -> Result<Release, StoreError> {
        let service = &self.service;
        service.held.lock().remove(&(owner.as_u128(), key.to_owned()));
        for _ in 0..ROUNDS {
            let (record, ours) = service.get(key)?;
            let Some(record) = record else { return Ok(Release::Absent) };
            if !names_owner(&record.value, owner) {
                return Ok(Release::Foreign);
            }
            let call = service.key_call(Method::DELETE, key);
            let call = if ours { conditional(call, Some(&record.revision)) } else { call };
            let answer = service.call(&call)?;
            match answer.status {
                200 => return Ok(Release::Removed),
                404 => return Ok(Release::Absent),
                412 => {}
                _ => return Err(service.refused(key, &answer)),
            }
        }
        Ok(Release::Foreign)
    }

    fn list(&self, prefix: &str) -> Result<Vec<KeyInfo>, StoreError> {
        let mut found: Vec<KeyInfo> = Vec::new();
        loop {
            let after = found.last().map_or("", |info| info.key.as_str());
            let page = self.service.keys(prefix, after, PAGE)?;
            let is_last = !page.more || page.keys.is_empty();
            found.extend(page.keys.into_iter().map(KeyInfo::from));
            if is_last {
                return Ok(found);
            }
            if found.len() >= MAX_LISTED {
                return Err(self
                    .service
                    .client
                    .malformed("it has too many keys to list".to_owned()));
            }
        }
    }

    fn watch(&self, prefix: &str) -> Result<Box<dyn Watch>, StoreError> {
        let since = self.service.present(prefix)?;
        Ok(Box::new(watch::HttpWatch::new(Arc::clone(&self.service), prefix.to_owned(), since)))
    }

    fn uri(&self) -> String {
        self.service.uri.clone()
    }
}

#[cfg(test)]
mod tests;
