//! How the engine's records get into a metadata store, stay there and leave it.
//!
//! I1  A caller that registers the first buffer after a quiet time finds it published when the call
//!     returns; in a burst of calls it follows soon, together with the others.
//! I2  What another owner put is never removed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use te_metadata::{
    Caretaker, Directory, Lease, MetadataStore, OwnerState, Record, RpcMeta, Standing, StoreError,
    TenancyEvent, TenancyHost, TenancyTimes,
};
use te_sync::Mutex;

use crate::config::MetadataSettings;
use crate::error::BuildError;
use crate::inbox::Title;
use crate::publish::Publisher;

/// See the module.
#[derive(Debug)]
pub(crate) struct Registrar {
    office: Arc<Office>,
    keeping: Mutex<Keeping>,
    title: Arc<Title>,
    patience: Duration,
}

/// Who puts the records.
#[derive(Debug, Clone)]
enum Keeping {
    /// Nobody: peers ask us, or everything was taken back.
    Nothing,
    /// Whoever changes something, on the calling thread: engines without threads.
    Callers,
    /// A thread of its own, which renews them and looks after them.
    Thread(Arc<Caretaker>),
}

/// What is published, and what became of it last.
#[derive(Debug)]
struct Office {
    directory: Directory,
    publisher: Arc<Publisher>,
    probe_timeout: Duration,
    trouble: Mutex<Option<Trouble>>,
}

#[derive(Debug)]
enum Trouble {
    Failed(StoreError),
    Taken(String),
}

/// How long an owner of a name that we claim may take to show that it lives.
const PROBE: Duration = Duration::from_secs(2);
/// While changes go on they are published at least this often.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

impl Registrar {
    pub(crate) fn new(
        directory: Directory,
        publisher: Arc<Publisher>,
        settings: &MetadataSettings,
    ) -> Self {
        let trouble = Mutex::default();
        let office = Office { directory, publisher, probe_timeout: PROBE, trouble };
        let keeping = Mutex::new(Keeping::Nothing);
        let (office, title) = (Arc::new(office), Arc::default());
        Self { office, keeping, title, patience: settings.call_timeout }
    }

    /// What knows whether our name is ours for certain.
    pub(crate) fn title(&self) -> Arc<Title> {
        Arc::clone(&self.title)
    }

    /// Publishes the records for the first time, and keeps them.
    pub(crate) fn open(
        &self,
        settings: &MetadataSettings,
        threads: bool,
    ) -> Result<(), BuildError> {
        let Some(store) = self.office.directory.metadata_store() else { return Ok(()) };
        if !threads {
            *self.keeping.lock() = Keeping::Callers;
            return self.office.put(&**store).map_err(|error| BuildError::Publish(Box::new(error)));
        }
        let caretaker = self.start(Arc::clone(store), settings)?;
        let patience = 2 * settings.call_timeout + self.office.probe_timeout;
        let standing = caretaker.settle(patience);
        let outcome = self.office.outcome(standing, patience);
        match outcome {
            Ok(()) => {
                let caretaker = Arc::new(caretaker);
                let known = Arc::downgrade(&caretaker);
                // A service that does not answer is no reason: who has us open goes on.
                self.title.ask(move || {
                    let is_doubtful = |care: Arc<Caretaker>| {
                        care.may_have_ended() && care.standing() != Standing::Failing
                    };
                    known.upgrade().is_some_and(is_doubtful)
                });
                *self.keeping.lock() = Keeping::Thread(caretaker);
            }
            // What was put before the trouble began is taken back.
            Err(_) => drop(caretaker.leave(settings.call_timeout)),
        }
        outcome
    }

    fn start(
        &self,
        store: Arc<dyn MetadataStore>,
        settings: &MetadataSettings,
    ) -> Result<Caretaker, BuildError> {
        let lease = Lease { owner: self.office.publisher.incarnation(), ttl: settings.ttl };
        let times = TenancyTimes {
            ttl: settings.ttl,
            verify_every: settings.verify_interval,
            pause_min: settings.publish_window,
            pause_max: settings.publish_window.max(LONGEST_PAUSE),
            ..TenancyTimes::default()
        };
        let host = Box::new(Clerk(Arc::clone(&self.office)));
        Caretaker::start(store, lease, times, host)
            .map_err(|error| BuildError::Publish(Box::new(error)))
    }

    /// What is published has changed.
    pub(crate) fn publish(&self) {
        match (self.keeping(), self.office.directory.metadata_store()) {
            (Keeping::Callers, Some(store)) => {
                if let Err(error) = self.office.put(&**store) {
                    tracing::warn!(%error, "the records could not be published; they are kept here");
                }
            }
            (Keeping::Thread(caretaker), _) => drop(caretaker.publish(self.patience)),
            _ => {}
        }
    }

