/* Loaded before a program that asks its NICs for 7 retries, which soft-RoCE takes as endless: it gets 6.
 *
 *   gcc -shared -fPIC -o retry.so retry.c -Wl,--no-as-needed -libverbs -ldl
 *
 * Linked with the library that it stands in front of, because the program may load that one for itself
 * alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>

typedef int modify(struct ibv_qp *, struct ibv_qp_attr *, int);

int ibv_modify_qp(struct ibv_qp *pair, struct ibv_qp_attr *wanted, int mask)
{
    modify *real = (modify *)dlvsym(RTLD_NEXT, "ibv_modify_qp", "IBVERBS_1.1");
    struct ibv_qp_attr given = *wanted;

    if ((mask & IBV_QP_RETRY_CNT) && given.retry_cnt == 7)
        given.retry_cnt = 6;
    return real(pair, &given, mask);
}
