/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parameter servers between real processes. Each rank also simulates the whole job for itself, in
 * plain loops, and the weights must be the same bits after every iteration. The "network" is a
 * gradient that depends on weights, rank, iteration and element.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <braid/parameters.h>

#include "tests/system/ranks.h"

#define LAYERS     4
#define MOST_RANKS 4
#define WARMUP     3
#define ITERATIONS 14
#define SYNC_AT    9 /* ssd: with a pull under way, but for k = 4 */

static const size_t counts[LAYERS] = {40, 6001, 1, 1500};

#define ALL (40 + 6001 + 1 + 1500)

static size_t offset_of(int layer)
{
    size_t offset = 0;

    for (int l = 0; l < layer; l++)
        offset += counts[l];
    return offset;
}

static float initial(size_t i)
{
    return 1.0f / (float)(i % 97 + 2);
}

static float gradient(float weight, size_t i, int rank, int iteration)
{
    return 0.3f * weight -
           1.0f / (float)(3 + (i * 7 + (size_t)rank * 13 + (size_t)iteration * 29) % 101);
}

/* ---- the reference --------------------------------------------------------------------------- */

struct job {
    struct braid_parameters_options options;
    int ranks;
    float weight[ALL], velocity[ALL];    /* of the servers */
    float worker[MOST_RANKS][ALL];       /* weights of the workers */
    float own_velocity[MOST_RANKS][ALL]; /* local SGD */
    /* SSD: the pull before the last one that was taken, and that one */
    float pre[ALL], last[ALL];
    float late[ALL]; /* the one under way, if is_late */
    bool is_late;
};

static bool is(const struct job *j, const char *method)
{
    return !strcmp(j->options.method, method);
}

static bool pulls(const struct job *j, int t)
{
    bool delayed = is(j, "ssd") || is(j, "local");

    return !delayed || t < WARMUP || (t - WARMUP + 1) % j->options.steps == 0;
}

static float rate(const struct job *j, int t)
{
    float r = j->options.rate;

    return j->options.drops[0] && t >= (int)j->options.drops[0] ? r * j->options.drop : r;
}

static void sgd(const struct job *j, float *w, float *v, float g, int t)
{
    float d = g + j->options.decay * *w;

    *v = j->options.momentum * *v + d;
    *w = *w - rate(j, t) * *v;
}

static void serve(struct job *j, float g[MOST_RANKS][ALL], int t)
{
    for (size_t i = 0; i < ALL; i++) {
        float sum = g[0][i];

        for (int r = 1; r < j->ranks; r++)
            sum = sum + g[r][i];
        sgd(j, &j->weight[i], &j->velocity[i], sum * (1.0f / (float)j->ranks), t);
    }
}

static void take(struct job *j, const float *weights, bool delayed)
{
    for (size_t i = 0; i < ALL; i++) {
        j->pre[i] = delayed ? j->last[i] : weights[i];
        j->last[i] = weights[i];
        for (int r = 0; r < j->ranks; r++)
            j->worker[r][i] = weights[i];
    }
}

static void glu(struct job *j, float g[MOST_RANKS][ALL], int t)
{
    bool plain = j->options.local && !strcmp(j->options.local, "sgd");
    float own = plain ? 1 : 2, sync = plain ? 0 : 0.5f, local = (plain ? 0.25f : 4) * rate(j, t);
    float factor = (1 - j->options.momentum) / (rate(j, t) * (float)j->options.steps);

    for (int r = 0; r < j->ranks; r++)
        for (size_t i = 0; i < ALL; i++) {
            float *w = &j->worker[r][i], grad_sync = (j->pre[i] - *w) * factor;

            *w = *w - local * ((own * g[r][i] + j->options.decay * *w) + sync * grad_sync);
        }
}

