//! The asking side: blocking, one connection per question, bounded in total time.
//!
//! Every address of a host is tried until one answers or the time is over. An answer that is no
//! answer ends the exchange: another address of the same peer would say the same. So does an
//! interrupt, in whatever phase.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mio::net::TcpStream;

use super::deadline::Deadline;
use super::interrupt::{Interrupt, Sleeper};
use super::resolve::resolve_within;
use super::{PeerError, PeerLimits, PeerPhase};
use crate::frame::{Frame, FrameKind, FrameReader, FrameType, encode_frame};
use crate::message::{NotifyAnswer, line, parse};
use crate::{AddressFamily, DEFAULT_PEER_PORT, EndpointMessage, HostPort, MessageError, Notify};

/// Asks peers. Cheap to clone; holds no connection.
#[derive(Debug, Clone)]
pub struct PeerClient {
    limits: PeerLimits,
    family: AddressFamily,
    interrupt: Arc<Interrupt>,
}

impl PeerClient {
    /// A client with these bounds that uses addresses of this family.
    pub fn new(limits: PeerLimits, family: AddressFamily) -> Self {
        Self { limits, family, interrupt: Arc::default() }
    }

    /// Ends every exchange of this client and of its clones with [`PeerError::Interrupted`]: those
    /// under way at once, wherever they wait, and later ones before they reach the peer.
    pub fn interrupt(&self) {
        self.interrupt.fire();
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
    /// See [`PeerError`]; [`PeerError::Full`] when the peer had no room and says so,
    /// [`PeerError::Refused`] when it did not take it otherwise.
    pub fn notify(&self, to: &HostPort, notify: &Notify) -> Result<(), PeerError> {
        let deadline = Deadline::after(self.limits.exchange_timeout);
        let body = self.exchange(to, FrameType::Notify, &notify.encode(), deadline)?;
        match NotifyAnswer::decode(&body).map_err(malformed(to))? {
            NotifyAnswer::Taken => Ok(()),
            NotifyAnswer::Full { waiting } => Err(PeerError::Full { peer: to.clone(), waiting }),
            NotifyAnswer::Refused => {
                let reason = "the notification was not taken".to_owned();
                Err(PeerError::Refused { peer: to.clone(), reason })
            }
        }
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
        let answer = self.handshake(to, request)?;
        if answer.is_refusal() {
            return Err(PeerError::Refused { peer: to.clone(), reason: answer.reply_msg });
        }
        Ok(answer)
    }

    /// Exchanges endpoints; a refusal is an answer too, because its other fields may say why.
    ///
    /// # Errors
    /// See [`PeerError`].
    pub fn handshake(
        &self,
        to: &HostPort,
        request: &EndpointMessage,
    ) -> Result<EndpointMessage, PeerError> {
        let deadline = Deadline::after(self.limits.exchange_timeout);
        let body = self.exchange(to, FrameType::Endpoint, &request.encode(), deadline)?;
        EndpointMessage::decode(&body).map_err(malformed(to))
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
            let attempt = Attempt { client: self, to, address, deadline };
            match attempt.run(&question) {
                Ok(frame) if frame.kind == FrameKind::Typed(kind) => return Ok(frame.body),
                Ok(_) => return Err(PeerError::WrongType { peer: to.clone() }),
                Err(error) if error.is_final() || deadline.left().is_none() => return Err(error),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| out_of_time(to, PeerPhase::Connect, deadline.total())))
    }

    fn addresses(&self, to: &HostPort, deadline: Deadline) -> Result<Vec<SocketAddr>, PeerError> {
        let left = deadline.left().unwrap_or_default();
        let target = to.with_port(to.port_or(DEFAULT_PEER_PORT));
        let found = resolve_within(&target, self.family, left, &self.interrupt);
        found.map_err(|source| match source.kind() {
            _ if self.interrupt.has_fired() => interrupted(to, PeerPhase::Resolve),
            io::ErrorKind::TimedOut => out_of_time(to, PeerPhase::Resolve, deadline.total()),
            _ => PeerError::Resolve { peer: to.clone(), source },
        })
    }
}

/// One question to one address.
struct Attempt<'a> {
    client: &'a PeerClient,
    to: &'a HostPort,
    address: SocketAddr,
    deadline: Deadline,
}

