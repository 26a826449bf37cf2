//! What can be set. Plain values; where they come from is the engine's affair.

use std::time::Duration;

use te_metadata::{ListenAddress, MAX_NIC_ADDRESSES, NicAddress, PortChoice, PortRange};
use te_segment::RailPauses;

/// Settings of the TCP transport. [`TcpConfig::default`] is right for most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpConfig {
    /// Where peers are served.
    pub listen: ListenAddress,
    /// The port peers connect to; any free one of 15000 to 17000 by default, as Mooncake's.
    pub port: PortChoice,
    /// The host that is published for data connections; `None` is the first of `local_addresses`,
    /// and without any lets peers take the host of the segment's peer address.
    pub data_host: Option<String>,
    /// Addresses of this host's NICs, at most 8; none by default. Connections are bound to each of
    /// them, and peers of our kind are told all of them; bytes are dealt out by their weights. What
    /// `listen` says must take connections at all of them.
    pub local_addresses: Vec<NicAddress>,
    /// Connections to one peer in versions 1 and 2, 1 to 16; 4. Each carries one request at a time.
    pub lanes_per_peer: usize,
    /// Connections of version 3 over each rail to a peer, 1 to 16; 2. The second one is opened once
    /// the first has its share of `max_queued_bytes_per_peer`.
    pub lanes_per_rail: usize,
    /// Slices that wait for a connection to one peer, 1 to 65535; 1024. More stay with the caller.
    pub max_queued_per_peer: usize,
    /// Bytes of such slices, at least 4096; 16 MiB. One slice may be larger. In version 3 slices
    /// count until they are done, so this is what may be under way to one peer.
    pub max_queued_bytes_per_peer: u64,
    /// Bytes moved by one socket call at most, at least 4096; 1 MiB. It is not seen on the wire.
    pub io_chunk: usize,
    /// Send and receive buffer of each socket in bytes; `None`, the default, leaves their size to
    /// the kernel, which adapts it.
    pub socket_buffer: Option<usize>,
    /// The highest protocol version to speak, 1 to 3; 3. Version 3 is spoken with peers that offer
    /// it, and offered to peers; versions 1 and 2 are always served. With 1, writes cost one more
    /// round trip.
    pub max_version: u8,
    /// Requests in flight on a connection of version 3, 1 to 65535; 256. As initiator this side asks
    /// for so many, and as target it allows so many.
    pub max_in_flight: u32,
    /// How long whoever waits for the network looks for events before it sleeps, 0 to 10 ms; 50 µs.
    /// Longer costs processor time, shorter costs a wake-up, which is some ten µs. 0 is the mode for
    /// low processor use.
    pub spin: Duration,
    /// How long work whose connection of version 3 was lost waits for a new one to settle what the
    /// peer did with it; 1 s.
    pub fence_timeout: Duration,
    /// How long a peer may take to confirm that it ended a request; 0.5 s. Counts again whenever
    /// bytes move on the connection, and is over at last after `progress_timeout`. Then the
    /// connection is given up.
    pub cancel_timeout: Duration,
    /// A request is not cut into pieces smaller than this, bytes.
    pub min_piece: u64,
    /// No piece is larger than this, bytes. In version 3 none is larger than `min_piece`.
    pub max_piece: u64,
    /// How long all attempts to reach a peer may take, name look-up included; 5 s.
    pub connect_timeout: Duration,
    /// How long a peer may take to answer once it has the whole request; 30 s. Counts again
    /// whenever the peer's kernel takes more bytes.
    pub status_timeout: Duration,
    /// How long a transfer may stand still; 30 s. Any progress counts, however slow.
    pub progress_timeout: Duration,
    /// How long the host of a peer may be silent, while requests stand still and another rail is
    /// open, at least 1.5 s; 1.5 s. Then the rail pauses, and its requests go over the others.
    pub rail_timeout: Duration,
    /// The first pause of a rail; doubled for each in a row; 0.5 s.
    pub first_rail_pause: Duration,
    /// The longest pause of a rail; 30 s.
    pub max_rail_pause: Duration,
    /// After a failed attempt to connect, one connection waits this long before the next attempt;
    /// doubled for each failure in a row; 5 ms.
    pub first_pause: Duration,
    /// The longest such wait; 50 ms.
    pub max_pause: Duration,
    /// How long a peer may take to send the 24 bytes of a header, from its first byte on; 10 s.
    pub header_timeout: Duration,
    /// Connections of peers, all together, at least 1; 4096. For one more the oldest one is closed
    /// that never served its peer or takes bytes nobody wants, else the longest idle one; where all
    /// work, the new one is.
    pub max_inbound: usize,
    /// Connections of peers from one address, at least 1; 1024. Kept in the same way.
    pub max_inbound_per_address: usize,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            listen: ListenAddress::Any,
            port: PortChoice::Range(PortRange::default()),
            data_host: None,
            local_addresses: Vec::new(),
            lanes_per_peer: 4,
            lanes_per_rail: 2,
            max_queued_per_peer: 1024,
            max_queued_bytes_per_peer: 16 << 20,
            io_chunk: 1 << 20,
            socket_buffer: None,
            max_version: 3,
            max_in_flight: 256,
            spin: Duration::from_micros(50),
            fence_timeout: Duration::from_secs(1),
            cancel_timeout: Duration::from_millis(500),
            min_piece: 1 << 20,
            max_piece: 64 << 20,
            connect_timeout: Duration::from_secs(5),
            status_timeout: Duration::from_secs(30),
            progress_timeout: Duration::from_secs(30),
            rail_timeout: Duration::from_millis(1500),
            first_rail_pause: Duration::from_millis(500),
            max_rail_pause: Duration::from_secs(30),
            first_pause: Duration::from_millis(5),
            max_pause: Duration::from_millis(50),
            header_timeout: Duration::from_secs(10),
            max_inbound: 4096,
            max_inbound_per_address: 1024,
        }
    }
}

