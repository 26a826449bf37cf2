//! Socket calls on registered memory: the only unsafe file of this crate.
//!
//! Bytes go straight between the socket and a range of registered memory, without a Rust slice of
//! that memory (a peer or the owner may change it at any time). Where the owner unmapped it the
//! kernel answers `EFAULT`. No call blocks and none raises `SIGPIPE`.
//!
//! I1  A range is borrowed for the whole call, so its region is alive while the kernel copies.
#![allow(unsafe_code, reason = "socket calls on raw memory; docs/memory-safety.md")]

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use socket2::SockRef;
use te_segment::LocalRange;

/// Some bytes of a range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    range: &'a LocalRange,
    offset: u64,
    len: usize,
}

impl<'a> Part<'a> {
    /// From `offset` on, at most `max` bytes.
    pub(crate) fn new(range: &'a LocalRange, offset: u64, max: usize) -> Self {
        let left = usize::try_from(range.len().saturating_sub(offset)).unwrap_or(usize::MAX);
        Self { range, offset, len: left.min(max) }
    }

    /// Stores bytes in it as a receiving socket would; gives how many fit.
    #[cfg(test)]
    pub(crate) fn store(&self, bytes: &[u8]) -> usize {
        let n = self.len.min(bytes.len());
        let at = self.range.offset() + self.offset;
        self.range.region().write_from(at, &bytes[..n]).unwrap();
        n
    }

    /// Its bytes, as a sending socket would take them.
    #[cfg(test)]
    pub(crate) fn load(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        let at = self.range.offset() + self.offset;
        self.range.region().read_into(at, &mut bytes).unwrap();
        bytes
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether it reaches the end of its range.
    pub(crate) fn is_last(&self) -> bool {
        self.offset + self.len as u64 >= self.range.len()
    }

    fn vector(&self) -> libc::iovec {
        let from = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let span = self.range.span().after(from).first(self.len);
        libc::iovec { iov_base: span.ptr().cast(), iov_len: span.len() }
    }
}

/// Most parts of one call.
const MOST_PARTS: usize = 64;

/// What goes out in one call, in order: bytes of frames, and payload.
pub(crate) struct Outgoing<'a> {
    vectors: [libc::iovec; MOST_PARTS],
    parts: usize,
    borrowed: PhantomData<&'a [u8]>,
    /// What the vectors are made of.
    #[cfg(test)]
    pieces: Vec<Piece<'a>>,
}

#[cfg(test)]
enum Piece<'a> {
    Bytes(&'a [u8]),
    Memory(Part<'a>),
}

impl<'a> Outgoing<'a> {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Self {
            vectors: [nothing; MOST_PARTS],
            parts: 0,
            borrowed: PhantomData,
            #[cfg(test)]
            pieces: Vec::new(),
        }
    }

    /// Bytes that go out next; those that find no place go out with a later call.
    pub(crate) fn bytes(&mut self, bytes: &'a [u8]) {
        let base = bytes.as_ptr().cast_mut().cast();
        if self.push(libc::iovec { iov_base: base, iov_len: bytes.len() }) {
            #[cfg(test)]
            self.pieces.push(Piece::Bytes(bytes));
        }
    }

    /// Payload that goes out next; where it finds no place it goes out with a later call.
    pub(crate) fn memory(&mut self, part: Part<'a>) {
        if self.push(part.vector()) {
            #[cfg(test)]
            self.pieces.push(Piece::Memory(part));
        }
    }

    /// Whether nothing more finds place.
    pub(crate) fn is_full(&self) -> bool {
        self.parts == MOST_PARTS
    }

    /// Appends a vector where there is room; whether there was any need and room.
    fn push(&mut self, vector: libc::iovec) -> bool {
        let takes = vector.iov_len > 0 && !self.is_full();
        if takes {
            self.vectors[self.parts] = vector;
            self.parts += 1;
        }
        takes
    }

    /// Its bytes, as a sending socket would take them.
    #[cfg(test)]
    pub(crate) fn load(&self) -> Vec<u8> {
        let bytes = self.pieces.iter().map(|piece| match piece {
            Piece::Bytes(bytes) => bytes.to_vec(),
            Piece::Memory(part) => part.load(),
        });
        bytes.flatten().collect()
    }

    /// How many bytes go out before the first payload.
    #[cfg(test)]
    pub(crate) fn head_bytes(&self) -> usize {
        let heads = self.pieces.iter().map_while(|piece| match piece {
            Piece::Bytes(bytes) => Some(bytes.len()),
            Piece::Memory(_) => None,
        });
        heads.sum()
    }
}

