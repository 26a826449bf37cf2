//! Whether and when a piece that failed is tried again: pure.

use std::time::Duration;

use te_metadata::{Incarnation, SegmentDescriptor};
use te_segment::RemoteSegment;
use te_transport::{FaultClass, RemoteSide, SliceFault};

/// The policy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetryPolicy {
    /// Tries of one piece, at least 1.
    pub(crate) max_attempts: u16,
    /// How long one try may take before its task ends as timed out; `None` leaves that to the
    /// transport and the task's deadline (te-classic A69).
    pub(crate) slice_timeout: Option<Duration>,
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
        if fault.class.is_retryable() && attempt.saturating_add(1) < self.max_attempts {
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
        remote: RemoteSide,
        (old, new): (&RemoteSegment, &RemoteSegment),
    ) -> Second {
        let restarted = is_other_process(old.descriptor(), new.descriptor());
        if restarted && remote != RemoteSide::Untouched {
            return Second::Restarted;
        }
        let moved = old.epoch() != new.epoch();
        if fault.class == FaultClass::Peer && !moved {
            return Second::GiveUp;
        }
        Second::Again(pause(attempt))
    }
}

/// Whether two descriptors of one name belong to different processes. Mooncake names no process:
/// there the data port stands for it.
fn is_other_process(old: &SegmentDescriptor, new: &SegmentDescriptor) -> bool {
    let incarnation =
        |d: &SegmentDescriptor| -> Option<Incarnation> { Some(d.te.as_ref()?.incarnation) };
    match (incarnation(old), incarnation(new)) {
        (None, None) => old.tcp.data_port != new.tcp.data_port,
        (old, new) => old != new,
    }
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
    use crate::testing_support::{a_peer, a_restarted_peer};
    use te_transport::Phase;

    const POLICY: RetryPolicy = RetryPolicy { max_attempts: 3, slice_timeout: None };

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
        assert_eq!(POLICY.judge(1, &fault(FaultClass::Rail)), Verdict::Refresh);
        assert_eq!(POLICY.judge(2, &fault(FaultClass::Rail)), Verdict::GiveUp);
    }

    #[test]
    fn an_unreachable_peer_that_did_not_move_is_given_up() {
        let peer = a_peer(1);
        let look =
            |class| POLICY.after_refresh(0, &fault(class), RemoteSide::Untouched, (&peer, &peer));
        assert_eq!(look(FaultClass::Peer), Second::GiveUp);
        assert_eq!(look(FaultClass::Rail), Second::Again(Duration::ZERO));
    }

    #[test]
    fn what_may_have_reached_a_dead_process_is_not_replayed_to_its_successor() {
        let (old, new) = (a_peer(1), a_restarted_peer(2));
        let look = |remote| POLICY.after_refresh(1, &fault(FaultClass::Rail), remote, (&old, &new));
        assert_eq!(look(RemoteSide::InDoubt), Second::Restarted);
        assert_eq!(look(RemoteSide::Untouched), Second::Again(Duration::from_millis(10)));
    }
}
