/* SPDX-License-Identifier: BSD-3-Clause */
/* braid beside what else a process does: signals, threads that are cancelled, fork(). */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/system/ranks.h"

/* ---- signals --------------------------------------------------------------------------------- */

/* The signals that a thread of this process lets through, a bit each; 0: it blocks all that can be
 * blocked. */
static uint64_t open_to(const char *thread)
{
    uint64_t blocked = UINT64_MAX; /* of a thread that has ended meanwhile */
    char path[300], line[256];
    FILE *status;

    snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
    status = fopen(path, "re");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "SigBlk:", 7))
            blocked = strtoull(line + 7, NULL, 16);
    if (status)
        fclose(status);
    for (int number = 1; number <= SIGRTMAX; number++)
        if (number == SIGKILL || number == SIGSTOP || (number > SIGSYS && number < SIGRTMIN))
            blocked |= 1ull << (number - 1);
    return ~blocked;
}

/* All threads but the program's, which is the only one that it has. */
static int threads_block_signals(struct braid_comm *comm, void *context)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    int threads = 0;

    (void)comm, (void)context;
    CHECK(tasks, "no list of threads");
    while ((entry = readdir(tasks))) {
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid())
            continue;
        threads++;
        CHECK(!open_to(entry->d_name), "thread %s lets through the signals %llx", entry->d_name,
              (unsigned long long)open_to(entry->d_name));
    }
    closedir(tasks);
    CHECK(threads, "no thread of braid's was seen");
    return 0;
}

static void process__no_signal_reaches_a_thread_of_braid(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 2, threads_block_signals);
}

/* ---- threads that are cancelled -------------------------------------------------------------- */

enum { CANCELS = 80, SEND = 0, RECEIVE = 1, MOST_BYTES = 100 };

struct caller {
    struct braid_comm *comm;
    size_t bytes; /* of its message */
    _Atomic int begun;
    int rc, state; /* of the call; cancellation behind it */
};

/* A message, or (bytes 0) a broadcast, which within a host waits at the shared segment. */
static void *receive_for_ever(void *argument)
{
    struct caller *r = argument;
    uint64_t message = 0;

    atomic_store(&r->begun, 1);
    r->rc = r->bytes ? braid_recv(r->comm, &message, r->bytes, 1, NULL, NULL)
                     : braid_broadcast(r->comm, NULL, &message, 1, BRAID_UINT64, 1, NULL, NULL);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &r->state);
    while (pause()) /* a cancellation point: here the thread ends */
        ;
    return NULL;
}

/* Rank 0 cancels threads that wait for a message or a broadcast; rank 1 makes each after that. */
static int cancelled(struct braid_comm *comm, void *context)
{
    int32_t one = 1, sum = 0;

    (void)context;
    for (int i = 0; i < CANCELS; i++) {
        uint64_t message = 7;
        struct caller r = {.comm = comm, .bytes = i % 3 ? sizeof message : 0, .rc = 1, .state = -1};
        pthread_t thread;
        void *result;

        if (braid_rank(comm)) {
            ranks_await(SEND, i + 1);
            RETURNS(0, r.bytes ? braid_send(comm, &message, r.bytes, 0, NULL, NULL)
                               : braid_broadcast(comm, &message, &message, 1, BRAID_UINT64, 1, NULL,
                                                 NULL));
            continue;
        }
        CHECK(!pthread_create(&thread, NULL, receive_for_ever, &r), "no thread");
        while (!atomic_load(&r.begun))
            ranks_sleep_ms(1);
        usleep((useconds_t)(i % 8 * 100)); /* wherever in the call it is: no moment is a bad one */
        CHECK(!pthread_cancel(thread), "round %d", i);
        ranks_tell(SEND);
        CHECK(!pthread_join(thread, &result), "round %d", i);
        CHECK(result == PTHREAD_CANCELED, "round %d", i);
        CHECK(r.rc == 0 && r.state == PTHREAD_CANCEL_ENABLE, "round %d: %d, state %d", i, r.rc,
              r.state);
    }
    RETURNS(0, braid_comm_error(comm));
    RETURNS(0, braid_allreduce(comm, &one, &sum, 1, BRAID_INT32, BRAID_SUM, NULL, NULL));
    CHECK(sum == braid_size(comm), "the sum is %d", (int)sum);
    return 0;
}

static void *send_one(void *argument)
{
    struct caller *r = argument;
    char message[MOST_BYTES] = {7};

    while (!atomic_load(&r->begun)) /* no cancellation point */
        ;
    r->rc = braid_send(r->comm, message, r->bytes, 1, NULL, NULL);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &r->state);
    while (pause())
        ;
    return NULL;
}

/* Rank 0 cancels threads before they send a message, within its header or behind it, mostly to a
 * rank that sleeps: it waits for longer than it spins. */
