//! What an outbox holds, whatever the other end takes.

use te_segment::{AlignedBuffer, Region};

use super::*;
use crate::v3::sum::crc32c;

/// An end that takes a little at a time, so that the outbox never runs empty, does not make it
/// grow, and every byte goes out once and in order.
#[test]
fn what_is_out_is_let_go_of_also_where_it_never_runs_empty() {
    let mut out = Outbox::new(SMALL);
    let mut expected = 0u64;
    let (mut next, mut most) = (0u64, 0);
    while out.sent() < 16 << 20 {
        while out.has_room() {
            let some: Vec<u8> = (next..next + 400).flat_map(u64::to_le_bytes).collect();
            out.put_bytes(&some);
            next += 400;
        }
        let head = out.outgoing(1).unwrap().load();
        let n = head.len().min(4096) / 8 * 8;
        assert!(n < head.len(), "it is never empty");
        for word in head[..n].chunks(8) {
            assert_eq!(word, expected.to_le_bytes());
            expected += 1;
        }
        out.on_sent(n);
        most = most.max(out.bytes.held());
    }
    assert!(most <= 300 << 10, "{most}");
    out.on_sent(out.bytes.len());
    assert!(out.is_empty() && out.bytes.held() <= KEPT);
}

/// What a socket takes of it in one call.
fn send(out: &mut Outbox) {
    let n = out.outgoing(1).unwrap().head_bytes().min(10_000);
    out.on_sent(n);
}

/// The same for small payload, which is copied.
#[test]
fn copied_payload_does_not_make_it_grow() {
    let region = Region::from(AlignedBuffer::zeroed(32 << 20).unwrap());
    let (mut out, mut most) = (Outbox::new(SMALL), 0);
    for at in 0..region.len() / SMALL {
        let range = region.range(at * SMALL, SMALL).unwrap();
        out.put_data(&Piece { id: 1, range: &range, offset: 0 }, None).unwrap();
        while !out.has_room() {
            send(&mut out);
        }
        most = most.max(out.bytes.held());
    }
    assert!(most <= 300 << 10, "{most}");
    while !out.is_empty() {
        send(&mut out);
    }
    assert!(out.bytes.held() <= KEPT);
    assert_eq!(out.sent(), out.staged());
}

#[test]
fn the_sum_is_the_same_whether_payload_is_copied_or_not() {
    let bytes: Vec<u8> = (0..100_000_u32).map(|i| i.to_le_bytes()[0] ^ 0x33).collect();
    let region = Region::from(AlignedBuffer::zeroed(bytes.len()).unwrap());
    region.write_from(0, &bytes).unwrap();
    for copied in [0, u64::from(u32::MAX)] {
        let (mut out, mut sum) = (Outbox::new(copied), Sum::new());
        let piece = Piece { id: 1, range: &region.whole(), offset: 0 };
        assert_eq!(out.put_data(&piece, Some(&mut sum)).unwrap(), region.len());
        assert_eq!(sum.value(), crc32c(&bytes));
        assert_eq!(out.is_direct(1), copied == 0);
    }
}
