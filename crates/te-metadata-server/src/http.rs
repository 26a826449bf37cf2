//! Requests and their answers.
//!
//! | path | methods | file |
//! |---|---|---|
//! | `/metadata?key=K` | GET, HEAD, PUT, DELETE | `kv.rs`: Mooncake's contract, with owners and conditions |
//! | `/v1/renew`, `/v1/keys`, `/v1/watch` | POST; GET; GET | `api.rs` |
//! | `/v1/status`, `/` | GET | `page.rs`: the status page and what it shows |
//! | `/health`, `/metrics` | GET | `health.rs` |
//!
//! I1  Every answer has the header `te-metadata-server`, so that a client knows whom it talks to.
//! I2  With a token, nothing but `/health` and the empty status page answers without it.
//! I3  A request's size, time and memory are bounded before any of it is understood.

mod api;
mod body;
mod health;
mod kv;
mod page;
mod reply;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, EXPECT};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::clock;
use crate::counters::Counters;
use crate::keeper::Handle;
use crate::limits::Limits;
use crate::moment::Moment;
use crate::query::Query;
use crate::rate::RateLimit;
use crate::token::Token;

use reply::Failure;

/// An answer.
pub(crate) type Reply = Response<Full<Bytes>>;

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) keeper: Handle,
    pub(crate) counters: Arc<Counters>,
    pub(crate) limits: Limits,
    pub(crate) token: Option<Token>,
    pub(crate) rate: Mutex<RateLimit>,
    /// One permit for each byte of a body that may still be received.
    pub(crate) body_room: Semaphore,
    pub(crate) started: Moment,
    pub(crate) is_durable: bool,
    pub(crate) has_tls: bool,
}

/// Where a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    Metadata,
    Renew,
    Keys,
    Watch,
    Status,
    Health,
    Metrics,
    Page,
    Unknown,
}

impl Route {
    fn of(path: &str) -> Self {
        match path {
            "/metadata" => Self::Metadata,
            "/v1/renew" => Self::Renew,
            "/v1/keys" => Self::Keys,
            "/v1/watch" => Self::Watch,
            "/v1/status" => Self::Status,
            "/health" => Self::Health,
            "/metrics" => Self::Metrics,
            "/" => Self::Page,
            _ => Self::Unknown,
        }
    }

    /// In `/metrics`.
    fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Renew => "renew",
            Self::Keys => "keys",
            Self::Watch => "watch",
            Self::Status => "status",
            Self::Health => "health",
            Self::Metrics => "metrics",
            Self::Page => "page",
            Self::Unknown => "unknown",
        }
    }

    fn allowed(self) -> &'static [Method] {
        match self {
            Self::Metadata => &[Method::GET, Method::HEAD, Method::PUT, Method::DELETE],
            Self::Renew => &[Method::POST],
            _ => &[Method::GET, Method::HEAD],
        }
    }

    /// Whether it answers without the token: probes of load balancers have none, and the page is
    /// empty until it was given one.
    fn is_open(self) -> bool {
        matches!(self, Self::Health | Self::Page)
    }
}

/// A request's body, until somebody takes it.
type Pending = Option<Incoming>;

/// Answers one request.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    peer: IpAddr,
    request: Request<Incoming>,
) -> Result<Reply, Infallible> {
    let (head, body) = request.into_parts();
    let (route, mut body) = (Route::of(head.uri.path()), Some(body));
    let answer = match admit(&shared, peer, route, &head) {
        Ok(query) => dispatch(&shared, route, &query, &head, &mut body).await,
        Err(failure) => Err(failure),
    };
    // A connection with half a body in it could not be used again, and to close it in the midst of
    // a client's sending may cost the client the answer.
    if let Some(rest) = body.filter(|_| !head.headers.contains_key(EXPECT)) {
        body::drain(rest).await;
    }
    let reply = reply::finish(answer.unwrap_or_else(Failure::into_reply));
    shared.counters.answered(route.name(), reply.status().as_u16());
    Ok(reply)
}

/// Whether the request is one to answer at all; its query if so.
fn admit(shared: &Shared, peer: IpAddr, route: Route, head: &Parts) -> Result<Query, Failure> {
    let taken = shared.rate.lock().take(clock::now().mono, peer);
    taken.map_err(Failure::TooMany)?;
    if route == Route::Unknown {
        return Err(Failure::Plain(StatusCode::NOT_FOUND, "no such path"));
    }
    if let Some(token) = shared.token.as_ref().filter(|_| !route.is_open()) {
        let shown = head.headers.get(AUTHORIZATION);
        if !shown.is_some_and(|shown| token.is_shown_by(shown.as_bytes())) {
            return Err(Failure::Unauthorized);
        }
    }
    if !route.allowed().contains(&head.method) {
        return Err(Failure::Method(route.allowed()));
    }
    Query::parse(head.uri.query().unwrap_or_default())
        .map_err(|_| Failure::bad("the query is not percent-encoded UTF-8"))
}

async fn dispatch(
    shared: &Arc<Shared>,
    route: Route,
    query: &Query,
    head: &Parts,
    body: &mut Pending,
) -> Result<Reply, Failure> {
    match route {
        Route::Metadata => kv::answer(shared, query, head, body).await,
        Route::Renew => api::renew(shared, body).await,
        Route::Keys => api::keys(shared, query).await,
        Route::Watch => api::watch(shared, query).await,
        Route::Status => page::status(shared, query).await,
        Route::Health => Ok(health::health(shared)),
        Route::Metrics => Ok(health::metrics(shared)),
        Route::Page => Ok(page::page()),
        Route::Unknown => Err(Failure::Plain(StatusCode::NOT_FOUND, "no such path")),
    }
}
