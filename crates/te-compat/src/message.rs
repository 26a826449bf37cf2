//! Notifications and probes (A35–A38, A165).

use std::time::Duration;

use te_engine::{EngineError, Notify, OpenError, ResolveError, SegmentId};

use crate::code::Code;
use crate::engine::Engine;
use crate::failure::Failure;

/// How long a peer may take to answer a probe.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

impl Engine {
    /// Takes the notifications that arrived, oldest first.
    ///
    /// # Errors
    /// [`Failure::forked`].
    pub fn take_notifies(&self) -> Result<Vec<Notify>, Failure> {
        Ok(self.inner()?.take_notifies())
    }

    /// Sends a notification to the owner of a segment by name, which need not be open.
    ///
    /// # Errors
    /// [`Code::Metadata`], [`Code::Dns`], [`Code::Socket`], [`Code::Malformed`], [`Code::Rejected`];
    /// [`Code::TooManyRequests`] where the peer has no room.
    pub fn notify_by_name(&self, name: &str, notify: &Notify) -> Result<(), Failure> {
        let sent = self.inner()?.notify(name, notify);
        sent.map_err(|error| unanswered(error, name))
    }

    /// Sends a notification to the owner of an open segment.
    ///
    /// # Errors
    /// As [`Engine::notify_by_name`]; [`Code::Metadata`] for a number that is no open segment.
    pub fn notify(&self, segment: u64, notify: &Notify) -> Result<(), Failure> {
        self.notify_by_name(&self.name_of(segment, "notify")?, notify)
    }

    /// Asks the owner of a segment by name whether it lives; gives the round-trip time. Waits at most
    /// [`PROBE_TIMEOUT`] for it.
    ///
    /// # Errors
    /// As [`Engine::notify_by_name`].
    pub fn probe_by_name(&self, name: &str) -> Result<Duration, Failure> {
        let answered = self.inner()?.probe(name, PROBE_TIMEOUT);
        answered.map_err(|error| unanswered(error, name))
    }

    /// The same for an open segment.
    ///
    /// # Errors
    /// As [`Engine::notify`].
    pub fn probe(&self, segment: u64) -> Result<Duration, Failure> {
        self.probe_by_name(&self.name_of(segment, "probe")?)
    }

    fn name_of(&self, segment: u64, phase: &'static str) -> Result<String, Failure> {
        let unknown =
            || Failure::new(Code::Metadata, phase, format!("{segment} is no open segment"));
        let found = self.inner()?.segment(SegmentId::from_u64(segment)).ok_or_else(unknown)?;
        Ok(found.name().as_str().to_owned())
    }
}

/// A name that leads to no address is one that was not found, as with the peer.
fn unanswered(error: EngineError, name: &str) -> Failure {
    let is_nameless = match &error {
        EngineError::Open(OpenError::Name { .. }) => true,
        EngineError::Open(OpenError::Resolve { cause, .. }) => {
            matches!(**cause, ResolveError::BadAddress { .. })
        }
        _ => false,
    };
    Failure::from(error).with_peer(name).edit(|facts| {
        if is_nameless {
            facts.code = Code::Dns;
        }
    })
}
