/* Two processes: bytes, peers that are stopped, killed and forked, and memory that is held. What a final
 * state promises is looked at in the memory of both. */
#include "kit.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#define KIB ((size_t)1024)
#define MIB ((size_t)1024 * 1024)

/* An engine beside a peer, with memory that is registered. */
struct mine {
    transfer_engine_t engine;
    unsigned char *at;
    segment_id_t segment;
};

static struct mine mine_beside(struct peer *peer, size_t size) {
    struct mine mine;

    mine.engine = engine_here();
    mine.at = memory(size);
    GIVES(registerLocalMemory(mine.engine, mine.at, size, "*", 1), 0);
    mine.segment = openSegment(mine.engine, peer->name);
    if (mine.segment <= 0)
        GIVES(mine.segment, 1);
    return mine;
}

static batch_id_t submit(struct mine *mine, transfer_request_t one) {
    batch_id_t batch = allocateBatchID(mine->engine, 1);

    GIVES(submitTransfer(mine->engine, batch, &one, 1), 0);
    return batch;
}

static void only_tcp(void) {
    setenv("MC_FORCE_TCP", "1", 1);
}

static void within(const char *what, double begun, double seconds) {
    double took = now() - begun;

    if (took > seconds)
        FAIL("%s took %.3f s and not %.3f s", what, took, seconds);
    printf("%s: %.3f s\n", what, took);
}

static void move_sizes(void) {
    const size_t sizes[] = {0, 1, 4095, 4096, 1000003, 16 * MIB, 64 * MIB};
    const size_t room = 64 * MIB + 4096;
    struct peer peer = peer_start(room, 1);
    struct mine mine = mine_beside(&peer, room);

    for (unsigned index = 0; index < sizeof sizes / sizeof sizes[0]; index++) {
        size_t size = sizes[index];
        batch_id_t batch;

        fill(mine.at, size, 10 + index);
        batch = submit(&mine, request(OPCODE_WRITE, mine.at, mine.segment, peer.address, size));
        SAME(poll_task(mine.engine, batch, 0, 60).status, STATUS_COMPLETED);
        SAME(peer_order(&peer, 'd', 0, size, 10 + index), size);
        GIVES(freeBatchID(mine.engine, batch), 0);

        peer_order(&peer, 'f', 0, size, 20 + index);
        batch = submit(&mine, request(OPCODE_READ, mine.at, mine.segment, peer.address, size));
        SAME(poll_task(mine.engine, batch, 0, 60).status, STATUS_COMPLETED);
        HOLDS(mine.at, size, 20 + index);
        GIVES(freeBatchID(mine.engine, batch), 0);
    }
    destroyTransferEngine(mine.engine);
    peer_quit(&peer);
}

static void a113_bytes_move_between_processes(void) {
    move_sizes();
}

static void a113_bytes_move_between_processes_over_tcp(void) {
    only_tcp();
    move_sizes();
}

/* The peer looks the moment that the state is read. */
static void completed_means_that_the_bytes_are_there(void) {
    const size_t size = 256 * KIB;
    struct peer peer = peer_start(size, 1);
    struct mine mine = mine_beside(&peer, size);

    for (unsigned round = 0; round < 200; round++) {
        transfer_status_t status = {0, 0};
        batch_id_t batch;

        fill(mine.at, size, 100 + round);
        batch = submit(&mine, request(OPCODE_WRITE, mine.at, mine.segment, peer.address, size));
        while (!is_final(status.status))
            GIVES(getTransferStatus(mine.engine, batch, 0, &status), 0);
        SAME(status.status, STATUS_COMPLETED);
        SAME(status.transferred_bytes, size);
        SAME(peer_order(&peer, 'd', 0, size, 100 + round), size);
        GIVES(freeBatchID(mine.engine, batch), 0);
    }
    destroyTransferEngine(mine.engine);
    peer_quit(&peer);
}

