//! Closing an engine that asks peers who do not answer.
#![cfg(feature = "tcp")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests read the clock")]

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use te_engine::{
    EngineConfig, EngineError, Notify, NotifyOutcome, OpenError, RegisterOptions, TransferEngine,
    TransferRequest,
};
use te_metadata::{KeySpace, MemoryStore, MetadataStore, RpcMeta, SegmentName};

const LIMIT: Duration = Duration::from_secs(20);

/// Closing needs no deadline to pass; the shortest one of a question is 10 s.
const SOON: Duration = Duration::from_secs(3);

/// A handshake port that accepts and says nothing, and what it accepted.
fn silent() -> (u16, Receiver<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, asked) = channel();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            if sender.send(stream).is_err() {
                return;
            }
        }
    });
    (port, asked)
}

fn engine(store: &Arc<MemoryStore>, name: &str) -> TransferEngine {
    let store = Arc::clone(store) as Arc<dyn MetadataStore>;
    // Nobody looks after the record that the test puts over one of these.
    let day = Duration::from_secs(24 * 3600);
    let config = EngineConfig::default().adjust(|s| s.metadata.verify_interval = day).unwrap();
    TransferEngine::builder().name(name).store(store).config(config).build().unwrap()
}

fn note() -> Notify {
    Notify { name: "a".into(), msg: "the data are there".into() }
}

#[test]
fn closing_ends_notifications_that_wait_for_a_silent_peer_and_those_behind_them() {
    // Issue, item 7: more than the control threads can send at once, all to a peer that is silent.
    const N: usize = 24;
    let store = Arc::new(MemoryStore::new());
    let (a, b) = (engine(&store, "127.0.0.1:1"), engine(&store, "127.0.0.1:2"));
    let (from, to) = (a.allocate(4096).unwrap(), b.allocate(4096).unwrap());
    a.register(&from, RegisterOptions::default()).unwrap();
    b.register(&to, RegisterOptions::default()).unwrap();
    let target = a.open_segment("127.0.0.1:2").unwrap();
    let (rpc_port, asked) = silent();
    let host = "127.0.0.1".into();
    let record = RpcMeta { ip_or_host_name: host, rpc_port, te_incarnation: None };
    let key = KeySpace::new(None).rpc_meta(&SegmentName::parse("127.0.0.1:2").unwrap());
    store.put(&key, &record.encode()).unwrap();
    let batches: Vec<_> = (0..N)
        .map(|_| {
            let batch = a.allocate_batch(1).unwrap();
            let write = TransferRequest::write(from.range(0, 64).unwrap(), target, to.address());
            a.submit_with_notify(batch, &[write], note()).unwrap();
            batch
        })
        .collect();
    // As many as there are control threads; the others wait behind them.
    let held: Vec<_> = (0..16).map(|_| asked.recv_timeout(LIMIT).unwrap()).collect();
    let begun = Instant::now();
    let report = a.close(LIMIT);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert!(report.joined, "{report:?}");
    for batch in batches {
        let status = a.batch_status(batch).unwrap();
        assert!(status.state.is_final(), "{status:?}");
        assert!(matches!(status.notify, NotifyOutcome::Failed(_)), "{status:?}");
        assert!(!status.notify.is_full());
    }
    drop(held);
}

#[test]
fn closing_ends_every_call_that_waits_for_a_silent_peer() {
    let a = TransferEngine::builder().name("127.0.0.1").build().unwrap();
    let (port, asked) = silent();
    let name = format!("127.0.0.1:{port}");
    let begun = thread::scope(|scope| {
        let opening = scope.spawn(|| a.open_segment(&name).map(drop).unwrap_err());
        let open = asked.recv_timeout(LIMIT).unwrap();
        // Waits for the fetch of the first.
        let second = scope.spawn(|| a.open_segment(&name).map(drop).unwrap_err());
        let notifying = scope.spawn(|| a.notify(&name, &note()).unwrap_err());
        let probing = scope.spawn(|| a.probe(&name, LIMIT).map(drop).unwrap_err());
        let others = [(); 2].map(|()| asked.recv_timeout(LIMIT).unwrap());
        let begun = Instant::now();
        assert!(a.close(LIMIT).joined);
        for failed in [opening.join().unwrap(), second.join().unwrap()] {
            let wanted =
                matches!(&failed, OpenError::Resolve { cause, .. } if !cause.is_retryable());
            assert!(wanted || matches!(failed, OpenError::Closed), "{failed:?}");
        }
        for failed in [notifying.join().unwrap(), probing.join().unwrap()] {
            let wanted = matches!(&failed, EngineError::Peer(cause) if cause.is_interrupted());
            assert!(wanted, "{failed:?}");
        }
        drop((open, others));
        begun
    });
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    for refused in [a.notify(&name, &note()), a.probe(&name, LIMIT).map(drop)] {
        assert!(matches!(refused, Err(EngineError::Open(OpenError::Closed))), "{refused:?}");
    }
}
