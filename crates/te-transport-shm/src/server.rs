//! The thread that lets other processes in and waits for them to let go.
//!
//! ```text
//!   connection ─▶ Caller ──hello──▶ Guest: has the guard table and a page for its holds
//!                   └─ too slow, another user, nonsense ─▶ closed
//! ```
//!
//! A guest may ask for the memory of a buffer, to map it; see `map/ask.rs`.
//!
//! It sleeps without a timeout while nobody is between two steps and no buffer is being closed.
//!
//! I1  Callers and guests are bounded in number; a caller has a bounded time.
//! I2  A buffer that is closed is let go of when the last hold on it is gone, or its holder dead.
//! I3  At the end what living processes still hold is kept for good.

mod guest;

use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use te_metadata::Incarnation;
use te_sync::Mutex;
use te_transport::Clock;

pub(crate) use self::guest::Guest;
use self::guest::{Caller, Said};
use crate::config::ShmConfig;
use crate::offering::Offering;
use crate::wire::{Code, Hello};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 256;
/// Callers at the same time; the oldest gives way to a new one.
const MAX_CALLERS: usize = 64;
/// First and longest pause between two looks for holds; it doubles while nothing changes.
const PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// The pause after the system gave no descriptor for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What the transport and the thread share.
pub(crate) struct Server {
    pub(crate) offering: Offering,
    incarnation: Incarnation,
    config: ShmConfig,
    listener: OwnedFd,
    bell: OwnedFd,
    /// A buffer was closed that somebody holds.
    news: AtomicBool,
    /// When the thread shall have ended.
    stop_by: Mutex<Option<Instant>>,
    clock: Arc<dyn Clock>,
}

/// What only the thread has.
struct Rounds {
    /// The oldest first.
    callers: Vec<Caller>,
    pause: Duration,
    /// No connection is accepted before.
    accept_after: Option<Instant>,
}

