//! A store in etcd (te-classic rows B4, B5).
//!
//! A record hangs on a lease of its owner, which [`MetadataStore::renew`] keeps alive; the version
//! of a record is its `mod_revision`; claims and releases are transactions.
//!
//! Each endpoint has a client of its own. A call goes to the endpoint that answered last, and to
//! the next one when that fails or is silent for its share of the call's time. Every call may
//! therefore be made twice.

mod failure;
mod fleet;
mod steps;
mod watch;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use te_sync::Mutex;

use self::failure::Failure;
use self::fleet::Fleet;
use self::steps::Claimed;
use super::driver::{Driver, NoAnswer};
use super::{
    Capabilities, Claim, KeyInfo, Lease, MetadataStore, OpenStoreError, Record, Release, Renewal,
    Revision, StoreError, StoreOptions, StorePhase, Watch,
};
use crate::{HostPort, Incarnation};

/// A store in etcd.
#[derive(Debug)]
pub(super) struct EtcdStore {
    core: Arc<Core>,
}

#[derive(Debug)]
struct Core {
    driver: Driver<Arc<Fleet>>,
    uri: String,
    /// All endpoints, for messages.
    addresses: String,
    call_timeout: Duration,
    /// The lease of each owner.
    leases: Mutex<HashMap<u128, i64>>,
}

impl EtcdStore {
    pub(super) fn open(
        endpoints: &[HostPort],
        is_encrypted: bool,
        options: &StoreOptions,
    ) -> Result<Self, OpenStoreError> {
        let texts: Vec<String> = endpoints.iter().map(HostPort::to_string).collect();
        let addresses = texts.join(",");
        let scheme = if is_encrypted { "etcds" } else { "etcd" };
        let connect = fleet::connect_options(is_encrypted, options)?;
        let protocol = if is_encrypted { "https" } else { "http" };
        let urls: Vec<String> = texts.iter().map(|text| format!("{protocol}://{text}")).collect();
        let call_timeout = options.call_timeout;
        let build = move || Arc::new(Fleet::new(urls.clone(), connect.clone(), call_timeout));
        let core = Core {
            driver: Driver::new(build),
            uri: format!("{scheme}://{addresses}"),
            addresses,
            call_timeout,
            leases: Mutex::default(),
        };
        Ok(Self { core: Arc::new(core) })
    }
}

impl Core {
    fn call<T, F>(&self, key: &str, work: impl FnOnce(Arc<Fleet>) -> F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        self.call_within(self.call_timeout, key, work)
    }

    fn call_within<T, F>(
        &self,
        limit: Duration,
        key: &str,
        work: impl FnOnce(Arc<Fleet>) -> F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        match self.driver.call(limit, work) {
            Ok(answer) => answer.map_err(|failure| failure.into_error(&self.uri, key)),
            Err(NoAnswer::TimedOut) => Err(self.unreachable(
                StorePhase::Exchange,
                format!("no answer within {} ms", limit.as_millis()).into(),
            )),
            Err(NoAnswer::NoThread(error)) => {
                Err(self.unreachable(StorePhase::Connect, Box::new(error)))
            }
        }
    }

    fn unreachable(
        &self,
        phase: StorePhase,
        source: Box<dyn std::error::Error + Send + Sync>,
    ) -> StoreError {
        let (uri, address) = (self.uri.clone(), self.addresses.clone());
        StoreError::Unreachable { uri, phase, address, source }
    }

    /// The owner's lease; granted where there is none.
    fn lease(&self, key: &str, lease: &Lease) -> Result<i64, StoreError> {
        let owner = lease.owner.as_u128();
        if let Some(id) = self.leases.lock().get(&owner) {
            return Ok(*id);
        }
        let seconds = lease.ttl.as_secs() + u64::from(lease.ttl.subsec_nanos() > 0);
        let seconds = i64::try_from(seconds.max(1)).unwrap_or(i64::MAX);
        let id = self.call(key, move |fleet| async move { fleet.grant(seconds).await })?;
        // Another thread may have granted one meanwhile; ours then ends unused.
        Ok(*self.leases.lock().entry(owner).or_insert(id))
    }

