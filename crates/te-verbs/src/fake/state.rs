//! Everything the fabric knows, behind one lock.
//!
//! I1  Slots of queue pairs and queues are used again, numbers and keys are not.
//! I2  Whatever may change where a queue pair's traffic goes raises `epoch`; ways that were found
//!     under an older one are looked for again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use te_segment::{LocalRange, RemoteAccess};
use te_topology::Gid;

use super::completion::Queue;
use super::pair::Pair;
use super::signal::Signal;
use super::spec::{FakeDevice, FakePort};
use crate::error::VerbsCall;
use crate::event::DeviceEvent;
use crate::port::{GidEntry, PortState};

/// When the timers for acknowledgements that do not come run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timers {
    /// At once, where the tries are bounded.
    AtOnce,
    /// When `Fake::expire` is called.
    Explicit,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) nics: Vec<Nic>,
    pub(super) queues: Vec<Option<Queue>>,
    pub(super) pairs: Vec<Option<Pair>>,
    /// Slots by device and number.
    pub(super) numbers: HashMap<(usize, u32), usize>,
    pub(super) epoch: u64,
    /// Queue pairs made so far.
    pub(super) serial: u64,
    pub(super) random: u64,
    pub(super) traffic_held: bool,
    pub(super) completions_held: bool,
    pub(super) copies: bool,
    pub(super) timers: Timers,
    pub(super) routes_held: bool,
    /// Calls that wait in INIT to RTR.
    pub(super) routing: usize,
    /// How long an address that nobody has is looked for.
    pub(super) resolve_limit: Duration,
    pub(super) faults: Vec<Fault>,
}

/// A call that shall fail.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) nic: usize,
    /// None for a post.
    pub(super) call: Option<VerbsCall>,
    /// Calls, or work requests, that go well before.
    pub(super) skip: usize,
    pub(super) errno: i32,
}

#[derive(Debug)]
pub(super) struct Nic {
    pub(super) host: Box<str>,
    pub(super) spec: FakeDevice,
    pub(super) ports: Vec<Port>,
    pub(super) contexts: Vec<Option<Context>>,
    pub(super) regions: Vec<Option<Registered>>,
    pub(super) live_regions: usize,
    pub(super) next_number: u32,
    pub(super) is_dead: bool,
    /// What is said of the next chain.
    pub(super) lie: Option<Lie>,
}

/// An answer to a post that is not what became of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lie {
    pub(super) told: usize,
    pub(super) errno: i32,
}

#[derive(Debug)]
pub(super) struct Port {
    pub(super) now: FakePort,
    pub(super) is_lost: bool,
    pub(super) acks_lost: bool,
}

/// One opening of a device.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) events: VecDeque<DeviceEvent>,
    pub(super) signal: Arc<Signal>,
}

#[derive(Debug)]
pub(super) struct Registered {
    pub(super) memory: LocalRange,
    pub(super) context: usize,
    pub(super) lkey: u32,
    pub(super) rkey: u32,
    pub(super) remote: RemoteAccess,
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            nics: Vec::new(),
            queues: Vec::new(),
            pairs: Vec::new(),
            numbers: HashMap::new(),
            epoch: 1,
            serial: 0,
            random: seed,
            traffic_held: false,
            completions_held: false,
            copies: true,
            timers: Timers::AtOnce,
            routes_held: false,
            routing: 0,
            resolve_limit: Duration::ZERO,
            faults: Vec::new(),
        }
    }

    /// A number of the fabric's sequence, below `bound`, which is not 0.
    pub(super) fn draw(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let bound = bound as u64;
        usize::try_from((z ^ (z >> 31)) % bound).expect("below a usize")
    }

    /// Whether this call shall fail, and with what; counts it.
    pub(super) fn fault(&mut self, nic: usize, call: Option<VerbsCall>) -> Option<i32> {
        if self.faults.is_empty() {
            return None;
        }
        let at = self.faults.iter().position(|fault| fault.nic == nic && fault.call == call)?;
        if self.faults[at].skip > 0 {
            self.faults[at].skip -= 1;
            return None;
        }
        Some(self.faults.remove(at).errno)
    }

    /// Refuses a call to a dead device, or one that shall fail.
    pub(super) fn check(&mut self, nic: usize, call: VerbsCall) -> Result<(), i32> {
        if self.nics[nic].is_dead {
            return Err(libc::EIO);
        }
        self.fault(nic, Some(call)).map_or(Ok(()), Err)
    }

    /// Gives an event to every opening of a device.
    pub(super) fn announce(&mut self, nic: usize, event: DeviceEvent) {
        for context in self.nics[nic].contexts.iter_mut().flatten() {
            context.push(event);
        }
    }

    /// The device and port that has an address.
    pub(super) fn find_gid(&self, gid: Gid) -> Option<(usize, u8)> {
        self.find_port(|port| port.now.gids.iter().any(|row| row.gid == gid))
    }

    pub(super) fn find_lid(&self, lid: u16) -> Option<(usize, u8)> {
        self.find_port(|port| port.now.attributes.lid == lid)
    }

    fn find_port(&self, wanted: impl Fn(&Port) -> bool) -> Option<(usize, u8)> {
        self.nics.iter().enumerate().find_map(|(nic, device)| {
            let at = device.ports.iter().position(&wanted)?;
            Some((nic, u8::try_from(at + 1).ok()?))
        })
    }
}

impl Context {
    pub(super) fn push(&mut self, event: DeviceEvent) {
        self.events.push_back(event);
        self.signal.raise();
    }
}

impl Nic {
    pub(super) fn new(host: &str, spec: FakeDevice) -> Self {
        let open = |port: &FakePort| Port { now: port.clone(), is_lost: false, acks_lost: false };
        Self {
            host: host.into(),
            ports: spec.ports.iter().map(open).collect(),
            spec,
            contexts: Vec::new(),
            regions: Vec::new(),
            live_regions: 0,
            next_number: 17,
            is_dead: false,
            lie: None,
        }
    }

    pub(super) fn port(&self, port: u8) -> Option<&Port> {
        self.ports.get(usize::from(port).checked_sub(1)?)
    }

    pub(super) fn port_mut(&mut self, port: u8) -> Option<&mut Port> {
        self.ports.get_mut(usize::from(port).checked_sub(1)?)
    }

    /// The region of a key, which is its local or its remote one.
    pub(super) fn region(&self, key: u32) -> Option<&Registered> {
        self.regions.get(usize::try_from(key >> 8).ok()?)?.as_ref()
    }
}

impl Port {
    pub(super) fn is_active(&self) -> bool {
        self.now.attributes.state == PortState::Active
    }

    pub(super) fn row(&self, index: u32) -> Option<&GidEntry> {
        self.now.gids.iter().find(|row| row.index == index)
    }
}

/// Puts something into the first free slot.
pub(super) fn insert<T>(slots: &mut Vec<Option<T>>, value: T) -> usize {
    let free = slots.iter().position(Option::is_none);
    match free {
        Some(at) => {
            slots[at] = Some(value);
            at
        }
        None => {
            slots.push(Some(value));
            slots.len() - 1
        }
    }
}
