//! Bytes between two transports in one process.

mod common;

use common::{Node, bytes_of, part_of, pattern};
use te_segment::Opcode;
use te_transport::RemoteSide;

/// J49: one write of 4,096,000 bytes; then write and read give equal bytes, twice in a row.
#[test]
fn j49_a_large_write_lands_and_reads_back_twice() {
    let (a, b) = (Node::new(), Node::new());
    const LEN: usize = 4_096_000;
    let (source, target) = (a.register(LEN), b.register(LEN));
    let peer = b.as_peer();
    for round in 0..2 {
        let bytes = pattern(round, LEN);
        source.region().write_from(0, &bytes).unwrap();
        let end = a.run(Opcode::Write, source.region().whole(), target.region().address(), &peer);
        assert_eq!((end.result, end.remote), (Ok(()), RemoteSide::Settled));
        assert!(bytes_of(target.region()) == bytes, "round {round}: other bytes at the target");
        source.region().write_from(0, &vec![0; LEN]).unwrap();
        let end = a.run(Opcode::Read, source.region().whole(), target.region().address(), &peer);
        assert_eq!((end.result, end.remote), (Ok(()), RemoteSide::Settled));
        assert!(bytes_of(source.region()) == bytes, "round {round}: other bytes read back");
    }
    assert_eq!(a.transport.stats().connects, 1, "one connection serves one request after another");
    assert_eq!(b.transport.stats().served, 4);
}

/// FB14: every length at odd offsets, both ways, with the bytes around untouched.
#[test]
fn fb14_every_length_at_odd_offsets() {
    let (a, b) = (Node::new(), Node::new());
    const MIB: usize = 1 << 20;
    const ROOM: usize = MIB + 64;
    let (source, target) = (a.register(ROOM), b.register(ROOM));
    let peer = b.as_peer();
    let lengths = [
        1,
        2,
        7,
        8,
        63,
        64,
        511,
        512,
        513,
        4095,
        4096,
        4097,
        65_535,
        65_536,
        65_537,
        MIB - 1,
        MIB,
        MIB + 1,
    ];
    for (round, len) in lengths.into_iter().enumerate() {
        for driving in [false, true] {
            let run = if driving { Node::run_driving } else { Node::run };
            let (from, to) = (13u64, 7u64);
            let bytes = pattern(round as u64, len);
            source.region().write_from(0, &vec![0x11; ROOM]).unwrap();
            target.region().write_from(0, &vec![0x22; ROOM]).unwrap();
            source.region().write_from(from, &bytes).unwrap();
            let local = source.region().range(from, len as u64).unwrap();
            let at = target.region().address() + to;
            assert_eq!(run(&a, Opcode::Write, local, at, &peer).result, Ok(()), "write {len}");
            assert!(part_of(target.region(), to, len) == bytes, "write {len}");
            assert_eq!(part_of(target.region(), 0, 7), [0x22; 7], "before a write of {len}");
            let behind = part_of(target.region(), to + len as u64, 16);
            assert_eq!(behind, [0x22; 16], "behind a write of {len}");

            let local = source.region().range(1, len as u64).unwrap();
            assert_eq!(run(&a, Opcode::Read, local, at, &peer).result, Ok(()), "read {len}");
            assert!(part_of(source.region(), 1, len) == bytes, "read {len}");
            assert_eq!(part_of(source.region(), 0, 1), [0x11], "before a read of {len}");
        }
    }
}
