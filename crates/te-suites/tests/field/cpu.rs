//! What waiting costs: an engine that does nothing takes no processor time, nor does one whose
//! callers wait for a slow line.

use std::time::Duration;

use serde_json::json;
use te_suites::wire::{Fault, Front};
use te_suites::{Heartbeat, Kind, Node, NodeSpec, Usage, need, now, pace, say};

use crate::{MIB, amount};

/// One of ours that speaks TCP also to a neighbour, so that a line lies between the two.
fn ours(size: u64) -> Node {
    NodeSpec::new(Kind::Te, size).env("TE_TRANSPORTS", "tcp").start()
}

/// Processor time that a process took over a stretch of time, in percent of one core.
struct Meter {
    pid: u32,
    begun: std::time::Instant,
    before: f64,
}

impl Meter {
    fn start(pid: u32) -> Self {
        Self { pid, begun: now(), before: Usage::of(pid).unwrap().cpu }
    }

    fn percent(&self) -> f64 {
        let spent = Usage::of(self.pid).unwrap().cpu - self.before;
        100.0 * spent / self.begun.elapsed().as_secs_f64()
    }
}

#[test]
fn fb40_an_idle_engine_takes_no_processor_time() {
    // FB40 (a): 30 s after some work, below 1 % of a core, on both sides.
    let test = "fb40_an_idle_engine_takes_no_processor_time";
    need!(test, Kind::Te.available());
    let (mut from, to) = (ours(MIB), ours(MIB));
    from.write(to.name(), from.addr(), to.addr(), MIB).ok();
    let meters = [&from, &to].map(|node| Meter::start(node.pid()));
    pace(Duration::from_secs(amount(test, 30, 10)));
    let percents = meters.map(|meter| meter.percent());
    say(&format!("row {test}: initiator {:.2} %, target {:.2} %", percents[0], percents[1]));
    assert!(percents.iter().all(|percent| *percent < 1.0), "{percents:?} percent of a core");
    from.quit();
    to.quit();
}

#[test]
fn fb40_eight_callers_that_wait_for_a_slow_line_take_little() {
    // FB40 (b): 8 threads in synchronous waits on a transfer that takes about 5 s: below 25 % of one
    // core for the whole process. A stalled machine only makes it take longer.
    let test = "fb40_eight_callers_that_wait_for_a_slow_line_take_little";
    need!(test, Kind::Te.available());
    let (mut from, to) = (ours(2 * MIB), ours(2 * MIB));
    let front = Front::start(&to, Fault::Slow(3200 << 10)).unwrap();
    let role = json!({
        "target": front.name(), "src": from.addr(), "dst": to.addr(), "len": 2 * MIB, "depth": 1,
        "threads": 8,
    });
    let meter = Meter::start(from.pid());
    from.send(&json!({ "op": "flood", "ms": 500, "roles": [role] }));
    let answer = from.receive(Duration::from_secs(90)).ok();
    let (percent, took) = (meter.percent(), meter.begun.elapsed());
    let gained = &answer.value("roles")[0];
    say(&format!("row {test}: {took:?}, {percent:.1} % of a core"));
    assert!(gained["n"].as_u64() >= Some(8) && gained["failed"] == 0, "{gained}");
    assert!(took > Duration::from_secs(2), "{took:?} is no slow line");
    assert!(percent < 25.0, "{percent:.1} % of a core");
    from.quit();
    to.quit();
}

#[test]
fn fb40_the_first_request_after_a_silence_is_told_beside_a_busy_one() {
    // FB40 (c): 4 KiB, the median after a second of silence and of one after the other. Whether that
    // is at most twice and 100 µs is a row of the bench; here it is told, and both complete.
    let test = "fb40_the_first_request_after_a_silence_is_told_beside_a_busy_one";
    need!(test, Kind::Te.available());
    let (mut from, to) = (ours(MIB), ours(MIB));
    let heartbeat = Heartbeat::start();
    let mut p50_us = |n: u64, idle_ms: u64| {
        let ping = json!({
            "op": "pings", "target": to.name(), "src": from.addr(), "dst": to.addr(), "len": 4096,
            "n": n, "idle_ms": idle_ms,
        });
        let answer = from.ask_within(&ping, Duration::from_secs(120)).ok();
        assert_eq!(answer.number("bytes"), n * 4096);
        answer.value("p50_ms").as_f64().unwrap() * 1e3
    };
    let warm = p50_us(200, 0);
    let (busy, silent) = (p50_us(2000, 0), p50_us(amount(test, 15, 5), 1000));
    say(&format!(
        "row {test}: busy {busy:.1} µs (first {warm:.1}), after 1 s {silent:.1} µs, at most {:.1} wanted; worst stall {:?}",
        2.0 * busy + 100.0,
        heartbeat.worst()
    ));
    from.quit();
    to.quit();
}
