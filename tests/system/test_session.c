/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradient sessions between real processes: values with every policy and layout of memory, plans,
 * and misuse. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <braid/training.h>

#include "base/random.h"
#include "collectives/tuning/calibration.h"
#include "collectives/tuning/tuning.h"
#include "tests/says.h"
#include "tests/system/ranks.h"

#define N          7
#define ITERATIONS 7

static const size_t counts[N] = {40, 3000, 70000, 1, 20000, 500, 9000};
static const char *const policies[] = {"layerwise", "single", "bucket", "mgwfbp",
                                       "optimal",   "p3",     "auto"};

enum layout { ALLOCATED, SIDE_BY_SIDE_DOWN, APART, LAYOUTS };

static size_t all_counts(void)
{
    size_t all = 0;

    for (int l = 0; l < N; l++)
        all += counts[l];
    return all;
}

/* Layers in memory of the test's; ALLOCATED: none. The caller frees memory[0]. */
static int32_t *place(enum layout layout, struct braid_layer layers[N])
{
    int32_t *memory = calloc(all_counts() + N, sizeof *memory), *next = memory;

    for (int i = 0; i < N; i++) {
        int l = layout == SIDE_BY_SIDE_DOWN ? N - 1 - i : i;

        layers[l] =
            (struct braid_layer){.gradient = layout == ALLOCATED ? NULL : next, .count = counts[l]};
        next += counts[l] + (layout == APART);
    }
    return memory;
}

static int32_t value(int iteration, int layer, size_t i, int rank)
{
    return (int32_t)(i % 1000) + 7 * iteration + 13 * layer + 1000 * rank;
}

static void write_layer(struct braid_session *session, int iteration, int layer, int rank)
{
    int32_t *gradient = braid_gradient(session, layer);

    for (size_t i = 0; i < counts[layer]; i++)
        gradient[i] = value(iteration, layer, i, rank);
}

static int check_layer(struct braid_session *session, int iteration, int layer, int size)
{
    const int32_t *gradient = braid_gradient(session, layer);

    for (size_t i = 0; i < counts[layer]; i++) {
        int32_t sum = size * value(iteration, layer, i, 0) + 1000 * (size * (size - 1) / 2);

        CHECK(gradient[i] == sum, "iteration %d layer %d element %zu: %d, not %d", iteration, layer,
              i, gradient[i], sum);
    }
    return 0;
}

/* One iteration as in the header; the results of the one before are looked at in the forward pass,
 * or after the step. */
static int iterate(struct braid_comm *comm, struct braid_session *session, int iteration,
                   bool overlap)
{
    for (int l = 0; l < N && overlap; l++) {
        RETURNS(0, braid_gradient_wait(session, l));
        if (iteration && check_layer(session, iteration - 1, l, braid_size(comm)))
            return 1;
    }
    if (overlap)
        RETURNS(0, braid_session_step(session));
    for (int l = N - 1; l >= 0; l--) {
        write_layer(session, iteration, l, braid_rank(comm));
        RETURNS(0, braid_gradient_ready(session, l));
    }
    if (overlap)
        return 0;
    RETURNS(0, braid_session_step(session));
    for (int l = 0; l < N; l++)
        if (check_layer(session, iteration, l, braid_size(comm)))
            return 1;
    return 0;
}

