//! One HTTP request and its answer, in bounded time and size.

use std::error::Error as StdError;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderName, HeaderValue};
use hyper::{Method, Request};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::road::{Road, parse_proxy};
use crate::store::cause::{TlsCause, causes, chain, tls_cause};
use crate::store::driver::{Driver, NoAnswer};
use crate::store::{
    MAX_VALUE_BYTES, OpenStoreError, Revision, StoreError, StoreOptions, StorePhase,
};

#[cfg(feature = "tls")]
type Connector = hyper_rustls::HttpsConnector<Road>;
#[cfg(not(feature = "tls"))]
type Connector = Road;

type Pool = Client<Connector, Full<Bytes>>;

/// The header by which our own server is known.
const OURS: &str = "te-metadata-server";

/// A client of one server.
#[derive(Debug)]
pub(super) struct HttpClient {
    driver: Driver<Pool>,
    /// The store as messages name it.
    uri: String,
    /// `host:port`, and through which proxy, for messages.
    address: String,
    authorization: Option<HeaderValue>,
    call_timeout: Duration,
}

/// A request.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) target: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
    /// How long the server may think on purpose, on top of the usual bound.
    pub(super) patience: Duration,
}

impl Call {
    pub(super) fn new(method: Method, target: String) -> Self {
        let (headers, body, patience) = (Vec::new(), Vec::new(), Duration::ZERO);
        Self { method, target, headers, body, patience }
    }

    pub(super) fn header(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    pub(super) fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self
    }
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) revision: Option<Revision>,
    /// Whether our own server gave it.
    pub(super) is_ours: bool,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// The answer's text, for messages.
    pub(super) fn says(&self) -> String {
        let text: String = String::from_utf8_lossy(&self.body).trim().chars().take(200).collect();
        format!("status {}: {text}", self.status)
    }
}

/// Why a request has no answer.
#[derive(Debug)]
enum Failure {
    Request(hyper_util::client::legacy::Error),
    Body(Box<dyn StdError + Send + Sync>),
    Malformed(String),
}

impl HttpClient {
    pub(super) fn open(
        uri: String,
        address: String,
        options: &StoreOptions,
    ) -> Result<Self, OpenStoreError> {
        let authorization = options.credentials.token.as_ref().map(|token| {
            let value = HeaderValue::try_from(format!("Bearer {}", token.reveal()));
            value.map(|mut value| {
                value.set_sensitive(true);
                value
            })
        });
        let authorization = authorization.transpose().map_err(|_| OpenStoreError::BadOption {
            option: "token",
            reason: "it has characters that HTTP does not carry".to_owned(),
        })?;
        let connector = connector(options)?;
        let address = match &options.http_proxy {
            Some(proxy) => format!("{address} through {proxy}"),
            None => address,
        };
        let build = move || {
            Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .timer(TokioTimer::new())
                .pool_idle_timeout(Duration::from_secs(20))
                .pool_max_idle_per_host(4)
                .build(connector.clone())
        };
        let (driver, call_timeout) = (Driver::new(build), options.call_timeout);
        Ok(Self { driver, uri, address, authorization, call_timeout })
    }

    /// Asks the server.
    pub(super) fn call(&self, call: &Call) -> Result<Answer, StoreError> {
        let limit = self.call_timeout + call.patience;
        // A reused connection may have been closed by the server in this very moment. Every
        // request of ours may be sent twice.
        let requests = [self.request(call)?, self.request(call)?];
        let answer = self.driver.call(limit, |pool| exchange(pool, requests));
        let answer = match answer {
            Ok(answer) => answer.map_err(|failure| self.failed(failure))?,
            Err(NoAnswer::TimedOut) => {
                let text = format!("no answer within {} ms", limit.as_millis());
                return Err(self.unreachable(StorePhase::Exchange, text.into()));
            }
            Err(NoAnswer::NoThread(error)) => {
                return Err(self.unreachable(StorePhase::Connect, Box::new(error)));
            }
        };
        match answer.status {
            401 | 403 => {
                Err(StoreError::Unauthorised { uri: self.uri.clone(), reason: answer.says() })
            }
            429 | 500.. => Err(self.unreachable(StorePhase::Exchange, answer.says().into())),
            _ => Ok(answer),
        }
    }

