//! Our side asks: question, queue pairs, ready-ack.

use std::sync::Arc;
use std::time::{Duration, Instant};

use te_metadata::{EndpointMessage, QpNumber, sabotage};
use te_topology::{Gid, NicIndex};
use te_transport::{FaultClass, Phase, SliceFault};

use super::{Control, MAX_QUEUE_PAIRS, MOVE_LIMIT, Wish};
use crate::endpoint::{
    Endpoint, HandshakeError, NicPath, OnAnswer, PeerEnds, read_answer, ready, request,
};
use crate::fence;
use crate::nic::GidSlot;
use crate::worker::EndpointId;

impl Control {
    /// Makes a connection; tries again later where that may help.
    pub(super) fn run_active(self: &Arc<Self>, mut wish: Wish) {
        let Err(error) = self.try_active(&wish) else { return };
        let settings = &self.config.connection;
        let now = self.clock.now();
        wish.failed += 1;
        if may_help(&error) && wish.failed < settings.attempts {
            let wait = settings.first_backoff * (1 << (wish.failed - 1).min(16));
            let at = now + wait.min(settings.longest_backoff);
            let mut table = self.table.lock();
            if !table.closed {
                table.retry_at(at, wish);
                drop(table);
                self.bell.ring();
            }
            return;
        }
        let cause = error.text();
        tracing::warn!(peer = %wish.peer, tries = wish.failed, cause, "no connection");
        self.table.lock().pauses.on_failure(now, wish.peer.server());
        self.give_up(&wish, &error);
    }

    fn try_active(self: &Arc<Self>, wish: &Wish) -> Result<(), HandshakeError> {
        let (nic, link) = self.nic(wish.nic)?;
        let us = NicPath::new(&self.server, nic.name());
        let is_loopback = us == wish.peer;
        let known = self.table.lock().counts.get(wish.peer.server()).copied();
        let ours = nic.limits().map_or(1, |limits| limits.queue_pairs as usize);
        let count = known.filter(|_| !is_loopback).unwrap_or(ours).clamp(1, MAX_QUEUE_PAIRS);
        let (pairs, ends) = self.make((nic, &link), count, &wish.peer)?;
        let mut machine = Endpoint::new(pairs.len());
        machine.offer();
        let (id, gone) = {
            let mut table = self.table.lock();
            if table.closed {
                return Err(HandshakeError::TimedOut);
            }
            if let Some(entry) = table.entry(wish.nic, &wish.peer) {
                if !(wish.takes_over && entry.machine.half_open_until().is_some()) {
                    // The peer came first; the worker is told when that is ready.
                    return Ok(());
                }
                tracing::debug!(peer = %wish.peer, "a connection without its ready-ack gives way");
            }
            let (id, gone) = table.insert((wish.nic, &wish.peer), machine, (pairs, ends.clone()));
            if let Some(entry) = table.entry_of(wish.nic, &wish.peer, id) {
                entry.rpc = Some(wish.rpc.clone());
            }
            (id, gone)
        };
        self.give_way(gone, &wish.peer);
        let outcome = if is_loopback {
            let itself = PeerEnds { ends: ends.clone(), acks: false, about: None };
            self.take_answer(wish, id, &itself, link.gid)
        } else {
            let question = request(&us, &wish.peer, &ends);
            let payload = if wish.is_te { self.about(nic).to_payload() } else { String::new() };
            self.exchange(wish, (id, EndpointMessage { payload, ..question }), link.gid)
        };
        outcome.inspect_err(|_| self.forget(wish, id))
    }

    /// Asks, connects, acknowledges.
    fn exchange(
        self: &Arc<Self>,
        wish: &Wish,
        (id, question): (EndpointId, EndpointMessage),
        gid: GidSlot,
    ) -> Result<(), HandshakeError> {
        let answer = match self.handshakes.ask(&wish.rpc, &question) {
            Ok(answer) => answer,
            // The peer's own question may have connected us meanwhile (E29).
            Err(_) if self.is_connected(wish, id) => return Ok(()),
            Err(error) => return Err(HandshakeError::Peer(error)),
        };
        let published = wish.gid.map(Gid::byte_text).unwrap_or_default();
        let peer = match read_answer(&question, answer, &published) {
            Ok(peer) => peer,
            Err(_) if self.is_connected(wish, id) => return Ok(()),
            Err(error) => {
                if let HandshakeError::QueuePairCount { theirs, .. } = error
                    && (1..=MAX_QUEUE_PAIRS).contains(&theirs)
                {
                    let server = wish.peer.server().into();
                    self.table.lock().counts.insert(server, theirs);
                }
                return Err(error);
            }
        };
        self.take_answer(wish, id, &peer, gid)?;
        if !peer.acks {
            return Ok(());
        }
        let answer = self.handshakes.ask(&wish.rpc, &ready(question));
        let answer = answer.map_err(HandshakeError::Peer)?;
        if answer.is_refusal() {
            let reason = answer.reply_msg.chars().take(200).collect::<String>().into();
            return Err(HandshakeError::Refused { reason });
        }
        self.on_acked(wish.nic, &wish.peer, id, &peer.ends.queue_pairs)
    }