static int check_report(struct braid_session *session, enum layout layout, const char *policy,
                        bool overlap)
{
    struct braid_session_report report = {0};
    int first[N], groups = braid_session_groups(session, first, N);

    RETURNS(0, braid_session_report(session, &report));
    CHECK((int)report.iterations == ITERATIONS - overlap, "%d iterations", (int)report.iterations);
    CHECK(report.groups == groups && groups >= 1 && groups <= N && first[0] == 0, "%d groups",
          groups);
    CHECK(report.plans >= 1, "no plan");
    CHECK(report.a + report.b > 0 && report.iteration > 0 && report.predicted_iteration > 0,
          "no times");
    for (int p = 0; p < BRAID_SESSION_POLICIES; p++)
        CHECK(report.policies[6] <= report.policies[p] * 1.0000001, "auto is worse than %s",
              policies[p]);
    CHECK(layout == APART || !report.copied_bytes, "what lies side by side was copied");
    if (!strcmp(policy, "layerwise") || !strcmp(policy, "p3"))
        CHECK(groups == N && !report.copied_bytes && report.urgent == !strcmp(policy, "p3"),
              "%d groups", groups);
    if (!strcmp(policy, "single")) {
        CHECK(groups == 1, "%d groups", groups);
        CHECK(layout != APART || report.copied_bytes, "nothing was copied");
    }
    return 0;
}

static int train(struct braid_comm *comm, const char *policy, enum layout layout, bool overlap)
{
    struct braid_session_options options = {
        .policy = policy, .type = BRAID_INT32, .warmup = 2, .replan = 2, .bucket_bytes = 64 << 10};
    struct braid_session *session;
    struct braid_layer layers[N];
    int32_t *memory = place(layout, layers);
    int rc;

    if (layout != ALLOCATED) { /* else it is measured */
        options.a = 1e-4;
        options.b = 1e-9;
    }
    RETURNS(0, braid_session_create(comm, layers, N, &options, &session));
    for (int i = 0; i < ITERATIONS; i++) {
        rc = iterate(comm, session, i, overlap);
        CHECK(!rc, "policy %s, layout %d, overlap %d", policy, (int)layout, overlap);
    }
    rc = check_report(session, layout, policy, overlap);
    CHECK(!rc, "policy %s, layout %d, overlap %d", policy, (int)layout, overlap);
    RETURNS(0, braid_session_free(session)); /* with overlap the last gradients are under way */
    free(memory);
    return 0;
}

static int all_policies(struct braid_comm *comm, void *context)
{
    (void)context;
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++)
        if (train(comm, policies[p], (enum layout)((p + 1) % LAYOUTS), p % 2))
            return 1;
    return 0;
}

static void session__every_policy(void **state)
{
    struct ranks tcp = {
        .size = 2, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = RANKS_PATIENCE};
    struct ranks memory = {.size = 3, .backend = "shm", .timeout_ms = RANKS_PATIENCE};
    struct ranks alone = {.size = 1, .timeout_ms = RANKS_PATIENCE};

    (void)state;
    ranks_run(&tcp, all_policies, NULL);
    ranks_run(&memory, all_policies, NULL);
    ranks_run(&alone, all_policies, NULL);
}

/* ---- auto tries ------------------------------------------------------------------------------ */

/* The groups are the same on all ranks. */
static int check_groups(struct braid_comm *comm, struct braid_session *session)
{
    int32_t first[N] = {0}, most[N];
    int groups = braid_session_groups(session, first, N);

    RETURNS(0,
            braid_allreduce(comm, first, most, (size_t)groups, BRAID_INT32, BRAID_MAX, NULL, NULL));
    CHECK(!memcmp(first, most, (size_t)groups * sizeof *first), "groups differ");
    return 0;
}

/* On a line without a start-up all plans are predicted to be near each other, so that all are
 * tried: in turn, with the right sums, and what stays is the fastest, and the same on all ranks.
 * Merged gradients are copied, by another plan each time. */
