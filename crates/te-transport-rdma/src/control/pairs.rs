//! Queue pairs: made, given a port, and connected to those of a peer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use te_metadata::QpNumber;
use te_topology::NicIndex;
use te_verbs::{QueuePair, Ready, Route, VerbsError};

use super::Control;
use crate::endpoint::{About, Ends, HandshakeError, NicPath, PeerEnds, are_of_different_classes};
use crate::nic::{Nic, NicLink};
use crate::worker::EndpointId;

/// How long connections that give way may take to let go of their queue pairs.
const ROOM_LIMIT: Duration = Duration::from_millis(500);
/// How often that is looked at.
const ROOM_STEP: Duration = Duration::from_millis(10);

impl Control {
    /// What we say of a NIC to our own kind.
    pub(super) fn about(&self, nic: &Nic) -> About {
        let reads = nic.limits().map_or(1, |limits| limits.reads_as_target);
        About { incarnation: self.incarnation, reads: reads.max(1) }
    }

    /// Makes queue pairs that have a port. Where the device has no room for them others give way, for
    /// which some time is waited.
    pub(super) fn make(
        &self,
        (nic, link): (&Nic, &NicLink),
        count: usize,
        peer: &NicPath,
    ) -> Result<(Vec<Arc<dyn QueuePair>>, Ends), HandshakeError> {
        let until = self.clock.now() + ROOM_LIMIT;
        let mut made = self.try_make(nic, link, count);
        if !made.as_ref().is_err_and(is_full) {
            return made;
        }
        let gone = self.table.lock().make_room(nic.index(), count);
        tracing::warn!(
            nic = nic.name().as_str(),
            others = gone.len(),
            "the device has no room for more queue pairs, others give way"
        );
        let any = !gone.is_empty();
        self.give_way(gone, peer);
        while any && made.as_ref().is_err_and(is_full) && self.clock.now() < until {
            let mut table = self.table.lock();
            if table.closed {
                break;
            }
            // Their workers let them go, of which nobody tells.
            self.moved.wait_for(&mut table, ROOM_STEP);
            drop(table);
            made = self.try_make(nic, link, count);
        }
        made
    }

    fn try_make(
        &self,
        nic: &Nic,
        link: &NicLink,
        count: usize,
    ) -> Result<(Vec<Arc<dyn QueuePair>>, Ends), HandshakeError> {
        let inactive = || HandshakeError::Inactive { nic: nic.name().as_str().into() };
        let way = self.ways.get(nic.index().position()).and_then(Option::as_ref);
        let way = way.ok_or_else(inactive)?;
        let completions = Arc::clone(&way.completions.lock());
        let mut queue_pairs = Vec::with_capacity(count);
        let mut numbers = Vec::with_capacity(count);
        for _ in 0..count {
            let made = nic.queue_pair(&completions).ok_or_else(inactive)?;
            let pair = made.map_err(HandshakeError::Verbs)?;
            let device = &self.config.device;
            pair.to_init(device.port, device.pkey_index).map_err(HandshakeError::Verbs)?;
            numbers.extend(QpNumber::new(pair.number() & QpNumber::MAX.value()));
            queue_pairs.push(pair);
        }
        let ends = Ends { gid: link.gid.gid, lid: link.lid, queue_pairs: numbers };
        Ok((queue_pairs, ends))
    }

    /// Connects queue pairs to those of a peer, by position. May wait for the kernel.
    pub(super) fn move_all(
        &self,
        (nic, link): (&Nic, &NicLink),
        queue_pairs: &[Arc<dyn QueuePair>],
        peer: &PeerEnds,
    ) -> Result<(), HandshakeError> {
        let set = &self.config.connection;
        let (target, initiator) =
            nic.limits().map_or((1, 1), |l| (l.reads_as_target, l.reads_as_initiator));
        let initiator = peer.about.map_or(initiator, |about| initiator.min(about.reads));
        let peer = &peer.ends;
        for (pair, theirs) in queue_pairs.iter().zip(&peer.queue_pairs) {
            let route = Route {
                port: self.config.device.port,
                gid_index: link.gid.index,
                gid: peer.gid,
                lid: peer.lid,
                queue_pair: theirs.value(),
                first_packet: 0,
                mtu: link.mtu,
                reads: target,
                min_rnr_timer: set.min_rnr_timer,
                hop_limit: set.hop_limit,
                traffic_class: set.traffic_class,
                service_level: set.service_level,
            };
            let ready = Ready {
                first_packet: 0,
                reads: initiator,
                timeout: set.ack_timeout,
                retries: set.retries,
                rnr_retries: set.rnr_retries,
            };
            pair.to_ready_to_receive(&route).map_err(|error| refused_route(link, peer, error))?;
            pair.to_ready_to_send(&ready).map_err(HandshakeError::Verbs)?;
        }
        Ok(())
    }

    /// Waits until a connection is not moved any more, or is gone; false where that takes too long.
    pub(super) fn wait_moved(
        &self,
        nic: NicIndex,
        peer: &NicPath,
        id: EndpointId,
        until: Instant,
    ) -> bool {
        let mut table = self.table.lock();
        loop {
            if !table.entry_of(nic, peer, id).is_some_and(|entry| entry.machine.is_moving()) {
                return true;
            }
            let left = until.saturating_duration_since(self.clock.now());
            if left.is_zero() {
                return false;
            }
            self.moved.wait_for(&mut table, left);
        }
    }

    /// The queue pairs of a connection are moved, or that failed. Until when the handshake has to be
    /// over, and whether the ready-ack is part of it.
    pub(super) fn on_moved(
        &self,
        (nic, peer, id): (NicIndex, &NicPath, EndpointId),
        moved: Result<(), HandshakeError>,
        (until, acks): (Instant, bool),
    ) -> Result<(), HandshakeError> {
        let mut table = self.table.lock();
        let Some(entry) = table.entry_of(nic, peer, id) else {
            return Err(moved.err().unwrap_or(HandshakeError::Replaced));
        };
        if let Err(error) = moved {
            entry.machine.leave();
            let gone = table.remove(nic, peer, id);
            drop(table);
            gone.iter().for_each(|leaving| self.stop(leaving));
            return Err(error);
        }
        entry.machine.moved(until, acks);
        if entry.machine.is_sendable() {
            self.announce(nic, peer, entry);
        }
        drop(table);
        self.moved.notify_all();
        Ok(())
    }
}

/// Whether a device has no room for what was asked for.
fn is_full(error: &HandshakeError) -> bool {
    let HandshakeError::Verbs(error) = error else { return false };
    matches!(error.errno, Some(libc::ENOMEM | libc::ENOSPC | libc::EAGAIN))
}

/// What a refusal of a route means.
fn refused_route(link: &NicLink, peer: &Ends, error: VerbsError) -> HandshakeError {
    let (ours, theirs) = (link.gid.gid, peer.gid);
    if error.errno == Some(libc::EINVAL) && are_of_different_classes(ours, theirs) {
        return HandshakeError::GidClass { ours, theirs };
    }
    HandshakeError::Verbs(error)
}
