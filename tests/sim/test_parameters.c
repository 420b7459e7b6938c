/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parameter servers in virtual time: training/ as it is, over the engine and the protocol, against
 * what the links need.
 *
 * The program is a device that computes for given times. It may not block here, so it calls only
 * what will return at once. Collectives and the progress thread are replaced by functions that do
 * nothing (--wrap, in tests/CMakeLists.txt).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <braid/parameters.h>

#include "base/clock.h"
#include "tests/sim/training_comm.h"
#include "tools/common/model.h"
#include "training/parameters/delay.h"
#include "training/parameters/parameters.h"

#define RANKS  4         /* workers, where servers are not more */
#define MOST   8         /* ranks */
#define LAYERS 200       /* at most */
#define BITS   100000000 /* a second, of a link */

/* What a device computes. */
struct network {
    int layers;
    size_t counts[LAYERS];
    double share[LAYERS]; /* of the time of a pass */
};

/* As `braid train --width 2048`: two convolutions, nearly all weights in one dense layer, a small
 * last one. */
static const struct network dense = {4, {80, 1168, 296960, 20490}, {.25, .25, .25, .25}};
/* VGG-19, a hundredth of its weights. */
static const struct network vgg = {19,
                                   {18, 369, 739, 1476, 2952, 5901, 5901, 5901, 11802, 23598, 23598,
                                    23598, 23598, 23598, 23598, 23598, 1027645, 167813, 40970},
                                   {.0044, .0942, .0471, .0942, .0471, .0942, .0942, .0942, .0471,
                                    .0942, .0942, .0942, .0236, .0236, .0236, .0236, .0052, .0009,
                                    .0002}};
static const struct network *network;

struct program {
    struct braid_comm comm; /* first: what training/ has in its hands */
    struct braid_parameters *parameters;
    int layer, iteration;
    bool forward, computing;
    uint64_t until, began;
};

static struct program programs[MOST];
static int ranks;
static uint64_t device; /* ns that an iteration computes, a third of it forwards */
static int settling;    /* iterations that do not count */

/* ---- what training/ calls -------------------------------------------------------------------- */

int __wrap_br_comm_refuse(const struct braid_comm *comm, const char *name);
uint32_t __wrap_br_comm_slots(const struct braid_comm *comm);
uint32_t __wrap_br_comm_eager_bytes(const struct braid_comm *comm);
int __wrap_braid_size(const struct braid_comm *comm);
int __wrap_braid_comm_split(struct braid_comm *comm, int color, int key, struct braid_comm **out);
int __wrap_braid_finalize(struct braid_comm *comm);
int __wrap_braid_broadcast(struct braid_comm *comm);
int __wrap_br_parameters_start(struct braid_parameters *p);
void __wrap_br_progress_signal(struct br_context *context);
int __wrap_braid_send(struct braid_comm *comm, const void *memory, size_t bytes, int peer,
                      const struct braid_options *options, struct braid_op **op);
int __wrap_braid_recv(struct braid_comm *comm, void *memory, size_t bytes, int peer,
                      const struct braid_options *options, struct braid_op **op);
bool __wrap_br_operation_has_ended(struct braid_op *op);

int __wrap_br_comm_refuse(const struct braid_comm *comm, const char *name)
{
    (void)comm;
    (void)name;
    return 0;
}

uint32_t __wrap_br_comm_slots(const struct braid_comm *comm)
{
    return training_job.ranks[comm->rank].worker->slots.count;
}

uint32_t __wrap_br_comm_eager_bytes(const struct braid_comm *comm)
{
    return training_job.ranks[comm->rank].worker->config.eager_bytes;
}

int __wrap_braid_size(const struct braid_comm *comm)
{
    return comm->size;
}

int __wrap_braid_comm_split(struct braid_comm *comm, int color, int key, struct braid_comm **out)
{
    (void)color;
    (void)key;
    *out = comm;
    return 0;
}

int __wrap_braid_finalize(struct braid_comm *comm)
{
    (void)comm;
    return 0;
}

int __wrap_braid_broadcast(struct braid_comm *comm)
{
    (void)comm;
    return 0;
}

int __wrap_br_parameters_start(struct braid_parameters *p)
{
    (void)p;
    return 0;
}

void __wrap_br_progress_signal(struct br_context *context)
{
    (void)context; /* its rank has its turn anyway */
}

