//! What users reported of the way to a metadata service: lost connections, schemes, addresses.

use std::io::Write as _;
use std::time::Duration;

use te_metadata::{Credentials, Secret, StoreOptions};
use te_suites::wire::{Deaf, Fault, Proxy, connect};
use te_suites::{Kind as Engine, NodeSpec, need, now, say, wait_until};

use crate::service::{Kind, Service, open};

const SOON: Duration = Duration::from_secs(10);

/// A service, and a proxy on the way to it.
fn behind_a_proxy(service: &Service) -> (Proxy, String) {
    let proxy = Proxy::start(service.address().parse().unwrap(), Fault::None).unwrap();
    let through = format!("127.0.0.1:{}", proxy.port());
    let uri = service.uri().replace(&service.address(), &through);
    (proxy, uri)
}

/// How often a text has passed from the client, on all connections.
fn asked(proxy: &Proxy, text: &str) -> usize {
    let times =
        |bytes: &[u8]| bytes.windows(text.len()).filter(|at| *at == text.as_bytes()).count();
    proxy.seen().iter().map(|seen| times(&seen.request)).sum()
}

#[test]
fn fb22_a_lost_connection_is_replaced_without_a_word() {
    // FB22: closed while idle, cut in mid request, and silent; on every service.
    for kind in Kind::ALL {
        let run = || {
            let test = &format!("fb22_a_lost_connection_is_replaced_without_a_word ({kind:?})");
            need!(test, kind.available());
            let service = Service::start(kind);
            let (proxy, uri) = behind_a_proxy(&service);
            let call_timeout = Duration::from_secs(1);
            let store = open(&uri, &StoreOptions { call_timeout, ..StoreOptions::default() });
            store.put("mooncake/ram/a", b"1").unwrap();
            proxy.set(Fault::CloseWhenIdle(Duration::from_millis(50)));
            wait_until(SOON, "a cut", || (proxy.faults() > 0).then_some(()));
            proxy.set(Fault::None);
            let before = proxy.seen().len();
            store.put("mooncake/ram/a", b"2").unwrap();
            assert_eq!(store.get("mooncake/ram/a").unwrap().unwrap().value, b"2");
            assert!(proxy.seen().len() <= before + 1, "one connection more is enough");
            proxy.set(Fault::Swallow);
            let begun = now();
            let error = store.put("mooncake/ram/a", b"3").unwrap_err();
            assert!(error.is_retryable(), "{error:?}");
            assert!(begun.elapsed() < Duration::from_millis(1500), "{:?}", begun.elapsed());
            proxy.set(Fault::None);
            // A request that was swallowed is not on a connection that is used again.
            let begun = now();
            wait_until(SOON, "it works again", || store.put("mooncake/ram/a", b"4").ok());
            say(&format!("{uri}: {error}; again after {:?}", begun.elapsed()));
            assert_eq!(store.get("mooncake/ram/a").unwrap().unwrap().value, b"4");
        };
        run();
    }
}

#[test]
fn fb22_redis_is_told_again_who_we_are_and_its_errors_are_not_retried() {
    // FB22: AUTH and SELECT are replayed; a request that was cut goes again once; an error reply is
    // an answer.
    let test = "fb22_redis_is_told_again_who_we_are_and_its_errors_are_not_retried";
    need!(test, Kind::Redis.available());
    let service = Service::start_with(Kind::Redis, &["--requirepass", "tiger"]);
    let credentials =
        Credentials { password: Some(Secret::new("tiger")), ..Credentials::default() };
    let options = StoreOptions { credentials, redis_database: 3, ..StoreOptions::default() };
    let direct = service.store(&options);
    wait_until(SOON, "redis answers", || direct.capabilities().ok());
    let (proxy, uri) = behind_a_proxy(&service);
    let store = open(&uri, &options);
    store.put("mooncake/ram/a", b"1").unwrap();
    let before = (asked(&proxy, "AUTH"), asked(&proxy, "SELECT"));
    proxy.set(Fault::CutOneRequestAt(1));
    store.put("mooncake/ram/a", b"2").unwrap();
    assert_eq!(direct.get("mooncake/ram/a").unwrap().unwrap().value, b"2", "in database 3");
    let after = (asked(&proxy, "AUTH"), asked(&proxy, "SELECT"));
    assert_eq!(after, (before.0 + 1, before.1 + 1), "told once more");
    let mut raw = connect(service.address()).unwrap();
    raw.write_all(b"AUTH tiger\r\nSELECT 3\r\nRPUSH mooncake/ram/list x\r\n").unwrap();
    wait_until(SOON, "a list", || direct.get("mooncake/ram/list").is_err().then_some(()));
    let error = store.get("mooncake/ram/list").unwrap_err();
    assert!(!error.is_retryable() && error.to_string().contains("mooncake/ram/list"), "{error:?}");
    assert_eq!(asked(&proxy, "mooncake/ram/list"), 1, "asked once");
}

