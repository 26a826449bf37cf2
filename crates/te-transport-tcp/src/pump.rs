//! Moves bytes between a machine and its socket until neither side can go on.
//!
//! The readiness that the poller reports is edge-triggered, so a side counts as ready until a call
//! answers "would block". A short transfer does not count as that: behind it may be an `EFAULT`,
//! for which no further edge ever comes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use crate::io as sys;
use crate::io::{Outgoing, Part};

/// What a machine wants to receive next.
#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    /// At most this many bytes, up to [`MAX_FRAME`], for itself; more than there is may be asked.
    Frame(usize),
    /// Payload, straight into registered memory, and with it at most `more` bytes of what follows
    /// for itself.
    Payload { part: Part<'a>, more: usize },
    /// At most this many bytes, of no interest.
    Discard(usize),
}

/// The most that [`Incoming::Frame`] may ask for.
pub(crate) const MAX_FRAME: usize = 64 << 10;
/// Bytes moved on one connection before the others have their turn.
const TURN: usize = 1 << 20;

/// Where frames are received to, [`MAX_FRAME`] bytes; one for all connections of a driver.
pub(crate) type Scratch = Box<[u8]>;

/// A scratch.
pub(crate) fn scratch() -> Scratch {
    vec![0; MAX_FRAME].into()
}

/// Which direction failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Send,
    Receive,
}

/// One end of a connection, without the socket.
pub(crate) trait Machine {
    /// What to send now.
    fn outgoing(&mut self) -> Option<Outgoing<'_>>;
    /// What to receive now.
    fn incoming(&mut self) -> Option<Incoming<'_>>;
    /// `n` bytes of the last [`Machine::outgoing`] were sent.
    fn on_sent(&mut self, now: Instant, n: usize);
    /// These bytes came for [`Incoming::Frame`], or as more behind [`Incoming::Payload`].
    fn on_frame(&mut self, now: Instant, bytes: &[u8]);
    /// `n` bytes came for [`Incoming::Payload`] or [`Incoming::Discard`].
    fn on_received(&mut self, now: Instant, n: usize);
    /// The peer sends nothing more.
    fn on_end(&mut self, now: Instant);
    /// A call failed; `EFAULT` means that local memory is gone and the connection is well.
    fn on_error(&mut self, now: Instant, side: Side, error: io::Error);
    /// Whether there is nothing left to do here.
    fn is_over(&self) -> bool;
}

/// Which calls may be worth a try.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ready {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

/// Why [`pump`] stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// The socket gives and takes nothing now, or the machine wants nothing.
    Blocked,
    /// The turn is used up; others first, then again.
    TurnOver,
    /// The machine is over.
    Over,
}

/// Bytes that may come in before what goes out has its chance: answers go out together.
const SOON: usize = 128 << 10;

/// Runs a machine for one turn.
pub(crate) fn pump(
    machine: &mut impl Machine,
    socket: &impl AsFd,
    ready: &mut Ready,
    now: Instant,
    scratch: &mut [u8],
) -> Stopped {
    turn(machine, socket.as_fd(), ready, (now, scratch), TURN)
}

/// Moves about `left` bytes.
fn turn(
    machine: &mut impl Machine,
    socket: BorrowedFd<'_>,
    ready: &mut Ready,
    (now, scratch): (Instant, &mut [u8]),
    mut left: usize,
) -> Stopped {
    // Bytes that came since the last chance to send, and whether more is there already.
    let (mut came, mut more) = (0, false);
    loop {
        let first_in = more && came < SOON;
        let sent = if first_in { None } else { send_once(machine, socket, ready, now) };
        let received = receive_once(machine, socket, ready, (now, &mut *scratch));
        if machine.is_over() {
            return Stopped::Over;
        }
        let Received { bytes, full } = received.unwrap_or_default();
        if sent.is_none() && received.is_none() && !first_in {
            return Stopped::Blocked;
        }
        (came, more) = (if first_in { came + bytes } else { bytes }, full);
        left = left.saturating_sub(sent.unwrap_or(0) + bytes);
        if left == 0 {
            // Whoever waits for an answer to what just came shall not wait for the turns of others.
            if bytes > 0 {
                send_once(machine, socket, ready, now);
            }
            return if machine.is_over() { Stopped::Over } else { Stopped::TurnOver };
        }
    }
}

/// What a call brought.
#[derive(Debug, Clone, Copy, Default)]
struct Received {
    bytes: usize,
    /// Whether it brought all that was asked for, so that more is likely to be there.
    full: bool,
}

/// Gives the bytes moved, or `None` where no call is worth a try.
fn send_once(
    machine: &mut impl Machine,
    socket: BorrowedFd<'_>,
    ready: &mut Ready,
    now: Instant,
) -> Option<usize> {
    if !ready.writable || machine.is_over() {
        return None;
    }
    let mut outgoing = machine.outgoing()?;
    match sys::send(socket, &mut outgoing) {
        Ok(n) => {
            machine.on_sent(now, n);
            return Some(n);
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.writable = false,
        Err(error) => {
            // The peer may have said why before it closed.
            ready.readable = true;
            machine.on_error(now, Side::Send, error);
        }
    }
    Some(0)
}

/// Gives what came, or `None` where no call is worth a try.
fn receive_once(
    machine: &mut impl Machine,
    socket: BorrowedFd<'_>,
    ready: &mut Ready,
    (now, scratch): (Instant, &mut [u8]),
) -> Option<Received> {
    if !ready.readable || machine.is_over() {
        return None;
    }
    // Bytes asked for in memory, or of no interest; and bytes of frames behind them.
    let (ahead, behind, outcome) = match machine.incoming()? {
        Incoming::Frame(n) => {
            let n = n.min(scratch.len());
            (0, n, sys::recv(socket, &mut scratch[..n]))
        }
        Incoming::Payload { part, more: 0 } => (part.len(), 0, sys::recv_into(socket, part)),
        Incoming::Payload { part, more } => {
            (part.len(), more, sys::recv_into_both(socket, part, &mut scratch[..more]))
        }
        Incoming::Discard(n) => (n, 0, sys::discard(socket, n)),
    };
    match outcome {
        Ok(0) => machine.on_end(now),
        Ok(n) => {
            if ahead > 0 {
                machine.on_received(now, n.min(ahead));
            }
            if n > ahead {
                machine.on_frame(now, &scratch[..n - ahead]);
            }
            return Some(Received { bytes: n, full: n == ahead + behind });
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.readable = false,
        Err(error) => machine.on_error(now, Side::Receive, error),
    }
    Some(Received::default())
}

#[cfg(test)]
pub(crate) mod harness;
#[cfg(test)]
mod tests;