static void a115_a116_notifications_follow_the_bytes_to_another_process(void) {
    struct peer peer = peer_start(64 * KIB, 1);
    struct mine mine = mine_beside(&peer, 64 * KIB);
    notify_msg_t notify = {(char *)"kit", (char *)"done"};
    transfer_request_t one =
        request(OPCODE_WRITE, mine.at, mine.segment, peer.address, 64 * KIB);
    batch_id_t batch = allocateBatchID(mine.engine, 1);

    fill(mine.at, 64 * KIB, 5);
    GIVES(submitTransferWithNotify(mine.engine, batch, &one, 1, notify), 0);
    GIVES(te_wait(mine.engine, batch, 10000, NULL), 0);
    SAME(peer_order(&peer, 'n', 0, 0, 0), 1);
    SAME(peer_order(&peer, 'd', 0, 64 * KIB, 5), 64 * KIB);
    SAME(peer_order(&peer, 'n', 0, 0, 0), 0);
    destroyTransferEngine(mine.engine);
    peer_quit(&peer);
}

/* A read from a peer that is stopped is called back: from then on the memory is the caller's. */
static void a_task_that_ended_badly_leaves_local_memory_alone(void) {
    const size_t size = 16 * MIB;
    struct peer peer;
    struct mine mine;
    te_error_t fault;
    batch_id_t batch;
    double begun;

    only_tcp();
    peer = peer_start(size, 1);
    mine = mine_beside(&peer, size);
    for (int round = 0; round < 4; round++) {
        batch = submit(&mine, request(OPCODE_READ, mine.at, mine.segment, peer.address, size));
        pause_ms(round); /* in the middle, or before it */
        peer_stop(&peer);
        begun = now();
        GIVES(te_cancel(mine.engine, batch), 0);
        GIVES(te_wait(mine.engine, batch, 5000, NULL), 0);
        within("calling back", begun, 2);
        fill(mine.at, size, 7);
        if (te_task_fault(mine.engine, batch, 0, &fault) == 1) {
            SAME(fault.local_state, TE_LOCAL_FREE);
            CHECK(!strcmp(fault.peer, peer.name) && fault.text[0]);
        }
        peer_continue(&peer);
        pause_ms(100);
        HOLDS(mine.at, size, 7);
        GIVES(freeBatchID(mine.engine, batch), 0);
    }
    GIVES(unregisterLocalMemory(mine.engine, mine.at), 0);
    destroyTransferEngine(mine.engine);
    peer_quit(&peer);
}

/* Memory of an open task cannot be unregistered: -4, in time; later it can. */
static void memory_in_use_is_busy_and_later_free(void) {
    struct peer peer;
    struct mine mine;
    batch_id_t batch;
    te_error_t error;
    double begun;

    only_tcp();
    setenv("TE_ENGINE_UNREGISTER_TIMEOUT_MS", "300", 1);
    peer = peer_start(MIB, 1);
    mine = mine_beside(&peer, MIB);
    peer_stop(&peer);
    batch = submit(&mine, request(OPCODE_READ, mine.at, mine.segment, peer.address, MIB));
    begun = now();
    GIVES(te_wait(mine.engine, batch, 100, NULL), TE_ERR_CLOCK);
    within("a wait of 0.1 s", begun, 1);
    GIVES(te_last_error(&error), 1);
    SAME(error.local_state, TE_LOCAL_IN_USE);
    CHECK(error.flags & TE_ERROR_TIMEOUT);
    GIVES(freeBatchID(mine.engine, batch), 4);
    begun = now();
    GIVES(unregisterLocalMemory(mine.engine, mine.at), TE_ERR_BATCH_BUSY);
    within("unregistering what is busy", begun, 2);
    GIVES(te_cancel(mine.engine, batch), 0);
    GIVES(te_wait(mine.engine, batch, 5000, NULL), 0);
    GIVES(unregisterLocalMemory(mine.engine, mine.at), 0);
    peer_continue(&peer);
    destroyTransferEngine(mine.engine);
    peer_quit(&peer);
}

static int page_faults(unsigned char *at, size_t size) {
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

    if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
        skip("cannot be had here: userfaultfd, with which a page can be kept from coming");
    range.range.start = (uint64_t)(uintptr_t)at;
    range.range.len = size;
    if (ioctl(fd, UFFDIO_REGISTER, &range))
        FAIL("userfaultfd: %s", strerror(errno));
    return fd;
}

