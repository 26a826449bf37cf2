//! What our own server answers.

use serde::Deserialize;

use crate::store::{Change, ChangeKind, Changes, KeyInfo, Revision};

/// A page of `GET /v1/keys`.
#[derive(Debug, Deserialize)]
pub(super) struct KeysPage {
    pub(super) keys: Vec<KeyLine>,
    pub(super) more: bool,
}

/// One key.
#[derive(Debug, Deserialize)]
pub(super) struct KeyLine {
    pub(super) key: String,
    revision: u64,
    bytes: Option<u64>,
}

impl From<KeyLine> for KeyInfo {
    fn from(line: KeyLine) -> Self {
        let revision = Some(Revision::new(line.revision.to_string()));
        Self { key: line.key, revision, bytes: line.bytes }
    }
}

/// What `GET /v1/watch` answers.
#[derive(Debug, Deserialize)]
pub(super) struct WatchPage {
    pub(super) revision: u64,
    #[serde(default)]
    events: Vec<EventLine>,
    #[serde(default)]
    pub(super) reset: bool,
}

#[derive(Debug, Deserialize)]
struct EventLine {
    kind: EventKind,
    key: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EventKind {
    Put,
    Delete,
}

impl From<WatchPage> for Changes {
    fn from(page: WatchPage) -> Self {
        let changes = page.events.into_iter().map(|line| Change {
            key: line.key,
            kind: match line.kind {
                EventKind::Put => ChangeKind::Put,
                EventKind::Delete => ChangeKind::Removed,
            },
        });
        Self { changes: changes.collect(), is_reset: page.reset }
    }
}
