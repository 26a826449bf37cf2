//! What becomes of posted requests.
//!
//! I1  Requests of a queue pair are carried out and completed in order.
//! I2  A request that cannot be answered stays the first of its queue pair until it can, its timer
//!     runs out, or the queue pair goes to ERR.

use te_segment::{Caching, CopyError, LocalRange, Opcode, RemoteAccess};

use super::completion::Entry;
use super::pair::{Pair, Request, Way, after};
use super::state::{Nic, Registered, State, Timers};
use crate::event::DeviceEvent;
use crate::port::LinkLayer;
use crate::queue_pair::QueuePairState;
use crate::work::{Sge, WorkCompletion, WorkStatus};

/// What became of the first request of a queue pair.
enum Outcome {
    Ended(WorkStatus),
    /// No answer, now.
    Waits,
}

impl State {
    pub(super) fn pair(&self, slot: usize) -> &Pair {
        self.pairs[slot].as_ref().expect("a queue pair's slot is its own while it lives")
    }

    pub(super) fn pair_mut(&mut self, slot: usize) -> &mut Pair {
        self.pairs[slot].as_mut().expect("a queue pair's slot is its own while it lives")
    }

    /// Carries out what a queue pair may send now.
    pub(super) fn run(&mut self, slot: usize) {
        while !self.traffic_held && self.step_pair(slot) {}
    }

    /// Looks at every queue pair again, after something changed.
    pub(super) fn run_all(&mut self) {
        self.epoch += 1;
        for slot in 0..self.pairs.len() {
            if self.pairs[slot].is_some() {
                self.run(slot);
            }
        }
    }

    /// Carries out the first request of a queue pair; false where nothing moved.
    pub(super) fn step_pair(&mut self, slot: usize) -> bool {
        let pair = self.pair(slot);
        if pair.state != QueuePairState::ReadyToSend {
            return false;
        }
        let Some((position, request)) = pair.front() else { return false };
        match self.send(slot, &request) {
            Outcome::Waits => false,
            Outcome::Ended(status) => {
                self.end(slot, position, &request, status);
                true
            }
        }
    }

    /// The first request ended; a failure takes the queue pair with it.
    fn end(&mut self, slot: usize, position: u64, request: &Request, status: WorkStatus) {
        self.pair_mut(slot).advance();
        if request.signaled || status != WorkStatus::Success {
            self.tell(slot, position, request.id, status);
        }
        if status != WorkStatus::Success {
            self.fail_pair(slot);
        }
    }

    fn tell(&mut self, slot: usize, position: u64, id: u64, status: WorkStatus) {
        let pair = self.pair(slot);
        let (queue, queue_pair, serial) = (pair.queue, pair.number, pair.serial);
        let told = WorkCompletion { id, status, queue_pair, vendor_error: 0 };
        self.complete(queue, Entry { told, pair: slot, serial, done: position + 1 });
    }

    /// To ERR: everything that was posted is flushed.
    pub(super) fn fail_pair(&mut self, slot: usize) {
        self.pair_mut(slot).state = QueuePairState::Error;
        self.epoch += 1;
        self.flush(slot);
    }

    /// Ends what was posted, in ERR.
    pub(super) fn flush(&mut self, slot: usize) {
        while let Some((position, request)) = self.pair(slot).front() {
            self.pair_mut(slot).advance();
            self.tell(slot, position, request.id, WorkStatus::Flushed);
        }
    }

    /// The timer of a request that waits for an answer runs out.
    pub(super) fn expire_pair(&mut self, slot: usize) {
        let pair = self.pair(slot);
        let is_bounded = pair.ready.is_some_and(|ready| ready.retries < ENDLESS);
        let Some((position, request)) = pair.front() else { return };
        if is_bounded && pair.state == QueuePairState::ReadyToSend {
            self.end(slot, position, &request, WorkStatus::RetryExceeded);
        }
    }

    /// Where requests of a queue pair go, found again only where something changed.
    fn way(&mut self, slot: usize) -> Way {
        let epoch = self.epoch;
        let (found, way) = self.pair(slot).way;
        if found == epoch {
            return way;
        }
        let way = self.find_way(self.pair(slot));
        self.pair_mut(slot).way = (epoch, way);
        way
    }

