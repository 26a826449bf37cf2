//! A target made by hand: a handshake port and a data port over a piece of memory, with a
//! descriptor and manners that a test chooses.

use std::io::{self, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::data::{Header, STATUS_OK, status_frame};
use super::handshake::read_request;
use super::{PATIENCE, read_exactly};
use crate::clock::pace;

/// The address that the target's memory pretends to have.
pub const BASE: u64 = 0x7000_0000_0000;

/// How the data port behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataManner {
    /// As it should.
    Good,
    /// Answers a write with this status code after having stored it.
    Code(u32),
    /// Answers a write with eight bytes that are no status.
    BadMagic,
    /// Closes the connection after each request.
    CloseAfter,
    /// Says ok to a write before its bytes have come.
    EarlyOk,
    /// Knows no status: serves everything as version 1 would.
    OldVersion,
    /// Takes everything and never answers.
    Silent,
    /// Takes the header of a request and reads nothing any more.
    NeverReads,
    /// Takes the body of a write at so many bytes a second.
    Drains(u32),
}

/// What to build.
#[derive(Debug)]
pub struct TargetSpec {
    /// Bytes of memory.
    pub size: usize,
    /// Its data port's manners.
    pub manner: DataManner,
    /// Sent in place of the descriptor, when there is one.
    pub reply: Option<Vec<u8>>,
}

impl Default for TargetSpec {
    fn default() -> Self {
        Self { size: 1 << 20, manner: DataManner::Good, reply: None }
    }
}

/// The running target. Its threads end with the process; its ports belong to the test alone.
#[derive(Debug)]
pub struct HandTarget {
    name: String,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    memory: Mutex<Vec<u8>>,
    headers: Mutex<Vec<Header>>,
    frames: Mutex<Vec<(u8, Vec<u8>)>>,
    connections: AtomicUsize,
    manner: DataManner,
    descriptor: Vec<u8>,
}

impl HandTarget {
    /// Starts one whose descriptor is the usual one after `edit`.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(spec: TargetSpec, edit: impl FnOnce(&mut Value)) -> io::Result<Self> {
        let handshake = TcpListener::bind(("127.0.0.1", 0))?;
        let data = TcpListener::bind(("127.0.0.1", 0))?;
        let name = format!("127.0.0.1:{}", handshake.local_addr()?.port());
        let mut descriptor = usual(&name, data.local_addr()?.port(), spec.size);
        edit(&mut descriptor);
        let state = Arc::new(State {
            memory: Mutex::new(vec![0; spec.size]),
            headers: Mutex::default(),
            frames: Mutex::default(),
            connections: AtomicUsize::new(0),
            manner: spec.manner,
            descriptor: spec.reply.unwrap_or_else(|| descriptor.to_string().into_bytes()),
        });
        serve(handshake, &state, |state, stream| state.handshake(stream));
        serve(data, &state, |state, stream| {
            state.connections.fetch_add(1, Ordering::Relaxed);
            state.data(stream)
        });
        Ok(Self { name, state })
    }

    /// The name by which an engine opens it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The data requests so far.
    pub fn headers(&self) -> Vec<Header> {
        self.state.headers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The handshake requests so far: type and body.
    pub fn frames(&self) -> Vec<(u8, Vec<u8>)> {
        self.state.frames.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many data connections were made.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::Relaxed)
    }

    /// Bytes of the memory, from an offset.
    ///
    /// # Panics
    /// When they are not all inside.
    #[track_caller]
    pub fn bytes(&self, off: usize, len: usize) -> Vec<u8> {
        self.state.memory()[off..off + len].to_vec()
    }
}

/// Keeps the connection open as long as the process lives.
fn never() -> ! {
    loop {
        pace(PATIENCE);
    }
}

/// Reads `len` bytes, a little at a time.
fn drain(stream: &mut TcpStream, len: usize, rate: u32) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len);
    let step = (rate / 20).max(1);
    while bytes.len() < len {
        let n = (step as usize).min(len - bytes.len());
        bytes.extend(read_exactly(stream, n)?);
        pace(Duration::from_millis(50));
    }
    Ok(bytes)
}

/// The descriptor as the wheel publishes it.
fn usual(name: &str, data_port: u16, size: usize) -> Value {
    json!({
        "buffers": [{ "addr": BASE, "length": size, "name": name }],
        "name": name,
        "protocol": "tcp",
        "rdma_server_name": "",
        "tcp_data_host": "127.0.0.1",
        "tcp_data_port": data_port,
        "tcp_proto_version": 2,
        "timestamp": "2026-01-01 00:00:00.000000",
    })
}

fn serve(
    listener: TcpListener,
    state: &Arc<State>,
    run: impl Fn(&State, TcpStream) -> io::Result<()> + Send + Copy + 'static,
) {
    let state = Arc::clone(state);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let state = Arc::clone(&state);
            // A connection ends in its own way; what matters is in the lists.
            std::thread::spawn(move || drop(run(&state, stream)));
        }
    });
}

impl State {
    fn memory(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handshake(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let (kind, body) = read_request(&mut stream)?;
        self.frames.lock().unwrap_or_else(PoisonError::into_inner).push((kind, body));
        let reply: &[u8] = match kind {
            1 => &self.descriptor,
            2 => br#"{"name":"","notify_msg":"success"}"#,
            _ => br#"{"status":"success"}"#,
        };
        stream.write_all(super::Frame::typed(kind, reply).bytes())
    }

    fn data(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        loop {
            let header = Header::read(&mut stream)?;
            self.headers.lock().unwrap_or_else(PoisonError::into_inner).push(header);
            self.request(&mut stream, header)?;
            if self.manner == DataManner::CloseAfter {
                return Ok(());
            }
        }
    }

    fn request(&self, stream: &mut TcpStream, header: Header) -> io::Result<()> {
        let status = header.has_status() && self.manner != DataManner::OldVersion;
        if header.is_write() {
            return self.write(stream, header, status);
        }
        if self.manner == DataManner::Silent {
            return Ok(());
        }
        if status {
            stream.write_all(&status_frame(STATUS_OK))?;
        }
        let (from, to) = self.place(header)?;
        let bytes = self.memory()[from..to].to_vec();
        stream.write_all(&bytes)
    }

    fn write(&self, stream: &mut TcpStream, header: Header, status: bool) -> io::Result<()> {
        if self.manner == DataManner::EarlyOk {
            stream.write_all(&status_frame(STATUS_OK))?;
        }
        let (from, to) = self.place(header)?;
        let bytes = match self.manner {
            DataManner::NeverReads => never(),
            DataManner::Drains(rate) => drain(stream, to - from, rate)?,
            _ => read_exactly(stream, to - from)?,
        };
        self.memory()[from..to].copy_from_slice(&bytes);
        let answer = match self.manner {
            DataManner::EarlyOk | DataManner::Silent => return Ok(()),
            DataManner::BadMagic => *b"ABCDEFGH",
            DataManner::Code(code) => status_frame(code),
            _ => status_frame(STATUS_OK),
        };
        if status { stream.write_all(&answer) } else { Ok(()) }
    }

    /// Where in the memory a request goes; a request that goes elsewhere ends the connection.
    fn place(&self, header: Header) -> io::Result<(usize, usize)> {
        let place = || {
            let from = usize::try_from(header.addr.checked_sub(BASE)?).ok()?;
            let to = from.checked_add(usize::try_from(header.size).ok()?)?;
            (to <= self.memory().len()).then_some((from, to))
        };
        place().ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }
}
