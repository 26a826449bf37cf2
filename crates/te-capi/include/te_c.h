/* What the transfer engine offers to C beyond the calls of Mooncake's library: why a call failed, the
 * state of whole batches, waits with a limit, cancelling, scatter, probes, filters, and an orderly end.
 *
 * Every int is 0 where the call did what it says, else one of the TE_ERR_ numbers. What
 * transfer_engine_c.h says of handles, pointers, threads and memory holds here too. Times are in
 * milliseconds; 0 looks once and does not wait, and what is longer than ten years counts as that.
 *
 * Structs that the caller makes begin with their own size, so that a later library knows an earlier
 * caller. */
#ifndef TE_C_H
#define TE_C_H

#include "transfer_engine_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Answers of calls that give an int. */
#define TE_OK (0)
#define TE_ERR_INVALID_ARGUMENT (-1) /* also: no such engine, and what has no number of its own */
#define TE_ERR_TOO_MANY_REQUESTS (-2)
#define TE_ERR_ADDRESS_NOT_REGISTERED (-3)
#define TE_ERR_BATCH_BUSY (-4) /* also: memory is in use */
#define TE_ERR_DEVICE_NOT_FOUND (-6)
#define TE_ERR_ADDRESS_OVERLAPPED (-7)
#define TE_ERR_DNS (-101)
#define TE_ERR_SOCKET (-102)
#define TE_ERR_MALFORMED_JSON (-103)
#define TE_ERR_REJECT_HANDSHAKE (-104)
#define TE_ERR_METADATA (-200)
#define TE_ERR_ENDPOINT (-201)
#define TE_ERR_CONTEXT (-202)
#define TE_ERR_NUMA (-300)
#define TE_ERR_CLOCK (-301) /* the time is up */
#define TE_ERR_MEMORY (-302)
#define TE_ERR_NOT_IMPLEMENTED (-303)

/* The version of the library, "0.1.0"; never NULL, never freed. */
const char *te_version(void);

/* ---- why a call failed */

/* What is known of the peer's memory. */
#define TE_REMOTE_NONE (0)      /* no transfer was begun */
#define TE_REMOTE_UNTOUCHED (1) /* nothing reached it */
#define TE_REMOTE_SETTLED (2)   /* nothing more will change */
#define TE_REMOTE_IN_DOUBT (3)  /* bytes that were sent may still land */

/* What is known of the local memory. */
#define TE_LOCAL_FREE (0)
#define TE_LOCAL_IN_USE (1)     /* the task goes on */
#define TE_LOCAL_QUARANTINED (2) /* the task ended, a transport still holds the memory */

/* Bits of te_error_t.flags. */
#define TE_ERROR_RETRYABLE (1u) /* the same call may succeed later */
#define TE_ERROR_TIMEOUT (2u)   /* it is a time that ran out */

/* Texts end with a NUL; longer ones are cut. */
typedef struct te_error {
    int32_t code;        /* TE_ERR_ */
    int32_t remote_side; /* TE_REMOTE_ */
    int32_t local_state; /* TE_LOCAL_ */
    uint32_t flags;      /* TE_ERROR_ */
    int64_t request;     /* position in its call or batch, from 0; -1 for none */
    uint32_t attempts;   /* how often it was tried; 0 where that means nothing */
    uint32_t reserved;   /* 0 */
    /* What was being done: "build", "register", "unregister", "open", "submit", "batch", "wait",
     * "notify", "probe", "memory", "handle", "fork", "panic", or how far a transfer had come: "queue",
     * "metadata", "connect", "handshake", "request", "payload", "status". */
    char phase[32];
    char peer[256];      /* name of the peer; empty for none */
    char transport[32];  /* "tcp"; empty for none */
    char text[1024];     /* one line: what failed, and the chain of causes */
} te_error_t;

/* The last call of this thread that failed. A call that succeeds does not change it. 1 where there was
 * one, 0 where not; *error is then all zeros. */
int te_last_error(te_error_t *error);

/* Its text into buf, with a NUL, cut where it does not fit; gives the length of the whole text without
 * the NUL. buf may be NULL where buf_len is 0. */
size_t te_last_error_text(char *buf, size_t buf_len);

/* Forgets it. */
void te_clear_error(void);

/* ---- the engine */

typedef struct te_options {
    size_t size;                /* sizeof(te_options_t) */
    const char *metadata;       /* as for createTransferEngine; NULL is "P2PHANDSHAKE" */
    const char *name;           /* likewise; must be given */
    const char *const *filters; /* names of the only NICs to use; NULL for all */
    size_t filter_count;
    int32_t auto_discover; /* as for createTransferEngine */
    int32_t reserved;      /* 0 */
} te_options_t;

/* createTransferEngine with filters. */
transfer_engine_t te_create(const te_options_t *options);

typedef struct te_close_report {
    uint64_t open_tasks; /* not final although the time was up; 0 after an orderly end */
    uint64_t kept_bytes; /* memory that a transport never gave back; it stays mapped for good */
    int32_t joined;      /* 1 where every thread of the engine has ended */
    int32_t reserved;    /* 0 */
} te_close_report_t;

/* Closes the engine within timeout_ms: new work is refused, every task ended. report may be NULL. The
 * handle stays until destroyTransferEngine; states of tasks can still be asked for. */
