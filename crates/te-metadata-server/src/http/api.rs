//! `/v1/…`: renewing, listing, watching.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::catalog::{Event, EventKind};
use crate::http::body;
use crate::http::kv;
use crate::http::reply::{self, Failure};
use crate::http::{Pending, Reply, Shared};
use crate::keeper::Command;
use crate::query::{BadQuery, Query};

#[derive(Deserialize)]
struct Renewal {
    owner: String,
    ttl_ms: u64,
}

/// `POST /v1/renew`: all keys of an owner live on.
pub(crate) async fn renew(shared: &Arc<Shared>, body: &mut Pending) -> Result<Reply, Failure> {
    let received = body::receive(shared, body, MAX_RENEWAL).await?;
    let renewal: Renewal = serde_json::from_slice(&received.bytes)
        .map_err(|error| Failure::bad(format!("expected {{\"owner\",\"ttl_ms\"}}: {error}")))?;
    let owner = kv::owner(Some(&renewal.owner), &shared.limits)?.to_owned();
    let ttl = kv::ttl(renewal.ttl_ms, &shared.limits)?;
    let renewed = shared.keeper.ask(|reply| Command::Renew { owner, ttl, reply }).await?;
    Ok(match renewed {
        Some(n) => reply::json_reply(StatusCode::OK, &json!({ "keys": n })),
        None => {
            let words = json!({ "error": "nothing of this owner is left", "keys": 0 });
            reply::json_reply(StatusCode::NOT_FOUND, &words)
        }
    })
}

/// `GET /v1/keys`: keys in order, without their values.
pub(crate) async fn keys(shared: &Arc<Shared>, query: &Query) -> Result<Reply, Failure> {
    let prefix = query.text("prefix").unwrap_or_default().to_owned();
    let after = query.text("after").map(str::to_owned);
    let limit = limit(query, MAX_KEYS)?;
    let listing = shared.keeper.ask(|reply| Command::List { prefix, after, limit, reply }).await?;
    Ok(reply::json_reply(StatusCode::OK, &listing))
}

/// `GET /v1/watch`: waits for news after a revision.
pub(crate) async fn watch(shared: &Arc<Shared>, query: &Query) -> Result<Reply, Failure> {
    let prefix = query.text("prefix").unwrap_or_default().to_owned();
    let since = query.number("since").map_err(|BadQuery| not_a_number("since"))?;
    let wait = query.number("wait_ms").map_err(|BadQuery| not_a_number("wait_ms"))?;
    let wait = Duration::from_millis(wait.unwrap_or(DEFAULT_WAIT_MS)).min(shared.limits.max_wait);
    let news = shared.keeper.ask(|reply| Command::Watch { prefix, since, wait, reply }).await?;
    let news = news.ok_or(Failure::Overloaded("watchers"))?;
    let events: Vec<Value> = news.events.iter().map(event).collect();
    let body = json!({ "revision": news.revision, "events": events, "reset": news.reset });
    Ok(reply::json_reply(StatusCode::OK, &body))
}

fn event(event: &Event) -> Value {
    let kind = match event.kind {
        EventKind::Put => "put",
        EventKind::Delete => "delete",
    };
    json!({ "kind": kind, "key": event.key, "revision": event.revision })
}

/// `limit`, between 1 and `max`.
pub(crate) fn limit(query: &Query, max: usize) -> Result<usize, Failure> {
    let asked = query.number("limit").map_err(|BadQuery| not_a_number("limit"))?;
    let asked = asked.map_or(max, |n| usize::try_from(n).unwrap_or(usize::MAX));
    Ok(asked.clamp(1, max))
}

fn not_a_number(name: &str) -> Failure {
    Failure::bad(format!("{name} is a whole number"))
}

/// Keys of one answer.
const MAX_KEYS: usize = 5000;

/// Bytes of the body of a renewal: an owner's name and a number.
const MAX_RENEWAL: usize = 16 << 10;

const DEFAULT_WAIT_MS: u64 = 30_000;