static int cancelled_senders(struct braid_comm *comm, void *context)
{
    (void)context;
    for (int i = 0; i < CANCELS / 4; i++) {
        struct caller r = {.comm = comm, .bytes = i % 2 ? MOST_BYTES : 8, .rc = 1, .state = -1};
        char message[MOST_BYTES] = {0};
        pthread_t thread;
        void *result;

        if (braid_rank(comm)) {
            ranks_tell(RECEIVE);
            RETURNS(0, braid_recv(comm, message, r.bytes, 0, NULL, NULL));
            CHECK(message[0] == 7, "round %d: %d", i, message[0]);
            continue;
        }
        ranks_await(RECEIVE, i + 1);
        ranks_sleep_ms(5);
        CHECK(!pthread_create(&thread, NULL, send_one, &r), "no thread");
        CHECK(!pthread_cancel(thread), "round %d", i);
        atomic_store(&r.begun, 1);
        CHECK(!pthread_join(thread, &result), "round %d", i);
        CHECK(result == PTHREAD_CANCELED, "round %d", i);
        CHECK(r.rc == 0 && r.state == PTHREAD_CANCEL_ENABLE, "round %d: %d, state %d", i, r.rc,
              r.state);
        RETURNS(0, braid_comm_error(comm));
    }
    return 0;
}

static void process__cancelled_threads_leave_no_lock(void **state)
{
    static const int kinds[] = {0, 2, 4}; /* tcp, shm, udp */

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct ranks job = ranks_kinds[kinds[i]];

        job.size = 2;
        job.timeout_ms = RANKS_PATIENCE;
        ranks_run(&job, cancelled, NULL);
        ranks_run(&job, cancelled_senders, NULL);
    }
}

/* ---- fork() ---------------------------------------------------------------------------------- */

enum { COUNT = 1000, ROUNDS = 20 };

/* What a program may have in its hands when it forks. */
struct held {
    struct braid_comm *comm, *part;
    struct braid_op *op;
    struct braid_region *region;
    int32_t *values;
};

static int child_is_refused(const struct held *h)
{
    char text[32];
    struct braid_stats stats = {0};
    struct braid_region *region;
    struct braid_comm *out;
    struct braid_key key;
    int32_t one = 1, sum = 0;
    int done;

    snprintf(text, sizeof text, "fork of rank %d", h->values[0] % 1000);
    SAYS(-EPERM, text, braid_allreduce(h->comm, &one, &sum, 1, BRAID_INT32, BRAID_SUM, NULL, NULL));
    SAYS(-EPERM, text,
         braid_allreduce(h->part, h->values, h->values, COUNT, BRAID_INT32, BRAID_SUM, NULL, NULL));
    SAYS(-EPERM, text, braid_barrier(h->comm, NULL, NULL));
    SAYS(-EPERM, text, braid_send(h->comm, &one, sizeof one, 0, NULL, NULL));
    SAYS(-EPERM, text, braid_comm_split(h->comm, 0, 0, &out));
    SAYS(-EPERM, text, braid_comm_abort(h->comm, "a child wants it"));
    SAYS(-EPERM, text, braid_comm_error(h->comm));
    SAYS(-EPERM, text, braid_wait(h->op, -1));
    SAYS(-EPERM, text, braid_test(h->op, &done));
    SAYS(-EPERM, text, braid_op_free(h->op));
    SAYS(-EPERM, text, braid_register(h->comm, &one, sizeof one, &region));
    SAYS(-EPERM, text, braid_deregister(h->region));
    SAYS(-EPERM, text, braid_key(h->comm, h->values, &key));
    SAYS(-EPERM, text, braid_free(h->comm, h->values));
    SAYS(-EPERM, text, braid_stats(h->comm, &stats));
    SAYS(-EPERM, text, braid_rank(h->comm));
    CHECK(!braid_alloc(h->comm, 4096), "memory for a fork");
    CHECK(!braid_algorithm(h->comm, "allreduce", 1, BRAID_INT32), "an algorithm for a fork");
    return 0;
}

/* ThreadSanitizer ends a child of fork() that starts a thread. */
#ifdef __SANITIZE_THREAD__
#define CHILD_MAY_START_THREADS false
#else
#define CHILD_MAY_START_THREADS true
#endif

/* The allocator of AddressSanitizer (gcc 12) may be locked in the child when another thread used it
 * at the fork. */
#ifdef __SANITIZE_ADDRESS__
#define CHILD_MAY_ALLOCATE false
#else
#define CHILD_MAY_ALLOCATE true
#endif

