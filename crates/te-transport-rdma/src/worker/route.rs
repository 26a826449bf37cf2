//! Where a slice goes: which NIC of the peer, which keys, which link.

use std::sync::Arc;
use std::time::{Duration, Instant};

use te_segment::Slice;
use te_transport::{Completion, FaultClass, Phase, RemoteSide, SliceFault};

use super::Worker;
use super::link::{Job, Link, State};
use crate::control::Wish;
use crate::endpoint::NicPath;
use crate::peer::{PeerNic, PeerNicIndex, PeerView};

/// What a worker waits longer for a connection than control may need for one try.
const CONNECT_SLACK: Duration = Duration::from_secs(5);

/// How a slice goes.
struct Road {
    view: Arc<PeerView>,
    nic: PeerNicIndex,
    keys: Option<(u32, u32)>,
}

impl Worker {
    /// Puts a slice on a link, or ends it: nothing of it was sent.
    pub(super) fn route(&mut self, now: Instant, slice: Slice) {
        match self.road(now, &slice) {
            Ok(Some(road)) => self.admit(now, slice, road),
            Ok(None) => self.end_untouched(&slice, None),
            Err(fault) => self.end_untouched(&slice, Some(fault)),
        }
    }

    /// The road of a slice; `None` for one of no bytes.
    fn road(&mut self, now: Instant, slice: &Slice) -> Result<Option<Road>, SliceFault> {
        let fault = |class, text: String| SliceFault::new(class, Phase::Queue, text);
        if slice.checked {
            let text = "a NIC does not compare sums at the destination";
            return Err(fault(FaultClass::Rail, text.to_owned()));
        }
        if !self.nics.is_active(self.nic) || self.broken {
            return Err(fault(FaultClass::Rail, format!("the NIC {} is not active", self.name)));
        }
        if slice.is_empty() {
            return Ok(None);
        }
        let view = match &self.last {
            Some(last) if Arc::ptr_eq(last.peer(), &slice.peer) => Arc::clone(last),
            _ => {
                let view = self.peers.of(&slice.peer);
                let view = view.map_err(|error| fault(FaultClass::Rail, error.to_string()))?;
                Arc::clone(self.last.insert(Arc::clone(view)))
            }
        };
        let pick = self.chooser.peer_nic(
            &view,
            (&self.name, &self.rails),
            (slice.remote.address(), slice.attempt),
            now,
        );
        let none = || fault(FaultClass::Peer, "the peer has no NIC for this memory".to_owned());
        let nic = pick.ok_or_else(none)?.nic;
        let keys = match self.check(slice, &view, nic) {
            // The slice may be of memory that was registered after this step began.
            Err(fault) if fault.class == FaultClass::Local && self.memory.refresh() => {
                self.check(slice, &view, nic)?
            }
            checked => checked?,
        };
        Ok(Some(Road { view, nic, keys }))
    }

    /// Whether both sides have keys for every byte; gives them where one on each side is enough.
    fn check(
        &self,
        slice: &Slice,
        view: &PeerView,
        nic: PeerNicIndex,
    ) -> Result<Option<(u32, u32)>, SliceFault> {
        let (len, mut done) = (slice.len(), 0);
        while done < len {
            let (here, there) = (slice.local.address() + done, slice.remote.address() + done);
            let local = self.memory.local_piece(self.nic, here, len - done).ok_or_else(|| {
                let text = format!("local memory at {here:#x} is not registered on {}", self.name);
                SliceFault::new(FaultClass::Local, Phase::Queue, text)
            })?;
            let remote = view.remote_piece(nic, there, len - done).map_err(|error| {
                SliceFault::new(FaultClass::Refused, Phase::Queue, error.to_string())
            })?;
            let piece = local.len.min(remote.len);
            if piece == len {
                return Ok(Some((local.lkey, remote.rkey.value())));
            }
            if remote.len < len - done && ends_a_buffer(slice, there) {
                let text = format!("the range from {there:#x} on crosses the end of a buffer");
                return Err(SliceFault::new(FaultClass::Refused, Phase::Queue, text));
            }
            done += piece.max(1);
        }
        Ok(None)
    }

