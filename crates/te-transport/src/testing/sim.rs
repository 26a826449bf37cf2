//! A fabric in one process: any number of endpoints, seeded, on virtual time.
//!
//! ```text
//!   submit ──▶ Queued ──begin──▶ Moving ──land──▶ Landed ──settle──▶ completion
//!                │ refused, lost, cancelled, peer dead: an outcome is fixed   ▲
//!                └────────────────────────────────────────────────────────────┘
//! ```
//!
//! I1  Bytes really move: from region to region, at the virtual moment of landing, under a guard of
//!     the target's segment.
//! I2  The same seed and the same calls give the same run.
//! I3  The lock of the world is not held while a sink or a slice source is called.
//!
//! There are no threads: whoever calls [`SimFabric::step`] or drives a transport of the fabric lets
//! time pass, for all endpoints. Completions are reported from there, and from `close`.

mod config;
mod copy;
mod endpoint;
mod event;
mod moves;
mod transport;
mod world;

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use te_metadata::{HostPort, SegmentDescriptor, SegmentName};
use te_sync::Mutex;

use self::config::Settings;
pub use self::config::SimBuilder;
pub use self::transport::SimTransport;
use self::world::{Delivery, World};
use super::clock::VirtualClock;
use crate::clock::Clock as _;

pub(super) struct Shared {
    world: Mutex<World>,
    /// Held by whoever lets time pass and reports completions.
    driving: Mutex<()>,
    clock: Arc<VirtualClock>,
}

/// The fabric; clones are handles on the same one.
///
/// ```
/// use std::time::Duration;
/// use te_transport::testing::SimFabric;
///
/// let fabric = SimFabric::builder(7).latency(Duration::ZERO, Duration::from_millis(1)).build();
/// let a = fabric.endpoint("a");
/// let b = fabric.endpoint("b");
/// assert_ne!(a.number(), b.number());
/// ```
#[derive(Clone)]
pub struct SimFabric {
    shared: Arc<Shared>,
}

impl SimFabric {
    /// Begins a fabric; `seed` decides everything that is left to chance.
    pub fn builder(seed: u64) -> SimBuilder {
        SimBuilder::new(seed)
    }

    fn with(seed: u64, settings: Settings) -> Self {
        let clock = VirtualClock::new();
        let world = Mutex::new(World::new(seed, settings, Arc::clone(&clock)));
        Self { shared: Arc::new(Shared { world, driving: Mutex::new(()), clock }) }
    }

    /// The fabric's time.
    pub fn clock(&self) -> Arc<VirtualClock> {
        Arc::clone(&self.shared.clock)
    }

    /// A new endpoint. Its segment is the one it is started with. A second endpoint of the same
    /// name is how a peer comes back after a restart: with another number and other memory.
    ///
    /// # Panics
    /// For a text that is no segment name, and beyond 65535 endpoints.
    pub fn endpoint(&self, name: &str) -> Arc<SimTransport> {
        self.endpoint_as(endpoint::PLAIN, name)
    }

    /// A new endpoint of a transport with a name of its own. It reaches those of the same transport
    /// only, which say so in the part of their descriptor that bears the name.
    ///
    /// # Panics
    /// As [`SimFabric::endpoint`].
    pub fn endpoint_as(&self, transport: &'static str, name: &str) -> Arc<SimTransport> {
        let name = SegmentName::parse(name).expect("the name of an endpoint is a segment name");
        let number = self.shared.world.lock().add_endpoint(transport, name.clone());
        Arc::new(SimTransport::new(Arc::clone(&self.shared), number, (transport, name)))
    }

    /// What a directory would answer: address and descriptor of the youngest living endpoint of
    /// that name, with the buffers that are open to peers now.
    pub fn lookup(&self, name: &SegmentName) -> Option<(HostPort, SegmentDescriptor)> {
        let world = self.shared.world.lock();
        world.describe(world.find(name)?)
    }

    /// Lets an endpoint die without a word at the present moment; takes effect when time is driven.
    pub fn kill(&self, number: u16) {
        self.kill_at(number, self.shared.clock.now());
    }

    /// Lets an endpoint die at `at`. Its own slices end as closed; those of others end in a fault of
    /// class `Peer` once the death is noticed.
    pub fn kill_at(&self, number: u16, at: Instant) {
        self.shared.world.lock().schedule_kill(number, at);
    }

    /// Kills an endpoint and gives its successor of the same name.
    pub fn restart(&self, number: u16) -> Arc<SimTransport> {
        let (transport, name) = self.shared.world.lock().name_of(number);
        self.kill(number);
        self.endpoint_as(transport, name.as_str())
    }

    /// Lets the next thing happen; `false` when nothing is left, or another thread drives.
    pub fn step(&self) -> bool {
        let Some(_driving) = self.shared.driving.try_lock() else { return false };
        self.shared.advance(None).is_some()
    }

    /// Steps until nothing is left to happen; how many steps it took.
    pub fn run_until_idle(&self) -> usize {
        std::iter::from_fn(|| self.step().then_some(())).count()
    }

    /// Lets everything happen that is due by `until`, and the clock show `until`.
    pub fn run_until(&self, until: Instant) {
        let _driving = self.shared.driving.lock();
        while self.shared.advance(Some(until)).is_some() {}
        self.shared.clock.advance_to(until);
    }
}

impl fmt::Debug for SimFabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimFabric({:?} passed)", self.shared.clock.elapsed())
    }
}

impl Shared {
    /// One event, if there is one by `until`; reports what it ended. Gives the numbers of the
    /// endpoints that were told something. The caller holds `driving`.
    fn advance(&self, until: Option<Instant>) -> Option<Vec<u16>> {
        let deliveries = self.world.lock().advance(until)?;
        let told = deliveries.iter().map(Delivery::endpoint).collect();
        deliveries.into_iter().for_each(Delivery::deliver);
        Some(told)
    }
}

#[cfg(test)]
mod tests;
