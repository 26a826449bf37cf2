//! How a simulated fabric behaves.

use std::time::Duration;

use te_segment::SlicePolicy;

use super::SimFabric;

#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) latency: (Duration, Duration),
    pub(super) bytes_per_second: u64,
    pub(super) loss_per_million: u32,
    pub(super) reorder_per_million: u32,
    pub(super) queue_limit: usize,
    pub(super) detect: Duration,
    pub(super) slices: SlicePolicy,
}

impl Settings {
    /// How long a link is busy with `len` bytes.
    pub(super) fn busy(&self, len: u64) -> Duration {
        let nanos = u128::from(len) * 1_000_000_000 / u128::from(self.bytes_per_second.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 4))
    }
}

/// Builds a [`SimFabric`]; without further words nothing is lost and nothing overtakes.
#[derive(Debug, Clone)]
pub struct SimBuilder {
    seed: u64,
    settings: Settings,
}

impl SimBuilder {
    pub(super) fn new(seed: u64) -> Self {
        let settings = Settings {
            latency: (Duration::from_micros(20), Duration::from_micros(60)),
            bytes_per_second: 1_000_000_000,
            loss_per_million: 0,
            reorder_per_million: 0,
            queue_limit: 256,
            detect: Duration::from_millis(20),
            slices: SlicePolicy { min_piece: 64 << 10, max_piece: 1 << 20, ways: 4 },
        };
        Self { seed, settings }
    }

    /// One-way delay, drawn evenly from `least` to `most`. Default 20 to 60 µs.
    #[must_use]
    pub fn latency(mut self, least: Duration, most: Duration) -> Self {
        self.settings.latency = (least, most.max(least));
        self
    }

    /// Bytes per second of each pair of endpoints in each direction. Default 1 GB/s.
    #[must_use]
    pub fn bandwidth(mut self, bytes_per_second: u64) -> Self {
        self.settings.bytes_per_second = bytes_per_second;
        self
    }

    /// How many of a million slices end in a fault of the path. Half of them are lost on the way,
    /// perhaps after a part of the bytes arrived; for the other half all bytes arrive and only the
    /// answer is lost. Default 0.
    #[must_use]
    pub fn loss(mut self, per_million: u32) -> Self {
        self.settings.loss_per_million = per_million;
        self
    }

    /// How many of a million slices may be overtaken by later ones. Default 0.
    #[must_use]
    pub fn reorder(mut self, per_million: u32) -> Self {
        self.settings.reorder_per_million = per_million;
        self
    }

    /// Most slices that an endpoint takes for one peer at a time, at least 1. Default 256.
    #[must_use]
    pub fn queue_limit(mut self, slices: usize) -> Self {
        self.settings.queue_limit = slices.max(1);
        self
    }

    /// How long it takes until a dead or unreachable peer is noticed. Default 20 ms.
    #[must_use]
    pub fn detect(mut self, after: Duration) -> Self {
        self.settings.detect = after;
        self
    }

    /// How requests shall be cut. Default 64 KiB to 1 MiB, 4 ways.
    #[must_use]
    pub fn slices(mut self, policy: SlicePolicy) -> Self {
        self.settings.slices = policy;
        self
    }

    /// The fabric.
    pub fn build(self) -> SimFabric {
        SimFabric::with(self.seed, self.settings)
    }
}
