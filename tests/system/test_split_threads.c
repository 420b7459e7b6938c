/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads and communicators: threads that split at the same time, and threads that have a
 * communicator each. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/system/ranks.h"

#define I32 BRAID_INT32
#define SUM BRAID_SUM

static void everywhere(ranks_main *body)
{
    for (int n = 2; n <= 4; n++)
        ranks_everywhere(RANKS_STREAMS, n, body);
}

struct splitter {
    struct braid_comm *comm;
    int after_ms, times, rc;
};

static int split_often(struct splitter *s)
{
    int32_t one = 1, sum;

    for (int i = 0; i < s->times; i++) {
        struct braid_comm *part;

        RETURNS(0, braid_comm_split(s->comm, 0, i % 2 ? braid_rank(s->comm) : 0, &part));
        RETURNS(0, braid_allreduce(part, &one, &sum, 1, I32, SUM, NULL, NULL));
        CHECK(sum == braid_size(part), "%d", (int)sum);
        RETURNS(0, braid_finalize(part));
    }
    return 0;
}

static void *splitter(void *argument)
{
    struct splitter *s = argument;

    ranks_sleep_ms(s->after_ms);
    s->rc = split_often(s);
    return NULL;
}

/* Three threads of each rank split three communicators of other, overlapping ranks. */
static int threads(struct braid_comm *comm, void *context)
{
    enum { THREADS = 3 };
    struct splitter splitters[THREADS] = {{.comm = comm, .times = 100}};
    pthread_t ids[THREADS];

    (void)context;
    RETURNS(0, braid_comm_split(comm, 0, 0, &splitters[1].comm));
    RETURNS(0, braid_comm_split(comm, braid_rank(comm) / 2, 0, &splitters[2].comm));
    for (int i = 0; i < THREADS; i++) {
        splitters[i].times = 60;
        pthread_create(&ids[i], NULL, splitter, &splitters[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
        CHECK(splitters[i].rc == 0, "thread %d", i);
    }
    return 0;
}

static void split__by_several_threads(void **state)
{
    (void)state;
    everywhere(threads);
}

/*
 * The last rank is at a split of all ranks while the others are still at one of their part, and
 * second threads split a third communicator, whose number is between those of the two. No split may
 * wait for one that waits for it. The times only make it likely that the calls meet so.
 */
static int early_rank(struct braid_comm *comm, void *context)
{
    const bool early = braid_rank(comm) == braid_size(comm) - 1;
    struct splitter first = {.comm = comm, .times = 1};
    struct splitter second = {.after_ms = early ? 20 : 0, .times = 1};
    struct splitter own = {.after_ms = 20, .times = 1};
    pthread_t id;

    (void)context;
    RETURNS(0, braid_comm_split(comm, 0, 0, &second.comm));
    RETURNS(0, braid_comm_split(comm, early, 0, &own.comm));
    pthread_create(&id, NULL, splitter, &second);
    if (!early)
        splitter(&own);
    splitter(&first);
    pthread_join(id, NULL);
    CHECK(!own.rc && !first.rc && !second.rc, "%d, %d, %d", own.rc, first.rc, second.rc);
    return 0;
}

static void split__by_threads_while_a_rank_is_early(void **state)
{
    (void)state;
    everywhere(early_rank);
}

/* Threads with a communicator each, without a common order. */
static void *worker(void *argument)
{
    enum { COUNT = 200000 };
    struct splitter *s = argument;
    int32_t *in = calloc(COUNT, sizeof *in), *out = calloc(COUNT, sizeof *out);

    for (int i = 0; i < s->times && !s->rc; i++) {
        in[COUNT - 1] = i;
        s->rc = braid_allreduce(s->comm, in, out, i % 2 ? COUNT : 1, I32, SUM, NULL, NULL);
        if (i % 2 && out[COUNT - 1] != i * braid_size(s->comm))
            s->rc = 1;
    }
    free(in);
    free(out);
    return NULL;
}

static int own_communicators(struct braid_comm *comm, void *context)
{
    enum { THREADS = 3 };
    struct splitter workers[THREADS];
    pthread_t ids[THREADS];

    (void)context;
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct splitter){.times = 30};
        RETURNS(0, braid_comm_split(comm, 0, i * braid_rank(comm), &workers[i].comm));
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&ids[i], NULL, worker, &workers[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
        CHECK(workers[i].rc == 0, "thread %d: %d", i, workers[i].rc);
    }
    return 0;
}

static void split__a_thread_each(void **state)
{
    (void)state;
    everywhere(own_communicators);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split__by_several_threads),
        cmocka_unit_test(split__by_threads_while_a_rank_is_early),
        cmocka_unit_test(split__a_thread_each),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
