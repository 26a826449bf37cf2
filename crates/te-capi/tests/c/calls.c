/* Every call of both headers with good and with bad arguments; two engines in one process. */
#include "kit.h"

#include <pthread.h>

#define KIB ((size_t)1024)
#define MIB ((size_t)1024 * 1024)

/* Two engines of one process, each with memory that is registered. */
struct two {
    transfer_engine_t from, to;
    unsigned char *ours, *theirs;
    uint64_t address;
    size_t size;
    char name[300];
    segment_id_t segment;
};

static struct two two_engines(size_t size) {
    struct two two;

    two.size = size;
    two.from = engine_here();
    two.to = engine_here();
    two.ours = memory(size);
    two.theirs = memory(size);
    two.address = (uint64_t)(uintptr_t)two.theirs;
    GIVES(registerLocalMemory(two.from, two.ours, size, "*", 1), 0);
    GIVES(registerLocalMemory(two.to, two.theirs, size, "cpu:0", 1), 0);
    GIVES(getLocalIpAndPort(two.to, two.name, sizeof two.name), 0);
    two.segment = openSegment(two.from, two.name);
    if (two.segment <= 0)
        GIVES(two.segment, 1);
    return two;
}

static void end_both(struct two *two) {
    GIVES(unregisterLocalMemory(two->from, two->ours), 0);
    GIVES(unregisterLocalMemory(two->to, two->theirs), 0);
    destroyTransferEngine(two->from);
    destroyTransferEngine(two->to);
    munmap(two->ours, two->size);
    munmap(two->theirs, two->size);
}

static void a101_a102_engines_are_made_and_ended_many_times(void) {
    transfer_engine_t all[8];

    for (int round = 0; round < 3; round++) {
        for (int index = 0; index < 8; index++)
            all[index] = engine_here();
        for (int index = 0; index < 8; index++)
            for (int other = 0; other < index; other++)
                CHECK(all[index] != all[other]);
        for (int index = 0; index < 8; index++)
            destroyTransferEngine(all[index]);
    }
}

static void a101_what_cannot_be_made_is_null_with_a_reason(void) {
    te_options_t options = {0};

    CHECK(!createTransferEngine(NULL, "127.0.0.1", "", 0, 1));
    REASON("metadata_conn_string is a null pointer");
    CHECK(!createTransferEngine("P2PHANDSHAKE", NULL, "", 0, 1));
    REASON("local_server_name is a null pointer");
    CHECK(!createTransferEngine("P2PHANDSHAKE", "\xff\xfe", "", 0, 1));
    REASON("local_server_name is no UTF-8");
    CHECK(!createTransferEngine("P2PHANDSHAKE", "127.0.0.1", "\xff", 0, 1));
    REASON("ip_or_host_name is no UTF-8");
    CHECK(!createTransferEngine("gopher://127.0.0.1:1", "127.0.0.1", "", 0, 1));
    REASON("gopher");
    CHECK(!createTransferEngine("P2PHANDSHAKE", "", "", 0, 1));
    CHECK(!te_create(NULL));
    REASON("options is a null pointer");
    CHECK(!te_create(&options));
    REASON("options.size is 0");
}

