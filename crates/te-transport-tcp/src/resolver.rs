//! Host names to addresses, away from the driver: the system's resolver blocks as long as it likes.
//!
//! A literal address never comes here. Each look-up has a short-lived thread of its own, a few at a
//! time; the answer comes back as a [`Command::Resolved`].

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use te_metadata::{AddressFamily, HostPort};
use te_transport::Threads;

use crate::inbox::{Command, Inbox};

/// Look-ups at a time. One dead name server must not take threads without end.
const AT_A_TIME: usize = 4;

pub(crate) struct Resolver {
    inbox: Arc<Inbox>,
    waker: Arc<mio::Waker>,
    threads: Arc<Threads>,
    running: usize,
    waiting: VecDeque<HostPort>,
}

impl Resolver {
    pub(crate) fn new(inbox: Arc<Inbox>, waker: Arc<mio::Waker>, threads: Arc<Threads>) -> Self {
        Self { inbox, waker, threads, running: 0, waiting: VecDeque::new() }
    }

    /// Looks a name up, now or when others are done.
    pub(crate) fn look_up(&mut self, name: HostPort) {
        if !self.waiting.contains(&name) {
            self.waiting.push_back(name);
        }
        self.start();
    }

    /// A look-up has ended.
    pub(crate) fn on_resolved(&mut self) {
        self.running -= 1;
        self.start();
    }

    fn start(&mut self) {
        while self.running < AT_A_TIME
            && let Some(name) = self.waiting.pop_front()
        {
            self.running += 1;
            let (inbox, waker) = (Arc::clone(&self.inbox), Arc::clone(&self.waker));
            let asked = name.clone();
            let spawned = self.threads.spawn("te-tcp-resolve", move || {
                let found = asked.resolve(0, AddressFamily::Any);
                answer(&inbox, &waker, asked, found);
            });
            if let Err(error) = spawned {
                answer(&self.inbox, &self.waker, name, Err(error));
            }
        }
    }
}

fn answer(
    inbox: &Inbox,
    waker: &mio::Waker,
    name: HostPort,
    found: io::Result<Vec<std::net::SocketAddr>>,
) {
    // A closed inbox needs no answer, and a wake-up that fails leaves a full eventfd, which wakes.
    let _ = inbox.push(Command::Resolved(name, found));
    let _ = waker.wake();
}
