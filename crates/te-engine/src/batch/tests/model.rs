//! The batch table against a naive oracle: whatever the order of events, each task ends once, and
//! the sums are those of its parts.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::Config;

use super::*;

const PIECES: usize = 3;

#[derive(Debug, Clone)]
enum Step {
    Allocate,
    /// Appends a task of `PIECES` pieces to a batch.
    Push(usize),
    /// Launches the next piece of a task.
    Launch(usize, usize),
    /// The oldest piece in flight comes back, well or not.
    Land(usize, usize, bool),
    End(usize, usize),
    GiveUp(usize, usize),
    Free(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let (batch, task) = (0usize..4, 0usize..3);
    prop_oneof![
        1 => Just(Step::Allocate),
        3 => batch.clone().prop_map(Step::Push),
        6 => (batch.clone(), task.clone()).prop_map(|(b, t)| Step::Launch(b, t)),
        6 => (batch.clone(), task.clone(), any::<bool>()).prop_map(|(b, t, ok)| Step::Land(b, t, ok)),
        2 => (batch.clone(), task.clone()).prop_map(|(b, t)| Step::End(b, t)),
        1 => (batch.clone(), task).prop_map(|(b, t)| Step::GiveUp(b, t)),
        1 => batch.prop_map(Step::Free),
    ]
}

/// What the oracle believes of a task.
#[derive(Debug, Default)]
struct Expected {
    launched: usize,
    flying: Vec<Piece>,
    done: u64,
    /// How it ends once nothing is in flight: the first reason counts.
    ending: Option<TaskState>,
    state: Option<TaskState>,
}

#[derive(Debug)]
struct Side {
    id: BatchId,
    tasks: Vec<Expected>,
}

#[derive(Default)]
struct Pair {
    table: BatchTable,
    sides: Vec<Side>,
    freed: Vec<BatchId>,
    finals: HashMap<(u64, usize), TransferStatus>,
}

impl Pair {
    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Allocate => {
                let id = self.table.allocate(3).unwrap();
                self.sides.push(Side { id, tasks: Vec::new() });
            }
            Step::Push(b) => self.push(b),
            Step::Free(b) => self.free(b),
            Step::Launch(b, t) => self.with(b, t, |task, expected, _| {
                let open = expected.state.is_none() && expected.ending.is_none();
                let piece = task.cut(&POLICY);
                assert_eq!(piece.is_some(), open && expected.launched < PIECES);
                if let Some(piece) = piece {
                    assert!(task.launch(piece, crate::testing_support::a_via()).is_some());
                    expected.launched += 1;
                    expected.flying.push(piece);
                }
                Landing::Open
            }),
            Step::Land(b, t, ok) => self.with(b, t, |task, expected, retry| {
                if expected.flying.is_empty() {
                    return Landing::Open;
                }
                let piece = expected.flying.remove(0);
                let result = if ok { Ok(()) } else { Err(fault()) };
                let landing = task.land(piece, &completion(result, RemoteSide::Settled));
                expected.on_landed(piece, ok, &landing, retry);
                landing
            }),
            Step::End(b, t) => self.with(b, t, |task, expected, _| {
                let landing = task.end(TaskState::Canceled, fault(), later());
                expected.on_ended(TaskState::Canceled);
                landing
            }),
            Step::GiveUp(b, t) => self.with(b, t, |task, expected, _| {
                let gave_up = task.give_up_waiting().is_some();
                assert_eq!(gave_up, expected.ending.is_some() && expected.state.is_none());
                if gave_up {
                    expected.state = expected.ending;
                }
                if gave_up { Landing::Final } else { Landing::Open }
            }),
        }
    }

    fn push(&mut self, b: usize) {
        let Some(side) = self.sides.get_mut(b) else { return };
        let batch = self.table.find(side.id).unwrap();
        let mut inner = batch.lock();
        if batch.check_room(&inner, 1).is_ok() {
            inner.push(task(PIECES as u64 * 4096, None));
            side.tasks.push(Expected::default());
        } else {
            assert_eq!(side.tasks.len(), 3);
        }
    }

    fn free(&mut self, b: usize) {
        let Some(side) = self.sides.get(b) else { return };
        let open = side.tasks.iter().filter(|task| task.state.is_none()).count();
        match self.table.free(side.id) {
            Ok(()) => {
                assert_eq!(open, 0, "a batch with open tasks was freed");
                self.freed.push(self.sides.remove(b).id);
            }
            Err(error) => assert_eq!(error, BatchError::Busy { batch: side.id, open }),
        }
    }

    fn with(
        &mut self,
        b: usize,
        t: usize,
        event: impl FnOnce(&mut Task, &mut Expected, &mut bool) -> Landing,
    ) {
        let Some(side) = self.sides.get_mut(b) else { return };
        let Some(expected) = side.tasks.get_mut(t) else { return };
        let batch = self.table.find(side.id).unwrap();
        let mut inner = batch.lock();
        let mut failed = false;
        let landing = event(&mut inner.tasks[t], expected, &mut failed);
        if landing == Landing::Final {
            inner.note_final(t);
        }
        if failed {
            // What the engine does with a fault that it does not retry.
            let ended = inner.tasks[t].end(TaskState::Failed, fault(), later());
            expected.on_ended(TaskState::Failed);
            if ended == Landing::Final {
                inner.note_final(t);
            }
        }
    }

    fn check(&mut self) {
        for id in &self.freed {
            assert!(self.table.find(*id).is_err(), "a freed handle was believed");
        }
        for side in &self.sides {
            let batch = self.table.find(side.id).unwrap();
            let states: Vec<_> = side.tasks.iter().map(|task| task.state).collect();
            let sum = batch.status();
            let count = |wanted: TaskState| states.iter().filter(|s| **s == Some(wanted)).count();
            assert_eq!(sum.completed, count(TaskState::Completed));
            assert_eq!(sum.failed, count(TaskState::Canceled) + count(TaskState::Failed));
            assert_eq!(sum.state.is_final(), states.iter().all(Option::is_some));
            for (index, expected) in side.tasks.iter().enumerate() {
                let (status, _) = batch.task_status(index).unwrap();
                assert_eq!(
                    status.state,
                    expected.state.unwrap_or(TaskState::Waiting),
                    "{expected:?}"
                );
                assert_eq!(status.bytes, expected.done);
                if expected.state.is_some() {
                    let first = self
                        .finals
                        .entry((side.id.as_u64(), index))
                        .or_insert_with(|| status.clone());
                    assert_eq!(*first, status, "a final state changed");
                }
            }
        }
    }
}

impl Expected {
    fn on_landed(&mut self, piece: Piece, ok: bool, landing: &Landing, failed: &mut bool) {
        if self.state.is_some() {
            assert_eq!(*landing, Landing::Stale);
            return;
        }
        if ok {
            self.done += piece.len;
        }
        if self.done == PIECES as u64 * 4096 {
            self.state = Some(TaskState::Completed);
        } else if self.ending.is_some() {
            self.settle();
        } else if !ok {
            assert!(matches!(landing, Landing::Fault(_)));
            *failed = true;
        }
    }

    fn on_ended(&mut self, state: TaskState) {
        if self.state.is_none() {
            self.ending.get_or_insert(state);
            self.settle();
        }
    }

    fn settle(&mut self) {
        if self.flying.is_empty() {
            self.state = self.ending;
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: 2000, failure_persistence: None, ..Config::default() })]

    #[test]
    fn the_table_agrees_with_a_naive_one(steps in vec(step(), 1..80)) {
        let mut pair = Pair::default();
        for step in &steps {
            pair.apply(step);
            pair.check();
        }
    }
}
