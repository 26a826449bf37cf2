//! How often an address may ask: a bucket of tokens for each.
//!
//! I1  An address that asks no more than `per_second` is never refused.
//! I2  At most [`MAX_ADDRESSES`] buckets exist. When there are more, full ones go first: an
//!     address with a full bucket and one that was never seen are treated alike.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Buckets of all addresses that asked lately.
#[derive(Debug)]
pub(crate) struct RateLimit {
    per_second: f64,
    burst: f64,
    buckets: HashMap<IpAddr, Bucket>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl RateLimit {
    /// `per_second` requests, and twice as many at once; 0 switches the limit off.
    pub(crate) fn new(per_second: u32) -> Self {
        let per_second = f64::from(per_second);
        Self { per_second, burst: 2.0 * per_second, buckets: HashMap::new() }
    }

    /// Takes one token of `address`. An error says after what time there is one again.
    pub(crate) fn take(&mut self, now: Instant, address: IpAddr) -> Result<(), Duration> {
        if self.per_second == 0.0 {
            return Ok(());
        }
        let address = holder(address);
        if self.buckets.len() >= MAX_ADDRESSES && !self.buckets.contains_key(&address) {
            self.make_room(now);
        }
        let (per_second, burst) = (self.per_second, self.burst);
        let new = Bucket { tokens: burst, filled: now };
        let bucket = self.buckets.entry(address).or_insert(new);
        bucket.fill(now, per_second, burst);
        if bucket.tokens < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.tokens) / per_second));
        }
        bucket.tokens -= 1.0;
        Ok(())
    }

    fn make_room(&mut self, now: Instant) {
        let (per_second, burst) = (self.per_second, self.burst);
        self.buckets.retain(|_, bucket| {
            bucket.fill(now, per_second, burst);
            bucket.tokens < burst
        });
        if self.buckets.len() >= MAX_ADDRESSES {
            // So many addresses at once are one attacker's; none of them has earned a memory.
            self.buckets.clear();
        }
    }
}

impl Bucket {
    fn fill(&mut self, now: Instant, per_second: f64, burst: f64) {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + passed * per_second).min(burst);
        self.filled = now;
    }
}

/// Whoever has one IPv6 address has the 2^64 addresses beside it too.
pub(crate) fn holder(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) >> 64 << 64).into()),
        v4 => v4,
    }
}

/// A few megabytes.
const MAX_ADDRESSES: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Instant {
        crate::clock::now().mono
    }

    fn host(n: u32) -> IpAddr {
        IpAddr::V4(n.into())
    }

    #[test]
    fn a_burst_is_taken_then_refused_then_taken_again() {
        let (mut limit, start) = (RateLimit::new(10), start());
        assert!((0..20).all(|_| limit.take(start, host(1)).is_ok()));
        let wait = limit.take(start, host(1)).unwrap_err();
        assert!(wait <= Duration::from_millis(100) && wait > Duration::ZERO, "{wait:?}");
        assert!(limit.take(start, host(2)).is_ok(), "another address has its own");
        assert!(limit.take(start + wait, host(1)).is_ok());
        assert!(limit.take(start + wait, host(1)).is_err());
    }

    #[test]
    fn an_even_pace_is_never_refused() {
        let (mut limit, start) = (RateLimit::new(10), start());
        let times = (0..1000).map(|n| start + Duration::from_millis(100) * n);
        assert!(times.into_iter().all(|now| limit.take(now, host(1)).is_ok()));
    }

    #[test]
    fn zero_switches_it_off() {
        let (mut limit, start) = (RateLimit::new(0), start());
        assert!((0..10_000).all(|_| limit.take(start, host(1)).is_ok()));
        assert!(limit.buckets.is_empty());
    }

    #[test]
    fn neighbours_in_ipv6_and_mapped_ipv4_share_a_bucket() {
        let same = |a: &str, b: &str| holder(a.parse().unwrap()) == holder(b.parse().unwrap());
        assert!(same("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"));
        assert!(!same("2001:db8:1:2::1", "2001:db8:1:3::1"));
        assert!(same("::ffff:10.0.0.1", "10.0.0.1"));
        assert!(!same("10.0.0.2", "10.0.0.1"));
    }

    #[test]
    fn many_addresses_do_not_grow_the_table_without_end() {
        let (mut limit, start) = (RateLimit::new(1), start());
        for n in 0..200_000 {
            assert!(limit.take(start, host(n)).is_ok());
        }
        assert!(limit.buckets.len() <= MAX_ADDRESSES);
    }
}
