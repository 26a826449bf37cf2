//! The segment against a list that is searched byte by byte.

use proptest::prelude::*;
use std::collections::HashSet;
use std::time::Duration;

use super::*;

const SPACE: u64 = 64;

#[derive(Debug, Clone)]
enum Op {
    Register { offset: u64, len: u64, remote: RemoteAccess },
    RegisterAndDrop { offset: u64, len: u64 },
    Unregister { offset: u64 },
    Acquire { offset: u64, len: u64, access: Access },
    DropGuard { which: usize },
}

fn op() -> impl Strategy<Value = Op> {
    let remote = prop_oneof![
        1 => Just(RemoteAccess::None),
        1 => Just(RemoteAccess::Read),
        4 => Just(RemoteAccess::ReadWrite),
    ];
    let access = prop_oneof![Just(Access::Read), Just(Access::Write)];
    // Few places, so that duplicates, neighbours and overlaps are common.
    let place = || (0..SPACE / 8).prop_map(|i| i * 8);
    let size = || (1..4u64).prop_map(|i| i * 8);
    prop_oneof![
        4 => (place(), size(), remote)
            .prop_map(|(offset, len, remote)| Op::Register { offset, len, remote }),
        1 => (place(), size()).prop_map(|(offset, len)| Op::RegisterAndDrop { offset, len }),
        3 => place().prop_map(|offset| Op::Unregister { offset }),
        4 => (0..SPACE, 0..24u64, access)
            .prop_map(|(offset, len, access)| Op::Acquire { offset, len, access }),
        2 => (0..8usize).prop_map(|which| Op::DropGuard { which }),
    ]
}

/// One buffer of the oracle.
#[derive(Debug)]
struct Known {
    id: BufferId,
    offset: u64,
    len: u64,
    remote: RemoteAccess,
    registrations: u32,
    closing: bool,
    held: u64,
}

impl Known {
    fn bytes(&self) -> std::ops::Range<u64> {
        self.offset..self.offset + self.len
    }
}

struct World {
    memory: Region,
    segment: LocalSegment,
    known: Vec<Known>,
    guards: Vec<BufferGuard>,
    ids: HashSet<BufferId>,
}