    /// Connects the queue pairs to those of the answer, unless the peer's own question did.
    fn take_answer(
        &self,
        wish: &Wish,
        id: EndpointId,
        peer: &PeerEnds,
        gid: GidSlot,
    ) -> Result<(), HandshakeError> {
        let key = (wish.nic, &wish.peer, id);
        loop {
            let (decision, pairs) = {
                let mut table = self.table.lock();
                let entry = table.entry_of(wish.nic, &wish.peer, id);
                let entry = entry.ok_or(HandshakeError::Replaced)?;
                let process = peer.about.map(|about| about.incarnation);
                let decision = entry.machine.on_answer(&peer.ends.queue_pairs, process);
                (decision, entry.queue_pairs.clone())
            };
            match decision {
                OnAnswer::Keep => return Ok(()),
                OnAnswer::Stale => return Err(HandshakeError::Replaced),
                OnAnswer::Busy if self.wait_moved(wish.nic, &wish.peer, id, self.latest()) => {}
                OnAnswer::Busy => return Err(HandshakeError::TimedOut),
                OnAnswer::Move => {
                    let (nic, link) = self.nic(wish.nic)?;
                    let moved = self.move_all((nic, &link), &pairs, peer);
                    drop(pairs);
                    self.look_for_another_gid(wish.nic, gid, &moved);
                    let limit = self.config.connection.ready_ack_limit;
                    return self.on_moved(key, moved, (self.clock.now() + limit, peer.acks));
                }
            }
        }
    }

    /// The ready-ack was exchanged.
    pub(super) fn on_acked(
        &self,
        nic: NicIndex,
        peer: &NicPath,
        id: EndpointId,
        theirs: &[QpNumber],
    ) -> Result<(), HandshakeError> {
        let mut table = self.table.lock();
        let entry = table.entry_of(nic, peer, id).ok_or(HandshakeError::Replaced)?;
        match entry.machine.acked(theirs) {
            Ok(true) => self.announce(nic, peer, entry),
            Ok(false) => {}
            Err(_) => return Err(HandshakeError::Replaced),
        }
        Ok(())
    }

    /// Where the route is refused as invalid and nothing ever worked with this GID, another one may
    /// do (E14): the next try is made with it. A peer's GID alone never brings us to this, because
    /// one connection that works is enough to keep ours.
    fn look_for_another_gid(
        &self,
        nic: NicIndex,
        failed: GidSlot,
        moved: &Result<(), HandshakeError>,
    ) {
        let is_invalid = match moved {
            Err(HandshakeError::GidClass { .. }) => true,
            Err(HandshakeError::Verbs(error)) => error.errno == Some(libc::EINVAL),
            _ => false,
        };
        if !is_invalid || self.config.connection.gid_retries == 0 {
            return;
        }
        if self.table.lock().is_connected(nic) {
            return;
        }
        match self.nics.other_gid(nic, failed, &[failed]) {
            Ok(Some(gid)) => tracing::warn!(?failed, ?gid, "another GID is tried"),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the GID table cannot be read"),
        }
    }

    fn is_connected(&self, wish: &Wish, id: EndpointId) -> bool {
        let is_over = self.wait_moved(wish.nic, &wish.peer, id, self.latest());
        let mut table = self.table.lock();
        let entry = table.entry_of(wish.nic, &wish.peer, id);
        is_over && entry.is_some_and(|entry| entry.machine.is_connected())
    }

    /// How long queue pairs may be moved that somebody waits for.
    fn latest(&self) -> Instant {
        self.clock.now() + MOVE_LIMIT
    }

    /// Takes out a connection that was not made.
    fn forget(&self, wish: &Wish, id: EndpointId) {
        let gone = self.table.lock().remove(wish.nic, &wish.peer, id);
        let Some(leaving) = gone else { return };
        self.stop(&leaving);
        if leaving.entry.machine.is_sendable() {
            let why = SliceFault::new(FaultClass::Rail, Phase::Handshake, "the ack was refused");
            self.tell_end(leaving, &why);
        }
    }

    /// Whether the peer confirmed the fence.
    pub(super) fn run_fence(&self, wish: &Wish, ours: Vec<QpNumber>) -> bool {
        if sabotage::is_off("rdma-fence") {
            return true;
        }
        let Some(nic) = self.nics.nic(wish.nic) else { return false };
        let us = NicPath::new(&self.server, nic.name());
        let question = EndpointMessage {
            local_nic_path: us.as_str().to_owned(),
            peer_nic_path: wish.peer.as_str().to_owned(),
            qp_num: ours,
            payload: fence::QUESTION.to_owned(),
            ..EndpointMessage::default()
        };
        let begun = self.clock.now();
        let answer = self.handshakes.ask(&wish.rpc, &question);
        let is_late = took(begun, self.clock.now()) > self.config.work.fence_limit;
        !is_late && answer.is_ok_and(|answer| fence::is_confirmed(&answer))
    }
}

fn took(begun: Instant, now: Instant) -> Duration {
    now.saturating_duration_since(begun)
}

/// Whether the same may go well a moment later.
fn may_help(error: &HandshakeError) -> bool {
    match error {
        HandshakeError::Refused { .. }
        | HandshakeError::RefusedGidClass { .. }
        | HandshakeError::QueuePairCount { .. }
        | HandshakeError::Replaced
        | HandshakeError::GidClass { .. }
        | HandshakeError::Verbs(_) => true,
        HandshakeError::NotMirrored { .. }
        | HandshakeError::BadGid { .. }
        | HandshakeError::Peer(_)
        | HandshakeError::Inactive { .. }
        | HandshakeError::Paused { .. }
        | HandshakeError::TimedOut => false,
    }
}