static int tries(struct braid_comm *comm, void *context)
{
    struct braid_session_options options = {
        .type = BRAID_INT32, .warmup = 2, .replan = -1, .b = 1e-12};
    struct braid_session_report report = {0};
    struct braid_session *session;
    struct braid_layer layers[N];
    double fastest = 1e9;
    int32_t *memory = place(APART, layers);
    int i = 0, tried = 0, rc;

    (void)context;
    RETURNS(0, braid_session_create(comm, layers, N, &options, &session));
    for (uint64_t before = 0; !report.plans || report.trying; before = report.trying, i++) {
        CHECK(i < 100, "the trial does not end");
        if (iterate(comm, session, i, true) || check_groups(comm, session))
            return 1;
        RETURNS(0, braid_session_report(session, &report));
        CHECK(!before || report.trying == before - 1, "%d to come, then %d", (int)before,
              (int)report.trying);
    }
    for (int p = 0; p < BRAID_SESSION_POLICIES; p++) {
        tried += report.tried[p] > 0;
        fastest = report.tried[p] > 0 ? fmin(fastest, report.tried[p]) : fastest;
    }
    CHECK(tried >= 3 && report.tried[6] > 0, "%d policies were tried", tried);
    CHECK(report.iteration < fastest * 1.03, "%g s stays, %g s was tried", report.iteration,
          fastest);
    CHECK(report.plans == 1, "%d plans", (int)report.plans);
    CHECK(report.copied_bytes, "nothing was copied");
    for (int more = 0; more < 3; more++, i++)
        if (iterate(comm, session, i, true))
            return 1;
    rc = braid_session_free(session);
    free(memory);
    return rc;
}

static void session__auto_keeps_the_fastest_plan(void **state)
{
    struct ranks job = {.size = 3, .backend = "shm", .timeout_ms = RANKS_PATIENCE};

    (void)state;
    ranks_run(&job, tries, NULL);
}

/* ---- any order ------------------------------------------------------------------------------- */

/* Each rank draws its own, another one in each iteration. */
static void draw_order(int order[N], int rank, int iteration)
{
    struct br_random random;

    br_random_seed(&random, (uint64_t)(1000 * rank + iteration + 1));
    for (int i = 0; i < N; i++) {
        int j = (int)br_random_below(&random, (uint64_t)i + 1);

        order[i] = order[j];
        order[j] = i;
    }
}

/* In every third iteration rank 0 has no gradient of two layers, and in the one behind it nobody of
 * layer 5. */
static bool is_unused(int iteration, int layer, int rank)
{
    return (iteration % 3 == 1 && rank == 0 && (layer == 2 || layer == 6)) ||
           (iteration % 3 == 2 && layer == 5);
}

static int check_sums(struct braid_session *session, int iteration, int size)
{
    for (int l = 0; l < N; l++) {
        const int32_t *gradient = braid_gradient(session, l);

        for (size_t i = 0; i < counts[l]; i++) {
            int32_t sum = 0;

            for (int r = 0; r < size; r++)
                sum += is_unused(iteration, l, r) ? 0 : value(iteration, l, i, r);
            CHECK(gradient[i] == sum, "iteration %d layer %d element %zu: %d, not %d", iteration, l,
                  i, gradient[i], sum);
        }
    }
    return 0;
}

/* Layers become ready in orders that have nothing to do with each other; unused ones are named one
 * by one, or all together at the end. */
static int backward_any(struct braid_session *session, int iteration, int rank)
{
    int order[N];

    draw_order(order, rank, iteration);
    for (int i = 0; i < N; i++) {
        /* what lies there does not count if it is unused */
        write_layer(session, iteration, order[i], rank);
        if (!is_unused(iteration, order[i], rank))
            RETURNS(0, braid_gradient_ready(session, order[i]));
        else if (iteration % 2)
            RETURNS(0, braid_gradient_unused(session, order[i]));
    }
    RETURNS(0, braid_gradient_unused(session, BRAID_GRADIENT_REST));
    return 0;
}

