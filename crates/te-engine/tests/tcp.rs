//! Whole engines over real TCP on loopback, in one process: P2P, both directions, faults.
#![cfg(feature = "tcp")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests read the clock")]

use std::time::{Duration, Instant};

use te_engine::{
    BatchId, EngineConfig, FaultClass, Notify, NotifyOutcome, Region, RegisterOptions,
    RemoteAccess, RemoteSide, SegmentId, TaskState, TransferEngine, TransferError, TransferRequest,
    WaitError,
};

const SIZE: u64 = 8 << 20;
const LIMIT: Duration = Duration::from_secs(20);

struct Node {
    engine: TransferEngine,
    region: Region,
}

fn node() -> Node {
    node_with(EngineConfig::default())
}

fn node_with(config: EngineConfig) -> Node {
    let builder = TransferEngine::builder().name("127.0.0.1").config(config).only(["tcp"]);
    let engine = builder.build().unwrap();
    let region = engine.allocate(SIZE).unwrap();
    engine.register(&region, RegisterOptions::default()).unwrap();
    Node { engine, region }
}

fn open(from: &Node, to: &Node) -> SegmentId {
    from.engine.open_segment(to.engine.local_name().as_str()).unwrap()
}

fn pattern(seed: u64, len: u64) -> Vec<u8> {
    let byte = |i: u64| (i.wrapping_mul(131).wrapping_add(seed) ^ (i >> 11)).to_le_bytes()[0];
    (0..len).map(byte).collect()
}

fn bytes_of(region: &Region, offset: u64, len: u64) -> Vec<u8> {
    let mut out = vec![0; usize::try_from(len).unwrap()];
    region.read_into(offset, &mut out).unwrap();
    out
}

fn submit(node: &Node, requests: &[TransferRequest]) -> BatchId {
    let batch = node.engine.allocate_batch(requests.len()).unwrap();
    node.engine.submit(batch, requests).unwrap();
    batch
}

#[test]
fn j49_write_then_read_gives_equal_bytes_twice_in_a_row() {
    let (a, b) = (node(), node());
    let target = open(&a, &b);
    for seed in [3, 4] {
        let len = 4_096_000;
        a.region.write_from(1, &pattern(seed, len)).unwrap();
        let local = a.region.range(1, len).unwrap();
        let write = TransferRequest::write(local, target, b.region.address() + 3);
        assert_eq!(a.engine.transfer(&[write], LIMIT).unwrap(), len);
        assert!(bytes_of(&b.region, 3, len) == pattern(seed, len));
        let back = a.region.range(len + 7, len).unwrap();
        let read = TransferRequest::read(back, target, b.region.address() + 3);
        assert_eq!(a.engine.transfer(&[read], LIMIT).unwrap(), len);
        assert!(bytes_of(&a.region, len + 7, len) == pattern(seed, len));
    }
}

#[test]
fn a_batch_of_100_000_requests_completes() {
    // Peer fault 12, issue: batches of 100 000 requests work.
    let (a, b) = (node(), node());
    let target = open(&a, &b);
    a.region.write_from(0, &pattern(9, SIZE)).unwrap();
    let requests: Vec<_> = (0..100_000)
        .map(|i| {
            let local = a.region.range(i * 83, 83).unwrap();
            TransferRequest::write(local, target, b.region.address() + i * 83)
        })
        .collect();
    let batch = submit(&a, &requests);
    let status = a.engine.wait(batch, Duration::from_secs(60)).unwrap();
    assert_eq!((status.completed, status.failed), (100_000, 0), "{:?}", status.fault);
    assert!(bytes_of(&b.region, 0, 8_300_000) == pattern(9, 8_300_000));
    // J116: polling n tasks costs O(n), freeing needs no polling.
    let begun = Instant::now();
    for i in 0..100_000 {
        assert_eq!(a.engine.status(batch, i).unwrap().state, TaskState::Completed);
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "polling is O(1) per task");
    a.engine.free_batch(batch).unwrap();
}

#[test]
fn fault24_one_bad_entry_fails_alone() {
    let (a, b) = (node(), node());
    let target = open(&a, &b);
    a.region.write_from(0, &pattern(1, 300)).unwrap();
    let write =
        |at: u64, to: u64| TransferRequest::write(a.region.range(at, 100).unwrap(), target, to);
    let base = b.region.address();
    let batch = submit(&a, &[write(0, base), write(100, base + SIZE - 50), write(200, base + 200)]);
    a.engine.wait(batch, LIMIT).unwrap();
    let states: Vec<_> = (0..3).map(|i| a.engine.status(batch, i).unwrap()).collect();
    assert_eq!(states[0].state, TaskState::Completed);
    assert_eq!(states[2].state, TaskState::Completed);
    assert_eq!((states[1].state, states[1].remote), (TaskState::Failed, RemoteSide::Untouched));
    let fault = states[1].fault.as_ref().unwrap();
    assert_eq!((fault.index, fault.fault.class), (1, FaultClass::Refused));
    assert!(fault.to_string().contains(b.engine.local_name().as_str()), "{fault}");
    assert!(bytes_of(&b.region, 200, 100) == pattern(1, 300)[200..]);
}

