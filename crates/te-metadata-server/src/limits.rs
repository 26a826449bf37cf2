//! What the server takes from anybody, and how long it waits.

use std::time::Duration;

use crate::error::StartError;

/// Bounds of everything that comes from outside. Each default is made for some thousand engines
/// with large descriptors, on a machine that does other things too.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How long a connection may be silent before or in a request's head; 30 s. Idle connections
    /// are closed by it too.
    pub header_timeout: Duration,
    /// How long a request's body may take, however it drips; 30 s.
    pub body_timeout: Duration,
    /// How long a client may take no byte of an answer; 30 s.
    pub write_timeout: Duration,
    /// How long a TLS handshake may take; 10 s.
    pub tls_timeout: Duration,
    /// How long requests may go on after the server was told to end; 5 s.
    pub shutdown_timeout: Duration,
    /// Longest wait of one `/v1/watch`; 60 s. Who asks for more gets this.
    pub max_wait: Duration,
    /// Connections at once; 4096.
    pub max_connections: usize,
    /// Connections of one address at once; 2048, since a machine may run hundreds of engines.
    pub max_connections_per_address: usize,
    /// Requests of one address per second, and twice as many at once; 10 000. 0 is no limit. A
    /// Mooncake client that registers buffers one by one puts some thousand times a second, and
    /// takes any refusal for a failure.
    pub requests_per_second: u32,
    /// Those who wait in `/v1/watch` at once; 1024.
    pub max_watchers: usize,
    /// Bytes of one value; 8 MiB. A descriptor of 100 000 buffers has about 7 MB.
    pub max_value: usize,
    /// Bytes of bodies that are being received, all together; 256 MiB.
    pub max_body_bytes: usize,
    /// Keys; 262 144.
    pub max_keys: usize,
    /// Bytes of all keys and values; 1 GiB. All of it is in memory.
    pub max_bytes: u64,
    /// Bytes of one key; 4096.
    pub max_key_length: usize,
    /// Bytes of an owner's name; 256, at most 4096.
    pub max_owner_length: usize,
    /// Shortest time to live; 100 ms.
    pub min_ttl: Duration,
    /// Longest time to live; 24 h.
    pub max_ttl: Duration,
    /// Events that are kept for watchers; 65 536.
    pub max_events: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            tls_timeout: Duration::from_secs(10),
            shutdown_timeout: Duration::from_secs(5),
            max_wait: Duration::from_secs(60),
            max_connections: 4096,
            max_connections_per_address: 2048,
            requests_per_second: 10_000,
            max_watchers: 1024,
            max_value: 8 << 20,
            max_body_bytes: 256 << 20,
            max_keys: 1 << 18,
            max_bytes: 1 << 30,
            max_key_length: 4096,
            max_owner_length: 256,
            min_ttl: Duration::from_millis(100),
            max_ttl: Duration::from_secs(24 * 3600),
            max_events: 65_536,
        }
    }
}

impl Limits {
    /// Looks for what cannot work.
    pub(crate) fn check(&self) -> Result<(), StartError> {
        let times = [
            ("header_timeout", self.header_timeout),
            ("body_timeout", self.body_timeout),
            ("write_timeout", self.write_timeout),
            ("tls_timeout", self.tls_timeout),
            ("max_wait", self.max_wait),
            ("min_ttl", self.min_ttl),
        ];
        let numbers = [
            ("max_connections", self.max_connections),
            ("max_connections_per_address", self.max_connections_per_address),
            ("max_watchers", self.max_watchers),
            ("max_value", self.max_value),
            ("max_keys", self.max_keys),
            ("max_key_length", self.max_key_length),
            ("max_owner_length", self.max_owner_length),
            ("max_events", self.max_events),
        ];
        let bad = |name, reason: &str| Err(StartError::Limit { name, reason: reason.to_owned() });
        if let Some((name, _)) = times.into_iter().find(|(_, time)| time.is_zero()) {
            return bad(name, "0 would refuse everything");
        }
        if let Some((name, _)) = times.into_iter().find(|(_, time)| *time > LONGEST) {
            return bad(name, "is longer than a year");
        }
        if let Some((name, _)) = numbers.into_iter().find(|(_, number)| *number == 0) {
            return bad(name, "0 would refuse everything");
        }
        if self.max_owner_length > 4096 || self.max_key_length > 16_384 {
            return bad("max_owner_length", "owners have at most 4096 bytes, keys 16 KiB");
        }
        if self.max_value > 1 << 30 || self.max_body_bytes > 1 << 40 {
            return bad("max_value", "values have at most 1 GiB");
        }
        if self.max_body_bytes < self.max_value {
            return bad("max_body_bytes", "is less than one value may have");
        }
        if self.max_ttl < self.min_ttl || self.max_ttl > LONGEST {
            return bad("max_ttl", "must be between min_ttl and a year");
        }
        Ok(())
    }
}

const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
