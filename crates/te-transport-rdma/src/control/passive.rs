//! A peer asks: which connection it means, and what it is answered.

use std::time::Instant;

use te_metadata::{EndpointMessage, QpNumber};
use te_topology::NicIndex;
use te_transport::{FaultClass, Phase, SliceFault};

use super::{Control, MAX_QUEUE_PAIRS};
use crate::endpoint::{
    AckRefused, Endpoint, Ends, HandshakeError, NicPath, OnRequest, PeerEnds, answer,
    filled_refusal, read_peer,
};
use crate::fence;
use crate::worker::EndpointId;

/// How often a question finds another connection in its place before it is given up.
const ROUNDS: usize = 4;

/// Our NIC and the peer's that a question is about.
struct Parties {
    nic: NicIndex,
    us: NicPath,
    them: NicPath,
}

impl Control {
    /// Answers a peer's question, which is not worth while after `until`. May wait for the kernel.
    pub(super) fn run_passive(
        &self,
        question: &EndpointMessage,
        until: Instant,
    ) -> EndpointMessage {
        let parties = match self.parties(question) {
            Ok(parties) => parties,
            Err(reason) => return EndpointMessage::refusal(reason),
        };
        if fence::is_question(question) {
            return self.on_fence(&parties, &question.qp_num);
        }
        if question.ready_ack == Some(true) {
            return self.on_ack(&parties, &question.qp_num);
        }
        self.on_request(&parties, question, until)
    }

    fn parties(&self, question: &EndpointMessage) -> Result<Parties, String> {
        let wrong = |what: &str, text: &str| {
            let text: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
            format!("{what} \"{text}\" is no <server>@<nic>")
        };
        let us = NicPath::parse(&question.peer_nic_path)
            .ok_or_else(|| wrong("peer_nic_path", &question.peer_nic_path))?;
        let them = NicPath::parse(&question.local_nic_path)
            .ok_or_else(|| wrong("local_nic_path", &question.local_nic_path))?;
        if us.server() != &*self.server {
            return Err(format!("this is {}, not {}", self.server, us.server()));
        }
        let nic = self.nics.named(us.nic()).ok_or_else(|| format!("there is no {}", us.nic()))?;
        Ok(Parties { nic: nic.index(), us, them })
    }

    /// The ready-ack. It leaves nothing behind where it is refused.
    fn on_ack(&self, parties: &Parties, theirs: &[QpNumber]) -> EndpointMessage {
        let Parties { nic, them, .. } = parties;
        let mut table = self.table.lock();
        let acked = match table.entry(*nic, them) {
            Some(entry) => entry.machine.acked(theirs).map(|is_ready| {
                if is_ready {
                    self.announce(*nic, them, entry);
                }
            }),
            None => Err(AckRefused::NotConnected),
        };
        match acked {
            Ok(()) => EndpointMessage::default(),
            Err(refused) => EndpointMessage::refusal(refused.to_string()),
        }
    }

    fn on_request(
        &self,
        parties: &Parties,
        question: &EndpointMessage,
        until: Instant,
    ) -> EndpointMessage {
        let peer = match read_peer(question) {
            Ok(peer) => peer,
            Err(error) => return EndpointMessage::refusal(error.text()),
        };
        let count = peer.ends.queue_pairs.len();
        if !(1..=MAX_QUEUE_PAIRS).contains(&count) {
            let reason = format!("{count} queue pairs, 1 to {MAX_QUEUE_PAIRS} are possible");
            return EndpointMessage::refusal(reason);
        }
        if !self.table.lock().has_place(parties.nic, count) {
            let reason = format!("there is no room for {count} queue pairs of one peer");
            return EndpointMessage::refusal(reason);
        }
        for _ in 0..ROUNDS {
            match self.look_at(parties, &peer) {
                Look::Answer(message) => return message,
                Look::Move(id) => return self.move_for(parties, id, &peer),
                Look::Busy(id) => {
                    if !self.wait_moved(parties.nic, &parties.them, id, until) {
                        return EndpointMessage::refusal("connecting takes too long");
                    }
                }
                Look::Nothing => match self.make_for(parties, &peer) {
                    Ok(Some(id)) => return self.move_for(parties, id, &peer),
                    Ok(None) => {}
                    Err(error) => return EndpointMessage::refusal(error.text()),
                },
            }
        }
        EndpointMessage::refusal("the connection changes too often")
    }

    /// What is there, and what the question means for it.
    fn look_at(&self, parties: &Parties, peer: &PeerEnds) -> Look {
        let Parties { nic, them, .. } = parties;
        let now = self.clock.now();
        let mut table = self.table.lock();
        let Some(entry) = table.entry(*nic, them) else { return Look::Nothing };
        let id = entry.id;
        let process = peer.about.map(|about| about.incarnation);
        match entry.machine.on_request(now, &peer.ends.queue_pairs, process) {
            OnRequest::Move => Look::Move(id),
            OnRequest::Busy => Look::Busy(id),
            OnRequest::Same => Look::Answer(self.as_asked(parties, &entry.ends, peer)),
            OnRequest::Replace => {
                let gone = table.remove(*nic, them, id);
                drop(table);
                let why = "the peer began anew";
                let fault = SliceFault::new(FaultClass::Rail, Phase::Payload, why);
                if let Some(leaving) = gone {
                    self.end(leaving, &fault);
                }
                Look::Nothing
            }
        }
    }