#[test]
fn fault25_zero_length_completes_at_once_and_needs_an_open_target() {
    let (a, b) = (node(), node());
    let target = open(&a, &b);
    let empty = |offset| TransferRequest::read(a.region.range(0, 0).unwrap(), target, offset);
    let batch = submit(&a, &[empty(0), empty(u64::MAX)]);
    let status = a.engine.batch_status(batch).unwrap();
    assert_eq!((status.state, status.completed), (TaskState::Completed, 2));
    let nobody = TransferRequest::read(a.region.range(0, 0).unwrap(), SegmentId::from_u64(77), 0);
    let refused = a.engine.transfer(&[nobody], LIMIT).unwrap_err();
    assert!(matches!(
        refused,
        TransferError::Submit(te_engine::SubmitError::UnknownSegment { .. })
    ));
}

#[test]
fn a_notification_follows_the_data_and_the_batch_waits_for_it() {
    let (a, b) = (node(), node());
    let target = open(&a, &b);
    let write = TransferRequest::write(a.region.range(0, 64).unwrap(), target, b.region.address());
    let notify = Notify { name: "a".into(), msg: "64 bytes are there".into() };
    let batch = a.engine.allocate_batch(1).unwrap();
    a.engine.submit_with_notify(batch, &[write], notify.clone()).unwrap();
    let status = a.engine.wait(batch, LIMIT).unwrap();
    assert_eq!(status.notify, NotifyOutcome::Delivered);
    assert_eq!(b.engine.take_notifies(), vec![notify.clone()]);
    assert!(b.engine.take_notifies().is_empty());
    a.engine.notify(b.engine.local_name().as_str(), &notify).unwrap();
    assert_eq!(b.engine.take_notifies(), vec![notify]);
    assert!(a.engine.probe(b.engine.local_name().as_str(), LIMIT).unwrap() < LIMIT);
}

#[test]
fn a_batch_that_failed_sends_no_notification() {
    let (a, b) = (node(), node());
    let target = open(&a, &b);
    let bad = TransferRequest::write(a.region.range(0, 64).unwrap(), target, 0x10);
    let batch = a.engine.allocate_batch(1).unwrap();
    let notify = Notify { name: "a".into(), msg: "never".into() };
    a.engine.submit_with_notify(batch, &[bad], notify).unwrap();
    let status = a.engine.wait(batch, LIMIT).unwrap();
    assert_eq!((status.state, status.notify), (TaskState::Failed, NotifyOutcome::None));
    assert!(b.engine.take_notifies().is_empty());
}

#[test]
fn j112_private_memory_is_reached_by_nobody_and_read_only_memory_is_not_written() {
    let (a, b) = (node(), node());
    let secret = b.engine.allocate(4096).unwrap();
    let private = RegisterOptions { remote: RemoteAccess::None, ..RegisterOptions::default() };
    b.engine.register(&secret, private).unwrap();
    let public = b.engine.allocate(4096).unwrap();
    let read_only = RegisterOptions { remote: RemoteAccess::Read, ..RegisterOptions::default() };
    b.engine.register(&public, read_only).unwrap();
    let target = open(&a, &b);
    let local = || a.region.range(0, 64).unwrap();
    let failed = |request| {
        let error = a.engine.transfer(&[request], LIMIT).unwrap_err();
        let TransferError::Failed { first, .. } = error else { panic!("{error}") };
        assert_eq!(first.fault.class, FaultClass::Refused, "{first}");
    };
    failed(TransferRequest::read(local(), target, secret.address()));
    failed(TransferRequest::write(local(), target, secret.address()));
    failed(TransferRequest::write(local(), target, public.address()));
    a.engine.transfer(&[TransferRequest::read(local(), target, public.address())], LIMIT).unwrap();
}

