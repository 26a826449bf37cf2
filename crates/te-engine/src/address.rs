//! The address that peers are told where names are keys of a metadata service.
//!
//! I1  What somebody says is taken: the setting before an address that the local name is.
//! I2  A name that is no address is a key and nothing else: peers are not sent to look it up.
//! I3  What is told does not restrict listening.

use std::net::IpAddr;
use std::path::Path;

use te_metadata::HostPort;
use te_topology::{
    AddressChoice, AddressError, AddressReason, AddressWish, HostInterface, SysTree, choose_address,
};

use crate::config::PeerSettings;

/// Chooses the address for an engine of this local name, and logs a choice that nobody made.
pub(crate) fn advertised(name: &str, settings: &PeerSettings) -> Result<IpAddr, AddressError> {
    if let Some(address) = settings.advertise_address.or_else(|| address_of(name)) {
        return Ok(address);
    }
    let interfaces = SysTree::on_disk(Path::new("/")).host_interfaces();
    let choice = choose(interfaces, settings.ipv6)?;
    let (address, reason) = (choice.advertise, choice.reason.text());
    let interface = choice.interface.unwrap_or_default();
    if choice.reason == AddressReason::OnlyLoopback {
        tracing::warn!(%address, interface, reason, "the address that peers are told");
    } else {
        tracing::info!(%address, interface, reason, "the address that peers are told");
    }
    Ok(choice.advertise)
}

/// The address that a local name is, with or without a port.
fn address_of(name: &str) -> Option<IpAddr> {
    let host = HostPort::parse(name).ok()?;
    host.host().parse().ok().filter(|address: &IpAddr| !address.is_unspecified())
}

fn choose(
    mut interfaces: Vec<HostInterface>,
    ipv6_only: bool,
) -> Result<AddressChoice, AddressError> {
    if ipv6_only {
        interfaces.iter_mut().for_each(|one| one.addresses.retain(IpAddr::is_ipv6));
    }
    choose_address(&interfaces, &AddressWish::default())
}

#[cfg(test)]
mod tests {
    use te_topology::InterfaceKind;

    use super::*;

    fn told(name: &str, setting: Option<&str>) -> Option<String> {
        let settings = PeerSettings {
            advertise_address: setting.map(|text| text.parse().unwrap()),
            ..PeerSettings::default()
        };
        let taken = settings.advertise_address.or_else(|| address_of(name))?;
        assert_eq!(advertised(name, &settings).unwrap(), taken);
        Some(taken.to_string())
    }

    #[test]
    fn fb16_what_somebody_says_is_told_and_a_name_is_no_address() {
        // FB16: the setting wins, then an address for a name; everything else is chosen.
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(told("10.9.0.2:12345", None), is("10.9.0.2"));
        assert_eq!(told("[fd00::7]:1", None), is("fd00::7"));
        assert_eq!(told("10.9.0.2", Some("203.0.113.5")), is("203.0.113.5"));
        assert_eq!(told("prefill-0", Some("203.0.113.5")), is("203.0.113.5"));
        for name in ["prefill-0", "node.example:12345", "0.0.0.0", "[::]:5", "", "a b/c"] {
            assert_eq!(told(name, None), None, "{name}");
        }
    }

    #[test]
    fn fb16_ipv6_chooses_among_addresses_of_ipv6() {
        // FB16: docker0 comes first and is not taken.
        let addresses = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
        let host = || {
            vec![
                HostInterface::new("docker0", 2, InterfaceKind::Bridge, addresses(&["172.17.0.1"])),
                HostInterface::new(
                    "eth0",
                    3,
                    InterfaceKind::Hardware,
                    addresses(&["10.9.0.2", "fd00::2"]),
                )
                .with_default_route(100),
            ]
        };
        let chosen = |ipv6| choose(host(), ipv6).unwrap().advertise.to_string();
        assert_eq!([chosen(false), chosen(true)], ["10.9.0.2", "fd00::2"]);
        let only_v4 = vec![host().remove(0)];
        assert_eq!(choose(only_v4, true).unwrap_err(), AddressError::Nothing);
    }
}
