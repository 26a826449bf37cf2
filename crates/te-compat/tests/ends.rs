//! How transfers and engines end: waits, cancels, bells, restarted peers, quarantine.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests fail by panicking, and read the clock"
)]

mod common;

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use common::{LIMIT, SIZE, buffer, config, node, node_of, pattern, piece, promise};
use te_compat::{
    Bell, Code, Engine, Failure, LocalState, Notify, NotifyOutcome, OPCODE_READ, OPCODE_WRITE,
    Opcode, Options, Request, Scatter, TaskState, TransferOptions,
};
use te_engine::TransferEngine;
use te_transport::Transport;
use te_transport::testing::{FaultyTransport, Twist};
use te_transport_tcp::{TcpConfig, TcpTransport};

#[test]
fn a156_a_restarted_peer_is_found_again() {
    // A156, FB03, peer fault 13: the same name, another process's addresses; one failure at most.
    let a = node(&["tcp"]);
    let options = || Options::new("P2PHANDSHAKE", "127.0.0.1").config(config(&["tcp"]));
    let first = node_of(options());
    let (host, port) = (first.name(), first.engine.rpc_port());
    a.fill(0, &pattern(4, 4096));
    a.engine.transfer_sync(Opcode::Write, &host, piece(a.at(0), first.at(0), 4096)).unwrap();
    let old = first.at(0);
    first.engine.close(LIMIT).unwrap();
    let failure =
        a.engine.transfer_sync(Opcode::Write, &host, piece(a.at(0), old, 4096)).unwrap_err();
    assert_eq!(failure.facts().peer.as_deref(), Some(host.as_str()), "{failure}");
    assert_eq!(failure.facts().local, LocalState::Free);
    assert!(failure.facts().remote.is_some(), "{failure:?}");
    let second = node_of(options().port(port));
    assert_eq!(second.name(), host);
    let begun = Instant::now();
    let write = || a.engine.transfer_sync(Opcode::Write, &host, piece(a.at(0), second.at(0), 4096));
    write().or_else(|_| write()).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(second.bytes(0, 4096) == pattern(4, 4096));
    drop(first);
}

#[test]
fn a_transfer_tells_of_its_end_by_every_way() {
    // Waiting, asking, a function and a bell; before the end and after it.
    let (a, b) = (node(&["tcp"]), node(&["tcp"]));
    let target = a.engine.open_segment(&b.name()).unwrap();
    a.fill(0, &pattern(6, SIZE));
    let write =
        Request { opcode: OPCODE_WRITE, source: a.at(0), target, offset: b.at(0), len: SIZE };
    let options = TransferOptions { checked: true, ..TransferOptions::default() };
    let transfer = a.engine.begin([write], options).unwrap();
    let bell = Arc::new(Bell::new().unwrap());
    let (sender, receiver) = channel();
    let early = sender.clone();
    transfer.on_end(move || early.send("early").unwrap()).unwrap();
    transfer.ring(&bell, 17).unwrap();
    assert_eq!(receiver.recv_timeout(LIMIT).unwrap(), "early");
    let state = transfer.wait(LIMIT).unwrap();
    assert_eq!((state.state, state.bytes), (TaskState::Completed, SIZE));
    assert_eq!(transfer.task(0).unwrap().transport, Some("tcp"));
    common::until("the bell rings", || bell.take() == [17]);
    assert!(bell.take().is_empty());
    transfer.on_end(move || sender.send("late").unwrap()).unwrap();
    assert_eq!(receiver.recv().unwrap(), "late", "at once");
    assert!(b.bytes(0, SIZE) == pattern(6, SIZE));
}

/// How much may be outstanding there.
const ROOM: u16 = 16;

type Faulty = (common::Node, Arc<FaultyTransport<TcpTransport>>);

/// An engine over TCP whose slices can be kept from ending.
fn faulty() -> Faulty {
    faulty_with(Duration::from_millis(100), Duration::from_secs(1))
}

fn faulty_with(quarantine_after: Duration, shutdown_timeout: Duration) -> Faulty {
    let transport = Arc::new(FaultyTransport::new(TcpTransport::new(TcpConfig::default())));
    let config = config(&[]).adjust(|s| {
        s.engine.unregister_timeout = Duration::from_millis(50);
        s.engine.quarantine_after = quarantine_after;
        s.engine.shutdown_timeout = shutdown_timeout;
        s.engine.max_requests = ROOM.into();
    });
    let engine = TransferEngine::builder()
        .config(config.unwrap())
        .transport(Arc::clone(&transport) as Arc<dyn Transport>)
        .build()
        .unwrap();
    let engine = Engine::over(engine, promise()).unwrap();
    let region = engine.allocate(SIZE).unwrap();
    engine.register(buffer(&region), "*", true).unwrap();
    (common::Node { engine, region }, transport)
}

