//! A tool that reads the addresses of peers.

use te_metadata::{HostPort, ParseAddressError};

/// The port of a peer, or the usual one.
pub fn port(address: &str) -> Result<u16, ParseAddressError> {
    Ok(HostPort::parse(address)?.port_or(12001))
}

#[test]
fn addresses_of_both_families_are_read() {
    assert_eq!(port("10.0.0.1:17000").unwrap(), 17000);
    assert_eq!(port("[fd00::1]").unwrap(), 12001);
    assert!(port("10.0.0.1:70000").is_err());
}

#[cfg(feature = "testing")]
#[test]
fn a_store_of_ones_own_can_be_checked() {
    te_metadata::check_store(&te_metadata::MemoryStore::new());
}
