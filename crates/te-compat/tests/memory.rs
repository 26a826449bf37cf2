//! Memory by address: the peer's codes, ranges that are not there, managed buffers.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use common::{SIZE, buffer, leaked, node, pattern, piece};
use te_compat::{Buffer, Code, LocalState, Opcode};
use te_segment::{AlignedBuffer, VanishingMemory};

#[test]
fn a54_a23_registering_answers_with_the_peers_codes() {
    // A23, A54, peer faults 21 and 22: each way to be refused, and nothing is changed by it.
    let a = node(&["tcp"]);
    let code = |address, len| {
        let registered = a.engine.register(Buffer { address, len }, "cpu:0", true);
        registered.map_or_else(|failure| failure.code().as_i32(), |()| 0)
    };
    assert_eq!(code(a.at(0), 0), -1, "no bytes");
    assert_eq!(code(0, 4096), -1, "null");
    assert_eq!(code(u64::MAX - 4095, 8192), -1, "wraps");
    assert_eq!(code(4096, 4096), -1, "not mapped");
    assert_eq!(code(a.at(16), 64), -7, "inside");
    assert_eq!(code(a.at(0), SIZE), -7, "the same range elsewhere");
}

#[test]
fn a54_an_exact_duplicate_is_counted() {
    // FB33 and A24: as many unregistrations as registrations, then the address is unknown.
    let a = node(&["tcp"]);
    a.engine.register(buffer(&a.region), "*", true).unwrap();
    a.engine.unregister(a.at(0)).unwrap();
    assert!(a.engine.overlaps(a.at(5), 1).unwrap());
    a.engine.unregister(a.at(0)).unwrap();
    assert!(!a.engine.overlaps(a.at(5), 1).unwrap());
    let failure = a.engine.unregister(a.at(0)).unwrap_err();
    assert_eq!((failure.code().as_i32(), failure.facts().phase), (-3, "unregister"));
}

#[test]
fn a25_a26_batches_are_all_or_none_in_and_past_errors_out() {
    // A25, A26, C23.
    let a = node(&["tcp"]);
    let fresh = a.engine.allocate(1 << 20).unwrap();
    let part = |at, len| Buffer { address: fresh.address() + at, len };
    let failure = a.engine.register_batch(&[part(0, 4096), part(1024, 64)], "*", true).unwrap_err();
    assert_eq!(failure.code(), Code::AddressOverlapped);
    assert!(!a.engine.overlaps(fresh.address(), 1 << 20).unwrap());
    let bad = Buffer { address: 8, len: 8 };
    let failure = a.engine.register_batch(&[part(0, 4096), bad], "*", true).unwrap_err();
    assert_eq!((failure.code().as_i32(), failure.facts().index), (-1, Some(1)));
    a.engine.register_batch(&[part(0, 4096), part(4096, 64)], "*", true).unwrap();
    let addresses = [fresh.address(), 77, fresh.address() + 4096];
    let failure = a.engine.unregister_batch(&addresses).unwrap_err();
    assert_eq!((failure.code().as_i32(), failure.facts().index), (-3, Some(1)));
    assert!(!a.engine.overlaps(fresh.address(), 1 << 20).unwrap());
    a.engine.register_batch(&[], "*", true).unwrap();
    a.engine.unregister_batch(&[]).unwrap();
}

#[test]
fn a163_bytes_are_copied_by_address_and_a_hole_is_an_answer() {
    // A163: registered, not registered, and not mapped.
    let a = node(&["tcp"]);
    let mut seen = [0; 5];
    for address in [a.at(9), leaked(vec![0; 64])] {
        a.engine.write_bytes(address, b"hello").unwrap();
        a.engine.read_bytes(address, &mut seen).unwrap();
        assert_eq!(&seen, b"hello");
    }
    let hole = VanishingMemory::new(AlignedBuffer::zeroed(8192).unwrap());
    hole.vanish();
    let address = hole.region().address();
    assert_eq!(a.engine.write_bytes(address, b"x").unwrap_err().code().as_i32(), -1);
    assert_eq!(a.engine.read_bytes(address, &mut seen).unwrap_err().code().as_i32(), -1);
    a.engine.write_bytes(address, b"").unwrap();
}

