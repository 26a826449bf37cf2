//! Silence, floods and oversize: each ends at its bound, and others are served meanwhile.
#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]

mod common;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use common::{Client, limited, timed, wait_until};

const SHORT: Duration = Duration::from_millis(300);

/// Reads until the other side closes; what came, and how long it took.
fn until_closed(stream: &mut TcpStream) -> (String, Duration) {
    stream.set_read_timeout(Some(common::PATIENCE)).unwrap();
    let mut text = Vec::new();
    let ((), time) = timed(|| {
        // A reset is an end too.
        let _ = stream.read_to_end(&mut text);
    });
    (String::from_utf8_lossy(&text).into_owned(), time)
}

#[test]
fn fb19_sizes_are_checked_and_five_mebibytes_are_taken() {
    let server = limited(|_| ());
    let mut client = Client::to(server.address());
    let five = "x".repeat(5 << 20);
    assert_eq!(client.put("k", &[], &five).status, 200);
    let nine = "x".repeat(9 << 20);
    let refused = client.put("k", &[], &nine);
    assert_eq!(refused.status, 413);
    assert!(refused.json()["error"].as_str().unwrap().contains("8388608"));
    assert_eq!(Client::to(server.address()).value("k").unwrap().len(), 5 << 20);
}

#[test]
fn a_body_without_a_length_is_counted_as_it_comes() {
    let server = limited(|limits| limits.max_value = 1000);
    let mut client = Client::to(server.address());
    let send = |client: &mut Client, n: usize| {
        let stream = client.0.get_mut();
        let head = b"PUT /metadata?key=k HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head).unwrap();
        for _ in 0..n {
            let _ = stream.write_all(format!("64\r\n{}\r\n", "x".repeat(100)).as_bytes());
        }
        let _ = stream.write_all(b"0\r\n\r\n");
        client.answer("PUT").unwrap().status
    };
    assert_eq!(send(&mut client, 10), 200);
    assert_eq!(send(&mut client, 11), 413);
}

#[test]
fn a_refusal_leaves_the_connection_as_good_as_it_was() {
    // The body comes after the refusal is certain: a server that answers at once and closes would
    // lose the client a pooled connection, and sometimes the answer.
    let server = limited(|_| ());
    let mut client = Client::to(server.address());
    for target in ["/metadata?key=", "/nothing", "/v1/keys", "/metadata?key=%FF"] {
        let stream = client.0.get_mut();
        let head = format!("PUT {target} HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        for _ in 0..100 {
            stream.write_all(&[b'x'; 1000]).unwrap();
        }
        assert!([400, 404, 405].contains(&client.answer("PUT").unwrap().status), "{target}");
    }
    assert_eq!(client.get("/health").status, 200);
    let metrics = client.get("/metrics");
    assert!(metrics.text().contains("te_metadata_accepted_total 1\n"), "one connection for all");
}

#[test]
fn fault06_a_silent_or_dripping_head_is_closed() {
    let server = limited(|limits| limits.header_timeout = SHORT);
    for head in ["", "GET /hea", "GET /health HTTP/1.1\r\nHost: x\r\n"] {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let (_, time) = until_closed(&mut stream);
        assert!(time < Duration::from_secs(10), "{head:?}: {time:?}");
    }
}

#[test]
fn a_body_that_stops_is_an_error_in_bounded_time() {
    let server = limited(|limits| limits.body_timeout = SHORT);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let head = b"PUT /metadata?key=k HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\nabc";
    stream.write_all(head).unwrap();
    let (text, time) = until_closed(&mut stream);
    assert!(text.starts_with("HTTP/1.1 408 "), "{text}");
    assert!(time < Duration::from_secs(10), "{time:?}");
    assert_eq!(Client::to(server.address()).value("k"), None);
}

