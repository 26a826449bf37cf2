//! Memory that another process holds, which is stopped and goes on.

use std::time::Duration;

use te_suites::{
    Direction, Heartbeat, Kind, NodeSpec, TempDir, Wish, need, now, pace, say, send_signal,
};

use crate::{MIB, whole};

/// Half a second of the holder's work.
const SIZE: u64 = 16 * MIB;

/// What the peer's memory holds, and what the caller puts where it believes memory to be its own.
const THEIRS: u8 = 0x5a;
const OURS: u8 = 0x77;

#[test]
fn a_stopped_foreign_holder_keeps_our_memory_busy_until_it_goes_on() {
    // Issue 3: another process copies into our buffer and is stopped in its middle, so that nothing
    // can call it back. The read ends by its deadline all the same; its memory is in quarantine:
    // counted, and Busy. When the holder goes on it still writes there, and then lets go.
    let test = "a_stopped_foreign_holder_keeps_our_memory_busy_until_it_goes_on";
    need!(test, Kind::Te.available());
    let folder = TempDir::in_memory().unwrap();
    let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
    let mut to = NodeSpec::new(Kind::Te, SIZE).file(&theirs).start();
    to.fill(0, SIZE, THEIRS);
    let spec = NodeSpec::new(Kind::Te, SIZE).file(&ours).arg("--courier");
    let spec = spec.arg(&theirs.display().to_string());
    let spec = spec.env("TE_ENGINE_UNREGISTER_TIMEOUT_MS", "500");
    let mut from = spec.env("TE_ENGINE_QUARANTINE_AFTER_MS", "300").start();
    let holder = from.hello("courier").as_u64().unwrap();
    // As long as nobody is stopped it is a transport like any other.
    from.transfer(Direction::Read, to.name(), (from.addr(), to.addr()), MIB).ok();
    from.verify_filled(0, MIB, THEIRS);
    let heartbeat = Heartbeat::start();
    let wish = Wish::within(Duration::from_millis(300));
    let id = from.submit_wishing((Direction::Read, to.name()), &whole(&from, &to, SIZE), wish);
    pace(Duration::from_millis(100));
    send_signal(holder, "STOP");
    let begun = now();
    let ended = from.wait(id);
    heartbeat.assert_within("a held request", begun.elapsed(), Duration::from_millis(1500));
    assert_eq!((ended.number("failed"), ended.number("quarantined")), (1, 1), "{ended:?}");
    assert_eq!(ended.value("states")[0], "timeout", "{ended:?}");
    assert_eq!(from.quarantined(), SIZE);
    assert!(!from.is_quiescent(Duration::from_millis(200)));
    let busy = from.unreg(from.addr());
    assert!(busy.refused().contains("still used by 1 transfers"), "{busy:?}");
    assert_eq!(busy.value("rc"), -4, "A54: {busy:?}");
    say(&format!("{test}: {}; unregister: {}", ended.refused(), busy.refused()));
    // The end of the buffer is not reached yet: what the caller puts there the holder overwrites.
    from.fill(SIZE - MIB, MIB, OURS);
    send_signal(holder, "CONT");
    assert!(from.is_quiescent(Duration::from_secs(20)), "the holder has not let go");
    assert_eq!(from.quarantined(), 0);
    from.verify_filled(SIZE - MIB, MIB, THEIRS);
    from.unreg(from.addr()).ok();
    from.fill(0, SIZE, OURS);
    pace(Duration::from_millis(100));
    from.verify_filled(0, SIZE, OURS);
    from.quit();
    to.quit();
}
