//! The guard table against a model, under threads, and with hostile values.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;

use proptest::prelude::*;
use te_segment::{AlignedBuffer, LocalSegment, Region, RegisterOptions};

use super::*;

const ME: Incarnation = Incarnation::from_u128(0x1111_2222_3333_4444_5555_6666_7777_8888);

/// Real ids, since only a segment makes them.
fn ids(n: usize) -> Vec<BufferId> {
    let segment = LocalSegment::new();
    let new = || {
        let region = Region::from(AlignedBuffer::zeroed(4096).unwrap());
        segment.register(&region, RegisterOptions::default()).unwrap().id()
    };
    (0..n).map(|_| new()).collect()
}

fn pair() -> (GuardTable, PeerTable) {
    let table = GuardTable::create(ME).unwrap();
    let peer = PeerTable::open(table.fd(), ME).unwrap();
    (table, peer)
}

#[test]
fn rights_and_states_are_seen_by_the_peer() {
    let (table, peer) = pair();
    let id = ids(1)[0];
    let see = || [Access::Read, Access::Write].map(|access| peer.check(id.into(), access).err());
    let (gone, forbidden) = (Some(Denial::Gone), Some(Denial::Forbidden));
    assert_eq!(see(), [gone, gone]);
    assert!(table.open(id, RemoteAccess::Read, false));
    assert_eq!(see(), [None, forbidden]);
    table.open(id, RemoteAccess::ReadWrite, false);
    assert_eq!(see(), [None, None]);
    table.close(id);
    assert_eq!(see(), [gone, gone]);
    assert!(peer.is_same(id.into()), "what was copied before counts");
    let next = BufferHandle { generation: id.generation() + 1, slot: id.slot() };
    assert!(!peer.is_same(next) && peer.is_open());
    table.shut();
    assert!(!peer.is_open());
}

#[test]
fn what_is_no_table_of_that_process_is_refused() {
    let (table, _) = pair();
    let other = Incarnation::from_u128(ME.as_u128() ^ 1);
    assert!(matches!(PeerTable::open(table.fd(), other), Err(SealError::Kind)));
    let (empty, _words) = Words::create("te-test", TABLE_BYTES, true).unwrap();
    assert!(matches!(PeerTable::open(&empty, ME), Err(SealError::Kind)));
    let (short, _words) = Words::create("te-test", 4096, false).unwrap();
    assert!(matches!(PeerTable::open(&short, ME), Err(SealError::Size { .. })));
    assert!(matches!(Holds::open(&short), Err(SealError::Kind)));
    assert!(matches!(Holds::open(table.fd()), Err(SealError::Size { .. })));
}

#[test]
fn handles_beyond_the_table_and_holds_beyond_the_page_have_no_place() {
    let (table, peer) = pair();
    let (_fd, holds) = Holds::create().unwrap();
    for slot in [SLOTS, SLOTS + 1, u32::MAX] {
        let far = BufferHandle { generation: 1, slot };
        assert_eq!(peer.check(far, Access::Read), Err(Denial::NoPlace));
        assert_eq!(holds.put(0, far), Err(Denial::NoPlace));
        assert!(!peer.is_same(far));
    }
    let last = BufferHandle { generation: u32::MAX, slot: SLOTS - 1 };
    assert_eq!(peer.check(last, Access::Read), Err(Denial::Gone));
    assert_eq!(holds.put(HOLDS - 1, last), Ok(()));
    assert!(holds.names(SLOTS - 1) && !holds.is_idle());
    assert_eq!(holds.put(HOLDS, last), Err(Denial::NoPlace));
    holds.clear(usize::MAX);
    assert!(holds.is_idle());
    drop(table);
}

/// What an owner and an initiator do.
#[derive(Debug, Clone)]
enum Op {
    Open(usize, bool),
    Close(usize),
    Hold(usize, usize, bool),
    LetGo(usize),
    /// A hostile initiator writes whatever it likes into its own page.
    Scribble(usize, u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..4usize, any::<bool>()).prop_map(|(b, w)| Op::Open(b, w)),
        (0..4usize).prop_map(Op::Close),
        (0..HOLDS, 0..4usize, any::<bool>()).prop_map(|(i, b, w)| Op::Hold(i, b, w)),
        (0..HOLDS).prop_map(Op::LetGo),
        (0..512usize, any::<u64>()).prop_map(|(i, v)| Op::Scribble(i, v)),
    ]
}

