/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gradient sessions in virtual time: ranks whose layers become ready in orders of their own, at
 * times of their own, over the engine and the protocol as they are. A rank may not block here, so
 * it steps when its all-reduces have ended.
 */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "collectives/comm/gpu_ops.h"
#include "collectives/comm/context.h"
#include "tests/sim/training_comm.h"
#include "training/session/session.h"

#define RANKS      5
#define LAYERS     9
#define ITERATIONS 6
#define ALL        (RANKS * ITERATIONS * LAYERS)

static const size_t counts[LAYERS] = {3, 20000, 1, 700, 5000, 90, 40000, 2, 300};

struct program {
    struct braid_comm comm; /* first: what training/ has in its hands */
    struct braid_session *session;
    struct br_random random;
    int order[LAYERS], layer, iteration;
    uint64_t until;          /* ns: the backward pass of the next layer ends */
    size_t sent[ALL], sends; /* elements of each all-reduce, in the order in which they started */
};

static struct br_context test_context = {.gpu = &br_gpu_cuda};
static struct br_group group;
static struct program programs[RANKS];

/* ---- what training/ calls -------------------------------------------------------------------- */

int __wrap_braid_allreduce(struct braid_comm *comm, const void *from, void *to, size_t count,
                           enum braid_type type, enum braid_reduction reduction,
                           const struct braid_options *options, struct braid_op **op);

int __wrap_braid_allreduce(struct braid_comm *comm, const void *from, void *to, size_t count,
                           enum braid_type type, enum braid_reduction reduction,
                           const struct braid_options *options, struct braid_op **op)
{
    struct program *g = (struct program *)comm;

    assert_true(g->sends < ALL);
    g->sent[g->sends++] = count;
    return training_submit(comm,
                           (struct br_operation){.kind = BR_OPERATION_COLLECTIVE,
                                                 .collective = BR_ALLREDUCE,
                                                 .send = from,
                                                 .recv = to,
                                                 .send_bytes = count * sizeof(int32_t),
                                                 .recv_bytes = count * sizeof(int32_t),
                                                 .count = count,
                                                 .type = type,
                                                 .reduction = reduction},
                           options, op);
}

/* ---- a rank ---------------------------------------------------------------------------------- */

/* One rank in four has no gradient of a layer. */
static bool is_unused(int iteration, int layer, int rank)
{
    return (iteration + 3 * layer + rank) % 4 == 0;
}

static int32_t value(int iteration, int layer, size_t i, int rank)
{
    return (int32_t)(i % 1000) + 7 * iteration + 13 * layer + 1000 * rank;
}

static void begin_iteration(struct program *g, uint64_t now)
{
    g->layer = 0;
    g->until = now + br_random_below(&g->random, 2 * BR_MS);
    for (int i = 0; i < LAYERS; i++) {
        int j = (int)br_random_below(&g->random, (uint64_t)i + 1);

        g->order[i] = g->order[j];
        g->order[j] = i;
    }
}

static void make_ready(struct program *g, uint64_t now)
{
    int layer = g->order[g->layer++], rank = g->comm.rank;
    int32_t *gradient = braid_gradient(g->session, layer);

    for (size_t i = 0; i < counts[layer]; i++)
        gradient[i] = value(g->iteration, layer, i, rank);
    if (is_unused(g->iteration, layer, rank))
        assert_int_equal(braid_gradient_unused(g->session, layer), 0);
    else
        assert_int_equal(braid_gradient_ready(g->session, layer), 0);
    assert_int_equal(braid_gradient_ready(g->session, layer), -EINVAL);
    if (g->layer < LAYERS)
        assert_int_equal(braid_session_step(g->session), -EINVAL);
    g->until = now + br_random_below(&g->random, 2 * BR_MS);
}

static bool may_step(const struct program *g)
{
    const struct braid_session *s = g->session;

    for (uint32_t i = 0; i < s->n_groups; i++)
        if (!s->ops[i] || !training_has_ended(s->ops[i]))
            return false;
    return true;
}

static void step(struct program *g)
{
    assert_int_equal(braid_session_step(g->session), 0);
    for (int l = 0; l < LAYERS; l++) {
        const int32_t *gradient = braid_gradient(g->session, l);

        for (size_t i = 0; i < counts[l]; i++) {
            int32_t sum = 0;

            for (int r = 0; r < RANKS; r++)
                sum += is_unused(g->iteration, l, r) ? 0 : value(g->iteration, l, i, r);
            if (gradient[i] != sum)
                fail_msg("rank %d iteration %d layer %d element %zu: %d, not %d", g->comm.rank,
                         g->iteration, l, i, gradient[i], sum);
        }
    }
}

static uint64_t turn(void *with, uint32_t rank, uint64_t now)
{
    struct program *g = &programs[rank];

    (void)with;
    while (g->iteration < ITERATIONS) {
        if (g->layer < LAYERS && now < g->until)
            return g->until;
        if (g->layer < LAYERS) {
            make_ready(g, now);
        } else if (may_step(g)) {
            step(g);
            g->iteration++;
            begin_iteration(g, now);
        } else {
            return UINT64_MAX;
        }
    }
    return UINT64_MAX;
}

static void train(const char *policy)
{
    static struct br_topology topology;
    struct br_sim_job_config config = {
        .topology = &topology,
        .rails = 1,
        .network = {.seed = 1, .bits_per_second = 1000000000, .latency_ns = 50000}};
    struct braid_session_options options = {.policy = policy,
                                            .type = BRAID_INT32,
                                            .warmup = INT_MAX,
                                            .bucket_bytes = 64 << 10,
                                            .a = 1e-4};
    struct braid_layer layers[LAYERS] = {0};

    assert_int_equal(br_topology_parse(&topology, "flat:5"), 0);
    br_cost_model_on(&config.model, &topology, BR_COST_NETWORK, 1);
    assert_int_equal(br_sim_job_open(&training_job, &config), 0);
    assert_int_equal(br_sim_job_connect(&training_job), 0);
    for (int l = 0; l < LAYERS; l++)
        layers[l].count = counts[l];
    for (int r = 0; r < RANKS; r++) {
        struct program *g = &programs[r];

        *g = (struct program){
            .comm = {.context = &test_context, .group = &group, .rank = r, .size = RANKS}};
        br_random_seed(&g->random, (uint64_t)r + 1);
        if (braid_session_create(&g->comm, layers, LAYERS, &options, &g->session))
            fail_msg("%s", br_error_message());
        begin_iteration(g, 0);
    }
    training_job.program = (struct br_sim_job_program){.ended = training_ended, .progress = turn};
    for (int r = 0; r < RANKS; r++)
        br_sim_job_wake(&training_job, (uint32_t)r);
    for (int r = 0; r < RANKS; r++)
        while (programs[r].iteration < ITERATIONS)
            assert_int_equal(br_sim_job_advance(&training_job), 0);
    for (int r = 0; r < RANKS; r++) {
        assert_true(programs[r].sends && programs[r].sends == programs[0].sends);
        assert_memory_equal(programs[r].sent, programs[0].sent, programs[0].sends * sizeof(size_t));
        assert_int_equal(braid_session_free(programs[r].session), 0);
    }
    br_sim_job_close(&training_job);
}

/* The sums are right, and the all-reduces start in the same order on all ranks. */
static void session__any_order_on_each_rank(void **state)
{
    static const char *const policies[] = {"layerwise", "bucket", "single", "p3"};

    (void)state;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        train(policies[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(session__any_order_on_each_rank)};

    return cmocka_run_group_tests_name("sim/session", tests, NULL, NULL);
}