/* What is no engine: each call of the headers answers so, and none of them harms. */
static void no_engine(transfer_engine_t engine, const char *why) {
    unsigned char local[64];
    void *list[] = {local};
    buffer_entry_t entry = {local, sizeof local};
    transfer_request_t one = request(OPCODE_WRITE, local, 1, 1, 1);
    transfer_status_t status = {7, 7};
    notify_msg_t notify = {(char *)"a", (char *)"b"};
    nic_load_stat_t stat;
    te_batch_status_t batch;
    te_close_report_t report;
    te_error_t fault;
    te_scatter_range_t range = {0};
    char text[8] = "same";
    size_t count = 1;
    uint64_t number = 5;
    int size = 5;

#define REFUSED(call, wanted)                                                                      \
    do {                                                                                           \
        te_clear_error();                                                                          \
        GIVES(call, wanted);                                                                       \
        REASON(why);                                                                               \
    } while (0)

    REFUSED(getLocalIpAndPort(engine, text, sizeof text), -1);
    REFUSED(discoverTopology(engine), -1);
    REFUSED(installTransport(engine, "tcp", NULL) != NULL, 0);
    REFUSED(uninstallTransport(engine, "tcp"), -1);
    REFUSED((enableGracefulShutdown(engine), 0), 0);
    REFUSED(showLinks(engine, text, sizeof text, 0), -1);
    REFUSED(getNicLoadStats(engine, &stat, &count), -1);
    REFUSED(registerLocalMemory(engine, local, sizeof local, "*", 1), -1);
    REFUSED(unregisterLocalMemory(engine, local), -1);
    REFUSED(registerLocalMemoryBatch(engine, &entry, 1, "*"), -1);
    REFUSED(unregisterLocalMemoryBatch(engine, list, 1), -1);
    REFUSED(openSegment(engine, "127.0.0.1:1"), -1);
    REFUSED(openSegmentNoCache(engine, "127.0.0.1:1"), -1);
    REFUSED(closeSegment(engine, 1), -1);
    REFUSED(removeLocalSegment(engine, "x"), -1);
    REFUSED(syncSegmentCache(engine), -1);
    REFUSED(warmupEfaSegment(engine, "x"), -1);
    REFUSED(allocateBatchID(engine, 1) == INVALID_BATCH, 1);
    REFUSED(submitTransfer(engine, 1, &one, 1), 1);
    REFUSED(submitTransferWithNotify(engine, 1, &one, 1, notify), 1);
    REFUSED(getTransferStatus(engine, 1, 0, &status), 1);
    REFUSED(freeBatchID(engine, 1), 1);
    REFUSED(getNotifsFromEngine(engine, &size) != NULL, 0);
    REFUSED(genNotifyInEngine(engine, 1, notify), -1);
    REFUSED(te_close(engine, 1, &report), -1);
    REFUSED(te_local_topology(engine, text, sizeof text, &count), -1);
    REFUSED(te_check_overlap(engine, local, 1), -1);
    REFUSED(te_quarantined_bytes(engine, &number), -1);
    REFUSED(te_wait_quiescent(engine, 1), -1);
    REFUSED(te_first_buffer_address(engine, "x", &number), -1);
    REFUSED(te_batch_status(engine, 1, &batch), -1);
    REFUSED(te_wait(engine, 1, 1, &batch), -1);
    REFUSED(te_task_fault(engine, 1, 0, &fault), -1);
    REFUSED(te_cancel(engine, 1), -1);
    REFUSED(te_transfer_sync(engine, "x", local, 1, 1, OPCODE_READ), -1);
    REFUSED(te_scatter(engine, &range, 1, 1), -1);
    REFUSED(te_probe(engine, "x", &number), -1);
    REFUSED(te_send_notify(engine, "x", notify), -1);
    REFUSED((destroyTransferEngine(engine), 0), 0);
    /* Nothing was written into places for answers. */
    CHECK(!strcmp(text, "same"));
    CHECK(status.status == 7 && status.transferred_bytes == 7 && count == 1 && number == 5);
}

static void null_handles_are_errors_of_every_call(void) {
    no_engine(NULL, "null pointer");
}

static void foreign_handles_are_errors_of_every_call(void) {
    unsigned char here[4096];

    memset(here, 0x41, sizeof here);
    no_engine(here, "no engine handle");
    no_engine((transfer_engine_t)1, "no engine handle");
    no_engine((transfer_engine_t)UINTPTR_MAX, "no engine handle");
    no_engine((transfer_engine_t)((uintptr_t)0x7e << 56 | (uintptr_t)9 << 16 | 77),
              "no engine handle");
}

static void stale_handles_are_errors_of_every_call(void) {
    transfer_engine_t first = engine_here(), second;

    destroyTransferEngine(first);
    no_engine(first, "destroyed");
    /* Another engine in its place changes nothing. */
    second = engine_here();
    CHECK(second != first);
    no_engine(first, "destroyed");
    GIVES(discoverTopology(second), 0);
    destroyTransferEngine(second);
    destroyTransferEngine(second);
}

static void a103_a105_a119_a120_what_an_engine_says_of_itself(void) {
    transfer_engine_t engine = engine_here();
    char text[4096];
    char *matrix[] = {(char *)"{\"cpu:0\": [[], []]}"}, *bad[] = {(char *)"no json"};
    size_t length = 0;

    GIVES(discoverTopology(engine), 0);
    CHECK(installTransport(engine, "tcp", NULL) != NULL);
    CHECK(installTransport(engine, "tcp", NULL) != NULL);
    CHECK(installTransport(engine, "tcp", (void **)matrix) != NULL);
    CHECK(!installTransport(engine, "tcp", (void **)bad));
    REASON("build");
    CHECK(!installTransport(engine, "carrier-pigeon", NULL));
    REASON("carrier-pigeon");
    CHECK(!installTransport(engine, NULL, NULL));
    REASON("proto is a null pointer");
    GIVES(uninstallTransport(engine, "tcp"), 0);
    GIVES(uninstallTransport(engine, NULL), -1);
    memset(text, 'x', sizeof text);
    GIVES(showLinks(engine, text, sizeof text, 0), 0);
    CHECK(strlen(text) > 0 && text[0] != '{');
    GIVES(showLinks(engine, text, sizeof text, 1), 0);
    CHECK(text[0] == '{');
    /* Cut without a word, and nothing beyond it changes. */
    memset(text, 'x', sizeof text);
    GIVES(showLinks(engine, text, 5, 1), 0);
    CHECK(strlen(text) == 4 && text[5] == 'x');
    GIVES(showLinks(engine, NULL, sizeof text, 0), -1);
    GIVES(showLinks(engine, text, 0, 0), -1);
    GIVES(te_local_topology(engine, text, sizeof text, &length), 0);
    CHECK(text[0] == '{' && length == strlen(text));
    GIVES(te_local_topology(engine, text, 2, NULL), 0);
    CHECK(!strcmp(text, "{"));
    GIVES(te_local_topology(engine, NULL, 2, NULL), -1);
    destroyTransferEngine(engine);
}

