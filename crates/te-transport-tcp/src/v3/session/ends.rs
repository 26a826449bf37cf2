//! How the requests of a session end when the peer does not say it.

use std::io;
use std::time::Instant;

use te_segment::{CopyError, Opcode};
use te_transport::{FaultClass, Phase, RemoteSide, SliceFault};

use super::{Finished, Flight, Life, News, Session};
use crate::exchange::Fate;
use crate::pool::Job;
use crate::pump::Side;
use crate::v3::frame::Violation;

/// Why everything ends.
struct End<'a> {
    class: FaultClass,
    cause: &'a str,
    error: Option<&'a io::Error>,
    /// Whether the peer said that it is done with all of it.
    settled: bool,
    /// Whether the connection went away, and was not given up.
    lost: bool,
}

impl End<'_> {
    fn fault(&self, session: &Session, phase: Phase) -> SliceFault {
        let fault = session.fault(self.class, phase, self.cause);
        match self.error {
            Some(error) => fault.with_os_error(error),
            None => fault,
        }
    }
}

impl Session {
    pub(super) fn finish(
        &mut self,
        job: Job,
        (result, remote): (Result<(), SliceFault>, RemoteSide),
        moved: u64,
    ) {
        self.finished.push(Finished { job, result, remote, lost: false, moved });
    }

    /// Takes a request out; nothing touches its local memory from now on.
    pub(super) fn remove(&mut self, id: u64) -> Option<Flight> {
        self.out.let_go(id);
        if self.body.as_ref().is_some_and(|body| body.id == id) {
            self.body = None;
        }
        if self.reads.front() == Some(&id) {
            self.reads.pop_front();
        } else {
            self.reads.retain(|read| *read != id);
        }
        self.cancels.retain(|cancel| *cancel != id);
        self.flights.remove(&id)
    }

    /// Asks the peer to end a request, which then ends with this fault.
    pub(super) fn call_back(&mut self, now: Instant, id: u64, fault: SliceFault) {
        let Some(flight) = self.flights.get_mut(&id) else { return };
        // Memory that cannot be touched counts more than why the request was to end before: bytes
        // that come for it must be dropped, not offered to it again.
        if flight.fault.is_none() || fault.class == FaultClass::Local {
            flight.fault = Some(fault);
        }
        if flight.cancelled.is_none() {
            flight.cancelled = Some(now);
            self.cancels.push_back(id);
        }
        if self.body.as_ref().is_some_and(|body| body.id == id) {
            self.body = None;
        }
    }

    /// The peer sends nothing more for us: all that is in flight has ended there.
    pub(super) fn part(&mut self) {
        let (class, cause) = (FaultClass::Peer, "the peer is closing");
        self.end_all(&End { class, cause, error: None, settled: true, lost: true });
        self.life = Life::Over(Fate::Close);
    }

    /// The connection is gone, or of no use any more.
    pub(super) fn give_up(&mut self, class: FaultClass, cause: &str) {
        if self.is_greeting() {
            return self.refuse(class, cause);
        }
        self.end_all(&End { class, cause, error: None, settled: false, lost: false });
        self.life = Life::Over(Fate::Reset);
    }

    /// The way to the peer is dead: ends as a lost connection.
    pub(crate) fn lose_path(&mut self, cause: &str) {
        if self.fate().is_none() && !self.is_greeting() {
            self.lose(cause, None);
        }
    }

    /// The peer, or the network, ended the connection.
    pub(super) fn lose(&mut self, cause: &str, error: Option<&io::Error>) {
        let error = self.send_error.take().or_else(|| copy_of(error?));
        let (class, error) = (FaultClass::Rail, error.as_ref());
        self.end_all(&End { class, cause, error, settled: false, lost: true });
        self.life = Life::Over(Fate::Reset);
    }

    fn end_all(&mut self, end: &End<'_>) {
        let sent = self.out.sent();
        let phases: Vec<_> = self.flights.keys().map(|id| self.phase_of(*id)).collect();
        let flights = std::mem::take(&mut self.flights);
        for (flight, phase) in flights.into_values().zip(phases) {
            let remote = match flight.job.slice.op {
                _ if sent <= flight.begins => flight.job.remote_so_far(),
                Opcode::Write if !end.settled => RemoteSide::InDoubt,
                _ => RemoteSide::Settled,
            };
            let fault = flight.fault.unwrap_or_else(|| end.fault(self, phase));
            let (job, moved) = (flight.job, flight.received);
            if !flight.told {
                self.finished.push(Finished {
                    job,
                    result: Err(fault),
                    remote,
                    lost: end.lost,
                    moved,
                });
            }
        }
        for job in std::mem::take(&mut self.waiting) {
            let fault = end.fault(self, Phase::Queue);
            let remote = job.remote_so_far();
            let (result, lost) = (Err(fault), end.lost);
            self.finished.push(Finished { job, result, remote, lost, moved: 0 });
        }
        self.out.let_go_of_all();
        self.body = None;
        self.landing = None;
        self.reads.clear();
        self.cancels.clear();
    }

    /// The hello came to nothing; no request was sent.
    pub(super) fn refuse(&mut self, class: FaultClass, cause: &str) {
        let fault = self.fault(class, Phase::Handshake, cause);
        self.news.push_back(News::Refused(fault));
        self.life = Life::Over(Fate::Close);
    }

    pub(super) fn violated(&mut self, violation: Violation) {
        self.give_up(FaultClass::Protocol, violation.0);
    }

    /// A socket call found memory of a request unmapped.
    pub(super) fn on_memory_fault(&mut self, now: Instant, side: Side, error: &io::Error) {
        let address = 0;
        let copy = CopyError::Fault { address, cause: copy_of(error).unwrap_or_else(fault_kind) };
        match side {
            Side::Receive => {
                if let Some(id) = self.landing.as_ref().map(|landing| landing.id) {
                    self.fail_locally(now, id, &copy);
                }
            }
            Side::Send => {
                let Some(id) = self.out.find_fault() else { return };
                self.fail_locally(now, id, &copy);
                // The peer waits for bytes that were announced and will not come.
                let cause = "another request's memory went away in the middle of its data";
                self.give_up(FaultClass::Rail, cause);
            }
        }
    }

    /// What a session without confirmation of cancels would do.
    pub(super) fn confirm_all_cancels(&mut self) {
        self.tell(|flight| {
            flight.cancelled?;
            Some(Err(flight.fault.clone()?))
        });
    }

    /// What a session that does not wait for statuses would do.
    pub(super) fn believe_what_is_sent(&mut self) {
        let sent = self.out.sent();
        self.tell(|flight| {
            let out = flight.ends.is_some_and(|end| sent >= end);
            (out && flight.job.slice.op == Opcode::Write).then_some(Ok(()))
        });
    }

    fn tell(&mut self, early: impl Fn(&Flight) -> Option<Result<(), SliceFault>>) {
        for flight in self.flights.values_mut().filter(|flight| !flight.told) {
            let Some(result) = early(flight) else { continue };
            flight.told = true;
            let (job, remote) = (flight.job.clone(), RemoteSide::Settled);
            self.finished.push(Finished { job, result, remote, lost: false, moved: 0 });
        }
    }
}

fn copy_of(error: &io::Error) -> Option<io::Error> {
    error.raw_os_error().map(io::Error::from_raw_os_error)
}

fn fault_kind() -> io::Error {
    io::Error::from_raw_os_error(libc::EFAULT)
}