proptest! {
    /// The table says of each buffer what a plain map says, and a page of holds names what a plain
    /// list names, whatever another page is filled with.
    #[test]
    fn the_table_is_what_its_model_is(ops in proptest::collection::vec(op(), 1..200)) {
        let buffers = ids(4);
        let (table, peer) = pair();
        let (fd, owner) = Holds::create().unwrap();
        let initiator = Holds::open(&fd).unwrap();
        let (hostile_fd, hostile) = Holds::create().unwrap();
        let hostile_words = Words::open(&hostile_fd, HOLDS_BYTES).unwrap();
        let mut open: HashMap<usize, bool> = HashMap::new();
        let mut held: HashMap<usize, usize> = HashMap::new();
        for op in ops {
            match op {
                Op::Open(b, writable) => {
                    let remote = if writable { RemoteAccess::ReadWrite } else { RemoteAccess::Read };
                    table.open(buffers[b], remote, false);
                    open.insert(b, writable);
                }
                Op::Close(b) => {
                    table.close(buffers[b]);
                    open.remove(&b);
                }
                Op::Hold(index, b, write) => {
                    let access = if write { Access::Write } else { Access::Read };
                    initiator.put(index, buffers[b].into()).unwrap();
                    let expected = match open.get(&b) {
                        None => Err(Denial::Gone),
                        Some(false) if write => Err(Denial::Forbidden),
                        Some(_) => Ok(()),
                    };
                    prop_assert_eq!(peer.check(buffers[b].into(), access), expected);
                    match expected {
                        Ok(()) => drop(held.insert(index, b)),
                        Err(_) => {
                            initiator.free(index);
                            held.remove(&index);
                        }
                    }
                }
                Op::LetGo(index) => {
                    initiator.free(index);
                    held.remove(&index);
                }
                Op::Scribble(index, value) => {
                    hostile_words.word(index).unwrap().store(value, Ordering::SeqCst);
                }
            }
            for (b, buffer) in buffers.iter().enumerate() {
                let expected = held.values().any(|other| *other == b);
                prop_assert_eq!(owner.names(buffer.slot()), expected);
                // Any answer will do, as long as there is one.
                let _ = hostile.names(buffer.slot());
            }
            prop_assert_eq!(owner.is_idle(), held.is_empty());
        }
    }
}

/// I1: an owner that closed a slot and found no hold may use the memory, whatever initiators do at
/// the same moment.
#[test]
fn no_copy_runs_on_a_buffer_that_was_found_free() {
    const ROUNDS: u64 = 20_000;
    let id = ids(1)[0];
    let (table, peer) = pair();
    let pages: Vec<_> = (0..2).map(|_| Holds::create().unwrap()).collect();
    let (stop, owned) = (AtomicBool::new(false), AtomicU64::new(0));
    let copies = AtomicU64::new(0);
    thread::scope(|scope| {
        for (fd, _) in &pages {
            let holds = Holds::open(fd).unwrap();
            let (peer, stop, owned, copies) = (&peer, &stop, &owned, &copies);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    holds.put(0, id.into()).unwrap();
                    if peer.check(id.into(), Access::Write).is_ok() {
                        let before = owned.load(Ordering::Relaxed);
                        copies.fetch_add(1, Ordering::Relaxed);
                        let after = owned.load(Ordering::Relaxed);
                        assert!(before == after && before % 2 == 0, "the owner has it back");
                    }
                    holds.clear(1);
                }
            });
        }
        for _ in 0..ROUNDS {
            table.open(id, RemoteAccess::ReadWrite, false);
            table.close(id);
            while pages.iter().any(|(_, holds)| holds.names(id.slot())) {
                thread::yield_now();
            }
            // Odd while the owner uses the memory.
            owned.fetch_add(1, Ordering::SeqCst);
            owned.fetch_add(1, Ordering::SeqCst);
        }
        stop.store(true, Ordering::Relaxed);
    });
    // On one busy core there may be few, and none of them was wrong.
    println!("{} copies in {ROUNDS} rounds", copies.load(Ordering::Relaxed));
}
