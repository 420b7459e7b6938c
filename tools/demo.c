/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `braid demo`: the gradients of a real network, all-reduced by 4 ranks over 2 rails each, every value checked.
 *
 * 1. Without --rank the command starts itself again through `braid run`, once a rank.
 * 2. Three ways, one after the other: each layer alone (its own time and bandwidth); all layers at once in backward order
 *    with P3's priorities (the layer that the next forward pass needs first is the most urgent); the same with one
 *    priority for all. The last two differ in when the first layer is ready, which is what P3 is about.
 * 3. Values are sums of small whole numbers, exact in float32 and different for every rank, element, layer and iteration:
 *    element i of rank r is the upper 14 bits of a product hash. Checking costs a hash a rank and element, no memory.
 * 4. A layer's time ends when its operation ends; braid_test() of all that are under way finds out, in turn, as the
 *    operations need this process to make progress anyway.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <braid/braid.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/demo_report.h"
#include "tools/host.h"
#include "tools/model.h"
#include "tools/options.h"
#include "tools/tool.h"

#define BLOCK 1024 /* elements; a constant, for the compiler to vectorise */

struct settings {
    int64_t ranks, rails, iterations, seconds;
    const char *backend, *model;
    bool rank, live; /* this process is one rank; rank 0 may redraw its line */
};

struct demo {
    const struct settings *settings;
    struct braid_comm *comm;
    struct br_model model;
    struct br_demo_report report;
    float **gradients; /* by layer */
    struct braid_op **ops;
    uint64_t started; /* ns */
    uint32_t fill;    /* number of the current filling: other values each time */
    bool told;        /* the words of the failure are on stderr */
};

/* ---- values ----------------------------------------------------------------------------------------------- */

static uint32_t seed_of(const struct demo *demo, int layer, int rank)
{
    return demo->fill * 0x9e3779b9u + (uint32_t)layer * 0x85ebca6bu + (uint32_t)rank * 0xc2b2ae35u;
}

static uint32_t value(uint32_t seed, size_t i)
{
    return ((uint32_t)i * 0x2c1b3c6du + seed) * 0x9e3779b1u >> 18;
}

static void fill_layer(const struct demo *demo, int layer)
{
    uint32_t seed = seed_of(demo, layer, braid_rank(demo->comm));
    size_t count = demo->model.layers[layer].parameters, whole = count - count % BLOCK;
    float *out = demo->gradients[layer];
    for (size_t from = 0; from < whole; from += BLOCK)
        for (size_t i = 0; i < BLOCK; i++)
            out[from + i] = (float)(int32_t)value(seed, from + i);
    for (size_t i = whole; i < count; i++)
        out[i] = (float)(int32_t)value(seed, i);
}

/* Wrong elements among [from, from + n), n <= BLOCK. */
static uint32_t wrong_block(const float *got, const uint32_t *seeds, int ranks, size_t from, size_t n)
{
    uint32_t sums[BLOCK] = {0}, wrong = 0;
    for (int r = 0; r < ranks; r++)
        for (size_t i = 0; i < BLOCK; i++)
            sums[i] += value(seeds[r], from + i);
    for (size_t i = 0; i < n; i++)
        wrong += got[from + i] != (float)(int32_t)sums[i];
    return wrong;
}

static uint64_t wrong_layer(const struct demo *demo, int layer)
{
    uint32_t seeds[BR_DEMO_RANKS];
    int ranks = braid_size(demo->comm);
    size_t count = demo->model.layers[layer].parameters;
    uint64_t wrong = 0;
    for (int r = 0; r < ranks; r++)
        seeds[r] = seed_of(demo, layer, r);
    for (size_t from = 0; from < count; from += BLOCK)
        wrong += wrong_block(demo->gradients[layer], seeds, ranks, from,
                             count - from < BLOCK ? count - from : BLOCK);
    return wrong;
}

/* ---- phases ----------------------------------------------------------------------------------------------- */

