// Two processes that measure a transfer: pieces that the programs for NIXL and libfabric share.
//
// The first process asks, the second answers: 'c' with its processor time so far, 'v' with how many of
// its blocks do not hold the pattern of the other, 'q' by ending.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_TIMES = 1 << 20, OURS = 0x22, THEIRS = 0x77 };

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

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void put(int fd, const void *bytes, size_t length) {
    const char *at = bytes;
    while (length) {
        ssize_t n = write(fd, at, length);
        if (n <= 0) _exit(3);
        at += n;
        length -= n;
    }
}

static void get(int fd, void *bytes, size_t length) {
    char *at = bytes;
    while (length) {
        ssize_t n = read(fd, at, length);
        if (n <= 0) _exit(3);
        at += n;
        length -= n;
    }
}

static char *filled(size_t length, int byte) {
    char *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) fail("memory", "there is none");
    memset(at, byte, length);
    return at;
}

// Blocks that have a byte which is not the one they should have; some bytes of each are looked at.
static uint64_t wrong(const char *at, size_t block, size_t stride, int batch, int byte) {
    uint64_t bad = 0;
    for (int i = 0; i < batch; i++)
        for (size_t j = 0; j < block; j += 997)
            if (at[i * stride + j] != byte) {
                bad++;
                break;
            }
    return bad;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// What the second process does about a question, if there is one; `wait` lets it sleep meanwhile.
static void answer(int fd, const char *at, size_t block, size_t stride, int batch, int wait) {
    char question;
    if (recv(fd, &question, 1, wait ? 0 : MSG_DONTWAIT) != 1) return;
    if (question == 'c') {
        double used = cpu();
        put(fd, &used, sizeof used);
    } else if (question == 'v') {
        uint64_t bad = wrong(at, block, stride, batch, OURS);
        put(fd, &bad, sizeof bad);
    } else {
        _exit(0);
    }
}

static double times[MOST_TIMES];

// Calls `once` for so long and prints the figures.
static void measure(int fd, size_t block, int batch, double seconds, void (*once)(void)) {
    char question = 'c';
    double there[2];
    for (double warm = now() + 0.2; now() < warm;) once();
    put(fd, &question, 1);
    get(fd, &there[0], sizeof(double));
    size_t n = 0;
    double used = cpu(), begun = now(), before = begun;
    do {
        once();
        double after = now();
        if (n < MOST_TIMES) times[n] = after - before;
        before = after;
        n++;
    } while (before < begun + seconds);
    double took = before - begun, here = cpu() - used, bytes = (double)n * batch * block;
    put(fd, &question, 1);
    get(fd, &there[1], sizeof(double));
    size_t kept = n < MOST_TIMES ? n : MOST_TIMES;
    qsort(times, kept, sizeof *times, by_size);
    printf("{\"gigabytes_per_second\":%.4f,\"requests_per_second\":%.1f,\"p50_us\":%.3f,"
           "\"p99_us\":%.3f,\"cpu_here\":%.5f,\"cpu_there\":%.5f}\n",
           bytes / took / 1e9, (double)n * batch / took, times[kept / 2] * 1e6,
           times[(size_t)(kept * 0.99)] * 1e6, here / (bytes / 1e9),
           (there[1] - there[0]) / (bytes / 1e9));
    fflush(stdout);
}

// Ends the second process, and this one with an error where bytes were wrong.
static void finish(int fd, pid_t other, int reads, const char *at, size_t block, size_t stride, int batch) {
    uint64_t bad = 0;
    char question = 'v';
    if (reads) {
        bad = wrong(at, block, stride, batch, THEIRS);
    } else {
        put(fd, &question, 1);
        get(fd, &bad, sizeof bad);
    }
    question = 'q';
    put(fd, &question, 1);
    waitpid(other, NULL, 0);
    if (bad) fprintf(stderr, "%lu blocks hold wrong bytes\n", (unsigned long)bad);
    _exit(bad ? 4 : 0);
}
