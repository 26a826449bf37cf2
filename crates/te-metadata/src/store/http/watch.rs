//! A watch on our own server: one long question after the other.

use std::sync::Arc;
use std::time::Duration;

use super::service::Service;
use crate::store::{Changes, StoreError, Watch};

#[derive(Debug)]
pub(super) struct HttpWatch {
    service: Arc<Service>,
    prefix: String,
    /// The revision up to which changes were seen.
    since: u64,
}

impl HttpWatch {
    pub(super) fn new(service: Arc<Service>, prefix: String, since: u64) -> Self {
        Self { service, prefix, since }
    }
}

impl Watch for HttpWatch {
    fn wait(&mut self, timeout: Duration) -> Result<Changes, StoreError> {
        let page = self.service.watch_page(&self.prefix, Some(self.since), timeout.as_millis())?;
        // A server that restarted empty counts from the beginning.
        let is_older = page.revision < self.since;
        self.since = page.revision;
        let mut changes = Changes::from(page);
        changes.is_reset |= is_older;
        Ok(changes)
    }
}
