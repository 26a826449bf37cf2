//! Under which address this host tells peers to reach it: a pure choice on facts of the system.
//!
//! I1  What the user names is taken, unchanged; a bound address is not replaced by another.
//! I2  Without a wish, an address that other hosts reach as a rule comes before every other one:
//!     on hardware, a bond or a VLAN, and first on the interface of the default route. Loopback,
//!     container bridges, overlays and virtual pairs are taken only if there is nothing else.
//! I3  A link-local address of IPv6 is told only if the user names it: it needs a link behind it.
//! I4  The address that is bound and the one that is told are two values.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Serialize;
use thiserror::Error;

use crate::InterfaceKind;

/// What the system says of a network interface and its addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HostInterface {
    /// Its name.
    pub name: String,
    /// The kernel's number of it.
    pub index: u32,
    /// What it is.
    pub kind: InterfaceKind,
    /// Whether hardware is below it, as below a bridge that a network card is a port of.
    pub has_hardware: bool,
    /// Whether packets can pass.
    pub is_up: bool,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The metric of its best default route, the smaller the better; `None` without one.
    pub default_route: Option<u32>,
}

impl HostInterface {
    /// An interface that is up, for callers that have their facts from elsewhere.
    pub fn new(name: &str, index: u32, kind: InterfaceKind, addresses: Vec<IpAddr>) -> Self {
        Self {
            name: name.to_owned(),
            index,
            kind,
            has_hardware: kind == InterfaceKind::Hardware,
            is_up: true,
            addresses,
            default_route: None,
        }
    }

    /// The same with a default route.
    #[must_use]
    pub fn with_default_route(mut self, metric: u32) -> Self {
        self.default_route = Some(metric);
        self
    }

    fn leads_outside(&self) -> bool {
        self.kind.leads_outside() || self.kind == InterfaceKind::Bridge && self.has_hardware
    }
}

/// What the user says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressWish {
    /// The address to tell peers; it need not be one of this host, as behind a NAT.
    pub advertise: Option<IpAddr>,
    /// The interface whose address to tell.
    pub interface: Option<String>,
    /// The address to listen on. `None` or an unspecified one (`0.0.0.0`, `::`): all.
    pub bind: Option<IpAddr>,
}

/// What to listen on and what to tell peers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AddressChoice {
    /// The address to listen on; unspecified for all.
    pub bind: IpAddr,
    /// The address that peers are told.
    pub advertise: IpAddr,
    /// The interface that has it, if one of this host has it.
    pub interface: Option<String>,
    /// Why it was taken.
    pub reason: AddressReason,
}

/// Why an address is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AddressReason {
    /// The user named it.
    Asked,
    /// The user named its interface.
    AskedInterface,
    /// The user named it to listen on.
    Bound,
    /// It is on the interface of the default route.
    DefaultRoute,
    /// It is on an interface that leads to other hosts.
    LeadsOutside,
    /// There is only an overlay, bridge or virtual pair.
    NothingBetter,
    /// There is only loopback: peers on this host alone can reach it.
    OnlyLoopback,
}

impl AddressReason {
    /// The reason, in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Asked => "it was named",
            Self::AskedInterface => "its interface was named",
            Self::Bound => "it was named to listen on",
            Self::DefaultRoute => "its interface has the default route",
            Self::LeadsOutside => "its interface leads to other hosts",
            Self::NothingBetter => "no interface that leads to other hosts has an address",
            Self::OnlyLoopback => "loopback is all there is; other hosts cannot reach it",
        }
    }
}

/// Why no address is told.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The interface that was named is not there. Its neighbours' names help to see a typo.
    #[error("there is no interface \"{name}\"; there are {}", present.join(", "))]
    NoInterface {
        /// What was named.
        name: String,
        /// What there is.
        present: Vec<String>,
    },
    /// The interface that was named has no address that can be told.
    #[error("interface \"{name}\" has no address")]
    NoAddress {
        /// What was named.
        name: String,
    },
    /// Not even loopback has an address.
    #[error("no interface has an address")]
    Nothing,
}

/// Chooses what to listen on and what to tell peers.
///
/// # Errors
/// An interface that was named and is missing or has no address; a host without any address.
pub fn choose_address(
    interfaces: &[HostInterface],
    wish: &AddressWish,
) -> Result<AddressChoice, AddressError> {
    let (advertise, interface, reason) = advertised(interfaces, wish)?;
    let all = match advertise {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    Ok(AddressChoice { bind: wish.bind.unwrap_or(all), advertise, interface, reason })
}

type Advertised = (IpAddr, Option<String>, AddressReason);

fn advertised(
    interfaces: &[HostInterface],
    wish: &AddressWish,
) -> Result<Advertised, AddressError> {
    let owner = |address: IpAddr| {
        let has = |interface: &&HostInterface| interface.addresses.contains(&address);
        interfaces.iter().find(has).map(|interface| interface.name.clone())
    };
    if let Some(address) = wish.advertise {
        return Ok((address, owner(address), AddressReason::Asked));
    }
    if let Some(name) = &wish.interface {
        return of_interface(interfaces, name);
    }
    if let Some(address) = wish.bind.filter(|address| !address.is_unspecified()) {
        return Ok((address, owner(address), AddressReason::Bound));
    }
    let all = interfaces.iter().flat_map(|i| told_of(i).map(move |address| (i, address)));
    let (interface, address) = all.min_by_key(|(i, a)| rank(i, *a)).ok_or(AddressError::Nothing)?;
    let reason = reason(interface, address);
    Ok((address, Some(interface.name.clone()), reason))
}

fn of_interface(interfaces: &[HostInterface], name: &str) -> Result<Advertised, AddressError> {
    let named = interfaces.iter().find(|interface| interface.name == name);
    let interface = named.ok_or_else(|| AddressError::NoInterface {
        name: name.to_owned(),
        present: interfaces.iter().map(|interface| interface.name.clone()).collect(),
    })?;
    let best = told_of(interface).min_by_key(|address| rank(interface, *address));
    let address = best.ok_or_else(|| AddressError::NoAddress { name: name.to_owned() })?;
    Ok((address, Some(name.to_owned()), AddressReason::AskedInterface))
}

/// The addresses of an interface that mean something elsewhere. Link-local ones of IPv6 need the
/// name of a link behind them, which is another one on each host.
fn told_of(interface: &HostInterface) -> impl Iterator<Item = IpAddr> + '_ {
    let needs_a_link =
        |address: &IpAddr| matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    interface.addresses.iter().copied().filter(move |address| !needs_a_link(address))
}

fn reason(interface: &HostInterface, address: IpAddr) -> AddressReason {
    if address.is_loopback() || interface.kind == InterfaceKind::Loopback {
        AddressReason::OnlyLoopback
    } else if !interface.leads_outside() || is_link_local(address) {
        AddressReason::NothingBetter
    } else if interface.default_route.is_some() {
        AddressReason::DefaultRoute
    } else {
        AddressReason::LeadsOutside
    }
}

/// Smaller is better: reason, link, metric of the route, kind, family, number of the interface.
fn rank(
    interface: &HostInterface,
    address: IpAddr,
) -> (bool, AddressReason, u32, InterfaceKind, bool, u32) {
    (
        !interface.is_up,
        reason(interface, address),
        interface.default_route.unwrap_or(u32::MAX),
        interface.kind,
        address.is_ipv6(),
        interface.index,
    )
}

/// An address of one link, which other hosts can use on that link alone.
fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(v4) if v4.is_link_local())
}

#[cfg(test)]
mod tests;