/* Pages of a read's destination do not come: the transport is held in the kernel, in the middle of
 * writing there. The task ends all the same, by its limit; its memory is in quarantine and unregisters
 * as busy, until the pages come and the transport lets go. */
static void a54_quarantined_memory_is_busy_until_it_is_given_back(void) {
    const size_t size = MIB;
    struct uffdio_zeropage pages = {.mode = 0};
    struct peer peer;
    struct mine mine;
    te_batch_status_t status;
    te_error_t fault;
    uint64_t bytes = 0;
    batch_id_t batch;
    double begun;
    int fd;

    only_tcp();
    setenv("TE_ENGINE_UNREGISTER_TIMEOUT_MS", "300", 1);
    setenv("TE_ENGINE_QUARANTINE_AFTER_MS", "300", 1);
    peer = peer_start(size, 1);
    mine = mine_beside(&peer, 64 * KIB);
    unsigned char *at = memory(size);
    GIVES(registerLocalMemory(mine.engine, at, size, "*", 1), 0);
    /* Whatever registering touched is missing again. */
    madvise(at, size, MADV_DONTNEED);
    fd = page_faults(at, size);
    batch = submit(&mine, request(OPCODE_READ, at, mine.segment, peer.address, size));
    pause_ms(200);
    begun = now();
    GIVES(te_cancel(mine.engine, batch), 0);
    GIVES(te_wait(mine.engine, batch, 10000, &status), 0);
    within("the end of a task whose memory is held", begun, 3);
    SAME(status.status, STATUS_FAILED);
    SAME(status.quarantined, 1);
    GIVES(te_task_fault(mine.engine, batch, 0, &fault), 1);
    SAME(fault.local_state, TE_LOCAL_QUARANTINED);
    GIVES(te_quarantined_bytes(mine.engine, &bytes), 0);
    SAME(bytes, size);
    GIVES(te_wait_quiescent(mine.engine, 100), TE_ERR_CLOCK);
    begun = now();
    GIVES(unregisterLocalMemory(mine.engine, at), TE_ERR_BATCH_BUSY);
    within("unregistering what is in quarantine", begun, 2);
    pages.range.start = (uint64_t)(uintptr_t)at;
    pages.range.len = size;
    if (ioctl(fd, UFFDIO_ZEROPAGE, &pages))
        FAIL("userfaultfd: %s", strerror(errno));
    GIVES(te_wait_quiescent(mine.engine, 10000), 0);
    GIVES(te_quarantined_bytes(mine.engine, &bytes), 0);
    SAME(bytes, 0);
    GIVES(unregisterLocalMemory(mine.engine, at), 0);
    fill(at, size, 7);
    pause_ms(100);
    HOLDS(at, size, 7);
    GIVES(freeBatchID(mine.engine, batch), 0);
    destroyTransferEngine(mine.engine);
    close(fd);
    peer_quit(&peer);
}

/* A83: fragments of a peer that is stopped, where calling back takes longer than the end of an engine
 * may. The call ends when the memory is free, or in quarantine and says so. */
