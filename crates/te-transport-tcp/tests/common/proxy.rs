//! Something between two ends: counts, changes and cuts what passes.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::SockRef;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the initiator to the target.
    Out,
    /// Back.
    Back,
}

/// Bytes that pass.
#[derive(Debug)]
pub struct Passing<'a> {
    pub way: Way,
    /// Number of the connection, from 0.
    pub connection: usize,
    /// How many bytes passed before on this connection, this way.
    pub before: u64,
    pub bytes: &'a mut Vec<u8>,
}

/// What becomes of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    /// Both ends are cut off at once.
    Cut,
    /// The initiator is cut off after so many more bytes were taken from it; they go to the target
    /// in small pieces, long after.
    Strand(usize),
}

pub struct Proxy {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// Threads that still deliver stranded bytes.
    pub delivering: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

type Hook = dyn Fn(&mut Passing<'_>) -> Verdict + Send + Sync;

impl Proxy {
    pub fn new(
        port: u16,
        hook: impl Fn(&mut Passing<'_>) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let delivering = Arc::new(AtomicUsize::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let hook: Arc<Hook> = Arc::new(hook);
        let (count, busy, stopping) =
            (Arc::clone(&connections), Arc::clone(&delivering), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            for near in listener.incoming() {
                if stopping.load(Ordering::SeqCst) {
                    return;
                }
                let near = near.unwrap();
                let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { continue };
                let number = count.fetch_add(1, Ordering::SeqCst);
                for (way, from, to) in [(Way::Out, &near, &far), (Way::Back, &far, &near)] {
                    from.set_nodelay(true).unwrap();
                    let link = Link {
                        way,
                        number,
                        from: from.try_clone().unwrap(),
                        to: to.try_clone().unwrap(),
                        busy: Arc::clone(&busy),
                    };
                    let hook = Arc::clone(&hook);
                    std::thread::spawn(move || link.run(&*hook));
                }
            }
        });
        Self { address, connections, delivering, stop, thread: Some(thread) }
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

struct Link {
    way: Way,
    number: usize,
    from: TcpStream,
    to: TcpStream,
    busy: Arc<AtomicUsize>,
}

impl Link {
    fn run(mut self, hook: &Hook) {
        let mut before = 0;
        let mut room = vec![0; 256 << 10];
        loop {
            let n = match self.from.read(&mut room) {
                Ok(0) | Err(_) => break,
                Ok(n) => n,
            };
            let mut bytes = room[..n].to_vec();
            let (way, connection) = (self.way, self.number);
            let verdict = hook(&mut Passing { way, connection, before, bytes: &mut bytes });
            before += n as u64;
            match verdict {
                Verdict::Pass if self.to.write_all(&bytes).is_ok() => {}
                Verdict::Strand(more) => return self.strand(bytes, more),
                _ => break,
            }
        }
        for end in [&self.from, &self.to] {
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    fn strand(mut self, mut bytes: Vec<u8>, more: usize) {
        self.busy.fetch_add(1, Ordering::SeqCst);
        let from = bytes.len();
        bytes.resize(from + more, 0);
        if self.from.read_exact(&mut bytes[from..]).is_ok() {
            // The other thread of this connection has a handle as well, so that closing is not
            // enough.
            let _ = SockRef::from(&self.from).set_linger(Some(Duration::ZERO));
            let _ = self.from.shutdown(Shutdown::Both);
            for piece in bytes.chunks(16 << 10) {
                if self.to.write_all(piece).is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let _ = self.to.shutdown(Shutdown::Both);
        self.busy.fetch_sub(1, Ordering::SeqCst);
    }
}
