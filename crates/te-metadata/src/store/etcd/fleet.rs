//! The endpoints of one etcd, and which of them is asked.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, Error};
use tokio::sync::Mutex;

use super::failure::{Cause, Failure};
use crate::store::{OpenStoreError, StoreOptions};

/// Least time that an endpoint gets before the next one is asked.
const LEAST_SHARE: Duration = Duration::from_millis(400);
/// How often a quiet connection is checked; etcd closes those that ask more often than each 5 s.
const PING_EVERY: Duration = Duration::from_secs(10);

/// The clients of all endpoints.
pub(super) struct Fleet {
    endpoints: Vec<Endpoint>,
    options: ConnectOptions,
    /// How long an endpoint may be silent before the next is asked.
    share: Duration,
    /// The one that answered last.
    present: AtomicUsize,
}

struct Endpoint {
    url: String,
    client: Mutex<Option<Client>>,
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("n_endpoints", &self.endpoints.len()).finish_non_exhaustive()
    }
}

impl Fleet {
    pub(super) fn new(urls: Vec<String>, options: ConnectOptions, call_timeout: Duration) -> Self {
        let n_endpoints = u32::try_from(urls.len()).unwrap_or(u32::MAX).max(1);
        // The last one must be able to tell its own error.
        let share = (call_timeout / n_endpoints).max(LEAST_SHARE.min(call_timeout));
        let endpoints = urls.into_iter().map(|url| Endpoint { url, client: Mutex::new(None) });
        Self { endpoints: endpoints.collect(), options, share, present: AtomicUsize::new(0) }
    }

    /// Does something at one endpoint after the other, until one answers.
    pub(super) async fn run<T, F>(&self, work: impl Fn(Client) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let start = self.present.load(Ordering::Relaxed);
        let mut last = None;
        for step in 0..self.endpoints.len() {
            let idx = (start + step) % self.endpoints.len();
            match self.insist(&self.endpoints[idx], &work).await {
                Err(failure) if failure.moves_on() => last = Some(failure),
                answer => {
                    self.present.store(idx, Ordering::Relaxed);
                    return answer;
                }
            }
        }
        let none = || Failure { endpoint: String::new(), cause: Cause::Silent };
        Err(last.unwrap_or_else(none))
    }

    /// Asks an endpoint; once more on a new connection where an old one turns out to be lost.
    async fn insist<T, F>(
        &self,
        endpoint: &Endpoint,
        work: &impl Fn(Client) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        loop {
            let was_connected = endpoint.client.lock().await.is_some();
            let answer = self.attempt(endpoint, work).await;
            let Err(failure) = &answer else { return answer };
            if !failure.moves_on() {
                return answer;
            }
            endpoint.client.lock().await.take();
            if !was_connected || matches!(failure.cause, Cause::Silent) {
                return answer;
            }
        }
    }

    async fn attempt<T, F>(
        &self,
        endpoint: &Endpoint,
        work: &impl Fn(Client) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let failed = |cause| Failure { endpoint: endpoint.url.clone(), cause };
        let whole = async { work(self.client(endpoint).await?).await };
        match tokio::time::timeout(self.share, whole).await {
            Ok(answer) => answer.map_err(|error| failed(Cause::Said(Box::new(error)))),
            Err(_) => Err(failed(Cause::Silent)),
        }
    }

    /// The client of an endpoint; made, and its user logged in, where there is none.
    async fn client(&self, endpoint: &Endpoint) -> Result<Client, Error> {
        let mut client = endpoint.client.lock().await;
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        let fresh = Client::connect([&endpoint.url], Some(self.options.clone())).await?;
        *client = Some(fresh.clone());
        Ok(fresh)
    }

    pub(super) fn malformed(&self, reason: &'static str) -> Failure {
        Failure { endpoint: String::new(), cause: Cause::Malformed(reason) }
    }
}

/// What every client is set up with.
pub(super) fn connect_options(
    is_encrypted: bool,
    options: &StoreOptions,
) -> Result<ConnectOptions, OpenStoreError> {
    let mut connect = ConnectOptions::new()
        .with_connect_timeout(options.connect_timeout)
        .with_keep_alive(PING_EVERY, options.call_timeout)
        .with_require_leader(true)
        .with_auto_token_refresh(true);
    if let (Some(user), Some(password)) =
        (&options.credentials.username, &options.credentials.password)
    {
        connect = connect.with_user(user, password.reveal());
    }
    if is_encrypted { encrypted(connect, options) } else { Ok(connect) }
}

#[cfg(feature = "tls")]
fn encrypted(
    connect: ConnectOptions,
    options: &StoreOptions,
) -> Result<ConnectOptions, OpenStoreError> {
    use etcd_client::{Certificate, Identity, TlsOptions};
    let read = |path: &std::path::Path| {
        let failed = |source| OpenStoreError::File { path: path.into(), source: Box::new(source) };
        std::fs::read(path).map_err(failed)
    };
    let files = &options.tls;
    let mut tls = match &files.authorities {
        Some(path) => TlsOptions::new().ca_certificate(Certificate::from_pem(read(path)?)),
        None => TlsOptions::new().with_native_roots(),
    };
    match (&files.certificate, &files.key) {
        (None, None) => {}
        (Some(certificate), Some(key)) => {
            tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        _ => return Err(OpenStoreError::HalfIdentity),
    }
    Ok(connect.with_tls(tls))
}

#[cfg(not(feature = "tls"))]
fn encrypted(_: ConnectOptions, _: &StoreOptions) -> Result<ConnectOptions, OpenStoreError> {
    let available = crate::store::available_stores();
    Err(OpenStoreError::NotBuilt { scheme: "etcds", available })
}