static int train_any(struct braid_comm *comm, const char *policy, enum layout layout)
{
    struct braid_session_options options = {
        .policy = policy, .type = BRAID_INT32, .warmup = 2, .replan = 2, .bucket_bytes = 64 << 10};
    struct braid_session_report report = {0};
    struct braid_session *session;
    struct braid_layer layers[N];
    int32_t *memory = place(layout, layers);
    int order[N];

    RETURNS(0, braid_session_create(comm, layers, N, &options, &session));
    for (int i = 0; i < 2 * ITERATIONS; i++) {
        if (backward_any(session, i, braid_rank(comm)))
            return 1;
        draw_order(order, braid_rank(comm), i + 500);
        for (int l = 0; l < N && i % 2; l++)
            RETURNS(0, braid_gradient_wait(session, order[l]));
        RETURNS(0, braid_session_step(session));
        if (check_sums(session, i, braid_size(comm))) {
            fprintf(stderr, "policy %s, layout %d\n", policy, (int)layout);
            return 1;
        }
    }
    RETURNS(0, braid_session_report(session, &report));
    CHECK(report.plans >= 1 && report.iteration > 0 && report.predicted_iteration > 0, "no times");
    RETURNS(0, braid_session_free(session));
    free(memory);
    return 0;
}

static int any_order(struct braid_comm *comm, void *context)
{
    (void)context;
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++)
        if (train_any(comm, policies[p], (enum layout)(p % LAYOUTS)))
            return 1;
    return 0;
}

static void session__layers_are_ready_in_any_order(void **state)
{
    struct ranks tcp = {
        .size = 2, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = RANKS_PATIENCE};
    struct ranks memory = {.size = 4, .backend = "shm", .timeout_ms = RANKS_PATIENCE};

    (void)state;
    ranks_run(&tcp, any_order, NULL);
    ranks_run(&memory, any_order, NULL);
}

/* A layer that never becomes ready on one rank: its own calls name the layer, the others' end with
 * their deadline and name what they wait for. Layer 1 leaves before layer 0, which is complete. */
static int missing(struct braid_comm *comm, void *context)
{
    struct braid_layer layers[3] = {{.count = 40}, {.count = 40}, {.count = 40}};
    struct braid_session_options options = {.policy = "layerwise"};
    struct braid_session *session;
    int rc, done;

    (void)context;
    RETURNS(0, braid_session_create(comm, layers, 3, &options, &session));
    RETURNS(0, braid_gradient_ready(session, 0));
    RETURNS(0, braid_gradient_ready(session, 2));
    SAYS(-EINVAL, "no layer 3", braid_session_name(session, 3, "fc"));
    RETURNS(0, braid_session_name(session, 1, "stem"));
    RETURNS(0, braid_session_name(session, 1, "encoder.blocks.11.attention.projection.conv2"));
    SAYS(-EINVAL, "done is NULL", braid_gradient_test(session, 2, 0, NULL));
    for (done = 0; !done;)
        RETURNS(0, braid_gradient_test(session, 2, 10, &done));
    if (braid_rank(comm) == 0) {
        RETURNS(0, braid_gradient_wait(session, 2));
        SAYS(-EINVAL, "layer 0|before layer 1|projection.conv2", braid_gradient_wait(session, 0));
        SAYS(-EINVAL, "before layer 1", braid_gradient_wait(session, 1));
        SAYS(-EINVAL, "without layer 1|projection.conv2", braid_session_step(session));
        ranks_await(0, 1);
        braid_session_free(session);
        return 0;
    }
    RETURNS(0, braid_gradient_ready(session, 1));
    RETURNS(0, braid_gradient_test(session, 1, 1, &done));
    CHECK(!done, "layer 1 is there without rank 0's");
    rc = braid_gradient_wait(session, 1);
    CHECK(rc == -ETIMEDOUT, "%d", rc);
    CHECK(says_all(braid_last_error(), "layer 1|projection.conv2"),
          "the words do not name the layer");
    ranks_tell(0);
    braid_session_free(session);
    return 0;
}

static void session__a_missing_layer_is_named(void **state)
{
    struct ranks job = {.size = 2, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = 3000};

    (void)state;
    ranks_run(&job, missing, NULL);
}

/* ---- misuse ---------------------------------------------------------------------------------- */

