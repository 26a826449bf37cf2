//! The NICs of this process: opened once, each with a fixed index, active or not.
//!
//! ```text
//!              port error, 32 failures in a row, …             device gone
//!   Active ───────────────────────────────────▶ Inactive ──────────────────▶ Gone
//!     ▲                                            │
//!     └─ port active, address read, memory there ──┘
//! ```
//!
//! Who moves bytes reads a [`NicSnapshot`] through a reader of his own, and takes a lock only after
//! a change. A NIC's worker calls [`Nics::advance`] when the device's event descriptor is readable
//! or the deadline has come.
//!
//! I1  A NIC keeps its index while the process lives, also one that could not be opened.
//! I2  A NIC is active only with a port that was active and a GID that was there when it was last
//!     looked at, and with every registered buffer registered on it.
//! I3  No message of a peer changes a NIC's address.
//! I4  No lock is held while memory is registered on a NIC that comes back.

mod health;
mod limits;
mod link;
mod open;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use te_topology::{NicIndex, NicName};
use te_verbs::{CompletionQueue, Device, DeviceEvent, QueuePair, QueuePairCapacity, VerbsError};

pub(crate) use self::health::NicFault;
use self::health::{NicHealth, Reaction};
pub(crate) use self::limits::NicLimits;
pub(crate) use self::link::{GidSlot, NicLink, table as gid_table};
use crate::config::{DeviceSettings, FaultSettings};
use crate::published::{Published, Reader};
use crate::sync::Mutex;

/// All NICs of the transport.
#[derive(Debug)]
pub(crate) struct Nics {
    list: Vec<Nic>,
    snapshot: Arc<Published<NicSnapshot>>,
    device: DeviceSettings,
    faults: FaultSettings,
}

/// One NIC.
#[derive(Debug)]
pub(crate) struct Nic {
    index: NicIndex,
    name: NicName,
    /// `None` for one that could not be opened.
    opened: Option<Opened>,
    /// Failures in a row.
    failures: AtomicU32,
    /// Whether the device refused queue pairs whose requests carry bytes in themselves.
    refuses_inline: AtomicBool,
    health: Mutex<NicHealth>,
}

#[derive(Debug)]
struct Opened {
    device: Arc<dyn Device>,
    limits: NicLimits,
}

/// All NICs as they are at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct NicSnapshot {
    nics: Vec<NicView>,
    /// Whether any of them was ever active.
    served: bool,
}

/// One of them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NicView {
    /// Its name.
    pub(crate) name: NicName,
    /// How it is reached while it is active, or why it is not.
    pub(crate) link: Result<NicLink, NicFault>,
    /// How often it became active again, so that one that was away for a moment only is noticed.
    pub(crate) returns: u32,
}

/// What became of a NIC; who has connections on it has to act.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NicChange {
    /// It is active again.
    Activated,
    /// It is not active any more: its connections end, its work goes to other NICs.
    Deactivated(NicFault),
    /// It has another address: its connections end.
    Moved,
    /// A queue pair is broken: that connection ends.
    QueuePairFatal {
        /// Its number.
        number: u32,
    },
    /// A completion queue failed while it was not active anyway: it needs another one.
    CompletionQueueFailed,
}

impl NicChange {
    /// Whether the completion queue of the NIC failed.
    pub(crate) fn is_of_the_completion_queue(&self) -> bool {
        matches!(self, Self::CompletionQueueFailed | Self::Deactivated(NicFault::CompletionQueue))
    }
}

/// What [`Nics::advance`] gives.
#[derive(Debug, Default)]
pub(crate) struct Advance {
    /// In the order in which it happened.
    pub(crate) changes: Vec<NicChange>,
    /// Whether what is missing on it has to be registered now.
    pub(crate) returns: bool,
    /// When to call again, without an event.
    pub(crate) deadline: Option<Instant>,
}

