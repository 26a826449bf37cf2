//! Frames: J38 and the captured ones.

use proptest::prelude::*;

use super::*;

const LIMIT: usize = MIN_FRAME_LIMIT;

fn read(bytes: &[u8]) -> Result<Option<Frame>, FrameError> {
    FrameReader::new(LIMIT).push(bytes)
}

fn typed(kind: FrameType, body: &[u8]) -> Frame {
    Frame { kind: kind.into(), body: body.to_vec() }
}

/// B53: captured frames are taken apart and put together byte by byte.
#[test]
fn captured_frames_round_trip() {
    use FrameType::{Endpoint, Metadata, Notify, Probe};
    let captured: [(&[u8], FrameType); 10] = [
        (include_bytes!("../../tests/fixtures/frame-notify-question.bin"), Notify),
        (include_bytes!("../../tests/fixtures/frame-notify-answer.bin"), Notify),
        (include_bytes!("../../tests/fixtures/frame-probe-question.bin"), Probe),
        (include_bytes!("../../tests/fixtures/frame-probe-answer.bin"), Probe),
        (include_bytes!("../../tests/fixtures/frame-rdma-metadata-question.bin"), Metadata),
        (include_bytes!("../../tests/fixtures/frame-rdma-metadata-answer.bin"), Metadata),
        (include_bytes!("../../tests/fixtures/frame-rdma-endpoint-question.bin"), Endpoint),
        (include_bytes!("../../tests/fixtures/frame-rdma-endpoint-answer.bin"), Endpoint),
        (include_bytes!("../../tests/fixtures/frame-rdma-endpoint-ready.bin"), Endpoint),
        (include_bytes!("../../tests/fixtures/frame-rdma-endpoint-ready-answer.bin"), Endpoint),
    ];
    for (bytes, kind) in captured {
        let frame = read(bytes).unwrap().unwrap();
        assert_eq!(frame.kind, FrameKind::Typed(kind));
        assert_eq!(encode_frame(kind, &frame.body), bytes);
    }
}

/// J38: typed round trip, also one byte at a time, and with nothing behind the type.
#[test]
fn j38_typed_frames_round_trip() {
    for (byte, kind) in [
        (0, FrameType::Endpoint),
        (1, FrameType::Metadata),
        (2, FrameType::Notify),
        (3, FrameType::Probe),
    ] {
        let bytes = encode_frame(kind, b"{}");
        assert_eq!(bytes, [3, 0, 0, 0, 0, 0, 0, 0, byte, b'{', b'}']);
        assert_eq!(read(&bytes), Ok(Some(typed(kind, b"{}"))));
        assert_eq!(read(&encode_frame(kind, b"")), Ok(Some(typed(kind, b""))));
        let mut reader = FrameReader::new(LIMIT);
        let (last, head) = bytes.split_last().unwrap();
        assert!(head.iter().all(|byte| reader.push(&[*byte]) == Ok(None)));
        assert_eq!(reader.push(&[*last]), Ok(Some(typed(kind, b"{}"))));
        assert_eq!(reader.push(b"more"), Ok(None));
    }
}

/// J38: a length that begins like a TLS record is a frame when it is in range.
#[test]
fn j38_a_length_like_a_tls_record_is_a_frame() {
    let body = vec![b' '; 0x1_0316 - 1];
    let bytes = encode_frame(FrameType::Probe, &body);
    assert_eq!(bytes[..3], [0x16, 0x03, 0x01]);
    assert_eq!(read(&bytes), Ok(Some(typed(FrameType::Probe, &body))));
}

/// J38, B54, K6: a first byte of 4 to 127 begins a frame of the old form, one from 128 none.
#[test]
fn j38_legacy_frames_are_recognised_by_their_first_byte() {
    let bytes = [2, 0, 0, 0, 0, 0, 0, 0, b'{', b'}'];
    let legacy = Frame { kind: FrameKind::Legacy, body: b"{}".to_vec() };
    assert_eq!(read(&bytes), Ok(Some(legacy)));
    assert_eq!(encode_frame(FrameKind::Legacy, b"{}"), bytes);
    for byte in 0..=255u8 {
        let found = read(&[2, 0, 0, 0, 0, 0, 0, 0, byte, b'x']);
        match byte {
            0..=3 => assert!(matches!(found.unwrap().unwrap().kind, FrameKind::Typed(_))),
            4..=127 => assert_eq!(found.unwrap().unwrap().body, [byte, b'x']),
            128.. => assert_eq!(found, Err(FrameError::UnknownType { byte })),
        }
    }
}

/// J38, B55: HTTP text, a TLS hello, oversized and zero lengths are no frames, and nothing is kept.
#[test]
fn j38_foreign_bytes_are_no_frames() {
    let too_long = |bytes: &[u8]| {
        let mut reader = FrameReader::new(LIMIT);
        assert!(matches!(reader.push(bytes), Err(FrameError::TooLong { .. })), "{bytes:?}");
        assert_eq!(reader.buffered(), 0);
        assert_eq!(reader.push(b"more"), Ok(None));
    };
    too_long(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    too_long(b"POST / HTTP/1.1\r\n\r\n");
    too_long(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03]);
    too_long(&(LIMIT as u64 + 1).to_le_bytes());
    too_long(&u64::MAX.to_le_bytes());
    assert_eq!(read(&[0; 9]), Err(FrameError::EmptyFrame));
    assert_eq!(read(&(LIMIT as u64).to_le_bytes()), Ok(None));
}

/// K40: a claimed length costs nothing until bytes come.
#[test]
fn k40_memory_follows_the_bytes_that_came() {
    let mut reader = FrameReader::new(MAX_FRAME_LIMIT);
    assert!(reader.is_fresh());
    reader.push(&(MAX_FRAME_LIMIT as u64).to_le_bytes()).unwrap();
    assert_eq!((reader.buffered(), reader.is_fresh()), (0, false));
    reader.push(&[1; 100]).unwrap();
    assert!(reader.buffered() < 1000);
}

proptest! {
    // Seeds of failures are printed; a counter-proof shall not write files.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic_however_they_are_cut(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..10),
        small in any::<bool>(),
    ) {
        let mut reader = FrameReader::new(LIMIT);
        if small {
            reader.push(&[9, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        }
        for piece in pieces {
            if reader.push(&piece).is_err() {
                prop_assert_eq!(reader.buffered(), 0);
            }
        }
    }

    #[test]
    fn every_body_round_trips_however_it_is_cut(
        body in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..209,
    ) {
        let bytes = encode_frame(FrameType::Notify, &body);
        let (head, tail) = bytes.split_at(cut.min(bytes.len()));
        let mut reader = FrameReader::new(LIMIT);
        let first = reader.push(head).unwrap();
        let frame = first.or_else(|| reader.push(tail).unwrap()).unwrap();
        prop_assert_eq!(frame, typed(FrameType::Notify, &body));
    }
}