int te_close(transfer_engine_t engine, uint64_t timeout_ms, te_close_report_t *report);

/* Which NICs may serve which memory, as JSON text, into buf with a NUL, cut where it does not fit;
 * *length, which may be NULL, becomes the length of the whole text without the NUL. */
int te_local_topology(transfer_engine_t engine, char *buf, size_t buf_len, size_t *length);

/* ---- memory */

/* 1 where the range shares a byte with registered memory, 0 where not; an error is negative. */
int te_check_overlap(transfer_engine_t engine, const void *addr, size_t length);

/* Bytes of local memory whose tasks have ended while a transport still holds them. */
int te_quarantined_bytes(transfer_engine_t engine, uint64_t *bytes);

/* Waits until there are none; TE_ERR_CLOCK where there are some when the time is up. */
int te_wait_quiescent(transfer_engine_t engine, uint64_t timeout_ms);

/* The address at which the first buffer of a peer begins, whose segment is opened on first use;
 * TE_ERR_ADDRESS_NOT_REGISTERED where it has none. */
int te_first_buffer_address(transfer_engine_t engine, const char *peer, uint64_t *address);

/* ---- batches */

/* What became of the notification that submitTransferWithNotify was given. It changes nothing about the
 * bytes: a batch of which all tasks completed has completed. */
#define TE_NOTIFY_NONE (0)      /* none was asked for, or not every task has completed */
#define TE_NOTIFY_SENDING (1)   /* the batch is final when this has ended */
#define TE_NOTIFY_DELIVERED (2) /* the peer took it */
#define TE_NOTIFY_FULL (3)      /* the peer had no room for it, and may have later */
#define TE_NOTIFY_FAILED (4)    /* the peer did not take it, as far as is known */

typedef struct te_batch_status {
    int32_t status;       /* STATUS_WAITING until all is final, then STATUS_COMPLETED or STATUS_FAILED */
    int32_t notify;       /* TE_NOTIFY_ */
    uint64_t total;       /* tasks submitted so far */
    uint64_t completed;   /* of these */
    uint64_t failed;      /* ended otherwise */
    uint64_t quarantined; /* of the failed ones: their local memory is still held */
    uint64_t bytes;       /* in place, of all tasks */
} te_batch_status_t;

/* State of a batch. *status is written only where the answer is 0. */
int te_batch_status(transfer_engine_t engine, batch_id_t batch_id, te_batch_status_t *status);

/* Waits until a batch is final. TE_ERR_CLOCK where it is not when the time is up: it goes on, and
 * *status, which may be NULL, is its state now. How its tasks ended is no error of this call. */
int te_wait(transfer_engine_t engine, batch_id_t batch_id, uint64_t timeout_ms,
            te_batch_status_t *status);

/* Why a task did not complete: 1 and the fault, or 0 where it completed or is open; an error of the call
 * is negative. Faults of tasks are told here and not by te_last_error. */
int te_task_fault(transfer_engine_t engine, batch_id_t batch_id, size_t task_id, te_error_t *fault);

/* Calls a batch back: its open tasks become STATUS_CANCELED once their local memory is free. Does not
 * wait for that. */
int te_cancel(transfer_engine_t engine, batch_id_t batch_id);

/* ---- transfers that wait */

/* Moves length bytes between local memory and an address of the peer, whose segment is opened on first
 * use. Waits at most the engine's transfer timeout. Where it fails the local memory is free, or
 * te_last_error says that it is not. */
int te_transfer_sync(transfer_engine_t engine, const char *peer, void *local, uint64_t peer_address,
                     size_t length, int opcode);

/* Fragments between one local buffer and one range of a peer: fragment i moves lengths[i] bytes between
 * local + local_offsets[i] and remote_base + remote_offsets[i]. */
typedef struct te_scatter_range {
    const char *peer;
    uint64_t remote_base;
    uint64_t remote_length; /* bytes; no fragment may leave them */
    void *local;
    uint64_t local_length; /* likewise */
    const uint64_t *local_offsets;
    const uint64_t *remote_offsets;
    const uint64_t *lengths;
    int32_t *outcomes; /* NULL, or count places: 0, or TE_ERR_ of the fragment */
    size_t count;
    int32_t opcode;
    int32_t reserved; /* 0 */
} te_scatter_range_t;

/* Moves fragments of several ranges and waits, at most timeout_ms; then what is open is called back. A
 * fragment that is not valid fails alone. The error is that of the first fragment that failed. Local
 * memory is free afterwards, or te_last_error says that it is not. */
int te_scatter(transfer_engine_t engine, const te_scatter_range_t *ranges, size_t range_count,
               uint64_t timeout_ms);

/* ---- peers */

/* Asks the peer whether it lives, and waits at most 2 seconds; *round_trip_ns, which may be NULL, is how
 * long the answer took. */
int te_probe(transfer_engine_t engine, const char *peer, uint64_t *round_trip_ns);

/* Sends a notification to a peer, which need not be open. */
int te_send_notify(transfer_engine_t engine, const char *peer, notify_msg_t notify_msg);

#ifdef __cplusplus
}
#endif

#endif /* TE_C_H */