impl Server {
    /// Listens on an abstract socket of this name.
    pub(crate) fn new(
        name: &str,
        offering: Offering,
        incarnation: Incarnation,
        config: ShmConfig,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::SEQPACKET;
        let listener = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
        rustix::net::bind(&listener, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        rustix::net::listen(&listener, BACKLOG)?;
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (news, stop_by) = (AtomicBool::new(false), Mutex::new(None));
        Ok(Self { offering, incarnation, config, listener, bell, news, stop_by, clock })
    }

    /// A buffer was closed that somebody holds.
    pub(crate) fn on_closing(&self) {
        self.news.store(true, Ordering::SeqCst);
        self.ring();
    }

    /// Takes every buffer back and ends the thread, which waits for holds until then.
    pub(crate) fn stop(&self, deadline: Instant) {
        self.offering.shut();
        self.stop_by.lock().get_or_insert(deadline);
        self.ring();
    }

    fn ring(&self) {
        // A counter that is full wakes as well, so there is no failure to handle.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// The thread.
    pub(crate) fn run(&self) {
        let mut rounds = Rounds { callers: Vec::new(), pause: PAUSE, accept_after: None };
        loop {
            let now = self.clock.now();
            let held = self.offering.settle();
            let stop_by = *self.stop_by.lock();
            if let Some(deadline) = stop_by
                && (held == 0 || now >= deadline)
            {
                self.offering.keep_for_good();
                return self.offering.remove_guests(|_| true);
            }
            if held == 0 || self.news.swap(false, Ordering::SeqCst) {
                rounds.pause = PAUSE;
            } else {
                rounds.pause = (rounds.pause * 2).min(LONGEST_PAUSE);
            }
            rounds.callers.retain(|caller| caller.until > now);
            let due = rounds.callers.iter().map(|caller| caller.until).min();
            let due = due.into_iter().chain(rounds.accept_after).chain(stop_by).min();
            let due = due.map(|at| at.saturating_duration_since(now));
            let looks = (held > 0).then_some(rounds.pause);
            self.wait(&mut rounds, now, due.into_iter().chain(looks).min());
        }
    }

    /// Waits for an event, and does what it asks for.
    fn wait(&self, rounds: &mut Rounds, now: Instant, timeout: Option<Duration>) {
        let guests = self.offering.guests();
        let accepts = rounds.accept_after.is_none_or(|after| after <= now);
        let on_listener = if accepts { PollFlags::IN } else { PollFlags::empty() };
        let mut asked = vec![
            PollFd::from_borrowed_fd(self.bell.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.listener.as_fd(), on_listener),
        ];
        let callers = rounds.callers.iter().map(|caller| (&caller.socket, PollFlags::IN));
        let processes = guests.iter().map(|guest| (&guest.process, PollFlags::IN));
        // The end of one that hung up with a hold on is that of its process.
        let here: Vec<_> = guests.iter().filter(|guest| !guest.has_hung_up()).collect();
        let sockets = here.iter().map(|guest| (&guest.socket, PollFlags::IN));
        let rest = callers.chain(processes).chain(sockets);
        asked.extend(rest.map(|(fd, on)| PollFd::from_borrowed_fd(fd.as_fd(), on)));
        let limit = timeout.and_then(|limit| Timespec::try_from(limit).ok());
        if rustix::event::poll(&mut asked, limit.as_ref()).is_err() {
            return;
        }
        if !asked[0].revents().is_empty() {
            let mut count = [0; 8];
            let _ = rustix::io::read(&self.bell, &mut count);
        }
        let knocked = !asked[1].revents().is_empty();
        let sockets = &asked[asked.len() - here.len()..];
        for (guest, _) in
            here.iter().zip(sockets).filter(|(_, s)| s.revents().intersects(PollFlags::IN))
        {
            guest.hear(|buffer| self.offering.find(buffer));
        }
        drop(asked);
        self.offering.remove_guests(Guest::is_gone);
        self.hear(rounds);
        if knocked && self.stop_by.lock().is_none() {
            self.accept(rounds, now);
        }
    }

    /// Lets in whoever said what it wants.
    fn hear(&self, rounds: &mut Rounds) {
        let mut at = 0;
        while let Some(caller) = rounds.callers.get(at) {
            match caller.listen() {
                Said::Nothing => at += 1,
                Said::Nonsense => drop(rounds.callers.remove(at)),
                Said::Hello(hello) => self.admit(rounds.callers.remove(at), &hello),
            }
        }
    }

    fn admit(&self, caller: Caller, hello: &Hello) {
        let own = self.incarnation;
        if hello.to != own {
            return caller.refuse(Code::OtherProcess, own);
        }
        if self.offering.guests().len() >= self.config.max_peers {
            return caller.refuse(Code::Full, own);
        }
        let Ok((guest, holds)) = caller.admit(hello, own) else { return };
        let guest = Arc::new(guest);
        self.offering.add_guest(Arc::clone(&guest));
        if guest.welcome(own, [self.offering.table().fd(), &holds]).is_err() {
            self.offering.remove_guests(|other| std::ptr::eq(other, &*guest));
        }
    }

    fn accept(&self, rounds: &mut Rounds, now: Instant) {
        rounds.accept_after = None;
        // No more than half of them in one go: each is heard once before it gives way to others.
        for _ in 0..MAX_CALLERS / 2 {
            if rounds.callers.len() == MAX_CALLERS {
                rounds.callers.remove(0);
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match rustix::net::accept_with(&self.listener, flags) {
                Ok(socket) => match Caller::new(socket, now + self.config.greeting_timeout) {
                    Ok(caller) => rounds.callers.push(caller),
                    Err(error) => tracing::debug!(%error, "a process was turned away"),
                },
                Err(rustix::io::Errno::AGAIN) => return,
                Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {}
                Err(error) => {
                    tracing::warn!(%error, "no connection of another process can be accepted");
                    rounds.accept_after = Some(now + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({:?})", self.offering)
    }
}

#[cfg(test)]
pub(crate) use self::guest::guest_of;
