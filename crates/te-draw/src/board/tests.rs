//! The machine's picture, for machines of every size.

use super::*;
use crate::scene::tests::{faults, of_size, shipped};

#[test]
fn no_text_overlaps_or_is_cut_on_the_machines_that_are_shipped() {
    for (name, sample) in shipped() {
        assert_eq!(faults(&board(sample.subject())), [""; 0], "{name}");
    }
}

#[test]
fn no_text_overlaps_or_is_cut_on_machines_of_every_size() {
    for nodes in [1, 2, 3, 5, 8] {
        for (nics, gpus) in [(0, 0), (1, 0), (0, 1), (3, 7), (8, 8), (32, 16)] {
            let sample = of_size(nodes, nics, gpus);
            let board = board(sample.subject());
            let what = format!("{nodes} nodes, {nics} NICs, {gpus} GPUs");
            assert_eq!(faults(&board), [""; 0], "{what}");
            assert!(board.w <= 1340 && board.h < 3000, "{what}: {} x {}", board.w, board.h);
            let cards = board.spots.iter().filter(|spot| spot.key.starts_with(['n', 'g'])).count();
            assert_eq!(cards, nics + gpus, "{what}");
        }
    }
}
