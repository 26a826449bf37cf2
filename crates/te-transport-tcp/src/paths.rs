//! The ways to one peer: which local address with which of the peer's.
//!
//! Addresses of one family are paired by their place in the two lists, as the NICs of hosts of one
//! kind are wired; the shorter list begins anew. Every other pair is a reserve, and so is the
//! address of the data port itself where it is in no list.

use std::net::IpAddr;

use te_metadata::NicAddress;
use te_segment::RemoteSegment;

use crate::transport::NAME;

/// The key under which the descriptor has the addresses of this host.
pub(crate) const ADDRESSES: &str = "addresses";

/// Weights of addresses are made parts of so many.
const WHOLE: u64 = 10_000;

/// One way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Path {
    /// What the connection is bound to; `None` leaves that to the kernel.
    pub(crate) local: Option<IpAddr>,
    /// The address of the peer; `None` is where its data port is said to be.
    pub(crate) peer: Option<IpAddr>,
    /// Its share; 0 for a reserve.
    pub(crate) weight: u32,
}

impl Path {
    /// The only way where nobody has named an address.
    pub(crate) const PLAIN: Self = Self { local: None, peer: None, weight: 1 };
}

/// The addresses that a peer has published.
pub(crate) fn addresses(peer: &RemoteSegment) -> Vec<NicAddress> {
    let published = peer.descriptor().te.as_ref().and_then(|te| te.transports.get(NAME));
    published.and_then(|tcp| tcp.get(ADDRESSES)).map(NicAddress::read_list).unwrap_or_default()
}

/// All ways between these ends; at least one of them is no reserve. `data` is the address of the
/// peer's data port, where it is no name.
pub(crate) fn paths(local: &[NicAddress], peer: &[NicAddress], data: Option<IpAddr>) -> Vec<Path> {
    let mut found = Vec::new();
    for v6 in [false, true] {
        let of = |list: &[NicAddress]| -> Vec<NicAddress> {
            list.iter().copied().filter(|address| address.ip().is_ipv6() == v6).collect()
        };
        let (from, to) = (of(local), of(peer));
        let alone = peer.is_empty() && data.is_none_or(|data| data.is_ipv6() == v6);
        match (from.is_empty(), to.is_empty()) {
            (false, false) => pair(&from, &to, &mut found),
            (true, false) if local.is_empty() => found.extend(to.iter().map(|to| Path {
                local: None,
                peer: Some(to.ip()),
                weight: to.weight(),
            })),
            (false, true) if alone => found.extend(from.iter().map(|from| Path {
                local: Some(from.ip()),
                peer: None,
                weight: from.weight(),
            })),
            _ => {}
        }
    }
    if found.is_empty() {
        return vec![Path::PLAIN];
    }
    let known = |data: IpAddr| peer.iter().any(|address| address.ip() == data);
    if !peer.is_empty() && !data.is_some_and(known) {
        found.push(Path { weight: 0, ..Path::PLAIN });
    }
    found
}

fn pair(from: &[NicAddress], to: &[NicAddress], found: &mut Vec<Path>) {
    let n = from.len().max(to.len());
    let paired = |f: usize, t: usize| (0..n).any(|at| at % from.len() == f && at % to.len() == t);
    for (f, local) in from.iter().enumerate() {
        for (t, peer) in to.iter().enumerate() {
            let weight = if paired(f, t) { weight(from, f, to, t) } else { 0 };
            found.push(Path { local: Some(local.ip()), peer: Some(peer.ip()), weight });
        }
    }
}

/// What the narrower end lets through. Where one end has a single address its weight says nothing.
fn weight(from: &[NicAddress], f: usize, to: &[NicAddress], t: usize) -> u32 {
    let part = |list: &[NicAddress], at: usize| {
        let all: u64 = list.iter().map(|address| u64::from(address.weight())).sum();
        (u64::from(list[at].weight()) * WHOLE / all.max(1)).max(1)
    };
    let part = match (from.len(), to.len()) {
        (1, _) => part(to, t),
        (_, 1) => part(from, f),
        _ => part(from, f).min(part(to, t)),
    };
    u32::try_from(part).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(local: &str, peer: &str, data: &str, expected: &[&str]) {
        let list = |text: &str| -> Vec<NicAddress> {
            text.split_whitespace().map(|one| one.parse().unwrap()).collect()
        };
        let name = |ip: Option<IpAddr>| ip.map_or_else(|| "-".to_owned(), |ip| ip.to_string());
        let found: Vec<_> = paths(&list(local), &list(peer), data.parse().ok())
            .into_iter()
            .map(|path| format!("{} {} {}", name(path.local), name(path.peer), path.weight))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn without_addresses_there_is_one_way() {
        check("", "", "10.0.0.1", &["- - 1"]);
        check("", "", "", &["- - 1"]);
        check("fd00::1", "", "10.0.0.1", &["- - 1"]);
        check("10.0.0.1", "fd00::1", "fd00::1", &["- - 1"]);
    }

    #[test]
    fn addresses_of_one_end_are_all_used() {
        check("10.0.0.1 10.1.0.1*3", "", "10.0.0.9", &["10.0.0.1 - 1", "10.1.0.1 - 3"]);
        check("", "10.0.0.9 10.1.0.9*2", "10.0.0.9", &["- 10.0.0.9 1", "- 10.1.0.9 2"]);
        check("", "10.0.0.9", "10.7.0.9", &["- 10.0.0.9 1", "- - 0"]);
    }

    #[test]
    fn addresses_are_paired_by_place_and_the_other_pairs_are_reserves() {
        check(
            "1.0.0.1 2.0.0.1*3",
            "1.0.0.2*3 2.0.0.2",
            "1.0.0.2",
            &[
                "1.0.0.1 1.0.0.2 2500",
                "1.0.0.1 2.0.0.2 0",
                "2.0.0.1 1.0.0.2 0",
                "2.0.0.1 2.0.0.2 2500",
            ],
        );
        check(
            "1.0.0.1",
            "1.0.0.2*3 2.0.0.2",
            "1.0.0.2",
            &["1.0.0.1 1.0.0.2 7500", "1.0.0.1 2.0.0.2 2500"],
        );
    }

    #[test]
    fn families_are_not_mixed() {
        check("1.0.0.1 fd00::1", "fd00::2", "fd00::2", &["fd00::1 fd00::2 10000"]);
        check("1.0.0.1", "1.0.0.2", "host", &["1.0.0.1 1.0.0.2 10000", "- - 0"]);
    }

    #[test]
    fn the_longest_lists_give_a_bounded_number() {
        let many = |net: u8| -> Vec<NicAddress> {
            (1..=8).map(|n| NicAddress::new(IpAddr::from([net, 0, 0, n])).unwrap()).collect()
        };
        let found = paths(&many(1), &many(2), None);
        assert_eq!(found.len(), 65);
        assert_eq!(found.iter().filter(|path| path.weight > 0).count(), 8);
    }
}