static void a104_the_address_is_copied_and_cut(void) {
    transfer_engine_t engine = engine_here();
    char whole[64], part[64];

    GIVES(getLocalIpAndPort(engine, whole, sizeof whole), 0);
    CHECK(!strncmp(whole, "127.0.0.1:", 10) && strlen(whole) > 10);
    memset(part, 'x', sizeof part);
    GIVES(getLocalIpAndPort(engine, part, 10), 0);
    CHECK(!strcmp(part, "127.0.0.1") && part[10] == 'x');
    GIVES(getLocalIpAndPort(engine, part, 0), -1);
    GIVES(getLocalIpAndPort(engine, NULL, 10), -1);
    destroyTransferEngine(engine);
}

static void a106_a107_a108_a109_a117_segments(void) {
    struct two two = two_engines(4 * KIB);
    char own[64];
    uint64_t address = 0;

    SAME(openSegment(two.from, two.name), two.segment);
    SAME(openSegmentNoCache(two.from, two.name), two.segment);
    GIVES(getLocalIpAndPort(two.from, own, sizeof own), 0);
    GIVES(openSegment(two.from, own), LOCAL_SEGMENT);
    GIVES(openSegment(two.from, "127.0.0.1:1"), -1);
    REASON("127.0.0.1:1");
    GIVES(openSegment(two.from, ""), -1);
    GIVES(openSegment(two.from, NULL), -1);
    GIVES(openSegmentNoCache(two.from, NULL), -1);
    GIVES(te_first_buffer_address(two.from, two.name, &address), 0);
    CHECK(address == two.address);
    GIVES(te_first_buffer_address(two.from, two.name, NULL), -1);
    GIVES(closeSegment(two.from, two.segment), 0);
    GIVES(closeSegment(two.from, 12345), 0);
    GIVES(closeSegment(two.from, -1), 0);
    GIVES(removeLocalSegment(two.from, "nobody"), 0);
    GIVES(removeLocalSegment(two.from, ""), -1);
    GIVES(removeLocalSegment(two.from, NULL), -1);
    GIVES(syncSegmentCache(two.from), 0);
    GIVES(warmupEfaSegment(two.from, two.name), 0);
    GIVES(warmupEfaSegment(two.from, NULL), -1);
    end_both(&two);
}

static void a110_a111_registering_memory(void) {
    transfer_engine_t engine = engine_here();
    unsigned char *at = memory(64 * KIB);
    buffer_entry_t entries[] = {{at, 4 * KIB}, {at + 8 * KIB, 4 * KIB}};
    buffer_entry_t overlapping[] = {{at + 16 * KIB, 8 * KIB}, {at + 20 * KIB, 8 * KIB}};
    void *addresses[] = {at, at + 4 * KIB, at + 8 * KIB};

    GIVES(registerLocalMemory(engine, at, 4 * KIB, "*", 1), 0);
    GIVES(te_check_overlap(engine, at + 4095, 1), 1);
    GIVES(te_check_overlap(engine, at + 4096, 1), 0);
    GIVES(te_check_overlap(engine, at, 0), 0);
    GIVES(registerLocalMemory(engine, at + KIB, KIB, "*", 1), -7);
    GIVES(registerLocalMemory(engine, at + 8 * KIB, 0, "*", 1), -1);
    GIVES(registerLocalMemory(engine, NULL, 4 * KIB, "*", 1), -1);
    GIVES(registerLocalMemory(engine, (void *)(uintptr_t)64, 4 * KIB, "*", 1), -1);
    GIVES(registerLocalMemory(engine, at + 8 * KIB, SIZE_MAX, "*", 1), -1);
    GIVES(registerLocalMemory(engine, at + 8 * KIB, 4 * KIB, "\xff", 1), -1);
    GIVES(unregisterLocalMemory(engine, at), 0);
    GIVES(unregisterLocalMemory(engine, at), -3);
    GIVES(unregisterLocalMemory(engine, NULL), -3);
    GIVES(registerLocalMemory(engine, at, 4 * KIB, NULL, 0), 0);
    GIVES(unregisterLocalMemory(engine, at), 0);

    GIVES(registerLocalMemoryBatch(engine, entries, 2, "cpu:0"), 0);
    GIVES(registerLocalMemoryBatch(engine, overlapping, 2, "*"), -7);
    GIVES(te_check_overlap(engine, at + 16 * KIB, 16 * KIB), 0);
    GIVES(registerLocalMemoryBatch(engine, NULL, 2, "*"), -1);
    GIVES(registerLocalMemoryBatch(engine, entries, SIZE_MAX, "*"), -1);
    GIVES(registerLocalMemoryBatch(engine, NULL, 0, "*"), 0);
    /* Past the error in its middle. */
    GIVES(unregisterLocalMemoryBatch(engine, addresses, 3), -3);
    GIVES(te_check_overlap(engine, at, 64 * KIB), 0);
    GIVES(unregisterLocalMemoryBatch(engine, NULL, 1), -1);
    GIVES(unregisterLocalMemoryBatch(engine, NULL, 0), 0);
    destroyTransferEngine(engine);
}

