//! Transfers by host name and by batch, over TCP and within one process; bytes are compared.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use common::{LIMIT, Node, SIZE, leaked, node, pattern, piece, until};
use te_compat::{
    Code, INVALID_BATCH, LOCAL_SEGMENT, Notify, NotifyOutcome, OPCODE_READ, OPCODE_WRITE, Opcode,
    Request, Scatter, TaskState, pieces,
};

const PATHS: [&[&str]; 2] = [&["tcp"], &["local", "shm", "tcp"]];

fn pair(transports: &[&str]) -> (Node, Node) {
    (node(transports), node(transports))
}

fn note(msg: &str) -> Notify {
    Notify { name: "who".into(), msg: msg.into() }
}

#[test]
fn a156_sync_writes_and_reads_arrive() {
    // A156, A157: odd sizes at odd places, registered or not, over both paths.
    for path in PATHS {
        let (a, b) = pair(path);
        for (seed, len) in [(1, 1), (2, 4096), (3, 1_234_567)] {
            a.fill(3, &pattern(seed, len));
            let there = piece(a.at(3), b.at(11), len);
            assert_eq!(a.engine.transfer_sync(Opcode::Write, &b.name(), there).unwrap(), len);
            assert!(b.bytes(11, len) == pattern(seed, len));
            let own = leaked(vec![0; usize::try_from(len).unwrap()]);
            a.engine.transfer_sync(Opcode::Read, &b.name(), piece(own, b.at(11), len)).unwrap();
            let mut seen = vec![0; usize::try_from(len).unwrap()];
            a.engine.read_bytes(own, &mut seen).unwrap();
            assert!(seen == pattern(seed, len), "into memory that is not registered");
        }
        assert_eq!(a.engine.transfer_sync(Opcode::Write, &b.name(), piece(0, 0, 0)).unwrap(), 0);
    }
}

#[test]
fn fault28_memory_that_is_not_registered_serves_and_what_is_not_mapped_fails() {
    // Peer fault 28 and row A66: the good ones of a batch arrive, the bad one says why.
    for path in PATHS {
        let (a, b) = pair(path);
        let target = a.engine.open_segment(&b.name()).unwrap();
        let own = leaked(pattern(7, 1000));
        let write = |source, at, len| Request {
            opcode: OPCODE_WRITE,
            source,
            target,
            offset: b.at(at),
            len,
        };
        let batch = a.engine.allocate_batch(4).unwrap();
        a.engine.submit(batch, [write(own, 0, 500)]).unwrap();
        a.engine.submit(batch, [write(4096, 600, 8), write(own + 500, 700, 500)]).unwrap();
        let state = a.engine.wait_batch(batch, LIMIT).unwrap();
        assert_eq!((state.state, state.total), (TaskState::Failed, 3));
        assert_eq!((state.completed, state.failed, state.bytes), (2, 1, 1000));
        let failure = state.failure.unwrap();
        assert_eq!((failure.facts().index, failure.facts().phase), (Some(1), "memory"));
        assert_eq!(failure.facts().peer.as_deref(), Some(b.engine.local_name()));
        assert!(failure.to_string().contains("0x1000"), "{failure}");
        let states = [0, 1, 2].map(|i| a.engine.task_status(batch, i).unwrap().state);
        assert_eq!(states, [TaskState::Completed, TaskState::Failed, TaskState::Completed]);
        assert!(b.bytes(0, 500) == pattern(7, 1000)[..500]);
        assert!(b.bytes(700, 500) == pattern(7, 1000)[500..]);
        a.engine.free_batch(batch).unwrap();
        let again = a.engine.allocate_batch(2).unwrap();
        a.engine.submit(again, [write(own, 0, 1)]).unwrap();
        a.engine.wait_batch(again, LIMIT).unwrap().outcome().unwrap();
        for op in [Opcode::Write, Opcode::Read] {
            let moved = a.engine.transfer_sync(op, &b.name(), piece(4096, b.at(0), 8));
            assert_eq!(moved.unwrap_err().code().as_i32(), -1, "{op:?}");
        }
    }
}

#[test]
fn fault28_threads_on_one_batch_are_told_of_their_own_tasks() {
    // Peer fault 28: a task that moved nothing has failed, whatever others submit meanwhile.
    let (a, b) = pair(&["tcp"]);
    let target = a.engine.open_segment(&b.name()).unwrap();
    let write =
        |source, len| Request { opcode: OPCODE_WRITE, source, target, offset: b.at(0), len };
    for _ in 0..20 {
        check_threads(&a, [write(a.at(0), 128), write(4096, 64)]);
    }
}

