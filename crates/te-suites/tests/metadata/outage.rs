//! Engines whose service is down, hangs, is slow, comes back empty, or tells nonsense.

use std::time::Duration;

use te_metadata::{MetadataStore, StoreOptions};
use te_suites::wire::{Fault, Proxy};
use te_suites::{Node, now, say, wait_until};

use crate::engines::{SIZE, SOON, exchange, named, on_each, on_each_at_once, write, write_late};
use crate::service::{Kind, Service};

/// Waits until what a node publishes stands so.
#[track_caller]
fn until(node: &mut Node, limit: Duration, standing: &str) {
    let what = format!("{} is {standing}", node.name());
    wait_until(limit, &what, || (node.publication() == standing).then_some(()));
}

#[test]
fn fault18_an_engine_whose_service_is_down_says_so_at_its_start() {
    // Peer fault 18: a named error within 3 s, with exit code, where the peer aborts.
    let test = "fault18_an_engine_whose_service_is_down_says_so_at_its_start";
    on_each(test, &Kind::ALL, |service| {
        service.kill();
        let begun = now();
        let outcome = named(&service.uri(), "node-a").launch().outcome();
        let (why, code) = outcome.expect_err("nobody listens");
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(3), "{took:?}");
        assert!(why.contains("cannot publish") && why.contains(&service.address()), "{why}");
        assert_eq!(code, Some(3), "it ends by itself");
    });
}

#[test]
fn fault18_an_engine_whose_service_hangs_says_so_at_its_start() {
    // Peer fault 18: connections are taken and nothing is answered; the deadline of a call is 3 s.
    let test = "fault18_an_engine_whose_service_hangs_says_so_at_its_start";
    on_each_at_once(test, &Kind::ALL, |service| {
        service.signal("STOP");
        let begun = now();
        let outcome = named(&service.uri(), "node-a").launch().outcome();
        let (why, code) = outcome.expect_err("nobody answers");
        let took = begun.elapsed();
        say(&format!("{:?}: {why} after {took:?}", service.kind));
        assert!(took < Duration::from_secs(5), "{took:?}");
        assert!(why.contains("cannot publish") && why.contains(&service.address()), "{why}");
        assert_eq!(code, Some(3), "it ends by itself");
    });
}

/// A buffer that was registered while the service was down, and its owner, who published it as soon
/// as the service was back.
fn comes_back(service: &mut Service, is_emptied: bool) {
    let uri = service.uri();
    let (mut a, mut b) = (named(&uri, "node-a").start(), named(&uri, "node-b").start());
    exchange(&mut a, &mut b, 1);
    service.kill();
    exchange(&mut a, &mut b, 2);
    let begun = now();
    let late = write_late(&mut a, &mut b, 5);
    assert!(begun.elapsed() < SOON, "registration holds locally and does not hang");
    until(&mut b, SOON, "Failing");
    let said = b.child().errors();
    assert!(said.contains("the metadata service fails"), "{said}");
    let absent = a.open_at_once(&["node-c"]);
    let why = absent.value("error").as_str().unwrap_or_default();
    assert!(why.contains(&service.address()), "down is another answer than absent: {why}");
    if is_emptied {
        service.empty();
    }
    service.restart();
    let back = now();
    let store = service.store(&StoreOptions::default());
    let whole = || holds(&*store, late).then_some(());
    wait_until(Duration::from_secs(5), "it is published, as it is now", whole);
    say(&format!("{:?}: published {:?} after it was back", service.kind, back.elapsed()));
    until(&mut b, SOON, "Published");
    let mut c = named(&uri, "node-c").start();
    c.pattern(0, SIZE, 8);
    let src = c.addr();
    c.write("node-b", src, late, SIZE).ok();
    let off = b.off(late);
    b.verify(off, SIZE, 8);
    until(&mut a, SOON, "Published");
    for node in [a, b, c] {
        node.quit();
    }
    if store.capabilities().unwrap().list {
        assert_eq!(store.list("").unwrap(), [], "nothing is left");
    }
}

/// Whether what stands for node-b names this buffer.
fn holds(store: &dyn MetadataStore, addr: u64) -> bool {
    let record = store.get("mooncake/ram/node-b").ok().flatten();
    record.is_some_and(|it| String::from_utf8_lossy(&it.value).contains(&addr.to_string()))
}

#[test]
fn fault19_engines_outlive_their_service_and_publish_when_it_is_back() {
    // Peer fault 19: open segments go on, what is registered meanwhile follows.
    let test = "fault19_engines_outlive_their_service_and_publish_when_it_is_back";
    on_each_at_once(test, &Kind::ALL, |service| comes_back(service, false));
}

#[test]
fn fault20_engines_fill_a_service_that_restarted_empty() {
    // Peer fault 20: within five seconds.
    let test = "fault20_engines_fill_a_service_that_restarted_empty";
    on_each_at_once(test, &Kind::ALL, |service| comes_back(service, true));
}