static void a112_a113_a114_bytes_move_both_ways(void) {
    const size_t size = 8 * MIB, piece = 256 * KIB, n = size / piece;
    struct two two = two_engines(size);
    transfer_request_t all[64];
    batch_id_t batch = allocateBatchID(two.from, n);

    CHECK(batch != INVALID_BATCH && batch != 0);
    fill(two.ours, size, 1);
    for (size_t index = 0; index < n; index++)
        all[index] = request(OPCODE_WRITE, two.ours + index * piece, two.segment,
                             two.address + index * piece, piece);
    GIVES(submitTransfer(two.from, batch, all, n), 0);
    memset(all, 0xff, sizeof all); /* the array was copied */
    for (size_t index = 0; index < n; index++) {
        transfer_status_t status = poll_task(two.from, batch, index, 30);

        SAME(status.status, STATUS_COMPLETED);
        SAME(status.transferred_bytes, piece);
    }
    HOLDS(two.theirs, size, 1);
    GIVES(freeBatchID(two.from, batch), 0);
    GIVES(freeBatchID(two.from, batch), 1);

    fill(two.theirs, size, 2);
    batch = allocateBatchID(two.from, 1);
    all[0] = request(OPCODE_READ, two.ours, two.segment, two.address, size);
    GIVES(submitTransfer(two.from, batch, all, 1), 0);
    SAME(poll_task(two.from, batch, 0, 30).status, STATUS_COMPLETED);
    HOLDS(two.ours, size, 2);
    GIVES(freeBatchID(two.from, batch), 0);
    end_both(&two);
}

static void a112_a113_what_cannot_be_taken_is_told_and_nothing_moves(void) {
    struct two two = two_engines(64 * KIB);
    transfer_request_t good = request(OPCODE_WRITE, two.ours, two.segment, two.address, KIB);
    transfer_request_t pair[] = {good, good}, bad;
    transfer_status_t status;
    batch_id_t batch = allocateBatchID(two.from, 1);
    notify_msg_t notify = {(char *)"a", NULL}, whole = {(char *)"a", (char *)"b"};

    fill(two.ours, KIB, 3);
    GIVES(submitTransfer(two.from, batch, pair, 2), 2);
    GIVES(submitTransfer(two.from, batch, NULL, 1), 1);
    REASON("entries is a null pointer");
    GIVES(submitTransfer(two.from, batch, &good, SIZE_MAX), 1);
    GIVES(submitTransfer(two.from, batch, &good, SIZE_MAX / sizeof good), 1);
    GIVES(submitTransfer(two.from, INVALID_BATCH, &good, 1), 1);
    GIVES(submitTransfer(two.from, 0, &good, 1), 1);
    GIVES(submitTransfer(two.from, batch + 1, &good, 1), 1);
    bad = good;
    bad.opcode = 7;
    GIVES(submitTransfer(two.from, batch, &bad, 1), 1);
    REASON("opcode 7");
    bad = good;
    bad.target_id = 99;
    GIVES(submitTransfer(two.from, batch, &bad, 1), 1);
    bad.target_id = -1;
    GIVES(submitTransfer(two.from, batch, &bad, 1), 1);
    bad = good;
    bad.target_offset = UINT64_MAX - 5;
    GIVES(submitTransfer(two.from, batch, &bad, 1), 1);
    pair[1] = bad;
    GIVES(submitTransferWithNotify(two.from, batch, &good, 1, notify), 1);
    REASON("notify_msg.msg is a null pointer");
    GIVES(submitTransferWithNotify(two.from, batch, &good, 0, whole), 1);
    GIVES(getTransferStatus(two.from, batch, 0, &status), 1);
    for (size_t place = 0; place < KIB; place++)
        CHECK(two.theirs[place] == 0);
    GIVES(submitTransfer(two.from, batch, &good, 1), 0);
    SAME(poll_task(two.from, batch, 0, 10).status, STATUS_COMPLETED);
    GIVES(getTransferStatus(two.from, batch, 1, &status), 1);
    GIVES(getTransferStatus(two.from, batch, SIZE_MAX, &status), 1);
    GIVES(getTransferStatus(two.from, batch, 0, NULL), 1);
    GIVES(freeBatchID(two.from, batch), 0);
    CHECK(allocateBatchID(two.from, SIZE_MAX) == INVALID_BATCH);
    end_both(&two);
}

/* Lets a batch of these requests end; tells what became of its notification. */
static int32_t notified(struct two *two, transfer_request_t *requests, size_t count, int32_t status) {
    batch_id_t batch = allocateBatchID(two->from, count);
    notify_msg_t notify = {(char *)"who", (char *)"all in place"};
    te_batch_status_t state;

    GIVES(submitTransferWithNotify(two->from, batch, requests, count, notify), 0);
    GIVES(te_wait(two->from, batch, 10000, &state), 0);
    SAME(state.status, status);
    GIVES(freeBatchID(two->from, batch), 0);
    return state.notify;
}

