//! Peers by name: the cache of descriptors, and who fetches them.
//!
//! I1  No lock is held across a fetch.
//! I2  The engine's own name is the local segment and costs no message (FB31).

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use te_metadata::{
    Directory, HostPort, Notify, NotifyRefused, ResolveError, Resolved, SegmentDescriptor,
    SegmentName,
};
use te_segment::{FetchTicket, Lookup, Refresh, RemoteSegment, RemoteSegments, SegmentId};
use te_sync::{Condvar, Mutex};
use te_transport::Clock;

use crate::error::OpenError;
use crate::inbox::Inbox;
use crate::publish::Publisher;
use crate::status::NotifyOutcome;

/// Told the segment, when the fetch began, and the snapshot that holds now.
type Observer = Box<dyn Fn(SegmentId, Instant, Option<&Arc<RemoteSegment>>) + Send + Sync>;

/// The cache and its source.
pub(crate) struct Peers {
    directory: Directory,
    publisher: Arc<Publisher>,
    clock: Arc<dyn Clock>,
    cache: Mutex<RemoteSegments>,
    fetched: Condvar,
    inbox: Arc<Inbox>,
    /// Who wants to know when a fetch has ended.
    observer: OnceLock<Observer>,
    /// Without a cache every opening and every submission asks for a newer descriptor (B42).
    cached: bool,
}

/// What [`Peers::refresh`] found.
pub(crate) enum Freshness {
    /// A snapshot fetched after the wish arose.
    Newer(Arc<RemoteSegment>),
    /// Somebody fetches; ask again when it ends.
    Pending,
    /// The caller shall fetch.
    Fetch(FetchTicket),
    /// The last fetch failed a moment ago; ask again then.
    NotBefore(Instant),
    /// There is no such segment.
    Failed,
}

impl Peers {
    pub(crate) fn new(
        directory: Directory,
        publisher: Arc<Publisher>,
        (clock, inbox): (Arc<dyn Clock>, Arc<Inbox>),
        cached: bool,
    ) -> Self {
        Self {
            directory,
            publisher,
            clock,
            cache: Mutex::new(RemoteSegments::new()),
            fetched: Condvar::new(),
            inbox,
            observer: OnceLock::new(),
            cached,
        }
    }

