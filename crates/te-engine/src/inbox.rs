//! What others told us: notifications, in order of arrival, bounded.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};

use te_metadata::{
    Asker, ChunkDigest, EndpointMessage, EndpointQuestion, Notify, NotifyRefused, PeerService,
};
use te_sync::Mutex;
use te_transport::Transport;

use crate::publish::Publisher;
use crate::stats::Counters;

/// Notifications that were not taken yet. Where there is no room the sender is told so (K7).
#[derive(Debug)]
pub(crate) struct Inbox {
    capacity: usize,
    waiting: Mutex<Waiting>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Waiting {
    notifies: VecDeque<Notify>,
    bytes: usize,
}

/// Text of all notifications that wait, bytes.
const MAX_BYTES: usize = 64 << 20;

impl Inbox {
    pub(crate) fn new(capacity: usize, counters: Arc<Counters>) -> Self {
        Self { capacity, waiting: Mutex::default(), counters }
    }

    pub(crate) fn put(&self, notify: Notify) -> Result<(), NotifyRefused> {
        let mut waiting = self.waiting.lock();
        let bytes = waiting.bytes + notify.name.len() + notify.msg.len();
        let full = waiting.notifies.len() >= self.capacity || bytes > MAX_BYTES;
        if full && !te_metadata::sabotage::is_off("notify-bound") {
            self.counters.notify_refused.add(1);
            return Err(NotifyRefused::Full { waiting: waiting.notifies.len() as u64 });
        }
        waiting.bytes = bytes;
        waiting.notifies.push_back(notify);
        Ok(())
    }

    pub(crate) fn take(&self) -> Vec<Notify> {
        std::mem::take(&mut *self.waiting.lock()).notifies.into()
    }
}

/// The handshake port's answers.
///
/// I1  Whoever was paused for so long that its name may be another's by now says nothing about
///     itself before its records stand again.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) title: Arc<Title>,
    /// Asked in order for who connects NICs.
    pub(crate) transports: Vec<Arc<dyn Transport>>,
}

/// What says whether our name is ours for certain; nothing where nothing is published.
#[derive(Default)]
pub(crate) struct Title(OnceLock<Box<dyn Fn() -> bool + Send + Sync>>);

impl Title {
    /// Names the one who knows; the first call counts.
    pub(crate) fn ask(&self, is_doubtful: impl Fn() -> bool + Send + Sync + 'static) {
        drop(self.0.set(Box::new(is_doubtful)));
    }

    fn is_doubtful(&self) -> bool {
        self.0.get().is_some_and(|is_doubtful| is_doubtful())
    }
}

impl fmt::Debug for Title {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Title")
    }
}

impl PeerService for Service {
    fn descriptor(&self, asker: &Asker) -> Option<Vec<u8>> {
        (!self.title.is_doubtful()).then(|| self.publisher.paged_for(asker).main.clone())
    }

    fn chunk(&self, digest: ChunkDigest) -> Option<Vec<u8>> {
        if self.title.is_doubtful() {
            return None;
        }
        let paged = self.publisher.paged();
        let found = paged.chunks.iter().find(|chunk| chunk.digest == digest);
        found.map(|chunk| chunk.body.clone())
    }

    fn notify(&self, notify: Notify) -> Result<(), NotifyRefused> {
        self.inbox.put(notify)
    }

    fn endpoint(&self, question: EndpointQuestion) {
        let mut left = Some(question);
        for transport in &self.transports {
            left = left.and_then(|question| transport.endpoint(question));
        }
        // No NIC: the answer of a TCP engine is all empty (peer §3.1).
        if let Some(question) = left {
            question.answer(EndpointMessage::default());
        }
    }
}

#[cfg(test)]
mod tests {
    //! The bound.

    use super::*;

    #[test]
    fn fault17_who_may_have_lost_its_name_says_nothing_about_itself() {
        use std::sync::atomic::{AtomicBool, Ordering};

        let name = te_metadata::SegmentName::parse("node-a").unwrap();
        let rpc = te_metadata::HostPort::parse("127.0.0.1:1").unwrap();
        let segment = Arc::new(te_segment::LocalSegment::new());
        let incarnation = te_metadata::Incarnation::random();
        let publisher = Arc::new(Publisher::new(name, rpc, incarnation, segment, Vec::new()));
        let inbox = Arc::new(Inbox::new(2, Arc::default()));
        let title = Arc::new(Title::default());
        let service =
            Service { publisher, inbox, title: Arc::clone(&title), transports: Vec::new() };
        let descriptor = || service.descriptor(&Asker::default());
        assert!(descriptor().is_some(), "in P2P mode nobody doubts it");
        let was_paused = Arc::new(AtomicBool::new(true));
        let doubt = Arc::clone(&was_paused);
        title.ask(move || doubt.load(Ordering::Relaxed));
        assert_eq!(descriptor(), None);
        was_paused.store(false, Ordering::Relaxed);
        assert!(descriptor().is_some());
    }

    #[test]
    fn k7_a_full_inbox_refuses_and_has_room_again_once_it_was_emptied() {
        let counters = Arc::new(Counters::default());
        let inbox = Inbox::new(2, Arc::clone(&counters));
        let notify = |msg: &str| Notify { name: "n".into(), msg: msg.into() };
        inbox.put(notify("1")).unwrap();
        inbox.put(notify("2")).unwrap();
        assert_eq!(inbox.put(notify("3")), Err(NotifyRefused::Full { waiting: 2 }));
        assert_eq!(counters.read().notify_refused, 1);
        assert_eq!(inbox.take(), [notify("1"), notify("2")]);
        inbox.put(notify("4")).unwrap();
        assert_eq!(inbox.take(), [notify("4")]);
        let long = notify(&"x".repeat(40 << 20));
        inbox.put(long.clone()).unwrap();
        let full = Err(NotifyRefused::Full { waiting: 1 });
        assert_eq!(inbox.put(long), full, "bytes are bounded too");
    }
}