#[test]
fn fb24_every_scheme_is_known_and_says_that_nobody_listens() {
    // FB24, B1, B2, peer fault 18: the program is built as the suite of services is; `te` as well.
    let test = "fb24_every_scheme_is_known_and_says_that_nobody_listens";
    need!(test, Engine::Te.available());
    let etcd: &[&str] = if cfg!(feature = "etcd") {
        &["etcd://127.0.0.1:1", "etcd://127.0.0.1:1,127.0.0.1:2", "127.0.0.1:1"]
    } else {
        &[]
    };
    let others =
        ["http://127.0.0.1:1/metadata", "https://127.0.0.1:1/metadata", "redis://127.0.0.1:1"];
    for uri in etcd.iter().chain(&others) {
        let begun = now();
        let node = NodeSpec::new(Engine::Te, 0).metadata(uri).launch();
        let (why, code) = node.outcome().expect_err("nobody listens");
        assert_eq!(code, Some(3), "{uri}: {why}");
        let is_named = why.contains("connecting to ") && why.contains("127.0.0.1:");
        assert!(is_named, "{uri}: {why}");
        assert!(begun.elapsed() < Duration::from_secs(3), "{uri}: {:?}", begun.elapsed());
    }
    for uri in ["foo://x", "etcd+foo://x"] {
        let node = NodeSpec::new(Engine::Te, 0).metadata(uri).launch();
        let (why, code) = node.outcome().expect_err("nobody knows it");
        assert_eq!(code, Some(3), "{uri}: {why}");
        assert!(why.contains("http") && why.contains("P2PHANDSHAKE"), "{uri}: {why}");
    }
    for uri in ["P2PHANDSHAKE", "p2phandshake"] {
        NodeSpec::new(Engine::Te, 0).metadata(uri).start().quit();
    }
}

#[test]
fn fb25_a_published_address_that_leads_nowhere_is_named_in_time() {
    // FB25: the records are found, and lead nowhere; the limit of connecting is a second, and others
    // are as well reached as before.
    for kind in Kind::ALL {
        let run = || {
            let test = &format!("fb25_a_published_address_that_leads_nowhere_is_named ({kind:?})");
            need!(test, Engine::Te.available());
            need!(test, kind.available());
            let service = Service::start(kind);
            let store = service.store(&StoreOptions::default());
            let deaf = Deaf::start().unwrap();
            let port = deaf.address().port();
            let rpc = format!("{{\"ip_or_host_name\":\"127.0.0.1\",\"rpc_port\":{port}}}");
            store.put("mooncake/rpc_meta/nowhere", rpc.as_bytes()).unwrap();
            let ram = format!(
                "{{\"buffers\":[{{\"addr\":4096,\"length\":4096,\"name\":\"nowhere\"}}],\
                 \"name\":\"nowhere\",\"protocol\":\"tcp\",\"rdma_server_name\":\"\",\
                 \"tcp_data_host\":\"127.0.0.1\",\"tcp_data_port\":{port},\
                 \"tcp_proto_version\":2,\"timestamp\":\"\"}}"
            );
            store.put("mooncake/ram/nowhere", ram.as_bytes()).unwrap();
            let spec = |name: &str| {
                NodeSpec::new(Engine::Te, 4096)
                    .metadata(&service.uri())
                    .host(name)
                    .env("MC_TCP_BIND_ADDRESS", "127.0.0.1")
                    .env("TE_TCP_CONNECT_TIMEOUT_MS", "1000")
                    .env("MC_HANDSHAKE_CONNECT_TIMEOUT", "1")
            };
            let (mut from, to) = (spec("node-a").start(), spec("node-b").start());
            let answer = from.write("nowhere", from.addr(), 4096, 4096);
            let error = answer.refused();
            for word in ["nowhere", &deaf.address().to_string(), "connect"] {
                assert!(error.contains(word), "`{error}` does not say `{word}`");
            }
            assert!(answer.took() < Duration::from_secs(2), "{:?}: {error}", answer.took());
            let probe = from.probe("nowhere");
            let said = probe.refused();
            let address = deaf.address().to_string();
            assert!(said.contains(&address) && said.contains("connect"), "{said}");
            let good = from.write(to.name(), from.addr(), to.addr(), 4096).ok();
            assert!(good.took() < Duration::from_millis(500), "{:?}", good.took());
            say(&format!("{}: {error}", service.uri()));
            from.quit();
            to.quit();
        };
        run();
    }
}
