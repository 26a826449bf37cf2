//! A forked child is told, and can make an engine of its own.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use common::{exit_of_child, in_child, node, pattern, piece};
use te_compat::{EngineConfig, Failure, Opcode};

fn is_told<T>(result: Result<T, Failure>) -> bool {
    result.is_err_and(|failure| failure.facts().phase == "fork")
}

#[test]
fn fb52_each_call_of_a_child_answers_and_its_own_engine_works() {
    // FB52: no call hangs or crashes; the parent goes on.
    let (a, b) = (node(&["tcp"]), node(&["tcp"]));
    let one = piece(a.at(0), b.at(0), 4096);
    a.fill(0, &pattern(1, 4096));
    a.engine.transfer_sync(Opcode::Write, &b.name(), one).unwrap();
    let host = b.name();
    let checks = || {
        let engine = &a.engine;
        let told = [
            is_told(engine.open_segment(&host)),
            is_told(engine.transfer_sync(Opcode::Write, &host, one)),
            is_told(engine.batch_transfer_sync(Opcode::Write, &host, &[one])),
            is_told(engine.transfer_async(Opcode::Write, &host, &[one], None)),
            is_told(engine.await_transfers(&[1])),
            is_told(engine.check_transfer(1)),
            is_told(engine.allocate_batch(1)),
            is_told(engine.unregister(one.local)),
            is_told(engine.register(common::buffer(&a.region), "*", true)),
            is_told(engine.allocate_managed(64)),
            is_told(engine.free_managed(64, 64)),
            is_told(engine.take_notifies()),
            is_told(engine.probe_by_name(&host)),
            is_told(engine.first_buffer_address(&host)),
            is_told(engine.topology()),
            is_told(engine.close(common::LIMIT)),
        ];
        let own = node(&["tcp"]);
        own.fill(0, &pattern(2, 4096));
        let there = piece(own.at(0), one.remote + 8192, 4096);
        let is_moved = own.engine.transfer_sync(Opcode::Write, &host, there).is_ok();
        drop(own);
        told.iter().all(|it| *it) && is_moved && !engine.is_here()
    };
    assert!(in_child(checks));
    assert!(b.bytes(8192, 4096) == pattern(2, 4096));
    a.engine.transfer_sync(Opcode::Read, &host, one).unwrap();
}

#[test]
fn fb52_a_child_logs_although_a_thread_of_its_parent_was_writing() {
    // FB52: the lock of standard error is held at the fork, by a thread that the child has not.
    let code = exit_of_child(|| {
        te_compat::start_logging(&EngineConfig::default());
        let (held, is_held) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let _lock = std::io::stderr().lock();
            held.send(()).unwrap();
            loop {
                std::thread::park();
            }
        });
        is_held.recv().unwrap();
        exit_of_child(|| {
            tracing::warn!("a line of a forked child");
            7
        })
    });
    assert_eq!(code, 7, "the child hangs");
}
