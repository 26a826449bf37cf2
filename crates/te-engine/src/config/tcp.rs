//! From the settings to what the TCP transport takes.

use std::time::Duration;

use te_transport_tcp::TcpConfig;

use super::settings::TcpSettings;

/// The transport's own lower bound of one socket call.
const MIN_IO_CHUNK: u64 = 4096;

impl TcpSettings {
    /// The transport's configuration. Where it listens is not a setting of this section and keeps
    /// the transport's default.
    pub(crate) fn to_tcp(&self) -> TcpConfig {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        TcpConfig {
            local_addresses: self.local_addresses.clone(),
            lanes_per_peer: self.lanes_per_peer as usize,
            lanes_per_rail: self.lanes_per_rail as usize,
            rail_timeout: self.rail_timeout,
            max_queued_per_peer: self.max_queued_per_peer as usize,
            max_queued_bytes_per_peer: self.max_queued_bytes_per_peer,
            io_chunk: size(self.slice_size_bytes.max(MIN_IO_CHUNK)),
            socket_buffer: Some(size(self.socket_buffer_bytes)).filter(|bytes| *bytes > 0),
            max_version: u8::try_from(self.protocol_version).unwrap_or(3),
            max_in_flight: self.max_in_flight,
            spin: Duration::from_micros(u64::from(self.spin_us)),
            fence_timeout: self.fence_timeout,
            cancel_timeout: self.cancel_timeout,
            min_piece: self.min_piece_bytes,
            max_piece: self.max_piece_bytes,
            connect_timeout: self.connect_timeout,
            status_timeout: self.status_timeout,
            progress_timeout: self.progress_timeout,
            header_timeout: self.header_timeout,
            max_inbound: self.max_connections as usize,
            max_inbound_per_address: self.max_connections_per_host as usize,
            ..TcpConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::kind::Kind;
    use super::super::tests::load;
    use super::super::variables::variables;
    use super::*;

    #[test]
    fn our_defaults_are_the_transports() {
        assert_eq!(TcpSettings::default().to_tcp(), TcpConfig::default());
    }

    #[test]
    fn every_value_that_a_variable_may_have_is_valid_for_the_transport() {
        for row in variables().filter(|row| row.path().0 == "tcp") {
            let Kind::Integer(integer) = row.kind else { continue };
            for number in [integer.min, integer.max] {
                let config = load(&[(&row.own_name(), &number.to_string())]);
                assert_eq!(config.tcp.to_tcp().validate(), Ok(()), "{}={number}", row.own_name());
            }
        }
        assert_eq!(load(&[("MC_TCP_PROTO", "1")]).tcp.to_tcp().max_version, 1);
    }
}