impl Nics {
    /// How many, those that are not active among them.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// All, in the order of their indices.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Nic> {
        self.list.iter()
    }

    /// The one with that index.
    pub(crate) fn nic(&self, index: NicIndex) -> Option<&Nic> {
        self.list.get(index.position())
    }

    /// The one of that name.
    pub(crate) fn named(&self, name: &str) -> Option<&Nic> {
        self.list.iter().find(|nic| nic.name.as_str() == name)
    }

    /// A copy for one thread.
    pub(crate) fn reader(&self) -> Reader<NicSnapshot> {
        Reader::new(&self.snapshot)
    }

    /// As they are now.
    pub(crate) fn snapshot(&self) -> Arc<NicSnapshot> {
        self.snapshot.load()
    }

    /// A number that rises with each change of the snapshot.
    pub(crate) fn version(&self) -> u64 {
        self.snapshot.version()
    }

    /// Takes all events of a device that wait (E56), and looks at what is due. One that may become active
    /// again is told as returning: what is not registered there shall be, which may take long, and then
    /// [`Nics::on_completed`] is called.
    pub(crate) fn advance(&self, index: NicIndex, now: Instant) -> Advance {
        let Some((nic, opened)) = self.opened(index) else { return Advance::default() };
        let mut health = nic.health.lock();
        let mut changes = Vec::new();
        loop {
            let reaction = match opened.device.next_event() {
                Ok(Some(event)) => self.on_event(nic, &mut health, now, event),
                Ok(None) => break,
                Err(error) => {
                    let reaction = health.on_gone(NicFault::Gone(error));
                    self.react(nic, &reaction, &mut changes);
                    break;
                }
            };
            self.react(nic, &reaction, &mut changes);
        }
        let mut returns = false;
        if health.take_due(now) {
            let link = link::read(&*opened.device, &nic.name, &self.device);
            returns = link.is_ok() && !health.is_active();
            if returns {
                health.begin_return();
            } else {
                self.on_looked((nic, &mut health), now, link, &mut changes);
            }
        }
        Advance { changes, returns, deadline: health.deadline() }
    }

    /// What was missing on a NIC that returns is registered there, or that failed. Its address is read
    /// again. Where it is active by this, what came in between has to be registered, and whoever
    /// cannot do that says so by [`Nics::on_lost`].
    pub(crate) fn on_completed(
        &self,
        index: NicIndex,
        now: Instant,
        completed: Result<(), Box<str>>,
    ) -> Vec<NicChange> {
        let Some((nic, opened)) = self.opened(index) else { return Vec::new() };
        let mut health = nic.health.lock();
        let link = completed
            .map_err(NicFault::Memory)
            .and_then(|()| link::read(&*opened.device, &nic.name, &self.device));
        let mut changes = Vec::new();
        self.on_looked((nic, &mut health), now, link, &mut changes);
        changes
    }

    /// Memory could not be registered on a NIC that is active.
    pub(crate) fn on_lost(&self, index: NicIndex, now: Instant, cause: Box<str>) -> Vec<NicChange> {
        let Some((nic, _)) = self.opened(index) else { return Vec::new() };
        let mut health = nic.health.lock();
        let reaction = health.on_lost(now, NicFault::Memory(cause), &self.faults);
        let mut changes = Vec::new();
        self.react(nic, &reaction, &mut changes);
        changes
    }

    /// Something on the NIC went well. Costs one load.
    pub(crate) fn on_success(&self, index: NicIndex) {
        if let Some(nic) = self.nic(index)
            && nic.failures.load(Ordering::Relaxed) != 0
        {
            nic.failures.store(0, Ordering::Relaxed);
        }
    }

    /// Something failed by the NIC's fault. After so many in a row as the settings say it becomes
    /// inactive, which is given (E54); it is tried again after a while.
    pub(crate) fn on_failure(&self, index: NicIndex, now: Instant) -> Option<NicChange> {
        let nic = self.nic(index)?;
        let failures = nic.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if failures < self.faults.nic_failures {
            return None;
        }
        let mut health = nic.health.lock();
        let reaction = health.on_lost(now, NicFault::Failures { failures }, &self.faults);
        nic.failures.store(0, Ordering::Relaxed);
        let mut changes = Vec::new();
        self.react(nic, &reaction, &mut changes);
        changes.pop()
    }

    /// Another GID for a NIC whose route with `failed` was refused as invalid (E14): the one that is
    /// in use by now if that is another, else the best that is not in `tried`. `None` where the
    /// GID was asked for by its index, or none is left. Connections with the old one end: the
    /// caller ends them.
    ///
    /// # Errors
    /// The table could not be read.
    pub(crate) fn other_gid(
        &self,
        index: NicIndex,
        failed: GidSlot,
        tried: &[GidSlot],
    ) -> Result<Option<GidSlot>, VerbsError> {
        let Some((nic, opened)) = self.opened(index) else { return Ok(None) };
        let _health = nic.health.lock();
        let snapshot = self.snapshot.load();
        let Some(link) = snapshot.link(index) else { return Ok(None) };
        if link.gid != failed {
            return Ok((!tried.contains(&link.gid)).then_some(link.gid));
        }
        if self.device.gid.index_for(&nic.name).is_some() {
            return Ok(None);
        }
        let next = link::ranked_gids(&*opened.device, self.device.port)?;
        let next = next.into_iter().find(|slot| *slot != failed && !tried.contains(slot));
        if let Some(gid) = next {
            self.publish(nic, Ok(NicLink { gid, ..*link }));
        }
        Ok(next)
    }

    fn opened(&self, index: NicIndex) -> Option<(&Nic, &Opened)> {
        let nic = self.nic(index)?;
        Some((nic, nic.opened.as_ref()?))
    }

    fn on_event(
        &self,
        nic: &Nic,
        health: &mut NicHealth,
        now: Instant,
        event: DeviceEvent,
    ) -> Reaction {
        tracing::debug!(nic = nic.name.as_str(), ?event, "device event");
        health.on_event(now, event, self.device.port, &self.faults)
    }

    fn on_looked(
        &self,
        (nic, health): (&Nic, &mut NicHealth),
        now: Instant,
        link: Result<NicLink, NicFault>,
        changes: &mut Vec<NicChange>,
    ) {
        let known = self.snapshot.load().link(nic.index).copied();
        let reaction = health.on_looked(now, known, link, &self.faults);
        self.react(nic, &reaction, changes);
    }

    fn react(&self, nic: &Nic, reaction: &Reaction, changes: &mut Vec<NicChange>) {
        let change = match reaction {
            Reaction::None => return,
            Reaction::QueuePairFatal { number } => NicChange::QueuePairFatal { number: *number },
            Reaction::CompletionQueueFailed => NicChange::CompletionQueueFailed,
            Reaction::Deactivate(fault) => {
                tracing::warn!(nic = nic.name.as_str(), %fault, "NIC is inactive");
                self.publish(nic, Err(fault.clone()));
                NicChange::Deactivated(fault.clone())
            }
            Reaction::Activate(link) => {
                tracing::info!(nic = nic.name.as_str(), ?link, "NIC is active again");
                nic.failures.store(0, Ordering::Relaxed);
                self.publish(nic, Ok(*link));
                NicChange::Activated
            }
            Reaction::Move(link) => {
                tracing::warn!(nic = nic.name.as_str(), ?link, "NIC has another address");
                self.publish(nic, Ok(*link));
                NicChange::Moved
            }
        };
        changes.push(change);
    }

    fn publish(&self, nic: &Nic, link: Result<NicLink, NicFault>) {
        self.snapshot.update(|snapshot| {
            let mut next = snapshot.clone();
            if let Some(view) = next.nics.get_mut(nic.index.position()) {
                view.returns += u32::from(view.link.is_err() && link.is_ok());
                next.served |= link.is_ok();
                view.link = link;
            }
            next
        });
    }
}

