//! Whether one NIC may be used, as a machine without a device.
//!
//! I1  An inactive NIC has a time at which it is looked at again, unless the device is gone.
//! I2  "Port active" brings that time to `recover_after` from now; each look that fails doubles the
//!     wait, up to `recover_longest`.

use std::time::{Duration, Instant};

use te_topology::GidError;
use te_verbs::{DeviceEvent, VerbsError};
use thiserror::Error;

use super::link::NicLink;
use crate::config::FaultSettings;

/// Why a NIC is not active.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub(crate) enum NicFault {
    /// The port has no link. It comes back by itself.
    #[error("port {port} is not active")]
    PortDown {
        /// Which, from 1.
        port: u8,
    },
    /// So many operations failed one after the other. It is tried again.
    #[error("{failures} operations failed one after the other")]
    Failures {
        /// How many.
        failures: u32,
    },
    /// A completion queue failed. It is made anew when the NIC comes back.
    #[error("a completion queue failed")]
    CompletionQueue,
    /// No GID could be chosen. Look at the settings of the link, or at the index that is asked for.
    #[error("no GID")]
    Gid(#[source] GidError),
    /// The device refused to be opened or to say something.
    #[error("the device does not answer")]
    Verbs(#[source] VerbsError),
    /// Memory that is registered already could not be registered on it.
    #[error("memory could not be registered on it: {0}")]
    Memory(Box<str>),
    /// The device reported that it is broken. It stays away until the process starts again.
    #[error("the device failed")]
    Fatal,
    /// The device tells no events any more. It stays away until the process starts again.
    #[error("the device is gone")]
    Gone(#[source] VerbsError),
    /// It cannot signal completions.
    #[error("the device has no completion vector")]
    NoCompletionVector,
}

impl NicFault {
    /// Whether it may pass without anybody changing a setting.
    pub(crate) fn passes(&self) -> bool {
        matches!(self, Self::PortDown { .. })
    }
}

/// What has to be done.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reaction {
    None,
    Activate(NicLink),
    Deactivate(NicFault),
    Move(NicLink),
    QueuePairFatal { number: u32 },
    CompletionQueueFailed,
}

/// See the module.
#[derive(Debug)]
pub(super) struct NicHealth {
    is_active: bool,
    is_gone: bool,
    /// Whether memory is registered on it so that it may become active; it is not looked at then.
    is_returning: bool,
    /// When the NIC is looked at again.
    look_at: Option<Instant>,
    /// The wait after the next look that fails.
    wait: Duration,
}

impl NicHealth {
    /// Of a NIC that is active.
    pub(super) fn active() -> Self {
        Self { is_active: true, ..Self::still(false) }
    }

    /// Of a NIC that could be opened and is not active.
    pub(super) fn inactive(now: Instant, faults: &FaultSettings) -> Self {
        let wait = faults.recover_after;
        Self { look_at: Some(now + wait), wait, ..Self::still(false) }
    }

    /// Of a NIC that could not be opened.
    pub(super) fn gone() -> Self {
        Self::still(true)
    }

    fn still(is_gone: bool) -> Self {
        let (is_active, is_returning) = (false, false);
        Self { is_active, is_gone, is_returning, look_at: None, wait: Duration::ZERO }
    }

    /// Memory is registered on it from now on, until it is told as looked at.
    pub(super) fn begin_return(&mut self) {
        self.is_returning = true;
    }

    pub(super) fn is_active(&self) -> bool {
        self.is_active
    }

    /// When the NIC is looked at again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.look_at.filter(|_| !self.is_returning)
    }

    /// Whether it is to be looked at now.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        let is_due = self.deadline().is_some_and(|at| at <= now);
        if is_due {
            self.look_at = None;
        }
        is_due
    }

    pub(super) fn on_event(
        &mut self,
        now: Instant,
        event: DeviceEvent,
        port: u8,
        faults: &FaultSettings,
    ) -> Reaction {
        if self.is_gone {
            return Reaction::None;
        }
        let is_ours = |which: u8| which == port;
        match event {
            DeviceEvent::PortError { port } if is_ours(port) => {
                self.leave(now, NicFault::PortDown { port }, faults.recover_longest, faults)
            }
            DeviceEvent::PortActive { port }
            | DeviceEvent::GidChange { port }
            | DeviceEvent::LidChange { port }
                if is_ours(port) =>
            {
                self.look_soon(now, faults);
                Reaction::None
            }
            DeviceEvent::QueuePairFatal { number } => Reaction::QueuePairFatal { number },
            DeviceEvent::CompletionQueueError if !self.is_active => Reaction::CompletionQueueFailed,
            DeviceEvent::CompletionQueueError => {
                self.leave(now, NicFault::CompletionQueue, faults.recover_after, faults)
            }
            DeviceEvent::DeviceFatal => self.on_gone(NicFault::Fatal),
            _ => Reaction::None,
        }
    }

    /// The device is gone for good.
    pub(super) fn on_gone(&mut self, fault: NicFault) -> Reaction {
        let was_there = !std::mem::replace(&mut self.is_gone, true);
        self.is_active = false;
        self.look_at = None;
        if was_there { Reaction::Deactivate(fault) } else { Reaction::None }
    }

    /// The NIC cannot be used by what was found elsewhere.
    pub(super) fn on_lost(
        &mut self,
        now: Instant,
        fault: NicFault,
        faults: &FaultSettings,
    ) -> Reaction {
        self.leave(now, fault, faults.recover_after, faults)
    }

    /// The NIC was looked at; `known` is the address that is published.
    pub(super) fn on_looked(
        &mut self,
        now: Instant,
        known: Option<NicLink>,
        found: Result<NicLink, NicFault>,
        faults: &FaultSettings,
    ) -> Reaction {
        self.is_returning = false;
        match found {
            _ if self.is_gone => Reaction::None,
            Ok(link) if !self.is_active => {
                self.is_active = true;
                self.wait = faults.recover_after;
                Reaction::Activate(link)
            }
            Ok(link) if known != Some(link) => Reaction::Move(link),
            Ok(_) => Reaction::None,
            Err(fault) if self.is_active => self.leave(now, fault, faults.recover_after, faults),
            Err(_) => {
                self.look_at = Some(now + self.wait);
                self.wait = self.wait.saturating_mul(2).min(faults.recover_longest);
                Reaction::None
            }
        }
    }

    fn leave(
        &mut self,
        now: Instant,
        fault: NicFault,
        wait: Duration,
        faults: &FaultSettings,
    ) -> Reaction {
        if self.is_gone || !self.is_active {
            return Reaction::None;
        }
        self.is_active = false;
        self.wait = faults.recover_after;
        self.look_at = Some(now + wait);
        Reaction::Deactivate(fault)
    }

    /// An active NIC is looked at at once, an inactive one when its port has settled.
    fn look_soon(&mut self, now: Instant, faults: &FaultSettings) {
        let at = if self.is_active { now } else { now + faults.recover_after };
        self.wait = faults.recover_after;
        self.look_at = Some(self.look_at.map_or(at, |planned| planned.min(at)));
    }
}
