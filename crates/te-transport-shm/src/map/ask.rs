//! Asking a peer to lend a buffer, on the connection that was made for the guard table.
//!
//! ```text
//!   initiator                          owner
//!     Ask { slot, generation } ─────────▶  is it ours, open to others, and in a file?
//!     ◀───── Lent { …, offset, len } + [file]      or Lent { … } without one: no
//! ```
//!
//! An initiator does not wait for the answer as long as there is another way to copy.
//!
//! I1  Every answer belongs to a question that is open; a peer that says anything else is not asked
//!     again, and its descriptors are closed.
//! I2  Open questions are bounded, and so is the time that anybody waits for an answer.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use te_metadata::BufferHandle;
use te_segment::LocalBuffer;

use super::{Found, Loan, WindowLimits, Windows};

/// Questions that may be open at the same time.
const MAX_OPEN: usize = 32;
/// Looks for an answer that may be in vain, one a round, before it is not expected any more.
const MAX_LOOKS: u32 = 4096;

const ASK_MAGIC: [u8; 8] = *b"te-ask\x00\x01";
const LENT_MAGIC: [u8; 8] = *b"te-lent\x01";

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) buffer: BufferHandle,
}

impl Ask {
    pub(crate) const LEN: usize = 16;

    fn encode(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&ASK_MAGIC);
        bytes[8..].copy_from_slice(&handle_bytes(self.buffer));
        bytes
    }

    /// `None` for anything that is no such message.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.try_into().ok()?;
        (bytes[..8] == ASK_MAGIC).then(|| Self { buffer: handle_at(bytes) })
    }
}

/// An answer. Without terms: no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lent {
    buffer: BufferHandle,
    terms: Option<Terms>,
}

/// Where in the file that comes with it the buffer lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Terms {
    offset: u64,
    len: u64,
    writable: bool,
}

impl Lent {
    const LEN: usize = 40;
    const NO: u64 = 0;
    const READ: u64 = 1;
    const WRITE: u64 = 2;

    fn encode(self) -> [u8; Self::LEN] {
        let (offset, len, kind) = match self.terms {
            None => (0, 0, Self::NO),
            Some(Terms { offset, len, writable: false }) => (offset, len, Self::READ),
            Some(Terms { offset, len, writable: true }) => (offset, len, Self::WRITE),
        };
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&LENT_MAGIC);
        bytes[8..16].copy_from_slice(&handle_bytes(self.buffer));
        bytes[16..24].copy_from_slice(&kind.to_le_bytes());
        bytes[24..32].copy_from_slice(&offset.to_le_bytes());
        bytes[32..].copy_from_slice(&len.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.try_into().ok()?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let terms = |writable| Terms { offset: word(24), len: word(32), writable };
        let terms = match word(16) {
            Self::NO => None,
            Self::READ => Some(terms(false)),
            Self::WRITE => Some(terms(true)),
            _ => return None,
        };
        (bytes[..8] == LENT_MAGIC).then(|| Self { buffer: handle_at(bytes), terms })
    }
}

fn handle_bytes(buffer: BufferHandle) -> [u8; 8] {
    (u64::from(buffer.slot) | u64::from(buffer.generation) << 32).to_le_bytes()
}

/// The handle behind the magic; both messages are that long.
fn handle_at(bytes: &[u8]) -> BufferHandle {
    let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    BufferHandle { slot: half(8), generation: half(12) }
}

/// What an owner answers to [`Ask`].
#[derive(Debug)]
pub(crate) struct Reply {
    lent: Lent,
    file: Option<OwnedFd>,
}

impl Reply {
    /// Lends a buffer where it can be lent; `None` stands for one that is not there any more.
    pub(crate) fn new(ask: Ask, buffer: Option<&LocalBuffer>) -> Self {
        let Some(loan) = buffer.and_then(Loan::of) else {
            return Self { lent: Lent { buffer: ask.buffer, terms: None }, file: None };
        };
        let Loan { file, offset, len, writable } = loan;
        let terms = Some(Terms { offset, len, writable });
        Self { lent: Lent { buffer: ask.buffer, terms }, file: Some(file) }
    }

    /// Sends it without waiting. One that asks more than it takes answers gets none.
    pub(crate) fn send(&self, socket: &OwnedFd) -> io::Result<()> {
        let bytes = self.lent.encode();
        let files: Vec<_> = self.file.iter().map(|file| file.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&files));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, flags)?;
        Ok(())
    }
}

/// What an initiator knows of the memory of one peer, and what it has asked.
#[derive(Debug)]
pub(crate) struct Borrower {
    windows: Windows,
    open: Vec<BufferHandle>,
    looks: u32,
    /// The peer gave no answer, or a wrong one.
    silent: bool,
}