    fn request(&self, call: &Call) -> Result<Request<Full<Bytes>>, StoreError> {
        let mut builder = Request::builder().method(&call.method).uri(&call.target);
        if let Some(authorization) = &self.authorization {
            builder = builder.header(AUTHORIZATION, authorization);
        }
        if !call.body.is_empty() {
            builder = builder.header(CONTENT_TYPE, "application/json");
        }
        for (name, value) in &call.headers {
            builder = builder.header(HeaderName::from_static(name), value);
        }
        let request = builder.body(Full::new(Bytes::copy_from_slice(&call.body)));
        request.map_err(|error| self.malformed(format!("the request cannot be made: {error}")))
    }

    fn failed(&self, failure: Failure) -> StoreError {
        match failure {
            Failure::Malformed(reason) => self.malformed(reason),
            Failure::Body(error) => self.unreachable(StorePhase::Exchange, error),
            Failure::Request(error) => match tls_cause(&error) {
                Some(TlsCause::Trust) => StoreError::BadCertificate {
                    uri: self.uri.clone(),
                    address: self.address.clone(),
                    source: chain(&error).into(),
                },
                Some(TlsCause::Handshake) => self.unreachable(StorePhase::Tls, Box::new(error)),
                None if error.is_connect() => {
                    self.unreachable(StorePhase::Connect, Box::new(error))
                }
                None => self.unreachable(StorePhase::Exchange, Box::new(error)),
            },
        }
    }

    pub(super) fn malformed(&self, reason: String) -> StoreError {
        StoreError::Malformed { uri: self.uri.clone(), reason }
    }

    fn unreachable(
        &self,
        phase: StorePhase,
        source: Box<dyn StdError + Send + Sync>,
    ) -> StoreError {
        StoreError::Unreachable {
            uri: self.uri.clone(),
            phase,
            address: self.address.clone(),
            source,
        }
    }
}

async fn exchange(pool: Pool, requests: [Request<Full<Bytes>>; 2]) -> Result<Answer, Failure> {
    let [first, second] = requests;
    let response = match pool.request(first).await {
        Err(error) if was_closed(&error) => pool.request(second).await,
        response => response,
    };
    let response = response.map_err(Failure::Request)?;
    let headers = response.headers();
    let etag = headers.get(ETAG).and_then(|value| value.to_str().ok());
    let revision = etag.map(|text| Revision::new(text.trim_matches('"')));
    let is_ours = headers.get(OURS).is_some_and(|value| value == "1");
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), MAX_VALUE_BYTES).collect().await;
    let body = body.map_err(|error| {
        if causes(&*error).any(|cause| cause.is::<LengthLimitError>()) {
            return Failure::Malformed(format!("it has more than {MAX_VALUE_BYTES} bytes"));
        }
        Failure::Body(error)
    })?;
    Ok(Answer { status, revision, is_ours, body: body.to_bytes().to_vec() })
}

/// Whether the connection ended before an answer began.
fn was_closed(error: &hyper_util::client::legacy::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    let is_end = |cause: &(dyn StdError + 'static)| {
        let hyper = cause.downcast_ref::<hyper::Error>();
        let io = cause.downcast_ref::<std::io::Error>();
        hyper.is_some_and(|error| error.is_incomplete_message() || error.is_canceled())
            || io.is_some_and(|error| [BrokenPipe, ConnectionReset].contains(&error.kind()))
    };
    !error.is_connect() && causes(error).any(is_end)
}

fn road(options: &StoreOptions) -> Result<Road, OpenStoreError> {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(options.connect_timeout));
    connector.set_nodelay(true);
    connector.enforce_http(false);
    let proxy = options.http_proxy.as_deref().map(parse_proxy).transpose()?;
    Ok(Road { connector, proxy })
}

#[cfg(feature = "tls")]
fn connector(options: &StoreOptions) -> Result<Connector, OpenStoreError> {
    let config = crate::store::tls::client_config(&options.tls)?;
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_or_http()
        .enable_http1()
        .wrap_connector(road(options)?);
    Ok(connector)
}

#[cfg(not(feature = "tls"))]
fn connector(options: &StoreOptions) -> Result<Connector, OpenStoreError> {
    road(options)
}