int __wrap_braid_send(struct braid_comm *comm, const void *memory, size_t bytes, int peer,
                      const struct braid_options *options, struct braid_op **op)
{
    return training_submit(comm,
                           (struct br_operation){.kind = BR_OPERATION_SEND,
                                                 .send = memory,
                                                 .send_bytes = bytes,
                                                 .count = bytes,
                                                 .peer = peer},
                           options, op);
}

int __wrap_braid_recv(struct braid_comm *comm, void *memory, size_t bytes, int peer,
                      const struct braid_options *options, struct braid_op **op)
{
    return training_submit(comm,
                           (struct br_operation){.kind = BR_OPERATION_RECV,
                                                 .recv = memory,
                                                 .recv_bytes = bytes,
                                                 .count = bytes,
                                                 .peer = peer},
                           options, op);
}

bool __wrap_br_operation_has_ended(struct braid_op *op)
{
    return training_has_ended(op);
}

/* ---- the job --------------------------------------------------------------------------------- */

static bool have_ended(struct braid_op **ops, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        if (ops[i] && !training_has_ended(ops[i]))
            return false;
    return true;
}

/* Would the call before this pass of the layer return at once? */
static bool may_begin(const struct program *g)
{
    const struct braid_parameters *p = g->parameters;
    const uint32_t *slices = &p->shards.first[g->layer];

    return atomic_load(&p->layers[g->layer].state) == BR_PARAMETERS_READY &&
           (g->forward || have_ended(p->pushes[p->iteration % 2], slices[0], slices[1]));
}

static void begin(struct program *g, uint64_t now)
{
    if (g->forward)
        assert_int_equal(braid_parameters_wait(g->parameters, g->layer), 0);
    else
        assert_non_null(braid_parameters_gradient(g->parameters, g->layer));
    g->computing = true;
    g->until =
        now + (uint64_t)((double)device * (g->forward ? 1 : 2) / 3 * network->share[g->layer]);
}

static void finish(struct program *g, uint64_t now)
{
    g->computing = false;
    if (!g->forward)
        assert_int_equal(braid_parameters_push(g->parameters, g->layer), 0);
    if (g->forward && g->layer < network->layers - 1) {
        g->layer++;
    } else if (!g->forward && g->layer > 0) {
        g->layer--;
    } else {
        g->forward = !g->forward;
        g->iteration += g->forward;
        if (g->forward && g->iteration == settling)
            g->began = now;
    }
}

static uint64_t turn(void *with, uint32_t rank, uint64_t now)
{
    struct program *g = &programs[rank];
    int served, worked;

    (void)with;
    do {
        if (g->computing && now >= g->until)
            finish(g, now);
        served = br_parameters_serve(g->parameters);
        worked = br_parameters_work(g->parameters);
        assert_true(served >= 0 && worked >= 0);
        if (!g->computing && may_begin(g))
            begin(g, now);
    } while (served || worked || (g->computing && now >= g->until));
    return g->computing ? g->until : UINT64_MAX;
}

static void open_program(int rank, const struct braid_parameters_options *options)
{
    struct braid_parameter_layer layers[LAYERS];

    for (int l = 0; l < network->layers; l++)
        layers[l] = (struct braid_parameter_layer){.count = network->counts[l]};
    programs[rank] = (struct program){.comm = {.rank = rank, .size = ranks}, .forward = true};
    assert_int_equal(braid_parameters_create(&programs[rank].comm, layers, network->layers, options,
                                             &programs[rank].parameters),
                     0);
}

static void free_operations(struct braid_op **ops, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        free(ops[i]);
}

static void close_program(struct program *g)
{
    struct braid_parameters *p = g->parameters;

    free_operations(p->pushes[0], p->n_pushes);
    free_operations(p->pulls, p->shards.n);
    for (size_t i = 0; i < (size_t)p->n_slices * (size_t)ranks * 2; i++)
        free(p->exchanges[i].op);
    for (int r = 0; r < ranks; r++)
        free(p->shutdowns[r].op);
    br_parameters_destroy(p, 0);
}

/* Leaves the job open for a look at its parameters; then close_job(). Returns ms of one of
 * `counted` iterations behind the first `uncounted`, of the slowest rank. */
