//! Anything after a good hello.

use proptest::prelude::*;

use super::*;

/// Frames that are nearly right: small ids, small lengths.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let small = 0u64..6;
    let request = (0u64..6, any::<bool>(), any::<bool>(), 0u64..4, 0u64..9, 0u32..3);
    prop_oneof![
        4 => request.prop_map(|(id, write, checked, offset, length, generation)| {
            let op = if write { Opcode::Write } else { Opcode::Read };
            let buffer = BufferHandle { slot: 0, generation };
            let request =
                Request { op, checked, attempt: 0, patience: 0, buffer, offset, length };
            let mut bytes = Vec::new();
            encode(&Frame::Request(id, request), &mut bytes);
            bytes
        }),
        4 => (small.clone(), 1u32..9, any::<bool>()).prop_map(|(id, len, last)| {
            let mut bytes = Vec::new();
            encode(&Frame::Data { id, len, last }, &mut bytes);
            bytes.extend(vec![0xaa; len as usize]);
            bytes
        }),
        1 => (small.clone(), any::<u32>()).prop_map(|(id, crc)| {
            let mut bytes = Vec::new();
            encode(&Frame::Sum { id, crc }, &mut bytes);
            bytes
        }),
        1 => small.prop_map(|id| {
            let mut bytes = Vec::new();
            encode(&Frame::Cancel(id), &mut bytes);
            bytes
        }),
        1 => prop::collection::vec(any::<u8>(), 1..40),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// FB32: nothing panics, no guard outlives its connection, at most one status per request, and
    /// no byte outside what requests may touch changes.
    #[test]
    fn fb32_any_frames_are_served_refused_or_end_the_connection(
        parts in prop::collection::vec(any_bytes(), 0..20),
        cut in 1usize..64,
    ) {
        let mut b = bench();
        let bytes: Vec<u8> = parts.concat();
        let mut statuses = Vec::new();
        for part in bytes.chunks(cut) {
            b.feed(part);
            for out in b.out() {
                if let Out::Status(id, _) = out {
                    statuses.push(id);
                }
            }
        }
        let mut sorted = statuses.clone();
        sorted.sort_unstable();
        sorted.dedup();
        prop_assert_eq!(sorted.len(), statuses.len(), "one status each: {:?}", statuses);
        prop_assert!(b.bytes(16, 100).iter().all(|byte| *byte == 0), "outside every request");
        prop_assert!(b.buffer.in_flight() <= u64::from(CREDIT));
        b.machine.on_end(b.now);
        prop_assert_eq!(b.buffer.in_flight(), 0);
    }
}
