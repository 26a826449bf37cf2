/* The transfer engine for C: read and write pieces of other machines' memory.
 *
 * A process registers memory and thereby publishes it as its segment. Others open the segment by
 * name, allocate a batch, submit reads and writes to it, and ask for the state of each task until it
 * is final. Symbols, layouts and numbers are those of the C library of Mooncake's Transfer Engine, so
 * that a program written for that one is compiled or linked with this one unchanged. What this
 * library has beyond them stands in te_c.h.
 *
 * Answers. Unless said otherwise an int is 0 or one of the negative TE_ERR_ numbers of te_c.h;
 * submitTransfer, submitTransferWithNotify, getTransferStatus and freeBatchID answer with the positive
 * numbers of a status: 1 invalid argument, 2 too many requests, 3 address not registered, 4 batch busy,
 * 8 no transport for it, 200 metadata, 301 clock. te_last_error of te_c.h says more: phase, peer, cause.
 *
 * Handles. An engine handle is a number in the clothes of a pointer. A null one, one that
 * destroyTransferEngine has ended, one made up, and one of the process that this one was forked from
 * are errors, never crashes. The same holds for batch and segment numbers.
 *
 * Pointers. What cannot be checked is the caller's promise: an array has as many entries as its count
 * says, a string ends with a NUL, a place for an answer is writable. A null pointer is an error where
 * something is expected, and so is text that is no UTF-8. Nothing that is passed in is kept after the
 * call but registered memory itself.
 *
 * Threads. Every call may come from any thread, also while another one destroys the engine: it then
 * fails. Nothing here calls back.
 *
 * Memory. Registered memory, and the local memory of a task, must not be freed or reused while the
 * task is not final; after a final state other than STATUS_COMPLETED see te_batch_status_t: in rare
 * cases a transport still holds it, and unregisterLocalMemory then answers -4.
 */
#ifndef TRANSFER_ENGINE_C
#define TRANSFER_ENGINE_C

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Handles and numbers. */
typedef void *transfer_engine_t;
typedef void *transport_t;
#define segment_handle_t int32_t
#define segment_id_t int32_t
#define batch_id_t uint64_t

/* The segment of the engine itself. */
#define LOCAL_SEGMENT (0)
/* No batch. */
#define INVALID_BATCH UINT64_MAX

/* Directions. Read: from the peer into local memory. */
#define OPCODE_READ (0)
#define OPCODE_WRITE (1)

/* States of a task. The last five are final. */
#define STATUS_WAITING (0)
#define STATUS_PENDING (1) /* not used */
#define STATUS_INVALID (2)
#define STATUS_CANCELED (3)
#define STATUS_COMPLETED (4) /* every byte is where it should be */
#define STATUS_TIMEOUT (5)
#define STATUS_FAILED (6)

/* One read or write. */
struct transfer_request {
    int opcode;             /* OPCODE_READ or OPCODE_WRITE */
    void *source;           /* local memory; for a read, where the bytes go */
    segment_id_t target_id; /* as openSegment gave it */
    uint64_t target_offset; /* the address in the peer */
    uint64_t length;        /* bytes; 0 completes at once */
};
typedef struct transfer_request transfer_request_t;

/* State of one task. */
struct transfer_status {
    int status;                 /* STATUS_ */
    uint64_t transferred_bytes; /* in place by now */
};
typedef struct transfer_status transfer_status_t;

/* Memory to be registered. */
struct buffer_entry {
    void *addr;
    size_t length; /* bytes */
};
typedef struct buffer_entry buffer_entry_t;

/* A notification. Both strings end with a NUL. */
struct notify_msg {
    char *name;
    char *msg;
};
typedef struct notify_msg notify_msg_t;

/* Load of one NIC. */
struct nic_load_stat {
    char device_name[64]; /* ends with a NUL; longer names are cut */
    uint64_t inflight_bytes;
    double ewma_bandwidth_bps;
};
typedef struct nic_load_stat nic_load_stat_t;

/* ---- the engine */

/* Makes an engine.
 *
 * metadata_conn_string: "P2PHANDSHAKE", where peers ask each other, or the address of a service:
 * "http://host:port/path", "etcd://host:port", "redis://host:port".
 * local_server_name: the name of this engine, "host" or "host:port". With P2PHANDSHAKE the port is
 * chosen by the engine; getLocalIpAndPort tells it.
 * ip_or_host_name, rpc_port: accepted and not used, as in Mooncake.
 * auto_discover: nonzero looks at the NICs and installs the transports that are here; with zero,
 * installTransport is called next.
 *
 * NULL where it could not be made. The handle must be given to destroyTransferEngine. */
transfer_engine_t createTransferEngine(const char *metadata_conn_string,
                                       const char *local_server_name,
                                       const char *ip_or_host_name, uint64_t rpc_port,
                                       int auto_discover);

/* Settles every task, joins every thread of the engine, takes back what it published, and ends the
 * handle; bounded. A handle that is not one is left alone. */
void destroyTransferEngine(transfer_engine_t engine);

