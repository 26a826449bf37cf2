//! Memory that is taken back while others copy from and to it.

use std::time::Duration;

use te_suites::{
    Answer, Direction, Heartbeat, Kind, Node, Parts, available_memory, need, pace, say,
};

use crate::{MIB, spec, via};

const SIZE: u64 = 256 * MIB;
const EACH: u64 = 64 * MIB;
const MANY: u64 = 200;
/// How long the owner waits for others to let go.
const PATIENCE: Duration = Duration::from_millis(500);

/// An owner that waits a short time, with a buffer of [`SIZE`] bytes beside its own, and an
/// initiator.
fn nodes() -> Result<(Node, Node, u64), String> {
    Kind::Te.available()?;
    available_memory(3 * SIZE)?;
    let mut to = spec(MIB).env("TE_ENGINE_UNREGISTER_TIMEOUT_MS", "500").start();
    let buffer = to.alloc(SIZE);
    let mut from = spec(SIZE).start();
    assert_eq!(via(&mut from, to.name()), "shm");
    Ok((from, to, buffer))
}

/// Stops the initiator in the middle of a copy that holds the buffer, and tries to take the buffer
/// back meanwhile. Gives the batch, and the answer, which is Busy.
fn stop_holding(from: &mut Node, to: &mut Node, buffer: u64, dir: Direction) -> (u64, Answer) {
    for round in 0..20 {
        to.reg(buffer, SIZE).ok();
        let parts = Parts::tiled(MANY, EACH, (from.addr(), buffer, SIZE));
        let id = from.submit(dir, to.name(), &parts);
        pace(Duration::from_millis(15 + round));
        from.child().stop();
        let answer = to.unreg(buffer);
        if !answer.is_ok() {
            return (id, answer);
        }
        // It was stopped between two rounds, where it holds nothing.
        from.child().resume();
        from.wait(id);
    }
    panic!("the initiator never stopped with a hold");
}

#[test]
fn a_stopped_holder_makes_unregister_busy_until_it_goes_on() {
    // Deliver item 3: unregister answers Busy while a living foreign holder copies; when it goes on
    // it finds the buffer closed, lets go, and unregister succeeds.
    let test = "a_stopped_holder_makes_unregister_busy_until_it_goes_on";
    let (mut from, mut to, buffer) = need!(test, nodes());
    let heartbeat = Heartbeat::start();
    for dir in Direction::BOTH {
        let (id, busy) = stop_holding(&mut from, &mut to, buffer, dir);
        assert_eq!(busy.rc(), -4, "{busy:?}");
        assert!(busy.took() >= PATIENCE.mul_f64(0.9), "{busy:?}");
        heartbeat.assert_within("Busy", busy.took(), PATIENCE + Duration::from_millis(500));
        assert_eq!(to.unreg(buffer).rc(), -4, "it is still stopped");
        from.child().resume();
        to.unreg(buffer).ok();
        to.fill(to.off(buffer), SIZE, 0x77);
        let ended = from.wait(id);
        assert_eq!(ended.number("completed") + ended.number("failed"), MANY, "{ended:?}");
        assert!(ended.number("failed") > 0, "{ended:?}");
        to.verify_filled(to.off(buffer), SIZE, 0x77);
        say(&format!("{test}: {}: {}", dir.word(), ended.refused()));
    }
    from.quit();
    to.quit();
}

#[test]
fn a_holder_that_is_killed_holds_nothing() {
    // Deliver item 3: guards of dead holders are freed.
    let test = "a_holder_that_is_killed_holds_nothing";
    let (mut from, mut to, buffer) = need!(test, nodes());
    let heartbeat = Heartbeat::start();
    let (_, busy) = stop_holding(&mut from, &mut to, buffer, Direction::Write);
    assert_eq!(busy.rc(), -4, "{busy:?}");
    from.child().kill();
    let answer = to.unreg(buffer).ok();
    heartbeat.assert_within("unregistering", answer.took(), Duration::from_secs(1));
    to.fill(to.off(buffer), SIZE, 0x77);
    to.verify_filled(to.off(buffer), SIZE, 0x77);
    to.quit();
}

#[test]
fn an_owner_ends_in_time_while_a_stopped_process_holds_its_memory() {
    // Closing waits for holders no longer than it may; what they hold stays where it is.
    let test = "an_owner_ends_in_time_while_a_stopped_process_holds_its_memory";
    let (mut from, mut to, buffer) = need!(test, nodes());
    let (id, _) = stop_holding(&mut from, &mut to, buffer, Direction::Write);
    to.ask(&serde_json::json!({ "op": "close", "timeout_ms": 1000 }));
    from.child().resume();
    let ended = from.wait(id);
    assert!(ended.number("failed") > 0, "{ended:?}");
    from.quit();
}

#[test]
fn what_was_taken_back_is_not_touched_any_more_in_either_direction() {
    // J113 on this path: the owner unregisters in the middle, again and again.
    let test = "what_was_taken_back_is_not_touched_any_more_in_either_direction";
    let (mut from, mut to, buffer) = need!(test, nodes());
    from.fill(0, SIZE, 0xa5);
    for round in 0..6 {
        to.reg(buffer, SIZE).ok();
        let parts = Parts::tiled(MANY, EACH, (from.addr(), buffer, SIZE));
        let id = from.submit(Direction::BOTH[round % 2], to.name(), &parts);
        pace(Duration::from_millis(10 + 10 * u64::try_from(round).unwrap()));
        to.unreg(buffer).ok();
        to.fill(to.off(buffer), SIZE, 0x77);
        let ended = from.wait(id);
        assert_eq!(ended.number("completed") + ended.number("failed"), MANY, "{ended:?}");
        to.verify_filled(to.off(buffer), SIZE, 0x77);
    }
    from.quit();
    to.quit();
}
