//! Whom a connection is with. The name of a NIC does not say that: another process may take it, also
//! while the old one still runs.

use te_metadata::{HostPort, Incarnation};
use te_segment::RemoteSegment;

/// As far as it is known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Whom {
    /// Where the process answers. Fences of a connection are asked there.
    pub(crate) rpc: Option<HostPort>,
    /// Which process, of our own kind.
    pub(crate) process: Option<Incarnation>,
}

impl Whom {
    /// Whether this is the peer of a snapshot. A process may have several addresses, so that the
    /// address counts where only one says which process it is.
    pub(crate) fn is(&self, peer: &RemoteSegment) -> bool {
        match (self.process, process_of(peer)) {
            (Some(known), Some(told)) => known == told,
            _ => self.rpc.as_ref().is_none_or(|rpc| rpc == peer.rpc()),
        }
    }

    /// Whether both may be the same.
    pub(crate) fn may_be(&self, other: &Self) -> bool {
        match ((self.process, other.process), (&self.rpc, &other.rpc)) {
            ((Some(known), Some(told)), _) => known == told,
            (_, (Some(known), Some(told))) => known == told,
            _ => true,
        }
    }

    /// Takes what was not known from a snapshot that this is the peer of. Whether the address is new.
    pub(crate) fn learn(&mut self, peer: &RemoteSegment) -> bool {
        self.process = self.process.or_else(|| process_of(peer));
        let is_new = self.rpc.is_none();
        self.rpc.get_or_insert_with(|| peer.rpc().clone());
        is_new
    }

    /// The same from another one.
    pub(crate) fn fill_from(&mut self, other: Self) {
        self.process = self.process.or(other.process);
        self.rpc = self.rpc.take().or(other.rpc);
    }
}

fn process_of(peer: &RemoteSegment) -> Option<Incarnation> {
    peer.descriptor().te.as_ref().map(|te| te.incarnation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_by_its_number_or_else_by_its_address() {
        let whom = |port: u16, process: u128| Whom {
            rpc: (port > 0).then(|| HostPort::new("b", Some(port)).unwrap()),
            process: (process > 0).then(|| Incarnation::from_u128(process)),
        };
        for (one, other, wanted) in [
            ((1, 1), (2, 1), true),
            ((1, 1), (1, 2), false),
            ((1, 1), (1, 0), true),
            ((1, 0), (2, 1), false),
            ((1, 0), (2, 0), false),
            ((0, 0), (2, 1), true),
            ((0, 1), (2, 0), true),
            ((0, 1), (2, 2), false),
        ] {
            let (one, other) = (whom(one.0, one.1), whom(other.0, other.1));
            assert_eq!(one.may_be(&other), wanted, "{one:?} {other:?}");
            assert_eq!(other.may_be(&one), wanted, "{other:?} {one:?}");
        }
    }
}