/* A30: the bytes are in place, and whoever waits is told that the peer does not know. */
static void a30_what_became_of_a_notification_is_told(void) {
    struct two two;
    transfer_request_t both[2];
    notify_msg_t *taken;
    int size = 0;

    setenv("TE_ENGINE_NOTIFY_QUEUE", "1", 1);
    two = two_engines(64 * KIB);
    both[0] = request(OPCODE_WRITE, two.ours, two.segment, two.address, KIB);
    both[1] = request(OPCODE_WRITE, (void *)4096, two.segment, two.address, KIB);
    SAME(notified(&two, both, 2, STATUS_FAILED), TE_NOTIFY_NONE);
    SAME(notified(&two, both, 1, STATUS_COMPLETED), TE_NOTIFY_DELIVERED);
    SAME(notified(&two, both, 1, STATUS_COMPLETED), TE_NOTIFY_FULL);
    taken = getNotifsFromEngine(two.to, &size);
    SAME(size, 1);
    GIVES(freeNotifsMsgBuf(taken, size), 0);
    end_both(&two);
}

/* A request that a thread submits again and again. */
struct lone {
    transfer_engine_t engine;
    batch_id_t batch;
    transfer_request_t request;
    int count;
};

static void *submit_each_alone(void *given) {
    const struct lone *lone = given;

    for (int number = 0; number < lone->count; number++) {
        transfer_request_t one = lone->request;

        GIVES(submitTransfer(lone->engine, lone->batch, &one, 1), 0);
    }
    return NULL;
}

/* Peer fault 28: a task that moved nothing has failed, whatever another thread submits meanwhile. */
static void fault28_threads_on_one_batch_are_told_of_their_own_tasks(void) {
    enum { EACH = 100 };
    struct two two = two_engines(64 * KIB);
    transfer_request_t good = request(OPCODE_WRITE, two.ours, two.segment, two.address, 128);
    transfer_request_t bad = request(OPCODE_WRITE, (void *)4096, two.segment, two.address, 64);

    for (int round = 0; round < 5; round++) {
        batch_id_t batch = allocateBatchID(two.from, 2 * EACH);
        struct lone of_good = {two.from, batch, good, EACH}, of_bad = {two.from, batch, bad, EACH};
        te_batch_status_t state;
        pthread_t threads[2];

        CHECK(!pthread_create(&threads[0], NULL, submit_each_alone, &of_good));
        CHECK(!pthread_create(&threads[1], NULL, submit_each_alone, &of_bad));
        CHECK(!pthread_join(threads[0], NULL) && !pthread_join(threads[1], NULL));
        GIVES(te_wait(two.from, batch, 10000, &state), 0);
        CHECK(state.status == STATUS_FAILED && state.completed == EACH && state.failed == EACH);
        for (size_t task = 0; task < 2 * EACH; task++) {
            transfer_status_t status;

            GIVES(getTransferStatus(two.from, batch, task, &status), 0);
            SAME(status.transferred_bytes, status.status == STATUS_COMPLETED ? 128 : 0);
        }
        GIVES(freeBatchID(two.from, batch), 0);
    }
    end_both(&two);
}

static void fault28_local_memory_need_not_be_registered_but_mapped(void) {
    struct two two = two_engines(64 * KIB);
    unsigned char *plain = memory(64 * KIB), *gone = memory(64 * KIB);
    transfer_request_t both[2];
    batch_id_t batch = allocateBatchID(two.from, 2);
    te_error_t fault;

    munmap(gone, 64 * KIB);
    fill(plain, 4 * KIB, 4);
    both[0] = request(OPCODE_WRITE, plain, two.segment, two.address, 4 * KIB);
    both[1] = request(OPCODE_WRITE, gone, two.segment, two.address + 8 * KIB, 4 * KIB);
    GIVES(submitTransfer(two.from, batch, both, 2), 0);
    SAME(poll_task(two.from, batch, 0, 10).status, STATUS_COMPLETED);
    SAME(poll_task(two.from, batch, 1, 10).status, STATUS_FAILED);
    HOLDS(two.theirs, 4 * KIB, 4);
    GIVES(te_task_fault(two.from, batch, 0, &fault), 0);
    SAME(fault.code, 0);
    GIVES(te_task_fault(two.from, batch, 1, &fault), 1);
    CHECK(strstr(fault.text, "not mapped") || strstr(fault.text, "local memory"));
    CHECK(!strcmp(fault.peer, two.name));
    SAME(fault.request, 1);
    SAME(fault.local_state, TE_LOCAL_FREE);
    SAME(fault.remote_side, TE_REMOTE_UNTOUCHED);
    GIVES(te_task_fault(two.from, batch, 2, &fault), -1);
    GIVES(te_task_fault(two.from, batch, 1, NULL), -1);
    GIVES(freeBatchID(two.from, batch), 0);
    GIVES(te_transfer_sync(two.from, two.name, gone, two.address, 4 * KIB, OPCODE_READ) < 0, 1);
    end_both(&two);
}

