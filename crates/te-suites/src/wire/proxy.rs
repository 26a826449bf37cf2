//! A TCP proxy in front of a data port or a handshake port: it records, and breaks things on
//! purpose.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::pace;

/// What the proxy does to what passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Once an answer has passed and the line has been silent for this long, closes both ends.
    CloseWhenIdle(Duration),
    /// Holds back every chunk from the server for this long.
    DelayAnswers(Duration),
    /// Cuts each connection after this many bytes from the client.
    CutRequestAt(u64),
    /// The same, but only the first connection that gets so far; then nothing is broken any more.
    CutOneRequestAt(u64),
    /// Cuts each connection after this many bytes from the server.
    CutAnswerAt(u64),
    /// The same, but only the first connection that gets so far.
    CutOneAnswerAt(u64),
    /// Turns over every bit of the byte at this position of what the server sends.
    FlipAnswerAt(u64),
    /// Turns over one bit in the middle of every large chunk from the client, where nothing but
    /// payload can be.
    FlipRequestBits,
    /// The same with what the server sends.
    FlipAnswerBits,
    /// Takes what comes from both sides and passes nothing on, and closes nothing. No network passes
    /// the later bytes of a stream on without the earlier ones: a connection that lost some is cut
    /// when this is over.
    Swallow,
    /// Reads nothing any more from either side, and closes nothing.
    Stall,
    /// Passes at most so many bytes a second from the client on.
    Slow(u64),
    /// Says to the server that the client has ended, and goes on from the server to the client.
    HalfClose,
    /// Closes every connection at its next chunk.
    CutAll,
}

/// What has passed one connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// The first bytes from the client.
    pub request: Vec<u8>,
    /// The first bytes from the server.
    pub answer: Vec<u8>,
}

/// From how many bytes on a chunk has nothing but payload in its middle.
const LARGE: usize = 4096;

/// How many bytes of each direction are kept.
const KEPT: usize = 4096;

/// The running proxy. Its threads end with their connections.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: Mutex<SocketAddr>,
    fault: Mutex<Fault>,
    seen: Mutex<Vec<Seen>>,
    faults: AtomicUsize,
}

