//! What an outbox holds, whatever the other end takes.

use te_segment::{AlignedBuffer, Region};

use super::*;

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
    assert!(most <= 2 * KEPT, "{most}");
    out.on_sent(out.bytes.len());
    assert!(out.is_empty() && out.bytes.held() <= KEPT);
}

/// What a socket takes of it in one call.
fn send(out: &mut Outbox) {
    let n = out.outgoing(1).unwrap().head_bytes().min(10_000);
    out.on_sent(n);
}

/// The same for summed payload, whose blocks are large.
#[test]
fn summed_payload_does_not_make_it_grow() {
    let region = Region::from(AlignedBuffer::zeroed(32 << 20).unwrap());
    let range = region.whole();
    let (mut out, mut sum, mut done, mut most) = (Outbox::new(SMALL), Sum::new(), 0, 0);
    while done < range.len() {
        while out.has_room() && done < range.len() {
            done += out
                .put_data(&Piece { id: 1, range: &range, offset: done }, Some(&mut sum))
                .unwrap();
        }
        send(&mut out);
        most = most.max(out.bytes.held());
    }
    assert!(most <= 2 * KEPT, "{most}");
    while !out.is_empty() {
        send(&mut out);
    }
    assert!(out.bytes.held() <= KEPT);
    assert_eq!(out.sent(), out.staged());
}
