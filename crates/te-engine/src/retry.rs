//! Whether and when a piece that failed is tried again: pure.

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use te_metadata::{BufferDescriptor, Incarnation, SegmentDescriptor};
use te_segment::{RemoteRange, RemoteSegment};
use te_transport::{FaultClass, Phase, SliceFault};

/// The policy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetryPolicy {
    /// Tries of one piece, at least 1.
    pub(crate) max_attempts: u16,
    /// How long one try may take before its task ends as timed out; `None` leaves that to the
    /// transport and the task's deadline (te-classic A69).
    pub(crate) slice_timeout: Option<Duration>,
    /// How long an ending task waits for its slices before its memory goes to quarantine.
    pub(crate) quarantine_after: Duration,
}

/// What to do with a piece that failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Ask for the peer's descriptor, then decide with [`RetryPolicy::after_refresh`].
    Refresh,
    /// The task ends with this fault.
    GiveUp,
}

/// What a fresh descriptor makes of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Second {
    /// Try again after this pause.
    Again(Duration),
    /// The task ends with the fault it had.
    GiveUp,
    /// The task ends because the peer is another process now.
    Restarted,
}

impl RetryPolicy {
    /// The first look at a fault.
    pub(crate) fn judge(&self, attempt: u16, fault: &SliceFault) -> Verdict {
        // A peer that cannot be reached or is silent is so for every try. What it said in a handshake
        // can be answered by its newest descriptor, and where nobody listens somebody else may.
        let worth = match fault.class {
            FaultClass::Peer => fault.phase == Phase::Handshake || is_refused(fault),
            class => class.is_retryable(),
        };
        if worth && attempt.saturating_add(1) < self.max_attempts {
            Verdict::Refresh
        } else {
            Verdict::GiveUp
        }
    }

    /// The second look, with a descriptor fetched after the fault.
    pub(crate) fn after_refresh(
        &self,
        attempt: u16,
        fault: &SliceFault,
        (old, new): (&RemoteSegment, &RemoteSegment),
    ) -> Second {
        if is_other_process(old, new) {
            return Second::Restarted;
        }
        let moved = old.epoch() != new.epoch();
        if fault.class == FaultClass::Peer && !moved {
            return Second::GiveUp;
        }
        Second::Again(pause(attempt))
    }
}

/// Whether two snapshots of one name belong to different processes. Mooncake names no process:
/// there its addresses stand for it, and where those are equal its buffers, of which a process
/// that registered another one keeps the others.
pub(crate) fn is_other_process(old: &RemoteSegment, new: &RemoteSegment) -> bool {
    let incarnation = |peer: &RemoteSegment| -> Option<Incarnation> {
        Some(peer.descriptor().te.as_ref()?.incarnation)
    };
    if te_metadata::sabotage::is_off("process-binding") {
        return false;
    }
    match (incarnation(old), incarnation(new)) {
        (None, None) => {
            old.rpc() != new.rpc()
                || old.descriptor().tcp.data_port != new.descriptor().tcp.data_port
                || shares_no_buffer(old.descriptor(), new.descriptor())
        }
        (old, new) => old != new,
    }
}

/// Whether the buffer that a range was in is another one in a newer snapshot of the same process, or
/// none. A Mooncake peer's buffers have no names: there nothing tells.
pub(crate) fn is_other_registration(
    (old, new): (&RemoteSegment, &RemoteSegment),
    range: &RemoteRange,
) -> bool {
    if te_metadata::sabotage::is_off("registration-binding") {
        return false;
    }
    let meant = old.buffer_of(range).and_then(|buffer| buffer.te);
    meant.is_some() && meant != new.buffer_of(range).and_then(|buffer| buffer.te)
}

