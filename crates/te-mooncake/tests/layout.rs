//! Layouts and numbers are those of C.

use std::mem::{align_of, offset_of, size_of};

use te_mooncake::{
    BatchId, BufferEntry, INVALID_BATCH, LOCAL_SEGMENT, Opcode, TransferRequest, TransferStatus,
    TransferStatusCode, WILDCARD_LOCATION,
};

#[test]
fn j77_a141_records_lie_as_in_c() {
    // J77, A100, A141: offsets, sizes and alignments, against the C library's own records.
    macro_rules! same {
        ($record:ident: $($field:ident),*) => {
            let sizes = |size, align| (size, align);
            assert_eq!(
                sizes(size_of::<$record>(), align_of::<$record>()),
                (size_of::<transfer_engine::$record>(), align_of::<transfer_engine::$record>()),
            );
            $(assert_eq!(
                offset_of!($record, $field),
                offset_of!(transfer_engine::$record, $field),
            );)*
        };
    }
    same!(TransferRequest: opcode, source, target_id, target_offset, length);
    same!(BufferEntry: addr, length);
    same!(TransferStatus: status, transferred_bytes);
    assert_eq!((size_of::<TransferRequest>(), size_of::<BatchId>()), (40, 8));
}

#[test]
fn j77_numbers_and_the_terminal_states() {
    // J77, A58, A134: opcodes and states have the peer's numbers; two states are not terminal.
    assert_eq!((Opcode::Read as i32, Opcode::Write as i32), (0, 1));
    for number in 0..7 {
        let state = TransferStatusCode::from_raw(number);
        assert_eq!(state as i32, number);
        assert_eq!(state.is_terminal(), number > 1);
        assert_eq!(state.is_completed(), number == 4);
    }
    assert_eq!(TransferStatusCode::from_raw(99), TransferStatusCode::Invalid);
    assert!(BatchId(INVALID_BATCH).is_invalid() && !BatchId(0).is_invalid());
    assert_eq!((LOCAL_SEGMENT, WILDCARD_LOCATION), (0, "*"));
}
