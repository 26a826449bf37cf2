//! `te serve`, `te write`, `te read`: every byte, from every kind of source to every kind of sink.

use crate::program::{Scratch, Served, some_bytes, te, te_with_input};

/// CRC-32 of a text, bit by bit: not the code that the program uses.
fn crc32(bytes: &[u8]) -> String {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), step);
    format!("{:08x}", !bytes.iter().fold(!0, byte))
}

#[test]
fn a_file_goes_there_and_comes_back() {
    let served = Served::start(&["--size", "8M"]);
    let bytes = some_bytes(3_000_001);
    let source = Scratch::with("there", &bytes);
    let sink = Scratch::new("back");
    let words =
        ["write", &served.segment, "--file", source.path(), "--offset", "12345", "--verify"];
    let line = te(&words).with(0).text();
    assert!(line.starts_with(&format!("wrote 2.9 MiB to {} at 0x", served.segment)), "{line}");
    let end = format!("crc32 {}, read back and equal\n", crc32(&bytes));
    assert!(line.ends_with(&end), "{line}");

    let words = ["read", &served.segment, "--offset", "12345", "--length", "3000001"];
    te(&[&words[..], &["--file", sink.path()]].concat()).with(0);
    assert_eq!(sink.bytes(), bytes);
    // What lies around it is untouched.
    let before = te(&["read", &served.segment, "--length", "12345"]).with(0);
    assert_eq!(before.out, vec![0; 12345]);
    let after = te(&["read", &served.segment, "--offset", "3012346", "--length", "99"]).with(0);
    assert_eq!(after.out, vec![0; 99]);
}

#[test]
fn standard_input_and_output_work_in_small_chunks() {
    let served = Served::start(&["--size", "1M"]);
    let bytes = some_bytes(1_000_003);
    let words = ["write", &served.segment, "--chunk", "4K", "--verify"];
    te_with_input(&words, &bytes).with(0);
    let read = te(&["read", &served.segment, "--chunk", "64K", "--length", "1000003"]).with(0);
    assert_eq!(read.out, bytes);
    assert!(read.err.contains(&format!("crc32 {}", crc32(&bytes))), "{}", read.err);
}

#[test]
fn an_address_names_the_same_bytes_as_an_offset() {
    let served = Served::start(&["--size", "64K"]);
    let address = u64::from_str_radix(served.address.trim_start_matches("0x"), 16).unwrap();
    let inner = format!("{:#x}", address + 1000);
    te_with_input(&["write", &served.segment, "--address", &inner], b"hello").with(0);
    let read = te(&["read", &served.segment, "--offset", "1000", "--length", "5"]).with(0);
    assert_eq!(read.out, b"hello");
    // Without a length: to the end of the buffer.
    let rest = te(&["read", &served.segment, "--address", &inner]).with(0);
    assert_eq!(rest.out.len(), 65536 - 1000);
}

#[test]
fn a_pattern_is_checked_by_seed_and_place() {
    let served = Served::start(&["--size", "5M"]);
    te(&["write", &served.segment, "--pattern", "7", "--verify"]).with(0);
    let good = te(&["read", &served.segment, "--pattern", "7", "--json"]).with(0).json();
    assert_eq!(good["bytes"], 5 << 20);
    assert_eq!(good["checked"], "equal to the pattern");
    assert_eq!(good["address"], served.address.as_str());
    let begin = format!("te: read from {}: byte 0 is not what the pattern has", served.segment);
    te(&["read", &served.segment, "--pattern", "8"]).with(6).told(&begin);
    te_with_input(&["write", &served.segment, "--offset", "3M"], b"?").with(0);
    let begin = format!("te: read from {}: byte {} is not", served.segment, 3 << 20);
    te(&["read", &served.segment, "--pattern", "7"]).with(6).told(&begin);
}

#[test]
fn a_served_file_is_there_from_the_start_and_can_be_read_only() {
    let bytes = some_bytes(70_001);
    let file = Scratch::with("served", &bytes);
    let served = Served::start(&["--file", file.path(), "--read-only"]);
    assert_eq!(served.length, 70_001);
    assert_eq!(te(&["read", &served.segment]).with(0).out, bytes);
    te_with_input(&["write", &served.segment], b"no")
        .with(5)
        .told(&format!("te: write to {}: ", served.segment));
    assert_eq!(te(&["read", &served.segment]).with(0).out, bytes);
}

#[test]
fn input_without_a_length_that_is_too_long_fills_the_place_and_is_told() {
    let served = Served::start(&["--size", "8K"]);
    let bytes = some_bytes(8193);
    let begin = format!("te: write to {}: standard input has more than the 8 KiB", served.segment);
    te_with_input(&["write", &served.segment], &bytes).with(5).told(&begin);
    assert_eq!(te(&["read", &served.segment]).with(0).out, bytes[..8192]);
    // Exactly as much as there is room for is no error.
    te_with_input(&["write", &served.segment], &bytes[1..]).with(0);
    assert_eq!(te(&["read", &served.segment]).with(0).out, bytes[1..]);
}

#[test]
fn a_file_that_is_too_long_changes_nothing() {
    let served = Served::start(&["--size", "8K"]);
    let file = Scratch::with("long", &some_bytes(8193));
    let begin = format!("te: write to {}: 8.0 KiB asked for, 8 KiB from there", served.segment);
    te(&["write", &served.segment, "--file", file.path()]).with(5).told(&begin);
    assert_eq!(te(&["read", &served.segment]).with(0).out, vec![0; 8192]);
}

#[test]
fn a_source_that_ends_early_is_told() {
    let served = Served::start(&["--size", "8K"]);
    let begin =
        format!("te: write to {}: standard input ended after 3 bytes of 5 bytes", served.segment);
    te_with_input(&["write", &served.segment, "--length", "5"], b"abc").with(7).told(&begin);
}

#[test]
fn nothing_is_a_length_too() {
    let served = Served::start(&["--size", "8K"]);
    let line = te_with_input(&["write", &served.segment], b"").with(0).text();
    assert_eq!(line, format!("wrote nothing to {}: there was none\n", served.segment));
    let none = te(&["read", &served.segment, "--length", "0", "--json", "--discard"]).with(0);
    assert_eq!(
        (none.json()["bytes"].clone(), none.json()["crc32"].clone()),
        (0.into(), "00000000".into())
    );
}

#[test]
fn a_place_outside_the_segment_is_refused_before_anything_moves() {
    let served = Served::start(&["--size", "8K"]);
    let begin =
        format!("te: read from {}: offset 8192 is behind the end of its 8 KiB", served.segment);
    te(&["read", &served.segment, "--offset", "8K"]).with(5).told(&begin);
    let begin = format!("te: read from {}: 9 KiB asked for, 8 KiB from there to", served.segment);
    te(&["read", &served.segment, "--length", "9K"]).with(5).told(&begin);
    let begin = format!("te: read from {}: the address is in no buffer", served.segment);
    te(&["read", &served.segment, "--address", "0x10"]).with(2).told(&begin);
    te(&["read", &served.segment, "--address", "0x10", "--length", "1K", "--discard"]).with(5);
}