fn shares_no_buffer(old: &SegmentDescriptor, new: &SegmentDescriptor) -> bool {
    let (old, new) = (old.buffers(), new.buffers());
    let place = |b: &BufferDescriptor| (b.addr, b.length);
    let known: HashSet<_> = old.iter().map(place).collect();
    !old.is_empty() && !new.is_empty() && !new.iter().any(|b| known.contains(&place(b)))
}

/// Whether its host answered that nobody listens.
pub(crate) fn is_refused(fault: &SliceFault) -> bool {
    let kind = fault.errno.map(|number| io::Error::from_raw_os_error(number).kind());
    kind == Some(io::ErrorKind::ConnectionRefused)
}

/// 0, 10, 20, 40, 80, 100, 100 … ms.
fn pause(attempt: u16) -> Duration {
    match attempt {
        0 => Duration::ZERO,
        n => Duration::from_millis((10 << (n - 1).min(4)).min(100)),
    }
}

#[cfg(test)]
mod tests {
    //! The decision table.

    use super::*;
    use crate::testing_support::{a_mooncake_peer, a_peer, a_restarted_peer};

    const POLICY: RetryPolicy = RetryPolicy {
        max_attempts: 3,
        slice_timeout: None,
        quarantine_after: Duration::from_secs(1),
    };

    fn fault(class: FaultClass) -> SliceFault {
        SliceFault::new(class, Phase::Payload, "test")
    }

    #[test]
    fn only_rail_and_peer_faults_are_worth_a_refresh_and_only_so_often() {
        for class in
            [FaultClass::Refused, FaultClass::Local, FaultClass::Protocol, FaultClass::Closed]
        {
            assert_eq!(POLICY.judge(0, &fault(class)), Verdict::GiveUp);
        }
        assert_eq!(POLICY.judge(0, &fault(FaultClass::Peer)), Verdict::GiveUp);
        let greeting = SliceFault::new(FaultClass::Peer, Phase::Handshake, "another version");
        assert_eq!(POLICY.judge(0, &greeting), Verdict::Refresh);
        let refused = SliceFault::new(FaultClass::Peer, Phase::Connect, "nobody listens")
            .with_os_error(&io::Error::from_raw_os_error(111));
        assert_eq!(POLICY.judge(0, &refused), Verdict::Refresh);
        assert_eq!(POLICY.judge(1, &fault(FaultClass::Rail)), Verdict::Refresh);
        assert_eq!(POLICY.judge(2, &fault(FaultClass::Rail)), Verdict::GiveUp);
    }

    #[test]
    fn an_unreachable_peer_that_did_not_move_is_given_up() {
        let peer = a_peer(1);
        let look = |class| POLICY.after_refresh(0, &fault(class), (&peer, &peer));
        assert_eq!(look(FaultClass::Peer), Second::GiveUp);
        assert_eq!(look(FaultClass::Rail), Second::Again(Duration::ZERO));
    }

    #[test]
    fn nothing_is_replayed_to_another_process() {
        let (old, new) = (a_peer(1), a_restarted_peer(2));
        let rail = fault(FaultClass::Rail);
        assert_eq!(POLICY.after_refresh(1, &rail, (&old, &new)), Second::Restarted);
        assert_eq!(
            POLICY.after_refresh(1, &rail, (&new, &new)),
            Second::Again(Duration::from_millis(10))
        );
    }

    #[test]
    fn a_mooncake_peer_is_known_by_its_addresses_and_its_buffers() {
        let old = a_mooncake_peer(7, &[0x1000, 0x9000]);
        let same = [
            a_mooncake_peer(7, &[0x9000]),
            a_mooncake_peer(7, &[0x1000, 0x5000]),
            a_mooncake_peer(7, &[]),
        ];
        assert!(same.iter().all(|new| !is_other_process(&old, new)));
        let other =
            [a_mooncake_peer(8, &[0x1000]), a_mooncake_peer(7, &[0x5000]), a_restarted_peer(1)];
        assert!(other.iter().all(|new| is_other_process(&old, new)));
    }
}
