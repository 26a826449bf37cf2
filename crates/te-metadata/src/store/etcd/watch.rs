//! A watch on etcd: a stream that is opened anew, from where it was, whenever it ends.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{EventType, WatchOptions, WatchResponse, WatchStream};
use tokio::sync::Mutex;

use super::Core;
use super::failure::{Cause, Failure};
use super::fleet::Fleet;
use crate::store::{Change, ChangeKind, Changes, StoreError, Watch};

pub(super) struct EtcdWatch {
    core: Arc<Core>,
    state: Arc<Mutex<State>>,
}

struct State {
    prefix: String,
    /// The first revision that was not seen.
    next: i64,
    stream: Option<WatchStream>,
}

impl fmt::Debug for EtcdWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdWatch").field("core", &self.core).finish_non_exhaustive()
    }
}

impl EtcdWatch {
    pub(super) fn new(core: Arc<Core>, prefix: String, next: i64) -> Self {
        let state = State { prefix, next, stream: None };
        Self { core, state: Arc::new(Mutex::new(state)) }
    }
}

impl Watch for EtcdWatch {
    fn wait(&mut self, timeout: Duration) -> Result<Changes, StoreError> {
        let state = Arc::clone(&self.state);
        let limit = timeout.saturating_add(self.core.call_timeout);
        let work = move |fleet: Arc<Fleet>| async move {
            let mut state = state.lock().await;
            state.open(&fleet).await?;
            let seen = tokio::time::timeout(timeout, state.next()).await;
            // Silence is an answer; what is in the stream stays there.
            seen.unwrap_or_else(|_| Ok(Changes::default()))
        };
        self.core.call_within(limit, "", work)
    }
}

impl State {
    async fn open(&mut self, fleet: &Fleet) -> Result<(), Failure> {
        if self.stream.is_none() {
            let (prefix, next) = (self.prefix.as_str(), self.next);
            let options = || WatchOptions::new().with_prefix().with_start_revision(next);
            let opened =
                fleet.run(|mut client| async move { client.watch(prefix, Some(options())).await });
            self.stream = Some(opened.await?);
        }
        Ok(())
    }

    /// The next answer that has changes in it.
    async fn next(&mut self) -> Result<Changes, Failure> {
        loop {
            let Some(stream) = &mut self.stream else { return Ok(Changes::default()) };
            let response = match stream.message().await {
                Ok(Some(response)) => response,
                Ok(None) => {
                    self.stream = None;
                    continue;
                }
                Err(error) => {
                    self.stream = None;
                    let cause = Cause::Said(Box::new(error));
                    return Err(Failure { endpoint: "the watched endpoint".to_owned(), cause });
                }
            };
            let changes = self.take(&response);
            if changes.is_reset || !changes.changes.is_empty() {
                return Ok(changes);
            }
        }
    }

    fn take(&mut self, response: &WatchResponse) -> Changes {
        let compacted = response.compact_revision();
        if response.canceled() || compacted != 0 {
            // What was before is not told any more.
            self.stream = None;
            self.next = self.next.max(compacted);
            return Changes { changes: Vec::new(), is_reset: true };
        }
        if let Some(header) = response.header().filter(|_| !response.events().is_empty()) {
            self.next = header.revision() + 1;
        }
        let changes = response.events().iter().filter_map(|event| {
            let kind = match event.event_type() {
                EventType::Put => ChangeKind::Put,
                EventType::Delete => ChangeKind::Removed,
            };
            let key = String::from_utf8_lossy(event.kv()?.key()).into_owned();
            Some(Change { key, kind })
        });
        Changes { changes: changes.collect(), is_reset: false }
    }
}
