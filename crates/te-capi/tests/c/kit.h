/* A little test harness for C and C++ that speaks like Rust's: `cargo xtask suite capi` reads it.
 *
 * Each test runs in a process of its own, so that a crash is one failed test, and within a limit.
 * The first process never makes an engine; so a test may fork before it makes one, and its child is
 * a peer. Arguments: parts of names, and what Rust's harness takes. */
#ifndef KIT_H
#define KIT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "te_c.h"

/* How long one test may take. */
#define TEST_SECONDS 120

struct test {
    const char *name;
    void (*run)(void);
};

#define KIT_SKIPPED 77
#define KIT_FAILED 1

/* Ends the test: it does not hold. */
#define FAIL(...) kit_fail(__FILE__, __LINE__, __VA_ARGS__)

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            FAIL("%s", #what);                                                                     \
    } while (0)

/* Two numbers are the same. */
#define SAME(got, wanted)                                                                          \
    do {                                                                                           \
        long long got_ = (long long)(got), wanted_ = (long long)(wanted);                          \
        if (got_ != wanted_)                                                                       \
            FAIL("%s is %lld and not %lld", #got, got_, wanted_);                                  \
    } while (0)

/* A call of the library gave this answer; if not, its reason is told. */
#define GIVES(call, wanted)                                                                        \
    do {                                                                                           \
        long long got_ = (long long)(call), wanted_ = (long long)(wanted);                         \
        if (got_ != wanted_) {                                                                     \
            te_error_t why_;                                                                       \
            te_last_error(&why_);                                                                  \
            FAIL("%s is %lld and not %lld; last error: %s", #call, got_, wanted_, why_.text);      \
        }                                                                                          \
    } while (0)

/* The text of the last error has this in it. */
#define REASON(part) kit_reason(__FILE__, __LINE__, part)

static inline void kit_fail(const char *file, int line, const char *form, ...)
    __attribute__((noreturn, format(printf, 3, 4)));

static inline void kit_fail(const char *file, int line, const char *form, ...) {
    va_list list;
    const char *base = strrchr(file, '/');

    va_start(list, form);
    printf("%s:%d: ", base ? base + 1 : file, line);
    vprintf(form, list);
    printf("\n");
    va_end(list);
    fflush(stdout);
    _exit(KIT_FAILED);
}

static inline void kit_reason(const char *file, int line, const char *part) {
    te_error_t error;

    if (te_last_error(&error) != 1)
        kit_fail(file, line, "there is no last error; wanted: %s", part);
    if (!strstr(error.text, part))
        kit_fail(file, line, "the last error is \"%s\"; wanted: %s", error.text, part);
}

/* Ends the test: it cannot run here. */
static inline void skip(const char *reason) {
    printf("%s\n", reason);
    fflush(stdout);
    _exit(KIT_SKIPPED);
}

static inline double now(void) {
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Waits a moment between two looks at something that has a deadline. */
static inline void pause_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&time, NULL);
}

/* Memory of whole pages, zeroed, like a program's own. */
static inline unsigned char *memory(size_t size) {
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        FAIL("mmap of %zu bytes: %s", size, strerror(errno));
    return (unsigned char *)at;
}

/* Bytes that differ from place to place and from seed to seed. */
static inline unsigned char pattern_at(size_t place, unsigned seed) {
    uint64_t x = (place >> 3) * 0x9e3779b97f4a7c15u + seed * 0xbf58476d1ce4e5b9u;

    return (unsigned char)((x ^ x >> 29) >> 8 * (place & 7));
}

static inline void fill(unsigned char *at, size_t size, unsigned seed) {
    for (size_t place = 0; place < size; place++)
        at[place] = pattern_at(place, seed);
}

/* The first place where memory is not as filled, or size. */
static inline size_t differs(const unsigned char *at, size_t size, unsigned seed) {
    for (size_t place = 0; place < size; place++)
        if (at[place] != pattern_at(place, seed))
            return place;
    return size;
}

#define HOLDS(at, size, seed)                                                                      \
    do {                                                                                           \
        size_t size_ = (size), place_ = differs(at, size_, seed);                                  \
        if (place_ != size_)                                                                       \
            FAIL("byte %zu of %zu is not that of seed %u", place_, size_, (unsigned)(seed));       \
    } while (0)

/* An engine in P2P mode with all transports. */
static inline transfer_engine_t engine_here(void) {
    transfer_engine_t engine =
        createTransferEngine("P2PHANDSHAKE", "127.0.0.1", "127.0.0.1", 12345, 1);

    if (!engine)
        GIVES(-1, 0);
    return engine;
}

static inline transfer_request_t request(int opcode, void *local, segment_id_t target,
                                         uint64_t address, uint64_t length) {
    transfer_request_t one = {opcode, local, target, address, length};

    return one;
}

static inline int is_final(int status) {
    return status >= STATUS_INVALID;
}

/* Polls a task until it is final; gives its state. */
static inline transfer_status_t poll_task(transfer_engine_t engine, batch_id_t batch, size_t index,
                                          double seconds) {
    transfer_status_t status;
    double until = now() + seconds;

    for (;;) {
        GIVES(getTransferStatus(engine, batch, index, &status), 0);
        if (is_final(status.status))
            return status;
        if (now() > until)
            FAIL("task %zu is not final after %g s", index, seconds);
        pause_ms(1);
    }
}

/* ---- a peer in a process of its own */

struct peer {
    pid_t pid;
    int orders, answers;
    char name[300];
    uint64_t address;
};

static inline void read_all(int fd, void *into, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t n = read(fd, (char *)into + done, size - done);

        if (n <= 0)
            FAIL("the peer has gone: %s", n < 0 ? strerror(errno) : "end of file");
        done += (size_t)n;
    }
}

