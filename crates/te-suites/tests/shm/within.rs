//! A segment of the same process.

use te_suites::{Direction, Kind, need};

use crate::{MIB, spec, via};

#[test]
fn fb42_a_copy_to_oneself_goes_in_the_direction_that_was_asked_for() {
    // FB42: a local copy ignored the opcode, so that a read went the way of a write. Both ways here,
    // with distinct patterns and untouched bytes around, and one side that can only be read.
    let test = "fb42_a_copy_to_oneself_goes_in_the_direction_that_was_asked_for";
    need!(test, Kind::Te.available());
    let mut node = spec(4 * MIB).start();
    let name = node.name().to_owned();
    assert_eq!(via(&mut node, &name), "local");
    let other = node.alloc(MIB);
    node.reg(other, MIB).ok();
    let (base, at) = (node.addr(), node.off(other));
    for (dir, expected) in [(Direction::Write, 7), (Direction::Read, 9)] {
        node.fill(0, 4 * MIB, 7);
        node.fill(at, MIB, 9);
        // `src` is the local side, `dst` the segment's, whatever the direction is.
        node.transfer(dir, &name, (base + 100, other + 200), 300_000).ok();
        let (here, there) = (node.count(0, 4 * MIB, 7), node.count(at, MIB, 9));
        if dir == Direction::Write {
            assert_eq!((here, there), (4 * MIB, MIB - 300_000));
            node.verify_filled(at + 200, 300_000, expected);
        } else {
            assert_eq!((here, there), (4 * MIB - 300_000, MIB));
            node.verify_filled(100, 300_000, expected);
        }
    }
    // Memory that can only be read is read, and writing it is an error and no signal.
    node.fill(0, 4 * MIB, 7);
    node.fill(at, MIB, 9);
    node.protect(other, MIB, "read");
    node.read(&name, base, other, MIB).ok();
    node.verify_filled(0, MIB, 9);
    node.fill(0, MIB, 7);
    assert!(!node.write(&name, base, other, MIB).is_ok());
    assert!(!node.read(&name, other, base, MIB).is_ok(), "the local side cannot be written");
    node.verify_filled(at, MIB, 9);
    node.verify_filled(0, 4 * MIB, 7);
    node.write(&name, other, base, MIB).ok();
    node.verify_filled(0, MIB, 9);
    node.quit();
}

#[test]
fn what_is_not_registered_or_taken_back_is_refused_as_for_any_peer() {
    // Guards of the own segment hold for local copies as for those of others.
    let test = "what_is_not_registered_or_taken_back_is_refused_as_for_any_peer";
    need!(test, Kind::Te.available());
    let mut node = spec(MIB).start();
    let (name, base) = (node.name().to_owned(), node.addr());
    let other = node.alloc(MIB);
    assert!(!node.write(&name, base, other, 4096).is_ok(), "it is not registered");
    node.reg(other, MIB).ok();
    node.write(&name, base, other, 4096).ok();
    assert!(!node.write(&name, base, other + MIB - 100, 4096).is_ok(), "it reaches over the end");
    node.unreg(other).ok();
    node.fill(node.off(other), MIB, 3);
    assert!(!node.write(&name, base, other, 4096).is_ok(), "it was taken back");
    node.verify_filled(node.off(other), MIB, 3);
    node.quit();
}
