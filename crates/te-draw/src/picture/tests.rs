//! Whole pictures.

use te_topology::Machine;

use super::*;
use crate::scene::Item;
use crate::scene::tests::{faults, of_size, shipped};
use crate::subject::tests::Sample;

/// Every tag and entity of a text is well formed, and what is open is closed.
pub(crate) fn assert_is_xml(text: &str) {
    let mut reader = quick_xml::Reader::from_str(text);
    loop {
        match reader.read_event() {
            Ok(quick_xml::events::Event::Eof) => return,
            Ok(_) => {}
            Err(error) => panic!("{error} at {}", reader.error_position()),
        }
    }
}

#[test]
fn no_text_overlaps_or_is_cut() {
    for (name, sample) in shipped() {
        assert_eq!(faults(&whole(sample.subject())), [""; 0], "{name}");
    }
    assert_eq!(faults(&whole(of_size(8, 32, 16).subject())), [""; 0]);
    assert_eq!(faults(&whole(of_size(1, 0, 0).subject())), [""; 0]);
}

#[test]
fn a_picture_is_well_formed_and_always_the_same() {
    for (name, sample) in shipped() {
        let text = svg(sample.subject());
        assert_is_xml(&text);
        assert_eq!(text, svg(sample.subject()), "{name}");
        assert!(!text.contains("<script"), "{name}");
    }
}

#[test]
fn every_device_and_every_path_is_written() {
    let (_, sample) = shipped().into_iter().find(|(name, _)| name == "hgx-h100.xml").unwrap();
    let scene = whole(sample.subject());
    let texts: Vec<&str> = scene
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Text(label) => Some(label.text.as_str()),
            _ => None,
        })
        .collect();
    let count = |text: &str| texts.iter().filter(|other| **other == text).count();
    // On a card, above a column; a GPU also before two rows.
    assert_eq!((count("mlx5_3"), count("cuda:7")), (2, 4));
    // 8 GPUs by 8 NICs, one of four on a switch of its own, and one in the legend.
    assert_eq!((count("PIX"), count("PHB")), (8 + 1, 24 + 1));
    // Every GPU to every other, and once below the machine.
    assert_eq!(count("NV18"), 56 + 1);
}

#[test]
fn a_title_may_be_anything() {
    let machine: Machine = of_size(1, 1, 1).machine;
    let affinity = te_topology::Affinity::of(&machine);
    let title = "</svg>\u{0}<b>&\n".repeat(40);
    let text = svg(Subject::new(&machine, &affinity, &title).unwrap());
    assert_is_xml(&text);
    assert!(!text.contains("<b>"));
    assert_eq!(faults(&whole(Subject::new(&machine, &affinity, &title).unwrap())), [""; 0]);
}

#[test]
fn a_machine_of_nothing_is_a_picture_too() {
    let sample = Sample::read("# an empty tree\n");
    let scene = whole(sample.subject());
    assert_eq!(faults(&scene), [""; 0]);
    assert!(scene.w >= MIN_WIDTH && scene.h > 0);
}