impl TcpConfig {
    /// How long rails pause.
    pub(crate) fn rail_pauses(&self) -> RailPauses {
        RailPauses { first: self.first_rail_pause, longest: self.max_rail_pause }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`TcpConfigError`] names the first setting that is out of its range.
    pub fn validate(&self) -> Result<(), TcpConfigError> {
        const DAY: u64 = 24 * 60 * 60 * 1000;
        let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        let max_pause = millis(self.max_pause);
        let max_rail_pause = millis(self.max_rail_pause);
        let socket_buffer = self.socket_buffer.unwrap_or(4096) as u64;
        let settings = [
            ("local_addresses", self.local_addresses.len() as u64, 0, MAX_NIC_ADDRESSES as u64),
            ("lanes_per_peer", self.lanes_per_peer as u64, 1, 16),
            ("lanes_per_rail", self.lanes_per_rail as u64, 1, 16),
            ("max_queued_per_peer", self.max_queued_per_peer as u64, 1, 65_535),
            ("max_queued_bytes_per_peer", self.max_queued_bytes_per_peer, 4096, 1 << 40),
            ("io_chunk", self.io_chunk as u64, 4096, 1 << 30),
            ("socket_buffer", socket_buffer, 4096, 1 << 30),
            ("max_version", u64::from(self.max_version), 1, 3),
            ("max_in_flight", u64::from(self.max_in_flight), 1, 65_535),
            ("spin_us", u64::try_from(self.spin.as_micros()).unwrap_or(u64::MAX), 0, 10_000),
            ("fence_timeout", millis(self.fence_timeout), 1, DAY),
            ("cancel_timeout", millis(self.cancel_timeout), 1, DAY),
            ("min_piece", self.min_piece, 1, 1 << 40),
            ("max_piece", self.max_piece, self.min_piece, 1 << 40),
            ("connect_timeout", millis(self.connect_timeout), 1, DAY),
            ("status_timeout", millis(self.status_timeout), 1, DAY),
            ("progress_timeout", millis(self.progress_timeout), 1, DAY),
            ("rail_timeout", millis(self.rail_timeout), 1500, DAY),
            ("max_rail_pause", max_rail_pause, 1, DAY),
            ("first_rail_pause", millis(self.first_rail_pause), 1, max_rail_pause),
            ("max_pause", max_pause, 1, DAY),
            ("first_pause", millis(self.first_pause), 1, max_pause),
            ("header_timeout", millis(self.header_timeout), 1, DAY),
            ("max_inbound", self.max_inbound as u64, 1, 1 << 20),
            ("max_inbound_per_address", self.max_inbound_per_address as u64, 1, 1 << 20),
        ];
        let wrong = settings.into_iter().find(|(_, value, min, max)| value < min || value > max);
        match wrong {
            Some((setting, value, min, max)) => Err(TcpConfigError { setting, value, min, max }),
            None => Ok(()),
        }
    }
}

