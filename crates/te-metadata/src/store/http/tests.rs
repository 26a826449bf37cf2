//! The HTTP store against small servers with the manners of the real ones.

mod server;

use std::io::Write as _;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use self::server::{Manners, TestServer};
use super::*;
use crate::{Credentials, Secret, StorePhase, check_store, open_store};

fn open(address: &str, options: &StoreOptions) -> Arc<dyn MetadataStore> {
    let uri = StoreUri::parse(&format!("http://{address}/metadata")).unwrap();
    open_store(&uri, options).unwrap()
}

fn store(server: &TestServer) -> Arc<dyn MetadataStore> {
    open(&server.address(), &StoreOptions::default())
}

#[test]
fn the_contract_holds_on_our_servers_manners() {
    let server = TestServer::start(Manners::Ours);
    check_store(&*store(&server));
}

/// The peer's aiohttp server: no versions, no owners, and an rpc_meta key is never overwritten.
#[test]
fn the_contract_holds_on_the_peers_manners() {
    let server = TestServer::start(Manners::Peer);
    check_store(&*store(&server));
}

/// Peer fault 14: on the peer's server an rpc_meta record of our own can be put anew, though the
/// server refuses to overwrite it, and one that stood when it was looked at is replaced.
#[test]
fn fault14_a_refused_overwrite_becomes_a_removal_and_a_put() {
    let server = TestServer::start(Manners::Peer);
    let store = store(&server);
    store.put("mooncake/rpc_meta/a", b"{\"rpc_port\":1}").unwrap();
    let lease = Lease { owner: Incarnation::from_u128(1), ttl: Duration::from_secs(30) };
    let ours = format!("{{\"rpc_port\":2,\"te_incarnation\":\"{}\"}}", lease.owner);
    let Claim::Taken(stale) =
        store.claim("mooncake/rpc_meta/a", ours.as_bytes(), &lease, None).unwrap()
    else {
        panic!("the record of another was overwritten")
    };
    let over = Some(&stale.revision);
    let claim = store.claim("mooncake/rpc_meta/a", ours.as_bytes(), &lease, over).unwrap();
    assert!(matches!(claim, Claim::Held(_)), "{claim:?}");
    assert_eq!(store.get("mooncake/rpc_meta/a").unwrap().unwrap().value, ours.as_bytes());
}

/// Our server may believe longer in an owner than a prober does: 409 whatever the condition.
#[test]
fn a_server_that_believes_in_a_dead_owner_is_convinced() {
    let server = TestServer::start(Manners::Ours);
    let store = store(&server);
    let ttl = Duration::from_secs(60);
    let [dead, heir] = [1, 2].map(|n| Lease { owner: Incarnation::from_u128(n), ttl });
    store.claim("k", dead.owner.to_string().as_bytes(), &dead, None).unwrap();
    let value = heir.owner.to_string();
    let Claim::Taken(by) = store.claim("k", value.as_bytes(), &heir, None).unwrap() else {
        panic!("it was not taken")
    };
    let claim = store.claim("k", value.as_bytes(), &heir, Some(&by.revision)).unwrap();
    assert!(matches!(claim, Claim::Held(_)), "{claim:?}");
}

#[test]
fn a_wrong_token_is_an_error_of_its_own_and_is_never_printed() {
    let server = TestServer::start(Manners::Guarded("tiger"));
    let with = |token: &str| {
        let credentials = Credentials { token: Some(Secret::new(token)), ..Credentials::default() };
        let options = StoreOptions { credentials, ..StoreOptions::default() };
        (open(&server.address(), &options), format!("{options:?}"))
    };
    let (wrong, text) = with("lion");
    let error = wrong.get("k").unwrap_err();
    assert!(error.is_about_trust() && !error.is_retryable(), "{error:?}");
    assert!(!format!("{error:?}{wrong:?}{text}").contains("lion"));
    assert_eq!(with("tiger").0.get("k").unwrap(), None);
}

/// FB22, peer fault 18: nobody listens; the answer is at once and not "absent".
#[test]
fn fb22_a_server_that_is_down_is_not_an_absent_key() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let store = open(&address.to_string(), &StoreOptions::default());
    let error = store.get("k").unwrap_err();
    assert_eq!(error.phase(), Some(StorePhase::Connect));
    assert!(error.is_retryable() && error.to_string().contains(&address.to_string()), "{error}");
}

