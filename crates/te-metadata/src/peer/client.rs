//! The asking side: blocking, one connection per question, bounded in total time.
//!
//! Every address of a host is tried until one answers or the time is over. An answer that is no
//! answer ends the exchange: another address of the same peer would say the same.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::deadline::Deadline;
use super::resolve::resolve_within;
use super::{PeerError, PeerLimits, PeerPhase};
use crate::frame::{Frame, FrameKind, FrameReader, FrameType, encode_frame};
use crate::message::{line, parse};
use crate::{AddressFamily, DEFAULT_PEER_PORT, EndpointMessage, HostPort, MessageError, Notify};

/// Asks peers. Cheap to clone; holds no connection.
#[derive(Debug, Clone)]
pub struct PeerClient {
    limits: PeerLimits,
    family: AddressFamily,
}

impl PeerClient {
    /// A client with these bounds that uses addresses of this family.
    pub fn new(limits: PeerLimits, family: AddressFamily) -> Self {
        Self { limits, family }
    }

    /// The bounds.
    pub fn limits(&self) -> &PeerLimits {
        &self.limits
    }

    /// The peer's descriptor, as the JSON text it sent; `null` means that it has none. `own` is
    /// our descriptor, or `{}`.
    ///
    /// # Errors
    /// See [`PeerError`].
    pub fn metadata(&self, to: &HostPort, own: &[u8]) -> Result<Vec<u8>, PeerError> {
        let deadline = Deadline::after(self.limits.exchange_timeout);
        let own = if own.ends_with(b"\n") { own.to_owned() } else { line(own.to_owned()) };
        self.exchange(to, FrameType::Metadata, &own, deadline)
    }

    /// Hands a message to the peer's user.
    ///
    /// # Errors
    /// See [`PeerError`]; [`PeerError::Refused`] when the peer did not take it.
    pub fn notify(&self, to: &HostPort, notify: &Notify) -> Result<(), PeerError> {
        let deadline = Deadline::after(self.limits.exchange_timeout);
        let body = self.exchange(to, FrameType::Notify, &notify.encode(), deadline)?;
        let answer = Notify::decode(&body).map_err(malformed(to))?;
        if answer.msg.is_empty() {
            let reason = "the notification was not taken".to_owned();
            return Err(PeerError::Refused { peer: to.clone(), reason });
        }
        Ok(())
    }

    /// Whether the peer answers within `timeout`, and how long it took.
    ///
    /// # Errors
    /// See [`PeerError`].
    pub fn probe(&self, to: &HostPort, timeout: Duration) -> Result<Duration, PeerError> {
        let deadline = Deadline::after(timeout);
        let body = self.exchange(to, FrameType::Probe, b"{}\n", deadline)?;
        parse(&body).map_err(malformed(to))?;
        Ok(deadline.elapsed())
    }

    /// Exchanges endpoints.
    ///
    /// # Errors
    /// See [`PeerError`]; [`PeerError::Refused`] with the peer's words when it said no.
    pub fn endpoint(
        &self,
        to: &HostPort,
        request: &EndpointMessage,
    ) -> Result<EndpointMessage, PeerError> {
        let deadline = Deadline::after(self.limits.exchange_timeout);
        let body = self.exchange(to, FrameType::Endpoint, &request.encode(), deadline)?;
        let answer = EndpointMessage::decode(&body).map_err(malformed(to))?;
        if answer.is_refusal() {
            return Err(PeerError::Refused { peer: to.clone(), reason: answer.reply_msg });
        }
        Ok(answer)
    }

