//! A live server against well-behaved peers: captured bytes in, captured bytes out.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests measure time and end at the first surprise"
)]

mod common;

use std::io::{Read, Write};
use std::net::{Ipv6Addr, Shutdown};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use common::{Desk, Host, client, frame};
use te_metadata::{
    AddressFamily, Asker, BoundPeerServer, BufferDescriptor, ChunkDigest, Directory,
    EndpointMessage, EndpointQuestion, HostPort, Incarnation, ListenAddress, Notify, NotifyRefused,
    PAGE_BYTES, PagedDescriptor, PeerLimits, PeerService, PortChoice, PortRange, SegmentDescriptor,
    SegmentName, TcpEndpoint, TeObject,
};

const NO_NICS: &[u8] = include_bytes!("fixtures/endpoint-no-nics.json");
const TCP: &[u8] = include_bytes!("fixtures/descriptor-tcp-p2p.json");

/// B53, B57, B63, B64: what the wheel was seen to answer is what we answer.
#[test]
fn captured_questions_get_the_captured_answers() {
    let host = Host::start();
    *host.desk.descriptor.lock() = Some(TCP.to_vec());
    let probe = include_bytes!("fixtures/frame-probe-question.bin");
    assert_eq!(host.raw(probe), include_bytes!("fixtures/frame-probe-answer.bin"));
    let notify = include_bytes!("fixtures/frame-notify-question.bin");
    assert_eq!(host.raw(notify), include_bytes!("fixtures/frame-notify-answer.bin"));
    assert_eq!(host.desk.notes.lock()[0], Notify { name: "node-a".into(), msg: "hello".into() });
    let endpoint = include_bytes!("fixtures/frame-rdma-endpoint-question.bin");
    assert_eq!(host.raw(endpoint), frame(0, NO_NICS));
    assert_eq!(host.desk.endpoints.lock()[0].local_nic_path, "127.0.0.1:16383@rxe0");
    let metadata = include_bytes!("fixtures/frame-rdma-metadata-question.bin");
    assert_eq!(host.raw(metadata), frame(1, &[TCP, b"\n"].concat()));
    host.wait(|stats| stats.served == 4 && stats.open == 0);
}

/// Hand-made questions of the least form work, as they do with the wheel.
#[test]
fn least_questions_are_answered() {
    let host = Host::start();
    assert_eq!(host.raw(&frame(0, b"{}")), frame(0, NO_NICS));
    for body in [&b"{}"[..], b"[]", b"5", b"null", b"[[[[1]]]]"] {
        assert_eq!(host.raw(&frame(1, body)), frame(1, b"null\n"));
        assert_eq!(host.raw(&frame(3, body)), frame(3, b"{\"status\":\"success\"}\n"));
    }
}

/// B54: a frame of the old form is an endpoint handshake, answered in the old form.
#[test]
fn b54_a_legacy_frame_gets_an_answer_without_a_type_byte() {
    let host = Host::start();
    let answer = host.raw(b"\x02\0\0\0\0\0\0\0{}");
    let length = (NO_NICS.len() as u64).to_le_bytes();
    assert_eq!(answer, [&length[..], NO_NICS].concat());
    assert_eq!(host.desk.endpoints.lock().len(), 1);
}

#[test]
fn a_client_may_close_its_side_before_the_answer() {
    let host = Host::start();
    let mut stream = host.connect();
    stream.write_all(&frame(3, b"{}")).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, frame(3, b"{\"status\":\"success\"}\n"));
    host.wait(|stats| stats.served == 1 && stats.open == 0);
}

/// The peer's engine sends length, type and body in three writes; any cutting works.
#[test]
fn questions_may_come_byte_by_byte() {
    let host = Host::start();
    let mut stream = host.connect();
    stream.set_nodelay(true).unwrap();
    for byte in frame(3, b"{}") {
        stream.write_all(&[byte]).unwrap();
    }
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer[8], 3);
}

