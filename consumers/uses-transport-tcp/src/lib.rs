//! An engine of one's own that tunes the TCP transport.

use te_transport_tcp::{TcpConfig, TcpConfigError, TcpTransport};

/// A transport with this many connections per peer.
pub fn transport(lanes: usize) -> Result<TcpTransport, TcpConfigError> {
    let config = TcpConfig { lanes_per_peer: lanes, ..TcpConfig::default() };
    config.validate()?;
    Ok(TcpTransport::new(config))
}

#[test]
fn a_wrong_setting_is_named() {
    assert!(transport(2).is_ok());
    assert_eq!(transport(0).unwrap_err().setting(), "lanes_per_peer");
}