static inline void write_all(int fd, const void *from, size_t size) {
    if (write(fd, from, size) != (ssize_t)size)
        FAIL("cannot write to the other process: %s", strerror(errno));
}

struct order {
    char what;
    unsigned seed;
    uint64_t from, size;
};

/* What the peer does: owns memory, fills it, looks at it, counts notifications. */
static inline void peer_main(struct peer *peer, size_t size, unsigned seed) {
    transfer_engine_t engine = engine_here();
    unsigned char *at = memory(size);
    struct order order;

    fill(at, size, seed);
    GIVES(registerLocalMemory(engine, at, size, "*", 1), 0);
    GIVES(getLocalIpAndPort(engine, peer->name, sizeof peer->name), 0);
    peer->address = (uint64_t)(uintptr_t)at;
    write_all(peer->answers, peer, sizeof *peer);
    while (read(peer->orders, &order, sizeof order) == sizeof order && order.what != 'q') {
        uint64_t answer = 0;

        if (order.what == 'f')
            fill(at + order.from, order.size, order.seed);
        else if (order.what == 'd')
            answer = differs(at + order.from, order.size, order.seed);
        else if (order.what == 'n') {
            int count = 0;
            notify_msg_t *messages = getNotifsFromEngine(engine, &count);

            answer = (uint64_t)count;
            if (count > 0 && strcmp(messages[0].name, "kit") != 0)
                FAIL("the notification is called %s", messages[0].name);
            freeNotifsMsgBuf(messages, count);
        }
        write_all(peer->answers, &answer, sizeof answer);
    }
    destroyTransferEngine(engine);
}

/* Starts one with memory that is filled by a seed. No engine must be here yet. */
static inline struct peer peer_start(size_t size, unsigned seed) {
    struct peer peer = {0, 0, 0, "", 0};
    int orders[2], answers[2];

    if (pipe(orders) || pipe(answers))
        FAIL("pipe: %s", strerror(errno));
    peer.pid = fork();
    if (peer.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(orders[1]);
        close(answers[0]);
        peer.orders = orders[0];
        peer.answers = answers[1];
        peer_main(&peer, size, seed);
        exit(0);
    }
    close(orders[0]);
    close(answers[1]);
    pid_t pid = peer.pid;
    read_all(answers[0], &peer, sizeof peer);
    peer.pid = pid;
    peer.orders = orders[1];
    peer.answers = answers[0];
    return peer;
}

static inline uint64_t peer_order(struct peer *peer, char what, uint64_t from, uint64_t size,
                                  unsigned seed) {
    struct order order;
    uint64_t answer;

    memset(&order, 0, sizeof order);
    order.what = what;
    order.seed = seed;
    order.from = from;
    order.size = size;
    write_all(peer->orders, &order, sizeof order);
    read_all(peer->answers, &answer, sizeof answer);
    return answer;
}

/* Ends it in good order, and looks that it did. */
static inline void peer_quit(struct peer *peer) {
    struct order order;
    int ended;

    memset(&order, 0, sizeof order);
    order.what = 'q';
    write_all(peer->orders, &order, sizeof order);
    close(peer->orders);
    if (waitpid(peer->pid, &ended, 0) != peer->pid || !WIFEXITED(ended) || WEXITSTATUS(ended) != 0)
        FAIL("the peer ended with %#x", (unsigned)ended);
    close(peer->answers);
}

