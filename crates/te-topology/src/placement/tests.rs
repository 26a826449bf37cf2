//! Where ranges lie, against a made-up kernel, page by page.

use std::io;

use proptest::prelude::*;

use super::*;

/// A kernel for which page `n` of the address space has the node that a function says.
struct Fake<F> {
    node: F,
    asked: usize,
}

impl<F: Fn(usize) -> Option<u32>> PageNodes for Fake<F> {
    fn nodes(&mut self, addresses: &[usize], nodes: &mut Vec<Option<NumaNode>>) -> io::Result<()> {
        self.asked += addresses.len();
        let node = |address: &usize| (self.node)(address / PAGE).map(NumaNode::new);
        *nodes = addresses.iter().map(node).collect();
        Ok(())
    }

    fn page_size(&self) -> usize {
        PAGE
    }
}

const PAGE: usize = 4096;

fn fake<F: Fn(usize) -> Option<u32>>(node: F) -> Fake<F> {
    Fake { node, asked: 0 }
}

fn runs(placement: &Placement) -> Vec<(usize, usize, String)> {
    let all = placement.runs.iter();
    all.map(|run| (run.offset, run.length, run.location().to_string())).collect()
}

/// J30: the whole range is one `*` entry before it is touched; unaligned ends are exact.
#[test]
fn j30_untouched_memory_is_one_wildcard() {
    let placement = Placement::of(PAGE * 10 + 7, PAGE * 3 + 100, &mut fake(|_| None)).unwrap();
    assert_eq!(runs(&placement), [(0, PAGE * 3 + 100, "*".to_owned())]);
    assert_eq!(placement.largest(), MemoryLocation::Any);
    assert_eq!(placement.first(), MemoryLocation::Any);
}

/// J30: nodes of pages are merged into exact runs, and the largest node is that of most bytes.
#[test]
fn j30_pages_are_merged_into_exact_runs() {
    let node = |page| match page {
        10..=11 => Some(0),
        12 => None,
        13..=15 => Some(1),
        _ => panic!("page {page} is not in the range"),
    };
    let start = PAGE * 10 + 7;
    let placement = Placement::of(start, PAGE * 6 - 7 - 9, &mut fake(node)).unwrap();
    assert!(placement.is_exact);
    assert_eq!(
        runs(&placement),
        [
            (0, PAGE * 2 - 7, "cpu:0".to_owned()),
            (PAGE * 2 - 7, PAGE, "*".to_owned()),
            (PAGE * 3 - 7, PAGE * 3 - 9, "cpu:1".to_owned()),
        ]
    );
    assert_eq!(placement.largest(), MemoryLocation::Cpu(NumaNode::new(1)));
    assert_eq!(placement.first(), MemoryLocation::Cpu(NumaNode::new(0)));
}

#[test]
fn one_byte_at_the_end_of_a_page_is_one_page() {
    let mut kernel = fake(|page| Some(u32::from(page != 10)));
    let placement = Placement::of(PAGE * 11 - 1, 1, &mut kernel).unwrap();
    assert_eq!((runs(&placement), kernel.asked), (vec![(0, 1, "cpu:0".to_owned())], 1));
}

#[test]
fn ranges_that_are_none_are_refused() {
    for (address, length) in [(0, 0), (4096, 0), (usize::MAX, 2), (1, usize::MAX)] {
        let error = Placement::of(address, length, &mut fake(|_| Some(0))).unwrap_err();
        assert!(matches!(error, PlacementError::BadRange { .. }), "{error}");
    }
}

/// 100 GiB cost some thousands of questions, and borders are exact to the page.
#[test]
fn a_hundred_gibibytes_are_cheap() {
    let border = 7_654_321;
    let start = PAGE << 20;
    let mut kernel = fake(|page| Some(if page - (1 << 20) < border { 0 } else { 1 }));
    let placement = Placement::of(start, 100 << 30, &mut kernel).unwrap();
    assert!(!placement.is_exact);
    assert_eq!(
        runs(&placement),
        [
            (0, border * PAGE, "cpu:0".to_owned()),
            (border * PAGE, (100 << 30) - border * PAGE, "cpu:1".to_owned()),
        ]
    );
    assert!(kernel.asked < 3000, "{}", kernel.asked);
}

/// Memory that alternates page by page is described coarsely, at a bounded price.
#[test]
fn interleaved_memory_costs_no_more() {
    let mut kernel =
        fake(|page| Some(u32::try_from(page.wrapping_mul(2_654_435_761) >> 7 & 1).unwrap()));
    let placement = Placement::of(0x10_0000, 100 << 30, &mut kernel).unwrap();
    assert!(kernel.asked < 3000, "{}", kernel.asked);
    let total: usize = placement.runs.iter().map(|run| run.length).sum();
    assert_eq!(total, 100 << 30);
    let coarse = placement.coarse(128);
    assert!(coarse.runs.len() <= 128, "{}", coarse.runs.len());
}

/// Parts have at least 1 MiB; each has the node of most of its bytes, the first of equals.
#[test]
fn coarse_parts_take_the_majority() {
    let run = |offset, length, node| PageRun { offset, length, node: Some(NumaNode::new(node)) };
    let mib = 1 << 20;
    let placement = Placement {
        runs: vec![run(0, mib / 2, 3), run(mib / 2, mib / 2, 1), run(mib, mib * 2, 1)],
        is_exact: true,
    };
    assert_eq!(placement.coarse(128).runs, [run(0, mib, 3), run(mib, mib * 2, 1)]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// I1 against a list of every byte's page.
    #[test]
    fn runs_tile_the_range_and_say_what_each_page_is(
        nodes in prop::collection::vec(prop::option::of(0_u32..3), 1..40),
        (skip, cut) in (0_usize..PAGE, 0_usize..PAGE),
    ) {
        let first = 1000;
        prop_assume!(nodes.len() > 1 || skip + cut < PAGE);
        let length = nodes.len() * PAGE - skip - cut;
        let mut kernel = fake(|page| nodes[page - first]);
        let placement = Placement::of(first * PAGE + skip, length, &mut kernel).unwrap();
        let mut at = 0;
        for (position, run) in placement.runs.iter().enumerate() {
            prop_assert_eq!(run.offset, at);
            prop_assert!(run.length > 0);
            prop_assert!(position == 0 || placement.runs[position - 1].node != run.node);
            for byte in [run.offset, run.offset + run.length - 1] {
                prop_assert_eq!(run.node.map(NumaNode::number), nodes[(skip + byte) / PAGE]);
            }
            at += run.length;
        }
        prop_assert_eq!(at, length);
    }
}
