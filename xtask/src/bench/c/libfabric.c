// libfabric READ|WRITE BLOCK BATCH SECONDS: libfabric's RMA over TCP between two processes.
//
// A write is complete once it was delivered, as ours is (FI_DELIVERY_COMPLETE). The target drives its
// side by looking at its completion queue in a loop.
#include "pair.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

static void ok(int status, const char *what) {
    if (status) fail(what, fi_strerror(-status));
}
#define OK(call) ok((call), #call)

enum { NAME = 512, AT_ONCE = 64 };

static struct fid_ep *end;
static struct fid_cq *done;
static struct fid_av *book;
static struct fid_mr *region;
static struct fid_domain *domain;
static struct fi_info *info;

static struct {
    int reads, batch;
    size_t block;
    char *here;
    uint64_t there, key;
    fi_addr_t whom;
    void *local;
    struct fi_context *each;
} w;

static void start(char *at, size_t length, int key) {
    struct fi_info *hints = fi_allocinfo();
    hints->fabric_attr->prov_name = strdup("tcp;ofi_rxm");
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
    OK(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", "0", FI_SOURCE, hints, &info));
    struct fid_fabric *fabric;
    OK(fi_fabric(info->fabric_attr, &fabric, NULL));
    OK(fi_domain(fabric, info, &domain, NULL));
    OK(fi_endpoint(domain, info, &end, NULL));
    struct fi_av_attr names = {.type = FI_AV_UNSPEC};
    OK(fi_av_open(domain, &names, &book, NULL));
    struct fi_cq_attr queue = {.format = FI_CQ_FORMAT_CONTEXT, .size = 4096};
    OK(fi_cq_open(domain, &queue, &done, NULL));
    OK(fi_ep_bind(end, &book->fid, 0));
    OK(fi_ep_bind(end, &done->fid, FI_TRANSMIT | FI_RECV));
    OK(fi_enable(end));
    OK(fi_mr_reg(domain, at, length, FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, key, 0,
                 &region, NULL));
}

static void meet(int fd, char *at) {
    char mine[NAME] = {0}, theirs[NAME];
    size_t length = sizeof mine;
    OK(fi_getname(&end->fid, mine, &length));
    put(fd, mine, NAME);
    get(fd, theirs, NAME);
    if (fi_av_insert(book, theirs, 1, &w.whom, 0, NULL) != 1) fail("fi_av_insert", "failed");
    uint64_t my[2] = {info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)at : 0, fi_mr_key(region)};
    uint64_t their[2];
    put(fd, my, sizeof my);
    get(fd, their, sizeof their);
    w.there = their[0];
    w.key = their[1];
}

static void once(void) {
    struct fi_cq_entry ended[AT_ONCE];
    int posted = 0, complete = 0;
    while (complete < w.batch) {
        while (posted < w.batch) {
            size_t at = posted * w.block;
            ssize_t status =
                w.reads ? fi_read(end, w.here + at, w.block, w.local, w.whom, w.there + at, w.key, &w.each[posted])
                        : fi_write(end, w.here + at, w.block, w.local, w.whom, w.there + at, w.key, &w.each[posted]);
            if (status == -FI_EAGAIN) break;
            OK(status);
            posted++;
        }
        ssize_t n = fi_cq_read(done, ended, AT_ONCE);
        if (n > 0) complete += n;
        else if (n != -FI_EAGAIN) fail("fi_cq_read", fi_strerror(-n));
    }
}

int main(int count, char **words) {
    if (count != 5) return fprintf(stderr, "usage: libfabric READ|WRITE BLOCK BATCH SECONDS\n"), 2;
    w.reads = !strcmp(words[1], "READ");
    w.block = strtoull(words[2], NULL, 10);
    w.batch = atoi(words[3]);
    size_t length = w.block * w.batch;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) fail("socketpair", "failed");
    pid_t other = fork();
    w.here = filled(length, other ? OURS : THEIRS);
    start(w.here, length, other ? 8 : 7);
    int fd = ends[other ? 0 : 1];
    meet(fd, w.here);
    if (!other) {
        struct fi_cq_entry ended[AT_ONCE];
        for (;;) {
            for (int i = 0; i < AT_ONCE; i++) fi_cq_read(done, ended, AT_ONCE);
            answer(fd, w.here, w.block, w.block, w.batch, 0);
        }
    }
    w.local = fi_mr_desc(region);
    w.each = calloc(w.batch, sizeof *w.each);
    measure(fd, w.block, w.batch, atof(words[4]), once);
    finish(fd, other, w.reads, w.here, w.block, w.block, w.batch);
}
