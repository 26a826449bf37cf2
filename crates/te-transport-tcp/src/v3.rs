//! Version 3 of the data protocol, spoken between our own engines; `docs/wire.md` §5.
//!
//! ```text
//!   Session ── Outbox ══ hello, requests, data, cancels ══▶ Intake ── Inbound
//!           ── Intake ◀═ answer, data, statuses ═══════════ Outbox ──
//! ```
//!
//! [`Session`] is the initiator's end of a connection and [`Inbound`] the target's; both are
//! machines without sockets. What they share: `hello` and `frame` are the codecs, `intake` puts
//! incoming frames together, `outbox` holds what goes out, `sum` is the checksum.

mod frame;
mod hello;
mod inbound;
mod intake;
mod outbox;
mod session;
mod staging;
mod sum;

pub(crate) use hello::{Answer, AnswerCode, FEATURES, Hello, VERSION, is_hello};
pub(crate) use inbound::Inbound;
pub(crate) use session::{Finished, Limits, News, Session};
pub(crate) use sum::Sum;
