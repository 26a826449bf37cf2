/* Two processes: one owns memory, the other writes into it and reads it back.
 *
 *   cc pair.c -o pair $(pkg-config --cflags --libs transfer_engine) && ./pair
 *
 * Usually the two run on two machines, and the owner tells the other its name and the address of its
 * memory by whatever means the program has; here it is a pipe. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "te_c.h"

#define SIZE ((size_t)16 << 20)

struct invitation {
    char name[256];
    uint64_t address;
};

/* Says why the last call failed, and gives up. */
static void give_up(const char *what) {
    te_error_t error;

    te_last_error(&error);
    fprintf(stderr, "%s: %s (phase %s, peer %s)\n", what, error.text, error.phase, error.peer);
    exit(1);
}

static transfer_engine_t start(void) {
    transfer_engine_t engine = createTransferEngine("P2PHANDSHAKE", "127.0.0.1", "", 0, 1);

    if (!engine)
        give_up("createTransferEngine");
    return engine;
}

/* Waits for a notification, which says that the bytes are in place. */
static void wait_for_notification(transfer_engine_t engine) {
    const struct timespec moment = {0, 1000000};

    for (;;) {
        int size = 0;
        notify_msg_t *messages = getNotifsFromEngine(engine, &size);

        for (int index = 0; index < size; index++)
            printf("owner: notified: %s, %s\n", messages[index].name, messages[index].msg);
        freeNotifsMsgBuf(messages, size);
        if (size > 0)
            return;
        nanosleep(&moment, NULL);
    }
}

static int owner(int invite) {
    transfer_engine_t engine = start();
    unsigned char *memory = calloc(1, SIZE);
    struct invitation invitation = {"", (uint64_t)(uintptr_t)memory};

    if (registerLocalMemory(engine, memory, SIZE, "*", 1))
        give_up("registerLocalMemory");
    if (getLocalIpAndPort(engine, invitation.name, sizeof invitation.name))
        give_up("getLocalIpAndPort");
    if (write(invite, &invitation, sizeof invitation) != sizeof invitation)
        return 1;
    wait_for_notification(engine);
    for (size_t place = 0; place < SIZE; place++)
        if (memory[place] != (unsigned char)(place * 7))
            return 1;
    if (unregisterLocalMemory(engine, memory))
        give_up("unregisterLocalMemory");
    destroyTransferEngine(engine);
    free(memory);
    return 0;
}

static void transfer(transfer_engine_t engine, transfer_request_t request, notify_msg_t *notify) {
    batch_id_t batch = allocateBatchID(engine, 1);
    te_batch_status_t status;
    te_error_t fault;
    int refused;

    if (batch == INVALID_BATCH)
        give_up("allocateBatchID");
    refused = notify ? submitTransferWithNotify(engine, batch, &request, 1, *notify)
                     : submitTransfer(engine, batch, &request, 1);
    if (refused)
        give_up("submitTransfer");
    if (te_wait(engine, batch, 30000, &status))
        give_up("te_wait");
    if (te_task_fault(engine, batch, 0, &fault) == 1) {
        fprintf(stderr, "the transfer failed: %s\n", fault.text);
        exit(1);
    }
    if (freeBatchID(engine, batch))
        give_up("freeBatchID");
}

static int writer(int invited) {
    transfer_engine_t engine = start();
    unsigned char *memory = calloc(2, SIZE);
    struct invitation to;
    notify_msg_t done = {"written", "16 MiB"};
    transfer_request_t request = {OPCODE_WRITE, memory, 0, 0, SIZE};

    if (read(invited, &to, sizeof to) != sizeof to)
        return 1;
    for (size_t place = 0; place < SIZE; place++)
        memory[place] = (unsigned char)(place * 7);
    if (registerLocalMemory(engine, memory, 2 * SIZE, "*", 1))
        give_up("registerLocalMemory");
    request.target_id = openSegment(engine, to.name);
    if (request.target_id < 0)
        give_up("openSegment");
    request.target_offset = to.address;
    transfer(engine, request, NULL);
    /* Back again, to another place. */
    request.opcode = OPCODE_READ;
    request.source = memory + SIZE;
    transfer(engine, request, NULL);
    if (memcmp(memory, memory + SIZE, SIZE) != 0)
        return 1;
    request.opcode = OPCODE_WRITE;
    request.source = memory;
    transfer(engine, request, &done);
    if (unregisterLocalMemory(engine, memory))
        give_up("unregisterLocalMemory");
    destroyTransferEngine(engine);
    free(memory);
    return 0;
}

int main(void) {
    int invitation[2], ended;
    pid_t child;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (pipe(invitation))
        return 1;
    child = fork(); /* before either has an engine */
    if (child == 0)
        return owner(invitation[1]);
    if (writer(invitation[0]))
        return 1;
    if (waitpid(child, &ended, 0) != child || ended != 0)
        return 1;
    printf("ok: 16 MiB went there and came back, library %s\n", te_version());
    return 0;
}
