/* SPDX-License-Identifier: BSD-3-Clause */
/* Far more operations outstanding than can be under way, between real processes: they wait in
 * order, and all end right. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/system/ranks.h"

#define PARTS 3

struct job {
    int n; /* operations */
    int elements;
};

static struct braid_stats stats_of(struct braid_comm *comm)
{
    struct braid_stats stats = {0};

    (void)braid_stats(comm, &stats);
    return stats;
}

/* Bytes of memory that this process has. */
static double resident(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long all, pages = 0;

    if (!file || fscanf(file, "%ld %ld", &all, &pages) != 2)
        pages = 0;
    if (file)
        fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* A sanitizer's own memory grows with that of the program and stays. */
static bool is_sanitized(void)
{
    const char *sanitize = getenv("BRAID_SANITIZE");

    return sanitize && sanitize[0];
}

/* The i-th is on communicator i % PARTS. Rank 0 is far ahead of the others. */
static int all_reduces(struct braid_comm *comm, void *context)
{
    const struct job *job = context;
    int n = job->n, elements = job->elements, size = braid_size(comm), rank = braid_rank(comm);
    struct braid_op **ops = calloc((size_t)n, sizeof *ops);
    int32_t *data = malloc((size_t)n * (size_t)elements * sizeof *data);
    struct braid_comm *comms[PARTS] = {comm};
    uint64_t late = stats_of(comm).late_allocations;
    double before, most;

    CHECK(ops && data, "no memory");
    for (int i = 1; i < PARTS; i++)
        RETURNS(0, braid_comm_split(comm, 0, i == 1 ? -rank : rank, &comms[i]));
    for (int i = 0; i < n * elements; i++)
        data[i] = i + rank;
    if (rank) /* so that nothing has ended on rank 0 */
        ranks_await(0, 1);
    before = resident();
    for (int i = 0; i < n; i++) {
        int32_t *at = data + (ptrdiff_t)i * elements;

        RETURNS(0, braid_allreduce(comms[i % PARTS], at, at, (size_t)elements, BRAID_INT32,
                                   BRAID_SUM, NULL, &ops[i]));
    }
    if (!rank) {
        int outstanding = 0;

        for (int i = 0; i < PARTS; i++)
            outstanding += (int)stats_of(comms[i]).outstanding;
        CHECK(outstanding == n, "%d are outstanding", outstanding);
        CHECK(stats_of(comm).late_allocations > late, "the pool has not grown");
        ranks_tell(0);
    }
    most = resident();
    for (int k = 0; k < n; k++) {
        int i = (k * 7919 + rank) % n; /* a prime: in another order on each rank */

        RETURNS(0, braid_wait(ops[i], -1));
    }
    for (int i = 0; i < n * elements; i++)
        CHECK(data[i] == i * size + size * (size - 1) / 2, "element %d is %d", i, data[i]);
    for (int i = 0; i < n; i++) /* the places have been used again */
        RETURNS(-EINVAL, braid_wait(ops[i], 0));
    if (!rank && !is_sanitized() && most - before > 100e6)
        CHECK(resident() - before < (most - before) / 4, "of %.0f MB for operations %.0f are kept",
              (most - before) / 1e6, (resident() - before) / 1e6);
    free(data);
    free(ops);
    return braid_barrier(comm, NULL, NULL);
}

static void run(int kinds, const struct job *job, ranks_main *body)
{
    for (int i = 0; i < kinds; i++) {
        struct ranks ranks = ranks_kinds[i];

        ranks.size = 2;
        ranks.timeout_ms = RANKS_PATIENCE;
        ranks_run(&ranks, body, (void *)(uintptr_t)job);
    }
}

static void outstanding__all_reduces(void **state)
{
    (void)state;
    run(RANKS_KINDS, &(struct job){.n = 5000, .elements = 8}, all_reduces);
}

/* The number that is promised, of 1 KiB each; fewer where each takes ten times as long. */
static void outstanding__hundred_thousand(void **state)
{
    static const char *const back_ends[] = {"shm", "tcp"};
    struct job job = {.n = is_sanitized() ? 10000 : 100000, .elements = 256};

    (void)state;
    for (int i = 0; i < 2; i++)
        ranks_run(&(struct ranks){.size = 2, .backend = back_ends[i], .timeout_ms = RANKS_PATIENCE},
                  all_reduces, &job);
}

/* What the engine runs, as it is too large for shared memory: in fewer, as each takes longer. */
static void outstanding__all_reduces_of_the_engine(void **state)
{
    (void)state;
    run(RANKS_KINDS, &(struct job){.n = 2500, .elements = 2000}, all_reduces);
}

/* Receives of all tags first, then the sends, the last tag first; and puts. */
static int messages(struct braid_comm *comm, void *context)
{
    const struct job *job = context;
    int n = job->n, other = 1 - braid_rank(comm);
    struct braid_op **ops = calloc(3 * (size_t)n, sizeof *ops);
    uint64_t *memory = braid_alloc(comm, 3 * (size_t)n * sizeof *memory);
    uint64_t *from = memory, *to = memory + n, *put = memory + 2 * (ptrdiff_t)n;
    struct braid_key own, keys[2];

    CHECK(ops && memory, "no memory");
    RETURNS(0, braid_key(comm, memory, &own));
    RETURNS(0, braid_allgather(comm, &own, keys, sizeof own, BRAID_UINT8, NULL, NULL));
    for (int i = 0; i < n; i++) {
        from[i] = (uint64_t)i + 1;
        RETURNS(0, braid_recv(comm, &to[i], sizeof *to, other,
                              &(struct braid_options){.tag = (uint32_t)i % 50}, &ops[i]));
    }
    for (int k = 0; k < n; k++) {
        int i = k / 50 * 50 + 49 - k % 50;

        RETURNS(0, braid_send(comm, &from[i], sizeof *from, other,
                              &(struct braid_options){.tag = (uint32_t)i % 50}, &ops[n + i]));
        RETURNS(0,
                braid_put(comm, &from[i], sizeof *from, &keys[other],
                          (2 * (uint64_t)n + (uint64_t)i) * sizeof *from, NULL, &ops[2 * n + i]));
    }
    for (int i = 3 * n; i-- > 0;)
        RETURNS(0, braid_wait(ops[i], -1));
    for (int i = 0; i < n; i++)
        CHECK(to[i] == from[i], "message %d is %llu", i, (unsigned long long)to[i]);
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    for (int i = 0; i < n; i++)
        CHECK(put[i] == from[i], "what was put to %d is %llu", i, (unsigned long long)put[i]);
    free(ops);
    return 0;
}

static void outstanding__messages_and_puts(void **state)
{
    (void)state;
    run(RANKS_KINDS, &(struct job){.n = 2500}, messages);
}

/* Puts, gets and atomics, small and large, none of which is waited for before the last one is
 * submitted. */
static int accesses(struct braid_comm *comm, void *context)
{
    const struct job *job = context;
    size_t n = (size_t)job->n, bulk = (size_t)job->elements, large = n / 100;
    struct braid_op **ops = calloc(3 * n + 2 * large, sizeof *ops), **next = ops;
    /* n each: what is put here, what is read from here, one that counts, what is read there; then
     * large ones: what is put there and read from here twice, what is put here, what is read */
    uint64_t *memory = braid_alloc(comm, (4 * n + 4 * bulk) * sizeof *memory);
    uint64_t *before = calloc(n, sizeof *before);
    uint64_t *from = memory + n, *got = memory + 3 * n, *own = memory + 4 * n;
    uint64_t each = n * sizeof *memory, much = bulk * sizeof *memory;
    const struct braid_key *key;
    struct braid_key mine, keys[2];

    CHECK(ops && memory && before, "no memory");
    for (size_t i = 0; i < n; i++)
        from[i] = i + 7;
    for (size_t i = 0; i < 2 * bulk; i++)
        own[i] = i % bulk * 3;
    RETURNS(0, braid_key(comm, memory, &mine));
    RETURNS(0, braid_allgather(comm, &mine, keys, sizeof mine, BRAID_UINT8, NULL, NULL));
    key = &keys[1 - braid_rank(comm)];
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = i * sizeof *memory;

        RETURNS(0, braid_put(comm, &from[i], sizeof *from, key, at, NULL, next++));
        RETURNS(0, braid_get(comm, &got[i], sizeof *got, key, each + at, NULL, next++));
        RETURNS(0, braid_fetch_add(comm, &before[i], i + 1, key, 2 * each, NULL, next++));
    }
    for (size_t i = 0; i < large; i++) {
        RETURNS(0, braid_put(comm, own, much, key, 4 * each + 2 * much, NULL, next++));
        RETURNS(0, braid_get(comm, own + 3 * bulk, much, key, 4 * each + much, NULL, next++));
    }
    while (next > ops)
        RETURNS(0, braid_wait(*--next, -1));
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    for (size_t i = 0; i < n; i++)
        CHECK(memory[i] == i + 7 && got[i] == i + 7, "access %zu", i);
    CHECK(memory[2 * n] == n * (n + 1) / 2, "%llu is the sum", (unsigned long long)memory[2 * n]);
    for (size_t i = 0; i < 2 * bulk; i++)
        CHECK(own[2 * bulk + i] == i % bulk * 3, "word %zu of the large ones", i);
    free(before);
    free(ops);
    return 0;
}