impl Nic {
    /// Its place among all.
    pub(crate) fn index(&self) -> NicIndex {
        self.index
    }

    /// Its name.
    pub(crate) fn name(&self) -> &NicName {
        &self.name
    }

    /// The device; `None` where it could not be opened.
    pub(crate) fn device(&self) -> Option<&Arc<dyn Device>> {
        Some(&self.opened.as_ref()?.device)
    }

    /// A queue pair in RESET. A device does not say how many inline bytes it takes: one that refuses
    /// those that are set is asked for none from then on.
    ///
    /// # Errors
    /// The device refuses, also without inline bytes.
    pub(crate) fn queue_pair(
        &self,
        completions: &Arc<dyn CompletionQueue>,
    ) -> Option<Result<Arc<dyn QueuePair>, VerbsError>> {
        let Opened { device, limits } = self.opened.as_ref()?;
        let without = QueuePairCapacity { inline_bytes: 0, ..limits.capacity };
        if !self.takes_inline() {
            return Some(device.queue_pair(completions, without));
        }
        let refused = match device.queue_pair(completions, limits.capacity) {
            Err(error) if is_unsuitable(&error) && limits.capacity.inline_bytes > 0 => error,
            made => return Some(made),
        };
        let Ok(pair) = device.queue_pair(completions, without) else { return Some(Err(refused)) };
        tracing::info!(nic = self.name.as_str(), "the device takes no inline bytes");
        // Before any worker learns of the queue pair, through a lock.
        self.refuses_inline.store(true, Ordering::Relaxed);
        Some(Ok(pair))
    }