    fn find_way(&self, pair: &Pair) -> Way {
        let Some(route) = pair.route else { return Way::Nowhere };
        let Some(port) = self.nics[pair.nic].port(route.port) else { return Way::NoLink };
        if !port.is_active() || self.nics[pair.nic].is_dead {
            return Way::NoLink;
        }
        let Some(source) = port.row(route.gid_index) else { return Way::Nowhere };
        let is_lid = port.now.attributes.link_layer == LinkLayer::InfiniBand;
        let found = if is_lid { self.find_lid(route.lid) } else { self.find_gid(route.gid) };
        let Some((nic, number)) = found else { return Way::Nowhere };
        let Some(far) = self.nics[nic].port(number) else { return Way::Nowhere };
        let is_lost = port.is_lost || far.is_lost || !far.is_active() || self.nics[nic].is_dead;
        let Some(target) = self.numbers.get(&(nic, route.queue_pair)) else { return Way::Nowhere };
        let Some(back) = self.pair(*target).route else { return Way::Nowhere };
        // A packet does not say which queue pair it comes from, only which address.
        let is_ours =
            if is_lid { back.lid == port.now.attributes.lid } else { back.gid == source.gid };
        if is_lost || !self.pair(*target).may_receive() || !is_ours {
            return Way::Nowhere;
        }
        let acks_lost = port.acks_lost || far.acks_lost;
        Way::Open { target: *target, answers: back.queue_pair == pair.number && !acks_lost }
    }

    fn send(&mut self, slot: usize, request: &Request) -> Outcome {
        match self.way(slot) {
            Way::NoLink => Outcome::Ended(WorkStatus::LocalQueuePairOperation),
            Way::Nowhere => self.unanswered(slot),
            Way::Open { target, answers } => self.arrive(slot, target, answers, request),
        }
    }

    fn unanswered(&self, slot: usize) -> Outcome {
        let is_bounded = self.pair(slot).ready.is_some_and(|ready| ready.retries < ENDLESS);
        match self.timers {
            Timers::AtOnce if is_bounded => Outcome::Ended(WorkStatus::RetryExceeded),
            _ => Outcome::Waits,
        }
    }

    /// A request at the peer's queue pair.
    fn arrive(&mut self, slot: usize, target: usize, answers: bool, request: &Request) -> Outcome {
        let status = if request.arrived {
            WorkStatus::Success
        } else {
            if request.op == Opcode::Write
                && let Err(status) = self.check_local(slot)
            {
                return Outcome::Ended(status);
            }
            let (sent, expected) = (self.pair(slot).next_sent, self.pair(target).next_received);
            let next = after(sent, self.pair(slot).packets(request.len));
            if next == expected && request.op == Opcode::Write && answers {
                // Taken for a repetition of what came last: that is acknowledged, and nothing is
                // written.
                self.pair_mut(slot).next_sent = next;
                return Outcome::Ended(WorkStatus::Success);
            }
            if sent != expected {
                return self.unanswered(slot);
            }
            if request.op == Opcode::Read && !answers {
                return self.unanswered(slot);
            }
            if self.is_endless(slot, target, request) {
                return Outcome::Waits;
            }
            self.carry_out(slot, target, request)
        };
        if status == WorkStatus::Success {
            let packets = self.pair(slot).packets(request.len);
            if !request.arrived {
                let target = self.pair_mut(target);
                target.next_received = after(target.next_received, packets);
            }
            if !answers {
                self.pair_mut(slot).front_arrived();
                return self.unanswered(slot);
            }
            let pair = self.pair_mut(slot);
            pair.next_sent = after(pair.next_sent, packets);
        }
        Outcome::Ended(status)
    }

    /// Whether a READ is answered in more packets than it has numbers for, which soft-RoCE asks for
    /// again without end.
    fn is_endless(&self, slot: usize, target: usize, request: &Request) -> bool {
        let (ours, theirs) = (self.pair(slot).mtu(), self.pair(target).mtu());
        let is_cut_more = theirs < ours && request.len > u64::from(theirs.bytes());
        request.op == Opcode::Read && is_cut_more
    }