impl Default for Borrower {
    fn default() -> Self {
        Self::new(WindowLimits::default())
    }
}

impl Borrower {
    /// Nothing was asked yet.
    pub(crate) fn new(limits: WindowLimits) -> Self {
        Self { windows: Windows::new(limits), open: Vec::new(), looks: 0, silent: false }
    }

    /// What is known of a buffer. Asks for it where nothing is, and takes the answers that came;
    /// does not wait.
    pub(crate) fn find(&mut self, socket: &OwnedFd, buffer: BufferHandle) -> Found<'_> {
        if !self.open.is_empty() {
            self.hear(socket);
        }
        if !self.windows.knows(buffer) {
            self.ask(socket, buffer);
        }
        self.windows.find(buffer)
    }

    /// The same where there is no other way to copy: waits for the answer, at most `patience`, and
    /// as long for each of the other answers that are open.
    pub(crate) fn wait_for(
        &mut self,
        socket: &OwnedFd,
        buffer: BufferHandle,
        patience: Duration,
    ) -> Found<'_> {
        let limit = Timespec::try_from(patience).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        if matches!(self.find(socket, buffer), Found::Unknown) {
            // Each answer wakes us, and there are no more answers than questions.
            for _ in 0..=self.open.len() {
                let mut asked = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
                let woken = rustix::event::poll(&mut asked, Some(&limit));
                self.hear(socket);
                if !self.open.contains(&buffer) {
                    break;
                }
                if !matches!(woken, Ok(1) | Err(Errno::INTR)) {
                    self.give_up();
                    break;
                }
            }
        }
        self.windows.find(buffer)
    }

    /// Lets go of the buffers that are not wanted any more.
    pub(crate) fn retain(&mut self, wanted: impl Fn(BufferHandle) -> bool) {
        self.windows.retain(wanted);
    }

    /// Whether anything is mapped or remembered.
    pub(crate) fn is_empty(&self) -> bool {
        self.windows.len() == 0
    }

    fn ask(&mut self, socket: &OwnedFd, buffer: BufferHandle) {
        if self.silent {
            return self.windows.refuse(buffer);
        }
        if self.open.len() >= MAX_OPEN || self.open.contains(&buffer) {
            return;
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::net::send(socket, &Ask { buffer }.encode(), flags) {
            Ok(_) => self.open.push(buffer),
            // There is room again once the peer has read what is there.
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => {}
            Err(_) => self.give_up(),
        }
    }

    /// Takes the answers that came.
    fn hear(&mut self, socket: &OwnedFd) {
        while !self.open.is_empty() {
            let is_good = match receive(socket) {
                Ok(Some((lent, file))) => self.settle(lent, file),
                Err(Errno::INTR) => true,
                Err(Errno::AGAIN) if self.looks < MAX_LOOKS => {
                    self.looks += 1;
                    return;
                }
                Ok(None) | Err(_) => false,
            };
            if !is_good {
                return self.give_up();
            }
            self.looks = 0;
        }
    }

    /// Takes one answer. Whether it was one to an open question.
    fn settle(&mut self, lent: Lent, file: Option<OwnedFd>) -> bool {
        let Some(at) = self.open.iter().position(|buffer| *buffer == lent.buffer) else {
            return false;
        };
        self.open.swap_remove(at);
        match (lent.terms, file) {
            (Some(Terms { offset, len, writable }), Some(file)) => {
                let loan = Loan { file, offset, len, writable };
                if let Err(error) = self.windows.insert(lent.buffer, loan) {
                    tracing::debug!(%error, "memory that a peer lent is not used");
                }
                true
            }
            (None, None) => {
                self.windows.refuse(lent.buffer);
                true
            }
            _ => false,
        }
    }

    /// Nothing is asked or heard any more; what is mapped stays.
    fn give_up(&mut self) {
        self.silent = true;
        self.open.drain(..).for_each(|buffer| self.windows.refuse(buffer));
    }
}

/// One answer; `None` for a packet that is none, or the end. Descriptors that do not belong to it
/// are closed.
fn receive(socket: &OwnedFd) -> Result<Option<(Lent, Option<OwnedFd>)>, Errno> {
    let mut bytes = [0; Lent::LEN];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received =
        rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)?;
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            files.extend(passed);
        }
    }
    let is_cut = received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    if is_cut || files.len() > 1 {
        return Ok(None);
    }
    let lent = Lent::decode(&bytes[..received.bytes.min(Lent::LEN)]);
    Ok(lent.map(|lent| (lent, files.pop())))
}

#[cfg(test)]
mod tests;