static double run_job(const struct network *of, uint64_t device_ms, int uncounted, int counted,
                      const struct braid_parameters_options *options, uint32_t eager_bytes)
{
    static struct br_topology topology;
    struct br_sim_job_config config = {.topology = &topology,
                                       .rails = 1,
                                       .eager_bytes = eager_bytes,
                                       .max_slots = BR_SLOTS_MAX,
                                       .network = {.seed = 1,
                                                   .bits_per_second = BITS,
                                                   .latency_ns = 50000,
                                                   .forward_bytes = 1500,
                                                   .hollow = true}};
    double slowest = 0;
    char name[16];

    network = of;
    device = device_ms * BR_MS;
    settling = uncounted;
    snprintf(name, sizeof name, "flat:%d", ranks);
    assert_int_equal(br_topology_parse(&topology, name), 0);
    br_cost_model_on(&config.model, &topology, BR_COST_NETWORK, 1);
    assert_int_equal(br_sim_job_open(&training_job, &config), 0);
    assert_int_equal(br_sim_job_connect(&training_job), 0);
    for (int r = 0; r < ranks; r++)
        open_program(r, options);
    training_job.program = (struct br_sim_job_program){.ended = training_ended, .progress = turn};
    for (int r = 0; r < ranks; r++)
        while (programs[r].iteration < settling + counted)
            assert_int_equal(br_sim_job_advance(&training_job), 0);
    for (int r = 0; r < ranks; r++)
        slowest = fmax(slowest, (double)(br_sim_host_now(training_job.sim, r) - programs[r].began) /
                                    BR_MS / (programs[r].iteration - settling));
    return slowest;
}

static void close_job(void)
{
    br_sim_job_close(&training_job);
    for (int r = 0; r < ranks; r++)
        close_program(&programs[r]);
}

static double run(const struct network *of, uint64_t device_ms, int uncounted, int counted,
                  const struct braid_parameters_options *options)
{
    double ms;

    ranks = RANKS;
    ms = run_job(of, device_ms, uncounted, counted, options, 0);
    close_job();
    return ms;
}

/* k 0: ssgd. */
static double iteration(uint64_t device_ms, int k)
{
    struct braid_parameters_options options = {.method = k ? "ssd" : "ssgd",
                                               .steps = k,
                                               .warmup = -1,
                                               .momentum = 0.9f,
                                               .slice_bytes = 50000};

    return run(&dense, device_ms, 8, 24, &options);
}

/* ms in which a link carries all pushes of an iteration, or all pulls: each rank serves a part of
 * the slices and sends the others'. */
static double push_ms(const struct network *of)
{
    double bytes = 0;

    for (int l = 0; l < of->layers; l++)
        bytes += (double)(of->counts[l] * sizeof(float));
    return bytes * (RANKS - 1) / RANKS * 8 / BITS * 1e3;
}

static void assert_near(double is, double should, double share)
{
    if (is > should * (1 + share) || is < should * (1 - share / 4))
        fail_msg("%g ms, not %g", is, should);
}

/* The next forward pass waits for what was pushed. */
static void parameters__ssgd_takes_what_the_formula_says(void **state)
{
    struct br_delay_times t = {.forward = 100 / 3.,
                               .backward = 200 / 3.,
                               .communication = 2 * push_ms(&dense),
                               .push = push_ms(&dense),
                               .last_backward = 200 / 3. / dense.layers};

    (void)state;
    assert_near(iteration(100, 0), br_delay_ssgd(&t), .06);
}

/* Of k iterations the links carry k pushes and a pull, and are not idle while the device waits. */
static void parameters__delayed_pulls_take_what_the_links_need(void **state)
{
    (void)state;
    for (int ms = 50; ms <= 100; ms += 50)
        for (int k = 1; k <= 4; k++) {
            double links = push_ms(&dense) * (k + 1) / k, is = iteration((uint64_t)ms, k);

            print_message("device %d ms, k %d: %.1f ms, links %.1f\n", ms, k, is, links);
            assert_near(is, fmax(links, ms), .12);
        }
}

/* ms of an iteration of VGG-19 that computes as long as its pushes and pulls take. */
static double deliver(const char *way, uint32_t slice_bytes, bool in_order)
{
    struct braid_parameters_options options = {
        .method = "ssgd", .momentum = 0.9f, .slice_bytes = slice_bytes, .in_order = in_order};
    double ms = run(&vgg, (uint64_t)(2 * push_ms(&vgg)), 3, 8, &options);

    print_message("VGG-19, %s: %.1f ms, links %.1f\n", way, ms, 2 * push_ms(&vgg));
    return ms;
}

