//! Peers made by hand, good and bad, and raw requests, independent of the crate's own codec.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use te_segment::RemoteSegment;

use super::{PATIENCE, peer_at};

pub const READ: u8 = 0;
pub const WRITE: u8 = 1;
pub const V2: u8 = 0x80;
pub const OK: [u8; 8] = [0, 0, 0, 0, 0x56, 0x54, 0x43, 0x4d];
pub const REFUSED: [u8; 8] = [1, 0, 0, 0, 0x56, 0x54, 0x43, 0x4d];

pub fn header(opcode: u8, address: u64, size: u64) -> Vec<u8> {
    let mut bytes = size.to_le_bytes().to_vec();
    bytes.extend(address.to_le_bytes());
    bytes.push(opcode);
    bytes.extend([0xee; 7]);
    bytes
}

/// A header as it came.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    pub opcode: u8,
    pub address: u64,
    pub size: u64,
}

pub fn read_header(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = [0; 24];
    stream.read_exact(&mut bytes).ok()?;
    let number =
        |range: std::ops::Range<usize>| u64::from_le_bytes(bytes[range].try_into().unwrap());
    Some(Asked { opcode: bytes[16], size: number(0..8), address: number(8..16) })
}

pub fn read_body(stream: &mut TcpStream, size: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    stream.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

/// Bytes until the end of the stream or a reset.
pub fn read_rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    // A reset ends it as well as an end of stream does.
    let _ = stream.read_to_end(&mut all);
    all
}

/// A connection to a server under test, with a bound on every wait.
pub fn raw(port: u16) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends, and gives the next `n` bytes.
pub fn ask(stream: &mut TcpStream, request: &[u8], n: usize) -> Option<Vec<u8>> {
    stream.write_all(request).ok()?;
    read_body(stream, n as u64)
}

/// Serves each connection on a thread of its own, until dropped.
pub struct Fake {
    pub address: SocketAddr,
    pub connections: Arc<AtomicUsize>,
    stop: Arc<std::sync::atomic::AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    /// `serve` gets each connection and its number, from 0.
    pub fn new(serve: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(), serve)
    }

    pub fn on(
        listener: TcpListener,
        serve: impl Fn(TcpStream, usize) + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (count, stopping, serve) =
            (Arc::clone(&connections), Arc::clone(&stop), Arc::new(serve));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopping.load(Ordering::SeqCst) {
                    return;
                }
                let stream = stream.unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.set_nodelay(true).unwrap();
                let number = count.fetch_add(1, Ordering::SeqCst);
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || serve(stream, number));
            }
        });
        Self { address, connections, stop, thread: Some(thread) }
    }

    pub fn peer(&self, version: u32) -> Arc<RemoteSegment> {
        peer_at(self.address, version)
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Serves one request well, as a v2 peer whose memory is all zeros; `None` at the end.
pub fn serve_one(stream: &mut TcpStream) -> Option<Asked> {
    let asked = read_header(stream)?;
    if asked.opcode & WRITE != 0 {
        read_body(stream, asked.size)?;
        stream.write_all(&OK).ok()?;
    } else {
        stream.write_all(&OK).ok()?;
        stream.write_all(&vec![0; usize::try_from(asked.size).ok()?]).ok()?;
    }
    Some(asked)
}

/// As a peer that knows v1 only: whatever is no plain write is served as a read.
pub fn serve_v1(stream: &mut TcpStream) -> Option<Asked> {
    let asked = read_header(stream)?;
    if asked.opcode == WRITE {
        read_body(stream, asked.size)?;
    } else {
        stream.write_all(&vec![0x5a; usize::try_from(asked.size).ok()?]).ok()?;
    }
    Some(asked)
}