    /// Forgets a lease that has ended.
    fn forget(&self, owner: Incarnation, id: i64) {
        let mut leases = self.leases.lock();
        if leases.get(&owner.as_u128()) == Some(&id) {
            leases.remove(&owner.as_u128());
        }
    }
}

fn revision(number: i64) -> Revision {
    Revision::new(number.to_string())
}

impl MetadataStore for EtcdStore {
    fn capabilities(&self) -> Result<Capabilities, StoreError> {
        self.core.call("", |fleet| async move { fleet.present("te/").await })?;
        Ok(Capabilities { ownership: true, expiry: true, list: true, watch: true })
    }

    fn get(&self, key: &str) -> Result<Option<Record>, StoreError> {
        let wanted = key.to_owned();
        self.core.call(key, move |fleet| async move { fleet.get(&wanted).await })
    }

    fn revision(&self, key: &str) -> Result<Option<Revision>, StoreError> {
        let wanted = key.to_owned();
        self.core.call(key, move |fleet| async move { fleet.revision(&wanted).await })
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        let (wanted, value) = (key.to_owned(), value.to_owned());
        self.core.call(key, move |fleet| async move { fleet.put(&wanted, &value).await })
    }

    fn remove(&self, key: &str) -> Result<(), StoreError> {
        let wanted = key.to_owned();
        self.core.call(key, move |fleet| async move { fleet.remove(&wanted).await })
    }

    fn claim(
        &self,
        key: &str,
        value: &[u8],
        lease: &Lease,
        over: Option<&Revision>,
    ) -> Result<Claim, StoreError> {
        // A lease that we believe in may have ended; then once more with a new one.
        let mut id = self.core.lease(key, lease)?;
        for _ in 0..2 {
            let wish = steps::Wish {
                key: key.to_owned(),
                value: value.to_owned(),
                owner: lease.owner,
                lease: id,
                over: over.and_then(|revision| revision.as_str().parse().ok()),
            };
            let wish = Arc::new(wish);
            match self.core.call(key, move |fleet| async move { fleet.claim(&wish).await })? {
                Claimed::Held(number) => return Ok(Claim::Held(revision(number))),
                Claimed::Taken(record) => return Ok(Claim::Taken(record)),
                Claimed::LeaseEnded => {
                    self.core.forget(lease.owner, id);
                    id = self.core.lease(key, lease)?;
                }
                Claimed::Unsettled => {}
            }
        }
        let (uri, key) = (self.uri(), key.to_owned());
        Err(StoreError::Refused { uri, key, reason: "it changes all the time".to_owned() })
    }

    fn renew(&self, lease: &Lease) -> Result<Renewal, StoreError> {
        let Some(id) = self.core.leases.lock().get(&lease.owner.as_u128()).copied() else {
            return Ok(Renewal::Lost);
        };
        let is_kept = self.core.call("", move |fleet| async move { fleet.keep_alive(id).await })?;
        if is_kept {
            return Ok(Renewal::Kept);
        }
        self.core.forget(lease.owner, id);
        Ok(Renewal::Lost)
    }

    fn release(&self, key: &str, owner: Incarnation) -> Result<Release, StoreError> {
        let wanted = key.to_owned();
        self.core.call(key, move |fleet| async move { fleet.release(&wanted, owner).await })
    }

    fn list(&self, prefix: &str) -> Result<Vec<KeyInfo>, StoreError> {
        let prefix_ = prefix.to_owned();
        self.core.call(prefix, move |fleet| async move { fleet.list(&prefix_).await })
    }

    fn watch(&self, prefix: &str) -> Result<Box<dyn Watch>, StoreError> {
        let wanted = prefix.to_owned();
        let present =
            self.core.call(prefix, move |fleet| async move { fleet.present(&wanted).await })?;
        let core = Arc::clone(&self.core);
        Ok(Box::new(watch::EtcdWatch::new(core, prefix.to_owned(), present + 1)))
    }

    fn uri(&self) -> String {
        self.core.uri.clone()
    }
}
