//! Machines in tests: bytes in, bytes out, no socket.

use std::time::Instant;

use crate::pump::{Incoming, Machine};

/// Gives a machine bytes, as many as it wants of them; gives how many it took.
pub(crate) fn feed(machine: &mut impl Machine, now: Instant, bytes: &[u8]) -> usize {
    let mut taken = 0;
    while taken < bytes.len() && !machine.is_over() {
        let rest = &bytes[taken..];
        let (n, frame) = match machine.incoming() {
            None => break,
            Some(Incoming::Frame(n)) => (n.min(rest.len()), true),
            Some(Incoming::Payload { part, .. }) => (part.store(rest), false),
            Some(Incoming::Discard(n)) => (n.min(rest.len()), false),
        };
        if frame {
            machine.on_frame(now, &rest[..n]);
        } else {
            machine.on_received(now, n);
        }
        taken += n;
    }
    taken
}

/// Takes at most `limit` bytes that a machine sends in one call.
pub(crate) fn take_once(machine: &mut impl Machine, now: Instant, limit: usize) -> Vec<u8> {
    let Some(out) = machine.outgoing() else { return Vec::new() };
    let mut bytes = out.load();
    bytes.truncate(limit);
    if !bytes.is_empty() {
        machine.on_sent(now, bytes.len());
    }
    bytes
}

/// Takes all that a machine sends.
pub(crate) fn take(machine: &mut impl Machine, now: Instant) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let some = take_once(machine, now, usize::MAX);
        if some.is_empty() {
            return all;
        }
        all.extend(some);
    }
}