/* Stops it; none of its threads runs any more when this returns. */
static inline void peer_stop(struct peer *peer) {
    int stopped;

    kill(peer->pid, SIGSTOP);
    if (waitpid(peer->pid, &stopped, WUNTRACED) != peer->pid || !WIFSTOPPED(stopped))
        FAIL("the peer did not stop: %#x", (unsigned)stopped);
}

/* Lets it go on. */
static inline void peer_continue(struct peer *peer) {
    kill(peer->pid, SIGCONT);
}

/* Ends it as the kernel would. */
static inline void peer_kill(struct peer *peer) {
    int ended;

    kill(peer->pid, SIGKILL);
    kill(peer->pid, SIGCONT);
    waitpid(peer->pid, &ended, 0);
    close(peer->orders);
    close(peer->answers);
}

/* ---- running tests */

static inline int kit_one(const struct test *test, FILE *printed) {
    pid_t pid;
    int ended;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        dup2(fileno(printed), 1);
        dup2(fileno(printed), 2);
        setvbuf(stdout, NULL, _IONBF, 0);
        alarm(TEST_SECONDS);
        test->run();
        exit(0);
    }
    waitpid(pid, &ended, 0);
    if (WIFSIGNALED(ended)) {
        const char *why = WTERMSIG(ended) == SIGALRM ? " (the limit of a test)" : "";

        fseek(printed, 0, SEEK_END);
        fprintf(printed, "ended by signal %d%s\n", WTERMSIG(ended), why);
        return KIT_FAILED;
    }
    return WEXITSTATUS(ended);
}

static inline char *kit_text(FILE *printed) {
    size_t used;
    char *text = (char *)calloc(1, 1 << 16);

    fflush(printed);
    rewind(printed);
    used = fread(text, 1, (1 << 16) - 1, printed);
    text[used] = 0;
    return text;
}

static inline void kit_skip(const char *name, const char *reason) {
    const char *path = getenv("TE_SKIP_LOG");
    FILE *log = path ? fopen(path, "a") : NULL;

    if (log) {
        fprintf(log, "%s\t%.*s\n", name, (int)strcspn(reason, "\n"), reason);
        fclose(log);
    }
}

static inline int kit_wanted(const char *name, int count, char **words) {
    int filters = 0, hit = 0;

    for (int index = 1; index < count; index++) {
        if (!strcmp(words[index], "--test-threads") || !strcmp(words[index], "--skip")) {
            if (words[index][2] == 's' && index + 1 < count && strstr(name, words[index + 1]))
                return 0;
            index++;
        } else if (words[index][0] != '-') {
            filters++;
            hit |= strstr(name, words[index]) != NULL;
        }
    }
    return !filters || hit;
}

static inline int kit_main(const struct test *tests, size_t n_tests, int count, char **words) {
    int passed = 0, failed = 0;
    FILE *failures = tmpfile();

    for (size_t index = 0; index < n_tests; index++) {
        FILE *printed;
        char *text;
        int code;

        if (!kit_wanted(tests[index].name, count, words))
            continue;
        printed = tmpfile();
        code = kit_one(&tests[index], printed);
        text = kit_text(printed);
        if (code == KIT_SKIPPED)
            kit_skip(tests[index].name, text);
        if (code == 0 || code == KIT_SKIPPED) {
            passed++;
            printf("test %s ... ok\n", tests[index].name);
        } else {
            failed++;
            printf("test %s ... FAILED\n", tests[index].name);
            fprintf(failures, "---- %s stdout ----\n%sexit code %d\n\n", tests[index].name, text, code);
        }
        fflush(stdout);
        free(text);
        fclose(printed);
    }
    if (failed) {
        char *text = kit_text(failures);

        printf("\nfailures:\n\n%s", text);
        free(text);
    }
    fclose(failures);
    printf("\ntest result: %s. %d passed; %d failed; 0 ignored\n", failed ? "FAILED" : "ok", passed,
           failed);
    return failed ? 101 : 0;
}

#define TESTS(...)                                                                                 \
    int main(int count, char **words) {                                                            \
        static const struct test tests[] = {__VA_ARGS__};                                          \
                                                                                                   \
        return kit_main(tests, sizeof tests / sizeof tests[0], count, words);                      \
    }

#define TEST(name) {#name, name}

#endif /* KIT_H */