static void step_local(struct job *j, float g[MOST_RANKS][ALL], int t)
{
    for (int r = 0; r < j->ranks; r++)
        for (size_t i = 0; i < ALL; i++)
            sgd(j, &j->worker[r][i], &j->own_velocity[r][i], g[r][i], t);
    for (size_t i = 0; i < ALL && pulls(j, t); i++) {
        float sum = j->worker[0][i];

        for (int r = 1; r < j->ranks; r++)
            sum = sum + j->worker[r][i];
        for (int r = 0; r < j->ranks; r++)
            j->worker[r][i] = sum / (float)j->ranks;
    }
}

static void step_delayed(struct job *j, float g[MOST_RANKS][ALL], int t)
{
    if (j->is_late)
        take(j, j->late, true);
    j->is_late = false;
    glu(j, g, t);
    serve(j, g, t);
    if (pulls(j, t)) {
        memcpy(j->late, j->weight, sizeof j->late);
        j->is_late = true;
    }
}

static void step(struct job *j, int t)
{
    static float g[MOST_RANKS][ALL];

    for (int r = 0; r < j->ranks; r++)
        for (size_t i = 0; i < ALL; i++)
            g[r][i] = gradient(j->worker[r][i], i, r, t);
    if (is(j, "ssd") && t >= WARMUP) {
        step_delayed(j, g, t);
    } else if (is(j, "local") && t >= WARMUP) {
        step_local(j, g, t);
    } else {
        serve(j, g, t);
        take(j, j->weight, false);
    }
}

static void start(struct job *j)
{
    for (size_t i = 0; i < ALL; i++) {
        j->weight[i] = j->pre[i] = j->last[i] = initial(i);
        for (int r = 0; r < j->ranks; r++)
            j->worker[r][i] = initial(i);
    }
}

/* A pull that was under way is dropped. */
static void synchronise(struct job *j)
{
    take(j, j->weight, false);
    j->is_late = false;
}

/* ---- the job --------------------------------------------------------------------------------- */

static int create(struct braid_comm *comm, const struct braid_parameters_options *options,
                  struct braid_parameters **p)
{
    struct braid_parameter_layer layers[LAYERS];
    float *weights = malloc(ALL * sizeof *weights);

    for (size_t i = 0; i < ALL; i++) /* only rank 0's count */
        weights[i] = braid_rank(comm) ? 5 : initial(i);
    for (int l = 0; l < LAYERS; l++)
        layers[l] =
            (struct braid_parameter_layer){.count = counts[l], .initial = weights + offset_of(l)};
    RETURNS(0, braid_parameters_create(comm, layers, LAYERS, options, p));
    free(weights);
    return 0;
}

static int same(struct braid_parameters *p, const float *wanted, int t, const char *what)
{
    for (int l = 0; l < LAYERS; l++) {
        float *weight = braid_parameters_weight(p, l);

        for (size_t i = 0; i < counts[l]; i++)
            CHECK(weight[i] == wanted[offset_of(l) + i],
                  "%s, iteration %d, layer %d, element %zu: %a, not %a", what, t, l, i,
                  (double)weight[i], (double)wanted[offset_of(l) + i]);
    }
    return 0;
}

static int iterate(struct braid_comm *comm, struct braid_parameters *p, int t)
{
    for (int l = 0; l < LAYERS; l++)
        RETURNS(0, braid_parameters_wait(p, l));
    for (int l = LAYERS - 1; l >= 0; l--) {
        const float *weight = braid_parameters_weight(p, l);
        float *g = braid_parameters_gradient(p, l);

        CHECK(g, "no gradient");
        for (size_t i = 0; i < counts[l]; i++)
            g[i] = gradient(weight[i], offset_of(l) + i, braid_rank(comm), t);
        RETURNS(0, braid_parameters_push(p, l));
    }
    return 0;
}

static int wait_all(struct braid_parameters *p)
{
    for (int l = 0; l < LAYERS; l++)
        RETURNS(0, braid_parameters_wait(p, l));
    return 0;
}