/// Sends as much as the socket takes.
pub(crate) fn send(socket: BorrowedFd<'_>, out: &mut Outgoing<'_>) -> io::Result<usize> {
    // SAFETY: all-zero bytes are a valid `msghdr` (null pointers and zero lengths).
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = out.vectors.as_mut_ptr();
    message.msg_iovlen = out.parts as _;
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: `message` points at `parts` vectors of `out`; each names borrowed bytes or a part
    // of a region that `out` borrows (I1). The kernel only reads them.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) };
    count(sent)
}

/// Receives into a part of a range. 0 is the end of the stream.
pub(crate) fn recv_into(socket: BorrowedFd<'_>, part: Part<'_>) -> io::Result<usize> {
    let vector = part.vector();
    // SAFETY: the vector names a part of a region that `part` borrows (I1). No Rust reference to
    // these bytes exists anywhere, by the promise that made the region.
    let got = unsafe {
        libc::recv(socket.as_raw_fd(), vector.iov_base, vector.iov_len, libc::MSG_DONTWAIT)
    };
    count(got)
}

/// Receives into a part of a range, and what comes behind it into our own bytes. 0 is the end of the
/// stream.
pub(crate) fn recv_into_both(
    socket: BorrowedFd<'_>,
    part: Part<'_>,
    bytes: &mut [u8],
) -> io::Result<usize> {
    let behind = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut vectors = [part.vector(), behind];
    // SAFETY: all-zero bytes are a valid `msghdr` (null pointers and zero lengths).
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = vectors.as_mut_ptr();
    message.msg_iovlen = vectors.len() as _;
    // SAFETY: `message` points at two vectors on this stack: a part of a region that `part` borrows
    // (I1; no Rust reference to these bytes exists), and an exclusive slice.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    count(got)
}

/// Receives into our own bytes. 0 is the end of the stream.
pub(crate) fn recv(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and length are those of an exclusive slice.
    let got = unsafe {
        libc::recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT)
    };
    count(got)
}

/// Receives and drops up to `max` bytes without copying them (tcp(7), `MSG_TRUNC`).
pub(crate) fn discard(socket: BorrowedFd<'_>, max: usize) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing to the buffer, so null is allowed.
    let got = unsafe { libc::recv(socket.as_raw_fd(), std::ptr::null_mut(), max, flags) };
    count(got)
}

/// What waits on a connection that should be silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Nothing; the connection is usable as far as the kernel knows.
    Nothing,
    /// The end of the stream, an error, or bytes nobody asked for.
    Unusable,
}

/// Looks without taking anything.
pub(crate) fn peek(socket: BorrowedFd<'_>) -> Waiting {
    let mut byte = 0u8;
    let flags = libc::MSG_DONTWAIT | libc::MSG_PEEK;
    // SAFETY: the buffer is one byte on this stack.
    let got = unsafe { libc::recv(socket.as_raw_fd(), (&raw mut byte).cast(), 1, flags) };
    match count(got) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Waiting::Nothing,
        _ => Waiting::Unusable,
    }
}

/// Whether what a socket received last was brought by the core of this thread: on one host that is
/// the core on which the peer sent it.
pub(crate) fn comes_from_this_core(socket: BorrowedFd<'_>) -> bool {
    // SAFETY: the call takes no argument.
    let here = unsafe { libc::sched_getcpu() };
    let there = SockRef::from(&socket).cpu_affinity();
    there.is_ok_and(|core| i32::try_from(core) == Ok(here))
}

/// What the peer's kernel has acknowledged on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acked {
    /// Bytes so far. The connection request counts as one; only differences mean something.
    pub(crate) bytes: u64,
    /// How long ago the last acknowledgement came.
    pub(crate) ago: Duration,
}

/// Questions to the other host that are open, and since when nothing was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unanswered {
    /// Bytes that were sent again, and probes.
    pub(crate) questions: u32,
    pub(crate) silent_for: Duration,
}

/// Where `tcpi_retransmits` lies in the kernel's `struct tcp_info`.
const RETRANSMITS: usize = 2;
/// Where `tcpi_probes` lies.
const PROBES: usize = 3;
/// Where `tcpi_last_ack_recv` (ms) lies.
const LAST_ACK: usize = 56;
/// Where `tcpi_bytes_acked` lies (since Linux 4.1).
const BYTES: usize = 120;