/// A thread for the good request and one for the bad, on one batch.
fn check_threads(a: &Node, requests: [Request; 2]) {
    const EACH: usize = 200;
    let engine = &a.engine;
    let batch = engine.allocate_batch(2 * EACH).unwrap();
    std::thread::scope(|scope| {
        for request in requests {
            let submit = move || engine.submit(batch, [request]).unwrap();
            scope.spawn(move || (0..EACH).for_each(|_| submit()));
        }
    });
    let state = engine.wait_batch(batch, LIMIT).unwrap();
    for index in 0..2 * EACH {
        let task = engine.task_status(batch, index).unwrap();
        match &task.failure {
            None => assert_eq!((task.state, task.bytes), (TaskState::Completed, 128), "{index}"),
            Some(failure) => {
                assert_eq!((task.state, task.bytes), (TaskState::Failed, 0), "{index}");
                assert_eq!((failure.facts().phase, failure.facts().index), ("memory", Some(index)));
                assert_eq!(failure.code(), Code::InvalidArgument);
            }
        }
    }
    assert_eq!((state.state, state.completed, state.failed), (TaskState::Failed, EACH, EACH));
    assert_eq!(state.bytes, 128 * EACH as u64);
    engine.free_batch(batch).unwrap();
}

#[test]
fn fault28_a_batch_that_failed_so_sends_no_notification() {
    let (a, b) = pair(&["tcp"]);
    let target = a.engine.open_segment(&b.name()).unwrap();
    let batch = a.engine.allocate_batch(1).unwrap();
    let bad = Request { opcode: OPCODE_WRITE, source: 4096, target, offset: b.at(0), len: 8 };
    a.engine.submit_with_notify(batch, [bad], note("never")).unwrap();
    assert_eq!(a.engine.wait_batch(batch, LIMIT).unwrap().state, TaskState::Failed);
    a.engine.notify_by_name(&b.name(), &note("later")).unwrap();
    until("the later one arrives", || {
        let seen = b.engine.take_notifies().unwrap();
        assert!(seen.iter().all(|it| it.msg == "later"), "{seen:?}");
        !seen.is_empty()
    });
}

#[test]
fn a66_what_a_list_says_of_its_length_is_not_believed() {
    // A66: no room is made for what does not come.
    struct Liar<I>(I);
    impl<I: Iterator> Iterator for Liar<I> {
        type Item = I::Item;
        fn next(&mut self) -> Option<I::Item> {
            self.0.next()
        }
        fn size_hint(&self) -> (usize, Option<usize>) {
            (1 << 60, None)
        }
    }
    let (a, b) = pair(&["tcp"]);
    let target = a.engine.open_segment(&b.name()).unwrap();
    let good = Request { opcode: OPCODE_WRITE, source: a.at(0), target, offset: b.at(0), len: 30 };
    let batch = a.engine.allocate_batch(1).unwrap();
    a.engine.submit(batch, Liar([good].into_iter())).unwrap();
    a.engine.wait_batch(batch, LIMIT).unwrap().outcome().unwrap();
}

#[test]
fn a27_a33_batches_by_number() {
    // A27, A28, A32, A33, A60, A61, K13: numbers, positions and opcodes that are none are errors.
    let (a, b) = pair(&["tcp"]);
    let target = a.engine.open_segment(&b.name()).unwrap();
    assert_eq!(a.engine.open_segment(&b.name()).unwrap(), target);
    assert_eq!(a.engine.open_segment(&a.name()).unwrap(), LOCAL_SEGMENT);
    a.fill(0, &pattern(1, 300));
    let good = Request { opcode: OPCODE_WRITE, source: a.at(0), target, offset: b.at(0), len: 300 };
    let batch = a.engine.allocate_batch(2).unwrap();
    let refused = |request| a.engine.submit(batch, [good, request]).unwrap_err();
    let unknown = refused(Request { target: 99, ..good });
    assert_eq!((unknown.code().as_status(), unknown.facts().index), (1, Some(1)));
    assert_eq!(refused(Request { target: -5, ..good }).facts().index, Some(1));
    assert_eq!(refused(Request { opcode: 7, ..good }).code(), Code::InvalidArgument);
    assert_eq!(a.engine.batch_state(batch).unwrap().total, 0, "nothing was queued");
    assert_eq!(a.engine.batch_state(batch).unwrap().state, TaskState::Completed);
    let read = Request { opcode: OPCODE_READ, source: a.at(1000), ..good };
    a.engine.submit(batch, [good]).unwrap();
    a.engine.wait_batch(batch, LIMIT).unwrap().outcome().unwrap();
    a.engine.submit(batch, [read]).unwrap();
    let full = a.engine.submit(batch, [good]).unwrap_err();
    assert_eq!(full.code().as_status(), 2);
    assert_eq!(a.engine.wait_batch(batch, LIMIT).unwrap().outcome().unwrap(), 600);
    assert!(a.bytes(1000, 300) == pattern(1, 300));
    assert_eq!(a.engine.task_status(batch, 2).unwrap_err().code().as_status(), 1);
    a.engine.free_batch(batch).unwrap();
    for dead in [batch, 0, INVALID_BATCH] {
        assert_eq!(a.engine.free_batch(dead).unwrap_err().code().as_status(), 1);
        assert_eq!(a.engine.task_status(dead, 0).unwrap_err().code().as_status(), 1);
        assert_eq!(a.engine.submit(dead, [good]).unwrap_err().code().as_status(), 1);
    }
    assert_eq!(a.engine.allocate_batch(usize::MAX).unwrap_err().code().as_status(), 1);
}