/* A look at the servers' velocity, between two iterations. */
static int same_velocity(struct braid_parameters *p, const float *wanted, int t, const char *what)
{
    static float velocity[ALL];

    for (int l = 0; l < LAYERS; l++)
        RETURNS(0, braid_parameters_velocity(p, l, velocity + offset_of(l)));
    for (size_t i = 0; i < ALL; i++)
        CHECK(velocity[i] == wanted[i], "%s, iteration %d: velocity %zu is %a, not %a", what, t, i,
              (double)velocity[i], (double)wanted[i]);
    return 0;
}

/* by_hand: the program says the rates, in every iteration, and the options have no drops; and looks
 * at the velocities, which changes nothing. */
static int run(struct braid_comm *comm, const struct braid_parameters_options *options,
               bool by_hand)
{
    static struct job job;
    struct braid_parameters_options given = *options;
    struct braid_parameters_report report = {0};
    struct braid_parameters *p;
    char what[64];

    memset(&job, 0, sizeof job);
    job.options = *options;
    job.ranks = braid_size(comm);
    snprintf(what, sizeof what, "%s %d %s", options->method, options->steps,
             options->local ? options->local : "");
    start(&job);
    if (by_hand)
        memset(given.drops, 0, sizeof given.drops);
    if (create(comm, &given, &p))
        return 1;
    if (same(p, job.weight, -1, what))
        return 1;
    for (int t = 0; t < ITERATIONS; t++) {
        if (t == SYNC_AT && is(&job, "ssd")) {
            RETURNS(0, braid_parameters_sync(p));
            synchronise(&job);
            if (same(p, job.weight, t, what))
                return 1;
        }
        for (int l = 0; l < LAYERS && by_hand; l++)
            RETURNS(0, braid_parameters_set_rate(p, l, rate(&job, t), options->momentum,
                                                 options->decay));
        step(&job, t);
        if (iterate(comm, p, t) || wait_all(p) || same(p, job.worker[braid_rank(comm)], t, what))
            return 1;
        if (by_hand && !is(&job, "local") && same_velocity(p, job.velocity, t, what))
            return 1;
    }
    RETURNS(0, braid_parameters_sync(p));
    if (!is(&job, "local") && same(p, job.weight, ITERATIONS, what))
        return 1;
    RETURNS(0, braid_parameters_report(p, &report));
    CHECK(report.iterations == ITERATIONS && report.slices > LAYERS, "%d slices", report.slices);
    RETURNS(0, braid_parameters_free(p));
    return 0;
}

static struct braid_parameters_options options(const char *method, int steps)
{
    return (struct braid_parameters_options){.method = method,
                                             .steps = steps,
                                             .warmup = WARMUP,
                                             .rate = 0.01f,
                                             .momentum = 0.9f,
                                             .decay = 1e-3f,
                                             .drops = {8},
                                             .drop = 0.5f,
                                             .slice_bytes = 4000};
}

static int all_methods(struct braid_comm *comm, void *context)
{
    struct braid_parameters_options o = options("ssgd", 0);
    int last = braid_size(comm) - 1;

    (void)context;
    if (run(comm, &o, false))
        return 1;
    o.servers = &last;
    o.n_servers = 1;
    o.in_order = 1;
    if (run(comm, &o, true))
        return 1;
    for (int k = 1; k <= 4; k++) {
        o = options("ssd", k);
        o.local = k == 3 ? "sgd" : NULL;
        if (run(comm, &o, k % 2))
            return 1;
        o = options("local", k);
        if (run(comm, &o, k % 2))
            return 1;
    }
    return 0;
}

static void parameters__bits_of_the_reference(void **state)
{
    struct ranks tcp = {
        .size = 3, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = RANKS_PATIENCE};
    struct ranks memory = {.size = 4, .backend = "shm", .timeout_ms = RANKS_PATIENCE};
    struct ranks alone = {.size = 1, .timeout_ms = RANKS_PATIENCE};

    (void)state;
    ranks_run(&tcp, all_methods, NULL);
    ranks_run(&memory, all_methods, NULL);
    ranks_run(&alone, all_methods, NULL);
}