/* Where peers find the engine, "host:port", into buf_out with a NUL; a text that does not fit into
 * buf_len bytes is cut. */
int getLocalIpAndPort(transfer_engine_t engine, char *buf_out, size_t buf_len);

/* Looks at the NICs and the memory of this machine. */
int discoverTopology(transfer_engine_t engine);

/* Installs "tcp" or another transport by its name. args may be NULL; args[0], where given, is a matrix
 * of NICs as JSON text. Gives a token that means nothing but success; NULL where there is no such
 * transport. Installing one twice is no error. */
transport_t installTransport(transfer_engine_t engine, const char *proto, void **args);

/* Has no effect, as in Mooncake. */
int uninstallTransport(transfer_engine_t engine, const char *proto);

/* Ends the engine in good order when the process gets SIGTERM or SIGINT or exits. */
void enableGracefulShutdown(transfer_engine_t engine);

/* Connections of the engine into buf, with a NUL; cut where it does not fit. As a table, or as JSON
 * where json is nonzero. -1 for a null buffer or one of no bytes. */
int showLinks(transfer_engine_t engine, char *buf, size_t buf_len, int json);

/* Loads of NICs. *count is how many entries stats has room for; afterwards how many NICs there are,
 * which may be more. */
int getNicLoadStats(transfer_engine_t engine, nic_load_stat_t *stats, size_t *count);

/* ---- memory */

/* Registers memory and publishes it. location is where it is, "cpu:0", or "*" for look for yourself;
 * NULL is "*". Peers may use it where remote_accessible is nonzero. -7 where it overlaps memory that is
 * registered. */
int registerLocalMemory(transfer_engine_t engine, void *addr, size_t length, const char *location,
                        int remote_accessible);

/* Unregisters the memory that begins at addr. Waits for tasks that use it, bounded; then -4, and the
 * call may be repeated. -3 where no registered memory begins there. */
int unregisterLocalMemory(transfer_engine_t engine, void *addr);

/* Registers several buffers, all or none. */
int registerLocalMemoryBatch(transfer_engine_t engine, buffer_entry_t *buffer_list,
                             size_t buffer_len, const char *location);

/* Unregisters several, past errors; gives the first error. */
int unregisterLocalMemoryBatch(transfer_engine_t engine, void **addr_list, size_t addr_len);

/* ---- segments */

/* Opens the segment of a peer. The same name gives the same number. -1 where it cannot be had. */
segment_id_t openSegment(transfer_engine_t engine, const char *segment_name);

/* As openSegment, but asks anew first what the peer is now. */
segment_id_t openSegmentNoCache(transfer_engine_t engine, const char *segment_name);

/* Has no effect but to check the handle, as in Mooncake: what is known of the peer stays. */
int closeSegment(transfer_engine_t engine, segment_id_t segment_id);

/* Forgets what is known of a name. The metadata service is not touched. */
int removeLocalSegment(transfer_engine_t engine, const char *segment_name);

/* Asks anew about every open segment. */
int syncSegmentCache(transfer_engine_t engine);

/* Has no effect without EFA, and there is none in this build. */
int warmupEfaSegment(transfer_engine_t engine, const char *segment_name);

/* ---- transfers */

/* Makes a batch for at most batch_size requests; INVALID_BATCH where that cannot be. */
batch_id_t allocateBatchID(transfer_engine_t engine, size_t batch_size);

/* Adds requests to a batch and begins to move them; all, or none with the error. The array is copied.
 * Local memory need not be registered, but must be mapped: else its task fails. */
int submitTransfer(transfer_engine_t engine, batch_id_t batch_id, struct transfer_request *entries,
                   size_t count);

/* As submitTransfer; once every task of the batch completed, the peer of the first request gets the
 * notification. */
int submitTransferWithNotify(transfer_engine_t engine, batch_id_t batch_id,
                             struct transfer_request *entries, size_t count,
                             notify_msg_t notify_msg);

/* State of one task, by its position in the batch. *status is written only where the answer is 0. */
int getTransferStatus(transfer_engine_t engine, batch_id_t batch_id, size_t task_id,
                      struct transfer_status *status);

/* Frees a batch whose tasks are all final; 4 where some are not. */
int freeBatchID(transfer_engine_t engine, batch_id_t batch_id);

/* ---- notifications */

/* Takes the notifications that arrived; *size is how many. NULL for none. The array must be given to
 * freeNotifsMsgBuf. Text after a NUL byte that a peer sent is cut off. */
notify_msg_t *getNotifsFromEngine(transfer_engine_t engine, int *size);

/* Frees what getNotifsFromEngine gave, with the size that it gave. NULL is allowed. */
int freeNotifsMsgBuf(notify_msg_t *msg, int size);

/* Sends a notification to the owner of an open segment. */
int genNotifyInEngine(transfer_engine_t engine, uint64_t target_id, notify_msg_t notify_msg);

#ifdef __cplusplus
}
#endif

#endif /* TRANSFER_ENGINE_C */
