//! Starting and ending the server.
//!
//! ```text
//!   te-metadata-http (2 threads)   accept, connections, requests   ── commands ──▶  te-keeper
//! ```
//!
//! I1  After [`Server::shutdown`] no thread of it is left, and everything that was acknowledged is
//!     in the data file.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hyper_util::server::graceful::GracefulShutdown;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, oneshot};
use tracing::{info, warn};

use crate::admission::Admission;
use crate::clock;
use crate::config::ServerConfig;
use crate::connection;
use crate::counters::Counters;
use crate::error::StartError;
use crate::http::Shared;
use crate::keeper::{Handle, Keeper};
use crate::rate::RateLimit;
use crate::storage::{Disk, Memory, Storage, StorageError};
use crate::tls::{self, Acceptor};

/// A running server. Dropping it ends it, like [`shutdown`](Self::shutdown) does.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    has_tls: bool,
    is_durable: bool,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    shared: Arc<Shared>,
    runtime: Runtime,
    stop: oneshot::Sender<()>,
    accept: tokio::task::JoinHandle<()>,
    keeper: JoinHandle<()>,
}

impl Server {
    /// Reads the data file, listens, and serves on threads of its own.
    ///
    /// # Errors
    ///
    /// [`StartError`] says what stands in the way; nothing is left running then.
    pub fn start(config: ServerConfig) -> Result<Self, StartError> {
        config.limits.check()?;
        let acceptor = config.tls.as_ref().map(tls::acceptor).transpose()?;
        let counters = Arc::new(Counters::default());
        let keeper = open(&config, &counters)?;
        let listener = listen(config.listen)?;
        let address = listener
            .local_addr()
            .map_err(|source| StartError::Listen { address: config.listen, source })?;
        let (inbox, commands) = mpsc::sync_channel(INBOX);
        let shared = Arc::new(share(config, Handle::new(inbox), counters, acceptor.is_some()));
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("te-metadata-http")
            .enable_all()
            .build()
            .map_err(StartError::Thread)?;
        let thread = thread::Builder::new().name("te-keeper".to_owned());
        let keeper = thread.spawn(move || keeper.run(&commands)).map_err(StartError::Thread)?;
        let (stop, stopped) = oneshot::channel();
        let listener = {
            let _context = runtime.enter();
            TcpListener::from_std(listener)
        };
        let listener = listener.map_err(|source| StartError::Listen { address, source })?;
        let accept = runtime.spawn(accept(Arc::clone(&shared), listener, acceptor, stopped));
        let (has_tls, is_durable) = (shared.has_tls, shared.is_durable);
        let running = Some(Running { shared, runtime, stop, accept, keeper });
        info!(%address, "metadata server");
        Ok(Self { address, has_tls, is_durable, running })
    }

    /// Where it listens, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.has_tls { "https" } else { "http" }
    }

    /// Whether what it knows survives its end.
    pub fn is_durable(&self) -> bool {
        self.is_durable
    }

    /// Takes no new connection, answers who waits for news, lets requests come to their end for
    /// at most `shutdown_timeout`, stores everything, and ends.
    pub fn shutdown(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let Some(running) = self.running.take() else { return };
        let Running { shared, runtime, stop, accept, keeper } = running;
        shared.keeper.drain();
        // Both may have ended already.
        let _ = stop.send(());
        let _ = runtime.block_on(accept);
        runtime.shutdown_timeout(Duration::from_secs(1));
        // The keeper ends when nobody can ask it any more.
        drop(shared);
        if keeper.join().is_err() {
            warn!("the keeper's thread has panicked");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn open(config: &ServerConfig, counters: &Arc<Counters>) -> Result<Keeper, StartError> {
    let storage: Box<dyn Storage> = match &config.data {
        Some(path) => Box::new(Disk::new(path)),
        None => Box::new(Memory),
    };
    let opened = Keeper::open(storage, &config.limits, Arc::clone(counters), clock::now());
    let path = config.data.as_deref().unwrap_or_else(|| Path::new("(none)"));
    let failed = |source: StorageError| StartError::Data { path: path.to_owned(), source };
    opened.map_err(failed)
}

fn listen(address: SocketAddr) -> Result<StdListener, StartError> {
    let failed = |source| StartError::Listen { address, source };
    let listener = StdListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

fn share(config: ServerConfig, keeper: Handle, counters: Arc<Counters>, has_tls: bool) -> Shared {
    Shared {
        keeper,
        counters,
        rate: Mutex::new(RateLimit::new(config.limits.requests_per_second)),
        body_room: Semaphore::new(config.limits.max_body_bytes),
        token: config.token,
        started: clock::now(),
        is_durable: config.data.is_some(),
        has_tls,
        limits: config.limits,
    }
}

/// Takes connections until it is told to stop, then waits for those that are open.
async fn accept(
    shared: Arc<Shared>,
    listener: TcpListener,
    tls: Option<Acceptor>,
    mut stopped: oneshot::Receiver<()>,
) {
    let limits = &shared.limits;
    let admission = Admission::new(limits.max_connections, limits.max_connections_per_address);
    let graceful = GracefulShutdown::new();
    loop {
        let next = tokio::select! {
            _ = &mut stopped => break,
            next = listener.accept() => next,
        };
        match next {
            Ok((stream, peer)) => {
                take(&shared, &admission, (stream, peer), tls.clone(), &graceful);
            }
            Err(error) => {
                // Most often there are no descriptors left; they come back as connections end.
                warn!(%error, "cannot take a connection");
                tokio::time::sleep(REST).await;
            }
        }
    }
    drop(listener);
    let ended = tokio::time::timeout(limits.shutdown_timeout, graceful.shutdown()).await;
    if ended.is_err() {
        info!(n = admission.n_open(), "connections are cut off");
    }
}

fn take(
    shared: &Arc<Shared>,
    admission: &Arc<Admission>,
    (stream, peer): (TcpStream, SocketAddr),
    tls: Option<Acceptor>,
    graceful: &GracefulShutdown,
) {
    let counters = &shared.counters;
    counters.n_accepted.fetch_add(1, Relaxed);
    let Some(place) = admission.enter(peer.ip()) else {
        counters.n_turned_away.fetch_add(1, Relaxed);
        if tls.is_none() {
            // If the buffer of a new connection does not take it, nobody is told.
            let _ = stream.try_write(TOO_MANY);
        }
        return;
    };
    counters.n_connections.fetch_add(1, Relaxed);
    let (shared, watcher) = (Arc::clone(shared), graceful.watcher());
    tokio::spawn(async move {
        let counters = Arc::clone(&shared.counters);
        connection::serve(shared, stream, peer, tls, watcher).await;
        counters.n_connections.fetch_sub(1, Relaxed);
        drop(place);
    });
}

/// Commands that may wait; each connection has at most one.
const INBOX: usize = 4096;

/// A rest after a failed accept.
const REST: Duration = Duration::from_millis(50);

const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nte-metadata-server: 1\r\n\
    retry-after: 1\r\ncontent-length: 20\r\nconnection: close\r\n\r\ntoo many connections";