/// A setting is out of its range. Durations are in milliseconds, sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting} is {value}, allowed are {min} to {max}")]
pub struct TcpConfigError {
    setting: &'static str,
    value: u64,
    min: u64,
    max: u64,
}

impl TcpConfigError {
    /// The name of the setting, as the field of [`TcpConfig`].
    pub fn setting(&self) -> &'static str {
        self.setting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut TcpConfig), wrong: Option<&str>) {
        let mut config = TcpConfig::default();
        change(&mut config);
        let answer = config.validate();
        assert_eq!(answer.as_ref().err().map(TcpConfigError::setting), wrong, "{answer:?}");
    }

    #[test]
    fn the_defaults_are_valid() {
        check(|_| {}, None);
    }

    /// H81, H82, H87 and the limits that Mooncake does not have.
    #[test]
    fn a_value_out_of_range_is_named() {
        check(|c| c.lanes_per_peer = 16, None);
        check(|c| c.lanes_per_peer = 0, Some("lanes_per_peer"));
        check(|c| c.lanes_per_peer = 17, Some("lanes_per_peer"));
        check(|c| c.lanes_per_rail = 0, Some("lanes_per_rail"));
        let nine = |n| NicAddress::new(std::net::IpAddr::from([10, 0, 0, n])).unwrap();
        check(|c| c.local_addresses = (1..10).map(nine).collect(), Some("local_addresses"));
        check(|c| c.rail_timeout = Duration::from_secs(1), Some("rail_timeout"));
        check(|c| c.first_rail_pause = Duration::from_secs(31), Some("first_rail_pause"));
        check(|c| c.max_queued_per_peer = 65_536, Some("max_queued_per_peer"));
        check(|c| c.max_queued_bytes_per_peer = 4095, Some("max_queued_bytes_per_peer"));
        check(|c| c.max_version = 4, Some("max_version"));
        check(|c| c.max_version = 0, Some("max_version"));
        check(|c| c.max_in_flight = 0, Some("max_in_flight"));
        check(|c| c.fence_timeout = Duration::ZERO, Some("fence_timeout"));
        check(|c| c.cancel_timeout = Duration::ZERO, Some("cancel_timeout"));
        check(|c| c.max_piece = c.min_piece - 1, Some("max_piece"));
        check(|c| c.progress_timeout = Duration::ZERO, Some("progress_timeout"));
        check(|c| c.first_pause = Duration::from_millis(51), Some("first_pause"));
        check(|c| c.max_inbound_per_address = 0, Some("max_inbound_per_address"));
    }

    #[test]
    fn the_message_tells_value_and_range() {
        let config = TcpConfig { lanes_per_peer: 99, ..TcpConfig::default() };
        let text = config.validate().unwrap_err().to_string();
        assert_eq!(text, "lanes_per_peer is 99, allowed are 1 to 16");
    }
}
