//! Which peers are reachable, and why others are not.
//!
//! ```text
//!   unknown ──first use──▶ probe ──proven──▶ up ──it left──▶ down
//!                            └──obstacle──▶ down ──after a while, unless it lasts──▶ probe
//! ```
//!
//! I1  A peer is up only where a random number that we sent to its socket was read from the memory
//!     of the process with its process id, or where that memory is not touched at all: then its
//!     guard table and all memory that we map came through that socket.
//! I2  A probe has a bound, and what it found counts for others: nobody waits twice for a peer that
//!     is silent, except after a pause.
//! I3  What is kept of peers that are not reached any more is bounded.

mod greet;
mod obstacle;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use te_metadata::Incarnation;
use te_segment::RemoteSegment;
use te_sync::{Mutex, RwLock};

pub use self::obstacle::Obstacle;
use crate::config::ShmConfig;
use crate::host::{self, Place};
use crate::lane::{Lane, Load};
use crate::link::{Link, Memory, Watch, Ways};
use crate::offer::ShmOffer;

/// The key of our part in a descriptor.
pub(crate) const PART: &str = "shm";
/// Runs of peers that are remembered.
const MAX_KNOWN: usize = 8192;

/// What is known of one run of a peer.
enum Known {
    Up(Arc<Lane<Link>>),
    Down(Obstacle, Again),
}

/// When a peer that is not reached may be asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    Never,
    At(Instant),
    AtOnce,
}

impl Again {
    fn is_due(self, now: Instant) -> bool {
        match self {
            Self::Never => false,
            Self::At(at) => at <= now,
            Self::AtOnce => true,
        }
    }
}

/// The peers.
pub(crate) struct Links {
    place: Place,
    own: Incarnation,
    timeout: Duration,
    /// Whether the kernel may copy, and whether memory may be mapped.
    wanted: (bool, bool),
    pause: Duration,
    bound: Load,
    known: RwLock<HashMap<Incarnation, Known>>,
    /// One probe at a time.
    probing: Mutex<()>,
}

impl Links {
    pub(crate) fn new(place: Place, own: Incarnation, config: &ShmConfig) -> Self {
        Self {
            place,
            own,
            timeout: config.probe_timeout,
            wanted: (config.kernel, config.mapped),
            pause: config.probe_again,
            bound: config.bound(),
            known: RwLock::default(),
            probing: Mutex::default(),
        }
    }

    /// The lane of a peer. Where it is used for the first time it is asked on this thread.
    pub(crate) fn lane(
        self: &Arc<Self>,
        peer: &RemoteSegment,
        now: Instant,
    ) -> Result<Arc<Lane<Link>>, Obstacle> {
        let Some(te) = &peer.descriptor().te else { return Err(Obstacle::NotOffered) };
        if let Some(found) = self.look_up(te.incarnation, now) {
            return found;
        }
        let Some(part) = te.transports.get(PART) else { return Err(Obstacle::NotOffered) };
        let _one_at_a_time = self.probing.lock();
        if let Some(found) = self.look_up(te.incarnation, now) {
            return found;
        }
        let offer = ShmOffer::decode(part).map_err(Obstacle::from);
        let proven = offer.and_then(|offer| self.probe(te.incarnation, &offer));
        let proven = proven.map(|link| Arc::new(Lane::new(link, self.bound)));
        let known = match &proven {
            Ok(lane) => Known::Up(Arc::clone(lane)),
            Err(why) => {
                if !why.is_elsewhere() {
                    let (name, causes) = (peer.name().as_str(), chain(why));
                    tracing::info!(name, causes, "no copies to and from a process of this host");
                }
                let again = if why.lasts() { Again::Never } else { Again::At(now + self.pause) };
                Known::Down(why.clone(), again)
            }
        };
        self.keep(te.incarnation, known);
        proven.and_then(|lane| usable(&lane))
    }

    fn look_up(
        &self,
        peer: Incarnation,
        now: Instant,
    ) -> Option<Result<Arc<Lane<Link>>, Obstacle>> {
        match self.known.read().get(&peer)? {
            Known::Up(lane) => Some(usable(lane)),
            Known::Down(_, again) if again.is_due(now) => None,
            Known::Down(why, _) => Some(Err(why.clone())),
        }
    }

    /// Remembers. Peers that left while nobody used them are let go of by the way.
    fn keep(&self, peer: Incarnation, known: Known) {
        let mut all = self.known.write();
        all.retain(|_, known| match known {
            Known::Up(lane) => lane.target.watch.is_there(),
            Known::Down(..) => true,
        });
        if all.len() >= MAX_KNOWN {
            all.retain(|_, known| matches!(known, Known::Up(_)));
        }
        all.insert(peer, known);
    }

    /// A round found that a peer has left.
    pub(crate) fn on_lost(&self, peer: Incarnation, cause: &str) {
        let why = Obstacle::Left { cause: cause.into() };
        // It may have been another who dropped the connection: whoever asks again finds that out.
        self.known.write().insert(peer, Known::Down(why, Again::AtOnce));
    }

    /// Forgets every peer: their sockets are closed once no round uses them.
    pub(crate) fn clear(&self) {
        self.known.write().clear();
    }

    fn probe(self: &Arc<Self>, peer: Incarnation, offer: &ShmOffer) -> Result<Link, Obstacle> {
        let pid = self.check(peer, offer)?;
        let no_process = |cause: rustix::io::Errno| Obstacle::gone(cause.into());
        let flags = rustix::process::PidfdFlags::empty();
        let process = rustix::process::pidfd_open(pid, flags).map_err(no_process)?;
        let start = host::start_time(pid).map_err(Obstacle::gone)?;
        if start != offer.start {
            return Err(Obstacle::OtherProcess { what: "start time" });
        }
        let greeted = greet::greet(pid, offer, (self.own, peer), self.timeout)?;
        let watch = Watch::new(process, greeted.socket).map_err(Obstacle::gone)?;
        if !watch.is_there() {
            return Err(Obstacle::Left { cause: "it ended while it was asked".into() });
        }
        let (kernel, mapped) = self.wanted;
        Ok(Link {
            incarnation: peer,
            pid,
            watch,
            table: greeted.table,
            holds: greeted.holds,
            ways: Ways { kernel: kernel && greeted.kernel, mapped, patience: self.timeout },
            memory: Memory::default(),
            lost: AtomicBool::new(false),
            links: Arc::downgrade(self),
        })
    }

    /// What the descriptor alone tells.
    fn check(&self, peer: Incarnation, offer: &ShmOffer) -> Result<Pid, Obstacle> {
        if peer == self.own {
            return Err(Obstacle::ThisEngine);
        }
        if offer.boot != self.place.boot {
            return Err(Obstacle::OtherHost);
        }
        if offer.pid_namespace != self.place.pid_namespace {
            return Err(Obstacle::OtherNamespace);
        }
        Pid::from_raw(offer.pid).ok_or(Obstacle::OtherProcess { what: "process id" })
    }
}

/// A peer whose memory can only be mapped is left to others while it has some that cannot be.
fn usable(lane: &Arc<Lane<Link>>) -> Result<Arc<Lane<Link>>, Obstacle> {
    let is_usable = lane.target.reaches_all();
    if is_usable { Ok(Arc::clone(lane)) } else { Err(Obstacle::NotPermitted) }
}

/// An error and its causes as one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Links({} known)", self.known.read().len())
    }
}
