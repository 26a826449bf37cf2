//! The thread that watches time, the one that watches devices, and those of NICs that come back.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use te_topology::NicIndex;
use te_transport::{FaultClass, Phase, SliceFault};

use super::Control;
use super::refusals::Told;
use crate::nic::{NicChange, NicFault};
use crate::worker::{Command, Inbox};

impl Control {
    /// Works until the table is closed.
    pub(super) fn watch(self: &Arc<Self>) {
        let idle = self.config.connection.idle_probe;
        let after = |now: Instant| idle.and_then(|idle| now.checked_add(idle));
        let mut probe_at = after(self.clock.now());
        while !self.table.lock().closed {
            let now = self.clock.now();
            self.run_due(now);
            if probe_at.is_some_and(|at| at <= now) {
                self.probe();
                probe_at = after(now);
            }
            let next = self.table.lock().deadline();
            let next =
                [next, self.refusals.lock().deadline(), probe_at].into_iter().flatten().min();
            self.sleep(&self.bell, next, std::iter::empty());
        }
    }

    /// Has peers asked of which nothing was heard.
    fn probe(&self) {
        let Some(idle) = self.config.connection.idle_probe else { return };
        for nic in self.nics.iter() {
            self.tell(nic.index(), Command::Probe { idle });
        }
    }

    /// Takes the events of devices until the table is closed.
    pub(super) fn watch_devices(self: &Arc<Self>) {
        while !self.table.lock().closed {
            let next = self.look_at_devices(self.clock.now());
            let snapshot = self.nics.snapshot();
            // The descriptor of a device that is gone is readable for ever.
            let gone = |index| {
                let mut views = snapshot.iter();
                views.any(|(i, view)| i == index && matches!(view.link, Err(NicFault::Gone(_))))
            };
            let live = self.nics.iter().filter(|nic| !gone(nic.index()));
            let devices = live.filter_map(|nic| nic.device());
            self.sleep(&self.device_bell, next, devices.map(|device| device.event_fd()));
        }
    }

    /// Takes the events of every device. Gives when to look again without one.
    fn look_at_devices(self: &Arc<Self>, now: Instant) -> Option<Instant> {
        let mut next = None;
        for nic in self.nics.iter() {
            let advance = self.nics.advance(nic.index(), now);
            self.on_changes(nic.index(), &advance.changes);
            if advance.returns {
                self.begin_return(nic.index());
            }
            next = [next, advance.deadline].into_iter().flatten().min();
        }
        next
    }

    fn on_changes(&self, nic: NicIndex, changes: &[NicChange]) {
        changes.iter().for_each(|change| self.on_change(nic, change));
    }

    /// Registers on a NIC what is missing there, on a thread of its own: it may take minutes, and
    /// meanwhile things happen to other NICs.
    fn begin_return(self: &Arc<Self>, nic: NicIndex) {
        let control = Arc::clone(self);
        if let Err(error) = self.threads.spawn("te-rdma-return", move || control.come_back(nic)) {
            let failed = Err(format!("no thread: {error}").into());
            self.on_changes(nic, &self.nics.on_completed(nic, self.clock.now(), failed));
        }
    }

    fn come_back(&self, nic: NicIndex) {
        let complete = || self.memory.complete(nic).map_err(|error| error.to_string().into());
        let changes = self.nics.on_completed(nic, self.clock.now(), complete());
        self.on_changes(nic, &changes);
        // A buffer that came between registering what was missing and the news found the NIC still
        // inactive.
        if changes.contains(&NicChange::Activated)
            && let Err(cause) = complete()
        {
            self.on_changes(nic, &self.nics.on_lost(nic, self.clock.now(), cause));
        }
        // It has another time at which it is looked at.
        self.device_bell.ring();
    }

    /// Does what has its time.
    fn run_due(self: &Arc<Self>, now: Instant) {
        loop {
            let gone = self.table.lock().overdue(now);
            let Some(leaving) = gone else { break };
            tracing::debug!(peer = %leaving.peer, "no ready-ack in time");
            let why = "the peer did not acknowledge the connection";
            let fault = SliceFault::new(FaultClass::Rail, Phase::Handshake, why);
            self.end(leaving, &fault);
        }
        loop {
            let Some(wish) = self.table.lock().due(now) else { break };
            self.connect(wish);
        }
        self.table.lock().pauses.prune(now);
        let told = self.refusals.lock().due(now);
        told.iter().for_each(Told::tell);
    }

    /// Until then, until the bell rings, or until a descriptor is readable.
    fn sleep<'a>(
        &self,
        bell: &'a Inbox,
        until: Option<Instant>,
        devices: impl Iterator<Item = BorrowedFd<'a>>,
    ) {
        let mut fds = vec![PollFd::from_borrowed_fd(bell.bell(), PollFlags::IN)];
        fds.extend(devices.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let limit = until.map(|at| at.saturating_duration_since(self.clock.now()));
        // A millisecond more, so that what is due is due when we look.
        let limit = limit.map(|limit| limit + Duration::from_millis(1));
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        // An interrupted wait only looks too early.
        let _ = poll(&mut fds, limit.as_ref());
        bell.hush();
    }
}