static void progress(struct demo *demo, const char *what, uint64_t bytes)
{
    if (braid_rank(demo->comm) == 0)
        br_demo_progress(&demo->report, what, bytes, br_clock_now());
}

static int submit_layer(struct demo *demo, int layer, int32_t priority, struct braid_op **op)
{
    struct braid_options options = {.priority = priority};
    float *gradient = demo->gradients[layer];
    return braid_allreduce(demo->comm, gradient, gradient, demo->model.layers[layer].parameters,
                           BRAID_FLOAT32, BRAID_SUM, &options, op);
}

/* Every layer by itself; its time into us[layer]. */
static int run_alone(struct demo *demo, double *us)
{
    uint64_t bytes = 0;
    for (int layer = demo->model.count - 1; layer >= 0; layer--) {
        uint64_t start = br_clock_now();
        int rc = submit_layer(demo, layer, 0, NULL);
        if (rc)
            return rc;
        us[layer] = (double)(br_clock_now() - start) / 1e3;
        bytes += demo->model.layers[layer].parameters * sizeof(float);
        progress(demo, demo->model.layers[layer].name, bytes);
    }
    return 0;
}

/* Until all operations have ended; from submission (ns) to end into us[layer]. */
static int finish_all(struct demo *demo, double *us, const uint64_t *submitted)
{
    uint64_t bytes = 0;
    int left = demo->model.count;
    while (left) {
        int before = left;
        for (int layer = 0; layer < demo->model.count; layer++) {
            int done = 0, rc = demo->ops[layer] ? braid_test(demo->ops[layer], &done) : 0;
            if (rc) {
                demo->ops[layer] = NULL;
                return rc;
            }
            if (!done)
                continue;
            us[layer] = (double)(br_clock_now() - submitted[layer]) / 1e3;
            demo->ops[layer] = NULL;
            bytes += demo->model.layers[layer].parameters * sizeof(float);
            progress(demo, demo->model.layers[layer].name, bytes);
            left--;
        }
        if (left == before) {
            sched_yield();
            progress(demo, NULL, bytes);
        }
    }
    return 0;
}

/* Says the words of a failure before anything else fails. */
static void tell(struct demo *demo)
{
    if (!demo->told)
        fprintf(stderr, "braid demo: rank %d: %s\n", demo->comm ? braid_rank(demo->comm) : -1,
                braid_last_error());
    demo->told = true;
}

/* All layers under way at once, submitted in the order of the backward pass. */
static int run_together(struct demo *demo, bool urgent_first, double *us)
{
    uint64_t submitted[BR_MODEL_LAYERS] = {0};
    int rc = 0;
    for (int layer = demo->model.count - 1; layer >= 0 && !rc; layer--) {
        submitted[layer] = br_clock_now();
        rc = submit_layer(demo, layer, urgent_first ? demo->model.count - layer : 0, &demo->ops[layer]);
    }
    if (!rc)
        rc = finish_all(demo, us, submitted);
    if (rc)
        tell(demo);
    for (int layer = 0; layer < demo->model.count; layer++) /* after a failure they end soon, with errors */
        if (demo->ops[layer])
            braid_wait(demo->ops[layer], -1);
    return rc;
}

static int run_phase(struct demo *demo, enum br_demo_phase phase, double *us)
{
    if (phase == BR_DEMO_ALONE)
        return run_alone(demo, us);
    return run_together(demo, phase == BR_DEMO_PRIORITIES, us);
}

