//! Name look-ups with a bound.
//!
//! The system's resolver has no time limit that a caller could set, so a look-up of a name runs on
//! a thread of its own; one that takes too long, or is called off, is left behind and ends when the
//! resolver does. Their number is bounded. Literals need no thread.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, TryRecvError};
use std::thread;
use std::time::Duration;

use super::deadline::Deadline;
use super::interrupt::Interrupt;
use crate::{AddressFamily, DEFAULT_PEER_PORT, HostPort};

/// Look-ups that may be under way in the process.
const MAX_LOOKUPS: usize = 64;

static LOOKUPS: AtomicUsize = AtomicUsize::new(0);

/// The addresses of `peer`, or an error of kind `TimedOut` after `limit` or an interrupt.
pub(super) fn resolve_within(
    peer: &HostPort,
    family: AddressFamily,
    limit: Duration,
    interrupt: &Interrupt,
) -> io::Result<Vec<SocketAddr>> {
    if peer.ip().is_some() {
        return peer.resolve(DEFAULT_PEER_PORT, family);
    }
    let deadline = Deadline::after(limit);
    let mut sleeper = interrupt.sleeper()?;
    let permit = Permit::take()?;
    let (sender, receiver) = mpsc::sync_channel(1);
    let (peer, waker) = (peer.clone(), sleeper.waker());
    thread::Builder::new().name("te-lookup".to_owned()).spawn(move || {
        let found = peer.resolve(DEFAULT_PEER_PORT, family);
        drop(permit);
        // The caller may have given up; its sleep is then over too.
        let _ = sender.send(found);
        let _ = waker.wake();
    })?;
    loop {
        match receiver.try_recv() {
            Ok(found) => return found,
            Err(TryRecvError::Disconnected) => {
                return Err(io::Error::other("the look-up panicked"));
            }
            Err(TryRecvError::Empty) => {}
        }
        let left = deadline.left().filter(|_| !sleeper.is_interrupted());
        let late =
            || io::Error::new(io::ErrorKind::TimedOut, "the resolver did not answer in time");
        sleeper.sleep(left.ok_or_else(late)?)?;
    }
}

/// The right to have one look-up under way.
struct Permit;

impl Permit {
    fn take() -> io::Result<Self> {
        let before = LOOKUPS.fetch_add(1, Ordering::Relaxed);
        let permit = Self;
        if before >= MAX_LOOKUPS {
            drop(permit);
            return Err(io::Error::other("too many name look-ups are under way"));
        }
        Ok(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        LOOKUPS.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Held by a test that looks names up or takes the permits for it: there is one set for all.
    static TURN: te_sync::Mutex<()> = te_sync::Mutex::new(());

    #[test]
    fn names_and_literals_are_found() {
        let _turn = TURN.lock();
        let find = |text| {
            let peer = HostPort::parse(text).unwrap();
            let limit = Duration::from_secs(5);
            resolve_within(&peer, AddressFamily::Any, limit, &Interrupt::default()).unwrap()
        };
        assert_eq!(find("127.0.0.1"), ["127.0.0.1:12001".parse().unwrap()]);
        assert!(find("localhost:7").iter().all(|address| address.port() == 7));
    }

    #[test]
    fn the_number_of_look_ups_is_bounded() {
        let _turn = TURN.lock();
        let permits: Vec<_> = (0..MAX_LOOKUPS).map_while(|_| Permit::take().ok()).collect();
        assert!(Permit::take().is_err());
        drop(permits);
        assert!(Permit::take().is_ok());
    }
}
