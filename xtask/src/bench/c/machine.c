// What this machine can do by itself, as JSON on one line.
//
//   machine cacheline                        round trip of a cache line between CPU 0 and CPU 1
//   machine memcpy BLOCK BATCH SECONDS       private memory into a shared mapping
//   machine vm READ|WRITE BLOCK BATCH SECONDS    process_vm_*, one call per batch of ranges
//
// Sizes in bytes. The same place again and again, all pages touched before. A batch of more than 1024
// ranges takes several calls.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANGES = 1024, MOST_TIMES = 1 << 20, LINE_TURNS = 20000 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void pin(int cpu_number) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu_number, &set);
    if (sched_setaffinity(0, sizeof set, &set)) fail("cannot pin a thread");
}

static _Alignas(128) atomic_int turn;

static void *echo(void *unused) {
    (void)unused;
    pin(1);
    for (int i = 0; i < LINE_TURNS; i++) {
        while (atomic_load_explicit(&turn, memory_order_acquire) != 1) {}
        atomic_store_explicit(&turn, 0, memory_order_release);
    }
    return NULL;
}

// The least of ten pieces: a thread that is interrupted measures something else.
static void cacheline(void) {
    pthread_t other;
    if (pthread_create(&other, NULL, echo, NULL)) fail("cannot start a thread");
    pin(0);
    double best = 1e9;
    for (int piece = 0; piece < 10; piece++) {
        double begun = now();
        for (int i = 0; i < LINE_TURNS / 10; i++) {
            atomic_store_explicit(&turn, 1, memory_order_release);
            while (atomic_load_explicit(&turn, memory_order_acquire) != 0) {}
        }
        double each = (now() - begun) / (LINE_TURNS / 10);
        if (each < best) best = each;
    }
    pthread_join(other, NULL);
    printf("{\"round_trip_ns\":%.1f}\n", best * 1e9);
}

static char *memory(size_t length, int flags) {
    char *at = mmap(NULL, length, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (at == MAP_FAILED) fail("no memory");
    for (size_t i = 0; i < length; i += 8) *(uint64_t *)(at + i) = i * 0x9e3779b97f4a7c15u;
    return at;
}

static double times[MOST_TIMES];

struct work {
    char *here;
    size_t block;
    int batch;
    int reads;
    pid_t other;
    char *there;
    struct iovec local[MOST_RANGES], remote[MOST_RANGES];
};

static void copy(struct work *w) {
    for (int i = 0; i < w->batch; i++)
        memcpy(w->there + i * w->block, w->here + i * w->block, w->block);
    // The compiler must not find out that nobody reads it.
    __asm__ volatile("" ::: "memory");
}

static void vm(struct work *w) {
    for (int done = 0; done < w->batch;) {
        int n = w->batch - done < MOST_RANGES ? w->batch - done : MOST_RANGES;
        for (int i = 0; i < n; i++) {
            size_t at = (size_t)(done + i) * w->block;
            w->local[i] = (struct iovec){w->here + at, w->block};
            w->remote[i] = (struct iovec){w->there + at, w->block};
        }
        ssize_t moved = w->reads ? process_vm_readv(w->other, w->local, n, w->remote, n, 0)
                                 : process_vm_writev(w->other, w->local, n, w->remote, n, 0);
        if (moved < 0) fail("process_vm");
        if ((size_t)moved != n * w->block) {
            // A call moves 2 GiB at most.
            fprintf(stderr, "only %zd bytes were moved\n", moved);
            exit(1);
        }
        done += n;
    }
}

static void measure(struct work *w, void (*once)(struct work *), double seconds) {
    for (double warm = now() + 0.1; now() < warm;) once(w);
    size_t n = 0, kept = 0;
    double used = cpu(), begun = now(), before = begun, end = begun + seconds;
    do {
        once(w);
        double after = now();
        if (kept < MOST_TIMES) times[kept++] = after - before;
        before = after;
        n++;
    } while (before < end);
    double took = before - begun, spent = cpu() - used, bytes = (double)n * w->batch * w->block;
    qsort(times, kept, sizeof *times, by_size);
    printf("{\"gigabytes_per_second\":%.4f,\"requests_per_second\":%.1f,\"p50_us\":%.3f,"
           "\"p99_us\":%.3f,\"cpu_here\":%.5f}\n",
           bytes / took / 1e9, n * w->batch / took, times[kept / 2] * 1e6,
           times[(size_t)(kept * 0.99)] * 1e6, spent / (bytes / 1e9));
}

int main(int count, char **words) {
    if (count == 2 && !strcmp(words[1], "cacheline")) {
        cacheline();
        return 0;
    }
    int is_vm = count == 6 && !strcmp(words[1], "vm");
    if (!is_vm && !(count == 5 && !strcmp(words[1], "memcpy"))) {
        fprintf(stderr, "usage: see the head of machine.c\n");
        return 2;
    }
    static struct work w;
    char **numbers = words + (is_vm ? 3 : 2);
    w.block = strtoull(numbers[0], NULL, 10);
    w.batch = atoi(numbers[1]);
    double seconds = atof(numbers[2]);
    size_t length = w.block * w.batch;
    w.there = memory(length, (is_vm ? MAP_PRIVATE : MAP_SHARED) | MAP_ANONYMOUS);
    if (!is_vm) {
        w.here = memory(length, MAP_PRIVATE | MAP_ANONYMOUS);
        measure(&w, copy, seconds);
        return 0;
    }
    w.reads = !strcmp(words[2], "READ");
    int end[2];
    if (pipe(end)) fail("pipe");
    w.other = fork();
    if (w.other < 0) fail("fork");
    if (!w.other) {
        // Its pages are its own once it has written them; it lives until we are gone.
        close(end[1]);
        for (size_t i = 0; i < length; i += 4096) w.there[i]++;
        char byte;
        _exit(read(end[0], &byte, 1) != 0);
    }
    close(end[0]);
    w.here = memory(length, MAP_PRIVATE | MAP_ANONYMOUS);
    for (double warm = now() + 0.05; now() < warm;) {}
    measure(&w, vm, seconds);
    close(end[1]);
    waitpid(w.other, NULL, 0);
    return 0;
}
