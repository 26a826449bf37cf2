//! The way to a server: straight, or through a proxy that was asked for.
//!
//! Towards `http` the proxy is sent whole addresses and passes requests on; towards `https` it is
//! asked for a tunnel (`CONNECT`) and sees nothing of what passes.

use std::error::Error as StdError;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::Uri;
use hyper::http::uri::Scheme;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::store::OpenStoreError;

/// Makes connections.
#[derive(Debug, Clone)]
pub(super) struct Road {
    pub(super) connector: HttpConnector,
    pub(super) proxy: Option<Uri>,
}

/// Reads `http://host:port`.
pub(super) fn parse_proxy(text: &str) -> Result<Uri, OpenStoreError> {
    let bad = |reason: &str| OpenStoreError::BadOption {
        option: "http_proxy",
        reason: reason.to_owned(),
    };
    let uri: Uri = text.parse().map_err(|_| bad("it is no address"))?;
    let is_plain =
        uri.scheme() == Some(&Scheme::HTTP) && uri.path() == "/" && uri.query().is_none();
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
    match authority.and_then(|authority| authority.port_u16()) {
        Some(_) if is_plain => Ok(uri),
        _ => Err(bad("it is to be http://host:port, without a user")),
    }
}

type BoxError = Box<dyn StdError + Send + Sync>;

impl Service<Uri> for Road {
    type Response = Leg;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Leg, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let is_encrypted = server.scheme() == Some(&Scheme::HTTPS);
        match &self.proxy {
            Some(proxy) if is_encrypted => {
                let opening = self.connector.call(proxy.clone());
                Box::pin(async move {
                    let stream = tunnel(opening.await?.into_inner(), &server).await?;
                    Ok(Leg { stream: TokioIo::new(stream), is_to_proxy: false })
                })
            }
            proxy => {
                let is_to_proxy = proxy.is_some();
                let opening = self.connector.call(proxy.clone().unwrap_or(server));
                Box::pin(async move { Ok(Leg { stream: opening.await?, is_to_proxy }) })
            }
        }
    }
}

/// Most bytes of a proxy's answer to `CONNECT`.
const MAX_ANSWER: usize = 8 << 10;

/// Asks a proxy to lead on to the server. The caller bounds the time.
async fn tunnel(stream: TcpStream, server: &Uri) -> Result<TcpStream, BoxError> {
    let (host, port) = (server.host().unwrap_or_default(), server.port_u16().unwrap_or(443));
    let question = format!("CONNECT {host}:{port} HTTP/1.1\r\nhost: {host}:{port}\r\n\r\n");
    let mut left = question.as_bytes();
    while !left.is_empty() {
        stream.writable().await?;
        match stream.try_write(left) {
            Ok(n) => left = &left[n..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    // Byte by byte: what follows the answer belongs to the server.
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        stream.readable().await?;
        let mut byte = [0];
        match stream.try_read(&mut byte) {
            Ok(1) if answer.len() < MAX_ANSWER => answer.push(byte[0]),
            Ok(_) => return Err("the proxy's answer has no end".into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    let status = answer.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    if status != b"200" {
        let line =
            String::from_utf8_lossy(answer.split(|byte| *byte == b'\r').next().unwrap_or(&[]));
        return Err(format!("the proxy makes no tunnel: {line}").into());
    }
    Ok(stream)
}

/// A connection, and whether a proxy reads what is sent on it.
#[derive(Debug)]
pub(super) struct Leg {
    stream: TokioIo<TcpStream>,
    is_to_proxy: bool,
}

impl Connection for Leg {
    fn connected(&self) -> Connected {
        self.stream.connected().proxy(self.is_to_proxy)
    }
}

impl Read for Leg {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, room)
    }
}

impl Write for Leg {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }
}