/* 20,000, of which 134 are larger than what travels eagerly. */
static void outstanding__accesses(void **state)
{
    static const char *const back_ends[] = {"shm", "tcp"};
    struct job job = {.n = is_sanitized() ? 1000 : 6700, .elements = 20000};

    (void)state;
    for (int i = 0; i < 2; i++)
        ranks_run(&(struct ranks){.size = 2, .backend = back_ends[i], .timeout_ms = RANKS_PATIENCE},
                  accesses, &job);
}

/* A collective is not behind messages that nobody matches before it. */
static int unmatched(struct braid_comm *comm, void *context)
{
    const struct job *job = context;
    int n = job->n;
    struct braid_op **ops = calloc((size_t)n, sizeof *ops);
    int32_t *data = calloc((size_t)n, sizeof *data), sum = 1;

    CHECK(ops && data, "no memory");
    for (int i = 0; i < n && !braid_rank(comm); i++)
        RETURNS(0, braid_recv(comm, &data[i], sizeof *data, 1, NULL, &ops[i]));
    RETURNS(0, braid_allreduce(comm, &sum, &sum, 1, BRAID_INT32, BRAID_SUM, NULL, NULL));
    CHECK(sum == 2, "%d", sum);
    for (int i = 0; i < n && braid_rank(comm); i++)
        RETURNS(0, braid_send(comm, &i, sizeof i, 0, NULL, NULL));
    for (int i = 0; i < n && !braid_rank(comm); i++) {
        RETURNS(0, braid_wait(ops[i], -1));
        CHECK(data[i] == i, "message %d is %d", i, data[i]);
    }
    free(data);
    free(ops);
    return 0;
}