#[test]
fn fault09_a_peer_that_left_fails_requests_at_once_every_time() {
    let (a, b) = (node(), node());
    let target = open(&a, &b);
    let address = b.region.address();
    let write = || TransferRequest::write(a.region.range(0, 4096).unwrap(), target, address);
    a.engine.transfer(&[write()], LIMIT).unwrap();
    b.engine.close(LIMIT);
    for round in 0..5 {
        let begun = Instant::now();
        let error = a.engine.transfer(&vec![write(); 64], LIMIT).unwrap_err();
        let took = begun.elapsed();
        assert!(took < Duration::from_millis(500), "round {round} took {took:?}: {error}");
        let TransferError::Failed { failed: 64, first, .. } = error else { panic!("{error}") };
        assert!(matches!(first.fault.class, FaultClass::Peer | FaultClass::Rail), "{first}");
    }
}

#[test]
fn waiting_is_bounded_and_cancel_frees_the_buffer() {
    // A peer that accepts and never answers: the caller gets its buffer back all the same.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (a, b) = (node(), node());
    let descriptor = {
        let mut d = b.engine.descriptor();
        d.tcp.data_port = Some(silent.local_addr().unwrap().port());
        // A Mooncake peer: over version 3 the request would wait for the answer to the hello.
        d.te = None;
        d
    };
    let peer = fake_peer(descriptor.encode());
    let target = a.engine.open_segment(&format!("127.0.0.1:{peer}")).unwrap();
    let write = TransferRequest::write(a.region.whole(), target, b.region.address());
    let batch = submit(&a, &[write]);
    let early = a.engine.wait(batch, Duration::from_millis(50));
    assert!(matches!(early, Err(WaitError::TimedOut { open: 1, total: 1, .. })), "{early:?}");
    a.engine.cancel(batch).unwrap();
    let status = a.engine.wait(batch, LIMIT).unwrap();
    assert_eq!(status.state, TaskState::Failed);
    assert_eq!(a.engine.status(batch, 0).unwrap().state, TaskState::Canceled);
    assert_eq!(a.engine.status(batch, 0).unwrap().remote, RemoteSide::InDoubt);
    a.engine.unregister(a.region.address()).unwrap();
}

/// A handshake port that answers every question with one body.
fn fake_peer(body: Vec<u8>) -> u16 {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(64) {
            let mut stream = stream.unwrap();
            let mut head = [0; 9];
            stream.read_exact(&mut head).unwrap();
            let len = u64::from_le_bytes(head[..8].try_into().unwrap()) - 1;
            std::io::copy(&mut std::io::Read::by_ref(&mut stream).take(len), &mut std::io::sink())
                .unwrap();
            let mut answer = (body.len() as u64 + 1).to_le_bytes().to_vec();
            answer.push(head[8]);
            answer.extend(&body);
            stream.write_all(&answer).unwrap();
        }
    });
    port
}

#[test]
fn closing_with_work_under_way_settles_it_and_joins_everything() {
    let (a, b) = (node(), node());
    let target = open(&a, &b);
    let requests: Vec<_> = (0..2000)
        .map(|i| {
            let local = a.region.range(i * 4096, 4096).unwrap();
            TransferRequest::write(local, target, b.region.address() + i * 4096)
        })
        .collect();
    let batch = submit(&a, &requests);
    let begun = Instant::now();
    let report = a.engine.close(Duration::from_secs(5));
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!((report.open_tasks, report.joined), (0, true));
    let status = a.engine.batch_status(batch).unwrap();
    assert_eq!(status.completed + status.failed, 2000);
    assert!(a.engine.open_segment("127.0.0.1:1").is_err());
}

#[test]
fn both_directions_at_once_and_loopback_to_oneself() {
    let (a, b) = (node(), node());
    let (to_b, to_a) = (open(&a, &b), open(&b, &a));
    let own = a.engine.open_segment(a.engine.local_name().as_str()).unwrap();
    assert_eq!(own, SegmentId::LOCAL);
    a.region.write_from(0, &pattern(1, SIZE / 4)).unwrap();
    b.region.write_from(0, &pattern(2, SIZE / 4)).unwrap();
    std::thread::scope(|scope| {
        let there = scope.spawn(|| {
            let local = a.region.range(0, SIZE / 4).unwrap();
            let write = TransferRequest::write(local.clone(), to_b, b.region.address() + SIZE / 2);
            let copy = TransferRequest::write(local, own, a.region.address() + SIZE / 4);
            a.engine.transfer(&[write, copy], LIMIT)
        });
        let local = b.region.range(0, SIZE / 4).unwrap();
        let write = TransferRequest::write(local, to_a, a.region.address() + SIZE / 2);
        b.engine.transfer(&[write], LIMIT).unwrap();
        there.join().unwrap().unwrap();
    });
    assert!(bytes_of(&b.region, SIZE / 2, SIZE / 4) == pattern(1, SIZE / 4));
    assert!(bytes_of(&a.region, SIZE / 2, SIZE / 4) == pattern(2, SIZE / 4));
    assert!(bytes_of(&a.region, SIZE / 4, SIZE / 4) == pattern(1, SIZE / 4));
}