/// Peer fault 18: a server that accepts and is silent costs the bound and no more.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test measures a bound")]
fn fault18_a_hanging_server_costs_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let options =
        StoreOptions { call_timeout: Duration::from_millis(300), ..StoreOptions::default() };
    let store = open(&listener.local_addr().unwrap().to_string(), &options);
    let start = Instant::now();
    let error = store.put("k", b"1").unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(error.phase(), Some(StorePhase::Exchange), "{error:?}");
}

#[test]
fn wrong_answers_are_named_and_large_ones_not_swallowed() {
    for (answer, says) in [
        ("SSH-2.0-OpenSSH\r\n".to_owned(), "not reachable"),
        ("HTTP/1.1 418 Teapot\r\ncontent-length: 5\r\n\r\nshort".to_owned(), "status 418: short"),
        ("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n".to_owned(), "not reachable"),
        (format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 1_u64 << 40), "wrong answer"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let store = open(&listener.local_addr().unwrap().to_string(), &StoreOptions::default());
        let server = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut question = [0; 4096];
            let _ = std::io::Read::read(&mut client, &mut question);
            let _ = client.write_all(answer.as_bytes());
            let body = [b'x'; 1 << 16];
            while client.write_all(&body).is_ok() {}
        });
        let error = store.get("k").unwrap_err();
        assert!(error.to_string().contains(says), "{error} should say {says}");
        drop(store);
        server.join().unwrap();
    }
}

/// The server closes idle connections; a request that meets that is sent again.
#[test]
fn a_closed_pooled_connection_fails_no_call() {
    let server = TestServer::start(Manners::Hasty);
    let store = store(&server);
    for n in 0..20 {
        store.put("k", n.to_string().as_bytes()).unwrap();
        assert_eq!(store.get("k").unwrap().unwrap().value, n.to_string().as_bytes());
    }
}

#[cfg(not(feature = "tls"))]
#[test]
fn b02_https_without_tls_says_what_there_is() {
    let uri = StoreUri::parse("https://a/metadata").unwrap();
    let error = open_store(&uri, &StoreOptions::default()).unwrap_err();
    assert!(error.to_string().contains("no metadata store https; it has P2PHANDSHAKE"), "{error}");
}

/// A proxy that answers its first request and tells what it was.
fn proxy(answer: &'static str) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("http://{}", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(&client));
        let first = lines.next().unwrap().unwrap();
        assert!(lines.map_while(Result::ok).any(|line| line.is_empty()), "the head ends");
        (&client).write_all(answer.as_bytes()).unwrap();
        first
    });
    (uri, asked)
}

/// B7: a proxy that was asked for is handed whole addresses; towards https it makes a tunnel.
#[test]
fn b07_a_proxy_is_used_when_it_is_asked_for() {
    let (uri, asked) = proxy("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
    let options = StoreOptions { http_proxy: Some(uri), ..StoreOptions::default() };
    let found = open("server.invalid:1", &options).get("a").unwrap().unwrap();
    assert_eq!(found.value, b"{}");
    assert_eq!(asked.join().unwrap(), "GET http://server.invalid:1/metadata?key=a HTTP/1.1");
}

#[cfg(feature = "tls")]
#[test]
fn b07_towards_https_a_proxy_is_asked_for_a_tunnel() {
    let (uri, asked) = proxy("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
    let options = StoreOptions { http_proxy: Some(uri.clone()), ..StoreOptions::default() };
    let server = StoreUri::parse("https://server.invalid:1/metadata").unwrap();
    let error = open_store(&server, &options).unwrap().get("a").unwrap_err();
    assert_eq!(error.phase(), Some(StorePhase::Connect), "{error:?}");
    assert!(error.to_string().contains(&format!("server.invalid:1 through {uri}")), "{error}");
    assert_eq!(asked.join().unwrap(), "CONNECT server.invalid:1 HTTP/1.1");
}

#[test]
fn what_is_no_proxy_is_refused_by_name() {
    for text in
        ["", "host:1", "http://host", "https://host:1", "http://me:word@host:1", "http://h:1/x"]
    {
        let options = StoreOptions { http_proxy: Some(text.to_owned()), ..StoreOptions::default() };
        let uri = StoreUri::parse("http://127.0.0.1:1/metadata").unwrap();
        let error = open_store(&uri, &options).unwrap_err().to_string();
        assert!(error.contains("http_proxy") && !error.contains("word"), "{text:?}: {error}");
    }
}