static void a115_a116_a121_notifications_arrive_once_and_whole(void) {
    struct two two = two_engines(64 * KIB);
    transfer_request_t one = request(OPCODE_WRITE, two.ours, two.segment, two.address, KIB);
    batch_id_t batch = allocateBatchID(two.from, 1);
    notify_msg_t notify = {(char *)"first", (char *)"by number"};
    notify_msg_t *taken;
    te_batch_status_t state;
    double until = now() + 10;
    int size = -1, total = 0;

    CHECK(!getNotifsFromEngine(two.to, &size));
    SAME(size, 0);
    GIVES(freeNotifsMsgBuf(NULL, 0), 0);
    GIVES(genNotifyInEngine(two.from, (uint64_t)two.segment, notify), 0);
    GIVES(genNotifyInEngine(two.from, 99, notify), -200);
    GIVES(genNotifyInEngine(two.from, UINT64_MAX, notify), -200);
    notify.name = (char *)"second";
    GIVES(te_send_notify(two.from, two.name, notify), 0);
    GIVES(te_send_notify(two.from, "127.0.0.1:1", notify) < -100, 1);
    GIVES(te_send_notify(two.from, NULL, notify), -1);
    notify.name = NULL;
    GIVES(te_send_notify(two.from, two.name, notify), -1);
    notify.name = (char *)"third";
    GIVES(submitTransferWithNotify(two.from, batch, &one, 1, notify), 0);
    GIVES(te_wait(two.from, batch, 10000, &state), 0);
    SAME(state.notify, TE_NOTIFY_DELIVERED);
    while (total < 3 && now() < until) {
        const char *names[] = {"first", "second", "third"};

        taken = getNotifsFromEngine(two.to, &size);
        for (int index = 0; index < size; index++, total++) {
            CHECK(total < 3);
            CHECK(!strcmp(taken[index].name, names[total]));
            CHECK(!strcmp(taken[index].msg, "by number"));
        }
        GIVES(freeNotifsMsgBuf(taken, size), 0);
        pause_ms(1);
    }
    SAME(total, 3);
    CHECK(!getNotifsFromEngine(two.to, NULL));
    REASON("size is a null pointer");
    /* A wrong size does no harm: the list knows its end. */
    notify.name = (char *)"fourth";
    GIVES(genNotifyInEngine(two.from, (uint64_t)two.segment, notify), 0);
    taken = getNotifsFromEngine(two.to, &size);
    SAME(size, 1);
    GIVES(freeNotifsMsgBuf(taken, -7), 0);
    GIVES(freeBatchID(two.from, batch), 0);
    end_both(&two);
}

static void a118_load_of_nics(void) {
    transfer_engine_t engine = engine_here();
    nic_load_stat_t stats[4];
    size_t count = 4;

    GIVES(getNicLoadStats(engine, stats, &count), 0);
    CHECK(count <= 4);
    GIVES(getNicLoadStats(engine, NULL, &count), -1);
    GIVES(getNicLoadStats(engine, stats, NULL), -1);
    destroyTransferEngine(engine);
}

static void a121_batches_are_asked_waited_for_and_called_back(void) {
    struct two two = two_engines(64 * KIB);
    transfer_request_t all[2];
    te_batch_status_t status;
    batch_id_t batch = allocateBatchID(two.from, 2);

    all[0] = request(OPCODE_WRITE, two.ours, two.segment, two.address, 4 * KIB);
    all[1] = request(OPCODE_WRITE, two.ours, two.segment, two.address + 60 * KIB, 8 * KIB);
    GIVES(submitTransfer(two.from, batch, all, 2), 0);
    GIVES(te_wait(two.from, batch, 10000, &status), 0);
    SAME(status.status, STATUS_FAILED);
    SAME(status.total, 2);
    SAME(status.completed, 1);
    SAME(status.failed, 1);
    SAME(status.quarantined, 0);
    SAME(status.bytes, 4 * KIB);
    GIVES(te_batch_status(two.from, batch, &status), 0);
    SAME(status.failed, 1);
    GIVES(te_batch_status(two.from, batch, NULL), -1);
    GIVES(te_batch_status(two.from, batch + 1, &status), -1);
    GIVES(te_wait(two.from, batch + 1, 0, NULL), -1);
    GIVES(te_wait(two.from, batch, UINT64_MAX, NULL), 0);
    GIVES(te_cancel(two.from, batch), 0); /* what is final stays */
    GIVES(te_batch_status(two.from, batch, &status), 0);
    SAME(status.completed, 1);
    GIVES(te_cancel(two.from, batch + 1), -1);
    GIVES(freeBatchID(two.from, batch), 0);
    GIVES(te_quarantined_bytes(two.from, &status.bytes), 0);
    SAME(status.bytes, 0);
    GIVES(te_quarantined_bytes(two.from, NULL), -1);
    GIVES(te_wait_quiescent(two.from, 10), 0);
    end_both(&two);
}

