//! Peers that stop in the middle, and go on.

use std::time::Duration;

use serde_json::json;
use te_suites::{
    Answer, Bound, Case, Direction, Heartbeat, Kind, Node, NodeSpec, Wish, available_memory, need,
    now, pace, say, wait_for,
};

use crate::{MIB, ours, whole};

const LONG: u64 = 512 * MIB;

/// The time limit of the request.
const LIMIT: Duration = Duration::from_secs(2);

/// What an end may take beyond the limit of the request: half a second in which the target may
/// confirm that it let go, counted anew when its kernel takes the last bytes, and a second in which
/// a new connection may settle it.
const SLACK: Duration = Duration::from_millis(2250);

/// What the caller's buffer holds while the request runs.
const FIRST: u8 = 0xa1;

/// What the caller puts into it after the request has ended.
const REFILL: u8 = 0xb2;

/// How a request that cannot go on is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// By its own time limit.
    Timeout,
    /// By a limit that is set while it runs.
    Limit,
    /// By cancel.
    Cancel,
}

/// Two nodes with [`LONG`] bytes, the initiator speaking this version at most.
fn nodes(version: &str) -> Result<(Node, Node), String> {
    Kind::Te.available()?;
    available_memory(3 * LONG)?;
    let from = NodeSpec::new(Kind::Te, LONG).env("MC_TCP_PROTO", version).start();
    Ok((from, ours(LONG)))
}

/// Begins a transfer of everything and stops the target in its middle.
fn stopped(from: &mut Node, to: &mut Node, dir: Direction, wish: Wish) -> u64 {
    let parts = whole(from, to, LONG);
    let id = from.submit_wishing((dir, to.name()), &parts, wish);
    pace(Duration::from_millis(60));
    to.child().stop();
    id
}

fn ended(from: &mut Node, id: u64, end: End) -> Answer {
    match end {
        End::Timeout => {}
        End::Limit => {
            from.limit(id, LIMIT).ok();
        }
        End::Cancel => {
            from.cancel(id).ok();
        }
    }
    let limit = LIMIT + Duration::from_secs(20);
    let done = wait_for(limit, || {
        let task = from.task(id, 0);
        (task.value("state") != "waiting").then_some(task)
    });
    done.unwrap_or_else(|| panic!("{end:?}: no end within {limit:?}"))
}

/// The remote side as it is told now.
fn remote(from: &mut Node, id: u64) -> String {
    from.task(id, 0).value("remote").as_str().unwrap_or_default().to_owned()
}

/// A write that a stopped target cannot finish: one end in time; the caller's buffer is free; what
/// is put in it afterwards never travels; and what is said of the remote side holds.
fn write_into_a_stopped_target(test: &str, version: &str, end: End) {
    let (mut from, mut to) = need!(test, nodes(version));
    from.fill(0, LONG, FIRST);
    let case = Case::start(&format!("fault 3: {end:?}, version {version}"), from.pid());
    let heartbeat = Heartbeat::start();
    let wish = if end == End::Timeout { Wish::within(LIMIT) } else { Wish::default() };
    let begun = now();
    let id = stopped(&mut from, &mut to, Direction::Write, wish);
    let task = ended(&mut from, id, end);
    let took = begun.elapsed();
    let bound = if end == End::Cancel { Duration::from_millis(60) } else { LIMIT } + SLACK;
    heartbeat.assert_within("the end", took, bound);
    let wanted = if end == End::Cancel { "canceled" } else { "timeout" };
    assert_eq!(task.value("state"), wanted, "{task:?}");
    assert_eq!(task.value("quarantined"), &json!(false), "{task:?}");
    assert_eq!(from.quarantined(), 0);
    assert!(from.is_quiescent(Duration::ZERO));
    assert_eq!(
        task.value("remote"),
        "in doubt",
        "a stopped target cannot have confirmed: {task:?}"
    );
    from.fill(0, LONG, REFILL);
    to.child().resume();
    settles(test, (&mut from, &mut to), id);
    assert_eq!(to.count(0, LONG, REFILL), 0, "bytes of the refilled buffer were sent");
    let arrived = to.count(0, LONG, FIRST);
    say(&format!(
        "{test}: {took:?}; {} MiB of the first bytes had arrived; {}",
        arrived >> 20,
        task.value("error")
    ));
    from.free(id).ok();
    from.write(to.name(), from.addr(), to.addr(), 4096).ok();
    to.verify_filled(0, 4096, REFILL);
    case.end(Bound::NOTHING.with_threads(2).with_rss_mib(LONG / MIB + 16));
    from.quit();
    to.quit();
}

/// Looks at the target from the moment it is said to be settled: nothing changes any more.
fn settles(test: &str, (from, to): (&mut Node, &mut Node), id: u64) {
    let settled =
        wait_for(Duration::from_secs(5), || (remote(from, id) == "settled").then_some(()));
    if settled.is_none() {
        // It has read what had been sent long before the five seconds were over.
        say(&format!("{test}: the remote side stays in doubt"));
    }
    to.keep(0, LONG);
    pace(Duration::from_millis(500));
    assert_eq!(to.changed(), None, "the target's memory changed after it was settled");
}

#[test]
fn fault03_j117_a_timeout_is_final_and_the_buffer_is_the_callers() {
    // Peer fault 3, J117: the target is stopped inside a 512 MiB write with a limit of 2 s.
    let test = "fault03_j117_a_timeout_is_final_and_the_buffer_is_the_callers";
    write_into_a_stopped_target(test, "3", End::Timeout);
}

