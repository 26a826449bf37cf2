//! Endpoint handshakes whose answers may come later, from another thread.
//!
//! ```text
//!   server thread ── EndpointQuestion ──▶ service ── (any thread, any time) answer ──▶ Desk
//!        ▲                                                                              │
//!        └───────────────────────────────── wake, take ─────────────────────────────────┘
//! ```
//!
//! I1  Every question is answered once: who drops one refuses it.
//! I2  At most [`MAX_OPEN`] questions are open; further ones are refused before the service sees
//!     them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mio::Waker;
use te_sync::Mutex;

use crate::EndpointMessage;

/// Handshakes that may wait for their answers at one server. A NIC connects to thousands of peers
/// one after the other, not at once.
const MAX_OPEN: usize = 256;

/// A peer's endpoint handshake. Answer it, now or later and from any thread; who drops it refuses
/// it. An answer that comes after the connection is over is lost.
pub struct EndpointQuestion {
    request: EndpointMessage,
    reply: Option<Reply>,
}

impl EndpointQuestion {
    /// A question that gives its answer to `answer`, for services that are asked without a server.
    pub fn new(
        request: EndpointMessage,
        answer: impl FnOnce(EndpointMessage) + Send + 'static,
    ) -> Self {
        Self { request, reply: Some(Reply::Call(Box::new(answer))) }
    }

    /// What the peer sent.
    pub fn request(&self) -> &EndpointMessage {
        &self.request
    }

    /// Sends the answer.
    pub fn answer(mut self, message: EndpointMessage) {
        if let Some(reply) = self.reply.take() {
            reply.send(message);
        }
    }
}

impl Drop for EndpointQuestion {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            reply.send(EndpointMessage::refusal("the handshake was not answered"));
        }
    }
}

impl fmt::Debug for EndpointQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EndpointQuestion").field(&self.request).finish()
    }
}

enum Reply {
    Call(Box<dyn FnOnce(EndpointMessage) + Send>),
    Desk { desk: Arc<Desk>, ticket: Ticket },
}

impl Reply {
    fn send(self, message: EndpointMessage) {
        match self {
            Self::Call(answer) => answer(message),
            Self::Desk { desk, ticket } => desk.put(ticket, message),
        }
    }
}

/// Which connection asked; its number tells it from later ones with the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) key: usize,
    pub(super) number: u64,
}

/// Where answers are put for the server's thread.
pub(super) struct Desk {
    waker: Arc<Waker>,
    open: AtomicUsize,
    answers: Mutex<Vec<(Ticket, EndpointMessage)>>,
}

impl Desk {
    pub(super) fn new(waker: Arc<Waker>) -> Arc<Self> {
        Arc::new(Self { waker, open: AtomicUsize::new(0), answers: Mutex::default() })
    }

    /// Opens a question; `None` when too many are open.
    pub(super) fn open(
        self: &Arc<Self>,
        ticket: Ticket,
        request: EndpointMessage,
    ) -> Option<EndpointQuestion> {
        // Only the server's thread counts up, so no other can pass the bound in between.
        if self.open.load(Ordering::Relaxed) >= MAX_OPEN {
            return None;
        }
        self.open.fetch_add(1, Ordering::Relaxed);
        let reply = Some(Reply::Desk { desk: Arc::clone(self), ticket });
        Some(EndpointQuestion { request, reply })
    }

    fn put(&self, ticket: Ticket, message: EndpointMessage) {
        self.answers.lock().push((ticket, message));
        self.open.fetch_sub(1, Ordering::Relaxed);
        if let Err(error) = self.waker.wake() {
            tracing::warn!(%error, "the peer server could not be woken");
        }
    }

    /// The answers that came.
    pub(super) fn take(&self) -> Vec<(Ticket, EndpointMessage)> {
        std::mem::take(&mut *self.answers.lock())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn who_drops_a_question_refuses_it_and_who_answers_it_does_so_once() {
        let (sender, answers) = mpsc::channel();
        let question = |reason: &str| {
            let sender = sender.clone();
            EndpointQuestion::new(EndpointMessage::refusal(reason), move |message| {
                sender.send(message).unwrap();
            })
        };
        drop(question("a"));
        assert!(answers.try_recv().unwrap().is_refusal());
        assert!(answers.try_recv().is_err());
        let asked = question("b");
        assert_eq!(asked.request().reply_msg, "b");
        asked.answer(EndpointMessage::default());
        assert_eq!(answers.try_recv().unwrap(), EndpointMessage::default());
        assert!(answers.try_recv().is_err());
    }

    #[test]
    fn questions_are_bounded_and_an_answer_gives_its_place_back() {
        let poll = mio::Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), mio::Token(0)).unwrap());
        let desk = Desk::new(waker);
        let ticket = Ticket { key: 3, number: 9 };
        let ask = || desk.open(ticket, EndpointMessage::default());
        let mut open: Vec<_> = (0..MAX_OPEN).map(|_| ask().unwrap()).collect();
        assert!(ask().is_none());
        open.pop().unwrap().answer(EndpointMessage::default());
        assert_eq!(desk.take(), [(ticket, EndpointMessage::default())]);
        assert!(ask().is_some());
    }
}
