//! `/`, the status page, and `/v1/status`, what it shows.
//!
//! The page is one file without anything from outside in it: names, protocols and owners come as
//! JSON and become text nodes, so that nothing of them is ever read as HTML. Its policy allows
//! the one script and the one style that carry this answer's nonce, and requests to this server.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CONTENT_SECURITY_POLICY, HeaderValue, REFERRER_POLICY, X_FRAME_OPTIONS};
use serde::Serialize;
use serde_json::json;

use crate::catalog::Entry;
use crate::clock;
use crate::http::health::uptime_ms;
use crate::http::reply::{self, Failure};
use crate::http::{Reply, Shared, api};
use crate::keeper::{Census, Command};
use crate::moment::{Moment, millis};
use crate::query::Query;
use crate::summary::{Summary, summarise};

use std::sync::atomic::Ordering::Relaxed;

/// The page, the same for everybody but for its nonce.
pub(crate) fn page() -> Reply {
    let Some(nonce) = nonce() else {
        return reply::text(StatusCode::SERVICE_UNAVAILABLE, "the system gives no random bytes");
    };
    let html = PAGE.replace("NONCE", &nonce);
    let mut reply = reply::reply(StatusCode::OK, "text/html; charset=utf-8", html);
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; \
         connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    );
    let headers = reply.headers_mut();
    if let Ok(policy) = HeaderValue::try_from(policy) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    reply
}

fn nonce() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

const PAGE: &str = include_str!("page.html");

/// One key, as the page shows it.
#[derive(Debug, Serialize)]
struct Row<'a> {
    key: &'a str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    buffers: Option<u64>,
    /// Bytes of all buffers together.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<u64>,
    /// Digests of the chunks that hold the rest of the buffers.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    chunks: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<&'a str>,
    /// Bytes of the value.
    size: usize,
    age_ms: u64,
    owner: Option<&'a str>,
    expires_ms: Option<u64>,
    ttl_ms: Option<u64>,
    revision: u64,
}

/// `GET /v1/status?q=TEXT&limit=N`: the server, and the first keys that contain the text.
pub(crate) async fn status(shared: &Arc<Shared>, query: &Query) -> Result<Reply, Failure> {
    let needle = query.text("q").unwrap_or_default().to_owned();
    let limit = api::limit(query, MAX_ROWS)?;
    let census = shared.keeper.ask(|reply| Command::Census { needle, limit, reply }).await?;
    let shared = Arc::clone(shared);
    // Values that nobody has looked at yet are read now; some have megabytes.
    let task = tokio::task::spawn_blocking(move || answer(&shared, &census));
    task.await.map_err(|_| Failure::Overloaded("questions"))
}

fn answer(shared: &Shared, census: &Census) -> Reply {
    let now = clock::now();
    let entries = census.entries.iter();
    let rows: Vec<Row<'_>> = entries.map(|(key, entry)| row(now, key, entry)).collect();
    let counters = &shared.counters;
    let totals = counters.totals();
    let body = json!({
        "server": {
            "version": env!("CARGO_PKG_VERSION"),
            "uptime_ms": uptime_ms(shared),
            "durable": shared.is_durable,
            "token": shared.token.is_some(),
            "tls": shared.has_tls,
            "healthy": !counters.is_broken.load(Relaxed),
        },
        "revision": totals.revision,
        "keys": totals.n_keys,
        "bytes": totals.bytes,
        "owners": totals.n_owners,
        "expired": totals.n_expired,
        "watchers": counters.n_watchers.load(Relaxed),
        "connections": counters.n_connections.load(Relaxed),
        "requests": counters.requests().iter().map(|(_, n)| n).sum::<u64>(),
        "failed_commits": counters.n_failed_commits.load(Relaxed),
        "matching": census.n_matching,
        "rows": rows,
    });
    reply::json_reply(StatusCode::OK, &body)
}

fn row<'a>(now: Moment, key: &'a str, entry: &'a Entry) -> Row<'a> {
    let record = &entry.record;
    let mut row = Row {
        key,
        kind: "other",
        protocol: None,
        buffers: None,
        memory: None,
        chunks: &[],
        address: None,
        size: record.value.len(),
        age_ms: now.unix_ms.saturating_sub(record.put_at),
        owner: record.owner.as_deref(),
        expires_ms: entry.expires.map(|at| millis(now.until(at))),
        ttl_ms: record.ttl.map(millis),
        revision: record.revision,
    };
    match entry.summary.get_or_init(|| summarise(&record.value)) {
        Summary::Segment { protocol, n_buffers, bytes, chunks } => {
            row.kind = "segment";
            row.protocol = Some(protocol);
            row.chunks = chunks;
            (row.buffers, row.memory) = (Some(*n_buffers), Some(*bytes));
        }
        Summary::Chunk { n_buffers, bytes } => {
            row.kind = "chunk";
            (row.buffers, row.memory) = (Some(*n_buffers), Some(*bytes));
        }
        Summary::Rpc { address } => (row.kind, row.address) = ("rpc", Some(address.as_str())),
        Summary::Malformed => row.kind = "malformed",
        Summary::Other => {}
    }
    row
}

/// Keys of one answer; the page says how many more there are.
const MAX_ROWS: usize = 2000;