/* Fills, runs, checks and reports one phase once. */
static int iterate(struct demo *demo, enum br_demo_phase phase, int iteration)
{
    int layers = demo->model.count;
    double *us = demo->report.last_us; /* layers, then the whole */
    uint64_t wrong = 0;
    demo->fill++;
    br_demo_phase_begin(&demo->report, phase, iteration);
    progress(demo, "filling", 0);
    for (int layer = 0; layer < layers; layer++)
        fill_layer(demo, layer);
    int rc = braid_barrier(demo->comm, NULL, NULL);
    uint64_t start = br_clock_now();
    if (!rc)
        rc = run_phase(demo, phase, us);
    us[layers] = (double)(br_clock_now() - start) / 1e3;
    if (!rc)
        rc = braid_barrier(demo->comm, NULL,
                           NULL); /* checking keeps the cores busy: nobody begins before all are done */
    if (rc)
        return rc;
    progress(demo, "checking", demo->model.parameters * sizeof(float));
    for (int layer = 0; layer < layers; layer++)
        wrong += wrong_layer(demo, layer);
    rc = braid_allreduce(demo->comm, us, us, (size_t)layers + 1, BRAID_FLOAT64, BRAID_MAX, NULL, NULL);
    if (!rc)
        rc = braid_allreduce(demo->comm, &wrong, &wrong, 1, BRAID_UINT64, BRAID_SUM, NULL, NULL);
    if (!rc && braid_rank(demo->comm) == 0)
        br_demo_phase_end(&demo->report, phase, wrong);
    demo->report.wrong += wrong;
    return rc;
}

/* Is there time for another round? Rank 0's clock decides for all. */
static int more_time(struct demo *demo, int rounds, bool *more)
{
    uint64_t spent = br_clock_now() - demo->started, each = spent / (uint64_t)rounds;
    int32_t decision = spent + each < (uint64_t)demo->settings->seconds * BR_SEC;
    int rc = braid_broadcast(demo->comm, &decision, &decision, 1, BRAID_INT32, 0, NULL, NULL);
    *more = decision;
    return rc;
}

static int run(struct demo *demo)
{
    bool more = true;
    int rc = 0;
    demo->started = br_clock_now();
    for (int iteration = 1; iteration <= demo->settings->iterations && more && !rc; iteration++) {
        for (int phase = 0; phase < BR_DEMO_PHASES && !rc; phase++)
            rc = iterate(demo, (enum br_demo_phase)phase, iteration);
        if (!rc)
            rc = more_time(demo, iteration, &more);
    }
    if (!rc && braid_rank(demo->comm) == 0)
        br_demo_report(&demo->report, demo->comm);
    return rc;
}

/* ---- one rank --------------------------------------------------------------------------------------------- */

static int get_memory(struct demo *demo)
{
    size_t all = demo->model.parameters * sizeof(float);
    int ranks = braid_size(demo->comm);
    uint64_t available = br_host_memory_available();
    if (ranks > BR_DEMO_RANKS)
        return br_error(EINVAL, "%d ranks: at most %d keep the sums exact", ranks, BR_DEMO_RANKS);
    if (available && all * (uint64_t)ranks > available / 4 * 3)
        return br_error(ENOMEM,
                        "%d ranks need %zu MB each, only %" PRIu64
                        " MB are free: choose a smaller --model, or fewer "
                        "--ranks",
                        ranks, all / 1000000, available / 1000000);
    demo->gradients = calloc((size_t)demo->model.count, sizeof(float *));
    demo->ops = calloc((size_t)demo->model.count, sizeof(struct braid_op *));
    if (!demo->gradients || !demo->ops)
        return br_error(ENOMEM, "no memory for %d layers", demo->model.count);
    for (int layer = 0; layer < demo->model.count; layer++) {
        demo->gradients[layer] =
            braid_alloc(demo->comm, demo->model.layers[layer].parameters * sizeof(float));
        if (!demo->gradients[layer])
            return -ENOMEM;
    }
    return br_demo_report_open(&demo->report, &demo->model, ranks, (int)demo->settings->iterations,
                               demo->settings->live);
}

static int load_model(const struct settings *settings, struct br_model *model)
{
    char path[768];
    int rc = settings->model ? 0 : br_host_data_file("models/vgg19.csv", path, sizeof path);
    return rc ? rc : br_model_load(settings->model ? settings->model : path, model);
}