/* Each worker for itself: no bits, but a descent of a quadratic: all come near its minimum. */
static int asynchronous(struct braid_comm *comm, void *context)
{
    struct braid_parameters_options o = {.method = "asgd", .rate = 0.5f};
    struct braid_parameters *p;

    static float velocity[ALL]; /* of 0 */

    (void)context;
    if (create(comm, &o, &p))
        return 1;
    for (int l = 0; l < LAYERS; l++)
        RETURNS(0, braid_parameters_set_velocity(p, l, velocity + offset_of(l)));
    for (int t = 0; t < 60; t++)
        for (int l = LAYERS - 1; l >= 0; l--) {
            float *g, *weight = braid_parameters_weight(p, l);

            RETURNS(0, braid_parameters_wait(p, l));
            g = braid_parameters_gradient(p, l);
            for (size_t i = 0; i < counts[l]; i++)
                g[i] = weight[i] - 0.25f;
            RETURNS(0, braid_parameters_set_rate(p, l, 0.5f, 0, 0)); /* its servers may read one */
            RETURNS(0, braid_parameters_push(p, l));
        }
    RETURNS(0, braid_parameters_sync(p));
    for (int l = 0; l < LAYERS; l++)
        for (size_t i = 0; i < counts[l]; i++) {
            float off = braid_parameters_weight(p, l)[i] - 0.25f;

            CHECK(off > -1e-3f && off < 1e-3f, "layer %d element %zu is off by %g", l, i,
                  (double)off);
        }
    RETURNS(0, braid_parameters_free(p));
    return 0;
}

static void parameters__asynchronous_descent(void **state)
{
    struct ranks job = {
        .size = 3, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = RANKS_PATIENCE};

    (void)state;
    ranks_run(&job, asynchronous, NULL);
}

/* ---- rates, and a job that goes on
 * --------------------------------------------------------------- */

#define LONG 150 /* iterations: more than a worker may be ahead of its server, and k */

/* Iterations [from, to), with another rate for each layer and iteration. */
static int iterate_by_hand(struct braid_comm *comm, struct braid_parameters *p, int from, int to)
{
    for (int t = from; t < to; t++) {
        for (int l = 0; l < LAYERS; l++)
            RETURNS(0, braid_parameters_set_rate(p, l, 0.01f / (float)(1 + t % 7 + l), 0.5f, 0));
        if (iterate(comm, p, t))
            return 1;
    }
    return wait_all(p);
}

/* Two halves, the second by parameters that were made of the saved state of the first, have the
 * bits of the whole. */
static int halves(struct braid_comm *comm, const struct braid_parameters_options *options, int all)
{
    struct braid_parameters_options half = *options;
    struct braid_parameter_layer layers[LAYERS] = {0};
    struct braid_parameters *whole, *second;
    static float weight[ALL], velocity[ALL];

    if (create(comm, options, &whole) || iterate_by_hand(comm, whole, 0, all / 2))
        return 1;
    RETURNS(0, braid_parameters_sync(whole));
    for (int l = 0; l < LAYERS; l++) {
        memcpy(weight + offset_of(l), braid_parameters_weight(whole, l), counts[l] * sizeof(float));
        RETURNS(0, braid_parameters_velocity(whole, l, velocity + offset_of(l)));
        layers[l] =
            (struct braid_parameter_layer){.count = counts[l], .initial = weight + offset_of(l)};
    }
    half.iterations = (uint64_t)all / 2;
    RETURNS(0, braid_parameters_create(comm, layers, LAYERS, &half, &second));
    for (int l = 0; l < LAYERS; l++)
        RETURNS(0, braid_parameters_set_velocity(second, l, velocity + offset_of(l)));
    if (iterate_by_hand(comm, whole, all / 2, all) || iterate_by_hand(comm, second, all / 2, all))
        return 1;
    RETURNS(-EINVAL, braid_parameters_set_velocity(second, 0, velocity));
    for (int i = 0; i < 2; i++) { /* each worker's, then the servers' */
        for (int l = 0; l < LAYERS; l++)
            memcpy(weight + offset_of(l), braid_parameters_weight(whole, l),
                   counts[l] * sizeof(float));
        if (same(second, weight, all, options->method))
            return 1;
        RETURNS(0, braid_parameters_sync(whole));
        RETURNS(0, braid_parameters_sync(second));
    }
    RETURNS(0, braid_parameters_free(whole));
    RETURNS(0, braid_parameters_free(second));
    return 0;
}