/*
 * P3 in the setting of its paper, parameter servers: slices by priority, against layers in the
 * order in which they come, whole on a server each, or those larger than an N-th of the largest in
 * pieces of that size for N servers, others whole. However small the slices are to be, and with
 * more of them than a link has credits.
 */
static void parameters__p3_against_layers_in_order(void **state)
{
    uint32_t largest = 4 * 1027645;
    double layers = deliver("layers in order", largest, true),
           split = deliver("split layers in order", largest / RANKS + 4, true),
           p3 = deliver("p3", 12000, false);

    (void)state;
    assert_near(p3, 2 * push_ms(&vgg), .06);
    assert_true(split > 1.12 * p3 && layers > 1.66 * p3);
}

/* ---- the slices that P3 wants ---------------------------------------------------------------- */

#define SCALE 100             /* a hundredth of the weights, in as many slices */
#define P3    (50000 / SCALE) /* weights of a slice */

/* A model of data/models. */
static void read_model(const char *name, struct network *to)
{
    struct br_model model;
    char path[512];

    snprintf(path, sizeof path, "%s/data/models/%s.csv", getenv("BRAID_SOURCE"), name);
    assert_int_equal(br_model_load(path, &model), 0);
    assert_in_range(model.count, 1, LAYERS);
    to->layers = model.count;
    for (int l = 0; l < model.count; l++) {
        to->counts[l] = model.layers[l].parameters / SCALE + 1;
        to->share[l] = 1. / model.count;
    }
    br_model_free(&model);
}

static int p3_slices(const struct network *model)
{
    size_t n = 0;

    for (int l = 0; l < model->layers; l++)
        n += (model->counts[l] + P3 - 1) / P3;
    return (int)n;
}

static void with_servers(const char *name, int servers)
{
    static const int order[MOST] = {0, 1, 2, 3, 4, 5, 6, 7};
    static struct network model;
    struct braid_parameters_options options = {.method = "ssgd",
                                               .servers = order,
                                               .n_servers = servers,
                                               .slice_bytes = P3 * sizeof(float)};
    struct braid_parameters_report report = {0};
    double ms, link = 0;

    read_model(name, &model);
    for (int l = 0; l < model.layers; l++)
        link += (double)(model.counts[l] * sizeof(float)) * 8 / BITS * 1e3;
    ranks = servers > RANKS ? servers : RANKS;
    ms = run_job(&model, 10, 1, 1, &options, 512);
    link *= (double)(ranks - 1) / servers; /* in and out of a server */
    assert_int_equal(braid_parameters_report(programs[0].parameters, &report), 0);
    print_message("%s, %d servers: %d slices, %d on the first one; %.1f ms, its link %.1f\n", name,
                  servers, report.slices, report.served_slices, ms, link);
    assert_int_equal(report.slices, p3_slices(&model));
    for (int r = 0; r < ranks; r++)
        assert_int_equal(br_list_empty(&training_job.ranks[r].worker->slotless[BR_SLOTLESS_P2P]),
                         1);
    close_job();
}

/* Slices of 50,000 weights of every model on one server, and of one on 1 to 8 servers: as many as
 * that makes, all of whose receives are posted at once, and each has its slot. */
static void parameters__slices_of_every_model(void **state)
{
    static const char *const names[] = {"alexnet",      "bert_base", "googlenet",
                                        "inception_v3", "lenet5",    "lstm_translation",
                                        "resnet50",     "vgg11",     "vgg19"};
    const char *sanitize = getenv("BRAID_SANITIZE");
    bool slow = sanitize && sanitize[0];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names && !slow; i++)
        with_servers(names[i], 1);
    for (int servers = slow ? MOST : 2; servers <= MOST; servers++)
        with_servers("resnet50", servers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters__ssgd_takes_what_the_formula_says),
        cmocka_unit_test(parameters__delayed_pulls_take_what_the_links_need),
        cmocka_unit_test(parameters__p3_against_layers_in_order),
        cmocka_unit_test(parameters__slices_of_every_model),
    };

    return cmocka_run_group_tests_name("sim/parameters", tests, NULL, NULL);
}