#[test]
fn a158_batches_to_a_host_arrive_and_unequal_lists_do_not_start() {
    // A158, peer fault 12: 10 000 pieces at once.
    let (a, b) = pair(&["tcp"]);
    a.fill(0, &pattern(5, SIZE));
    let many: Vec<_> = (0..10_000).map(|i| piece(a.at(i * 64), b.at(i * 128), 64)).collect();
    let moved = a.engine.batch_transfer_sync(Opcode::Write, &b.name(), &many).unwrap();
    assert_eq!(moved, 640_000);
    let all = pattern(5, SIZE);
    for i in [0usize, 1, 4999, 9999] {
        assert!(b.bytes(i as u64 * 128, 64) == all[i * 64..i * 64 + 64], "{i}");
    }
    assert_eq!(pieces(&[1, 2], &[3], &[4, 5]).unwrap_err().code().as_i32(), -1);
    assert_eq!(pieces(&[1, 2], &[3, 4], &[5]).unwrap_err().code().as_i32(), -1);
    let none = a.engine.batch_transfer_sync(Opcode::Write, &b.name(), &[]).unwrap();
    assert_eq!(none, 0);
    let bad = [piece(a.at(0), b.at(0), 8), piece(a.at(0), b.at(SIZE), 8)];
    let failure = a.engine.batch_transfer_sync(Opcode::Write, &b.name(), &bad).unwrap_err();
    assert_eq!(failure.facts().index, Some(1));
    assert!(failure.to_string().contains("1 of 2"), "{failure}");
}

#[test]
fn a157_a_notification_follows_the_bytes() {
    // A30, A76, A157.
    let (a, b) = pair(&["local", "shm", "tcp"]);
    a.fill(0, &pattern(8, 4096));
    let all = [piece(a.at(0), b.at(0), 4096)];
    let host = b.name();
    let moved = a.engine.transfer_sync_notify(Opcode::Write, &host, &all, &note("é")).unwrap();
    assert_eq!((moved.bytes, moved.notify), (4096, NotifyOutcome::Delivered));
    assert_eq!(b.engine.take_notifies().unwrap(), [note("é")]);
    let bad = [piece(a.at(0), b.at(SIZE), 8)];
    a.engine.transfer_sync_notify(Opcode::Write, &host, &bad, &note("no")).unwrap_err();
    let none = a.engine.transfer_sync_notify(Opcode::Write, &host, &[], &note("no")).unwrap_err();
    assert_eq!(none.code().as_i32(), -1);
    let segment = a.engine.open_segment(&host).unwrap();
    a.engine.notify(u64::try_from(segment).unwrap(), &note("plain")).unwrap();
    assert_eq!(b.engine.take_notifies().unwrap(), [note("plain")]);
    assert_eq!(a.engine.notify(99, &note("x")).unwrap_err().code().as_i32(), -200);
}

#[test]
fn a159_a161_transfers_that_are_asked_for_later() {
    // A159, A160, A161: numbers are freed by the answer that ends them.
    let (a, b) = pair(&["tcp"]);
    a.fill(0, &pattern(2, 9000));
    let host = b.name();
    let begin = |at: u64| {
        let all = [piece(a.at(at), b.at(at), 3000)];
        a.engine.transfer_async(Opcode::Write, &host, &all, None).unwrap()
    };
    let numbers = [begin(0), begin(3000), begin(6000)];
    assert!(numbers.iter().all(|number| *number != 0));
    a.engine.await_transfers(&[numbers[0], numbers[1], numbers[2], numbers[0]]).unwrap();
    assert!(b.bytes(0, 9000) == pattern(2, 9000));
    assert_eq!(a.engine.await_transfers(&numbers).unwrap_err().code().as_i32(), -1, "freed");
    a.engine.await_transfers(&[]).unwrap();
    let number = begin(0);
    until("it is done", || a.engine.check_transfer(number).unwrap().as_i32() == 1);
    assert_eq!(a.engine.check_transfer(number).unwrap_err().code().as_i32(), -1);
    let bad = [piece(a.at(0), b.at(SIZE), 8)];
    let number = a.engine.transfer_async(Opcode::Write, &host, &bad, None).unwrap();
    until("it has failed", || a.engine.check_transfer(number).unwrap().as_i32() == -1);
    a.engine.check_transfer(number).unwrap_err();
    let bad = a.engine.transfer_async(Opcode::Write, &host, &bad, None).unwrap();
    let good = begin(0);
    let failure = a.engine.await_transfers(&[good, bad]).unwrap_err();
    assert_eq!(failure.facts().peer.as_deref(), Some(host.as_str()));
    a.engine.check_transfer(good).unwrap_err();
    let nobody = a.engine.transfer_async(Opcode::Write, "127.0.0.1:1", &[], None).unwrap_err();
    assert_eq!(nobody.facts().phase, "open");
}

