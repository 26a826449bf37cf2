//! The suite that every transport passes.
//!
//! A [`Rig`] makes fresh pairs of an initiator and a target; each check takes one, works on it and
//! closes it. Waiting means driving the initiator, as an engine does; a transport with threads of
//! its own answers that it is busy. Deadlines count on the rig's clock.

mod bench;
mod bytes;
mod ends;
mod memory;
mod pressure;
mod refusals;
mod report;
mod unregister;
mod visible;

use std::sync::Arc;
use std::time::Duration;

use te_segment::{LocalSegment, RemoteSegment};

pub use self::report::{Report, Row, Verdict};
use super::recorder::Recorder;
use crate::clock::Clock;
use crate::transport::Transport;

/// Makes what the suite works on.
pub trait Rig {
    /// Name for the report.
    fn name(&self) -> &str;

    /// A fresh pair. Both ends are started; the initiator reports to `recorder`.
    fn pair(&self, recorder: Arc<Recorder>) -> Pair;

    /// How long things may take, and how much is too much.
    fn bounds(&self) -> Bounds;

    /// Why this transport cannot have an ability; `None` where it has it.
    fn lacks(&self, ability: Ability) -> Option<&'static str>;
}

/// Bounds that a rig states for its transport.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// All slices of a check end within this time while both ends live.
    pub settle: Duration,
    /// After the target died every slice ends within this time.
    pub peer_gone: Duration,
    /// More slices than the transport takes for one peer at once, so that it must leave some.
    pub overload: usize,
}

/// What not every transport can do, or not every rig can arrange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    /// Slices can be called back.
    Cancel,
    /// There is a bound on the slices taken for one peer.
    BackPressure,
    /// The rig can let the target die.
    PeerDeath,
    /// Memory may become unreadable without a word, on either side.
    VanishingMemory,
    /// The target's answer tells a refusal from a broken path. Where it does not, a refused slice
    /// may end in a fault of the rail, and the rest of those checks stays.
    TellsRefusal,
}

/// An initiator and a target, connected.
#[derive(Debug)]
pub struct Pair {
    /// The side whose slices are watched.
    pub initiator: Arc<dyn Transport>,
    /// The initiator's own memory.
    pub segment: Arc<LocalSegment>,
    /// The time both live in.
    pub clock: Arc<dyn Clock>,
    /// The other side.
    pub target: Box<dyn Target>,
}

/// The serving side of a pair.
pub trait Target: std::fmt::Debug {
    /// Its transport.
    fn transport(&self) -> &dyn Transport;

    /// Its memory.
    fn segment(&self) -> &Arc<LocalSegment>;

    /// What the initiator would learn of it at this moment, always with the same segment number.
    fn remote(&self) -> Arc<RemoteSegment>;

    /// Lets it die: it neither answers nor says goodbye. Asked only of rigs with
    /// [`Ability::PeerDeath`].
    fn kill(&self);
}

/// Runs every check. Look at the report with [`Report::assert_passed`].
pub fn check(rig: &dyn Rig) -> Report {
    let mut report = Report::new(rig.name());
    for (name, needs, run) in CHECKS {
        let lacking = needs.and_then(|ability| rig.lacks(ability));
        let verdict = match lacking {
            Some(reason) => Verdict::Skipped(reason),
            None => run(rig).map_or_else(|f| Verdict::Failed(f.into_text()), |()| Verdict::Passed),
        };
        report.add(name, verdict);
    }
    report
}

type Check = fn(&dyn Rig) -> Result<(), bench::Failure>;

const CHECKS: &[(&str, Option<Ability>, Check)] = &[
    ("bytes arrive at odd offsets and sizes", None, bytes::odd_sizes),
    ("many slices of mixed sizes end once", None, bytes::many),
    ("bad ranges are refused and harm nothing", None, refusals::bad_ranges),
    ("rights are enforced", None, refusals::rights),
    ("a refusal is told from a broken path", Some(Ability::TellsRefusal), refusals::told),
    ("a finished write is visible at once", None, visible::writes),
    ("a finished read is in place at once", None, visible::reads),
    ("cancelled slices end once", Some(Ability::Cancel), ends::cancel),
    ("cancel of what is not there is harmless", Some(Ability::Cancel), ends::cancel_unknown),
    ("what does not fit is taken later", Some(Ability::BackPressure), pressure::overload),
    ("nothing changes after an unregister", None, unregister::during_traffic),
    ("slices end when the peer is gone", Some(Ability::PeerDeath), ends::peer_gone),
    ("close ends every slice once", None, ends::close),
    ("close of an idle transport is quick and repeatable", None, ends::close_idle),
    ("vanished local memory is a local fault", Some(Ability::VanishingMemory), memory::local),
    ("vanished target memory is an error", Some(Ability::VanishingMemory), memory::target),
];