static int wrong_options(struct braid_comm *comm)
{
    struct braid_layer layers[2] = {{.count = 4}, {.count = 4}},
                       half[2] = {{.count = 4}, {.count = 4}};
    struct braid_session *session;
    float memory[4];

    half[1].gradient = memory;
    SAYS(-EINVAL, "no communicator", braid_session_create(NULL, layers, 2, NULL, &session));
    SAYS(-EINVAL, "0 layers", braid_session_create(comm, layers, 0, NULL, &session));
    SAYS(-EINVAL, "8193 layers", braid_session_create(comm, layers, 8193, NULL, &session));
    SAYS(-EINVAL, "either all", braid_session_create(comm, half, 2, NULL, &session));
    SAYS(-EINVAL, "nowhere", braid_session_create(comm, layers, 2, NULL, NULL));
    SAYS(-EINVAL, "policy",
         braid_session_create(comm, layers, 2, &(struct braid_session_options){.policy = "best"},
                              &session));
    SAYS(-EINVAL, "quickest",
         braid_session_create(comm, layers, 2,
                              &(struct braid_session_options){.algorithm = "quickest"}, &session));
    SAYS(-EPROTO, "differ",
         braid_session_create(
             comm, layers, 2,
             &(struct braid_session_options){.algorithm = braid_rank(comm) ? "ring" : "direct"},
             &session));
    SAYS(-EINVAL, "type",
         braid_session_create(comm, layers, 2, &(struct braid_session_options){.type = 99},
                              &session));
    SAYS(-EINVAL, "warmup is -1",
         braid_session_create(comm, layers, 2, &(struct braid_session_options){.warmup = -1},
                              &session));
    SAYS(-EINVAL, "negative",
         braid_session_create(comm, layers, 2, &(struct braid_session_options){.a = -1}, &session));
    SAYS(-EINVAL, "braid_session_options|struct_size",
         braid_session_create(comm, layers, 2, &(struct braid_session_options){.struct_size = 1},
                              &session));
    layers[1].count = 0;
    SAYS(-EINVAL, "layer 1 has 0", braid_session_create(comm, layers, 2, NULL, &session));
    layers[1].count = 4 + (size_t)braid_rank(comm);
    SAYS(-EPROTO, "differ", braid_session_create(comm, layers, 2, NULL, &session));
    return 0;
}

static int wrong_order(struct braid_comm *comm)
{
    struct braid_layer layers[3] = {{.count = 4}, {.count = 4}, {.count = 4}};
    struct braid_session_options options = {.policy = "single"};
    struct braid_session_report report = {0};
    struct braid_session *session;

    RETURNS(0, braid_session_create(comm, layers, 3, &options, &session));
    RETURNS(0, braid_session_step(session)); /* before the first backward pass: nothing */
    RETURNS(0, braid_gradient_wait(session, 1));
    SAYS(-EINVAL, "no layer 3", braid_gradient_ready(session, 3));
    SAYS(-EINVAL, "no layer -1", braid_gradient_wait(session, -1));
    SAYS(-EINVAL, "session|NULL", braid_gradient_wait(NULL, 0));
    CHECK(!braid_gradient(session, 3), "a layer that is not there");
    SAYS(-EINVAL, "no layer 3", braid_gradient_unused(session, 3));
    SAYS(-EINVAL, "no layer -2", braid_gradient_unused(session, -2));
    RETURNS(0, braid_gradient_ready(session, 2));
    SAYS(-EINVAL, "layer 2|ready", braid_gradient_ready(session, 2));
    SAYS(-EINVAL, "layer 2|ready", braid_gradient_unused(session, 2));
    SAYS(-EINVAL, "layer 2|before layers 0, 1", braid_gradient_wait(session, 2));
    SAYS(-EINVAL, "layer 1|before layers 0, 1", braid_gradient_wait(session, 1));
    SAYS(-EINVAL, "without layers 0, 1:", braid_session_step(session));
    RETURNS(0, braid_gradient_ready(session, 0));
    SAYS(-EINVAL, "without layer 1:", braid_session_step(session));
    RETURNS(0, braid_gradient_ready(session, 1));
    SAYS(-EINVAL, "layer 2|ready", braid_gradient_ready(session, 2));
    RETURNS(0, braid_gradient_wait(session, 2));
    RETURNS(0, braid_gradient_wait(session, 2));
    SAYS(-EINVAL, "layer 2|ready", braid_gradient_ready(session, 2));
    RETURNS(0, braid_session_step(session));
    RETURNS(0, braid_session_report(session, &report));
    CHECK(report.iterations == 1 && !report.plans, "%d iterations", (int)report.iterations);
    SAYS(-EINVAL, "NULL", braid_session_report(session, NULL));
    RETURNS(0, braid_session_free(session));
    RETURNS(0, braid_session_free(NULL));
    return 0;
}

