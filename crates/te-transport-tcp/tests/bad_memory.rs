//! Memory that goes away under a transfer, on either side.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests are drivers")]
#![allow(unsafe_code, reason = "these tests take memory away")]

mod common;

use std::time::{Duration, Instant};

use common::{Node, PATIENCE};
use te_segment::{Opcode, Region, RegisterOptions, Slice};
use te_transport::{FaultClass, Transport};

/// Peer fault 29, 28: memory that went away without being unregistered fails what touches it, on
/// either side, and nothing else.
#[test]
fn fault28_fault29_fb13_memory_that_went_away_fails_only_its_request() {
    let (a, b) = (Node::new(), Node::new());
    let peer = b.as_peer();
    let (near, far) = (a.register(1 << 20), b.register(1 << 20));
    let run = |op, local: &Region, at| a.run(op, local.whole(), at, &peer);
    for op in [Opcode::Write, Opcode::Read] {
        let gone = Gone::new(1 << 20);
        b.segment.register(&gone.region, RegisterOptions::default()).unwrap();
        gone.go();
        let end = run(op, near.region(), gone.region.address());
        let fault = end.result.unwrap_err();
        println!("{op:?} to memory that the target unmapped: {fault}, {}", end.remote);
        let end = run(op, &gone.region, far.region().address());
        let fault = end.result.unwrap_err();
        println!("{op:?} with memory that we unmapped: {fault}, {}", end.remote);
        assert_eq!(fault.errno, Some(libc::EFAULT));
        for op in [Opcode::Write, Opcode::Read] {
            assert_eq!(run(op, near.region(), far.region().address()).result, Ok(()));
        }
    }
}

/// Memory whose pages can be made inaccessible, which the kernel answers as it answers unmapped
/// ones; nothing else can appear at its addresses meanwhile.
struct Gone {
    region: Region,
    _memory: Region,
}

impl Gone {
    fn new(len: usize) -> Self {
        let memory = Region::from(te_segment::AlignedBuffer::zeroed(len).unwrap());
        memory.write_from(0, &vec![3; len]).unwrap();
        let ptr = std::ptr::with_exposed_provenance_mut(usize::try_from(memory.address()).unwrap());
        // SAFETY: the bytes belong to `memory`, which lives as long; nobody holds a reference.
        let region = unsafe { Region::from_raw_parts(ptr, len) }.unwrap();
        Self { region, _memory: memory }
    }

    fn go(&self) {
        let at = usize::try_from(self.region.address()).unwrap();
        let ptr = std::ptr::with_exposed_provenance_mut::<libc::c_void>(at);
        let len = usize::try_from(self.region.len()).unwrap();
        // SAFETY: the pages are those of a private mapping that only this test uses.
        assert_eq!(unsafe { libc::mprotect(ptr, len, libc::PROT_NONE) }, 0);
    }
}

/// FB13: half of the source goes away, or the target closes, at any moment of 16 writes: each slice
/// ends once, with a status, and the initiator serves on.
#[test]
fn fb13_memory_or_the_peer_going_away_in_mid_write_gives_statuses_only() {
    const LEN: u64 = 1 << 20;
    let a = Node::new();
    let healthy = Node::new();
    let (near, far) = (a.register(4096), healthy.register(4096));
    let (mut done, mut local, mut rail) = (0, 0, 0);
    for round in 0..60u64 {
        let b = Node::new();
        let target = b.register(16 << 20);
        let (first, second) = (Gone::new(8 << 20), Gone::new(8 << 20));
        let peer = b.as_peer();
        let slices: Vec<Slice> = (0..16)
            .map(|i| {
                let half = if i % 2 == 0 { &first } else { &second };
                let range = half.region.range(i / 2 * LEN, LEN).unwrap();
                a.slice(Opcode::Write, range, target.region().address() + i * LEN, &peer)
            })
            .collect();
        let tokens = a.submit(&peer, slices);
        std::thread::sleep(Duration::from_micros(round * 97 % 3000));
        if round % 2 == 0 {
            second.go();
        } else {
            b.transport.close(Instant::now() + PATIENCE);
        }
        for token in tokens {
            match a.ends.wait(token).result.map_err(|fault| fault.class) {
                Ok(()) => done += 1,
                Err(FaultClass::Local) => local += 1,
                Err(FaultClass::Rail | FaultClass::Peer) => rail += 1,
                Err(other) => panic!("round {round}: {other:?}"),
            }
        }
        let at = far.region().address();
        let end = a.run(Opcode::Write, near.region().whole(), at, &healthy.as_peer());
        assert_eq!(end.result, Ok(()), "round {round}");
    }
    assert!(a.ends.look(|state| state.twice.is_empty()));
    println!("{done} done, {local} with a local fault, {rail} with a broken path");
    assert!(done > 0 && local > 0 && rail > 0, "not every moment was hit");
}
