//! A connection of a peer in whichever version it speaks; its first bytes tell.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use te_segment::BufferId;

pub(super) use crate::connection::Use;
use crate::connection::{Connection, Service};
use crate::io::Outgoing;
use crate::pump::{Incoming, Machine, Side};
use crate::v3::{Answer, Hello, Inbound};

#[derive(Debug)]
pub(super) enum Protocol {
    Plain(Connection),
    V3(Box<Inbound>),
}

/// Calls a method of whichever machine it is.
macro_rules! either {
    ($self:ident, $machine:ident => $call:expr) => {
        match $self {
            Self::Plain($machine) => $call,
            Self::V3($machine) => $call,
        }
    };
}

impl Protocol {
    pub(super) fn new(now: Instant, service: Arc<Service>) -> Self {
        Self::Plain(Connection::new(now, service))
    }

    /// Whether an engine of our own kind is at the other end.
    pub(super) fn is_own_kind(&self) -> bool {
        matches!(self, Self::V3(_))
    }

    pub(super) fn use_of_it(&self) -> Use {
        either!(self, machine => machine.use_of_it())
    }

    pub(super) fn holds(&self, buffer: BufferId) -> bool {
        either!(self, machine => machine.holds(buffer))
    }

    pub(super) fn revoke(&mut self, buffer: BufferId) {
        either!(self, machine => machine.revoke(buffer));
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        either!(self, machine => machine.deadline())
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        either!(self, machine => machine.handle_timeout(now));
    }

    pub(super) fn take_half_close(&mut self) -> bool {
        match self {
            Self::Plain(connection) => connection.take_half_close(),
            Self::V3(_) => false,
        }
    }

    pub(super) fn take_hello(&mut self) -> Option<Hello> {
        match self {
            Self::Plain(_) => None,
            Self::V3(inbound) => inbound.take_hello(),
        }
    }

    pub(super) fn answer(&mut self, now: Instant, answer: &Answer) {
        if let Self::V3(inbound) = self {
            inbound.answer(now, answer);
        }
    }

    pub(super) fn is_fenced_by(&self, fence: &Hello) -> bool {
        matches!(self, Self::V3(inbound) if inbound.is_fenced_by(fence))
    }

    /// Says goodbye where the version has a word for it; whether there is something to send.
    pub(super) fn say_goodbye(&mut self, closing: &Answer) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::V3(inbound) => {
                inbound.say_goodbye(closing);
                true
            }
        }
    }
}

impl Machine for Protocol {
    fn outgoing(&mut self) -> Option<Outgoing<'_>> {
        either!(self, machine => machine.outgoing())
    }

    fn incoming(&mut self) -> Option<Incoming<'_>> {
        either!(self, machine => machine.incoming())
    }

    fn on_sent(&mut self, now: Instant, n: usize) {
        either!(self, machine => machine.on_sent(now, n));
    }

    fn on_frame(&mut self, now: Instant, bytes: &[u8]) {
        either!(self, machine => machine.on_frame(now, bytes));
        if let Self::Plain(connection) = self
            && let Some(first) = connection.take_hello()
        {
            let service = Arc::clone(connection.service());
            *self = Self::V3(Box::new(Inbound::new(now, service, &first)));
        }
    }

    fn on_received(&mut self, now: Instant, n: usize) {
        either!(self, machine => machine.on_received(now, n));
    }

    fn on_end(&mut self, now: Instant) {
        either!(self, machine => machine.on_end(now));
    }

    fn on_error(&mut self, now: Instant, side: Side, error: io::Error) {
        either!(self, machine => machine.on_error(now, side, error));
    }

    fn is_over(&self) -> bool {
        either!(self, machine => machine.is_over())
    }
}
