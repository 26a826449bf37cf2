// nixl READ|WRITE BLOCK BATCH SECONDS: NIXL between two processes, over the C interface of its wheel.
//
// UCX_TLS in the environment chooses what moves the bytes. One request that is made once and posted
// again and again; no progress thread, which only costs here, so that the target asks for news in a
// loop. The wheel has no header; what is used of the interface is declared below, as of version 1.5.
#include "pair.h"

#include <stdbool.h>

typedef struct agent *agent;
typedef struct params *params;
typedef struct mem_list *mem_list;
typedef struct backend *backend;
typedef struct opt_args *opt_args;
typedef struct xfer_list *xfer_list;
typedef struct reg_list *reg_list;
typedef struct request *request;
typedef struct news *news;

struct config {
    bool progress_thread, listen_thread;
    uint16_t listen_port;
    unsigned int sync;
    unsigned int workers;
    uint64_t progress_delay, listen_delay;
    bool telemetry;
};

enum { MEMORY = 0, READ_OP = 0, WRITE_OP = 1, IN_PROGRESS = 1 };

int nixl_capi_create_configured_agent(const char *, const struct config *, agent *);
int nixl_capi_get_plugin_params(agent, const char *, mem_list *, params *);
int nixl_capi_params_add(params, const char *, const char *);
int nixl_capi_create_backend(agent, const char *, params, backend *);
int nixl_capi_create_reg_dlist(int, reg_list *);
int nixl_capi_reg_dlist_add_desc(reg_list, uintptr_t, size_t, uint64_t, const void *, size_t);
int nixl_capi_register_mem(agent, reg_list, opt_args);
int nixl_capi_get_local_md(agent, void **, size_t *);
int nixl_capi_load_remote_md(agent, const void *, size_t, char **);
int nixl_capi_create_xfer_dlist(int, xfer_list *);
int nixl_capi_xfer_dlist_add_desc(xfer_list, uintptr_t, size_t, uint64_t);
int nixl_capi_create_opt_args(opt_args *);
int nixl_capi_opt_args_set_skip_desc_merge(opt_args, bool);
int nixl_capi_create_xfer_req(agent, int, xfer_list, xfer_list, const char *, request *, opt_args);
int nixl_capi_post_xfer_req(agent, request, opt_args);
int nixl_capi_get_xfer_status(agent, request);
int nixl_capi_create_notif_map(news *);
int nixl_capi_get_notifs(agent, news, opt_args);
int nixl_capi_notif_map_clear(news);

static agent me;
static request work;

static int ok(int status, const char *what) {
    if (status < 0) fail(what, "NIXL says no");
    return status;
}
#define OK(call) ok((call), #call)

static void start(const char *name) {
    struct config config = {0};
    mem_list kinds;
    params options;
    backend made;
    OK(nixl_capi_create_configured_agent(name, &config, &me));
    OK(nixl_capi_get_plugin_params(me, "UCX", &kinds, &options));
    // Without this its transports within a host are refused.
    const char *ways = getenv("UCX_TLS");
    if (ways && strcmp(ways, "tcp")) OK(nixl_capi_params_add(options, "ucx_error_handling_mode", "none"));
    OK(nixl_capi_create_backend(me, "UCX", options, &made));
}

static char *registered(size_t length, int byte) {
    char *at = filled(length, byte);
    reg_list list;
    OK(nixl_capi_create_reg_dlist(MEMORY, &list));
    OK(nixl_capi_reg_dlist_add_desc(list, (uintptr_t)at, length, 0, "", 0));
    OK(nixl_capi_register_mem(me, list, NULL));
    return at;
}

// Tells the other process who we are, and learns who it is.
static void meet(int fd) {
    void *mine, *theirs;
    size_t length;
    char *name;
    OK(nixl_capi_get_local_md(me, &mine, &length));
    put(fd, &length, sizeof length);
    put(fd, mine, length);
    get(fd, &length, sizeof length);
    theirs = malloc(length);
    get(fd, theirs, length);
    OK(nixl_capi_load_remote_md(me, theirs, length, &name));
}

static void once(void) {
    int status = OK(nixl_capi_post_xfer_req(me, work, NULL));
    while (status == IN_PROGRESS) status = OK(nixl_capi_get_xfer_status(me, work));
}

int main(int count, char **words) {
    if (count != 5) return fprintf(stderr, "usage: nixl READ|WRITE BLOCK BATCH SECONDS\n"), 2;
    int reads = !strcmp(words[1], "READ"), batch = atoi(words[3]), ends[2];
    size_t block = strtoull(words[2], NULL, 10);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) fail("socketpair", "failed");
    pid_t other = fork();
    if (!other) {
        start("target");
        char *at = registered(block * batch, THEIRS);
        meet(ends[1]);
        put(ends[1], &at, sizeof at);
        news map;
        OK(nixl_capi_create_notif_map(&map));
        for (;;) {
            answer(ends[1], at, block, block, batch, 0);
            OK(nixl_capi_get_notifs(me, map, NULL));
            nixl_capi_notif_map_clear(map);
        }
    }
    start("initiator");
    char *here = registered(block * batch, OURS), *there;
    meet(ends[0]);
    get(ends[0], &there, sizeof there);
    xfer_list local, remote;
    opt_args options;
    OK(nixl_capi_create_xfer_dlist(MEMORY, &local));
    OK(nixl_capi_create_xfer_dlist(MEMORY, &remote));
    for (int i = 0; i < batch; i++) {
        OK(nixl_capi_xfer_dlist_add_desc(local, (uintptr_t)here + i * block, block, 0));
        OK(nixl_capi_xfer_dlist_add_desc(remote, (uintptr_t)there + i * block, block, 0));
    }
    OK(nixl_capi_create_opt_args(&options));
    // A batch of requests, not one large one.
    OK(nixl_capi_opt_args_set_skip_desc_merge(options, true));
    OK(nixl_capi_create_xfer_req(me, reads ? READ_OP : WRITE_OP, local, remote, "target", &work, options));
    measure(ends[0], block, batch, atof(words[4]), once);
    finish(ends[0], other, reads, here, block, block, batch);
}