/// Asks the kernel, where it tells.
pub(crate) fn acked(socket: BorrowedFd<'_>) -> Option<Acked> {
    let info = tcp_info(socket)?;
    let bytes = u64::from_ne_bytes(info[BYTES..].try_into().ok()?);
    Some(Acked { bytes, ago: since_ack(&info)? })
}

/// Asks the kernel what the other host has not answered, where it tells.
pub(crate) fn unanswered(socket: BorrowedFd<'_>) -> Option<Unanswered> {
    let info = tcp_info(socket)?;
    let questions = u32::from(info[RETRANSMITS]) + u32::from(info[PROBES]);
    Some(Unanswered { questions, silent_for: since_ack(&info)? })
}

fn since_ack(info: &[u8]) -> Option<Duration> {
    let millis = u32::from_ne_bytes(info[LAST_ACK..LAST_ACK + 4].try_into().ok()?);
    Some(Duration::from_millis(millis.into()))
}

fn tcp_info(socket: BorrowedFd<'_>) -> Option<[u8; BYTES + 8]> {
    let mut info = [0u8; BYTES + 8];
    let mut len = libc::socklen_t::try_from(info.len()).ok()?;
    // SAFETY: the kernel writes at most `len` bytes into `info` and the true number into `len`.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    (done == 0 && usize::try_from(len).ok()? >= info.len()).then_some(info)
}

/// Lets a socket that is bound to an address share its port with those bound to others, as one has
/// that is not bound at all.
pub(crate) fn bind_without_port(socket: BorrowedFd<'_>) {
    let on: libc::c_int = 1;
    let len = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(4);
    // SAFETY: the kernel reads `len` bytes at `on`, which is as long. Where it refuses, there are
    // fewer connections for which a port is found.
    let _ = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            len,
        )
    };
}

fn count(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use te_segment::{AlignedBuffer, Region};

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (ours, listener.accept().unwrap().0)
    }

    /// The offset in the kernel's structure is right: what the peer read was acknowledged.
    #[test]
    fn acknowledged_bytes_are_counted() {
        let (mut ours, mut theirs) = pair();
        let before = acked(ours.as_fd()).unwrap().bytes;
        ours.write_all(&[1; 1000]).unwrap();
        let mut all = [0; 1000];
        theirs.read_exact(&mut all).unwrap();
        theirs.write_all(&[2]).unwrap();
        ours.read_exact(&mut all[..1]).unwrap();
        assert_eq!(acked(ours.as_fd()).unwrap().bytes - before, 1000);
    }

    #[test]
    fn frames_and_payload_leave_in_order_and_land_where_asked() {
        let (ours, theirs) = pair();
        let region = Region::from(AlignedBuffer::zeroed(64).unwrap());
        region.write_from(0, b"..payload..").unwrap();
        let range = region.range(1, 21).unwrap();
        let mut out = Outgoing::new();
        out.bytes(b"head ");
        out.memory(Part::new(&range, 1, 7));
        out.bytes(b"");
        out.bytes(b" tail");
        assert_eq!(send(ours.as_fd(), &mut out).unwrap(), 17);
        let mut bytes = [0; 5];
        assert_eq!(recv(theirs.as_fd(), &mut bytes).unwrap(), 5);
        assert_eq!(discard(theirs.as_fd(), 3).unwrap(), 3);
        let mut behind = [0; 9];
        let part = Part::new(&range, 12, 4);
        assert_eq!(recv_into_both(theirs.as_fd(), part, &mut behind).unwrap(), 9);
        let mut landed = [0; 4];
        region.read_into(13, &mut landed).unwrap();
        assert_eq!((&bytes, &landed, &behind[..5]), (b"head ", b"load", &b" tail"[..]));
    }

    #[test]
    fn a_look_takes_nothing_and_tells_the_end() {
        let (ours, mut theirs) = pair();
        assert_eq!(peek(ours.as_fd()), Waiting::Nothing);
        theirs.write_all(&[1]).unwrap();
        let mut byte = [0];
        while peek(ours.as_fd()) == Waiting::Nothing {}
        assert_eq!(recv(ours.as_fd(), &mut byte).unwrap(), 1);
        assert_eq!(peek(ours.as_fd()), Waiting::Nothing);
        drop(theirs);
        while peek(ours.as_fd()) == Waiting::Nothing {}
    }
}
