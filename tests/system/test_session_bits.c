/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradient sessions, every policy: float sums have the bits that one process computes, which adds
 * in the same order (alone.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <braid/training.h>

#include "tests/system/reference.h"
#include "tests/system/ranks.h"

#define N          6
#define ITERATIONS 2 /* the second by the plan */

static const size_t counts[N] = {40, 3000, 70001, 1, 150000, 9000};
static const char *const policies[] = {"layerwise", "single", "bucket", "mgwfbp",
                                       "optimal",   "p3",     "auto"};

/* Numbers of many magnitudes: their sum depends on the order. */
static float value(int iteration, size_t i, int rank)
{
    uint32_t drawn = ((uint32_t)i + 1) * 2654435761u + (uint32_t)(7 * iteration + rank) * 40503u;

    drawn ^= drawn >> 15;
    return (float)(drawn >> 8) / (float)(1u << (drawn & 15));
}

static void fill(float *memory, size_t first, size_t count, int iteration, int rank)
{
    for (size_t i = 0; i < count; i++)
        memory[i] = value(iteration, first + i, rank);
}

/* First element of a layer, all layers side by side. */
static size_t start_of(int layer)
{
    size_t first = 0;

    for (int l = 0; l < layer; l++)
        first += counts[l];
    return first;
}

/* What one process makes of all ranks' gradients of a group of layers, in memory of each rank. */
static int add_alone(struct braid_comm *comm, const char *algorithm, int iteration, int first,
                     int end, float **memory)
{
    size_t count = start_of(end) - start_of(first);

    for (int r = 0; r < braid_size(comm); r++) {
        memory[r] = calloc(count, sizeof(float));
        CHECK(memory[r], "no memory");
        fill(memory[r], start_of(first), count, iteration, r);
    }
    RETURNS(0, reference_allreduce(comm, algorithm, memory, count));
    return 0;
}

static int check_group(struct braid_comm *comm, struct braid_session *session,
                       const char *algorithm, int iteration, int first, int end)
{
    float *memory[RANKS_MOST] = {0};
    int rc = add_alone(comm, algorithm, iteration, first, end, memory);
    size_t at = 0;

    for (int l = first; l < end && !rc; at += counts[l++])
        if (memcmp(braid_gradient(session, l), memory[braid_rank(comm)] + at,
                   counts[l] * sizeof(float)) != 0)
            rc = 1;
    for (int r = 0; r < braid_size(comm); r++)
        free(memory[r]);
    CHECK(!rc, "layers %d to %d of iteration %d differ from one process's sum", first, end - 1,
          iteration);
    return 0;
}

static int iterate(struct braid_comm *comm, struct braid_session *session, const char *algorithm,
                   int iteration)
{
    /* the step may make others */
    int first[N + 1], groups = braid_session_groups(session, first, N);

    CHECK(groups >= 1 && groups <= N, "%d groups", groups);
    first[groups] = N;
    for (int l = N - 1; l >= 0; l--) {
        fill(braid_gradient(session, l), start_of(l), counts[l], iteration, braid_rank(comm));
        RETURNS(0, braid_gradient_ready(session, l));
    }
    RETURNS(0, braid_session_step(session));
    for (int g = 0; g < groups; g++)
        if (check_group(comm, session, algorithm, iteration, first[g], first[g + 1]))
            return 1;
    return 0;
}

/* context: "direct": in the order of the ranks, which is its order; NULL: as the communicator
 * chooses. */
static int every_policy(struct braid_comm *comm, void *context)
{
    const char *algorithm = context;

    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        struct braid_session_options options = {.policy = policies[p],
                                                .warmup = 1,
                                                .a = 1e-4,
                                                .b = 1e-9,
                                                .order = algorithm ? BRAID_ORDER_RANKS
                                                                   : BRAID_ORDER_ANY};
        struct braid_layer layers[N] = {0};
        struct braid_session *session;

        for (int l = 0; l < N; l++)
            layers[l].count = counts[l];
        RETURNS(0, braid_session_create(comm, layers, N, &options, &session));
        for (int i = 0; i < ITERATIONS; i++)
            CHECK(!iterate(comm, session, algorithm, i), "policy %s", policies[p]);
        RETURNS(0, braid_session_free(session));
    }
    return 0;
}

static void session__bits_are_those_of_one_process(void **state)
{
    static const struct ranks jobs[] = {
        {.size = 3, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = RANKS_PATIENCE},
        {.size = 4, .backend = "shm", .timeout_ms = RANKS_PATIENCE},
        {.size = 4,
         .backend = "tcp",
         .devices = "127.0.0.1,127.0.0.2",
         .topology = "bcube:2,2",
         .timeout_ms = RANKS_PATIENCE},
        {.size = 8, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = RANKS_PATIENCE},
        {.size = 2, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = RANKS_PATIENCE},
    };
    const char *sanitize = getenv("BRAID_SANITIZE");
    size_t n =
        /* more of them prove nothing else there */
        sanitize && *sanitize ? 1 : sizeof jobs / sizeof *jobs;

    (void)state;
    for (size_t i = 0; i < n; i++)
        ranks_run(&jobs[i], every_policy, NULL);
    ranks_run(&jobs[0], every_policy, "direct");
}

/* What is compared with must depend on the order, or the tests here prove nothing: a ring adds in
 * another one than ranks have. */
static int orders_differ(struct braid_comm *comm, void *context)
{
    float *ring[RANKS_MOST] = {0}, *direct[RANKS_MOST] = {0};
    size_t same = 0;

    (void)context;
    if (add_alone(comm, "ring", 0, 2, 3, ring) || add_alone(comm, "direct", 0, 2, 3, direct))
        return 1;
    for (size_t i = 0; i < counts[2]; i++) {
        float sum = value(0, start_of(2) + i, 0);

        for (int r = 1; r < braid_size(comm); r++)
            sum = sum + value(0, start_of(2) + i, r);
        CHECK(!memcmp(&sum, &direct[0][i], sizeof sum),
              "direct exchange adds in another order than ranks have");
        same += !memcmp(&sum, &ring[0][i], sizeof sum);
    }
    CHECK(same < counts[2] * 9 / 10, "%zu of %zu sums do not depend on the order", same, counts[2]);
    for (int r = 0; r < braid_size(comm); r++) {
        free(ring[r]);
        free(direct[r]);
    }
    return 0;
}

static void session__bits_depend_on_the_order(void **state)
{
    struct ranks job = {
        .size = 3, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = RANKS_PATIENCE};

    (void)state;
    ranks_run(&job, orders_differ, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(session__bits_are_those_of_one_process),
        cmocka_unit_test(session__bits_depend_on_the_order),
    };

    return cmocka_run_group_tests_name("system/session_bits", tests, NULL, NULL);
}
