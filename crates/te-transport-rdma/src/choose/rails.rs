//! Which ways to NICs of peers pause (E50, E51). One value for each NIC of ours; a way is named by the
//! path of the peer's NIC.
//!
//! I1  A rail that is not known is open.
//! I2  Rails do not touch each other.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use crate::config::FaultSettings;

/// The rails of one NIC.
#[derive(Debug)]
pub(crate) struct Rails {
    settings: FaultSettings,
    faulty: HashMap<Arc<str>, Rail>,
}

#[derive(Debug, Clone, Copy)]
struct Rail {
    errors: u32,
    last: Instant,
    paused_until: Option<Instant>,
}

impl Rails {
    pub(crate) fn new(settings: FaultSettings) -> Self {
        Self { settings, faulty: HashMap::new() }
    }

    /// Whether the rail may be used. Costs nothing while there was no fault at all.
    pub(crate) fn is_open(&self, now: Instant, path: &str) -> bool {
        let _ = (now, path);
        todo!()
    }

    /// When its pause ends, if it pauses.
    pub(crate) fn paused_until(&self, now: Instant, path: &str) -> Option<Instant> {
        let _ = (now, path);
        todo!()
    }

    /// An error on the rail; whether it pauses from now on.
    pub(crate) fn on_error(&mut self, now: Instant, path: &Arc<str>) -> bool {
        let _ = (now, path);
        todo!()
    }

    /// Pauses the rail at once.
    pub(crate) fn pause(&mut self, now: Instant, path: &Arc<str>) {
        let _ = (now, path);
        todo!()
    }

    /// Something went well on it. Costs nothing while there was no fault at all.
    pub(crate) fn on_success(&mut self, path: &str) {
        let _ = path;
        todo!()
    }
}