static int goes_on(struct braid_comm *comm, void *context)
{
    struct braid_parameters_options o = options("ssd", 3);

    (void)context;
    if (halves(comm, &o, 20))
        return 1;
    o.steps = LONG;
    if (halves(comm, &o, LONG))
        return 1;
    o.method = "ssgd";
    return halves(comm, &o, 8);
}

static void parameters__go_on_where_others_were(void **state)
{
    struct ranks job = {
        .size = 2, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = RANKS_PATIENCE};

    (void)state;
    ranks_run(&job, goes_on, NULL);
}

/* By a rate of 0 nothing moves, with ssd's local update, too, which divides by it. */
static int stands_still(struct braid_comm *comm, void *context)
{
    struct braid_parameters_options o = options("ssd", 2);
    struct braid_parameters *p;
    static float weight[ALL];

    (void)context;
    for (size_t i = 0; i < ALL; i++)
        weight[i] = initial(i);
    if (create(comm, &o, &p))
        return 1;
    RETURNS(-EINVAL, braid_parameters_set_rate(p, 0, -1, 0, 0));
    RETURNS(-EINVAL, braid_parameters_set_rate(p, 0, 0, 1, 0));
    RETURNS(-EINVAL, braid_parameters_set_rate(p, LAYERS, 0, 0, 0));
    for (int l = 0; l < LAYERS; l++)
        RETURNS(0, braid_parameters_set_rate(p, l, 0, 0.9f, 0));
    for (int t = 0; t < ITERATIONS; t++)
        if (iterate(comm, p, t))
            return 1;
    if (wait_all(p) || same(p, weight, ITERATIONS, "rate 0"))
        return 1;
    RETURNS(0, braid_parameters_free(p));
    return 0;
}

static void parameters__rate_of_zero(void **state)
{
    struct ranks job = {.size = 2, .backend = "shm", .timeout_ms = RANKS_PATIENCE};

    (void)state;
    ranks_run(&job, stands_still, NULL);
}

/* k from the times of the warm-up. */
static int by_the_model(struct braid_comm *comm, void *context)
{
    struct braid_parameters_options o = options("ssd", 0);
    struct braid_parameters_report report = {0};
    struct braid_parameters *p;

    (void)context;
    if (create(comm, &o, &p))
        return 1;
    for (int t = 0; t < ITERATIONS; t++) {
        RETURNS(0, braid_parameters_report(p, &report));
        CHECK(t > WARMUP || !report.steps, "k is %d at iteration %d", report.steps, t);
        if (iterate(comm, p, t))
            return 1;
    }
    RETURNS(0, braid_parameters_report(p, &report));
    CHECK(report.steps >= 1 && report.steps <= 4, "k is %d", report.steps);
    CHECK(report.forward > 0 && report.backward > 0 && report.communication > 0, "no times");
    CHECK(report.predicted[1] >= report.predicted[4] && report.predicted[4] > 0, "no predictions");
    RETURNS(0, braid_parameters_free(p)); /* with a pull under way perhaps */
    return 0;
}

static void parameters__steps_by_the_model(void **state)
{
    struct ranks job = {
        .size = 2, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = RANKS_PATIENCE};

    (void)state;
    ranks_run(&job, by_the_model, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters__bits_of_the_reference),
        cmocka_unit_test(parameters__asynchronous_descent),
        cmocka_unit_test(parameters__steps_by_the_model),
        cmocka_unit_test(parameters__go_on_where_others_were),
        cmocka_unit_test(parameters__rate_of_zero),
    };

    /* so that layers of a test's size are cut into slices (braid_parameters_options) */
    setenv("BRAID_EAGER_BYTES", "1024", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