#[test]
fn a54_fault03_memory_in_quarantine_is_busy_until_it_is_back() {
    // Peer fault 3, A54: the call ends, its failure says so, and unregistering answers −4.
    let ((a, transport), b) = (faulty(), node(&["tcp"]));
    let target = a.engine.open_segment(&b.name()).unwrap();
    transport.twist_every_slice(Twist::Hold);
    let write = Request { opcode: OPCODE_WRITE, source: a.at(0), target, offset: b.at(0), len: 64 };
    let limit = Some(Duration::from_millis(50));
    let options = TransferOptions { timeout: limit, ..TransferOptions::default() };
    let transfer = a.engine.begin([write], options).unwrap();
    let early = transfer.wait(Duration::ZERO).unwrap_err();
    assert_eq!((early.code(), early.facts().local), (Code::Clock, LocalState::InUse));
    let state = transfer.wait(LIMIT).unwrap();
    assert_eq!((state.state, state.quarantined), (TaskState::Failed, 1));
    let failure = state.outcome().unwrap_err();
    assert_eq!((failure.code().as_i32(), failure.facts().is_timeout), (-301, true));
    assert_eq!(failure.facts().local, LocalState::Quarantined);
    assert!(failure.to_string().contains("quarantine"), "{failure}");
    assert_eq!(a.engine.quarantined_bytes().unwrap(), 64);
    let busy = a.engine.unregister(a.at(0)).unwrap_err();
    assert_eq!((busy.code().as_i32(), busy.facts().local), (-4, LocalState::InUse));
    let refused = a.engine.begin([write], TransferOptions::default()).unwrap_err();
    assert_eq!(refused.facts().phase, "submit", "it takes no new work");
    transport.release();
    assert!(a.engine.wait_quiescent(LIMIT).unwrap());
    a.engine.unregister(a.at(0)).unwrap();
}

#[test]
fn a28_an_open_batch_is_busy_and_a_cancelled_one_ends() {
    // A28 and the code of A53.
    let ((a, transport), b) = (faulty(), node(&["tcp"]));
    let target = a.engine.open_segment(&b.name()).unwrap();
    transport.twist_every_slice(Twist::Hold);
    let write = Request { opcode: OPCODE_WRITE, source: a.at(0), target, offset: b.at(0), len: 64 };
    let batch = a.engine.allocate_batch(1).unwrap();
    a.engine.submit(batch, [write]).unwrap();
    assert_eq!(a.engine.task_status(batch, 0).unwrap().state, TaskState::Waiting);
    assert_eq!(a.engine.free_batch(batch).unwrap_err().code().as_status(), 4);
    a.engine.cancel_batch(batch).unwrap();
    a.engine.wait_batch(batch, LIMIT).unwrap();
    assert_eq!(a.engine.task_status(batch, 0).unwrap().state, TaskState::Canceled);
    a.engine.free_batch(batch).unwrap();
    transport.release();
}

