//! Processes that may use our memory, from the first word to the last.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown};
use rustix::process::{Pid, PidfdFlags};
use te_metadata::{BufferHandle, Incarnation};
use te_segment::LocalBuffer;

use crate::fd;
use crate::map::{Ask, Reply};
use crate::table::Holds;
use crate::wire::{Code, Hello, Welcome};

/// A process that connected and has not said what it wants.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) socket: OwnedFd,
    process: OwnedFd,
    /// When it is sent away.
    pub(super) until: Instant,
}

/// A process that has the guard table.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(super) socket: OwnedFd,
    pub(super) process: OwnedFd,
    /// What it holds.
    pub(crate) holds: Holds,
    /// What it looks for in our memory: its challenge, and our incarnation.
    proof: Box<[AtomicU64; 4]>,
}

/// What a caller said.
pub(super) enum Said {
    /// Nothing yet.
    Nothing,
    /// What it wants.
    Hello(Hello),
    /// Something else, or it left.
    Nonsense,
}

impl Caller {
    /// Takes a connection of a process of our own user, or of the system's.
    pub(super) fn new(socket: OwnedFd, until: Instant) -> io::Result<Self> {
        let (pid, uid) = fd::credentials(&socket)?;
        let ours = rustix::process::geteuid().as_raw();
        if uid != ours && uid != 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // 0 where it is in a pid namespace that is not part of ours: its end would not be seen.
        let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::NotFound)?;
        let process = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        let caller = Self { socket, process, until };
        // Whoever had that number when it was looked up is the one that is connected.
        let left = is_set(&caller.socket, PollFlags::empty()) || caller.is_dead();
        if left { Err(io::ErrorKind::NotConnected.into()) } else { Ok(caller) }
    }

    fn is_dead(&self) -> bool {
        is_set(&self.process, PollFlags::IN)
    }

    pub(super) fn listen(&self) -> Said {
        let mut bytes = [0; Hello::LEN + 1];
        match rustix::net::recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((n, _)) => Hello::decode(&bytes[..n]).map_or(Said::Nonsense, Said::Hello),
            Err(Errno::AGAIN | Errno::INTR) => Said::Nothing,
            Err(_) => Said::Nonsense,
        }
    }

    /// Says why it is not let in.
    pub(super) fn refuse(&self, code: Code, own: Incarnation) {
        let answer = Welcome { code, incarnation: own, proof: 0 };
        // One that left needs no answer.
        let _ = rustix::net::send(&self.socket, &answer.encode(), SendFlags::NOSIGNAL);
    }

    /// Makes a guest of it, and gives the descriptor of its holds.
    pub(super) fn admit(self, hello: &Hello, own: Incarnation) -> io::Result<(Guest, OwnedFd)> {
        let (fd, holds) = Holds::create()?;
        let halves = |wide: u128| {
            let bytes = wide.to_le_bytes();
            [0, 8].map(|at| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i])))
        };
        let ([a, b], [c, d]) = (halves(hello.challenge), halves(own.as_u128()));
        let proof = Box::new([a, b, c, d].map(AtomicU64::new));
        let Self { socket, process, .. } = self;
        Ok((Guest { socket, process, holds, proof }, fd))
    }
}

impl Guest {
    /// Lets it in. It is on the list already, since it may put a hold from now on.
    pub(super) fn welcome(&self, own: Incarnation, fds: [&OwnedFd; 2]) -> io::Result<()> {
        let proof = self.proof.as_ptr().addr() as u64;
        let answer = Welcome { code: Code::Welcome, incarnation: own, proof };
        let fds = fds.map(|fd| fd.as_fd());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&fds));
        let bytes = answer.encode();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut control, flags)?;
        Ok(())
    }

    /// Takes one question about a buffer, and answers it. Whoever says anything else is hung up on.
    pub(super) fn hear(&self, find: impl FnOnce(BufferHandle) -> Option<Arc<LocalBuffer>>) {
        let mut bytes = [0; Ask::LEN + 1];
        let ask = match rustix::net::recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((n, _)) => Ask::decode(&bytes[..n]),
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => None,
        };
        let Some(ask) = ask else {
            // It may have left by itself.
            let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
            return;
        };
        if let Err(error) = Reply::new(ask, find(ask.buffer).as_deref()).send(&self.socket) {
            tracing::debug!(%error, "a question about a buffer got no answer");
        }
    }

    /// Whether its process has ended. Nothing that it did goes on then.
    pub(crate) fn is_dead(&self) -> bool {
        is_set(&self.process, PollFlags::IN)
    }

    /// Whether nothing of it counts any more: it is dead, or it hung up and holds nothing.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_dead() || (self.has_hung_up() && self.holds.is_idle())
    }

    /// Whether it closed the connection.
    pub(super) fn has_hung_up(&self) -> bool {
        is_set(&self.socket, PollFlags::empty())
    }
}

/// Whether a descriptor has one of these events now, or an error or an end, which always count.
fn is_set(fd: &OwnedFd, events: PollFlags) -> bool {
    let mut asked = [PollFd::from_borrowed_fd(fd.as_fd(), events)];
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    !matches!(rustix::event::poll(&mut asked, Some(&none)), Ok(0) | Err(Errno::INTR))
}

/// A guest of any process, its page, and the other end of its socket.
#[cfg(test)]
pub(crate) fn guest_of(pid: Pid, own: Incarnation) -> (Guest, OwnedFd, OwnedFd) {
    let flags = rustix::net::SocketFlags::CLOEXEC;
    let kind = rustix::net::SocketType::SEQPACKET;
    let family = rustix::net::AddressFamily::UNIX;
    let (socket, other) = rustix::net::socketpair(family, kind, flags, None).unwrap();
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).unwrap();
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    let caller = Caller { socket, process, until: Instant::now() };
    let hello = Hello { to: own, from: own, challenge: 1 };
    let (guest, fd) = caller.admit(&hello, own).unwrap();
    (guest, fd, other)
}