    /// Whether the local ranges may be sent from.
    fn check_local(&self, slot: usize) -> Result<(), WorkStatus> {
        let pair = self.pair(slot);
        let nic = &self.nics[pair.nic];
        for range in pair.front_ranges() {
            local(nic, pair.context, range)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, slot: usize, target: usize, request: &Request) -> WorkStatus {
        let refused = match (self.checked(slot, target, request), request.op) {
            (Ok(()), _) => return WorkStatus::Success,
            // What comes back finds no place, whatever is wrong with it.
            (Err(WorkStatus::LocalQueuePairOperation), Opcode::Read) => WorkStatus::LocalProtection,
            (Err(status), _) => status,
        };
        // A queue pair that is its own peer fails as the one that asked.
        if !refused.is_local() && target != slot {
            self.refuse_at(target);
        }
        refused
    }

    /// A queue pair that was asked for what may not be goes to ERR, and its owner may be told.
    fn refuse_at(&mut self, target: usize) {
        let pair = self.pair(target);
        let (nic, context, number) = (pair.nic, pair.context, pair.number);
        self.fail_pair(target);
        if !self.nics[nic].spec.tells_access_errors {
            return;
        }
        if let Some(context) = self.nics[nic].contexts[context].as_mut() {
            context.push(DeviceEvent::QueuePairFatal { number });
        }
    }

    fn checked(&self, slot: usize, target: usize, request: &Request) -> Result<(), WorkStatus> {
        let (pair, peer) = (self.pair(slot), self.pair(target));
        if request.op == Opcode::Read && peer.route.is_none_or(|route| route.reads == 0) {
            return Err(WorkStatus::RemoteInvalidRequest);
        }
        let shorter = u64::from(pair.mtu().min(peer.mtu()).bytes());
        let is_cut_alike =
            request.op == Opcode::Read || pair.mtu() == peer.mtu() || request.len <= shorter;
        let wanted = Wanted { peer, request };
        if request.len == 0 {
            return Ok(());
        }
        let (far, offset) = wanted.find(&self.nics[peer.nic])?;
        if !is_cut_alike {
            return Err(WorkStatus::RemoteInvalidRequest);
        }
        if !self.copies {
            return Ok(());
        }
        if request.is_inline {
            let bytes = pair.front_inline();
            let at = far.offset() + offset;
            return far.region().write_from(at, bytes).map_err(|_| WorkStatus::RemoteOperation);
        }
        self.copy(pair, far, offset, request.op)
    }

    /// Moves the bytes of the first request.
    fn copy(
        &self,
        pair: &Pair,
        far: &LocalRange,
        mut offset: u64,
        op: Opcode,
    ) -> Result<(), WorkStatus> {
        let nic = &self.nics[pair.nic];
        for range in pair.front_ranges() {
            let (near, at) = local(nic, pair.context, range)?;
            let len = u64::from(range.len);
            let near = near.part(at, len).map_err(|_| WorkStatus::LocalProtection)?;
            let there = far.part(offset, len).map_err(|_| WorkStatus::RemoteAccess)?;
            let copied = match op {
                Opcode::Read => there.copy_to(&near, Caching::Keep),
                Opcode::Write => near.copy_to(&there, Caching::Keep),
            };
            copied.map_err(|error| blame(&error, &near))?;
            offset += len;
        }
        Ok(())
    }
}

/// What a request wants of its target.
struct Wanted<'a> {
    peer: &'a Pair,
    request: &'a Request,
}

impl Wanted<'_> {
    /// The memory and the offset in it, where the key, the right and the range are good.
    fn find<'n>(&self, nic: &'n Nic) -> Result<(&'n LocalRange, u64), WorkStatus> {
        let refused = WorkStatus::RemoteAccess;
        let region = nic.region(self.request.rkey).ok_or(refused)?;
        let is_allowed = match self.request.op {
            Opcode::Read => region.remote >= RemoteAccess::Read,
            Opcode::Write => region.remote == RemoteAccess::ReadWrite,
        };
        let is_same = region.rkey == self.request.rkey && region.context == self.peer.context;
        if !is_allowed || !is_same {
            return Err(refused);
        }
        let offset = inside(region, self.request.remote_address, self.request.len);
        Ok((&region.memory, offset.ok_or(refused)?))
    }
}

/// The memory of a local range and the offset in it.
fn local<'n>(
    nic: &'n Nic,
    context: usize,
    range: &Sge,
) -> Result<(&'n LocalRange, u64), WorkStatus> {
    let unknown = WorkStatus::LocalQueuePairOperation;
    let region = nic.region(range.lkey).ok_or(unknown)?;
    if region.lkey != range.lkey || region.context != context {
        return Err(unknown);
    }
    let offset = inside(region, range.address, u64::from(range.len));
    Ok((&region.memory, offset.ok_or(WorkStatus::LocalProtection)?))
}

/// The offset of a range in a region.
fn inside(region: &Registered, address: u64, len: u64) -> Option<u64> {
    let offset = address.checked_sub(region.memory.address())?;
    (offset.checked_add(len)? <= region.memory.len()).then_some(offset)
}

/// Whose memory is gone.
fn blame(error: &CopyError, near: &LocalRange) -> WorkStatus {
    match error {
        CopyError::Fault { address, .. } if address.wrapping_sub(near.address()) < near.len() => {
            WorkStatus::LocalProtection
        }
        _ => WorkStatus::RemoteOperation,
    }
}

/// As many tries as this never end, as soft-RoCE has it.
const ENDLESS: u8 = 7;