#[test]
fn a80_fragments_by_address() {
    // A80, A81: each fragment has an outcome of its own.
    let (a, b) = pair(&["tcp"]);
    a.fill(0, &pattern(3, 1000));
    let range = |local| Scatter {
        op: Opcode::Write,
        segment: b.name(),
        remote_base: b.at(0),
        remote_len: 1000,
        local,
        local_len: 1000,
        local_offsets: vec![0, 10, 990],
        remote_offsets: vec![5, 500, 0],
        lengths: vec![10, 20, 20],
    };
    let ended = a.engine.scatter(vec![range(a.at(0))], LIMIT).unwrap();
    let is_well: Vec<bool> = ended.iter().map(|it| it.outcome == Some(Ok(()))).collect();
    assert_eq!(is_well, [true, true, false]);
    assert!(b.bytes(500, 20) == pattern(3, 1000)[10..30]);
    assert_eq!(a.engine.scatter(vec![range(4096)], LIMIT).unwrap_err().facts().index, Some(0));
}

#[test]
fn a162_a165_looking_at_peers() {
    // A40, A107, A162, A165.
    let (a, b) = pair(&["tcp"]);
    assert_eq!(a.engine.first_buffer_address(&b.name()).unwrap(), b.at(0));
    assert!(a.engine.probe_by_name(&b.name()).is_ok());
    let segment = a.engine.open_segment_no_cache(&b.name()).unwrap();
    assert!(a.engine.probe(u64::try_from(segment).unwrap()).is_ok());
    assert_eq!(a.engine.probe_by_name("127.0.0.1:1").unwrap_err().code().as_i32(), -102);
    assert_eq!(a.engine.probe_by_name("").unwrap_err().code().as_i32(), -101);
    assert_eq!(a.engine.sync_segment_cache(None).unwrap().failed, 0);
    b.engine.unregister(b.at(0)).unwrap();
    a.engine.sync_segment_cache(Some(&b.name())).unwrap();
    let none = a.engine.first_buffer_address(&b.name()).unwrap_err();
    assert_eq!(none.code().as_i32(), -3);
    a.engine.remove_local_segment(&b.name()).unwrap();
    a.engine.remove_local_segment("never seen").unwrap();
    a.engine.remove_local_segment("").unwrap_err();
    let unknown = a.engine.open_segment("127.0.0.1:1").unwrap_err();
    assert_eq!((unknown.facts().phase, unknown.facts().is_timeout), ("open", false));
    assert!(unknown.to_string().contains("127.0.0.1:1"), "{unknown}");
}

#[test]
fn a14_a49_transports_and_links_are_told() {
    // A14, A17, A18, A34, A39, A46, A49: what an engine says of itself.
    let a = node(&["tcp"]);
    assert_eq!(a.engine.install_transport("tcp", None).unwrap(), "tcp");
    let refused = a.engine.install_transport("rdma", None).unwrap_err();
    assert_eq!((refused.code().as_i32(), refused.code().as_status()), (-1, 8));
    assert_eq!(a.engine.install_transport("tcp", Some("{")).unwrap_err().code().as_i32(), -103);
    assert!(a.engine.is_tcp_only().unwrap());
    assert_eq!(a.engine.local_ip_and_port(), a.name());
    assert!(a.name().ends_with(&a.engine.rpc_port().to_string()));
    assert_eq!(a.engine.nic_load().unwrap(), []);
    assert!(a.engine.links(true).unwrap().contains("local_nics"));
    assert!(a.engine.links(false).unwrap().starts_with("Local NICs"));
    assert!(a.engine.topology().unwrap().starts_with('{'));
    assert!(te_compat::local_topology(Some("none")).unwrap().starts_with('{'));
}
