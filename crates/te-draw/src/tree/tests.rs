//! The tree, at several widths.

use unicode_width::UnicodeWidthStr;

use super::*;
use crate::scene::tests::{TWO_NODES, of_size, shipped};
use crate::subject::tests::Sample;

#[test]
fn the_tree_of_a_small_machine() {
    let sample = Sample::read(TWO_NODES);
    assert_eq!(
        tree(sample.subject(), &TreeStyle::plain(80)),
        "\
sample: 2 NUMA nodes, 2 NICs, 2 GPUs, from NCCL XML

NUMA node 0  CPUs 0-15 (16)
└─ PCIe switch 0000:10:00.0, PCIe 5.0 x16
   ├─ mlx5_0  InfiniBand 400 Gb/s, PCIe 5.0 x16, 0000:11:00.0
   └─ cuda:0  PCIe 5.0 x16, 0000:12:00.0

NUMA node 1  CPUs 16-31 (16)
└─ PCIe switch 0000:20:00.0, PCIe 5.0 x16
   ├─ mlx5_1  InfiniBand 400 Gb/s, PCIe 5.0 x16, 0000:21:00.0
   └─ cuda:1  PCIe 5.0 x16, 0000:22:00.0

NICs for each memory, the best first
  cpu:0   NODE mlx5_0 | SYS mlx5_1
  cpu:1   NODE mlx5_1 | SYS mlx5_0
  cuda:0  PIX mlx5_0 | SYS mlx5_1
  cuda:1  PIX mlx5_1 | SYS mlx5_0

Links between GPUs
  NV18 between cuda:0 and cuda:1
"
    );
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let mut samples = shipped();
    samples.push(("large".to_owned(), of_size(8, 32, 16)));
    for (name, sample) in samples {
        for columns in [1, 40, 80, 120] {
            let text = tree(sample.subject(), &TreeStyle::plain(columns));
            for line in text.lines() {
                assert!(line.width() <= columns.max(MIN_COLUMNS), "{name}, {columns}: {line}");
                assert_eq!(line.trim_end(), line, "{name}");
            }
        }
    }
}

#[test]
fn colours_change_nothing_but_colours() {
    for (name, sample) in shipped() {
        let coloured = tree(sample.subject(), &TreeStyle::coloured(80));
        let mut plain = String::new();
        for (at, part) in coloured.split('\u{1b}').enumerate() {
            plain.push_str(if at == 0 { part } else { part.split_once('m').unwrap().1 });
        }
        assert_eq!(plain, tree(sample.subject(), &TreeStyle::plain(80)), "{name}");
    }
}

#[test]
fn names_cannot_garble_a_terminal() {
    for (name, sample) in shipped() {
        let text = tree(sample.subject(), &TreeStyle::plain(80));
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{name}");
    }
}