static void a121_scatter_tells_of_each_fragment(void) {
    struct two two = two_engines(64 * KIB);
    const uint64_t local[] = {0, 8192, 16384}, remote[] = {4096, 0, 60 * 1024};
    const uint64_t lengths[] = {1000, 2000, 8192};
    int32_t outcomes[] = {9, 9, 9, 9};
    te_scatter_range_t range = {0};

    fill(two.ours, 64 * KIB, 5);
    range.peer = two.name;
    range.remote_base = two.address;
    range.remote_length = two.size;
    range.local = two.ours;
    range.local_length = two.size;
    range.local_offsets = local;
    range.remote_offsets = remote;
    range.lengths = lengths;
    range.outcomes = outcomes;
    range.count = 2;
    range.opcode = OPCODE_WRITE;
    GIVES(te_scatter(two.from, &range, 1, 10000), 0);
    CHECK(outcomes[0] == 0 && outcomes[1] == 0 && outcomes[2] == 9);
    CHECK(!memcmp(two.theirs + 4096, two.ours, 1000));
    CHECK(!memcmp(two.theirs, two.ours + 8192, 2000));
    CHECK(two.theirs[2000] == 0 && two.theirs[4096 + 1000] == 0);
    /* The third leaves the range, and fails alone. */
    memset(two.theirs, 0, 64 * KIB);
    range.count = 3;
    GIVES(te_scatter(two.from, &range, 1, 10000), -1);
    CHECK(outcomes[0] == 0 && outcomes[1] == 0 && outcomes[2] == -1 && outcomes[3] == 9);
    CHECK(!memcmp(two.theirs, two.ours + 8192, 2000));
    range.outcomes = NULL;
    GIVES(te_scatter(two.from, &range, 1, 10000), -1);
    range.peer = NULL;
    GIVES(te_scatter(two.from, &range, 1, 10000), -1);
    REASON("range.peer");
    range.peer = two.name;
    range.lengths = NULL;
    GIVES(te_scatter(two.from, &range, 1, 10000), -1);
    range.lengths = lengths;
    range.count = SIZE_MAX;
    GIVES(te_scatter(two.from, &range, 1, 10000), -1);
    GIVES(te_scatter(two.from, NULL, 1, 10000), -1);
    GIVES(te_scatter(two.from, NULL, 0, 10000), 0);
    end_both(&two);
}

static void a121_probe_filters_and_sync_transfers(void) {
    struct two two = two_engines(64 * KIB);
    const char *filters[] = {"no_such_nic"}, *odd[] = {NULL};
    te_options_t options = {0};
    transfer_engine_t engine;
    uint64_t time = 0;

    GIVES(te_probe(two.from, two.name, &time), 0);
    CHECK(time > 0 && time < 2000000000);
    GIVES(te_probe(two.from, two.name, NULL), 0);
    GIVES(te_probe(two.from, "127.0.0.1:1", &time) < -100, 1);
    GIVES(te_probe(two.from, NULL, &time), -1);
    fill(two.ours, KIB, 6);
    GIVES(te_transfer_sync(two.from, two.name, two.ours, two.address, KIB, OPCODE_WRITE), 0);
    HOLDS(two.theirs, KIB, 6);
    GIVES(te_transfer_sync(two.from, two.name, two.ours, two.address, KIB, 2), -1);
    GIVES(te_transfer_sync(two.from, NULL, two.ours, two.address, KIB, 0), -1);
    GIVES(te_transfer_sync(two.from, two.name, two.ours, two.address + two.size, KIB, 0) < 0, 1);
    options.size = sizeof options;
    CHECK(!te_create(&options));
    REASON("options.name");
    options.name = "127.0.0.1";
    engine = te_create(&options);
    CHECK(engine);
    destroyTransferEngine(engine);
    /* A NIC that is not here is an error and no surprise, where NICs are wanted at all. */
    unsetenv("MC_FORCE_TCP");
    options.filters = filters;
    options.filter_count = 1;
    CHECK(!te_create(&options));
    REASON("no_such_nic");
    options.filters = odd;
    CHECK(!te_create(&options));
    REASON("options.filters");
    end_both(&two);
}

static void a121_an_end_in_good_order_is_reported(void) {
    struct two two = two_engines(64 * KIB);
    te_close_report_t report;
    transfer_request_t one = request(OPCODE_WRITE, two.ours, two.segment, two.address, KIB);
    batch_id_t batch = allocateBatchID(two.from, 1);

    GIVES(submitTransfer(two.from, batch, &one, 1), 0);
    GIVES(te_wait(two.from, batch, 10000, NULL), 0);
    GIVES(te_close(two.from, 5000, &report), 0);
    CHECK(report.open_tasks == 0 && report.kept_bytes == 0 && report.joined == 1);
    GIVES(te_close(two.from, 5000, NULL), 0);
    /* States can be asked for, new work is refused. */
    SAME(poll_task(two.from, batch, 0, 1).status, STATUS_COMPLETED);
    GIVES(openSegment(two.from, two.name), -1);
    REASON("closed");
    GIVES(registerLocalMemory(two.from, two.ours + 32 * KIB, KIB, "*", 1), -1);
    destroyTransferEngine(two.from);
    destroyTransferEngine(two.to);
}

