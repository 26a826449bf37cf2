//! Nothing goes wrong: every byte arrives.

use std::time::Duration;

use te_engine::{TaskState, TransferRequest};
use te_transport::testing::SimFabric;

use crate::harness::*;

#[test]
fn every_request_completes_and_every_byte_is_right() {
    // I4 of the transfer drawing; J45's neighbours; traps 1 and 9 of the style notes.
    for_each_seed(|seed| {
        let world = World::new(SimFabric::builder(seed).reorder(300_000));
        let (a, b) = (world.node("a"), world.node("b"));
        let mut rng = Rng::new(seed);
        fill(&a.region, seed);
        let target = a.engine.open_segment("b").unwrap();
        let writes = disjoint_writes(&mut rng, &a, target, b.region.address());
        let batch = a.engine.allocate_batch(writes.len()).unwrap();
        let requests: Vec<TransferRequest> = writes.iter().map(|(_, _, r)| r.clone()).collect();
        a.engine.submit(batch, &requests).unwrap();
        assert!(world.run(&[&a, &b], &[(&a, batch)], Duration::from_secs(5)));
        let lens: Vec<u64> = writes.iter().map(|(_, len, _)| *len).collect();
        let statuses = check_final(&a, batch, &lens);
        assert!(statuses.iter().all(|s| s.state == TaskState::Completed));
        let mut expected = vec![0; usize::try_from(BUFFER).unwrap()];
        for (at, len, _) in &writes {
            let (from, to) = (usize::try_from(*at).unwrap(), usize::try_from(at + len).unwrap());
            expected[from..to].copy_from_slice(&pattern(seed, *at, *len));
        }
        assert!(bytes_of(&b.region, 0, BUFFER) == expected, "bytes differ, or guard bytes changed");
        a.engine.free_batch(batch).unwrap();
    });
}

#[test]
fn reads_bring_what_the_peer_has_and_the_own_segment_works_too() {
    for_each_seed(|seed| {
        let world = World::new(SimFabric::builder(seed));
        let (a, b) = (world.node("a"), world.node("b"));
        fill(&b.region, seed);
        let target = a.engine.open_segment("b").unwrap();
        let len = 1 + Rng::new(seed).below(BUFFER / 4);
        let read =
            TransferRequest::read(a.region.range(7, len).unwrap(), target, b.region.address());
        // The second request copies inside the own segment; it is independent of the first.
        let own = a.engine.open_segment("a").unwrap();
        a.region.write_from(BUFFER - 9, b"own bytes").unwrap();
        let local = a.region.range(BUFFER - 9, 9).unwrap();
        let copy = TransferRequest::write(local, own, a.region.address() + BUFFER / 2);
        let batch = a.engine.allocate_batch(2).unwrap();
        a.engine.submit(batch, &[read, copy]).unwrap();
        assert!(world.run(&[&a, &b], &[(&a, batch)], Duration::from_secs(5)));
        assert_eq!(a.engine.batch_status(batch).unwrap().completed, 2);
        assert!(bytes_of(&a.region, 7, len) == pattern(seed, 0, len));
        assert_eq!(bytes_of(&a.region, BUFFER / 2, 9), b"own bytes");
    });
}