static void a83_scattered_memory_is_what_the_call_says(void) {
    const size_t size = 64 * MIB;
    const uint64_t offset = 0, length = size;
    struct peer peer;
    struct mine mine;
    te_scatter_range_t range = {0};
    te_error_t error;
    uint64_t bytes = 0;
    int32_t outcome = 0;
    int unregistered;

    only_tcp();
    setenv("TE_ENGINE_SHUTDOWN_TIMEOUT_MS", "10", 1);
    setenv("TE_ENGINE_UNREGISTER_TIMEOUT_MS", "10", 1);
    peer = peer_start(size, 1);
    mine = mine_beside(&peer, size);
    GIVES(te_transfer_sync(mine.engine, peer.name, mine.at, peer.address, KIB, OPCODE_READ), 0);
    peer_stop(&peer);
    range.peer = peer.name;
    range.remote_base = peer.address;
    range.remote_length = range.local_length = size;
    range.local = mine.at;
    range.local_offsets = range.remote_offsets = &offset;
    range.lengths = &length;
    range.outcomes = &outcome;
    range.count = 1;
    range.opcode = OPCODE_READ;
    GIVES(te_scatter(mine.engine, &range, 1, 200) < 0, 1);
    GIVES(te_last_error(&error), 1);
    GIVES(te_quarantined_bytes(mine.engine, &bytes), 0);
    unregistered = unregisterLocalMemory(mine.engine, mine.at);
    CHECK(outcome < 0 && error.local_state != TE_LOCAL_IN_USE);
    SAME(bytes, error.local_state == TE_LOCAL_FREE ? 0 : size);
    SAME(unregistered, error.local_state == TE_LOCAL_FREE ? 0 : TE_ERR_BATCH_BUSY);
    peer_continue(&peer);
    destroyTransferEngine(mine.engine);
    peer_quit(&peer);
}

/* Kills the peer with many requests under way: each ends, at once, and says why. */
static void killed(int opcode) {
    const size_t size = 128 * MIB, n = 64, piece = 2 * MIB;
    struct peer peer = peer_start(size, 1);
    struct mine mine = mine_beside(&peer, size);
    transfer_request_t all[64];
    batch_id_t batch = allocateBatchID(mine.engine, n);
    te_batch_status_t status;
    te_error_t fault;
    double begun;

    for (size_t index = 0; index < n; index++)
        all[index] = request(opcode, mine.at + index * piece, mine.segment,
                             peer.address + index * piece, piece);
    GIVES(submitTransfer(mine.engine, batch, all, n), 0);
    peer_kill(&peer);
    begun = now();
    GIVES(te_wait(mine.engine, batch, 20000, &status), 0);
    within("the end of all tasks after a death", begun, 10);
    SAME(status.total, n);
    SAME(status.completed + status.failed, n);
    SAME(status.quarantined, 0);
    fill(mine.at, size, 7);
    for (size_t index = 0; index < n; index++) {
        transfer_status_t task;

        GIVES(getTransferStatus(mine.engine, batch, index, &task), 0);
        CHECK(is_final(task.status));
        if (te_task_fault(mine.engine, batch, index, &fault) == 1) {
            CHECK(task.status != STATUS_COMPLETED);
            SAME(fault.request, index);
            CHECK(fault.phase[0] && !strcmp(fault.peer, peer.name));
            CHECK(strstr(fault.text, fault.phase) && strlen(fault.text) > 20);
        } else {
            SAME(task.status, STATUS_COMPLETED);
        }
    }
    GIVES(freeBatchID(mine.engine, batch), 0);
    begun = now();
    CHECK(te_transfer_sync(mine.engine, peer.name, mine.at, peer.address, KIB, opcode) < 0);
    within("the next transfer", begun, 5);
    REASON(peer.name);
    begun = now();
    CHECK(te_probe(mine.engine, peer.name, NULL) < 0);
    within("asking after it", begun, 3);
    pause_ms(50);
    HOLDS(mine.at, size, 7);
    GIVES(unregisterLocalMemory(mine.engine, mine.at), 0);
    destroyTransferEngine(mine.engine);
}

static void fault09_a_target_killed_in_a_read_ends_every_task(void) {
    killed(OPCODE_READ);
}

static void fault09_a_target_killed_in_a_write_ends_every_task(void) {
    killed(OPCODE_WRITE);
}

static void fault09_a_target_killed_in_a_read_over_tcp_ends_every_task(void) {
    only_tcp();
    killed(OPCODE_READ);
}

static void fault09_a_target_killed_in_a_write_over_tcp_ends_every_task(void) {
    only_tcp();
    killed(OPCODE_WRITE);
}