static int child(const struct held *h)
{
    struct braid_comm *own;
    int32_t one = 1, sum = 0;

    RETURNS(0, child_is_refused(h));
    CHECK(h->values[1] == 1, "the child sees %d in memory of braid_alloc()", (int)h->values[1]);
    for (int i = 0; i < COUNT; i++)
        h->values[i] = -1; /* its own copy */
    if (!CHILD_MAY_ALLOCATE)
        return 0; /* what follows frees and allocates */
    RETURNS(0, braid_finalize(h->part));
    RETURNS(0, braid_finalize(h->comm));
    RETURNS(-EINVAL, braid_barrier(h->comm, NULL, NULL));
    if (!CHILD_MAY_START_THREADS)
        return 0;
    RETURNS(0, braid_init(&(struct braid_config){.size = 1}, &own)); /* a job of its own */
    RETURNS(0, braid_allreduce(own, &one, &sum, 1, BRAID_INT32, BRAID_SUM, NULL, NULL));
    CHECK(sum == 1, "alone, the sum is %d", (int)sum);
    RETURNS(0, braid_finalize(own));
    return 0;
}

static int sum_up(struct braid_comm *comm, size_t count)
{
    static int32_t ones[1 << 16], sums[1 << 16];

    for (size_t i = 0; i < count; i++)
        ones[i] = 1;
    RETURNS(0, braid_allreduce(comm, ones, sums, count, BRAID_INT32, BRAID_SUM, NULL, NULL));
    for (size_t i = 0; i < count; i++)
        CHECK(sums[i] == braid_size(comm), "element %zu is %d", i, (int)sums[i]);
    return 0;
}

/* Both ranks fork; the job goes on as if they had not. */
static int forked(struct braid_comm *comm, void *context)
{
    static uint64_t mine, message;
    struct held h = {.comm = comm, .values = braid_alloc(comm, COUNT * sizeof *h.values)};
    int peer = 1 - braid_rank(comm), status = -1;
    pid_t pid;

    (void)context;
    CHECK(h.values, "no memory");
    RETURNS(0, braid_comm_split(comm, 0, 0, &h.part));
    RETURNS(0, braid_register(comm, &mine, sizeof mine, &h.region));
    RETURNS(0, braid_recv(comm, &message, sizeof message, peer, NULL, &h.op));
    for (int i = 0; i < COUNT; i++)
        h.values[i] = i ? i : 1000 + braid_rank(comm);
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    pid = fork();
    if (!pid) {
        alarm(RANKS_LIMIT);
        _exit(child(&h));
    }
    CHECK(pid > 0, "no fork");
    for (int i = 0; i < ROUNDS; i++) /* while the child is at it */
        RETURNS(0, sum_up(comm, i % 2 ? 1 << 16 : 10));
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "the child ended with %d", status);
    for (int i = 0; i < COUNT; i++)
        CHECK(h.values[i] == (i ? i : 1000 + braid_rank(comm)),
              "the child has written %d to element %d", (int)h.values[i], i);
    RETURNS(0, braid_comm_error(comm));
    for (int i = 0; i < ROUNDS; i++)
        RETURNS(0, sum_up(comm, i % 2 ? 1 << 16 : 10));
    RETURNS(0, braid_send(comm, &mine, sizeof mine, peer, NULL, NULL));
    RETURNS(0, braid_wait(h.op, -1));
    RETURNS(0, braid_finalize(h.part));
    return 0;
}

static void process__a_fork_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 2, forked);
}

/* Comes and goes until it is told to stop: a job of its own, again and again. */
static void *come_and_go(void *stop)
{
    while (!atomic_load((atomic_bool *)stop)) {
        struct braid_comm *comm;

        if (braid_init(&(struct braid_config){.size = 1}, &comm) || braid_finalize(comm))
            return "a job of one rank fails";
    }
    return NULL;
}

static int alone(void)
{
    struct braid_comm *own;

    RETURNS(0, braid_init(&(struct braid_config){.size = 1}, &own));
    RETURNS(0, braid_finalize(own));
    return 0;
}

/* Whatever another thread has locked when the program forks, the child can use braid. */
static void process__a_fork_beside_other_threads_leaves_no_lock(void **state)
{
    enum { THREADS = 3, FORKS = 300 };
    atomic_bool stop = false;
    pthread_t threads[THREADS];

    (void)state;
    if (!CHILD_MAY_START_THREADS || !CHILD_MAY_ALLOCATE)
        skip();
    assert_int_equal(alone(), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &stop), 0);
    for (int i = 0; i < FORKS; i++) {
        int status = -1;
        pid_t pid = fork();

        if (!pid) {
            alarm(RANKS_LIMIT);
            _exit(alone());
        }
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (status)
            fail_msg("child %d ended with %d", i, status);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) {
        void *failed;

        assert_int_equal(pthread_join(threads[i], &failed), 0);
        if (failed)
            fail_msg("%s", (const char *)failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(process__no_signal_reaches_a_thread_of_braid),
        cmocka_unit_test(process__cancelled_threads_leave_no_lock),
        cmocka_unit_test(process__a_fork_is_refused_and_changes_nothing),
        cmocka_unit_test(process__a_fork_beside_other_threads_leaves_no_lock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