    /// The answer. Whoever does not know the ready-ack is not told of it, nor whoever is of another
    /// kind of what we say to ours.
    fn as_asked(&self, parties: &Parties, ends: &Ends, peer: &PeerEnds) -> EndpointMessage {
        let Parties { nic, us, them } = parties;
        let nic = self.nics.nic(*nic).filter(|_| peer.about.is_some());
        let ours = nic.map(|nic| self.about(nic).to_payload());
        EndpointMessage {
            ready_ack: peer.acks.then_some(false),
            payload: ours.unwrap_or_default(),
            ..answer(us, them, ends)
        }
    }

    /// Makes a connection whose queue pairs are about to be moved; `None` where another came first.
    fn make_for(
        &self,
        parties: &Parties,
        peer: &PeerEnds,
    ) -> Result<Option<EndpointId>, HandshakeError> {
        let (nic, link) = self.nic(parties.nic)?;
        let theirs = &peer.ends.queue_pairs;
        let made = self.make((nic, &link), theirs.len(), &parties.them)?;
        let mut machine = Endpoint::new(theirs.len());
        machine.on_request(self.clock.now(), theirs, peer.about.map(|about| about.incarnation));
        let mut table = self.table.lock();
        if table.closed {
            return Err(HandshakeError::TimedOut);
        }
        if table.entry(parties.nic, &parties.them).is_some() {
            return Ok(None);
        }
        let (id, gone) = table.insert((parties.nic, &parties.them), machine, made);
        drop(table);
        self.give_way(gone, &parties.them);
        Ok(Some(id))
    }

    /// Connects the queue pairs of a connection to those of the question.
    fn move_for(&self, parties: &Parties, id: EndpointId, peer: &PeerEnds) -> EndpointMessage {
        let Parties { nic, them, .. } = parties;
        let found = {
            let mut table = self.table.lock();
            let entry = table.entry_of(*nic, them, id);
            entry.map(|entry| (entry.queue_pairs.clone(), entry.ends.clone()))
        };
        let Some((pairs, ends)) = found else {
            return EndpointMessage::refusal(HandshakeError::Replaced.text());
        };
        let moved =
            self.nic(*nic).and_then(|(nic, link)| self.move_all((nic, &link), &pairs, peer));
        drop(pairs);
        let until = self.clock.now() + self.config.connection.ready_ack_limit;
        let filled = self.as_asked(parties, &ends, peer);
        match self.on_moved((*nic, them, id), moved, (until, peer.acks)) {
            Ok(()) => {
                if peer.acks {
                    let gone = self.table.lock().note_half_open(until, (*nic, them), id);
                    self.end_half_open(gone);
                    self.bell.ring();
                }
                filled
            }
            Err(error) => {
                let why = SliceFault::new(FaultClass::Rail, Phase::Handshake, error.text());
                self.tell(*nic, crate::worker::Command::Failed { peer: them.clone(), fault: why });
                filled_refusal(filled, error.text())
            }
        }
    }

    fn end_half_open(&self, gone: Vec<(NicIndex, NicPath, EndpointId)>) {
        let why = "too many connections of this peer wait for its ready-ack";
        let fault = SliceFault::new(FaultClass::Rail, Phase::Handshake, why);
        for (nic, peer, id) in gone {
            let gone = self.table.lock().remove(nic, &peer, id);
            if let Some(leaving) = gone {
                self.end(leaving, &fault);
            }
        }
    }

    /// One of our own kind wants to know that a connection touches our memory no more.
    fn on_fence(&self, parties: &Parties, theirs: &[QpNumber]) -> EndpointMessage {
        let Parties { nic, them, .. } = parties;
        let found = {
            let mut table = self.table.lock();
            let entry = table.entry(*nic, them).filter(|entry| entry.machine.peer() == theirs);
            let id = entry.map(|entry| entry.id);
            id.and_then(|id| table.remove(*nic, them, id))
        };
        let Some(leaving) = found else { return self.on_late_fence(parties, theirs) };
        let ended = self.try_stop(&leaving);
        let fault = SliceFault::new(FaultClass::Rail, Phase::Payload, "the peer fenced it");
        self.tell_end(leaving, &fault);
        match ended {
            Ok(()) => fence::confirmation(),
            Err(error) => EndpointMessage::refusal(error.to_string()),
        }
    }

    /// Of a connection that is not here any more the queue pairs are in ERR or gone, unless somebody is
    /// about to end them.
    fn on_late_fence(&self, parties: &Parties, theirs: &[QpNumber]) -> EndpointMessage {
        let until = self.clock.now() + self.config.work.fence_limit;
        let mut table = self.table.lock();
        while table.is_leaving(parties.nic, &parties.them, theirs) {
            let left = until.saturating_duration_since(self.clock.now());
            if left.is_zero() {
                return EndpointMessage::refusal("the connection is about to end");
            }
            self.moved.wait_for(&mut table, left);
        }
        fence::confirmation()
    }
}

/// What a look at the table gave.
enum Look {
    Answer(EndpointMessage),
    Move(EndpointId),
    Busy(EndpointId),
    Nothing,
}
