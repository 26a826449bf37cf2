//! A peer that was proven to be reachable: what is asked before and after each round.
//!
//! I1  Nothing is copied unless the process was alive, and its engine open, after the holds were put
//!     and before the first byte moved.
//! I2  What was copied counts only where the same is so afterwards: a process id that was given to
//!     another process in between is noticed, and nothing is copied to it again.
//! I3  Mapped memory is touched under the same holds as that which the kernel copies.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::process::Pid;
use te_metadata::{BufferHandle, Incarnation, sabotage};
use te_segment::{Access, LocalRange, Opcode};
use te_sync::Mutex;
use te_transport::{FaultClass, Phase, SliceFault};

use crate::job::{Job, Way, fault};
use crate::local::outside;
use crate::map::{Borrower, Found};
use crate::probe::Links;
use crate::table::{Denial, HOLDS, Holds, PeerTable};
use crate::target::{Target, buffer_of};

/// What proves that a process is still the one that was proven to be the peer.
///
/// Both descriptors are in one set, which the kernel marks in the moment when either changes and
/// before the process's number is free. To ask a set where nothing is marked costs 0.11 µs, to ask
/// the two 0.27, and that is done twice for each round.
#[derive(Debug)]
pub(crate) struct Watch {
    set: OwnedFd,
    /// Readable once the process has ended.
    _process: OwnedFd,
    /// Closed by the other side when its engine closes, when it ends, and when another program takes
    /// the process over.
    pub(crate) socket: OwnedFd,
}

impl Watch {
    /// Watches a process and the socket that it answers on.
    pub(crate) fn new(process: OwnedFd, socket: OwnedFd) -> io::Result<Self> {
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&set, &process, EventData::new_u64(0), EventFlags::IN)?;
        // Of the socket its end alone, which is told unasked.
        epoll::add(&set, &socket, EventData::new_u64(1), EventFlags::empty())?;
        Ok(Self { set, _process: process, socket })
    }

    /// Whether the peer is there. A set that cannot be asked counts as gone.
    pub(crate) fn is_there(&self) -> bool {
        let mut one = [MaybeUninit::uninit()];
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&self.set, &mut one, Some(&none)).is_ok_and(|(told, _)| told.is_empty())
            || sabotage::is_off("process-watch")
    }
}

/// How bytes may get to and from a peer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ways {
    /// By the kernel: wanted, and permitted.
    pub(crate) kernel: bool,
    /// By mapping what it lends.
    pub(crate) mapped: bool,
    /// How long it may take to answer where there is no other way.
    pub(crate) patience: Duration,
}

/// What is mapped of a peer's memory. Used by one round at a time.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    borrower: Mutex<Borrower>,
    /// Whether there is anything in it.
    filled: AtomicBool,
    /// Whether somebody looks after it.
    tended: AtomicBool,
}

/// A peer's process.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) incarnation: Incarnation,
    pub(crate) pid: Pid,
    pub(crate) watch: Watch,
    pub(crate) table: PeerTable,
    pub(crate) holds: Holds,
    /// Which ways may be used.
    pub(crate) ways: Ways,
    /// What is mapped of its memory.
    pub(crate) memory: Memory,
    /// Whether a round found that it has left.
    pub(crate) lost: AtomicBool,
    /// Where it is told that the peer has left.
    pub(crate) links: Weak<Links>,
}

impl Link {
    fn is_there(&self) -> bool {
        !self.lost.load(Ordering::Relaxed) && self.watch.is_there() && self.table.is_open()
    }

    /// Puts a hold, unless the last one is for the same buffer, and then looks whether the buffer may
    /// be touched. `Ok(false)` where all holds are taken.
    fn hold(
        &self,
        buffer: BufferHandle,
        access: Access,
        held: &mut Vec<BufferHandle>,
    ) -> Result<bool, Denial> {
        if held.last() == Some(&buffer) {
            return self.table.check(buffer, access).map(|()| true);
        }
        let index = held.len();
        if index == HOLDS {
            return Ok(false);
        }
        self.holds.put(index, buffer)?;
        let checked = self.table.check(buffer, access);
        match checked {
            Ok(()) => held.push(buffer),
            Err(_) => self.holds.free(index),
        }
        checked.map(|()| true)
    }

    /// Chooses the way of one piece. Whether others may follow it in this round.
    fn admit(&self, job: &mut Job, held: &mut Vec<BufferHandle>) -> bool {
        let Some((buffer, offset)) = buffer_of(job.slice()) else {
            job.fail(outside());
            return true;
        };
        match self.hold(buffer, job.access(), held) {
            Ok(true) => self.choose(job, buffer, offset),
            Ok(false) => {
                job.set_way(Way::Waits);
                return false;
            }
            Err(denial) => {
                let class = match denial {
                    Denial::NoPlace => FaultClass::Rail,
                    Denial::Gone | Denial::Forbidden => FaultClass::Refused,
                };
                job.fail(fault(class, Phase::Request, denial.to_string()));
            }
        }
        true
    }
}

