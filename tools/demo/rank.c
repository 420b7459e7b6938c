/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank of `braid demo`: all-reduces the gradients of each model with each algorithm, layer by
 * layer.
 *
 * 1. All layers are submitted at once in the order of the backward pass, with P3's priorities: the
 *    layer that the next forward pass needs first is the most urgent. A layer's time ends when its
 *    operation ends.
 * 2. What one link carries is measured in the same run, alone, between rank 0 and rank 1, which are
 *    neighbours.
 * 3. The operations are persistent, as a training program's would be: their scratch is ready before
 *    the first round.
 * 4. A model that is too large for the time is scaled: the same fraction of every layer.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <braid/braid.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/median.h"
#include "tools/demo/demo.h"
#include "tools/demo/values.h"
#include "tools/common/format.h"
#include "tools/common/host.h"
#include "tools/common/model.h"
#include "tools/common/options.h"

#define LINK_BYTES   (8u << 20)
#define LINK_SAMPLES 3
#define REDRAW       (100 * BR_MS)

struct settings {
    const char *models, *algorithms, *network, *results;
    int64_t levels, rounds, warmup, percent; /* percent: of each layer, at least one element */
    bool live;
};

struct rank {
    const struct settings *settings;
    struct braid_comm *comm;
    struct br_model model;
    const char *name;  /* of the model, or its path */
    char title[24];    /* of the model */
    float **gradients; /* by layer */
    size_t *counts;    /* elements, scaled */
    struct braid_op **ops;
    uint32_t filling; /* other values each time */
    double goodput;   /* rank 0 */
    uint64_t wrong, drawn;
};

static void rank_progress(struct rank *rank, const char *algorithm, double share, const char *what)
{
    uint64_t now = br_clock_now();

    if (!rank->settings->live || braid_rank(rank->comm) != 0 ||
        (share > 0 && now - rank->drawn < REDRAW))
        return;
    rank->drawn = now;
    br_demo_progress(rank->settings->network, algorithm, rank->title, share, what);
}

/* Where no progress is drawn: a line each time that something begins or has ended. */
static void rank_say(const struct rank *rank, const char *algorithm, const char *text)
{
    if (!rank->settings->live && braid_rank(rank->comm) == 0)
        br_demo_say(rank->settings->network, algorithm, rank->title, text);
}

/* ---- the link alone -------------------------------------------------------------------------- */

/* One way, from rank 0 to rank 1, whose answer of one byte ends the time. */
static int rank_measure_link(struct rank *rank)
{
    int me = braid_rank(rank->comm), rc = 0;
    double rates[LINK_SAMPLES];
    char *memory, answer = 0;

    if (me > 1 || braid_size(rank->comm) < 2)
        return 0;
    memory = braid_alloc(rank->comm, LINK_BYTES);
    if (!memory)
        return -ENOMEM;
    for (int i = -1; i < LINK_SAMPLES && !rc; i++) { /* the first one warms up */
        uint64_t start = br_clock_now();

        rc = me == 0 ? braid_send(rank->comm, memory, LINK_BYTES, 1, NULL, NULL)
                     : braid_recv(rank->comm, memory, LINK_BYTES, 0, NULL, NULL);
        if (!rc)
            rc = me == 0 ? braid_recv(rank->comm, &answer, 1, 1, NULL, NULL)
                         : braid_send(rank->comm, &answer, 1, 0, NULL, NULL);
        if (i >= 0)
            rates[i] = LINK_BYTES * 1e9 / (double)(br_clock_now() - start);
    }
    rank->goodput = br_median(rates, LINK_SAMPLES);
    braid_free(rank->comm, memory);
    return rc;
}

/* ---- one run --------------------------------------------------------------------------------- */

static void close_operations(struct rank *rank)
{
    for (int layer = 0; layer < rank->model.count; layer++) {
        braid_op_free(rank->ops[layer]);
        rank->ops[layer] = NULL;
    }
}

/* Declares the layers, in the order of the backward pass. */
static int open_operations(struct rank *rank, const char *algorithm)
{
    int rc = 0;

    for (int layer = rank->model.count - 1; layer >= 0 && !rc; layer--) {
        struct braid_options options = {.priority = rank->model.count - layer,
                                        .algorithm = algorithm};

        rc = braid_allreduce_init(rank->comm, rank->gradients[layer], rank->gradients[layer],
                                  rank->counts[layer], BRAID_FLOAT32, BRAID_SUM, &options,
                                  &rank->ops[layer]);
    }
    return rc;
}

/* Until all operations have ended, in the order of their urgency; when the first layer had, in
 * *first (ns). */
static int rank_finish(struct rank *rank, const char *algorithm, uint64_t *first)
{
    size_t done = 0, all = 0;
    int rc = 0;

    for (int layer = 0; layer < rank->model.count; layer++)
        all += rank->counts[layer];
    for (int layer = 0; layer < rank->model.count && !rc; layer++) {
        rc = braid_wait(rank->ops[layer], -1);
        if (layer == 0)
            *first = br_clock_now();
        done += rank->counts[layer];
        rank_progress(rank, algorithm, (double)done / (double)all, rank->model.layers[layer].name);
    }
    return rc;
}

