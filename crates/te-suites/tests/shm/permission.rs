//! Where the system does not let one process into another.

use serde_json::json;
use te_suites::{Direction, Kind, Node, NodeSpec, Parts, need};

use crate::{MIB, spec, via};

/// Without the capability to look into any process.
const PLAIN: [&str; 2] = ["setpriv", "--bounding-set=-sys_ptrace"];

/// Whether rights can be given up here.
fn available() -> Result<(), String> {
    Kind::Te.available()?;
    let tried = std::process::Command::new(PLAIN[0]).args([PLAIN[1], "true"]).output();
    match tried {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err("rights cannot be given up here (needs root and setpriv of util-linux)".into()),
    }
}

fn tries(from: &mut Node, to: &mut Node) {
    let name = to.name().to_owned();
    assert_eq!(via(from, &name), "tcp");
    let size = 4 * MIB;
    for dir in Direction::BOTH {
        from.fill(0, size, 0xa1);
        to.fill(0, size, 0xb2);
        let parts = Parts::tiled(16, size / 16, (from.addr(), to.addr(), size));
        from.batch(dir, &name, &parts).ok();
        let byte = if dir == Direction::Write { 0xa1 } else { 0xb2 };
        from.verify_filled(0, size, byte);
        to.verify_filled(0, size, byte);
    }
}

/// A node whose buffer is no memory that could be mapped instead.
fn private(size: u64) -> NodeSpec {
    spec(size).at(0x5200_0000_0000)
}

fn plain(spec: NodeSpec) -> NodeSpec {
    spec.through(&PLAIN)
}

#[test]
fn where_copies_are_not_permitted_another_transport_serves() {
    // Deliver item 3: permission is probed, not assumed. The target's memory is closed to others, by
    // its own wish or because it has more rights than the initiator: TCP is used, at once.
    let test = "where_copies_are_not_permitted_another_transport_serves";
    need!(test, available());
    let mut from = plain(spec(4 * MIB)).start();
    // More rights than the initiator.
    let mut to = private(4 * MIB).start();
    tries(&mut from, &mut to);
    to.quit();
    // As many rights, and memory that it has closed.
    let mut to = plain(private(4 * MIB)).start();
    to.ask(&json!({ "op": "guard_memory" })).ok();
    tries(&mut from, &mut to);
    to.quit();
    // As many rights, and nothing in the way.
    let to = plain(private(4 * MIB)).start();
    assert_eq!(via(&mut from, to.name()), "shm");
    to.quit();
    from.quit();
}

#[test]
fn a_process_of_another_user_is_not_let_in() {
    // Another user's process is turned away at the socket, and TCP is used.
    let test = "a_process_of_another_user_is_not_let_in";
    need!(test, available());
    let user = |id: &str| {
        let (uid, gid) = (format!("--reuid={id}"), format!("--regid={id}"));
        private(4 * MIB).through(&["setpriv", &uid, &gid, "--clear-groups"])
    };
    let (mut from, mut to) = (user("65531").start(), user("65532").start());
    tries(&mut from, &mut to);
    from.quit();
    to.quit();
}