#[test]
fn a163_what_is_not_mapped_is_refused_before_room_is_made() {
    // A163: 64 TiB, which nobody has room for, and a hole behind what is mapped.
    let a = node(&["tcp"]);
    a.engine.write_bytes(a.at(9), b"hello").unwrap();
    assert_eq!(a.engine.copy_bytes(a.at(9), 5).unwrap(), b"hello");
    for (address, len) in [(4096, 1 << 46), (a.at(0), 1 << 46), (0, 1), (u64::MAX, 2)] {
        let failure = a.engine.copy_bytes(address, len).unwrap_err();
        assert_eq!((failure.code(), failure.facts().phase), (Code::InvalidArgument, "memory"));
    }
    assert!(a.engine.copy_bytes(4096, 0).unwrap().is_empty());
}

#[test]
fn a154_managed_buffers_are_registered_and_used_again() {
    // A154: small and large, given back, and refused when they are not what was given.
    let a = node(&["tcp"]);
    let small = a.engine.allocate_managed(100).unwrap();
    let other = a.engine.allocate_managed(100).unwrap();
    assert!(small.abs_diff(other) >= 8 << 10);
    assert!(a.engine.overlaps(small, 100).unwrap());
    a.engine.write_bytes(small, &pattern(1, 100)).unwrap();
    assert_eq!(a.engine.free_managed(small, 99).unwrap_err().code().as_i32(), -3);
    assert_eq!(a.engine.free_managed(small + 1, 100).unwrap_err().code().as_i32(), -3);
    a.engine.free_managed(small, 100).unwrap();
    assert_eq!(a.engine.free_managed(small, 100).unwrap_err().code().as_i32(), -3);
    assert_eq!(a.engine.allocate_managed(8 << 10).unwrap(), small, "the block is used again");
    let large = a.engine.allocate_managed((256 << 20) + 1).unwrap();
    assert!(a.engine.overlaps(large + (256 << 20), 1).unwrap());
    a.engine.free_managed(large, (256 << 20) + 1).unwrap();
    assert!(!a.engine.overlaps(large, 1).unwrap());
    assert_eq!(a.engine.allocate_managed(0).unwrap_err().code().as_i32(), -1);
}

#[test]
fn a_failure_of_registering_leaves_the_memory_free() {
    let a = node(&["tcp"]);
    let failure = a.engine.register(Buffer { address: 4096, len: 64 }, "*", true).unwrap_err();
    assert_eq!((failure.facts().phase, failure.facts().local), ("register", LocalState::Free));
    assert!(failure.to_string().contains("0x1000"), "{failure}");
}

#[test]
fn fb33_threads_register_and_unregister_the_same_and_other_ranges() {
    // FB33: every call succeeds, transfers find the memory meanwhile, and nothing is left.
    let (a, b) = (node(&["tcp"]), node(&["tcp"]));
    let region = a.engine.allocate(8 << 12).unwrap();
    let write = piece(region.address(), b.at(0), 4096);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let own = region.address() + ((thread % 4) << 12);
            let (engine, host) = (&a.engine, b.name());
            scope.spawn(move || {
                for _ in 0..200 {
                    engine.register(Buffer { address: own, len: 4096 }, "*", true).unwrap();
                    engine.unregister(own).unwrap();
                }
                // The range may be taken from it, and then the call says so.
                if let Err(failure) = engine.transfer_sync(Opcode::Write, &host, write) {
                    assert_eq!(failure.facts().phase, "submit", "{failure}");
                }
            });
        }
    });
    assert!(!a.engine.overlaps(region.address(), 8 << 12).unwrap());
}