/* In an open group nothing is waited for, as nothing of it has begun; the session goes on. */
static int wait_in_a_group(struct braid_comm *comm)
{
    struct braid_layer layers[2] = {{.count = 4}, {.count = 4}};
    struct braid_session *session;

    RETURNS(0, braid_session_create(comm, layers, 2, NULL, &session));
    memset(braid_gradient(session, 0), 0, 4 * sizeof(float));
    memset(braid_gradient(session, 1), 0, 4 * sizeof(float));
    RETURNS(0, braid_group_start());
    RETURNS(0, braid_gradient_ready(session, 1));
    RETURNS(0, braid_gradient_ready(session, 0));
    SAYS(-EINVAL, "braid_wait_any|group", braid_gradient_wait(session, 0));
    SAYS(-EINVAL, "braid_wait_any|group", braid_session_step(session));
    RETURNS(0, braid_group_end());
    RETURNS(0, braid_gradient_wait(session, 0));
    RETURNS(0, braid_session_step(session));
    return braid_session_free(session);
}

static int misuse(struct braid_comm *comm, void *context)
{
    (void)context;
    return wrong_options(comm) || wrong_order(comm) || wait_in_a_group(comm);
}

static void session__misuse_is_named(void **state)
{
    struct ranks job = {
        .size = 2, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = RANKS_PATIENCE};

    (void)state;
    ranks_run(&job, misuse, NULL);
}

/* The communicator is aborted under a session: the calls end with its error, and freeing works. */
static int aborted(struct braid_comm *comm, void *context)
{
    struct braid_layer layers[2] = {{.count = 100000}, {.count = 4}};
    struct braid_session *session;
    int rc = 0;

    (void)context;
    RETURNS(0, braid_session_create(comm, layers, 2, NULL, &session));
    ranks_tell(0);
    if (braid_rank(comm) == 1) {
        ranks_await(0, 2); /* creating it may fail as well */
        braid_comm_abort(comm, "enough");
    }
    for (int i = 0; i < 1000 && !rc; i++) {
        for (int l = 1; l >= 0 && !rc; l--)
            rc = braid_gradient_ready(session, l);
        if (!rc)
            rc = braid_session_step(session);
    }
    CHECK(rc == -ECANCELED, "the abort was not seen: %d", rc);
    RETURNS(rc, braid_gradient_ready(session, 1));
    braid_session_free(session);
    return 0;
}

static void session__ends_with_its_communicator(void **state)
{
    struct ranks job = {
        .size = 2, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = RANKS_PATIENCE};

    (void)state;
    ranks_run(&job, aborted, NULL);
}

#define MANY 5000

/* Thousands of layers: planned, and every gradient is summed. */
static int many_layers(struct braid_comm *comm, void *context)
{
    struct braid_layer *layers = calloc(MANY, sizeof *layers);
    struct braid_session_options options = {.type = BRAID_INT32, .warmup = 1};
    struct braid_session_report report = {0};
    struct braid_session *session;

    (void)context;
    CHECK(layers, "no memory");
    for (int l = 0; l < MANY; l++)
        layers[l].count = 2;
    RETURNS(0, braid_session_create(comm, layers, MANY, &options, &session));
    for (int i = 0; i < 3; i++) {
        for (int l = MANY - 1; l >= 0; l--) {
            int32_t *gradient = braid_gradient(session, l);

            gradient[0] = l;
            gradient[1] = braid_rank(comm);
            RETURNS(0, braid_gradient_ready(session, l));
        }
        RETURNS(0, braid_session_step(session));
        for (int l = 0; l < MANY; l++) {
            const int32_t *gradient = braid_gradient(session, l);

            CHECK(gradient[0] == 2 * l && gradient[1] == 1, "layer %d: %d, %d", l, gradient[0],
                  gradient[1]);
        }
    }
    RETURNS(0, braid_session_report(session, &report));
    CHECK(report.plans == 1, "%d plans", (int)report.plans);
    free(layers);
    return braid_session_free(session);
}

