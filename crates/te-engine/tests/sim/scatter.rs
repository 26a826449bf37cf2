//! Scatter operations: each fragment ends once, and alone.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use te_engine::{FragmentError, Opcode, ScatterRange};
use te_transport::testing::{SimFabric, Twist};
use te_transport::{FaultClass, Phase, SliceFault};

use crate::harness::*;

type Told = Arc<Mutex<Vec<(usize, Result<(), FragmentError>)>>>;

fn range(a: &Node, b: &Node, fragments: &[(u64, u64, u64)]) -> (ScatterRange, Told) {
    let told = Told::default();
    let seen = Arc::clone(&told);
    let range = ScatterRange {
        op: Opcode::Write,
        segment: "b".into(),
        remote_base: b.region.address(),
        remote_len: BUFFER,
        local: a.region.whole(),
        local_offsets: fragments.iter().map(|f| f.0).collect(),
        remote_offsets: fragments.iter().map(|f| f.1).collect(),
        lengths: fragments.iter().map(|f| f.2).collect(),
        on_fragment: Some(Box::new(move |index, outcome| {
            seen.lock().unwrap().push((index, outcome.clone()));
        })),
    };
    (range, told)
}

const LIMIT: Duration = Duration::from_secs(5);

#[test]
fn a83_fragments_of_several_ranges_move_and_each_is_told_once() {
    let world = World::new(SimFabric::builder(1));
    let (a, b) = (world.node("a"), world.node("b"));
    fill(&a.region, 5);
    let (first, told) = range(&a, &b, &[(0, 100_000, 777), (10_000, 5, 0), (50, 3, 1)]);
    let (second, _) = range(&a, &b, &[(2000, 60_000, 4096)]);
    a.engine.transfer_scatter(vec![first, second], LIMIT).unwrap();
    assert!(bytes_of(&b.region, 100_000, 777) == pattern(5, 0, 777));
    assert!(bytes_of(&b.region, 3, 1) == pattern(5, 50, 1));
    assert!(bytes_of(&b.region, 60_000, 4096) == pattern(5, 2000, 4096));
    let mut told = told.lock().unwrap().clone();
    told.sort_by_key(|(index, _)| *index);
    assert_eq!(told, [(0, Ok(())), (1, Ok(())), (2, Ok(()))]);
}

#[test]
fn a81_a_bad_fragment_fails_alone_and_a_bad_range_whole() {
    let world = World::new(SimFabric::builder(1));
    let (a, b) = (world.node("a"), world.node("b"));
    fill(&a.region, 6);
    let bad = [(0, 0, 64), (BUFFER, 0, 1), (0, BUFFER - 1, 2), (u64::MAX, 0, 2), (0, u64::MAX, 2)];
    let (mixed, _) = range(&a, &b, &bad);
    let (mut uneven, _) = range(&a, &b, &[(0, 0, 1), (1, 1, 1)]);
    uneven.lengths.pop();
    let (mut nameless, _) = range(&a, &b, &[(0, 0, 1)]);
    nameless.segment.clear();
    let (mut unknown, _) = range(&a, &b, &[(0, 0, 1)]);
    unknown.segment = "nobody".into();
    let mut operation = a.engine.submit_scatter(vec![mixed, uneven, nameless, unknown]);
    assert!(matches!(operation.wait_for(LIMIT), Err(FragmentError::Invalid { .. })));
    let outcomes: Vec<_> = operation.fragments().into_iter().map(|f| f.outcome.unwrap()).collect();
    assert_eq!(outcomes[0], Ok(()));
    assert!(outcomes[1..8].iter().all(|o| matches!(o, Err(FragmentError::Invalid { .. }))));
    assert!(
        matches!(&outcomes[8], Err(FragmentError::NotSubmitted { reason }) if reason.contains("nobody"))
    );
    assert_eq!(outcomes.len(), 9);
    assert!(bytes_of(&b.region, 0, 64) == pattern(6, 0, 64));
}

#[test]
fn j47_when_some_fragments_fail_the_others_keep_their_success() {
    let world = World::new(SimFabric::builder(1));
    let (a, faulty) = world.faulty_node("a");
    let broken = SliceFault::new(FaultClass::Local, Phase::Payload, "a bad page");
    faulty.twist_slice(2, Twist::Fault(broken));
    let b = world.node("b");
    let (some, told) = range(&a, &b, &[(0, 0, 10), (100, 100, 10), (200, 200, 10)]);
    let mut operation = a.engine.submit_scatter(vec![some]);
    let error = operation.wait().unwrap_err();
    assert!(matches!(&error, FragmentError::Failed(fault) if fault.index == 1), "{error}");
    let ok: Vec<bool> = operation.fragments().iter().map(|f| f.outcome == Some(Ok(()))).collect();
    assert_eq!(ok, [true, false, true]);
    assert_eq!(told.lock().unwrap().len(), 3);
}

#[test]
fn a84_a86_waiting_is_bounded_and_a_panicking_callback_is_an_error() {
    let world = World::new(SimFabric::builder(1).bandwidth(100_000));
    let (a, b) = (world.node("a"), world.node("b"));
    let (mut slow, _) = range(&a, &b, &[(0, 0, 50_000)]);
    slow.on_fragment = Some(Box::new(|_, _| panic!("a callback of the caller")));
    let mut operation = a.engine.submit_scatter(vec![slow]);
    let early = operation.wait_for(Duration::from_millis(10));
    assert!(matches!(early, Err(FragmentError::TimedOut { .. })), "{early:?}");
    assert_eq!(operation.wait(), Err(FragmentError::CallbackPanicked));
    // Dropping an operation that is under way calls it back, and frees its buffers.
    let (again, told) = range(&a, &b, &[(0, 0, 200_000)]);
    drop(a.engine.submit_scatter(vec![again]));
    let told = told.lock().unwrap();
    assert!(matches!(told.as_slice(), [(0, Err(FragmentError::Failed(_)))]), "{told:?}");
    a.engine.unregister(a.region.address()).unwrap();
}