    /// Names the one who is told of every fetch that ends; the first call counts.
    pub(crate) fn observe(&self, observer: Observer) {
        drop(self.observer.set(observer));
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The number of a name; fetches its descriptor on the calling thread where it is not known.
    pub(crate) fn open(
        &self,
        name: &SegmentName,
        patience: Duration,
    ) -> Result<SegmentId, OpenError> {
        if name == self.publisher.name() {
            return Ok(SegmentId::LOCAL);
        }
        let begun = self.clock.now();
        loop {
            let found = self.cache.lock().open(self.clock.now(), name);
            match found {
                Lookup::Known(known) if self.cached => return Ok(known.id()),
                Lookup::Known(known) => return self.reopen(&known, begun),
                Lookup::Fetch(ticket) => {
                    let id = ticket.id();
                    let unresolved =
                        |cause| OpenError::Resolve { name: name.as_str().into(), cause };
                    return self.fetch(ticket).map(|_| id).map_err(Box::new).map_err(unresolved);
                }
                Lookup::Pending(id) => {
                    let waited = self.clock.now().saturating_duration_since(begun);
                    if !self.await_fetch(id, patience.saturating_sub(waited)) {
                        return Err(OpenError::TimedOut { name: name.as_str().into(), waited });
                    }
                }
            }
        }
    }

    /// Opening where the cache is switched off: a failed fetch keeps what is known.
    fn reopen(&self, known: &RemoteSegment, since: Instant) -> Result<SegmentId, OpenError> {
        if let Freshness::Fetch(ticket) = self.refresh(known.id(), since) {
            drop(self.fetch(ticket));
        }
        Ok(known.id())
    }

    /// Whether the outstanding fetch ended in time.
    fn await_fetch(&self, id: SegmentId, patience: Duration) -> bool {
        let mut cache = self.cache.lock();
        self.fetched.wait_while_for(&mut cache, |cache| cache.is_fetching(id), patience);
        !cache.is_fetching(id)
    }

    /// Fetches on the calling thread and tells whoever waits.
    pub(crate) fn fetch(&self, ticket: FetchTicket) -> Result<Arc<RemoteSegment>, ResolveError> {
        let name = ticket.name().clone();
        let asked = catch_unwind(AssertUnwindSafe(|| self.ask(ticket.id(), &name)));
        let Ok(answer) = asked else {
            // A store is foreign code. Its panic was told by its hook; here it is an absent answer.
            self.end_fetch(ticket, None);
            return Err(ResolveError::NotFound { name });
        };
        match answer {
            Ok(resolved) => self
                .end_fetch(ticket, Some((resolved.rpc, resolved.descriptor)))
                .ok_or(ResolveError::NotFound { name }),
            Err(error) => {
                if error.is_not_found() {
                    self.miss(ticket);
                } else {
                    self.end_fetch(ticket, None);
                }
                Err(error)
            }
        }
    }

    /// The descriptor as published. Whoever asks again does so because that does not fit, and
    /// changes are published a moment late, so the owner has the last word then; it is all there is
    /// while the service does not answer.
    fn ask(&self, id: SegmentId, name: &SegmentName) -> Result<Resolved, ResolveError> {
        let own = &self.publisher.paged().main;
        let known = self.current(id);
        let of_owner = |found: &Resolved| self.directory.ask_owner(name, found, own);
        match (self.directory.fetch(name, own), known) {
            (Ok(found), Some(_)) => Ok(of_owner(&found).unwrap_or(found)),
            (Err(error), Some(known)) if error.is_retryable() => {
                let (descriptor, rpc) = (known.descriptor().clone(), known.rpc().clone());
                of_owner(&Resolved { descriptor, rpc }).ok_or(error)
            }
            (answer, _) => answer,
        }
    }

    /// Gives a ticket back without a result.
    pub(crate) fn abandon(&self, ticket: FetchTicket) {
        self.end_fetch(ticket, None);
    }

    fn end_fetch(&self, ticket: FetchTicket, found: Option<Found>) -> Option<Arc<RemoteSegment>> {
        let (id, begun, worked) = (ticket.id(), ticket.begun(), found.is_some());
        let known = self.cache.lock().complete(self.clock.now(), ticket, found);
        self.tell(id, begun, known.as_ref().filter(|_| worked));
        known
    }

    /// Ends a fetch that found nothing under the name.
    fn miss(&self, ticket: FetchTicket) {
        let (id, begun) = (ticket.id(), ticket.begun());
        self.cache.lock().absent(self.clock.now(), ticket);
        self.tell(id, begun, None);
    }

    /// Tells whoever waits that a fetch has ended.
    fn tell(&self, id: SegmentId, begun: Instant, known: Option<&Arc<RemoteSegment>>) {
        self.fetched.notify_all();
        if let Some(observer) = self.observer.get() {
            observer(id, begun, known);
        }
    }

    /// Delivers a notification on the calling thread; to ourselves without a message.
    pub(crate) fn notify(&self, target: SegmentId, notify: &Notify) -> NotifyOutcome {
        if target == SegmentId::LOCAL {
            return match self.inbox.put(notify.clone()) {
                Ok(()) => NotifyOutcome::Delivered,
                Err(full @ NotifyRefused::Full { .. }) => NotifyOutcome::Full(text(&full)),
                Err(refused) => NotifyOutcome::Failed(text(&refused)),
            };
        }
        let Some(peer) = self.current(target) else {
            return NotifyOutcome::Failed("the segment is not open".into());
        };
        let sent = match self.directory.rpc_address(peer.name()) {
            Ok(address) => self.directory.client().notify(&address, notify),
            Err(error) => return NotifyOutcome::Failed(text(&error)),
        };
        match sent {
            Ok(()) => NotifyOutcome::Delivered,
            Err(error) if error.is_full() => NotifyOutcome::Full(text(&error)),
            Err(error) => NotifyOutcome::Failed(text(&error)),
        }
    }

    /// A snapshot of an open segment, or of this engine itself.
    pub(crate) fn current(&self, id: SegmentId) -> Option<Arc<RemoteSegment>> {
        if id == SegmentId::LOCAL {
            return Some(self.publisher.as_remote());
        }
        self.cache.lock().current(id)
    }

    /// Asks for a snapshot whose fetch began at `since` or later.
    pub(crate) fn refresh(&self, id: SegmentId, since: Instant) -> Freshness {
        if id == SegmentId::LOCAL {
            return Freshness::Newer(self.publisher.as_remote());
        }
        match self.cache.lock().want_newer(self.clock.now(), id, since) {
            Refresh::Newer(known) => Freshness::Newer(known),
            Refresh::Pending => Freshness::Pending,
            Refresh::Fetch(ticket) => Freshness::Fetch(ticket),
            Refresh::NotBefore(at) => Freshness::NotBefore(at),
            Refresh::Unknown => Freshness::Failed,
        }
    }

    /// Fetches an open segment's descriptor on the calling thread, or waits for whoever does.
    pub(crate) fn fetch_now(&self, id: SegmentId) -> Option<Arc<RemoteSegment>> {
        let since = self.clock.now();
        match self.refresh(id, since) {
            Freshness::Newer(known) => Some(known),
            Freshness::Fetch(ticket) => self.fetch(ticket).ok(),
            Freshness::Pending => {
                let patience = self.directory.client().limits().exchange_timeout;
                if self.await_fetch(id, patience) { self.current(id) } else { None }
            }
            Freshness::Failed | Freshness::NotBefore(_) => None,
        }
    }

    /// Fetches an open segment's descriptor on the calling thread, as it is now: a fetch that began
    /// before is waited for and does not count. One that failed a moment ago is not repeated.
    pub(crate) fn fetch_newer(&self, id: SegmentId) {
        let since = self.clock.now();
        loop {
            match self.refresh(id, since) {
                Freshness::Fetch(ticket) => return drop(self.fetch(ticket)),
                Freshness::Pending => {
                    let patience = self.directory.client().limits().exchange_timeout;
                    if !self.await_fetch(id, patience) {
                        return;
                    }
                }
                Freshness::Newer(_) | Freshness::Failed | Freshness::NotBefore(_) => return,
            }
        }
    }

    /// Forgets what is known of a name.
    pub(crate) fn forget(&self, name: &SegmentName) {
        self.cache.lock().forget(name);
    }

    /// Every segment that is known.
    pub(crate) fn known(&self) -> Vec<(SegmentId, SegmentName)> {
        self.cache.lock().known()
    }

    pub(crate) fn is_cached(&self) -> bool {
        self.cached
    }
}

/// Where a peer answers, and what it says about itself.
type Found = (HostPort, SegmentDescriptor);

fn text(error: &dyn std::error::Error) -> Box<str> {
    chain(error).into()
}

/// An error and its causes as one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peers({:?})", self.cache.lock())
    }
}
