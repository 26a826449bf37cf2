//! Failed requests in the log: the first at once, then a summary each second (FB54).
//!
//! I1  At most one line a second, whatever fails.
//! I2  Every failure is in the count of some line.

use std::time::{Duration, Instant};

use te_sync::Mutex;

use crate::status::TaskFault;

/// Least time between two lines.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct Pending {
    count: u64,
    first: String,
    last_line: Option<Instant>,
}

/// What is to be said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Requests that failed since the line before.
    pub(crate) count: u64,
    /// The first of them.
    pub(crate) first: String,
}

/// The failures that no line has told yet.
#[derive(Debug, Default)]
pub(crate) struct FaultLog {
    pending: Mutex<Pending>,
}

impl FaultLog {
    /// Counts a failure; gives when to look with [`FaultLog::due`].
    pub(crate) fn note(&self, now: Instant, fault: &TaskFault) -> Instant {
        let mut pending = self.pending.lock();
        if pending.count == 0 {
            pending.first = fault.to_string();
        }
        pending.count += 1;
        pending.last_line.map_or(now, |last| last + PAUSE)
    }

    /// The line that is due, if one is.
    pub(crate) fn due(&self, now: Instant) -> Option<Line> {
        let mut pending = self.pending.lock();
        let early = pending.last_line.is_some_and(|last| now < last + PAUSE);
        if pending.count == 0 || (early && !te_metadata::sabotage::is_off("log-limit")) {
            return None;
        }
        pending.last_line = Some(now);
        let first = std::mem::take(&mut pending.first);
        Some(Line { count: std::mem::take(&mut pending.count), first })
    }
}

#[cfg(test)]
mod tests {
    //! Counting and pausing.

    use te_segment::{Opcode, SegmentId};
    use te_transport::{FaultClass, Phase, SliceFault};

    use super::*;

    fn fault(index: usize) -> TaskFault {
        TaskFault {
            index,
            op: Opcode::Read,
            peer: "p:1".into(),
            target: SegmentId::LOCAL,
            attempts: 1,
            quarantined: false,
            fault: SliceFault::new(FaultClass::Peer, Phase::Connect, "refused"),
        }
    }

    #[test]
    fn fb54_many_failures_make_few_lines_that_count_them_all() {
        let log = FaultLog::default();
        let start = te_transport::Clock::now(&te_transport::SystemClock);
        let (mut lines, mut counted) = (0, 0);
        for i in 0..10_000u32 {
            let now = start + Duration::from_millis(u64::from(i) / 2);
            let look = log.note(now, &fault(7));
            assert!(look <= now + PAUSE);
            if let Some(line) = log.due(now) {
                assert!(
                    line.first.contains("p:1") && line.first.contains("connect"),
                    "{}",
                    line.first
                );
                (lines, counted) = (lines + 1, counted + line.count);
            }
        }
        counted += log.due(start + Duration::from_secs(60)).map_or(0, |line| line.count);
        assert_eq!((lines, counted), (5, 10_000));
        assert_eq!(log.due(start + Duration::from_secs(90)), None);
    }
}
