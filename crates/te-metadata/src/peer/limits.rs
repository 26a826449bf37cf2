//! Bounds of the peer link.

use std::time::Duration;

use thiserror::Error;

use crate::frame::{MAX_FRAME_LIMIT, MIN_FRAME_LIMIT};

/// What the peer link may take: bytes, time, connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerLimits {
    /// Longest frame in bytes, 1 MiB to 128 MiB; default 1 MiB, which is what Mooncake reads.
    pub max_frame: usize,
    /// Client: longest time to connect to one address, 1 ms to 1 h; default 5 s.
    pub connect_timeout: Duration,
    /// Client: longest time of a whole exchange, with name look-up and connecting, 1 ms to 1 h;
    /// default 10 s.
    pub exchange_timeout: Duration,
    /// Server: longest life of an accepted connection, 1 ms to 1 h; default 5 s.
    pub serve_timeout: Duration,
    /// Server: most open connections, at least 1; default 1024. One more than that closes the
    /// oldest one that has been answered, else the oldest of all.
    pub max_connections: usize,
    /// Server: most open connections from one IP address, at least 1; default 512, because many
    /// engines of one host start at once. One more than that closes one of the same address by
    /// the same rule.
    pub max_connections_per_peer: usize,
    /// Server: most bytes held for all connections together, at least `max_frame`; default
    /// 128 MiB. For more, the address that holds most loses its largest unfinished question. One
    /// address holds at most a quarter of it, or `max_frame`.
    pub max_buffered_bytes: usize,
    /// Server: connections that may wait to be accepted, at least 1; default 128. The kernel has
    /// a limit of its own.
    pub backlog: u32,
}

impl Default for PeerLimits {
    fn default() -> Self {
        Self {
            max_frame: MIN_FRAME_LIMIT,
            connect_timeout: Duration::from_secs(5),
            exchange_timeout: Duration::from_secs(10),
            serve_timeout: Duration::from_secs(5),
            max_connections: 1024,
            max_connections_per_peer: 512,
            max_buffered_bytes: 128 << 20,
            backlog: 128,
        }
    }
}

impl PeerLimits {
    /// Checks the ranges that the fields document.
    ///
    /// # Errors
    /// The first field that is out of its range.
    pub fn validate(&self) -> Result<(), LimitsError> {
        let check =
            |fits, field, rule| if fits { Ok(()) } else { Err(LimitsError { field, rule }) };
        let time = MIN_TIMEOUT..=MAX_TIMEOUT;
        let frame = MIN_FRAME_LIMIT..=MAX_FRAME_LIMIT;
        check(frame.contains(&self.max_frame), "max_frame", "1 MiB to 128 MiB")?;
        check(time.contains(&self.connect_timeout), "connect_timeout", TIME_RULE)?;
        check(time.contains(&self.exchange_timeout), "exchange_timeout", TIME_RULE)?;
        check(time.contains(&self.serve_timeout), "serve_timeout", TIME_RULE)?;
        check(self.max_connections > 0, "max_connections", "at least 1")?;
        check(self.max_connections_per_peer > 0, "max_connections_per_peer", "at least 1")?;
        let budget = self.max_buffered_bytes >= self.max_frame;
        check(budget, "max_buffered_bytes", "at least max_frame")?;
        check(self.backlog > 0, "backlog", "at least 1")
    }
}

/// A limit is out of its range.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field} is out of range, expected {rule}")]
pub struct LimitsError {
    field: &'static str,
    rule: &'static str,
}

impl LimitsError {
    /// The name of the field.
    pub fn field(&self) -> &'static str {
        self.field
    }
}

const MIN_TIMEOUT: Duration = Duration::from_millis(1);
const MAX_TIMEOUT: Duration = Duration::from_secs(3600);
const TIME_RULE: &str = "1 ms to 1 h";

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(change: impl FnOnce(&mut PeerLimits)) -> &'static str {
        let mut limits = PeerLimits::default();
        change(&mut limits);
        limits.validate().unwrap_err().field()
    }

    /// J9: the frame limit lies within 1 MiB and 128 MiB and does not change between calls.
    #[test]
    fn j09_frame_limit_is_bounded_and_constant() {
        let limit = || PeerLimits::default().max_frame;
        assert_eq!(limit(), 1 << 20);
        assert_eq!(limit(), limit());
        assert_eq!(rejected(|l| l.max_frame = (1 << 20) - 1), "max_frame");
        assert_eq!(rejected(|l| l.max_frame = (128 << 20) + 1), "max_frame");
        for max_frame in [1 << 20, 128 << 20] {
            let limits = PeerLimits { max_frame, ..PeerLimits::default() };
            assert_eq!(limits.validate(), Ok(()));
        }
    }

    #[test]
    fn every_field_is_checked() {
        assert_eq!(rejected(|l| l.connect_timeout = Duration::ZERO), "connect_timeout");
        assert_eq!(rejected(|l| l.exchange_timeout = Duration::MAX), "exchange_timeout");
        assert_eq!(rejected(|l| l.serve_timeout = Duration::ZERO), "serve_timeout");
        assert_eq!(rejected(|l| l.max_connections = 0), "max_connections");
        assert_eq!(rejected(|l| l.max_connections_per_peer = 0), "max_connections_per_peer");
        assert_eq!(rejected(|l| l.max_buffered_bytes = 1), "max_buffered_bytes");
        assert_eq!(rejected(|l| l.backlog = 0), "backlog");
    }
}
