//! Processes that end in the middle.

use std::collections::HashSet;
use std::time::Duration;

use te_suites::{Direction, Heartbeat, Kind, Parts, available_memory, need, now, pace, say};

use crate::{MIB, fresh, spec, via};

/// Bytes of a buffer, and of one request.
const SIZE: u64 = 256 * MIB;
const EACH: u64 = 64 * MIB;
const MANY: u64 = 32;

#[test]
fn a_target_killed_in_the_middle_of_a_copy_ends_every_request_in_time() {
    // Deliver item 3: a peer that dies in mid copy gives an error. What was under way is in doubt
    // for a write, and nothing of it is reported as done that was not.
    let test = "a_target_killed_in_the_middle_of_a_copy_ends_every_request_in_time";
    need!(test, Kind::Te.available());
    need!(test, available_memory(3 * SIZE));
    let heartbeat = Heartbeat::start();
    let mut from = spec(SIZE).start();
    from.fill(0, SIZE, 0xa5);
    let mut seen = HashSet::new();
    for dir in Direction::BOTH {
        let mut hit = 0;
        for round in 0..6 {
            let mut to = fresh(&spec(SIZE), &mut seen);
            let name = to.name().to_owned();
            assert_eq!(via(&mut from, &name), "shm");
            let parts = Parts::tiled(MANY, EACH, (from.addr(), to.addr(), SIZE));
            let id = from.submit(dir, &name, &parts);
            pace(Duration::from_millis(10 + 15 * round));
            to.child().kill();
            let begun = now();
            let ended = from.wait(id);
            heartbeat.assert_within("the end", begun.elapsed(), Duration::from_secs(5));
            assert_eq!(ended.number("completed") + ended.number("failed"), MANY, "{ended:?}");
            let remotes = ended.value("remotes").as_array().cloned().unwrap_or_default();
            let doubts = remotes.iter().filter(|side| **side == "in doubt").count();
            if dir == Direction::Read {
                assert_eq!(doubts, 0, "a read changes nothing at the peer: {ended:?}");
            }
            assert!(doubts <= 1, "one round was under way: {ended:?}");
            if ended.number("failed") > 0 {
                hit += 1;
                say(&format!(
                    "{test}: {} round {round}: {} completed, {doubts} in doubt; {}",
                    dir.word(),
                    ended.number("completed"),
                    ended.refused()
                ));
            }
        }
        assert!(hit > 0, "the target always died too late");
        from.ping();
    }
    from.quit();
}

#[test]
fn an_initiator_killed_in_the_middle_of_a_copy_leaves_nothing_at_the_target() {
    // The other way round: its holds are freed, its socket is gone, and the memory can be taken
    // back at once.
    let test = "an_initiator_killed_in_the_middle_of_a_copy_leaves_nothing_at_the_target";
    need!(test, Kind::Te.available());
    need!(test, available_memory(3 * SIZE));
    let heartbeat = Heartbeat::start();
    let mut to = spec(MIB).start();
    let buffer = to.alloc(SIZE);
    let before = to.ask(&serde_json::json!({ "op": "rusage" })).ok().number("fds");
    for round in 0..4 {
        to.reg(buffer, SIZE).ok();
        let mut from = spec(SIZE).start();
        assert_eq!(via(&mut from, to.name()), "shm");
        let parts = Parts::tiled(MANY, EACH, (from.addr(), buffer, SIZE));
        from.submit(Direction::BOTH[round % 2], to.name(), &parts);
        pace(Duration::from_millis(20));
        from.child().kill();
        let answer = to.unreg(buffer).ok();
        heartbeat.assert_within("unregistering", answer.took(), Duration::from_secs(1));
        to.fill(to.off(buffer), SIZE, 0x77);
        to.verify_filled(to.off(buffer), SIZE, 0x77);
    }
    let after = to.ask(&serde_json::json!({ "op": "rusage" })).ok().number("fds");
    assert!(after <= before + 2, "{before} descriptors became {after}");
    to.quit();
}