static int one_rank(const struct settings *settings)
{
    struct demo demo = {.settings = settings};
    if (load_model(settings, &demo.model)) {
        fprintf(stderr, "braid demo: %s\n", br_error_words());
        return 1;
    }
    int rc = braid_init(NULL, &demo.comm);
    if (!rc)
        rc = get_memory(&demo);
    if (!rc && braid_rank(demo.comm) == 0)
        br_demo_opening(&demo.report, demo.comm);
    if (!rc)
        rc = run(&demo);
    if (rc)
        fprintf(stderr, "braid demo: rank %d: %s\n", demo.comm ? braid_rank(demo.comm) : -1,
                braid_last_error());
    if (rc && demo.comm)
        braid_comm_abort(demo.comm, "a rank of the demo failed");
    int left = demo.comm ? braid_finalize(demo.comm) : 0;
    if (left && !rc)
        fprintf(stderr, "braid demo: %s\n", braid_last_error());
    bool wrong = demo.report.wrong != 0;
    br_demo_report_close(&demo.report);
    br_model_free(&demo.model);
    free(demo.gradients);
    free(demo.ops);
    return rc || left || wrong;
}

/* ---- the command ------------------------------------------------------------------------------------------ */

/* Becomes `braid run -n N ... -- braid demo --rank ...`. Returns only when that fails. */
static int start_ranks(const struct settings *settings, int argc, char **argv)
{
    char self[512], ranks[16], rails[16];
    const char *words[48];
    int n = 0;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0 || argc > 24) {
        fprintf(stderr, "braid demo: %s\n",
                argc > 24 ? "too many arguments" : "cannot find itself: /proc is not mounted");
        return 1;
    }
    self[length] = 0;
    snprintf(ranks, sizeof ranks, "%" PRId64, settings->ranks);
    snprintf(rails, sizeof rails, "%" PRId64, settings->rails);
    const char *const start[] = {
        self,          "run", "-n", ranks,  "--rails", rails, "--backend", settings->backend,
        "--no-prefix", "--",  self, "demo", "--rank"};
    for (size_t i = 0; i < sizeof start / sizeof *start; i++)
        words[n++] = start[i];
    if (isatty(STDOUT_FILENO))
        words[n++] = "--live";
    for (int i = 1; i < argc; i++)
        words[n++] = argv[i];
    words[n] = NULL;
    execv(self, (char **)words);
    fprintf(stderr, "braid demo: cannot start %s: %s\n", self, strerror(errno));
    return 1;
}

int br_tool_demo(int argc, char **argv)
{
    struct settings s = {.ranks = 4, .rails = 2, .iterations = 3, .seconds = 75, .backend = "uring"};
    const struct br_option options[] = {
        {"ranks", 'n', BR_OPTION_NUMBER, &s.ranks, 1, BR_DEMO_RANKS, "N processes; default 4"},
        {"rails", 0, BR_OPTION_NUMBER, &s.rails, 1, 8, "N connections to each peer; default 2"},
        {"backend", 0, BR_OPTION_TEXT, &s.backend, 0, 0, "NAME uring, shm or auto; default uring"},
        {"model", 'm', BR_OPTION_TEXT, &s.model, 0, 0, "FILE as data/models/*.csv; default: VGG-19"},
        {"iterations", 'i', BR_OPTION_NUMBER, &s.iterations, 1, 1000, "N rounds; default 3"},
        {"seconds", 's', BR_OPTION_NUMBER, &s.seconds, 1, 86400, "N no new round after that; default 75"},
        {"rank", 0, BR_OPTION_FLAG, &s.rank, 0, 0, " be one rank: what the command starts itself with"},
        {"live", 0, BR_OPTION_FLAG, &s.live, 0, 0, " redraw the progress line"},
        {0},
    };
    int rc = br_options_parse(options, argc, argv);
    if (rc == 1) {
        br_options_help(options, "braid demo [options]", stdout);
        return 0;
    }
    if (rc) {
        fprintf(stderr, "braid demo: %s\n", br_error_words());
        return 2;
    }
    return s.rank ? one_rank(&s) : start_ranks(&s, argc, argv);
}