static void session__thousands_of_layers(void **state)
{
    struct ranks job = {.size = 2, .backend = "shm", .timeout_ms = RANKS_PATIENCE};

    (void)state;
    ranks_run(&job, many_layers, NULL);
}

/* A session of a job with a calibration plans with its a and b. */
static int calibrated(struct braid_comm *comm, void *context)
{
    struct braid_session_options options = {.type = BRAID_INT32};
    struct braid_session_report report = {0};
    struct braid_session *session;
    struct braid_layer layers[N];
    int32_t *memory = place(ALLOCATED, layers);

    (void)context;
    free(memory);
    RETURNS(0, braid_session_create(comm, layers, N, &options, &session));
    for (int i = 0; i < ITERATIONS; i++)
        if (iterate(comm, session, i, false))
            return 1;
    RETURNS(0, braid_session_report(session, &report));
    CHECK(report.a > 0.499 && report.a < 0.501, "a is %g s, not the calibration's", report.a);
    CHECK(report.b > 0.999e-6 && report.b < 1.001e-6, "b is %g s/byte, not the calibration's",
          report.b);
    return braid_session_free(session);
}

/* Every way takes half a second and 1 us a byte: nobody would measure that here. */
static void write_calibration(const char *path)
{
    static struct br_calibration c = {
        .topology = "flat:2", .version = "0", .date = "2026-01-01T00:00:00Z"};
    struct br_tuning tunings[BR_ALGORITHM_CONFIGS];
    struct br_topology topology;
    int n;

    br_topology_flat(&topology, 2);
    br_cost_model_on(&c.model, &topology, BR_COST_NETWORK, 1);
    n = br_tuning_choose_all(&c.model, BR_ALLREDUCE, 2, 4096, tunings);
    assert_in_range(n, 1, BR_COST_MEASURED);
    for (int i = 0; i < n; i++) {
        struct br_cost_measured *m = &c.measured[c.n_measured++];

        *m = (struct br_cost_measured){
            .collective = BR_ALLREDUCE, .ranks = 2, .config = tunings[i].config};
        for (double bytes = 1024; bytes < 4 << 20; bytes *= 4) {
            m->bytes[m->n_points] = bytes;
            m->seconds[m->n_points++] = 0.5 + 1e-6 * bytes;
        }
    }
    assert_int_equal(br_calibration_write(path, &c), 0);
    br_topology_destroy(&topology);
}

static void session__takes_a_and_b_of_the_calibration(void **state)
{
    struct ranks job = {
        .size = 2, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = RANKS_PATIENCE};
    char path[] = "/tmp/braid-calibration-XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    write_calibration(path);
    setenv("BRAID_CALIBRATION", path, 1);
    ranks_run(&job, calibrated, NULL);
    unsetenv("BRAID_CALIBRATION");
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(session__every_policy),
        cmocka_unit_test(session__auto_keeps_the_fastest_plan),
        cmocka_unit_test(session__layers_are_ready_in_any_order),
        cmocka_unit_test(session__a_missing_layer_is_named),
        cmocka_unit_test(session__misuse_is_named),
        cmocka_unit_test(session__ends_with_its_communicator),
        cmocka_unit_test(session__takes_a_and_b_of_the_calibration),
        cmocka_unit_test(session__thousands_of_layers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
