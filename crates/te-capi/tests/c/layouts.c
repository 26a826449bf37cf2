/* The structs of the headers, as a C compiler lays them out, beside the table that Rust is compared
 * with too. */
#include "kit.h"

struct line {
    const char *type, *field;
    size_t offset, size;
};

#define WHOLE(type) {#type, "-", 0, sizeof(type)}
#define FIELD(type, field) {#type, #field, offsetof(type, field), sizeof(((type *)0)->field)}

static const struct line lines[] = {
    WHOLE(transfer_request_t),
    FIELD(transfer_request_t, opcode),
    FIELD(transfer_request_t, source),
    FIELD(transfer_request_t, target_id),
    FIELD(transfer_request_t, target_offset),
    FIELD(transfer_request_t, length),
    WHOLE(transfer_status_t),
    FIELD(transfer_status_t, status),
    FIELD(transfer_status_t, transferred_bytes),
    WHOLE(buffer_entry_t),
    FIELD(buffer_entry_t, addr),
    FIELD(buffer_entry_t, length),
    WHOLE(notify_msg_t),
    FIELD(notify_msg_t, name),
    FIELD(notify_msg_t, msg),
    WHOLE(nic_load_stat_t),
    FIELD(nic_load_stat_t, device_name),
    FIELD(nic_load_stat_t, inflight_bytes),
    FIELD(nic_load_stat_t, ewma_bandwidth_bps),
    WHOLE(te_error_t),
    FIELD(te_error_t, code),
    FIELD(te_error_t, remote_side),
    FIELD(te_error_t, local_state),
    FIELD(te_error_t, flags),
    FIELD(te_error_t, request),
    FIELD(te_error_t, attempts),
    FIELD(te_error_t, reserved),
    FIELD(te_error_t, phase),
    FIELD(te_error_t, peer),
    FIELD(te_error_t, transport),
    FIELD(te_error_t, text),
    WHOLE(te_options_t),
    FIELD(te_options_t, size),
    FIELD(te_options_t, metadata),
    FIELD(te_options_t, name),
    FIELD(te_options_t, filters),
    FIELD(te_options_t, filter_count),
    FIELD(te_options_t, auto_discover),
    FIELD(te_options_t, reserved),
    WHOLE(te_close_report_t),
    FIELD(te_close_report_t, open_tasks),
    FIELD(te_close_report_t, kept_bytes),
    FIELD(te_close_report_t, joined),
    FIELD(te_close_report_t, reserved),
    WHOLE(te_batch_status_t),
    FIELD(te_batch_status_t, status),
    FIELD(te_batch_status_t, notify),
    FIELD(te_batch_status_t, total),
    FIELD(te_batch_status_t, completed),
    FIELD(te_batch_status_t, failed),
    FIELD(te_batch_status_t, quarantined),
    FIELD(te_batch_status_t, bytes),
    WHOLE(te_scatter_range_t),
    FIELD(te_scatter_range_t, peer),
    FIELD(te_scatter_range_t, remote_base),
    FIELD(te_scatter_range_t, remote_length),
    FIELD(te_scatter_range_t, local),
    FIELD(te_scatter_range_t, local_length),
    FIELD(te_scatter_range_t, local_offsets),
    FIELD(te_scatter_range_t, remote_offsets),
    FIELD(te_scatter_range_t, lengths),
    FIELD(te_scatter_range_t, outcomes),
    FIELD(te_scatter_range_t, count),
    FIELD(te_scatter_range_t, opcode),
    FIELD(te_scatter_range_t, reserved),
};

static void a100_structs_are_laid_out_as_in_the_table(void) {
    FILE *table = fopen("tests/c/layouts.tsv", "r");
    char text[256];
    size_t index = 0, n_lines = sizeof lines / sizeof lines[0];

    if (!table)
        FAIL("tests/c/layouts.tsv: %s", strerror(errno));
    while (fgets(text, sizeof text, table)) {
        char mine[256] = "";

        if (text[0] == '#')
            continue;
        if (index < n_lines)
            snprintf(mine, sizeof mine, "%s\t%s\t%zu\t%zu\n", lines[index].type, lines[index].field,
                     lines[index].offset, lines[index].size);
        if (strcmp(text, mine) != 0)
            FAIL("the table has %sthe compiler %s", text, mine);
        index++;
    }
    fclose(table);
    SAME(index, n_lines);
}

static void a100_numbers_are_those_of_the_peer(void) {
    const int states[] = {STATUS_WAITING,   STATUS_PENDING, STATUS_INVALID, STATUS_CANCELED,
                          STATUS_COMPLETED, STATUS_TIMEOUT, STATUS_FAILED};

    for (int index = 0; index < 7; index++)
        SAME(states[index], index);
    SAME(OPCODE_READ, 0);
    SAME(OPCODE_WRITE, 1);
    SAME(LOCAL_SEGMENT, 0);
    CHECK(INVALID_BATCH == UINT64_MAX);
    SAME(sizeof(segment_handle_t), 4);
    CHECK((segment_id_t)-1 < 0);
    SAME(sizeof(batch_id_t), 8);
    CHECK((batch_id_t)-1 > 0);
    SAME(sizeof(transfer_engine_t), sizeof(void *));
}

TESTS(TEST(a100_structs_are_laid_out_as_in_the_table), TEST(a100_numbers_are_those_of_the_peer))