    /// One question, one answer: tries the addresses of the peer one after the other.
    fn exchange(
        &self,
        to: &HostPort,
        kind: FrameType,
        body: &[u8],
        deadline: Deadline,
    ) -> Result<Vec<u8>, PeerError> {
        let (bytes, limit) = (body.len() + 1, self.limits.max_frame);
        if bytes > limit {
            return Err(PeerError::QuestionTooLong { peer: to.clone(), bytes, limit });
        }
        let question = encode_frame(kind, body);
        let mut last = None;
        for address in self.addresses(to, deadline)? {
            let attempt = Attempt { to, address, limits: &self.limits, deadline };
            match attempt.run(&question) {
                Ok(frame) if frame.kind == FrameKind::Typed(kind) => return Ok(frame.body),
                Ok(_) => return Err(PeerError::WrongType { peer: to.clone() }),
                Err(error) if error.is_protocol() || deadline.left().is_none() => {
                    return Err(error);
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| out_of_time(to, PeerPhase::Connect, deadline.total())))
    }

    fn addresses(&self, to: &HostPort, deadline: Deadline) -> Result<Vec<SocketAddr>, PeerError> {
        let left = deadline.left().unwrap_or_default();
        let target = to.with_port(to.port_or(DEFAULT_PEER_PORT));
        resolve_within(&target, self.family, left).map_err(|source| match source.kind() {
            io::ErrorKind::TimedOut => out_of_time(to, PeerPhase::Resolve, deadline.total()),
            _ => PeerError::Resolve { peer: to.clone(), source },
        })
    }
}

/// One question to one address.
struct Attempt<'a> {
    to: &'a HostPort,
    address: SocketAddr,
    limits: &'a PeerLimits,
    deadline: Deadline,
}

impl Attempt<'_> {
    fn run(&self, question: &[u8]) -> Result<Frame, PeerError> {
        let mut stream = self.connect()?;
        self.send(&mut stream, question)?;
        self.receive(&mut stream)
    }

    fn connect(&self) -> Result<TcpStream, PeerError> {
        let left = self.left(PeerPhase::Connect)?.min(self.limits.connect_timeout);
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::TimedOut => out_of_time(self.to, PeerPhase::Connect, left),
            _ => self.failed(PeerPhase::Connect, source),
        };
        let stream = TcpStream::connect_timeout(&self.address, left).map_err(failed)?;
        // A free port in the range of outgoing ports can be connected to itself.
        let itself = stream.local_addr().is_ok_and(|local| local == self.address);
        if itself {
            return Err(failed(io::ErrorKind::ConnectionRefused.into()));
        }
        stream.set_nodelay(true).map_err(failed)?;
        Ok(stream)
    }

    fn send(&self, stream: &mut TcpStream, mut bytes: &[u8]) -> Result<(), PeerError> {
        while !bytes.is_empty() {
            let left = self.left(PeerPhase::Send)?;
            let sent = stream.set_write_timeout(Some(left)).and_then(|()| stream.write(bytes));
            bytes = &bytes[self.progress(PeerPhase::Send, sent)?..];
        }
        Ok(())
    }

    fn receive(&self, stream: &mut TcpStream) -> Result<Frame, PeerError> {
        let mut reader = FrameReader::new(self.limits.max_frame);
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let left = self.left(PeerPhase::Receive)?;
            let read = stream.set_read_timeout(Some(left)).and_then(|()| stream.read(&mut chunk));
            let ended = matches!(read, Ok(0));
            let n_bytes = self.progress(PeerPhase::Receive, read)?;
            if ended {
                return Err(PeerError::Closed { peer: self.to.clone(), address: self.address });
            }
            let frame = reader.push(&chunk[..n_bytes]);
            let bad = |source| PeerError::Frame { peer: self.to.clone(), source };
            if let Some(frame) = frame.map_err(bad)? {
                return Ok(frame);
            }
        }
    }

    /// The bytes a call moved; 0 when it is to be repeated or its time was over, which the next
    /// look at the deadline tells.
    fn progress(&self, phase: PeerPhase, moved: io::Result<usize>) -> Result<usize, PeerError> {
        use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
        match moved {
            Err(error) if matches!(error.kind(), Interrupted | TimedOut | WouldBlock) => Ok(0),
            moved => moved.map_err(|source| self.failed(phase, source)),
        }
    }

    fn left(&self, phase: PeerPhase) -> Result<Duration, PeerError> {
        self.deadline.left().ok_or_else(|| out_of_time(self.to, phase, self.deadline.total()))
    }

    fn failed(&self, phase: PeerPhase, source: io::Error) -> PeerError {
        PeerError::Io { peer: self.to.clone(), address: self.address, phase, source }
    }
}

fn out_of_time(to: &HostPort, phase: PeerPhase, after: Duration) -> PeerError {
    PeerError::TimedOut { peer: to.clone(), phase, after }
}

fn malformed(to: &HostPort) -> impl FnOnce(MessageError) -> PeerError + '_ {
    |source| PeerError::Malformed { peer: to.clone(), source }
}

/// Bytes read at a time; a descriptor of a few hundred buffers fits.
const CHUNK_BYTES: usize = 16 << 10;