#[cfg(feature = "async")]
#[test]
fn futures_end_when_the_bytes_are_there_and_dropping_one_frees_nothing() {
    let (a, b) = (node(), node());
    let target = open(&a, &b);
    a.region.write_from(0, &pattern(5, 1 << 20)).unwrap();
    let local = a.region.range(0, 1 << 20).unwrap();
    let write = TransferRequest::write(local, target, b.region.address());
    let status = block_on(a.engine.transfer_async(std::slice::from_ref(&write)).unwrap());
    assert_eq!((status.state, status.bytes), (TaskState::Completed, 1 << 20));
    assert!(bytes_of(&b.region, 0, 1 << 20) == pattern(5, 1 << 20));
    let batch = submit(&a, &[write]);
    drop(a.engine.wait_async(batch).unwrap());
    assert_eq!(block_on(a.engine.wait_async(batch).unwrap()).completed, 1);
    a.engine.free_batch(batch).unwrap();
}

#[cfg(feature = "async")]
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        std::thread::park_timeout(LIMIT);
    }
}

/// Resident bytes of this process.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

fn count(dir: &str) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

#[test]
fn engines_come_and_go_without_a_trace() {
    // An engine owns its transports, and they report to it: no circle keeps either alive.
    let round = || {
        let (a, b) = (node(), node());
        let target = open(&a, &b);
        let write = TransferRequest::write(a.region.whole(), target, b.region.address());
        a.engine.transfer(&[write], LIMIT).unwrap();
    };
    (0..3).for_each(|_| round());
    let before = resident();
    (0..20).for_each(|_| round());
    // Other tests of this program run beside this one, each with a few such engines.
    let grown = resident().saturating_sub(before);
    assert!(grown < 20 * SIZE, "{grown} bytes are left of 20 pairs that used {SIZE} each twice");
    assert!(count("/proc/self/task") < 200 && count("/proc/self/fd") < 400);
}

#[test]
fn k7_an_engine_without_room_tells_itself_so() {
    let small = EngineConfig::default().adjust(|settings| settings.engine.notify_queue = 1);
    let a = node_with(small.unwrap());
    let target = a.engine.open_segment(a.engine.local_name().as_str()).unwrap();
    let outcome = |msg: &str| {
        let write =
            TransferRequest::write(a.region.range(0, 64).unwrap(), target, a.region.address() + 64);
        let batch = a.engine.allocate_batch(1).unwrap();
        let notify = Notify { name: "a".into(), msg: msg.into() };
        a.engine.submit_with_notify(batch, &[write], notify).unwrap();
        a.engine.wait(batch, LIMIT).unwrap().notify
    };
    assert_eq!(outcome("1"), NotifyOutcome::Delivered);
    assert!(outcome("2").is_full());
    assert_eq!(a.engine.take_notifies().len(), 1);
    assert_eq!(outcome("3"), NotifyOutcome::Delivered);
}

#[test]
fn k7_a_receiver_without_room_says_so_and_takes_again_later() {
    // K7, issue, item 6: "full" is an answer of its own, for a notification alone and with a batch.
    let small = EngineConfig::default().adjust(|settings| settings.engine.notify_queue = 2);
    let (a, b) = (node(), node_with(small.unwrap()));
    let (target, name) = (open(&a, &b), b.engine.local_name().as_str().to_owned());
    let notify = Notify { name: "a".into(), msg: "m".into() };
    for _ in 0..2 {
        a.engine.notify(&name, &notify).unwrap();
        a.engine.notify(&name, &notify).unwrap();
        let refused = a.engine.notify(&name, &notify).unwrap_err();
        assert!(refused.is_full() && refused.is_retryable(), "{refused}");
        let local = a.region.range(0, 64).unwrap();
        let write = TransferRequest::write(local, target, b.region.address());
        let batch = a.engine.allocate_batch(1).unwrap();
        a.engine.submit_with_notify(batch, &[write], notify.clone()).unwrap();
        let status = a.engine.wait(batch, LIMIT).unwrap();
        assert_eq!((status.state, status.failed), (TaskState::Completed, 0));
        assert!(status.notify.is_full(), "{status:?}");
        let cause = status.notify.cause().unwrap();
        assert!(cause.contains("is full: 2 notifications wait"), "{cause}");
        assert_eq!(b.engine.take_notifies().len(), 2);
    }
}