/* A peer that answers nothing: each call that may wait for it ends in time. */
static void every_wait_for_a_stopped_peer_is_bounded(void) {
    struct peer peer, other;
    struct mine mine;
    te_close_report_t report;
    batch_id_t batch;
    double begun;

    only_tcp();
    setenv("MC_TRANSFER_TIMEOUT", "5", 1);
    setenv("TE_PEER_EXCHANGE_TIMEOUT_SECONDS", "3", 1);
    peer = peer_start(MIB, 1);
    other = peer_start(MIB, 1);
    mine = mine_beside(&peer, MIB);
    peer_stop(&peer);
    peer_stop(&other);
    begun = now();
    CHECK(te_probe(mine.engine, peer.name, NULL) < 0);
    within("te_probe", begun, 4);
    begun = now();
    GIVES(te_transfer_sync(mine.engine, peer.name, mine.at, peer.address, MIB, OPCODE_READ) < 0, 1);
    within("te_transfer_sync", begun, 12);
    fill(mine.at, MIB, 7);
    begun = now();
    GIVES(openSegment(mine.engine, other.name), -1);
    within("openSegment", begun, 8);
    REASON(other.name);
    batch = submit(&mine, request(OPCODE_WRITE, mine.at, mine.segment, peer.address, MIB));
    begun = now();
    GIVES(te_close(mine.engine, 3000, &report), 0);
    within("te_close", begun, 5);
    SAME(report.open_tasks, 0);
    SAME(report.joined, 1);
    CHECK(is_final(poll_task(mine.engine, batch, 0, 0).status));
    begun = now();
    destroyTransferEngine(mine.engine);
    within("destroyTransferEngine", begun, 8);
    peer_continue(&peer);
    peer_continue(&other);
    pause_ms(100);
    HOLDS(mine.at, MIB, 7);
    peer_quit(&peer);
    peer_quit(&other);
}

static void an_engine_is_destroyed_with_tasks_under_way(void) {
    struct peer peer;
    struct mine mine;
    double begun;

    only_tcp();
    peer = peer_start(64 * MIB, 1);
    mine = mine_beside(&peer, 64 * MIB);
    submit(&mine, request(OPCODE_READ, mine.at, mine.segment, peer.address, 64 * MIB));
    peer_stop(&peer);
    begun = now();
    destroyTransferEngine(mine.engine);
    within("destroying", begun, 8);
    fill(mine.at, 64 * MIB, 7);
    peer_continue(&peer);
    pause_ms(100);
    HOLDS(mine.at, 64 * MIB, 7);
    munmap(mine.at, 64 * MIB);
    peer_quit(&peer);
}

/* FB52: in a forked child each call on the parent's engine is an error at once; the child makes an engine
 * of its own; the parent's goes on. */
static void in_a_child(struct mine *mine, struct peer *peer) {
    unsigned char *at = memory(64 * KIB);
    te_error_t error;
    transfer_status_t status;
    transfer_engine_t engine;
    segment_id_t segment;
    transfer_request_t one;
    batch_id_t batch;

    alarm(30);
    GIVES(openSegment(mine->engine, peer->name), -1);
    REASON("forked");
    GIVES(te_last_error(&error), 1);
    CHECK(!strcmp(error.phase, "fork"));
    CHECK(allocateBatchID(mine->engine, 1) == INVALID_BATCH);
    GIVES(getTransferStatus(mine->engine, 1, 0, &status), 1);
    GIVES(unregisterLocalMemory(mine->engine, mine->at), -1);
    GIVES(te_transfer_sync(mine->engine, peer->name, at, peer->address, KIB, OPCODE_WRITE), -1);
    destroyTransferEngine(mine->engine);
    REASON("forked");
    engine = engine_here();
    GIVES(registerLocalMemory(engine, at, 64 * KIB, "*", 1), 0);
    segment = openSegment(engine, peer->name);
    CHECK(segment > 0);
    fill(at, 64 * KIB, 8);
    one = request(OPCODE_WRITE, at, segment, peer->address, 64 * KIB);
    batch = allocateBatchID(engine, 1);
    GIVES(submitTransfer(engine, batch, &one, 1), 0);
    SAME(poll_task(engine, batch, 0, 10).status, STATUS_COMPLETED);
    GIVES(openSegment(mine->engine, peer->name), -1);
    REASON("forked");
    destroyTransferEngine(engine);
    exit(0);
}