#[test]
fn who_reads_no_answer_is_cut_off() {
    let server = limited(|limits| limits.write_timeout = SHORT);
    let mut client = Client::to(server.address());
    client.put("k", &[], &"x".repeat(8 << 20));
    let mut lazy = TcpStream::connect(server.address()).unwrap();
    for _ in 0..4 {
        lazy.write_all(b"GET /metadata?key=k HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
    }
    wait_until("it is cut off", || {
        client.get("/metrics").text().contains("te_metadata_broken_off_total 1\n")
    });
}

#[test]
fn too_many_connections_are_told_so_and_places_come_back() {
    let server =
        limited(|limits| (limits.max_connections, limits.max_connections_per_address) = (9, 2));
    let mut first = Client::to(server.address());
    let second = Client::to(server.address());
    assert_eq!(first.get("/health").status, 200);
    let mut third = TcpStream::connect(server.address()).unwrap();
    let (text, _) = until_closed(&mut third);
    assert!(text.starts_with("HTTP/1.1 503 ") && text.ends_with("too many connections"), "{text}");
    drop(second);
    wait_until("a place is free", || {
        Client::to(server.address())
            .try_ask("GET", "/health", &[], b"")
            .is_ok_and(|a| a.status == 200)
    });
}

#[test]
fn who_asks_too_often_is_told_when_to_come_again() {
    let server = limited(|limits| limits.requests_per_second = 5);
    let mut client = Client::to(server.address());
    let refused = (0..50).map(|_| client.get("/health")).find(|answer| answer.status == 429);
    let refused = refused.expect("fifty at once are more than ten");
    assert_eq!(refused.header("retry-after"), "1");
    wait_until("it is served again", || client.get("/health").status == 200);
}

#[test]
fn watchers_are_limited_and_who_is_too_many_is_told() {
    let server = limited(|limits| limits.max_watchers = 1);
    let address = server.address();
    let mut first = Client::to(address);
    let ask = b"GET /v1/watch?wait_ms=60000 HTTP/1.1\r\nHost: t\r\n\r\n";
    first.0.get_mut().write_all(ask).unwrap();
    let mut client = Client::to(address);
    wait_until("it watches", || client.get("/metrics").text().contains("te_metadata_watchers 1\n"));
    let second = client.get("/v1/watch?wait_ms=60000");
    assert_eq!((second.status, second.header("retry-after")), (503, "2"));
    drop(first);
    wait_until("it is forgotten", || client.get("/v1/watch?wait_ms=1").status == 200);
}

#[test]
fn a_full_server_says_so_and_goes_on() {
    let server = limited(|limits| limits.max_keys = 2);
    let mut client = Client::to(server.address());
    assert_eq!(client.put("a", &[], "v").status, 200);
    assert_eq!(client.put("b", &[], "v").status, 200);
    let full = client.put("c", &[], "v");
    assert_eq!((full.status, full.text()), (507, "{\"error\":\"the limit of 2 keys is reached\"}"));
    assert_eq!(client.put("a", &[], "w").status, 200);
    client.delete("b", &[]);
    assert_eq!(client.put("c", &[], "v").status, 200);
}

#[test]
fn bodies_that_are_being_received_are_limited_all_together() {
    let server = limited(|limits| (limits.max_value, limits.max_body_bytes) = (1 << 20, 1 << 20));
    let mut slow = TcpStream::connect(server.address()).unwrap();
    let head = b"PUT /metadata?key=slow HTTP/1.1\r\nHost: t\r\nContent-Length: 1000000\r\n\r\n";
    slow.write_all(head).unwrap();
    slow.write_all(&vec![b'x'; 900_000]).unwrap();
    let mut client = Client::to(server.address());
    wait_until("the room is taken", || {
        client.get("/metrics").text().contains("te_metadata_body_bytes 900000\n")
    });
    assert_eq!(client.put("k", &[], &"x".repeat(200_000)).status, 503);
    assert_eq!(client.put("k", &[], "small").status, 200);
    slow.write_all(&vec![b'x'; 100_000]).unwrap();
    wait_until("the slow one is done", || client.value("slow").is_some());
    assert_eq!(client.put("k", &[], &"x".repeat(200_000)).status, 200);
}

#[test]
fn j38_nonsense_is_answered_or_closed_and_nobody_else_notices() {
    let server = limited(|_| ());
    let long = format!("GET /metadata?key={} HTTP/1.1\r\n\r\n", "k".repeat(300_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(2000));
    let nonsense: [&[u8]; 7] = [
        b"\x00\x00\x00\x00\x00\x00\x00\x08\x01{}", b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n",
        b"PUT /metadata?key=k HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"PUT /metadata?key=k HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        long.as_bytes(), many.as_bytes(),
    ];
    for bytes in nonsense {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let (text, _) = until_closed(&mut stream);
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 4"), "{text}");
    }
    assert_eq!(Client::to(server.address()).get("/health").status, 200);
}

#[test]
fn the_end_answers_those_who_watch_and_cuts_off_those_who_stall() {
    let server = limited(|limits| limits.shutdown_timeout = SHORT);
    let address = server.address();
    let mut watcher = Client::to(address);
    let ask = b"GET /v1/watch?wait_ms=60000 HTTP/1.1\r\nHost: t\r\n\r\n";
    watcher.0.get_mut().write_all(ask).unwrap();
    let mut client = Client::to(address);
    wait_until("it watches", || client.get("/metrics").text().contains("te_metadata_watchers 1\n"));
    let mut stalled = TcpStream::connect(address).unwrap();
    let head = b"PUT /metadata?key=k HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\nabc";
    stalled.write_all(head).unwrap();
    let ended = thread::spawn(move || timed(|| server.shutdown()).1);
    assert_eq!(watcher.answer("GET").unwrap().status, 200);
    let time = ended.join().unwrap();
    assert!(time < Duration::from_secs(5), "{time:?}");
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}