    fn admit(&mut self, now: Instant, slice: Slice, road: Road) {
        let Road { view, nic, keys } = road;
        let Some(peer) = view.nic(nic) else {
            let fault = SliceFault::new(FaultClass::Peer, Phase::Queue, "the peer has no such NIC");
            return self.end_untouched(&slice, Some(fault));
        };
        let known = match self.link_to(now, &peer.path, &slice) {
            Ok(known) => known,
            Err(fault) => return self.end_untouched(&slice, Some(fault)),
        };
        let Some(slot) = known.or_else(|| self.new_link(now, peer)) else {
            let text = "the name of the peer's NIC is none";
            let fault = SliceFault::new(FaultClass::Rail, Phase::Queue, text);
            return self.end_untouched(&slice, Some(fault));
        };
        let link = &mut self.links[slot];
        link.knows_fences = view.facts().is_some_and(|facts| facts.fences);
        link.has_others = view.nics().len() > 1;
        link.learn(&slice.peer, peer.gid);
        let is_wanted = link.id.is_none() && link.queue.is_empty();
        let (planned, out, fault) = (0, 0, None);
        let job = Job {
            slice,
            link: slot,
            view,
            peer_nic: nic,
            keys,
            planned,
            out,
            fault,
            in_doubt: false,
            called_back: None,
        };
        let key = self.jobs.insert(job);
        let link = &mut self.links[slot];
        link.queue.push_back(u32::try_from(key).unwrap_or(u32::MAX));
        if link.is_open() {
            self.activate(slot);
        } else if is_wanted {
            self.want(slot);
        }
    }

    /// The link of a path that a slice may go by. One to another process than the slice's gives way,
    /// unless the slice is of an older snapshot.
    fn link_to(
        &mut self,
        now: Instant,
        path: &str,
        slice: &Slice,
    ) -> Result<Option<usize>, SliceFault> {
        let Some(slot) = self.by_path.get(path).copied() else { return Ok(None) };
        let link = &self.links[slot];
        if link.whom.is(&slice.peer) {
            return Ok(Some(slot));
        }
        if link.is_newer_than(&slice.peer) {
            return Err(taken_over(Phase::Queue));
        }
        self.retire(now, slot, &taken_over(Phase::Payload));
        Ok(None)
    }

    /// A link that has to be connected. `None` where the path is none.
    fn new_link(&mut self, now: Instant, peer: &PeerNic) -> Option<usize> {
        let path = NicPath::parse(&peer.path)?;
        let state = State::Connecting { until: self.connect_limit(now) };
        let slot = self.links.insert(Link::new(path.clone(), state));
        self.by_path.insert(path, slot);
        self.watch(now);
        Some(slot)
    }

    fn connect_limit(&self, now: Instant) -> Instant {
        let settings = &self.common.config.connection;
        let one = settings.connect_limit + settings.answer_limit + settings.longest_backoff;
        now + one * settings.attempts.max(1) + CONNECT_SLACK
    }

    /// Asks control for the connection of a link.
    pub(super) fn want(&mut self, slot: usize) {
        if let Some(wish) = self.wish(slot) {
            self.common.control.want(wish);
        }
    }

    pub(super) fn wish(&self, slot: usize) -> Option<Wish> {
        let link = self.links.get(slot)?;
        let (peer, rpc) = (link.peer.clone(), link.whom.rpc.clone()?);
        let is_te = link.knows_fences;
        Some(Wish { nic: self.nic, peer, rpc, gid: link.gid, is_te, failed: 0, takes_over: false })
    }

    /// Lets a link post in its turn.
    pub(super) fn activate(&mut self, slot: usize) {
        if let Some(link) = self.links.get_mut(slot)
            && !link.is_active
            && link.is_open()
            && !link.queue.is_empty()
        {
            link.is_active = true;
            self.active.push_back(slot);
        }
    }

    /// Ends a slice of which nothing was sent.
    pub(super) fn end_untouched(&mut self, slice: &Slice, fault: Option<SliceFault>) {
        let result = fault.map_or(Ok(()), Err);
        let remote = RemoteSide::Untouched;
        self.ends.push_back(Completion { token: slice.token, result, remote });
    }
}

/// What was known of the peer is stale. It is no fault of the peer, to which others may be on their
/// way: whoever tries again asks first who has the name.
pub(super) fn taken_over(phase: Phase) -> SliceFault {
    SliceFault::new(FaultClass::Rail, phase, "another process has the name of the peer")
}

/// Whether the entry of the peer's list that an address lies in is a whole buffer, as our own engines
/// say; of other peers neighbours may be pieces of one (E22).
fn ends_a_buffer(slice: &Slice, address: u64) -> bool {
    let found = slice.peer.locate_from(address);
    let buffer = found.and_then(|(position, _)| slice.peer.descriptor().buffers().get(position));
    buffer.is_some_and(|buffer| buffer.te.is_some())
}
