//! The handshake port: one framed request, one framed answer, one connection each.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use serde_json::Value;

use super::{connect, read_exactly};

/// A request, right or wrong.
#[derive(Debug, Clone)]
pub struct Frame {
    bytes: Vec<u8>,
}

impl Frame {
    /// A well-framed request of this type.
    pub fn typed(kind: u8, body: &[u8]) -> Self {
        let payload = [&[kind], body].concat();
        Self::with_length(payload.len() as u64, &payload)
    }

    /// A request in the old framing, without a type byte.
    pub fn untyped(body: &[u8]) -> Self {
        Self::with_length(body.len() as u64, body)
    }

    /// Any length in front of any bytes.
    pub fn with_length(length: u64, payload: &[u8]) -> Self {
        Self { bytes: [&length.to_le_bytes(), payload].concat() }
    }

    /// Bytes that are no frame at all.
    pub fn raw(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec() }
    }

    /// What goes over the wire.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// How a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeAnswer {
    /// A framed answer: its type and body.
    Framed(u8, Vec<u8>),
    /// Closed or reset before a whole answer; how many bytes had come.
    Closed(usize),
}

impl HandshakeAnswer {
    /// The body as JSON.
    ///
    /// # Panics
    /// When there is no framed answer with JSON in it.
    #[track_caller]
    pub fn json(&self) -> Value {
        let Self::Framed(_, body) = self else { panic!("no answer: {self:?}") };
        serde_json::from_slice(body).unwrap_or_else(|cause| panic!("{self:?}: {cause}"))
    }
}

/// A client of the handshake port.
#[derive(Debug, Clone)]
pub struct HandshakeClient {
    host: String,
    port: u16,
}

impl HandshakeClient {
    /// A client of this server.
    pub fn new(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port }
    }

    /// A connection on which nothing has been said.
    ///
    /// # Errors
    /// What the system says.
    pub fn connect(&self) -> io::Result<TcpStream> {
        connect((self.host.as_str(), self.port))
    }

    /// Sends one request and takes what comes.
    ///
    /// # Errors
    /// When the server cannot be reached, or is silent for ten seconds without closing.
    pub fn ask(&self, frame: &Frame) -> io::Result<HandshakeAnswer> {
        let mut stream = self.connect()?;
        // A server may close before it has read all, which is for `answer` to tell.
        let _ = stream.write_all(frame.bytes());
        answer(&mut stream)
    }

    /// Sends one request, says that nothing more will come, and takes what comes.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn ask_and_end(&self, frame: &Frame) -> io::Result<HandshakeAnswer> {
        let mut stream = self.connect()?;
        let _ = stream.write_all(frame.bytes()).and_then(|()| stream.shutdown(Shutdown::Write));
        answer(&mut stream)
    }
}

fn answer(stream: &mut TcpStream) -> io::Result<HandshakeAnswer> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(cause) if is_reset(&cause) => {}
        Err(cause) => return Err(cause),
    }
    let length = bytes.first_chunk::<8>().map(|length| u64::from_le_bytes(*length));
    match (length, bytes.get(8..)) {
        (Some(length), Some([kind, body @ ..])) if length == body.len() as u64 + 1 => {
            Ok(HandshakeAnswer::Framed(*kind, body.to_vec()))
        }
        _ => Ok(HandshakeAnswer::Closed(bytes.len())),
    }
}

fn is_reset(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

/// The descriptor that the engine behind this handshake port publishes.
///
/// # Panics
/// When it publishes none.
#[track_caller]
pub fn descriptor(host: &str, port: u16) -> Value {
    let answer = HandshakeClient::new(host, port).ask(&Frame::typed(1, b"{}"));
    match answer {
        Ok(answer) => answer.json(),
        Err(cause) => panic!("no descriptor from {host} port {port}: {cause}"),
    }
}

/// The descriptor of a node that listens on 127.0.0.1.
///
/// # Panics
/// When it publishes none.
#[track_caller]
pub fn descriptor_of(node: &crate::Node) -> Value {
    descriptor("127.0.0.1", node.rpc_port())
}

/// Reads one request as a server: its type and body.
///
/// # Errors
/// What the system says, and `InvalidData` for a length beyond 16 MiB or of 0.
pub(super) fn read_request(stream: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    let length = read_exactly(stream, 8)?;
    let length = length.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
    let length = usize::try_from(length).ok().filter(|n| (1..=16 << 20).contains(n));
    let length = length.ok_or(io::ErrorKind::InvalidData)?;
    let mut payload = read_exactly(stream, length)?;
    let body = payload.split_off(1);
    Ok((payload[0], body))
}