#[test]
fn fault18_a_service_that_hangs_later_delays_nobody_who_has_a_segment_open() {
    // Peer faults 18, 19: stopped, with every connection open.
    let test = "fault18_a_service_that_hangs_later_delays_nobody_who_has_a_segment_open";
    on_each_at_once(test, &Kind::ALL, |service| {
        let uri = service.uri();
        let (mut a, mut b) = (named(&uri, "node-a").start(), named(&uri, "node-b").start());
        write(&mut a, &mut b, 1);
        write(&mut b, &mut a, 1);
        service.signal("STOP");
        let begun = now();
        exchange(&mut a, &mut b, 2);
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        let (late, begun) = (b.alloc(SIZE), now());
        b.reg(late, SIZE).ok();
        let took = begun.elapsed();
        say(&format!("{:?}: a registration took {took:?}", service.kind));
        assert!(took < Duration::from_secs(5), "{took:?}");
        until(&mut b, SOON, "Failing");
        service.signal("CONT");
        until(&mut b, SOON, "Published");
        let store = service.store(&StoreOptions::default());
        assert!(holds(&*store, late), "it is published");
        a.quit();
        b.quit();
    });
}

#[test]
fn a_slow_service_is_slow_and_nothing_else() {
    // Every answer comes 200 ms late.
    on_each_at_once("a_slow_service_is_slow_and_nothing_else", &Kind::ALL, |service| {
        let delay = Fault::DelayAnswers(Duration::from_millis(200));
        let proxy = Proxy::start(service.address().parse().unwrap(), delay).unwrap();
        let slow = format!("127.0.0.1:{}", proxy.port());
        let uri = service.uri().replace(&service.address(), &slow);
        let begun = now();
        let a = named(&uri, "node-a").launch();
        let mut b = named(&uri, "node-b").start();
        let mut a = a.ready();
        say(&format!("{:?}: two engines after {:?}", service.kind, begun.elapsed()));
        exchange(&mut a, &mut b, 1);
        write_late(&mut a, &mut b, 7);
        assert_eq!(b.publication(), "Published");
        a.quit();
        b.quit();
        let store = service.store(&StoreOptions::default());
        assert_eq!(store.get("mooncake/ram/node-a").unwrap(), None);
        drop(proxy);
    });
}

#[test]
fn fault02_a_record_of_the_wrong_shape_names_its_field() {
    // Peer faults 1, 2: wrong JSON types in a peer's record; the peer ends its process there.
    let test = "fault02_a_record_of_the_wrong_shape_names_its_field";
    let records = [
        ("protocol", r#"{"name":"bad","protocol":7,"buffers":[]}"#),
        ("buffers", r#"{"name":"bad","protocol":"tcp","buffers":{"a":1}}"#),
        (
            "addr",
            r#"{"name":"bad","protocol":"tcp","buffers":[{"name":"b","addr":"x","length":1}]}"#,
        ),
        (
            "length",
            r#"{"name":"bad","protocol":"tcp","buffers":[{"name":"b","addr":1,"length":-5}]}"#,
        ),
        ("name", r#"{"name":"bad","protocol":"tcp","buffers":[{"addr":1,"length":5}]}"#),
        ("data_port", r#"{"name":"bad","protocol":"tcp","tcp_data_port":"x","buffers":[]}"#),
        ("", "[1,2,3]"),
        ("", "no json"),
    ];
    on_each(test, &Kind::ALL, |service| {
        let mut node = named(&service.uri(), "node-a").start();
        let store = service.store(&StoreOptions::default());
        for (i, (field, record)) in records.iter().enumerate() {
            let name = format!("bad-{i}");
            // A service may look at what it is given.
            if store.put(&format!("mooncake/ram/{name}"), record.as_bytes()).is_err() {
                continue;
            }
            let answer = node.open_at_once(&[&name]);
            let why = answer.value("error").as_str().unwrap_or_default();
            assert_eq!(answer.number("failed"), 1, "{record} was taken");
            assert!(why.contains(&name) && why.contains(field), "{why} does not name {field}");
        }
        let good = r#"{"name":"odd","protocol":"tcp","tcp_data_port":1,"buffers":[]}"#;
        store.put("mooncake/ram/odd", good.as_bytes()).unwrap();
        store.put("mooncake/rpc_meta/odd", br#"{"ip_or_host_name":5,"rpc_port":"x"}"#).unwrap();
        let answer = node.open_at_once(&["odd"]);
        let why = answer.value("error").as_str().unwrap_or_default();
        assert!(answer.number("failed") == 1 && why.contains("ip_or_host_name"), "{why}");
        assert_eq!(node.publication(), "Published");
        node.quit();
    });
}

#[test]
fn a_record_of_five_mebibytes_is_refused_by_name_or_read() {
    // Where the service takes it at all; etcd does not.
    on_each("a_record_of_five_mebibytes_is_refused_by_name_or_read", &Kind::ALL, |service| {
        let mut node = named(&service.uri(), "node-a").start();
        let store = service.store(&StoreOptions::default());
        let filler = "x".repeat(5 << 20);
        let record =
            format!(r#"{{"name":"huge","protocol":"tcp","more":"{filler}","buffers":[]}}"#);
        let taken = store.put("mooncake/ram/huge", record.as_bytes()).is_ok();
        let answer = node.open_at_once(&["huge"]);
        let why = answer.value("error").as_str().unwrap_or("it was read").to_owned();
        say(&format!("{:?}: taken: {taken}; {why}", service.kind));
        assert!(answer.number("failed") == 0 || why.contains("huge"), "{why}");
        assert!(taken || why.contains("is not known"), "{why}");
        assert_eq!(node.publication(), "Published");
        node.quit();
    });
}
