//! Ports of a process that has ended, taken by another one with another name.

use std::time::Duration;

use serde_json::json;
use te_suites::{
    Direction, Heartbeat, Kind, Node, NodeSpec, Parts, free_port, need, now, pace, say,
};

use crate::{MIB, amount, ours};

const EACH: u64 = MIB;
const ALL: u64 = 64 * EACH;

/// Where the buffers of both lie, so that only who they are tells them apart.
const AT: u64 = 0x5000_0000_0000;

/// What the successor has in its memory.
const MINE: u8 = 0x77;

/// Which ports the successor has in common with the process before it.
#[derive(Debug, Clone, Copy)]
enum Taken {
    Data,
    Handshake,
    Both,
}

fn data_port(node: &mut Node) -> String {
    let descriptor = node.ask(&json!({ "op": "descriptor" })).ok();
    descriptor.value("descriptor")["tcp_data_port"].to_string()
}

/// Starts another process on ports of `old`, which ends as in a crash. Its name is another one,
/// its buffer looks the same.
fn succeed(mut old: Node, taken: Taken) -> Node {
    let (rpc, data) = (old.rpc_port(), data_port(&mut old));
    let name = old.name().to_owned();
    old.child().kill();
    let on_data = |spec: NodeSpec| spec.env("MC_MIN_RPC_PORT", &data).env("MC_MAX_RPC_PORT", &data);
    let spec = NodeSpec::new(Kind::Te, ALL).at(AT);
    let spec = match taken {
        Taken::Data => on_data(spec.port(free_port("127.0.0.1").unwrap())),
        Taken::Handshake => spec.host("localhost").port(rpc),
        Taken::Both => on_data(spec.host("localhost").port(rpc)),
    };
    let mut new = spec.start();
    assert_ne!(new.name(), name);
    assert_eq!(new.addr(), AT);
    let same = (new.rpc_port() == rpc, data_port(&mut new) == data);
    let expected = match taken {
        Taken::Data => (false, true),
        Taken::Handshake => (true, false),
        Taken::Both => (true, true),
    };
    assert_eq!(same, expected, "{taken:?}");
    new.fill(0, ALL, MINE);
    new
}

#[test]
fn another_name_on_recycled_ports_is_recognised_on_first_contact() {
    // Issue, item 4: what is asked of the process that ended is refused, in time and by name. Its
    // successor's memory is neither written nor read, though a request would fit it.
    let test = "another_name_on_recycled_ports_is_recognised_on_first_contact";
    need!(test, Kind::Te.available());
    let heartbeat = Heartbeat::start();
    for taken in [Taken::Data, Taken::Handshake, Taken::Both] {
        for dir in Direction::BOTH {
            let mut from = ours(ALL);
            from.fill(0, ALL, 0xa5);
            let old = NodeSpec::new(Kind::Te, ALL).at(AT).start();
            let name = old.name().to_owned();
            from.write(&name, from.addr(), AT, 64).ok();
            let mut new = succeed(old, taken);
            let begun = now();
            // Both are submitted while the process that ended is all that is known.
            let parts = Parts::tiled(2, EACH, (from.addr(), AT, ALL));
            let id = from.submit(dir, &name, &parts);
            let ended = from.wait(id);
            heartbeat.assert_within("a refusal", begun.elapsed(), Duration::from_secs(2));
            assert_eq!(ended.number("failed"), 2, "{taken:?} {}: {ended:?}", dir.word());
            say(&format!("{test}: {taken:?} {}: {}", dir.word(), ended.refused()));
            assert!(ended.refused().contains(&name), "{ended:?}");
            new.verify_filled(0, ALL, MINE);
            from.verify_filled(0, ALL, 0xa5);
            if let Taken::Data = taken {
                // Nobody has that name any more, however often it is asked for.
                from.transfer(dir, &name, (from.addr(), AT), EACH).refused();
                new.verify_filled(0, ALL, MINE);
                from.verify_filled(0, ALL, 0xa5);
            }
            // Under its own name it is reached, over the same port.
            from.transfer(dir, new.name(), (from.addr(), AT), EACH).ok();
            let (written, read) = (new.count(0, EACH, 0xa5), from.count(0, EACH, MINE));
            let expected = if dir == Direction::Write { (EACH, 0) } else { (0, EACH) };
            assert_eq!((written, read), expected);
            from.quit();
            new.quit();
        }
    }
}

#[test]
fn what_was_under_way_does_not_reach_another_name_on_recycled_ports() {
    // The same in the middle of a batch of writes: not a byte of it arrives at the successor.
    let test = "what_was_under_way_does_not_reach_another_name_on_recycled_ports";
    need!(test, Kind::Te.available());
    let mut from = ours(ALL);
    from.fill(0, ALL, 0xa5);
    for round in 0..amount(test, 18, 6) {
        let taken = [Taken::Data, Taken::Handshake, Taken::Both];
        let taken = taken[usize::try_from(round % 3).unwrap()];
        let old = NodeSpec::new(Kind::Te, ALL).at(AT).start();
        let name = old.name().to_owned();
        from.write(&name, from.addr(), AT, 64).ok();
        let parts = Parts::tiled(64, EACH, (from.addr(), AT, ALL));
        let id = from.submit(Direction::Write, &name, &parts);
        pace(Duration::from_millis(3 * round));
        let mut new = succeed(old, taken);
        let ended = from.wait(id);
        assert_eq!(ended.number("completed") + ended.number("failed"), 64, "{ended:?}");
        new.verify_filled(0, ALL, MINE);
        new.quit();
    }
    from.quit();
}
