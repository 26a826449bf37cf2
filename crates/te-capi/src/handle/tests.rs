//! Handles that name an engine, and such that do not.

use te_compat::Options;

use super::*;
use crate::raw::caller_memory;

fn engine() -> Engine {
    Engine::new(&Options::new("P2PHANDSHAKE", "127.0.0.1"), caller_memory()).unwrap()
}

fn reason(handle: Handle) -> String {
    handle.engine().unwrap_err().to_string()
}

#[test]
fn a_handle_is_taken_apart_as_it_was_put_together() {
    let place = Place { era: 3, generation: 0xdead_beef, slot: 0xfffe };
    let handle = place.handle();
    assert_eq!(Place::of(handle.0.addr() as u64), Some(place));
    assert_eq!(Place::of(0x7f00_0000_1000), None, "an address of a program");
}

#[test]
fn null_foreign_and_stale_handles_are_told_apart() {
    let here = 7_u64;
    let address = Handle(std::ptr::from_ref(&here).cast_mut().cast());
    assert!(reason(Handle::NULL).contains("null"));
    assert!(reason(address).contains("no engine handle"));
    let first = insert(engine()).unwrap();
    let place = Place::of(first.0.addr() as u64).unwrap();
    let later = Place { generation: place.generation + 1, ..place }.handle();
    let beside = Place { slot: place.slot + 999, ..place }.handle();
    assert!(reason(later).contains("no engine handle"), "a generation that has not been");
    assert!(reason(beside).contains("no engine handle"), "a slot that has not been");
    assert_eq!(first.engine().unwrap().local_name(), remove(first).unwrap().local_name());
    assert!(reason(first).contains("destroyed"));
    assert!(remove(first).is_err());
    let second = insert(engine()).unwrap();
    assert_ne!(first, second);
    assert!(reason(first).contains("destroyed"), "its slot may have an engine again");
    remove(second).unwrap();
}

#[test]
fn fb52_a_handle_of_an_earlier_era_belongs_to_the_parent() {
    // FB52: the process that was forked has a table of its own; what it was given before is the
    // parent's. The suite `capi` forks; here the era is only made up.
    let handle = Place { era: Era::current().number + 1, generation: 1, slot: 0 }.handle();
    assert!(reason(handle).contains("no engine handle"), "from a later process");
    static PARENT: Lasting<Era> = Lasting::empty();
    let era = PARENT.replace(None, Era::new(4));
    assert!(era.is_here());
}