#[test]
fn fault03_towards_version_2_a_timeout_is_final_too() {
    // Peer fault 3: the same with what a Mooncake peer speaks.
    let test = "fault03_towards_version_2_a_timeout_is_final_too";
    write_into_a_stopped_target(test, "2", End::Timeout);
}

#[test]
fn fault03_a_limit_set_later_is_final_too() {
    // Peer fault 3: the deadline of a running batch is brought forward.
    write_into_a_stopped_target("fault03_a_limit_set_later_is_final_too", "3", End::Limit);
}

#[test]
fn fault03_a_cancel_is_final_too() {
    // Peer fault 3: the caller calls the write back.
    write_into_a_stopped_target("fault03_a_cancel_is_final_too", "3", End::Cancel);
}

#[test]
fn fault03_a_read_that_timed_out_writes_nothing_afterwards() {
    // Peer fault 3, read direction: what a target sends after the end reaches no buffer.
    let test = "fault03_a_read_that_timed_out_writes_nothing_afterwards";
    for version in ["3", "2"] {
        let (mut from, mut to) = need!(test, nodes(version));
        to.fill(0, LONG, FIRST);
        let heartbeat = Heartbeat::start();
        let begun = now();
        let id = stopped(&mut from, &mut to, Direction::Read, Wish::within(LIMIT));
        let task = ended(&mut from, id, End::Timeout);
        heartbeat.assert_within("the end", begun.elapsed(), LIMIT + SLACK);
        assert_eq!(task.value("state"), "timeout", "version {version}: {task:?}");
        assert_eq!(from.quarantined(), 0);
        from.fill(0, LONG, REFILL);
        to.child().resume();
        pace(Duration::from_millis(500));
        from.verify_filled(0, LONG, REFILL);
        to.verify_filled(0, LONG, FIRST);
        from.free(id).ok();
        from.read(to.name(), from.addr(), to.addr(), 4096).ok();
        from.verify_filled(0, 4096, FIRST);
        from.quit();
        to.quit();
    }
}

#[test]
fn a_stop_shorter_than_the_timeout_costs_only_time() {
    // Architecture §3.2: a deadline is for what does not end; a pause of a second is none.
    let test = "a_stop_shorter_than_the_timeout_costs_only_time";
    for version in ["3", "2"] {
        let (mut from, mut to) = need!(test, nodes(version));
        from.pattern(0, LONG, 5);
        let wish = Wish::within(Duration::from_secs(30));
        let id = stopped(&mut from, &mut to, Direction::Write, wish);
        pace(Duration::from_secs(1));
        to.child().resume();
        from.wait(id).ok();
        to.verify(0, LONG, 5);
        let id = stopped(&mut from, &mut to, Direction::Read, wish);
        pace(Duration::from_secs(1));
        to.child().resume();
        from.wait(id).ok();
        from.verify(0, LONG, 5);
        from.quit();
        to.quit();
    }
}

#[test]
fn fault08_a_stopped_target_is_found_out_in_time() {
    // Peer fault 8: a small write fails when nothing moves for the progress limit, a probe within
    // its two seconds, and neither holds up the other peer.
    let test = "fault08_a_stopped_target_is_found_out_in_time";
    need!(test, Kind::Te.available());
    let spec = NodeSpec::new(Kind::Te, MIB).env("MC_TCP_PROGRESS_TIMEOUT_SEC", "2");
    let (mut from, mut to, other) = (spec.start(), ours(MIB), ours(MIB));
    from.write(to.name(), from.addr(), to.addr(), 64).ok();
    from.write(other.name(), from.addr(), other.addr(), 64).ok();
    let heartbeat = Heartbeat::start();
    to.child().stop();
    let parts = whole(&from, &to, 4096);
    let begun = now();
    let id = from.submit(Direction::Write, to.name(), &parts);
    let probe = from.probe(to.name());
    assert!(!probe.refused().is_empty());
    heartbeat.assert_within("the probe", probe.took(), Duration::from_millis(2200));
    let good = from.write(other.name(), from.addr(), other.addr(), 4096).ok();
    heartbeat.assert_within("a write to another peer", good.took(), Duration::from_millis(200));
    let answer = from.wait(id);
    let took = begun.elapsed();
    let error = answer.refused();
    assert!(error.contains(to.name()), "{error}");
    say(&format!("{test}: {took:?}: {error}"));
    // Two seconds without progress, and what it takes to settle the rest.
    heartbeat.assert_within("a write to a stopped peer", took, Duration::from_millis(4500));
    to.child().resume();
    from.write(to.name(), from.addr(), to.addr(), 64).ok();
    for node in [from, to, other] {
        node.quit();
    }
}

#[test]
fn a_stopped_writer_cannot_hold_the_targets_memory() {
    // Architecture §3.4: what comes in is ended, bounded, however silent the sender is.
    let test = "a_stopped_writer_cannot_hold_the_targets_memory";
    for version in ["3", "2"] {
        let (mut from, mut to) = need!(test, nodes(version));
        from.fill(0, LONG, FIRST);
        let parts = whole(&from, &to, LONG);
        let id = from.submit(Direction::Write, to.name(), &parts);
        pace(Duration::from_millis(60));
        from.child().stop();
        let heartbeat = Heartbeat::start();
        let answer = to.unreg(to.addr()).ok();
        heartbeat.assert_within("unregistering", answer.took(), Duration::from_secs(1));
        to.fill(0, LONG, REFILL);
        from.child().resume();
        let ended = from.wait(id);
        assert!(!ended.is_ok(), "version {version}: {ended:?}");
        to.verify_filled(0, LONG, REFILL);
        say(&format!("{test}: version {version}: {:?}; {}", answer.took(), ended.refused()));
        from.quit();
        to.quit();
    }
}