/// All four questions by our own client; J33 (the payload survives the round trip).
#[test]
fn j33_our_client_and_our_server_understand_each_other() {
    let (host, client) = (Host::start(), client());
    assert!(client.probe(&host.peer(), Duration::from_secs(5)).is_ok());
    assert_eq!(client.metadata(&host.peer(), b"{}").unwrap(), b"null\n");
    let note = Notify { name: "a".into(), msg: "b".into() };
    client.notify(&host.peer(), &note).unwrap();
    assert_eq!(*host.desk.notes.lock(), [note]);
    let offer = EndpointMessage { payload: "\u{1}é\"\n".into(), ..EndpointMessage::default() };
    assert_eq!(client.endpoint(&host.peer(), &offer).unwrap(), EndpointMessage::default());
    assert_eq!(*host.desk.endpoints.lock(), [offer]);
}

#[test]
fn a_refused_notification_is_told_to_the_sender() {
    let host = Host::start();
    let note = Notify { name: "nobody".into(), msg: "b".into() };
    let error = client().notify(&host.peer(), &note).unwrap_err();
    assert!(error.is_refusal() && !error.is_full() && !error.is_retryable(), "{error}");
    host.wait(|stats| stats.served == 1 && stats.malformed == 0);
}

/// K7: "full" is an answer of its own for those who know it, and "not taken" for all others.
#[test]
fn k7_a_sender_is_told_that_there_is_no_room() {
    let host = Host::start();
    let note = Notify { name: "late".into(), msg: "b".into() };
    let error = client().notify(&host.peer(), &note).unwrap_err();
    assert!(error.is_full() && error.is_refusal() && error.is_retryable(), "{error}");
    let text = format!("peer {} is full: 7 notifications wait to be taken", host.peer());
    assert_eq!(error.to_string(), text);
    let body = br#"{"name":"","notify_msg":"","te":{"refused":"full","waiting":7}}"#;
    assert_eq!(host.raw(&frame(2, &note.encode())), frame(2, &[&body[..], b"\n"].concat()));
    host.wait(|stats| stats.served == 2 && stats.malformed == 0);
}

/// A service that panics costs the question that made it, and nothing else.
#[test]
fn a_panicking_service_does_not_end_the_server() {
    let host = Host::start();
    let note = Notify { name: "panic".into(), msg: "b".into() };
    assert!(client().notify(&host.peer(), &note).unwrap_err().is_refusal());
    host.probe();
}

/// FB15 (P2P half): IPv6 works end to end without a switch, beside IPv4 on one port.
#[test]
fn fb15_the_peer_link_works_over_ipv6() {
    if std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        println!("SKIP fb15_the_peer_link_works_over_ipv6: this host has no IPv6 loopback");
        return;
    }
    let range = PortChoice::Range(PortRange::default());
    let bound = BoundPeerServer::bind(&ListenAddress::Any, range, PeerLimits::default()).unwrap();
    let port = bound.port();
    let server = bound.start(Arc::new(Desk::default()) as Arc<dyn PeerService>).unwrap();
    for text in [format!("[::1]:{port}"), format!("127.0.0.1:{port}"), format!("localhost:{port}")]
    {
        let peer = HostPort::parse(&text).unwrap();
        client().probe(&peer, Duration::from_secs(5)).unwrap();
    }
    let only_v4 = te_metadata::PeerClient::new(PeerLimits::default(), AddressFamily::V4);
    let v6 = HostPort::parse(&format!("[::1]:{port}")).unwrap();
    let error = only_v4.probe(&v6, Duration::from_secs(5)).unwrap_err();
    assert_eq!(error.phase(), Some(te_metadata::PeerPhase::Resolve));
    assert_eq!(server.stats().accepted, 3);
}

