//! What needs no redis; the rest of the contract is checked on a real one by the suite `metadata`.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::script::pattern_of;
use crate::{MetadataStore, StoreError, StoreOptions, StorePhase, StoreUri, open_store};

fn open(listener: &TcpListener) -> Arc<dyn MetadataStore> {
    let uri = StoreUri::parse(&format!("redis://{}", listener.local_addr().unwrap())).unwrap();
    let options =
        StoreOptions { call_timeout: Duration::from_millis(400), ..StoreOptions::default() };
    open_store(&uri, &options).unwrap()
}

#[test]
fn a_prefix_is_no_pattern() {
    assert_eq!(pattern_of("a/b"), "a/b*");
    assert_eq!(pattern_of("[x]*?\\^"), "\\[x\\]\\*\\?\\\\\\^*");
}

#[test]
fn fb22_a_redis_that_is_down_is_not_an_absent_key() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = open(&listener);
    drop(listener);
    let error = store.get("k").unwrap_err();
    assert_eq!(error.phase(), Some(StorePhase::Connect), "{error:?}");
    assert!(error.is_retryable());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test measures a bound")]
fn fault18_a_hanging_redis_costs_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = open(&listener);
    let start = Instant::now();
    let error = store.get("k").unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(error.phase(), Some(StorePhase::Exchange), "{error:?}");
}

#[test]
fn nonsense_is_named_and_ends_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = open(&listener);
    let server = std::thread::spawn(move || {
        for answer in ["HTTP/1.1 400 Bad Request\r\n", ":7\r\n", "-NOPERM not you\r\n"] {
            let (mut client, _) = listener.accept().unwrap();
            let mut question = [0; 4096];
            let _ = client.read(&mut question).unwrap();
            client.write_all(answer.as_bytes()).unwrap();
        }
    });
    for expected in ["Malformed", "Malformed", "Unauthorised"] {
        let error: StoreError = store.get("k").unwrap_err();
        assert!(format!("{error:?}").starts_with(expected), "{expected}: {error:?}");
    }
    server.join().unwrap();
}
