//! The answering side: a listener, a thread, and the handle that ends it.
//!
//! The thread owns every socket. The handle shares three things with it: the counters, the wish to
//! stop, and the news that it has ended.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mio::Waker;
use te_sync::{Condvar, Mutex};
use thiserror::Error;

use super::deadline::now;
use super::serve::Serving;
use super::stats::Counters;
use super::{PeerLimits, PeerServerStats, PeerService};
use crate::{BindError, ListenAddress, PortChoice, bind_listener};

/// A server whose port is taken but that does not answer yet; clients already queue.
#[derive(Debug)]
pub struct BoundPeerServer {
    listener: TcpListener,
    port: u16,
    limits: PeerLimits,
}

impl BoundPeerServer {
    /// Takes a port.
    ///
    /// # Errors
    /// See [`BindError`]; wrong limits are one too.
    pub fn bind(
        address: &ListenAddress,
        choice: PortChoice,
        limits: PeerLimits,
    ) -> Result<Self, BindError> {
        limits.validate()?;
        let listener = bind_listener(address, choice, limits.backlog)?;
        let local = listener.local_addr();
        let port = local.map_err(|source| BindError::Local { source })?.port();
        Ok(Self { listener, port, limits })
    }

    /// The port that is taken.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Starts to answer, on a thread of its own.
    ///
    /// # Errors
    /// The system gives no thread or no event queue.
    pub fn start(self, service: Arc<dyn PeerService>) -> Result<PeerServer, StartError> {
        let shared = Arc::new(Shared::default());
        let failed = |source| StartError { source };
        let serving = Serving::new(self.listener, self.limits, service, Arc::clone(&shared));
        let (serving, waker) = serving.map_err(failed)?;
        let over = Over(Arc::clone(&shared));
        let run = move || {
            // Dropped last, when every socket is closed.
            let _over = over;
            serving.run();
        };
        let thread =
            thread::Builder::new().name("te-peer".to_owned()).spawn(run).map_err(failed)?;
        let running = Mutex::new(Some(Running { thread, waker }));
        Ok(PeerServer { port: self.port, shared, running })
    }
}

/// A server that answers peers until it is closed or dropped.
#[derive(Debug)]
pub struct PeerServer {
    port: u16,
    shared: Arc<Shared>,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    thread: JoinHandle<()>,
    waker: Arc<Waker>,
}

impl PeerServer {
    /// The port on which peers are answered.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The counters now.
    pub fn stats(&self) -> PeerServerStats {
        self.shared.counters.snapshot()
    }

    /// Closes every connection and the listener and waits for the thread, at most `limit`. A
    /// second call does nothing.
    ///
    /// # Errors
    /// The thread is held up in the [`PeerService`]; the sockets close when that returns, and the
    /// call may be repeated.
    pub fn close(&self, limit: Duration) -> Result<(), CloseError> {
        let mut running = self.running.lock();
        let Some(Running { waker, .. }) = running.as_ref() else { return Ok(()) };
        // Pairs with the acquiring load in `Serving::run`.
        self.shared.stop.store(true, Ordering::Release);
        if let Err(error) = waker.wake() {
            tracing::warn!(%error, "the peer server could not be woken");
        }
        if !self.shared.wait_over(limit) {
            return Err(CloseError { limit });
        }
        if let Some(Running { thread, .. }) = running.take()
            && thread.join().is_err()
        {
            tracing::error!(port = self.port, "the thread of the peer server had panicked");
        }
        Ok(())
    }
}

impl Drop for PeerServer {
    fn drop(&mut self) {
        if let Err(error) = self.close(DROP_LIMIT) {
            tracing::warn!(port = self.port, %error, "a peer server is left behind");
        }
    }
}

/// What the handle and the thread share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) counters: Counters,
    pub(super) stop: AtomicBool,
    over: Mutex<bool>,
    over_changed: Condvar,
}

impl Shared {
    /// Waits for the end of the thread; false when the time was over first.
    fn wait_over(&self, limit: Duration) -> bool {
        let mut over = self.over.lock();
        let end = now() + limit;
        while !*over {
            if self.over_changed.wait_until(&mut over, end).timed_out() {
                return *over;
            }
        }
        true
    }
}

/// Tells the handle that the thread has ended, however it did.
struct Over(Arc<Shared>);

impl Drop for Over {
    fn drop(&mut self) {
        *self.0.over.lock() = true;
        self.0.over_changed.notify_all();
    }
}

/// The system gave no thread or no event queue.
#[derive(Debug, Error)]
#[error("cannot start the peer server")]
pub struct StartError {
    #[source]
    source: io::Error,
}

/// A server did not end in time.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the peer server did not end within {} ms: its service is busy", limit.as_millis())]
pub struct CloseError {
    limit: Duration,
}

/// How long dropping a server waits for its thread.
const DROP_LIMIT: Duration = Duration::from_secs(5);