    /// Waits until the records stand as they are now; says whether they do.
    pub(crate) fn flush(&self, timeout: Duration) -> bool {
        match self.keeping() {
            Keeping::Thread(caretaker) => caretaker.settle(timeout) == Standing::Published,
            _ => true,
        }
    }

    /// How the records stand; `None` where there are none to publish.
    pub(crate) fn standing(&self) -> Option<Standing> {
        match self.keeping() {
            Keeping::Nothing => None,
            Keeping::Callers => Some(Standing::Published),
            Keeping::Thread(caretaker) => Some(caretaker.standing()),
        }
    }

    /// Nobody waits for the service under the lock.
    fn keeping(&self) -> Keeping {
        self.keeping.lock().clone()
    }

    /// Takes everything back, and publishes nothing any more.
    pub(crate) fn close(&self, timeout: Duration) {
        let keeping = std::mem::replace(&mut *self.keeping.lock(), Keeping::Nothing);
        match (keeping, self.office.directory.metadata_store()) {
            (Keeping::Callers, Some(store)) => self.office.take_back(&**store),
            (Keeping::Thread(caretaker), _) => {
                let has_left = caretaker.leave(timeout);
                if !has_left {
                    tracing::warn!("what was published could not be taken back in time");
                }
            }
            _ => {}
        }
    }
}

impl Office {
    fn records(&self) -> Vec<(String, Arc<[u8]>)> {
        let rpc = self.publisher.rpc();
        let record = RpcMeta {
            ip_or_host_name: rpc.host().into(),
            rpc_port: rpc.port_or(0),
            te_incarnation: Some(self.publisher.incarnation()),
        };
        self.directory.records(self.publisher.name(), &record, &self.publisher.paged())
    }

    fn put(&self, store: &dyn MetadataStore) -> Result<(), StoreError> {
        self.records().iter().try_for_each(|(key, value)| store.put(key, value))
    }

    fn take_back(&self, store: &dyn MetadataStore) {
        let owner = self.publisher.incarnation();
        for (key, _) in self.records() {
            if let Err(error) = store.release(&key, owner) {
                tracing::warn!(%error, "what was published could not be taken back");
            }
        }
    }

    /// What the first publication came to.
    fn outcome(&self, standing: Standing, waited: Duration) -> Result<(), BuildError> {
        let name = self.publisher.name().as_str().to_owned();
        match (standing, self.trouble.lock().take()) {
            (Standing::Published | Standing::Outdated, _) => Ok(()),
            (_, Some(Trouble::Failed(error))) => Err(BuildError::Publish(Box::new(error))),
            (_, Some(Trouble::Taken(by))) => Err(BuildError::NameTaken { name, by }),
            _ => Err(BuildError::PublishTimedOut { name, waited }),
        }
    }

    fn note(&self, trouble: Option<Trouble>) {
        *self.trouble.lock() = trouble;
    }
}

/// The office's half that works on the caretaker's thread.
struct Clerk(Arc<Office>);

impl TenancyHost for Clerk {
    fn compose(&mut self) -> Vec<(String, Arc<[u8]>)> {
        self.0.records()
    }

    fn probe(&mut self, _key: &str, _record: &Record) -> Result<OwnerState, StoreError> {
        let Office { directory, publisher, probe_timeout, .. } = &*self.0;
        directory.owner_state(publisher.name(), publisher.rpc(), *probe_timeout)
    }

    fn event(&mut self, event: TenancyEvent) {
        let name = self.0.publisher.name().as_str();
        match event {
            TenancyEvent::Published => {
                self.0.note(None);
                tracing::debug!(name, "the records are published");
            }
            TenancyEvent::Missed { key, is_gone } => {
                let how = if is_gone { "is gone" } else { "was overwritten" };
                tracing::warn!(name, key, "a published record {how}");
            }
            TenancyEvent::Taken { key, by, was_ours } => {
                let by = described(&by);
                let how = if was_ours { "lost to" } else { "taken by" };
                tracing::error!(name, key, by, "the name is {how} a living owner");
                self.0.note(Some(Trouble::Taken(by)));
            }
            TenancyEvent::LeaseEnded => {
                tracing::warn!(name, "the published records had ended; they are put again");
            }
            TenancyEvent::Failed { error } => {
                let cause = crate::peers::chain(&error);
                tracing::warn!(name, cause, "the metadata service fails; it is tried again");
                self.0.note(Some(Trouble::Failed(error)));
            }
            TenancyEvent::Recovered => tracing::info!(name, "the metadata service answers again"),
            _ => {}
        }
    }
}

/// Whose record it is, as far as it says so.
fn described(record: &Record) -> String {
    match RpcMeta::decode(&record.value) {
        Ok(rpc) => format!("{}:{}", rpc.ip_or_host_name, rpc.rpc_port),
        Err(_) => "an owner that its record does not tell".to_owned(),
    }
}

impl fmt::Debug for Clerk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clerk")
    }
}
