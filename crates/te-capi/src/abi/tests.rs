//! The layouts beside the table that the C compiler's are compared with.

use std::mem::offset_of;

use super::*;

/// Lines of `tests/c/layouts.tsv` for one struct.
macro_rules! lines {
    ($list:ident, $name:literal, $type:ty { $($field:ident),* $(,)? }) => {
        $list.push(format!("{}\t-\t0\t{}", $name, size_of::<$type>()));
        $(
            let size = size_of_field(|it: &$type| &raw const it.$field);
            let offset = offset_of!($type, $field);
            $list.push(format!("{}\t{}\t{offset}\t{size}", $name, stringify!($field)));
        )*
    };
}

fn size_of_field<S, F>(_field: impl FnOnce(&S) -> *const F) -> usize {
    size_of::<F>()
}

#[test]
fn a100_structs_are_laid_out_as_in_the_table() {
    // A100: layouts; layouts.c compares the same table with a C compiler.
    let mut list = Vec::new();
    lines!(
        list,
        "transfer_request_t",
        TransferRequest { opcode, source, target_id, target_offset, length }
    );
    lines!(list, "transfer_status_t", TransferStatus { status, transferred_bytes });
    lines!(list, "buffer_entry_t", BufferEntry { addr, length });
    lines!(list, "notify_msg_t", NotifyMsg { name, msg });
    lines!(
        list,
        "nic_load_stat_t",
        NicLoadStat { device_name, inflight_bytes, ewma_bandwidth_bps }
    );
    lines!(
        list,
        "te_error_t",
        ErrorRecord {
            code,
            remote_side,
            local_state,
            flags,
            request,
            attempts,
            reserved,
            phase,
            peer,
            transport,
            text,
        }
    );
    lines!(
        list,
        "te_options_t",
        Options { size, metadata, name, filters, filter_count, auto_discover, reserved }
    );
    lines!(list, "te_close_report_t", CloseReport { open_tasks, kept_bytes, joined, reserved });
    lines!(
        list,
        "te_batch_status_t",
        BatchStatus { status, notify, total, completed, failed, quarantined, bytes }
    );
    lines!(
        list,
        "te_scatter_range_t",
        ScatterRange {
            peer,
            remote_base,
            remote_length,
            local,
            local_length,
            local_offsets,
            remote_offsets,
            lengths,
            outcomes,
            count,
            opcode,
            reserved,
        }
    );
    let table = include_str!("../../tests/c/layouts.tsv");
    let table: Vec<&str> = table.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(list, table);
}
