//! Keeps a hostile peer from filling the log.

use std::time::{Duration, Instant};

/// Lets a few lines through in each window and counts the rest.
#[derive(Debug)]
pub(crate) struct LogLimit {
    window_start: Option<Instant>,
    in_window: u32,
    suppressed: u64,
}

impl LogLimit {
    /// Lines that pass in each [`WINDOW`].
    const LINES: u32 = 5;

    pub(crate) fn new() -> Self {
        Self { window_start: None, in_window: 0, suppressed: 0 }
    }

    /// Whether a line may be written now, and how many were not since the last one.
    pub(crate) fn allow(&mut self, now: Instant) -> Option<u64> {
        if self.window_start.is_none_or(|start| now.duration_since(start) >= WINDOW) {
            self.window_start = Some(now);
            self.in_window = 0;
        }
        if self.in_window == Self::LINES {
            self.suppressed += 1;
            return None;
        }
        self.in_window += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

const WINDOW: Duration = Duration::from_secs(1);

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "any instant will do as a start")]
mod tests {
    use super::*;

    #[test]
    fn five_lines_pass_in_a_second_and_the_rest_is_counted() {
        let start = Instant::now();
        let mut limit = LogLimit::new();
        let passed = (0..100).filter(|_| limit.allow(start).is_some()).count();
        assert_eq!(passed, 5);
        assert_eq!(limit.allow(start + Duration::from_millis(999)), None);
        assert_eq!(limit.allow(start + Duration::from_secs(1)), Some(96));
        assert_eq!(limit.allow(start + Duration::from_secs(1)), Some(0));
    }
}