static void outstanding__collective_behind_unmatched_messages(void **state)
{
    (void)state;
    run(RANKS_KINDS, &(struct job){.n = 2500}, unmatched);
}

static void ignore(void *context, int result)
{
    (void)context;
    (void)result;
}

/* The deadline of one that waits for others counts from its submission. */
static int late(struct braid_comm *comm, void *context)
{
    static int32_t data[3000];
    struct braid_op *op;

    (void)context;
    if (braid_rank(comm)) { /* comes when it is too late */
        ranks_await(0, 1);
        return 0;
    }
    for (int i = 0; i < 2999; i++)
        RETURNS(0, braid_allreduce(comm, &data[i], &data[i], 1, BRAID_INT32, BRAID_SUM,
                                   &(struct braid_options){.done = ignore}, NULL));
    RETURNS(0, braid_allreduce(comm, &data[2999], &data[2999], 1, BRAID_INT32, BRAID_SUM,
                               &(struct braid_options){.timeout_ms = 100}, &op));
    SAYS(-ETIMEDOUT, "operation 2999|100 ms|submitted before it", braid_wait(op, -1));
    ranks_tell(0);
    RETURNS(-ETIMEDOUT, braid_comm_error(comm));
    return 0;
}

static void outstanding__deadline(void **state)
{
    (void)state;
    run(2, &(struct job){0}, late);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outstanding__all_reduces),
        cmocka_unit_test(outstanding__hundred_thousand),
        cmocka_unit_test(outstanding__all_reduces_of_the_engine),
        cmocka_unit_test(outstanding__messages_and_puts),
        cmocka_unit_test(outstanding__accesses),
        cmocka_unit_test(outstanding__collective_behind_unmatched_messages),
        cmocka_unit_test(outstanding__deadline),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