static int reduce_all(struct rank *rank, const char *algorithm, uint64_t *first)
{
    int rc = 0;

    for (int layer = rank->model.count - 1; layer >= 0 && !rc; layer--)
        rc = braid_start(rank->ops[layer]);
    return rc ? rc : rank_finish(rank, algorithm, first);
}

static struct br_demo_values values_of(const struct rank *rank, int layer)
{
    return (struct br_demo_values){rank->filling, (uint32_t)layer};
}

/* Fills, runs and checks once; adds the slowest rank's times to the result. */
static int rank_run_once(struct rank *rank, const char *algorithm, struct br_demo_result *result)
{
    int me = braid_rank(rank->comm), size = braid_size(rank->comm), rc;
    uint64_t start, first = 0, wrong = 0;
    double seconds[2];

    rank->filling++;
    rank_progress(rank, algorithm, 0, "filling");
    for (int layer = 0; layer < rank->model.count; layer++)
        br_demo_fill(values_of(rank, layer), me, rank->gradients[layer], rank->counts[layer]);
    rc = braid_barrier(rank->comm, NULL, NULL);
    if (rc)
        return rc;
    start = br_clock_now();
    rc = reduce_all(rank, algorithm, &first);
    if (rc)
        return rc;
    seconds[0] = (double)(br_clock_now() - start) / 1e9;
    seconds[1] = (double)(first - start) / 1e9;
    /* checking keeps cores busy: not before all are done */
    rc = braid_barrier(rank->comm, NULL, NULL);
    if (rc)
        return rc;
    rank_progress(rank, algorithm, 0, "checking");
    for (int layer = 0; layer < rank->model.count; layer++) {
        wrong += br_demo_wrong(values_of(rank, layer), size, rank->gradients[layer],
                               rank->counts[layer]);
        result->checked += rank->counts[layer] * (uint64_t)size;
    }
    rc = braid_allreduce(rank->comm, seconds, seconds, 2, BRAID_FLOAT64, BRAID_MAX, NULL, NULL);
    if (!rc)
        rc = braid_allreduce(rank->comm, &wrong, &wrong, 1, BRAID_UINT64, BRAID_SUM, NULL, NULL);
    result->seconds += seconds[0] / (double)rank->settings->rounds;
    result->first_seconds += seconds[1] / (double)rank->settings->rounds;
    result->wrong += wrong;
    return rc;
}

static int rank_run(struct rank *rank, const char *algorithm, FILE *results)
{
    const struct settings *s = rank->settings;
    struct br_demo_result result = {
        .hosts = (uint32_t)braid_size(rank->comm),
        .levels = (uint32_t)s->levels,
        .whole_bytes = (double)rank->model.parameters * sizeof(float),
        .goodput = rank->goodput,
        .rounds = (uint32_t)s->rounds,
    };
    struct br_demo_result untimed = {0};
    char time[BR_FORMAT_BYTES];
    int rc = 0;

    memcpy(result.model, rank->title, sizeof result.model);
    snprintf(result.algorithm, sizeof result.algorithm, "%s", algorithm);
    snprintf(result.network, sizeof result.network, "%s", s->network);
    for (int layer = 0; layer < rank->model.count; layer++)
        result.bytes += (double)rank->counts[layer] * sizeof(float);
    rank_say(rank, algorithm, "begins");
    rc = open_operations(rank, algorithm);
    for (int64_t i = 0; i < s->warmup && !rc; i++)
        rc = rank_run_once(rank, algorithm, &untimed);
    for (int64_t i = 0; i < s->rounds && !rc; i++)
        rc = rank_run_once(rank, algorithm, &result);
    if (!rc) /* else they end with the communicator */
        close_operations(rank);
    rank->wrong += result.wrong + untimed.wrong;
    if (!rc)
        rank_say(rank, algorithm, br_format_time(time, result.seconds * 1e6));
    if (!rc && braid_rank(rank->comm) == 0)
        rc = br_demo_result_write(results, &result);
    return rc;
}

/* ---- models ---------------------------------------------------------------------------------- */

static void forget_model(struct rank *rank)
{
    for (int layer = 0; rank->gradients && layer < rank->model.count; layer++)
        braid_free(rank->comm, rank->gradients[layer]);
    free(rank->gradients);
    free(rank->counts);
    free(rank->ops);
    rank->gradients = NULL;
    rank->counts = NULL;
    rank->ops = NULL;
    br_model_free(&rank->model);
}

static int get_gradients(struct rank *rank)
{
    size_t layers = (size_t)rank->model.count;

    rank->gradients = calloc(layers, sizeof(float *));
    rank->counts = calloc(layers, sizeof(size_t));
    rank->ops = calloc(layers, sizeof(struct braid_op *));
    if (!rank->gradients || !rank->counts || !rank->ops)
        return br_error(ENOMEM, "no memory for %zu layers", layers);
    for (size_t i = 0; i < layers; i++) {
        size_t count = rank->model.layers[i].parameters * (size_t)rank->settings->percent / 100;

        rank->counts[i] = count ? count : 1;
        rank->gradients[i] = braid_alloc(rank->comm, rank->counts[i] * sizeof(float));
        if (!rank->gradients[i])
            return -ENOMEM;
    }
    return 0;
}

