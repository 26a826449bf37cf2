//! One connection: TLS if there is any, then requests one after the other.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::Watcher;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tracing::debug;

use crate::http::{self, Shared};
use crate::patient::Patient;
use crate::tls::Acceptor;

/// Serves `stream` until one side ends it.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<Acceptor>,
    watcher: Watcher,
) {
    // Answers are small and whole; to hold them back for more gains nothing.
    let _ = stream.set_nodelay(true);
    let ended = match tls {
        None => speak(Arc::clone(&shared), stream, peer, watcher).await,
        Some(acceptor) => shake_hands(&shared, stream, peer, acceptor, watcher).await,
    };
    if let Err(fault) = ended {
        shared.counters.n_broken_off.fetch_add(1, Relaxed);
        debug!(%peer, fault, "connection ended in a fault");
    }
}

#[cfg(feature = "tls")]
async fn shake_hands(
    shared: &Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    acceptor: Acceptor,
    watcher: Watcher,
) -> Result<(), String> {
    let limit = shared.limits.tls_timeout;
    let shaken = tokio::time::timeout(limit, acceptor.accept(stream)).await;
    let stream = shaken.map_err(|_| "no TLS handshake in time".to_owned())?;
    let stream = stream.map_err(|error| format!("TLS: {error}"))?;
    speak(Arc::clone(shared), stream, peer, watcher).await
}

#[cfg(not(feature = "tls"))]
async fn shake_hands(
    _shared: &Arc<Shared>,
    _stream: TcpStream,
    _peer: SocketAddr,
    acceptor: Acceptor,
    _watcher: Watcher,
) -> Result<(), String> {
    match acceptor {}
}

async fn speak<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    shared: Arc<Shared>,
    stream: S,
    peer: SocketAddr,
    watcher: Watcher,
) -> Result<(), String> {
    let stream = Patient::new(stream, shared.limits.write_timeout);
    let header_timeout = shared.limits.header_timeout;
    let service = service_fn(move |request| http::serve(Arc::clone(&shared), peer.ip(), request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .max_buf_size(MAX_BUFFER)
        .max_headers(64)
        .serve_connection(TokioIo::new(stream), service);
    watcher.watch(connection).await.map_err(|error| error.to_string())
}

/// A head is at most this long. A key of 4 KiB has three times as many bytes once it is encoded.
const MAX_BUFFER: usize = 128 << 10;