/// FB28: descriptors are snapshots. 32 clients ask while four threads change the buffers; every
/// answer is a whole descriptor whose list is consistent in itself.
#[test]
fn fb28_descriptors_stay_whole_while_buffers_change() {
    let host = Host::start();
    let end = Instant::now() + Duration::from_millis(1500);
    let publish = |round: u64| {
        let buffer = |n: u64| BufferDescriptor {
            name: round.to_string(),
            addr: n + 1,
            length: round + 1,
            ..BufferDescriptor::default()
        };
        let buffers = (0..round % 1000).map(buffer).collect();
        let text = SegmentDescriptor::tcp(round.to_string(), TcpEndpoint::default(), buffers);
        *host.desk.descriptor.lock() = Some(text.encode());
    };
    publish(0);
    let answers: usize = thread::scope(|scope| {
        for thread in 0..4 {
            let publish = &publish;
            scope.spawn(move || {
                (thread..).step_by(4).take_while(|_| Instant::now() < end).for_each(publish);
            });
        }
        let ask = || {
            let (client, mut count) = (client(), 0);
            while Instant::now() < end {
                let text = client.metadata(&host.peer(), b"{}").unwrap();
                let descriptor = SegmentDescriptor::decode(&text).unwrap();
                let round: u64 = descriptor.name.parse().unwrap();
                assert_eq!(descriptor.buffers().len() as u64, round % 1000);
                let whole =
                    |b: &BufferDescriptor| b.name == descriptor.name && b.length == round + 1;
                assert!(descriptor.buffers().iter().all(whole));
                count += 1;
            }
            count
        };
        let clients: Vec<_> = (0..32).map(|_| scope.spawn(ask)).collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    let stats = host.wait(|stats| stats.open == 0);
    println!("{answers} descriptors, {stats:?}");
    assert!(answers >= 32);
    assert_eq!((stats.served, stats.malformed), (answers as u64, 0));
}

/// FB29: a burst of many engines at once is served, beside clients that never speak.
#[test]
fn fb29_a_burst_of_peers_is_served_beside_silent_clients() {
    let host = Host::start();
    let silent: Vec<_> = (0..20).map(|_| host.connect()).collect();
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                (0..40).for_each(|_| drop(client().metadata(&host.peer(), b"{}").unwrap()))
            });
        }
    });
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    let stats = host.wait(|stats| stats.open <= 20);
    assert_eq!(stats.served, 1600);
    drop(silent);
}

/// Whoever publishes a descriptor in parts.
struct Parts(PagedDescriptor);

impl PeerService for Parts {
    fn descriptor(&self, _asker: &Asker) -> Option<Vec<u8>> {
        Some(self.0.main.clone())
    }

    fn chunk(&self, digest: ChunkDigest) -> Option<Vec<u8>> {
        self.0.chunks.iter().find(|chunk| chunk.digest == digest).map(|chunk| chunk.body.clone())
    }

    fn notify(&self, _: Notify) -> Result<(), NotifyRefused> {
        Ok(())
    }

    fn endpoint(&self, question: EndpointQuestion) {
        question.answer(EndpointMessage::default());
    }
}

/// A descriptor that is longer than a frame of the wheel is asked for in parts.
#[test]
fn a_descriptor_in_parts_is_put_together_by_who_asks() {
    let buffer = |n: u64| BufferDescriptor {
        name: "n".into(),
        addr: (n + 1) << 20,
        length: 4096,
        ..BufferDescriptor::default()
    };
    let endpoint = TcpEndpoint { data_port: Some(1), ..TcpEndpoint::default() };
    let mut whole = SegmentDescriptor::tcp("n", endpoint, (0..30_000).map(buffer).collect());
    whole.te = Some(TeObject::new(Incarnation::random()));
    let parts = whole.paginate(PAGE_BYTES);
    assert!(!parts.chunks.is_empty());
    let lo = ListenAddress::Ip(std::net::Ipv4Addr::LOCALHOST.into());
    let bound = BoundPeerServer::bind(&lo, PortChoice::Exact(0), PeerLimits::default()).unwrap();
    let name = SegmentName::parse(&format!("127.0.0.1:{}", bound.port())).unwrap();
    let _server = bound.start(Arc::new(Parts(parts))).unwrap();
    let found = Directory::p2p(client()).fetch(&name, b"{}").unwrap();
    assert_eq!(found.descriptor, whole);
}