static void the_last_error_belongs_to_its_thread_and_stays(void) {
    transfer_engine_t engine = engine_here();
    te_error_t error;
    char text[8];

    te_clear_error();
    GIVES(te_last_error(&error), 0);
    CHECK(error.code == 0 && error.text[0] == 0);
    SAME(te_last_error_text(NULL, 0), 0);
    GIVES(openSegment(engine, "127.0.0.1:1"), -1);
    GIVES(discoverTopology(engine), 0);
    GIVES(te_last_error(&error), 1);
    CHECK(!strcmp(error.peer, "127.0.0.1:1") && error.request == -1);
    CHECK(error.code < 0 && error.phase[0] && strchr(error.text, '\n') == NULL);
    SAME(te_last_error_text(text, sizeof text), strlen(error.text));
    CHECK(strlen(text) == 7 && !strncmp(text, error.text, 7));
    GIVES(te_last_error(NULL), 0);
    te_clear_error();
    GIVES(te_last_error(&error), 0);
    CHECK(te_version()[0] >= '0' && te_version()[0] <= '9');
    destroyTransferEngine(engine);
}

struct worker {
    struct two *two;
    unsigned seed;
    size_t place;
};

static void *move_many(void *argument) {
    struct worker *worker = (struct worker *)argument;
    struct two *two = worker->two;
    unsigned char *ours = two->ours + worker->place, *theirs = two->theirs + worker->place;

    for (unsigned round = 0; round < 100; round++) {
        unsigned seed = worker->seed + round * 16;

        fill(ours, 16 * KIB, seed);
        GIVES(te_transfer_sync(two->from, two->name, ours, two->address + worker->place, 16 * KIB,
                               OPCODE_WRITE),
              0);
        HOLDS(theirs, 16 * KIB, seed);
        GIVES(openSegment(two->from, "127.0.0.1:1"), -1);
        REASON("127.0.0.1:1");
    }
    return NULL;
}

static void many_threads_share_an_engine(void) {
    struct two two = two_engines(8 * 16 * KIB);
    pthread_t threads[8];
    struct worker workers[8];

    for (unsigned index = 0; index < 8; index++) {
        workers[index].two = &two;
        workers[index].seed = index;
        workers[index].place = index * 16 * KIB;
        pthread_create(&threads[index], NULL, move_many, &workers[index]);
    }
    for (int index = 0; index < 8; index++)
        pthread_join(threads[index], NULL);
    end_both(&two);
}

/* Any answer will do; it must come. */
static void *call_until_destroyed(void *argument) {
    struct two *two = (struct two *)argument;
    transfer_request_t one = request(OPCODE_WRITE, two->ours, two->segment, two->address, KIB);

    for (;;) {
        batch_id_t batch = allocateBatchID(two->from, 1);
        transfer_status_t status;

        if (batch == INVALID_BATCH) {
            te_error_t error;

            te_last_error(&error);
            if (strstr(error.text, "destroyed"))
                return NULL;
            continue;
        }
        if (submitTransfer(two->from, batch, &one, 1) == 0)
            te_wait(two->from, batch, 5000, NULL);
        getTransferStatus(two->from, batch, 0, &status);
        freeBatchID(two->from, batch);
    }
}

static void an_engine_is_destroyed_while_others_call_it(void) {
    for (int round = 0; round < 5; round++) {
        struct two two = two_engines(64 * KIB);
        pthread_t threads[4];

        for (int index = 0; index < 4; index++)
            pthread_create(&threads[index], NULL, call_until_destroyed, &two);
        pause_ms(20);
        destroyTransferEngine(two.from);
        for (int index = 0; index < 4; index++)
            pthread_join(threads[index], NULL);
        destroyTransferEngine(two.to);
    }
}

TESTS(TEST(a101_a102_engines_are_made_and_ended_many_times),
      TEST(a101_what_cannot_be_made_is_null_with_a_reason),
      TEST(null_handles_are_errors_of_every_call), TEST(foreign_handles_are_errors_of_every_call),
      TEST(stale_handles_are_errors_of_every_call),
      TEST(a103_a105_a119_a120_what_an_engine_says_of_itself),
      TEST(a104_the_address_is_copied_and_cut), TEST(a106_a107_a108_a109_a117_segments),
      TEST(a110_a111_registering_memory), TEST(a112_a113_a114_bytes_move_both_ways),
      TEST(a112_a113_what_cannot_be_taken_is_told_and_nothing_moves),
      TEST(fault28_local_memory_need_not_be_registered_but_mapped),
      TEST(fault28_threads_on_one_batch_are_told_of_their_own_tasks),
      TEST(a30_what_became_of_a_notification_is_told),
      TEST(a115_a116_a121_notifications_arrive_once_and_whole), TEST(a118_load_of_nics),
      TEST(a121_batches_are_asked_waited_for_and_called_back),
      TEST(a121_scatter_tells_of_each_fragment), TEST(a121_probe_filters_and_sync_transfers),
      TEST(a121_an_end_in_good_order_is_reported),
      TEST(the_last_error_belongs_to_its_thread_and_stays), TEST(many_threads_share_an_engine),
      TEST(an_engine_is_destroyed_while_others_call_it))