static void fb52_a_forked_child_is_told_and_makes_its_own(void) {
    struct peer peer = peer_start(64 * KIB, 1);
    struct mine mine = mine_beside(&peer, 64 * KIB);

    for (int round = 0; round < 3; round++) {
        int ended;
        pid_t child;

        fflush(stdout);
        child = fork();
        if (child == 0)
            in_a_child(&mine, &peer);
        waitpid(child, &ended, 0);
        if (!WIFEXITED(ended) || WEXITSTATUS(ended))
            FAIL("the child ended with %#x", (unsigned)ended);
        SAME(peer_order(&peer, 'd', 0, 64 * KIB, 8), 64 * KIB);
        fill(mine.at, 64 * KIB, 9);
        GIVES(te_transfer_sync(mine.engine, peer.name, mine.at, peer.address, 64 * KIB,
                               OPCODE_WRITE),
              0);
        SAME(peer_order(&peer, 'd', 0, 64 * KIB, 9), 64 * KIB);
    }
    destroyTransferEngine(mine.engine);
    peer_quit(&peer);
}

/* I40: SIGTERM ends the engines in good order, and then the process, with the code that shells give. */
static void a119_graceful_shutdown_ends_the_process_in_good_order(void) {
    int ready[2], ended;
    char byte;
    pid_t child;
    double begun;

    CHECK(!pipe(ready));
    child = fork();
    if (child == 0) {
        struct peer peer = peer_start(KIB, 1);
        struct mine mine = mine_beside(&peer, KIB);

        enableGracefulShutdown(mine.engine);
        write_all(ready[1], "x", 1);
        for (;;)
            pause();
    }
    read_all(ready[0], &byte, 1);
    begun = now();
    kill(child, SIGTERM);
    waitpid(child, &ended, 0);
    within("ending", begun, 10);
    if (!WIFEXITED(ended) || WEXITSTATUS(ended) != 128 + SIGTERM)
        FAIL("the process ended with %#x", (unsigned)ended);
}

/* A program that ends with an engine that it forgot, and a task under way, ends as it says. */
static void a_process_may_end_with_engines_alive(void) {
    for (int way = 0; way < 2; way++) {
        int ended;
        pid_t child = fork();

        if (child == 0) {
            struct peer peer = peer_start(16 * MIB, 1);
            struct mine mine = mine_beside(&peer, 16 * MIB);

            submit(&mine, request(OPCODE_READ, mine.at, mine.segment, peer.address, 16 * MIB));
            if (way == 0)
                exit(40);
            _exit(40);
        }
        waitpid(child, &ended, 0);
        if (!WIFEXITED(ended) || WEXITSTATUS(ended) != 40)
            FAIL("the process ended with %#x", (unsigned)ended);
    }
}

TESTS(TEST(a113_bytes_move_between_processes), TEST(a113_bytes_move_between_processes_over_tcp),
      TEST(completed_means_that_the_bytes_are_there),
      TEST(a115_a116_notifications_follow_the_bytes_to_another_process),
      TEST(a_task_that_ended_badly_leaves_local_memory_alone),
      TEST(memory_in_use_is_busy_and_later_free),
      TEST(a54_quarantined_memory_is_busy_until_it_is_given_back),
      TEST(a83_scattered_memory_is_what_the_call_says),
      TEST(fault09_a_target_killed_in_a_read_ends_every_task),
      TEST(fault09_a_target_killed_in_a_write_ends_every_task),
      TEST(fault09_a_target_killed_in_a_read_over_tcp_ends_every_task),
      TEST(fault09_a_target_killed_in_a_write_over_tcp_ends_every_task),
      TEST(every_wait_for_a_stopped_peer_is_bounded),
      TEST(an_engine_is_destroyed_with_tasks_under_way),
      TEST(fb52_a_forked_child_is_told_and_makes_its_own),
      TEST(a119_graceful_shutdown_ends_the_process_in_good_order),
      TEST(a_process_may_end_with_engines_alive))
