//! `/metadata?key=K`: Mooncake's contract, and ours for those who say more.
//!
//! | request | 200 | other |
//! |---|---|---|
//! | GET | the value | 404 `metadata not found` |
//! | PUT | `metadata updated`, or `metadata unchanged` for an equal value of the same owner | 409, 412, 413, 507 |
//! | DELETE | `metadata deleted` | 404, 412 |
//!
//! A PUT that names no owner is a Mooncake client's: it is always taken, and the key then belongs
//! to nobody. Mooncake's own servers refuse a second PUT of an `rpc_meta` key instead (peer fault
//! 14), which keeps a restarted engine from coming up.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};

use crate::catalog::{Guard, Terms};
use crate::clock;
use crate::http::body;
use crate::http::reply::{self, Failure, JSON};
use crate::http::{Pending, Reply, Shared};
use crate::keeper::Command;
use crate::limits::Limits;
use crate::moment::millis;
use crate::query::Query;

pub(crate) async fn answer(
    shared: &Arc<Shared>,
    query: &Query,
    head: &Parts,
    body: &mut Pending,
) -> Result<Reply, Failure> {
    let key = query.text("key").unwrap_or_default();
    if key.trim().is_empty() {
        return Err(Failure::Plain(StatusCode::BAD_REQUEST, "metadata key is required"));
    }
    if key.len() > shared.limits.max_key_length {
        let limit = shared.limits.max_key_length;
        return Err(Failure::bad(format!("the key has more than {limit} bytes")));
    }
    let key = key.to_owned();
    match head.method {
        Method::PUT => put(shared, key, &head.headers, body).await,
        Method::DELETE => delete(shared, key, &head.headers).await,
        _ => get(shared, key).await,
    }
}

async fn get(shared: &Shared, key: String) -> Result<Reply, Failure> {
    let found = shared.keeper.ask(|reply| Command::Get { key, reply }).await?;
    let entry = found.ok_or(Failure::Plain(StatusCode::NOT_FOUND, "metadata not found"))?;
    let mut reply = reply::reply(StatusCode::OK, JSON, entry.record.value);
    let headers = reply.headers_mut();
    if let Some(owner) = entry.record.owner.and_then(|owner| HeaderValue::try_from(&*owner).ok()) {
        headers.insert(TE_OWNER, owner);
    }
    if let Some(at) = entry.expires {
        headers.insert("te-expires-ms", HeaderValue::from(millis(clock::now().until(at))));
    }
    Ok(reply::with_etag(reply, entry.record.revision))
}

async fn put(
    shared: &Shared,
    key: String,
    headers: &HeaderMap,
    body: &mut Pending,
) -> Result<Reply, Failure> {
    let terms = terms(headers, &shared.limits)?;
    let received = body::receive(shared, body, shared.limits.max_value).await?;
    let value = received.bytes.clone();
    let put = shared.keeper.ask(|reply| Command::Put { key, value, terms, reply }).await??;
    let words = if put.changed { "metadata updated" } else { "metadata unchanged" };
    Ok(reply::with_etag(reply::text(StatusCode::OK, words), put.revision))
}

async fn delete(shared: &Shared, key: String, headers: &HeaderMap) -> Result<Reply, Failure> {
    let terms = terms(headers, &shared.limits)?;
    shared.keeper.ask(|reply| Command::Delete { key, terms, reply }).await??;
    Ok(reply::text(StatusCode::OK, "metadata deleted"))
}

/// What a client says about owner, time and condition.
pub(crate) fn terms(headers: &HeaderMap, limits: &Limits) -> Result<Terms, Failure> {
    let owner =
        headers.get(TE_OWNER).map(|value| owner(value.to_str().ok(), limits)).transpose()?;
    let ttl = headers.get(TE_TTL).map(|value| number(value).and_then(|ms| ttl(ms, limits)));
    Ok(Terms { owner: owner.map(Arc::from), ttl: ttl.transpose()?, guard: guard(headers)? })
}

/// An owner's name, if it can be one.
pub(crate) fn owner<'a>(text: Option<&'a str>, limits: &Limits) -> Result<&'a str, Failure> {
    let is_good = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    let owner = text.filter(is_good).filter(|text| text.len() <= limits.max_owner_length);
    owner.ok_or_else(|| {
        let limit = limits.max_owner_length;
        Failure::bad(format!("an owner has 1 to {limit} ASCII characters that can be seen"))
    })
}

/// A time to live, if it can be one.
pub(crate) fn ttl(ms: u64, limits: &Limits) -> Result<Duration, Failure> {
    let (min, max) = (limits.min_ttl, limits.max_ttl);
    let time = Duration::from_millis(ms);
    if (min..=max).contains(&time) {
        return Ok(time);
    }
    Err(Failure::bad(format!("a time to live has {} to {} ms", min.as_millis(), max.as_millis())))
}

fn guard(headers: &HeaderMap) -> Result<Guard, Failure> {
    match (headers.get(IF_MATCH), headers.get(IF_NONE_MATCH)) {
        (None, None) => Ok(Guard::Always),
        (Some(value), None) if value == "*" => Ok(Guard::Absent(false)),
        (Some(value), None) => tag(value).map(Guard::Revision),
        (None, Some(value)) if value == "*" => Ok(Guard::Absent(true)),
        (None, Some(_)) => Err(Failure::bad("If-None-Match can only be *")),
        (Some(_), Some(_)) => Err(Failure::bad("If-Match and If-None-Match exclude each other")),
    }
}

/// `"123"`. Nobody has ever been given another form, and a revision that cannot be read must not
/// pass for no condition.
fn tag(value: &HeaderValue) -> Result<u64, Failure> {
    let inner = value.to_str().ok().and_then(|text| text.strip_prefix('"')?.strip_suffix('"'));
    inner.and_then(digits).ok_or_else(|| Failure::bad("If-Match is \"REVISION\" or *"))
}

fn number(value: &HeaderValue) -> Result<u64, Failure> {
    let parsed = value.to_str().ok().and_then(digits);
    parsed.ok_or_else(|| Failure::bad("te-ttl-ms is a whole number"))
}

fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

const TE_OWNER: HeaderName = HeaderName::from_static("te-owner");
const TE_TTL: HeaderName = HeaderName::from_static("te-ttl-ms");
