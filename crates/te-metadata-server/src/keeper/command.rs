//! What the keeper can be asked, and how.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::catalog::{Entry, News, Put, Refusal, Terms};

/// Where an answer goes.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, Unavailable>>;

/// One question.
#[derive(Debug)]
pub(crate) enum Command {
    Put {
        key: String,
        value: Bytes,
        terms: Terms,
        reply: Reply<Result<Put, Refusal>>,
    },
    Delete {
        key: String,
        terms: Terms,
        reply: Reply<Result<u64, Refusal>>,
    },
    Renew {
        owner: String,
        ttl: Duration,
        reply: Reply<Option<usize>>,
    },
    Get {
        key: String,
        reply: Reply<Option<Entry>>,
    },
    List {
        prefix: String,
        after: Option<String>,
        limit: usize,
        reply: Reply<Listing>,
    },
    /// News after `since`, or without it from now on. No news: there are too many who watch.
    Watch {
        prefix: String,
        since: Option<u64>,
        wait: Duration,
        reply: Reply<Option<News>>,
    },
    /// Keys that contain `needle`, with their values.
    Census {
        needle: String,
        limit: usize,
        reply: Reply<Census>,
    },
    /// Nobody shall wait any longer.
    Drain,
}

impl Command {
    /// Answers that nothing could be done.
    pub(crate) fn refuse(self, why: Unavailable) {
        // Whoever asked may be gone.
        match self {
            Self::Put { reply, .. } => drop(reply.send(Err(why))),
            Self::Delete { reply, .. } => drop(reply.send(Err(why))),
            Self::Renew { reply, .. } => drop(reply.send(Err(why))),
            Self::Get { reply, .. } => drop(reply.send(Err(why))),
            Self::List { reply, .. } => drop(reply.send(Err(why))),
            Self::Watch { reply, .. } => drop(reply.send(Err(why))),
            Self::Census { reply, .. } => drop(reply.send(Err(why))),
            Self::Drain => {}
        }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unavailable {
    /// What was asked could not be made durable, or storage cannot be read.
    Storage,
    /// Too many questions wait already.
    Overloaded,
    /// The server ends.
    Closing,
}

/// Some keys, in order.
#[derive(Debug, Serialize)]
pub(crate) struct Listing {
    pub(crate) revision: u64,
    pub(crate) keys: Vec<Listed>,
    /// There are more after the last one.
    pub(crate) more: bool,
}

/// One key in a list.
#[derive(Debug, Serialize)]
pub(crate) struct Listed {
    pub(crate) key: Arc<str>,
    pub(crate) revision: u64,
    pub(crate) owner: Option<Arc<str>>,
    pub(crate) expires_ms: Option<u64>,
    pub(crate) bytes: usize,
}

/// The first keys that match, and how many there are.
#[derive(Debug)]
pub(crate) struct Census {
    pub(crate) entries: Vec<(Arc<str>, Entry)>,
    pub(crate) n_matching: usize,
}

/// The way to the keeper.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    inbox: SyncSender<Command>,
}

impl Handle {
    pub(crate) fn new(inbox: SyncSender<Command>) -> Self {
        Self { inbox }
    }

    /// Asks, and waits for the answer; a full inbox is an answer too.
    pub(crate) async fn ask<T>(
        &self,
        make: impl FnOnce(Reply<T>) -> Command,
    ) -> Result<T, Unavailable> {
        let (reply, answer) = oneshot::channel();
        self.inbox.try_send(make(reply)).map_err(|error| match error {
            TrySendError::Full(_) => Unavailable::Overloaded,
            TrySendError::Disconnected(_) => Unavailable::Closing,
        })?;
        answer.await.unwrap_or(Err(Unavailable::Closing))
    }

    /// Ends all waiting for news, now and later. A full inbox is waited for: the keeper is never
    /// idle then.
    pub(crate) fn drain(&self) {
        let _ = self.inbox.send(Command::Drain);
    }
}
