//! Making answers, and saying why there is no better one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Response, StatusCode};
use serde::Serialize;
use serde_json::json;

use crate::catalog::Refusal;
use crate::http::Reply;
use crate::keeper::Unavailable;
use crate::moment::millis;

/// A body with its type.
pub(crate) fn reply(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
}

/// A short text, labelled as Mooncake's servers label theirs.
pub(crate) fn text(status: StatusCode, text: &'static str) -> Reply {
    reply(status, JSON, text)
}

/// A value as JSON.
pub(crate) fn json_reply(status: StatusCode, value: &impl Serialize) -> Reply {
    match serde_json::to_vec(value) {
        Ok(body) => reply(status, JSON, body),
        Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "this cannot be told as JSON"),
    }
}

/// Adds a revision.
pub(crate) fn with_etag(mut reply: Reply, revision: u64) -> Reply {
    if let Ok(tag) = HeaderValue::try_from(format!("\"{revision}\"")) {
        reply.headers_mut().insert(ETAG, tag);
    }
    reply
}

/// Adds what every answer has.
pub(crate) fn finish(mut reply: Reply) -> Reply {
    let headers = reply.headers_mut();
    headers.insert("te-metadata-server", HeaderValue::from_static("1"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

pub(crate) const JSON: &str = "application/json";

/// Why a request is not answered as it wished.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A status with Mooncake's own words.
    Plain(StatusCode, &'static str),
    /// The request makes no sense.
    Bad(String),
    /// The token is missing or another.
    Unauthorized,
    /// Only these methods are known here.
    Method(&'static [Method]),
    /// The address asks too often; there is room again after this time.
    TooMany(Duration),
    /// A body has more bytes than this.
    TooLarge(usize),
    /// A body did not come in time.
    Slow,
    /// A body did not come to its end.
    Broken,
    /// The catalog says no.
    Refused(Refusal),
    /// Nobody can be asked.
    Unavailable(Unavailable),
    /// There are too many of these already.
    Overloaded(&'static str),
}

impl Failure {
    pub(crate) fn bad(text: impl Into<String>) -> Self {
        Self::Bad(text.into())
    }

    pub(crate) fn into_reply(self) -> Reply {
        match self {
            Self::Plain(status, words) => text(status, words),
            Self::Bad(why) => error(StatusCode::BAD_REQUEST, &why),
            Self::Unauthorized => challenge(),
            Self::Method(allowed) => wrong_method(allowed),
            Self::TooMany(wait) => {
                retry(error(StatusCode::TOO_MANY_REQUESTS, "too many requests"), wait)
            }
            Self::TooLarge(limit) => {
                let why = format!("the body has more than {limit} bytes");
                error(StatusCode::PAYLOAD_TOO_LARGE, &why)
            }
            Self::Slow => error(StatusCode::REQUEST_TIMEOUT, "the body did not come in time"),
            Self::Broken => error(StatusCode::BAD_REQUEST, "the body did not come to its end"),
            Self::Refused(refusal) => refused(&refusal),
            Self::Unavailable(why) => unavailable(why),
            Self::Overloaded(what) => {
                let why = format!("too many {what}");
                retry(error(StatusCode::SERVICE_UNAVAILABLE, &why), Duration::from_secs(1))
            }
        }
    }
}

impl From<Unavailable> for Failure {
    fn from(why: Unavailable) -> Self {
        Self::Unavailable(why)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

fn error(status: StatusCode, why: &str) -> Reply {
    json_reply(status, &json!({ "error": why }))
}

fn challenge() -> Reply {
    let mut reply = error(StatusCode::UNAUTHORIZED, "this server wants a bearer token");
    reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    reply
}

fn wrong_method(allowed: &[Method]) -> Reply {
    let mut reply = text(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed");
    let names: Vec<&str> = allowed.iter().map(Method::as_str).collect();
    if let Ok(names) = HeaderValue::try_from(names.join(", ")) {
        reply.headers_mut().insert(ALLOW, names);
    }
    reply
}

/// Whole seconds, and never none: a client that comes back at once gains nothing.
fn retry(mut reply: Reply, after: Duration) -> Reply {
    let seconds = HeaderValue::from(after.as_secs() + 1);
    reply.headers_mut().insert(RETRY_AFTER, seconds);
    reply
}

fn refused(refusal: &Refusal) -> Reply {
    let named = |owner: &Option<Arc<str>>| owner.as_deref().map(str::to_owned);
    match refusal {
        Refusal::NotFound => text(StatusCode::NOT_FOUND, "metadata not found"),
        Refusal::Unmet { revision, owner } => {
            let body = json!({
                "error": "the condition does not hold",
                "revision": revision,
                "owner": named(owner),
            });
            json_reply(StatusCode::PRECONDITION_FAILED, &body)
        }
        Refusal::Owned { owner, expires } => {
            let body = json!({
                "error": "another owner lives",
                "owner": owner,
                "expires_ms": expires.map(millis),
            });
            json_reply(StatusCode::CONFLICT, &body)
        }
        Refusal::Full { what, limit } => {
            let why = format!("the limit of {limit} {what} is reached");
            error(StatusCode::INSUFFICIENT_STORAGE, &why)
        }
    }
}

fn unavailable(why: Unavailable) -> Reply {
    let words = match why {
        Unavailable::Storage => "the data file cannot be used",
        Unavailable::Overloaded => "too many questions wait",
        Unavailable::Closing => "the server ends",
    };
    retry(error(StatusCode::SERVICE_UNAVAILABLE, words), Duration::ZERO)
}
