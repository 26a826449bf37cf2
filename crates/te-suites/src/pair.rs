//! Two nodes, one of which writes to and reads from the other.

use std::time::Duration;

use crate::calls::{Direction, Parts};
use crate::clock::wait_until;
use crate::measure::{Bound, Case};
use crate::node::{Answer, Kind, Node, NodeSpec};

/// The version of the data protocol that the initiator is made to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Without acknowledgements.
    V1,
    /// With them.
    V2,
}

impl Version {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::V1, Self::V2];

    /// Prepares an initiator.
    #[must_use]
    pub fn of_initiator(self, spec: NodeSpec) -> NodeSpec {
        match self {
            Self::V1 => spec.env("MC_TCP_PROTO", "1"),
            Self::V2 => spec,
        }
    }
}

/// An initiator and its target, each with a registered buffer of the same size. What each of ours
/// held at the start and at the end is printed, and may not have grown by more than its buffer,
/// the kept connections, and the threads that rest for a while before they end.
#[derive(Debug)]
pub struct Pair {
    /// The one that calls.
    pub initiator: Node,
    /// The one that is written to and read from.
    pub target: Node,
    version: Version,
    size: u64,
    cases: Vec<Case>,
}

/// One transfer inside both buffers, as offsets from their starts.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// In the initiator's buffer.
    pub src: u64,
    /// In the target's.
    pub dst: u64,
    /// Bytes.
    pub len: u64,
}

/// What stands around and in the receiving range before a checked transfer.
const GUARD: u8 = 0xee;

/// How many bytes on both sides are checked to be untouched.
pub const GUARD_LEN: u64 = 64;

impl Pair {
    /// Starts both, with `size` bytes each.
    ///
    /// # Errors
    /// A sentence with what is missing here; it is the reason for a skip.
    pub fn start(kinds: (Kind, Kind), size: u64, version: Version) -> Result<Self, String> {
        kinds.0.available()?;
        kinds.1.available()?;
        let target = NodeSpec::new(kinds.1, size).start();
        let initiator = version.of_initiator(NodeSpec::new(kinds.0, size)).start();
        let cases = [(&initiator, "from"), (&target, "to")];
        let ours = cases.into_iter().filter(|(node, _)| node.kind() == Kind::Te);
        let cases = ours.map(|(node, role)| Case::start(&label(role), node.pid())).collect();
        Ok(Self { initiator, target, version, size, cases })
    }

    /// One call, without any check.
    #[track_caller]
    pub fn call(&mut self, dir: Direction, span: Span) -> Answer {
        let ends = (
            self.initiator.addr().wrapping_add(span.src),
            self.target.addr().wrapping_add(span.dst),
        );
        self.initiator.transfer(dir, self.target.name(), ends, span.len)
    }

    /// The parts of a batch, from spans.
    pub fn parts(&self, spans: &[Span]) -> Parts {
        let (src, dst) = (self.initiator.addr(), self.target.addr());
        let mut parts = Parts::default();
        for span in spans {
            parts.push(src.wrapping_add(span.src), dst.wrapping_add(span.dst), span.len);
        }
        parts
    }

    /// Moves one span and checks every byte on the receiving side, and the guard bytes around it.
    ///
    /// # Panics
    /// When the call fails or a byte is wrong.
    #[track_caller]
    pub fn moves(&mut self, dir: Direction, span: Span, seed: u64) {
        self.prepare(dir, span, seed);
        self.call(dir, span).ok();
        self.arrived(dir, span, seed);
    }

    /// Writes the pattern into the sending range, and guard bytes into and around the receiving one.
    #[track_caller]
    pub fn prepare(&mut self, dir: Direction, span: Span, seed: u64) {
        let Ends { sender, sent, receiver, received } = self.ends(dir, span);
        sender.pattern(sent, span.len, seed);
        receiver.fill(received - GUARD_LEN, span.len + 2 * GUARD_LEN, GUARD);
    }

    /// Checks what [`prepare`](Self::prepare) prepared.
    #[track_caller]
    pub fn arrived(&mut self, dir: Direction, span: Span, seed: u64) {
        let unconfirmed = dir == Direction::Write && self.version == Version::V1;
        let Ends { receiver, received, .. } = self.ends(dir, span);
        if unconfirmed {
            // A version 1 write ends in the sender's socket; the last bytes may still be moving.
            wait_until(Duration::from_secs(20), "the bytes of an unconfirmed write", || {
                receiver.matches(received, span.len, seed).then_some(())
            });
        }
        receiver.verify(received, span.len, seed);
        receiver.verify_filled(received - GUARD_LEN, GUARD_LEN, GUARD);
        receiver.verify_filled(received + span.len, GUARD_LEN, GUARD);
    }

    fn ends(&mut self, dir: Direction, span: Span) -> Ends<'_> {
        let (initiator, target) = (&mut self.initiator, &mut self.target);
        match dir {
            Direction::Write => {
                Ends { sender: initiator, sent: span.src, receiver: target, received: span.dst }
            }
            Direction::Read => {
                Ends { sender: target, sent: span.dst, receiver: initiator, received: span.src }
            }
        }
    }

    /// Measures both and ends them in an orderly way.
    ///
    /// # Panics
    /// When one has grown, or does not end well.
    #[track_caller]
    pub fn quit(self) {
        let bound = Bound::NOTHING.with_threads(2).with_rss_mib((self.size >> 20) + 48);
        let pids = [self.initiator.pid(), self.target.pid()];
        for case in self.cases.into_iter().filter(|case| pids.contains(&case.pid())) {
            case.end(bound);
        }
        self.initiator.quit();
        self.target.quit();
    }
}

/// The name of the running test, which the harness gives to its thread, with a role.
fn label(role: &str) -> String {
    let thread = std::thread::current();
    let test = thread.name().and_then(|name| name.rsplit("::").next()).unwrap_or_default();
    let short: String = test.chars().take(38).collect();
    format!("{short} {role}")
}

struct Ends<'a> {
    sender: &'a mut Node,
    sent: u64,
    receiver: &'a mut Node,
    received: u64,
}