#[test]
fn a161_a_time_that_ran_out_is_told_once_and_has_failed_then() {
    // A160, A161: −2, then −1 and the number is free; the limit is that of the configuration.
    let ((a, transport), b) = (faulty(), node(&["tcp"]));
    transport.twist_every_slice(Twist::Hold);
    let (host, one) = (b.name(), [piece(a.at(0), b.at(0), 64)]);
    let begun = Instant::now();
    let begin = || a.engine.transfer_async(Opcode::Write, &host, &one, None).unwrap();
    let (number, other) = (begin(), begin());
    let failure = a.engine.await_transfers(&[other]).unwrap_err();
    assert!(failure.facts().is_timeout, "{failure}");
    assert_eq!(failure.facts().local, LocalState::Quarantined);
    assert!((5..10).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    common::until("it is told", || a.engine.check_transfer(number).unwrap().as_i32() == -2);
    assert_eq!(a.engine.check_transfer(number).unwrap().as_i32(), -1);
    a.engine.check_transfer(number).unwrap_err();
    let sync = a.engine.transfer_sync(Opcode::Write, &host, one[0]).unwrap_err();
    assert_eq!(
        (sync.facts().is_timeout, sync.facts().local),
        (true, LocalState::Quarantined),
        "{sync}"
    );
    transport.release();
    assert!(a.engine.wait_quiescent(LIMIT).unwrap());
}

#[test]
fn fault28_no_notification_follows_what_was_refused_later() {
    // Peer fault 28, A76: the good request of the batch ends after the bad one was submitted.
    let ((a, transport), b) = (faulty(), node(&["tcp"]));
    let target = a.engine.open_segment(&b.name()).unwrap();
    transport.twist_every_slice(Twist::Hold);
    let good = Request { opcode: OPCODE_WRITE, source: a.at(0), target, offset: b.at(0), len: 64 };
    let batch = a.engine.allocate_batch(2).unwrap();
    let note = |msg: &str| Notify { name: "who".into(), msg: msg.into() };
    a.engine.submit_with_notify(batch, [good], note("all in place")).unwrap();
    a.engine.submit(batch, [Request { source: 4096, ..good }]).unwrap();
    let state = a.engine.batch_state(batch).unwrap();
    assert_eq!((state.state, state.completed, state.failed), (TaskState::Waiting, 0, 1));
    assert_eq!(a.engine.task_status(batch, 1).unwrap().state, TaskState::Failed, "at once");
    common::until("the slice is back", || transport.release() > 0);
    let state = a.engine.wait_batch(batch, LIMIT).unwrap();
    assert_eq!((state.state, state.completed, state.failed), (TaskState::Failed, 1, 1));
    assert_eq!(state.notify, NotifyOutcome::None);
    a.engine.notify_by_name(&b.name(), &note("later")).unwrap();
    common::until("the later one arrives", || {
        let seen = b.engine.take_notifies().unwrap();
        assert!(seen.iter().all(|it| it.msg == "later"), "{seen:?}");
        !seen.is_empty()
    });
}

#[test]
fn a83_what_was_scattered_is_free_or_in_quarantine_when_the_call_ends() {
    // A83, peer fault 3: closing an engine takes less time here than quarantine.
    let brief = Duration::from_millis(50);
    let ((a, transport), b) = (faulty_with(Duration::from_millis(600), brief), node(&["tcp"]));
    transport.twist_every_slice(Twist::Hold);
    let range = Scatter {
        op: Opcode::Read,
        segment: b.name(),
        remote_base: b.at(0),
        remote_len: 4096,
        local: a.at(0),
        local_len: 4096,
        local_offsets: vec![0],
        remote_offsets: vec![0],
        lengths: vec![4096],
    };
    let fragments = a.engine.scatter(vec![range], brief).unwrap();
    let outcome = fragments[0].outcome.clone().expect("the fragment has ended");
    let failure = Failure::from(&outcome.unwrap_err());
    assert_eq!(failure.facts().local, LocalState::Quarantined, "{failure}");
    assert_eq!(a.engine.quarantined_bytes().unwrap(), 4096);
    transport.release();
    assert!(a.engine.wait_quiescent(LIMIT).unwrap());
}

#[test]
fn a160_transfers_that_are_called_back_are_free_or_the_failure_says_what_they_are() {
    // A160: one fails at once; the other is held by its transport for longer than closing may take.
    let brief = Duration::from_millis(50);
    let ((a, transport), b) = (faulty_with(Duration::from_millis(600), brief), node(&["tcp"]));
    let host = b.name();
    let outside = piece(a.at(0), 4096, 64);
    let bad = a.engine.transfer_async(Opcode::Write, &host, &[outside], None).unwrap();
    common::until("it fails", || a.engine.batch_state(bad).unwrap().failed == 1);
    transport.twist_every_slice(Twist::Hold);
    let inside = piece(a.at(64), b.at(0), 64);
    let held = a.engine.transfer_async(Opcode::Write, &host, &[inside], None).unwrap();
    let failure = a.engine.await_transfers(&[bad, held]).unwrap_err();
    assert_eq!(failure.facts().local, LocalState::Quarantined, "{failure}");
    assert_eq!(a.engine.quarantined_bytes().unwrap(), 64);
    transport.release();
    assert!(a.engine.wait_quiescent(LIMIT).unwrap());
}

#[test]
fn a154_a_managed_buffer_that_moves_is_busy() {
    // A154: a block of an arena must not be handed out again while a read may write to it.
    let ((a, transport), b) = (faulty(), node(&["tcp"]));
    let target = a.engine.open_segment(&b.name()).unwrap();
    transport.twist_every_slice(Twist::Hold);
    let (block, other) =
        (a.engine.allocate_managed(100).unwrap(), a.engine.allocate_managed(100).unwrap());
    let read = Request { opcode: OPCODE_READ, source: block, target, offset: b.at(0), len: 100 };
    let options = TransferOptions { timeout: Some(LIMIT), ..TransferOptions::default() };
    let transfer = a.engine.begin([read], options).unwrap();
    let busy = |what| {
        let failure = a.engine.free_managed(block, 100).expect_err(what);
        assert_eq!((failure.code(), failure.facts().local), (Code::Busy, LocalState::InUse));
        assert!(failure.facts().is_retryable);
    };
    busy("it is being read into");
    a.engine.free_managed(other, 100).unwrap();
    transfer.cancel().unwrap();
    transfer.wait(LIMIT).unwrap();
    busy("a transport still holds it");
    common::until("the slice is back", || transport.release() > 0);
    assert!(a.engine.wait_quiescent(LIMIT).unwrap());
    a.engine.free_managed(block, 100).unwrap();
}

#[test]
fn j65_a_transfer_for_which_there_is_no_room_is_told_at_once_or_waited_for() {
    // J65, J66: no patience, a little, and room.
    let ((a, transport), b) = (faulty(), node(&["tcp"]));
    let target = a.engine.open_segment(&b.name()).unwrap();
    transport.twist_every_slice(Twist::Hold);
    let write = Request { opcode: OPCODE_WRITE, source: a.at(0), target, offset: b.at(0), len: 64 };
    let begin = |count, patience| {
        let options = TransferOptions { patience, ..TransferOptions::default() };
        a.engine.begin(std::iter::repeat_n(write, count), options)
    };
    let first = begin(ROOM.into(), None).unwrap();
    for patience in [Duration::ZERO, Duration::from_millis(60)] {
        let begun = Instant::now();
        let failure = begin(1, Some(patience)).unwrap_err();
        assert_eq!(failure.code(), Code::TooManyRequests, "{failure}");
        assert!(failure.facts().is_retryable && failure.facts().local == LocalState::Free);
        let waited = begun.elapsed();
        assert!(waited >= patience && waited < Duration::from_secs(3), "{waited:?}");
    }
    first.cancel().unwrap();
    first.wait(LIMIT).unwrap();
    begin(1, Some(Duration::ZERO)).unwrap().cancel().unwrap();
    transport.release();
}

#[test]
fn a_dropped_transfer_goes_on_and_is_freed() {
    let (a, b) = (node(&["tcp"]), node(&["tcp"]));
    let target = a.engine.open_segment(&b.name()).unwrap();
    a.fill(0, &pattern(9, SIZE));
    let write =
        Request { opcode: OPCODE_WRITE, source: a.at(0), target, offset: b.at(0), len: SIZE };
    let transfer = a.engine.begin([write], TransferOptions::default()).unwrap();
    let number = transfer.number();
    drop(transfer);
    common::until("the bytes are there", || b.bytes(0, SIZE) == pattern(9, SIZE));
    common::until("its number is free", || a.engine.batch_state(number).is_err());
}

#[test]
fn a13_calls_after_the_end_fail_and_ending_twice_is_nothing() {
    // A13: the peer follows a null pointer.
    let (a, b) = (node(&["tcp"]), node(&["tcp"]));
    let batch = a.engine.allocate_batch(1).unwrap();
    let report = a.engine.close(LIMIT).unwrap();
    assert!(report.joined && report.open_tasks == 0);
    a.engine.close(LIMIT).unwrap();
    assert!(a.engine.open_segment(&b.name()).is_err());
    let fresh = a.engine.allocate(64).unwrap();
    let refused = a.engine.register(buffer(&fresh), "*", true).unwrap_err();
    assert_eq!((refused.facts().phase, refused.code().as_i32()), ("closed", -1));
    let write = Request { opcode: 1, source: a.at(0), target: 0, offset: a.at(64), len: 8 };
    assert_eq!(a.engine.submit(batch, [write]).unwrap_err().facts().phase, "closed");
    let failure =
        a.engine.transfer_sync(Opcode::Write, &b.name(), piece(a.at(0), b.at(0), 8)).unwrap_err();
    assert_eq!((failure.facts().phase, failure.code().as_i32()), ("closed", -1));
    a.engine.unregister(a.at(0)).unwrap();
}

#[test]
fn i40_a_signal_closes_the_engines_and_ends_the_process() {
    // I40, I42: 128 and the signal's number; a forked child ends at once in the same way.
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        let code = common::exit_of_child(|| {
            let a = node(&["tcp"]);
            te_compat::enable_graceful_shutdown(&a.engine).unwrap();
            te_compat::enable_graceful_shutdown(&a.engine).unwrap();
            let child = common::exit_of_child(|| common::raise(signal));
            assert_eq!(child, 128 + signal);
            assert!(!a.engine.allocate_batch(1).unwrap().eq(&0), "the parent goes on");
            common::raise(signal)
        });
        assert_eq!(code, 128 + signal);
    }
}
