//! The data port: requests of 24 bytes, with any content.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

use super::{connect, read_exactly};

/// The high half of a status frame.
const STATUS_MAGIC: u64 = 0x4d43_5456;

/// Status code: done.
pub const STATUS_OK: u32 = 0;

/// Status code: the address was refused.
pub const STATUS_REFUSED: u32 = 1;

/// The bytes of a status frame with this code.
pub fn status_frame(code: u32) -> [u8; 8] {
    (STATUS_MAGIC << 32 | u64::from(code)).to_le_bytes()
}

/// A request header, right or wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes that the request names.
    pub size: u64,
    /// Address in the target.
    pub addr: u64,
    /// 0 read, 1 write, 0x80 and 0x81 the same with a status; anything else is wrong.
    pub opcode: u8,
    /// What stands in the padding.
    pub padding: [u8; 7],
}

impl Header {
    /// A header with empty padding.
    pub const fn new(opcode: u8, addr: u64, size: u64) -> Self {
        Self { size, addr, opcode, padding: [0; 7] }
    }

    /// Its 24 bytes.
    pub fn bytes(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.size.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.addr.to_le_bytes());
        bytes[16] = self.opcode;
        bytes[17..].copy_from_slice(&self.padding);
        bytes
    }

    /// Reads one as a server.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn read(stream: &mut TcpStream) -> io::Result<Self> {
        let bytes = read_exactly(stream, 24)?;
        let word = |at: usize| {
            bytes[at..].first_chunk().map_or(0, |word: &[u8; 8]| u64::from_le_bytes(*word))
        };
        let mut padding = [0; 7];
        padding.copy_from_slice(&bytes[17..]);
        Ok(Self { size: word(0), addr: word(8), opcode: bytes[16], padding })
    }

    /// Whether the requester wants a status.
    pub fn has_status(&self) -> bool {
        self.opcode & 0x80 != 0
    }

    /// Whether it is a write; anything else is served as a read.
    pub fn is_write(&self) -> bool {
        self.opcode & 0x7f == 1
    }
}

/// How the target took a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A status frame with this code.
    Status(u32),
    /// Eight bytes that are no status frame.
    Nonsense([u8; 8]),
    /// Closed or reset without a status.
    Closed,
}

/// A client of the data port.
#[derive(Debug)]
pub struct DataClient {
    stream: TcpStream,
}

impl DataClient {
    /// Connects.
    ///
    /// # Errors
    /// What the system says.
    pub fn connect(host: &str, port: u16) -> io::Result<Self> {
        Ok(Self { stream: connect((host, port))? })
    }

    /// Connects to the data port that a descriptor names.
    ///
    /// # Errors
    /// What the system says, and `InvalidData` for a descriptor without a port.
    pub fn of(descriptor: &serde_json::Value) -> io::Result<Self> {
        let port = descriptor["tcp_data_port"].as_u64().and_then(|port| port.try_into().ok());
        let host = descriptor["tcp_data_host"].as_str().unwrap_or("127.0.0.1");
        Self::connect(host, port.ok_or(io::ErrorKind::InvalidData)?)
    }

    /// The connection itself.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Sends a header and what follows it. A target that closes meanwhile is no error: the
    /// verdict tells.
    pub fn send(&mut self, header: Header, body: &[u8]) {
        let sent = self.stream.write_all(&header.bytes());
        let _ = sent.and_then(|()| self.stream.write_all(body));
    }

    /// Takes the status.
    ///
    /// # Errors
    /// When the target is silent for ten seconds without closing.
    pub fn verdict(&mut self) -> io::Result<Verdict> {
        let mut frame = [0; 8];
        match self.stream.read_exact(&mut frame) {
            Ok(()) => Ok(parse(frame)),
            Err(cause) if is_end(&cause) => Ok(Verdict::Closed),
            Err(cause) => Err(cause),
        }
    }

    /// Takes `len` bytes of payload.
    ///
    /// # Errors
    /// What the system says.
    pub fn payload(&mut self, len: usize) -> io::Result<Vec<u8>> {
        read_exactly(&mut self.stream, len)
    }

    /// Waits for the target to close, and gives the bytes that came before.
    ///
    /// # Errors
    /// When it stays open for ten seconds.
    pub fn until_closed(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match self.stream.read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(cause) if is_end(&cause) => Ok(bytes),
            Err(cause) => Err(cause),
        }
    }

    /// A whole acknowledged write.
    ///
    /// # Errors
    /// As [`verdict`](Self::verdict).
    pub fn write(&mut self, addr: u64, bytes: &[u8]) -> io::Result<Verdict> {
        self.send(Header::new(0x81, addr, bytes.len() as u64), bytes);
        self.verdict()
    }

    /// A whole acknowledged read: the bytes, or the verdict that refused them.
    ///
    /// # Errors
    /// As [`verdict`](Self::verdict).
    pub fn read(&mut self, addr: u64, len: usize) -> io::Result<Result<Vec<u8>, Verdict>> {
        self.send(Header::new(0x80, addr, len as u64), &[]);
        match self.verdict()? {
            Verdict::Status(STATUS_OK) => self.payload(len).map(Ok),
            refused => Ok(Err(refused)),
        }
    }
}

fn parse(frame: [u8; 8]) -> Verdict {
    let value = u64::from_le_bytes(frame);
    let [low @ .., _, _, _, _] = frame;
    if value >> 32 == STATUS_MAGIC {
        return Verdict::Status(u32::from_le_bytes(low));
    }
    Verdict::Nonsense(frame)
}

fn is_end(cause: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(cause.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}