impl Link {
    /// Whether some way leads to every buffer of the peer.
    pub(crate) fn reaches_all(&self) -> bool {
        self.ways.kernel || (self.ways.mapped && self.table.lends_all())
    }

    /// Chooses the way of a piece that may be touched. Memory of a caller is copied by the kernel in
    /// any case, so mapping the other side is no gain there.
    fn choose(&self, job: &mut Job, buffer: BufferHandle, offset: u64) {
        let is_gain = !self.ways.kernel || job.slice().local.region().is_engine_memory();
        if self.ways.mapped
            && is_gain
            && self.table.is_lent(buffer)
            && let Some(there) = self.mapped(job, buffer, offset)
        {
            job.set_way(Way::Mapped(there));
        } else if self.ways.kernel {
            job.set_way(Way::Kernel);
        } else {
            let cause = "the peer's memory cannot be mapped, and no other way is permitted";
            job.fail(fault(FaultClass::Rail, Phase::Request, cause));
        }
    }

    /// The piece's bytes of the peer, where they are mapped. Asks for them where they are not.
    fn mapped(&self, job: &Job, buffer: BufferHandle, offset: u64) -> Option<LocalRange> {
        let mut borrower = self.memory.borrower.lock();
        let socket = &self.watch.socket;
        let found = match self.ways.kernel {
            true => borrower.find(socket, buffer),
            false => borrower.wait_for(socket, buffer, self.ways.patience),
        };
        let Found::Mapped(region, writable) = found else { return None };
        let allowed = writable || job.op() == Opcode::Read;
        let range = region.range(offset + job.done(), job.part()).ok().filter(|_| allowed);
        self.memory.filled.store(true, Ordering::Relaxed);
        range
    }
}

impl Target for Link {
    fn pid(&self) -> Pid {
        self.pid
    }

    fn enter(&self, jobs: &mut [Job], held: &mut Vec<BufferHandle>) -> Result<(), SliceFault> {
        let admitted = jobs.iter_mut().position(|job| !self.admit(job, held));
        if let Some(full) = admitted {
            jobs[full..].iter_mut().for_each(|job| job.set_way(Way::Waits));
        }
        if self.is_there() {
            return Ok(());
        }
        let cause = "the peer's process has ended, or its engine";
        Err(fault(FaultClass::Rail, Phase::Handshake, cause))
    }

    fn leave(&self, held: &mut Vec<BufferHandle>) -> Result<(), SliceFault> {
        let is_same = held.iter().all(|buffer| self.table.is_same(*buffer));
        let is_there = self.is_there();
        self.holds.clear(held.len());
        held.clear();
        match (is_there, is_same) {
            (true, true) => Ok(()),
            (false, _) => {
                let cause = "the peer's process or engine ended during the copy";
                Err(fault(FaultClass::Peer, Phase::Payload, cause))
            }
            (true, false) => {
                let cause = "the peer gave a buffer away that we held";
                Err(fault(FaultClass::Protocol, Phase::Payload, cause))
            }
        }
    }

    fn wants_tidying(&self) -> bool {
        self.memory.filled.load(Ordering::Relaxed)
            && !self.memory.tended.swap(true, Ordering::Relaxed)
    }

    fn tidy(&self) -> bool {
        let mut borrower = self.memory.borrower.lock();
        let is_there = self.is_there();
        borrower.retain(|buffer| is_there && self.table.is_offered(buffer));
        let is_left = !borrower.is_empty();
        self.memory.filled.store(is_left, Ordering::Relaxed);
        self.memory.tended.store(is_left, Ordering::Relaxed);
        is_left
    }

    fn on_lost(&self, fault: &SliceFault) {
        self.lost.store(true, Ordering::Relaxed);
        if let Some(links) = self.links.upgrade() {
            links.on_lost(self.incarnation, &fault.cause);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};

    use super::*;
    use crate::sleeper::Sleeper;

    #[test]
    fn a_peer_is_there_until_its_process_ends_or_hangs_up() {
        let mut child = Sleeper::new();
        let pid = child.pid();
        let watch = || {
            let flags = rustix::process::PidfdFlags::empty();
            let process = rustix::process::pidfd_open(pid, flags).unwrap();
            let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
            let (socket, theirs) =
                rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None).unwrap();
            (Watch::new(process, socket).unwrap(), theirs)
        };
        let ((hung_up, theirs), (watch, others)) = (watch(), watch());
        assert!(hung_up.is_there() && watch.is_there());
        drop(theirs);
        assert!(!hung_up.is_there() && watch.is_there());
        child.end();
        assert!(!watch.is_there(), "its number may be another process's now");
        drop(others);
    }
}
