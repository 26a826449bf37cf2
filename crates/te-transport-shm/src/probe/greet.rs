//! The conversation with a peer's socket, and the proof.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::process::Pid;
use te_metadata::{Incarnation, sabotage};

use super::Obstacle;
use crate::fd;
use crate::offer::ShmOffer;
use crate::table::{Holds, PeerTable};
use crate::vm;
use crate::wire::{Code, Hello, Welcome};

/// What a peer that was proven gave us.
#[derive(Debug)]
pub(super) struct Greeted {
    pub(super) socket: OwnedFd,
    pub(super) table: PeerTable,
    pub(super) holds: Holds,
    /// Whether the system lets us copy from and to its memory.
    pub(super) kernel: bool,
}

/// Asks the socket, and reads the answer's proof in the memory of the process.
pub(super) fn greet(
    pid: Pid,
    offer: &ShmOffer,
    (from, to): (Incarnation, Incarnation),
    timeout: Duration,
) -> Result<Greeted, Obstacle> {
    let socket = connect(&offer.socket).map_err(|error| match error {
        // Connections wait that nobody accepts.
        Errno::AGAIN => Obstacle::Silent { waited: Duration::ZERO },
        error => Obstacle::gone(error.into()),
    })?;
    if fd::credentials(&socket).map_err(Obstacle::gone)?.0 != pid.as_raw_pid() {
        return Err(Obstacle::OtherProcess { what: "owner of the socket" });
    }
    // As random as an incarnation.
    let challenge = Incarnation::random().as_u128();
    let hello = Hello { to, from, challenge };
    rustix::net::send(&socket, &hello.encode(), SendFlags::NOSIGNAL)
        .map_err(|_| Obstacle::TurnedAway)?;
    let (welcome, table, holds) = answer(&socket, timeout)?;
    if welcome.incarnation != to {
        return Err(Obstacle::OtherProcess { what: "incarnation" });
    }
    let (table, holds) = (PeerTable::open(&table, to)?, Holds::open(&holds)?);
    let mut expected = [0; 32];
    expected[..16].copy_from_slice(&challenge.to_le_bytes());
    expected[16..].copy_from_slice(&to.as_u128().to_le_bytes());
    let kernel = is_proven(pid, welcome.proof, &expected)?;
    Ok(Greeted { socket, table, holds, kernel })
}

/// Looks for the proof in the memory of the process. `Ok(false)` where the system does not permit
/// that: all that we use of the peer then comes through its socket.
fn is_proven(pid: Pid, at: u64, expected: &[u8; 32]) -> Result<bool, Obstacle> {
    let mut found = [0; 32];
    match vm::read(pid, at, &mut found) {
        Ok(()) if found == *expected || sabotage::is_off("peer-proof") => Ok(true),
        Ok(()) => Err(Obstacle::Unproven),
        Err(error) => match error.raw_os_error() {
            Some(libc::ESRCH) => Err(Obstacle::gone(error)),
            // The address that the peer named is not in the process that we read.
            Some(libc::EFAULT) => Err(Obstacle::Unproven),
            _ => Ok(false),
        },
    }
}

fn connect(name: &str) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    Ok(socket)
}

/// Waits for the answer and takes what comes with it.
fn answer(socket: &OwnedFd, timeout: Duration) -> Result<(Welcome, OwnedFd, OwnedFd), Obstacle> {
    let mut asked = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
    let limit = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    match rustix::event::poll(&mut asked, Some(&limit)) {
        Ok(0) | Err(Errno::INTR) => return Err(Obstacle::Silent { waited: timeout }),
        Ok(_) => {}
        Err(error) => return Err(Obstacle::gone(error.into())),
    }
    let mut bytes = [0; Welcome::LEN];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::net::recvmsg(
        socket,
        &mut [io::IoSliceMut::new(&mut bytes)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
    );
    let received = received.map_err(|_| Obstacle::TurnedAway)?;
    let mut passed = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            passed.extend(fds);
        }
    }
    if received.bytes == 0 {
        return Err(Obstacle::TurnedAway);
    }
    let is_whole = !received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    let welcome = Welcome::decode(&bytes[..received.bytes.min(Welcome::LEN)]).filter(|_| is_whole);
    let welcome = welcome.ok_or(Obstacle::Answer)?;
    match welcome.code {
        Code::Welcome => {}
        Code::OtherProcess => return Err(Obstacle::OtherProcess { what: "incarnation" }),
        Code::Full => return Err(Obstacle::Full),
    }
    let [table, holds] = <[OwnedFd; 2]>::try_from(passed).map_err(|_| Obstacle::Answer)?;
    Ok((welcome, table, holds))
}