    /// Whether requests may carry bytes in themselves.
    pub(crate) fn takes_inline(&self) -> bool {
        !self.refuses_inline.load(Ordering::Relaxed)
    }

    /// What is set, as far as the device can do it; `None` where it could not be opened.
    pub(crate) fn limits(&self) -> Option<&NicLimits> {
        Some(&self.opened.as_ref()?.limits)
    }
}

/// Whether a device may have refused what was asked for, and not the asking.
fn is_unsuitable(error: &VerbsError) -> bool {
    matches!(error.errno, Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS))
}

impl NicSnapshot {
    fn new(nics: Vec<NicView>) -> Self {
        let served = nics.iter().any(|view| view.link.is_ok());
        Self { nics, served }
    }

    /// Whether any NIC is or was active.
    pub(crate) fn has_served(&self) -> bool {
        self.served
    }

    /// All, in the order of their indices.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NicIndex, &NicView)> {
        let numbered = self.nics.iter().enumerate();
        numbered.filter_map(|(position, view)| Some((NicIndex::new(position)?, view)))
    }

    /// Those that are active.
    pub(crate) fn active(&self) -> impl Iterator<Item = (NicIndex, &NicName, &NicLink)> {
        self.iter().filter_map(|(index, view)| Some((index, &view.name, view.link.as_ref().ok()?)))
    }

    /// How a NIC is reached, while it is active.
    pub(crate) fn link(&self, index: NicIndex) -> Option<&NicLink> {
        self.nics.get(index.position())?.link.as_ref().ok()
    }

    /// How often it became active again.
    pub(crate) fn returns(&self, index: NicIndex) -> u32 {
        self.nics.get(index.position()).map_or(0, |view| view.returns)
    }

    /// Whether its device is gone for good.
    pub(crate) fn is_gone(&self, index: NicIndex) -> bool {
        let link = self.nics.get(index.position()).map(|view| &view.link);
        matches!(link, Some(Err(NicFault::Fatal | NicFault::Gone(_))))
    }

    /// Whether it is active.
    pub(crate) fn is_active(&self, index: NicIndex) -> bool {
        self.link(index).is_some()
    }
}

#[cfg(test)]
mod tests;