impl Proxy {
    /// Starts one on 127.0.0.1 in front of `server`.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(server: SocketAddr, fault: Fault) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            server: Mutex::new(server),
            fault: Mutex::new(fault),
            seen: Mutex::default(),
            faults: AtomicUsize::new(0),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A server that cannot be reached shows as a closed connection.
                let _ = Shared::pass(&accepting, client);
            }
        });
        Ok(Self { port, shared })
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Changes what it does; connections that exist take it over with their next chunk.
    pub fn set(&self, fault: Fault) {
        *self.shared.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// Leads new connections to another server.
    pub fn lead_to(&self, server: SocketAddr) {
        *self.shared.server.lock().unwrap_or_else(PoisonError::into_inner) = server;
    }

    /// What has passed, one entry for each connection.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often it broke something.
    pub fn faults(&self) -> usize {
        self.shared.faults.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn pass(shared: &Arc<Self>, client: TcpStream) -> io::Result<()> {
        let address = *shared.server.lock().unwrap_or_else(PoisonError::into_inner);
        let server = TcpStream::connect(address)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let index = {
            let mut seen = shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.push(Seen::default());
            seen.len() - 1
        };
        let ends = [(client.try_clone()?, server.try_clone()?, true), (server, client, false)];
        let lossy = Arc::new(AtomicBool::new(false));
        for (from, to, is_request) in ends {
            let (shared, lossy) = (Arc::clone(shared), Arc::clone(&lossy));
            let pump = Pump { shared, lossy, index, is_request, passed: 0 };
            std::thread::spawn(move || pump.run(from, to));
        }
        Ok(())
    }

    fn fault(&self) -> Fault {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn broke(&self) {
        self.faults.fetch_add(1, Ordering::Relaxed);
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*fault, Fault::CutOneRequestAt(_) | Fault::CutOneAnswerAt(_)) {
            *fault = Fault::None;
        }
    }
}

/// One direction of one connection.
struct Pump {
    shared: Arc<Shared>,
    /// Whether bytes of the connection were lost.
    lossy: Arc<AtomicBool>,
    index: usize,
    is_request: bool,
    passed: u64,
}

impl Pump {
    fn run(mut self, mut from: TcpStream, mut to: TcpStream) {
        let broken = self.forward(&mut from, &mut to).unwrap_or(true);
        let how = if broken { Shutdown::Both } else { Shutdown::Write };
        // Both fail only where the other direction has closed already.
        let _ = to.shutdown(how);
        if broken {
            let _ = from.shutdown(how);
        }
    }

    /// Passes bytes on until the stream ends (false) or is cut (true).
    fn forward(&mut self, from: &mut TcpStream, to: &mut TcpStream) -> io::Result<bool> {
        let mut buffer = vec![0; 1 << 16];
        loop {
            match self.shared.fault() {
                Fault::Stall => {
                    pace(Duration::from_millis(20));
                    continue;
                }
                Fault::CutAll => return Ok(true),
                Fault::Swallow => {}
                _ if self.lossy.load(Ordering::Relaxed) => return Ok(true),
                Fault::HalfClose if self.is_request && self.passed > 0 => return Ok(false),
                _ => {}
            }
            from.set_read_timeout(Some(self.patience()))?;
            let n = match from.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(n) => n,
                Err(cause) if is_timeout(&cause) && self.is_idle() => {
                    self.shared.broke();
                    return Ok(true);
                }
                Err(cause) if is_timeout(&cause) => continue,
                Err(cause) => return Err(cause),
            };
            if self.holds_back() {
                self.lossy.store(true, Ordering::Relaxed);
                self.shared.broke();
                continue;
            }
            if self.lossy.load(Ordering::Relaxed) {
                return Ok(true);
            }
            let keep = self.disturb(&mut buffer[..n]);
            self.record(&buffer[..keep]);
            to.write_all(&buffer[..keep])?;
            self.passed += keep as u64;
            if keep < n {
                self.shared.broke();
                return Ok(true);
            }
        }
    }

    /// How long to wait for bytes before looking at the fault again.
    fn patience(&self) -> Duration {
        match self.shared.fault() {
            Fault::CloseWhenIdle(silence) => silence,
            _ => Duration::from_millis(50),
        }
    }

    /// Whether the silence that just passed is one to close after. The answering direction decides,
    /// so that a slow answer is not taken for the end of the work.
    fn is_idle(&self) -> bool {
        let closes = matches!(self.shared.fault(), Fault::CloseWhenIdle(_));
        closes && !self.is_request && self.passed > 0
    }

    /// Breaks the chunk and says how many of its bytes may pass.
    fn disturb(&self, chunk: &mut [u8]) -> usize {
        let room = |limit: u64| {
            let left = limit.saturating_sub(self.passed);
            usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len())
        };
        match (self.shared.fault(), self.is_request) {
            (Fault::CutRequestAt(limit) | Fault::CutOneRequestAt(limit), true)
            | (Fault::CutAnswerAt(limit) | Fault::CutOneAnswerAt(limit), false) => room(limit),
            (Fault::FlipAnswerAt(position), false) => {
                self.flip(position, chunk);
                chunk.len()
            }
            (Fault::FlipRequestBits, true) | (Fault::FlipAnswerBits, false)
                if chunk.len() >= LARGE =>
            {
                chunk[chunk.len() / 2] ^= 1;
                self.shared.broke();
                chunk.len()
            }
            (Fault::Slow(rate), true) => {
                pace(Duration::from_secs_f64(chunk.len() as f64 / rate as f64));
                chunk.len()
            }
            (Fault::DelayAnswers(time), false) => {
                pace(time);
                chunk.len()
            }
            _ => chunk.len(),
        }
    }

    /// Whether what came is not passed on.
    fn holds_back(&self) -> bool {
        self.shared.fault() == Fault::Swallow
    }

    fn flip(&self, position: u64, chunk: &mut [u8]) {
        let at = position.checked_sub(self.passed).and_then(|at| usize::try_from(at).ok());
        if let Some(byte) = at.and_then(|at| chunk.get_mut(at)) {
            *byte = !*byte;
            self.shared.broke();
        }
    }

    fn record(&self, chunk: &[u8]) {
        let mut seen = self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = &mut seen[self.index];
        let kept = if self.is_request { &mut entry.request } else { &mut entry.answer };
        let room = KEPT.saturating_sub(kept.len()).min(chunk.len());
        kept.extend_from_slice(&chunk[..room]);
    }
}

fn is_timeout(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