impl World {
    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Register { offset, len, remote } => self.register(offset, len, remote),
            Op::RegisterAndDrop { offset, len } => {
                drop(self.segment.reserve(&[self.wanted(offset, len, RemoteAccess::ReadWrite)]));
            }
            Op::Unregister { offset } => self.unregister(offset),
            Op::Acquire { offset, len, access } => self.acquire(offset, len, access),
            Op::DropGuard { which } => self.drop_guard(which),
        }
    }

    fn wanted(&self, offset: u64, len: u64, remote: RemoteAccess) -> (Region, RegisterOptions) {
        let options = RegisterOptions { remote, ..RegisterOptions::default() };
        (self.memory.subregion(offset, len).unwrap(), options)
    }

    fn register(&mut self, offset: u64, len: u64, remote: RemoteAccess) {
        let (region, options) = self.wanted(offset, len, remote);
        let answer = self.segment.register(&region, options);
        let shared: Vec<usize> = (0..self.known.len())
            .filter(|i| (offset..offset + len).any(|byte| self.known[*i].bytes().contains(&byte)))
            .collect();
        match shared[..] {
            [] => {
                let id = answer.unwrap().id();
                assert!(self.ids.insert(id), "{id:?} was given before");
                let known =
                    Known { id, offset, len, remote, registrations: 1, closing: false, held: 0 };
                self.known.push(known);
            }
            [i] if self.known[i].bytes() == (offset..offset + len) && self.known[i].closing => {
                let held = self.known[i].held;
                let wanted = |error: &RegisterError| matches!(error, RegisterError::Closing { in_flight, .. } if *in_flight == held);
                assert!(answer.as_ref().is_err_and(wanted), "{answer:?}");
            }
            [i] if self.known[i].bytes() == (offset..offset + len) => {
                let known = &mut self.known[i];
                if known.remote == remote {
                    assert_eq!(answer.unwrap().id(), known.id);
                    known.registrations += 1;
                } else {
                    assert!(matches!(answer, Err(RegisterError::OptionsDiffer { .. })));
                }
            }
            _ => assert!(matches!(answer, Err(RegisterError::Overlap { .. }))),
        }
    }

    fn unregister(&mut self, offset: u64) {
        let address = self.memory.address() + offset;
        let answer = unregister(&self.segment, address);
        let Some(i) = self.known.iter().position(|known| known.offset == offset) else {
            assert_eq!(answer, Err(UnregisterError::NotRegistered { address }));
            return;
        };
        let known = &mut self.known[i];
        known.registrations = known.registrations.saturating_sub(1);
        if known.registrations > 0 {
            assert_eq!(answer, Ok(false));
        } else if known.held > 0 {
            known.closing = true;
            assert_eq!(answer, Err(UnregisterError::Busy { address, in_flight: known.held }));
        } else {
            assert_eq!(answer, Ok(true));
            self.known.remove(i);
        }
    }

    fn acquire(&mut self, offset: u64, len: u64, access: Access) {
        let address = self.memory.address() + offset;
        let answer = self.segment.acquire(address, len, access);
        let holds = |known: &&mut Known| {
            (offset..offset + len).all(|byte| known.bytes().contains(&byte)) && len > 0
        };
        let Some(known) = self.known.iter_mut().find(holds) else {
            assert!(matches!(
                answer,
                Err(AccessError::NotRegistered { .. } | AccessError::Invalid { .. })
            ));
            return;
        };
        let may = match access {
            Access::Read => known.remote != RemoteAccess::None,
            Access::Write => known.remote == RemoteAccess::ReadWrite,
        };
        if !may {
            assert_eq!(answer.err(), Some(AccessError::Forbidden { buffer: known.id }));
        } else if known.closing {
            assert_eq!(answer.err(), Some(AccessError::Closed { buffer: known.id }));
        } else {
            known.held += 1;
            self.guards.push(answer.unwrap());
        }
    }

    fn drop_guard(&mut self, which: usize) {
        if which < self.guards.len() {
            let guard = self.guards.swap_remove(which);
            let id = guard.buffer().id();
            let known = self.known.iter_mut().find(|known| known.id == id).unwrap();
            assert_eq!(guard.is_revoked(), known.closing);
            known.held -= 1;
        }
    }

    /// What can be seen from outside agrees with the list.
    fn compare(&self) {
        let (_, list) = self.segment.snapshot();
        let mut open: Vec<_> = self.known.iter().filter(|known| !known.closing).collect();
        open.sort_by_key(|known| known.offset);
        let wanted: Vec<_> = open.iter().map(|known| (known.id, known.held)).collect();
        let seen: Vec<_> = list.iter().map(|buffer| (buffer.id(), buffer.in_flight())).collect();
        assert_eq!(seen, wanted);
        for byte in 0..SPACE {
            let taken = self.known.iter().any(|known| known.bytes().contains(&byte));
            assert_eq!(self.segment.overlaps(self.memory.address() + byte, 1), taken, "{byte}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_segment_agrees_with_a_naive_list(ops in proptest::collection::vec(op(), 1..80)) {
        let mut world = World {
            memory: memory(1),
            segment: LocalSegment::new(),
            known: Vec::new(),
            guards: Vec::new(),
            ids: HashSet::new(),
        };
        for op in &ops {
            world.apply(op);
            world.compare();
        }
        world.guards.clear();
        let addresses: Vec<_> =
            world.known.iter().map(|known| world.memory.address() + known.offset).collect();
        for address in addresses {
            while let Ok(None) = world.segment.retire(address) {}
            let last = world.segment.retire(address).unwrap().unwrap();
            last.finish(Duration::ZERO).unwrap();
        }
        prop_assert!(!world.segment.overlaps(world.memory.address(), SPACE));
    }
}
