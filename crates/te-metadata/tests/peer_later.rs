//! Endpoint handshakes that are answered later, from another thread.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests are drivers")]

mod common;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::client;
use te_metadata::{
    Asker, BoundPeerServer, EndpointMessage, EndpointQuestion, HostPort, ListenAddress, Notify,
    NotifyRefused, PeerLimits, PeerServer, PeerService, PortChoice,
};
use te_sync::{Condvar, Mutex};

/// Keeps every question.
#[derive(Default)]
struct Keeper {
    questions: Mutex<Vec<EndpointQuestion>>,
    came: Condvar,
}

impl Keeper {
    fn wait_for(&self, n: usize) -> Vec<EndpointQuestion> {
        let mut questions = self.questions.lock();
        let patience = Duration::from_secs(30);
        self.came.wait_while_for(&mut questions, |all| all.len() < n, patience);
        assert_eq!(questions.len(), n);
        std::mem::take(&mut *questions)
    }
}

impl PeerService for Keeper {
    fn descriptor(&self, _asker: &Asker) -> Option<Vec<u8>> {
        None
    }

    fn notify(&self, _: Notify) -> Result<(), NotifyRefused> {
        Ok(())
    }

    fn endpoint(&self, question: EndpointQuestion) {
        self.questions.lock().push(question);
        self.came.notify_all();
    }
}

fn host() -> (Arc<Keeper>, PeerServer, HostPort) {
    let lo = ListenAddress::Ip(Ipv4Addr::LOCALHOST.into());
    let bound = BoundPeerServer::bind(&lo, PortChoice::Exact(0), PeerLimits::default()).unwrap();
    let peer = HostPort::new("127.0.0.1", Some(bound.port())).unwrap();
    let keeper = Arc::new(Keeper::default());
    let server = bound.start(Arc::clone(&keeper) as Arc<dyn PeerService>).unwrap();
    (keeper, server, peer)
}

fn offer(nic: &str) -> EndpointMessage {
    EndpointMessage { local_nic_path: nic.to_owned(), ..EndpointMessage::default() }
}

/// Fault 4 on the RDMA wire: whoever connects slowly keeps nobody else waiting.
#[test]
fn probes_are_answered_while_handshakes_wait_for_their_answers() {
    let (keeper, server, peer) = host();
    std::thread::scope(|scope| {
        let askers: Vec<_> = (0..5)
            .map(|i| {
                let peer = &peer;
                scope.spawn(move || client().endpoint(peer, &offer(&i.to_string())))
            })
            .collect();
        let questions = keeper.wait_for(5);
        client().probe(&peer, Duration::from_secs(30)).unwrap();
        for question in questions {
            let path = question.request().local_nic_path.clone();
            let answer = EndpointMessage { peer_nic_path: path, ..EndpointMessage::default() };
            question.answer(answer);
        }
        for (i, asker) in askers.into_iter().enumerate() {
            assert_eq!(asker.join().unwrap().unwrap().peer_nic_path, i.to_string());
        }
    });
    let end = server.stats();
    assert_eq!((end.malformed, end.timed_out), (0, 0));
}

#[test]
fn a_dropped_question_is_a_refusal() {
    let (keeper, _server, peer) = host();
    std::thread::scope(|scope| {
        let asker = scope.spawn(|| client().handshake(&peer, &offer("a")));
        drop(keeper.wait_for(1));
        assert!(asker.join().unwrap().unwrap().is_refusal());
    });
}

#[test]
fn an_answer_after_the_asker_left_is_lost_without_harm() {
    let (keeper, server, peer) = host();
    let impatient =
        PeerLimits { exchange_timeout: Duration::from_millis(50), ..PeerLimits::default() };
    let asker = te_metadata::PeerClient::new(impatient, te_metadata::AddressFamily::Any);
    assert!(asker.endpoint(&peer, &offer("a")).is_err());
    let mut questions = keeper.wait_for(1);
    // Somebody else may have the place of the connection by then.
    client().probe(&peer, Duration::from_secs(30)).unwrap();
    questions.pop().unwrap().answer(EndpointMessage::default());
    client().probe(&peer, Duration::from_secs(30)).unwrap();
    server.close(Duration::from_secs(30)).unwrap();
}

#[test]
fn closing_waits_for_no_open_question() {
    let (keeper, server, peer) = host();
    std::thread::scope(|scope| {
        let asker = scope.spawn(|| client().endpoint(&peer, &offer("a")));
        let questions = keeper.wait_for(1);
        let begin = Instant::now();
        server.close(Duration::from_secs(30)).unwrap();
        assert!(begin.elapsed() < Duration::from_secs(10));
        assert!(asker.join().unwrap().is_err());
        drop(questions);
    });
}
