//! Frames, byte by byte, and however they are cut.

use proptest::prelude::*;

use super::*;
use crate::v3::intake::Intake;

fn bytes_of(frame: &Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(frame, &mut bytes);
    bytes
}

/// Every frame that comes out of these bytes, and whether they ended in a violation.
fn frames_of(bytes: &[u8], cut: usize) -> (Vec<Frame>, Option<Violation>) {
    let (mut intake, mut frames) = (Intake::new(), Vec::new());
    for mut part in bytes.chunks(cut.max(1)) {
        while !part.is_empty() {
            match intake.take(&mut part) {
                Ok(frame) => frames.extend(frame),
                Err(violation) => return (frames, Some(violation)),
            }
        }
    }
    (frames, None)
}

fn request() -> Request {
    Request {
        op: Opcode::Write,
        checked: true,
        attempt: 2,
        patience: 1500,
        buffer: BufferHandle { slot: 7, generation: 9 },
        offset: 0x0102_0304_0506_0708,
        length: 1 << 40,
    }
}

/// The layout of docs/wire.md §5.3, written down by hand.
#[test]
fn frames_have_the_documented_bytes() {
    let head = |kind: u8, flags: u8, len: u8, id: u8| {
        [kind, flags, 0, 0, len, 0, 0, 0, id, 0, 0, 0, 0, 0, 0, 0].to_vec()
    };
    let mut asked = head(1, 0, 40, 5);
    asked.extend([1, 1, 2, 0, 0xdc, 5, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1]);
    asked.extend([0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut ended = head(16, 0, 24, 5);
    ended.extend([6, 0, 1, 0, 0xef, 0xbe, 0xad, 0xde, 3, 0, 0, 0, 0, 0, 0, 0, 14]);
    ended.extend([0; 7]);
    let status = Status { code: Code::Corrupt, sum: Some(0xdead_beef), moved: 3, errno: 14 };
    let pair = |kind: u8, id: u8, number: u8| {
        let mut bytes = head(kind, 0, 8, id);
        bytes.extend([number, 0, 0, 0, 0, 0, 0, 0]);
        bytes
    };
    let cases = [
        (Frame::Request(5, request()), asked),
        (Frame::Data { id: 5, len: 200, last: true }, head(2, 1, 200, 5)),
        (Frame::Data { id: 5, len: 1, last: false }, head(2, 0, 1, 5)),
        (Frame::Sum { id: 5, crc: 77 }, pair(3, 5, 77)),
        (Frame::Cancel(5), head(4, 0, 0, 5)),
        (Frame::Goodbye, pair(5, 0, 0)),
        (Frame::Status(5, status), ended),
        (Frame::Done { last: 5, count: 3 }, pair(17, 5, 3)),
        (Frame::Credit(16), pair(18, 0, 16)),
    ];
    for (frame, bytes) in cases {
        assert_eq!(bytes_of(&frame), bytes, "{frame:?}");
        assert_eq!(frames_of(&bytes, 1), (vec![frame], None));
    }
}

#[test]
fn a_body_that_does_not_fit_its_type_is_a_violation() {
    let wrong = [
        (1, [0, 39, 41, u32::MAX]),
        (2, [0, MAX_DATA + 1, 1 << 31, u32::MAX]),
        (3, [0, 7, 9, u32::MAX]),
        (4, [1, 8, 1 << 20, u32::MAX]),
        (5, [0, 7, 9, u32::MAX]),
        (16, [0, 23, 25, u32::MAX]),
        (18, [0, 4, 9, u32::MAX]),
    ];
    for (kind, lengths) in wrong {
        for len in lengths {
            let raw = RawHead { kind, flags: 0, zero: U16::ZERO, len: len.into(), id: U64::ZERO };
            let refused = Head::decode(zerocopy::transmute!(raw));
            assert_eq!(refused, Err(Violation("a frame of a wrong length")), "{kind}: {len}");
        }
    }
    for kind in [0, 6, 15, 19, 255] {
        let raw = RawHead { kind, flags: 0, zero: U16::ZERO, len: 8.into(), id: U64::ZERO };
        let refused = Head::decode(zerocopy::transmute!(raw));
        assert_eq!(refused, Err(Violation("a frame of an unknown type")), "{kind}");
    }
}

#[test]
fn what_is_reserved_is_not_looked_at_and_unknown_numbers_are_refused() {
    let mut bytes = bytes_of(&Frame::Request(1, request()));
    bytes[1] = 0xf0;
    bytes[2] = 0xff;
    bytes[17] |= 0xf0;
    bytes[48..56].fill(0xff);
    assert_eq!(frames_of(&bytes, 100).0, [Frame::Request(1, request())]);
    bytes[16] = 2;
    assert_eq!(frames_of(&bytes, 100).1, Some(Violation("a request of an unknown operation")));
    let mut bytes = bytes_of(&Frame::Status(1, Status::plain(Code::TimeIsUp, 0)));
    assert_eq!(bytes[16], 8);
    bytes[16] = 9;
    assert_eq!(frames_of(&bytes, 100).1, Some(Violation("an unknown status")));
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let request =
        (any::<bool>(), any::<bool>(), any::<u16>(), any::<[u32; 3]>(), any::<[u64; 2]>());
    let request = request.prop_map(|(write, checked, attempt, numbers, words)| Request {
        op: if write { Opcode::Write } else { Opcode::Read },
        checked,
        attempt,
        patience: numbers[0],
        buffer: BufferHandle { slot: numbers[1], generation: numbers[2] },
        offset: words[0],
        length: words[1],
    });
    let status = (0usize..9, any::<Option<u32>>(), any::<u64>(), any::<u32>());
    let status = status.prop_map(|(code, sum, moved, errno)| Status {
        code: CODES[code],
        sum,
        moved,
        errno,
    });
    prop_oneof![
        (any::<u64>(), request).prop_map(|(id, request)| Frame::Request(id, request)),
        (any::<u64>(), any::<u32>()).prop_map(|(id, crc)| Frame::Sum { id, crc }),
        any::<u64>().prop_map(Frame::Cancel),
        Just(Frame::Goodbye),
        (any::<u64>(), status).prop_map(|(id, status)| Frame::Status(id, status)),
        any::<u32>().prop_map(Frame::Credit),
    ]
}

proptest! {
    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut(
        frames in prop::collection::vec(any_frame(), 0..12),
        cut in 1usize..100,
    ) {
        let mut bytes = Vec::new();
        for frame in &frames {
            encode(frame, &mut bytes);
        }
        prop_assert_eq!(frames_of(&bytes, cut), (frames, None));
    }

    #[test]
    fn fb32_arbitrary_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        cut in 1usize..100,
    ) {
        frames_of(&bytes, cut);
    }
}
