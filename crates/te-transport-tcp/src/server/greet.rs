//! How a hello is answered.
//!
//! I1  A fence is answered when the connections it names are gone, with their guards.

use std::time::Instant;

use te_metadata::sabotage;

use super::Server;
use crate::v3::{Answer, AnswerCode, FEATURES, Hello, VERSION};

impl Server {
    /// Answers the hello of a connection, where it has said one.
    pub(super) fn greet(&mut self, now: Instant, index: usize) -> bool {
        let Some(hello) = self.connections[index].machine.take_hello() else { return false };
        let code = self.judge(&hello);
        let fenced = if code == AnswerCode::Ok { self.fence(index, &hello) } else { 0 };
        let answer = Answer {
            features: hello.offered & FEATURES,
            credit: hello.wanted.clamp(1, self.service.credit.max(1)),
            fenced,
            ..self.answer(code)
        };
        self.connections[index].machine.answer(now, &answer);
        true
    }

    /// An answer that grants nothing.
    pub(super) fn answer(&self, code: AnswerCode) -> Answer {
        Answer { code, features: 0, credit: 1, target: self.service.incarnation, fenced: 0 }
    }

    fn judge(&self, hello: &Hello) -> AnswerCode {
        let other = hello.to != self.service.incarnation;
        if other && !sabotage::is_off("incarnation-check") {
            AnswerCode::OtherIncarnation
        } else if hello.version != VERSION {
            AnswerCode::Version
        } else if hello.required & !FEATURES != 0 {
            AnswerCode::RequiredFeature
        } else {
            AnswerCode::Ok
        }
    }

    /// Ends the connections that a hello fences, and gives the number below which none is left.
    fn fence(&mut self, index: usize, hello: &Hello) -> u32 {
        if hello.fence == 0 || sabotage::is_off("fence") {
            return hello.fence;
        }
        let named = self.connections.iter().filter(|(other, connection)| {
            *other != index && connection.machine.is_fenced_by(hello)
        });
        let named: Vec<_> = named.map(|(other, _)| other).collect();
        for other in named {
            self.service.counters.fenced.one();
            self.close(other);
        }
        hello.fence
    }
}