impl Attempt<'_> {
    fn run(&self, question: &[u8]) -> Result<Frame, PeerError> {
        let sleeper = self.client.interrupt.sleeper();
        let mut sleeper = sleeper.map_err(|source| self.failed(PeerPhase::Connect, source))?;
        let mut stream = self.connect(&mut sleeper)?;
        self.send(&mut stream, &mut sleeper, question)?;
        self.receive(&mut stream, &mut sleeper)
    }

    fn connect(&self, sleeper: &mut Sleeper<'_>) -> Result<TcpStream, PeerError> {
        let phase = PeerPhase::Connect;
        let left = self.left(phase, self.deadline)?;
        let limit = Deadline::after(left.min(self.client.limits.connect_timeout));
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::TimedOut => out_of_time(self.to, phase, limit.total()),
            _ => self.failed(phase, source),
        };
        let mut stream = TcpStream::connect(self.address).map_err(failed)?;
        sleeper.watch(&mut stream).map_err(failed)?;
        while !is_connected(&stream).map_err(failed)? {
            sleeper.sleep(self.left(phase, limit)?).map_err(failed)?;
        }
        // A free port in the range of outgoing ports can be connected to itself.
        let itself = stream.local_addr().is_ok_and(|local| local == self.address);
        if itself {
            return Err(failed(io::ErrorKind::ConnectionRefused.into()));
        }
        stream.set_nodelay(true).map_err(failed)?;
        Ok(stream)
    }

    fn send(
        &self,
        stream: &mut TcpStream,
        sleeper: &mut Sleeper<'_>,
        mut bytes: &[u8],
    ) -> Result<(), PeerError> {
        while !bytes.is_empty() {
            let n_sent = self.moving(PeerPhase::Send, sleeper, || stream.write(bytes))?;
            bytes = &bytes[n_sent..];
        }
        Ok(())
    }

    fn receive(
        &self,
        stream: &mut TcpStream,
        sleeper: &mut Sleeper<'_>,
    ) -> Result<Frame, PeerError> {
        let mut reader = FrameReader::new(self.client.limits.max_frame);
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let n_bytes = self.moving(PeerPhase::Receive, sleeper, || stream.read(&mut chunk))?;
            if n_bytes == 0 {
                return Err(PeerError::Closed { peer: self.to.clone(), address: self.address });
            }
            let frame = reader.push(&chunk[..n_bytes]);
            let bad = |source| PeerError::Frame { peer: self.to.clone(), source };
            if let Some(frame) = frame.map_err(bad)? {
                return Ok(frame);
            }
        }
    }

    /// Repeats a call until it no longer waits for the peer; gives the bytes that it moved.
    fn moving(
        &self,
        phase: PeerPhase,
        sleeper: &mut Sleeper<'_>,
        mut call: impl FnMut() -> io::Result<usize>,
    ) -> Result<usize, PeerError> {
        loop {
            let left = self.left(phase, self.deadline)?;
            let ended = match call() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    sleeper.sleep(left).map(|()| None)
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
                moved => moved.map(Some),
            };
            if let Some(n_bytes) = ended.map_err(|source| self.failed(phase, source))? {
                return Ok(n_bytes);
            }
        }
    }

    /// The time left until `end`; an error once the exchange is to stop.
    fn left(&self, phase: PeerPhase, end: Deadline) -> Result<Duration, PeerError> {
        if self.client.interrupt.has_fired() {
            return Err(interrupted(self.to, phase));
        }
        end.left().ok_or_else(|| out_of_time(self.to, phase, end.total()))
    }

    fn failed(&self, phase: PeerPhase, source: io::Error) -> PeerError {
        PeerError::Io { peer: self.to.clone(), address: self.address, phase, source }
    }
}

/// Whether connecting has ended; an error when it failed.
fn is_connected(stream: &TcpStream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}

fn interrupted(to: &HostPort, phase: PeerPhase) -> PeerError {
    PeerError::Interrupted { peer: to.clone(), phase }
}

fn out_of_time(to: &HostPort, phase: PeerPhase, after: Duration) -> PeerError {
    PeerError::TimedOut { peer: to.clone(), phase, after }
}

fn malformed(to: &HostPort) -> impl FnOnce(MessageError) -> PeerError + '_ {
    |source| PeerError::Malformed { peer: to.clone(), source }
}

/// Bytes read at a time; a descriptor of a few hundred buffers fits.
const CHUNK_BYTES: usize = 16 << 10;
