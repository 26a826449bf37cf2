//! Interfaces with their addresses and default routes: `class/net` and `/proc/net`.
//!
//! The kernel's files have IPv4 addresses without their interfaces, so each goes to the interface
//! with the longest route that covers it, and one that no route covers to the default route's.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{InterfaceFacts, SysTree};
use crate::HostInterface;

/// More lines of a table are not read.
const MAX_ROWS: usize = 100_000;
const ROUTE_UP: u32 = 1;
const ROUTE_REJECT: u32 = 0x200;

impl SysTree {
    /// The network interfaces of this network namespace, with their addresses, sorted by name.
    pub fn host_interfaces(&self) -> Vec<HostInterface> {
        let mut interfaces: Vec<HostInterface> = InterfaceFacts::all(self)
            .into_iter()
            .map(|facts| HostInterface {
                has_hardware: facts.hardware.is_some(),
                addresses: Vec::new(),
                default_route: None,
                name: facts.name,
                index: facts.index,
                kind: facts.kind,
                is_up: facts.is_up,
            })
            .collect();
        let routes = self.ipv4_routes();
        let default_v6 = self.ipv6_default_routes();
        for interface in &mut interfaces {
            let own = routes.iter().filter(|route| route.interface == interface.name);
            let v4 = own.filter(|route| route.mask == 0).map(|route| route.metric);
            let v6 = default_v6.iter().filter(|(name, _)| *name == interface.name).map(|r| r.1);
            interface.default_route = v4.min().or_else(|| v6.min());
        }
        for address in self.ipv4_addresses() {
            give(&mut interfaces, &routes, address);
        }
        for (name, address) in self.ipv6_addresses() {
            let owner = interfaces.iter_mut().find(|interface| interface.name == name);
            owner.into_iter().for_each(|owner| owner.addresses.push(IpAddr::V6(address)));
        }
        interfaces
    }

    fn ipv4_routes(&self) -> Vec<Route> {
        let text = self.text("proc/net/route").unwrap_or_default();
        text.lines().skip(1).take(MAX_ROWS).filter_map(parse_route).collect()
    }

    /// Local addresses, in the order of the table; each stands in it once or twice.
    fn ipv4_addresses(&self) -> Vec<Ipv4Addr> {
        let text = self.text("proc/net/fib_trie").unwrap_or_default();
        let mut found: Vec<Ipv4Addr> = Vec::new();
        let mut last = None;
        for line in text.lines().take(MAX_ROWS) {
            let line = line.trim();
            if let Some(address) = line.strip_prefix("|-- ") {
                last = address.parse().ok();
            } else if line == "/32 host LOCAL" {
                found.extend(last.filter(|address| !found.contains(address)));
            }
        }
        found
    }

    fn ipv6_addresses(&self) -> Vec<(String, Ipv6Addr)> {
        let text = self.text("proc/net/if_inet6").unwrap_or_default();
        let address = |line: &str| {
            let mut words = line.split_whitespace();
            let address = hex_v6(words.next()?)?;
            Some((words.nth(4)?.to_owned(), address))
        };
        text.lines().take(MAX_ROWS).filter_map(address).collect()
    }

    fn ipv6_default_routes(&self) -> Vec<(String, u32)> {
        let text = self.text("proc/net/ipv6_route").unwrap_or_default();
        let route = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [to, "00", _, _, _, metric, _, _, flags, name] = words.as_slice() else {
                return None;
            };
            let flags = u32::from_str_radix(flags, 16).ok()?;
            let usable = flags & ROUTE_UP != 0 && flags & ROUTE_REJECT == 0;
            let is_default = hex_v6(to)?.is_unspecified() && usable && *name != "lo";
            let metric = u32::from_str_radix(metric, 16).ok()?;
            is_default.then(|| ((*name).to_owned(), metric))
        };
        text.lines().take(MAX_ROWS).filter_map(route).collect()
    }
}

/// A row of the IPv4 routing table.
struct Route {
    interface: String,
    to: u32,
    mask: u32,
    metric: u32,
}

/// Reads `eth0 0002090A 00000000 0001 0 0 100 00FFFFFF …`: numbers as they lie in memory.
fn parse_route(line: &str) -> Option<Route> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [interface, to, _, flags, _, _, metric, mask, ..] = words.as_slice() else { return None };
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let flags = number(flags)?;
    if flags & ROUTE_UP == 0 || flags & ROUTE_REJECT != 0 {
        return None;
    }
    Some(Route {
        interface: (*interface).to_owned(),
        to: u32::from_be_bytes(number(to)?.to_le_bytes()),
        mask: u32::from_be_bytes(number(mask)?.to_le_bytes()),
        metric: metric.parse().ok()?,
    })
}

fn give(interfaces: &mut [HostInterface], routes: &[Route], address: Ipv4Addr) {
    let bits = address.to_bits();
    let covers = |route: &&Route| route.mask != 0 && bits & route.mask == route.to & route.mask;
    let longest = routes.iter().filter(covers).max_by_key(|route| route.mask);
    let defaults = routes.iter().filter(|route| route.mask == 0);
    let name = match longest.or_else(|| defaults.min_by_key(|route| route.metric)) {
        _ if address.is_loopback() => "lo",
        Some(route) => route.interface.as_str(),
        None => match only_outside(interfaces) {
            Some(name) => &name.clone(),
            None => return,
        },
    };
    let owner = interfaces.iter_mut().find(|interface| interface.name == name);
    owner.into_iter().for_each(|owner| owner.addresses.push(IpAddr::V4(address)));
}

/// The only interface that leads anywhere, on a host without any route.
fn only_outside(interfaces: &[HostInterface]) -> Option<String> {
    let mut outside = interfaces.iter().filter(|i| i.kind.leads_outside() && i.is_up);
    let first = outside.next()?;
    outside.next().is_none().then(|| first.name.clone())
}

fn hex_v6(text: &str) -> Option<Ipv6Addr> {
    let fine = text.len() == 32;
    u128::from_str_radix(text, 16).ok().filter(|_| fine).map(Ipv6Addr::from_bits)
}