static int load_model(struct rank *rank)
{
    char name[64], path[768];
    int rc = 0;

    if (strchr(rank->name, '/'))
        return br_model_load(rank->name, &rank->model);
    snprintf(name, sizeof name, "models/%s.csv", rank->name);
    rc = br_host_data_file(name, path, sizeof path);
    return rc ? rc : br_model_load(path, &rank->model);
}

/* "dir/vgg19.csv" is vgg19. */
static void name_model(const char *path, char out[24])
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    snprintf(out, 24, "%.*s", (int)strcspn(name, ".\t\n"), name);
}

/* Every algorithm on one model. */
static int run_model(struct rank *rank, FILE *results)
{
    char *algorithms = strdup(rank->settings->algorithms), *save = NULL;
    int rc = algorithms ? load_model(rank) : br_error(ENOMEM, "no memory");

    if (!rc)
        rc = get_gradients(rank);
    for (char *name = rc ? NULL : strtok_r(algorithms, ",", &save); name && !rc;
         name = strtok_r(NULL, ",", &save))
        rc = rank_run(rank, name, results);
    free(algorithms);
    return rc;
}

static int run_all(struct rank *rank, FILE *results)
{
    char *models = strdup(rank->settings->models), *save = NULL;
    int rc = models ? rank_measure_link(rank) : br_error(ENOMEM, "no memory");

    if (!rc)
        /* nobody takes the cores from the two that measure */
        rc = braid_barrier(rank->comm, NULL, NULL);
    for (char *name = rc ? NULL : strtok_r(models, ",", &save); name && !rc;
         name = strtok_r(NULL, ",", &save)) {
        rank->name = name;
        name_model(name, rank->title);
        rc = run_model(rank, results);
        if (rc)
            fprintf(stderr, "braid demo: rank %d: %s\n", braid_rank(rank->comm),
                    braid_last_error());
        forget_model(rank);
    }
    free(models);
    return rc;
}

/* ---- the rank -------------------------------------------------------------------------------- */

static int rank_start(const struct settings *settings)
{
    struct rank rank = {.settings = settings};
    FILE *results = fopen(settings->results, "a");
    int rc;

    if (!results) {
        fprintf(stderr, "braid demo: cannot write %s: %s\n", settings->results, strerror(errno));
        return 1;
    }
    rc = braid_init(NULL, &rank.comm);
    if (!rc && braid_size(rank.comm) > BR_DEMO_RANKS)
        rc = br_error(EINVAL, "%d ranks: at most %d keep the sums exact", braid_size(rank.comm),
                      BR_DEMO_RANKS);
    if (rc)
        fprintf(stderr, "braid demo: %s\n", braid_last_error());
    else
        rc = run_all(&rank, results);
    if (rc && rank.comm)
        braid_comm_abort(rank.comm, "a rank of the demo failed");
    if (settings->live && rank.comm && braid_rank(rank.comm) == 0)
        br_demo_progress_end();
    braid_finalize(rank.comm);
    if (fclose(results) && !rc) {
        fprintf(stderr, "braid demo: cannot write %s: %s\n", settings->results, strerror(errno));
        rc = -EIO;
    }
    return rc || rank.wrong;
}

int br_demo_rank(int argc, char **argv)
{
    struct settings s = {.levels = 1, .rounds = 1, .percent = 100};
    const struct br_option options[] = {
        {"models", 0, BR_OPTION_TEXT, &s.models, 0, 0, "LIST of data/models/, or paths"},
        {"algorithms", 0, BR_OPTION_TEXT, &s.algorithms, 0, 0, "LIST"},
        {"network", 0, BR_OPTION_TEXT, &s.network, 0, 0, "NAME for the table"},
        {"levels", 0, BR_OPTION_NUMBER, &s.levels, 1, 16, "K NICs a host"},
        {"results", 0, BR_OPTION_TEXT, &s.results, 0, 0, "FILE to add lines to"},
        {"rounds", 0, BR_OPTION_NUMBER, &s.rounds, 1, 1000, "N of each"},
        {"warmup", 0, BR_OPTION_NUMBER, &s.warmup, 0, 1000, "N of each before, not timed"},
        {"percent", 0, BR_OPTION_NUMBER, &s.percent, 1, 100, "P of each layer"},
        {"live", 0, BR_OPTION_FLAG, &s.live, 0, 0, " redraw the progress line"},
        {0},
    };
    int rc = br_options_parse(options, "braid demo --rank [options], in a job", argc, argv);

    if (!rc && (!s.models || !s.algorithms || !s.network || !s.results))
        rc = br_error(EINVAL, "a rank needs --models, --algorithms, --network and --results");
    if (rc > 0)
        return 0;
    if (rc) {
        fprintf(stderr, "braid demo: %s\n", br_error_message());
        return 2;
    }
    return rank_start(&s);
}
