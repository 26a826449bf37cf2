//! What the peer makes of what we publish.

use std::sync::Arc;
use std::time::Duration;

use te_segment::{AlignedBuffer, LocalBuffer, Region, RegisterOptions};
use te_suites::{Direction, need, now, pattern, say, wait_until};
use te_topology::PriorityMatrix;
use te_transport::Transport;

use super::node::{Wheel, WheelSpec, available};
use crate::host::{Host, PATIENCE, config};
use crate::links::{Broken, nic, nics};
use crate::watched::Watched;

const SIZE: u64 = 2 << 20;

/// Two locations that each prefer another NIC.
const OPPOSED: &str = r#"{"cpu:0":[["rxe0"],["rxe1"]],"cpu:1":[["rxe1"],["rxe0"]]}"#;

/// A host whose memory lies in two places.
struct Two {
    host: Host,
    /// In `cpu:0`, in `cpu:1`, anywhere.
    buffers: [Arc<LocalBuffer>; 3],
}

impl Two {
    fn new(verbs: &Watched) -> Self {
        let mut config = config(nics(0..2));
        config.matrix = Some(PriorityMatrix::parse(OPPOSED).expect("a good matrix"));
        let host = Host::new(verbs, config);
        let buffers = ["cpu:0", "cpu:1", "*"].map(|location| {
            let region =
                Region::from(AlignedBuffer::zeroed(usize::try_from(SIZE).unwrap()).unwrap());
            let location = location.parse().expect("a good location");
            host.register_with(&region, RegisterOptions { location, ..RegisterOptions::default() })
        });
        Self { host, buffers }
    }

    /// The peer writes to each buffer and reads it back.
    #[track_caller]
    fn is_reached_by(&self, wheel: &mut Wheel, seed: u64) {
        let len = usize::try_from(SIZE).unwrap() / 2;
        for (i, buffer) in (0..).zip(&self.buffers) {
            let bytes = pattern::bytes(seed + i, len);
            wheel.put(0, &bytes);
            wheel.put(SIZE / 2, &vec![0; len]);
            let (to, begun) = (buffer.region().address() + 4096, now());
            let name = self.host.name().to_owned();
            let rc = wheel.transfer(Direction::Write, &name, (0, to), SIZE / 2);
            assert_eq!(rc, 0, "write to buffer {i}");
            let mut there = vec![0; len];
            buffer.region().read_into(4096, &mut there).unwrap();
            assert!(there == bytes, "buffer {i} has other bytes");
            let rc = wheel.transfer(Direction::Read, &name, (SIZE / 2, to), SIZE / 2);
            assert_eq!(rc, 0, "read of buffer {i}");
            assert!(wheel.bytes(SIZE / 2, len) == bytes, "what was read of buffer {i}");
            // Its NICs never give up: a wrong one would cost 30 s.
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        }
    }

    /// The devices that peers asked to be connected to, since `from`.
    fn asked_for(&self, from: usize) -> Vec<String> {
        let questions = self.host.questions();
        let paths = questions[from..].iter().map(|question| &question.peer_nic_path);
        let mut nics: Vec<String> =
            paths.filter_map(|path| Some(path.rsplit_once('@')?.1.to_owned())).collect();
        nics.sort_unstable();
        nics.dedup();
        nics
    }
}

#[test]
fn a_peer_that_counts_places_finds_the_right_nic_with_both_up_and_with_one() {
    // Issue 7, publish by position: its own engine sends fresh peers to the dead NIC here.
    let test =
        "wheel::rules::a_peer_that_counts_places_finds_the_right_nic_with_both_up_and_with_one";
    need!(test, available());
    let verbs = need!(test, Watched::with_devices(4));
    let two = Two::new(&verbs);
    let spec = WheelSpec::new("rxe2,rxe3", SIZE);
    let mut wheel = spec.start();
    two.is_reached_by(&mut wheel, 10);
    say(&format!("row with both NICs up it asked for {:?}", two.asked_for(0)));
    let broken = Broken::down(&nic(0));
    wait_until(PATIENCE, "the NIC to leave the descriptor", || {
        let text = String::from_utf8(two.host.descriptor().encode()).unwrap();
        let nics = text.split_once("priority_matrix").map(|(_, rest)| !rest.contains("rxe0"));
        nics.unwrap_or(true).then_some(())
    });
    let before = two.host.questions().len();
    let mut fresh = spec.start();
    two.is_reached_by(&mut fresh, 20);
    let asked = two.asked_for(before);
    say(&format!("row with the first NIC down a fresh one asked for {asked:?}"));
    assert_eq!(asked, ["rxe1"], "the dead NIC was asked for");
    broken.mend();
    wait_until(PATIENCE, "the NIC to come back", || {
        let text = String::from_utf8(two.host.descriptor().encode()).unwrap();
        let nics = text.split_once("priority_matrix").map(|(_, rest)| rest.contains("rxe0"));
        nics.unwrap_or(false).then_some(())
    });
    let mut third = spec.start();
    two.is_reached_by(&mut third, 30);
    assert!(two.host.rdma().reaches(&two.host.remote()));
    for wheel in [wheel, fresh, third] {
        wheel.quit();
    }
    two.host.close();
}

#[test]
fn a_peer_with_another_number_of_queue_pairs_is_reached_both_ways() {
    // E26, issue 7, not exchanged: as passive side its count is taken, as active side it is learned from the
    // filled refusal.
    let test = "wheel::rules::a_peer_with_another_number_of_queue_pairs_is_reached_both_ways";
    need!(test, available());
    let verbs = need!(test, Watched::with_devices(4));
    for count in ["1", "4"] {
        let spec = WheelSpec::new("rxe2", SIZE).env("MC_NUM_QP_PER_EP", count);
        let mut first = super::pair::Pair::with(&verbs, 1, &spec);
        let ends = super::pair::Ends { here: 4096, there: 4096, len: 300_001 };
        first.moves(super::pair::Caller::We, Direction::Write, ends, 1);
        first.quit();
        let mut second = super::pair::Pair::with(&verbs, 1, &spec);
        second.moves(super::pair::Caller::TheWheel, Direction::Write, ends, 2);
        second.moves(super::pair::Caller::We, Direction::Read, ends, 3);
        second.quit();
    }
}
