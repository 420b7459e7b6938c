/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `braid train`: trains a small convolutional network on a generated data set (train/data.h),
 * data-parallel over the ranks of a job, with every policy of gradient sessions and every method of
 * parameter servers. The samples of an iteration depend on seed, iteration and rank alone, so what
 * is synchronous gives the same weights in every run; --single computes them in one process.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/random.h"
#include "tools/common/options.h"
#include "tools/common/tool.h"
#include "tools/train/method.h"

#define TEST_SEED 77
#define LATE      (200 * BR_US) /* of a sleep's end; what is longer was a wait */

/* What a run came to. */
struct outcome {
    double seconds, loss, accuracy, best;
    double steady; /* s an iteration of the second half, without what ends the training */
    uint64_t digest;
    struct braid_session_report session;
    struct braid_parameters_report servers;
};

/* ---- an iteration ---------------------------------------------------------------------------- */

static void draw_batch(const struct br_train *t, int rank, int *index)
{
    struct br_random random;

    br_random_seed(&random,
                   ((uint64_t)t->settings->seed << 40) + (t->iteration << 10) + (uint64_t)rank);
    for (int b = 0; b < t->network.batch; b++)
        index[b] = (int)br_random_below(&random, (uint64_t)t->settings->samples);
}

/* --device-ms: a pass takes at least so long, a third of it forwards, as on a device that computes
 * by itself. A sleep ends late: the next pass begins when this one should have ended. */
static void train_pretend(struct br_train *t, uint64_t start, int thirds)
{
    uint64_t ns = (uint64_t)t->settings->device_ms * BR_MS;
    struct timespec until;

    if (!ns)
        return;
    if (start > t->device_free + LATE)
        t->device_free = start;
    t->device_free += ns * (uint64_t)thirds / 3 / BR_TRAIN_LAYERS;
    until = (struct timespec){(time_t)(t->device_free / BR_SEC), (long)(t->device_free % BR_SEC)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static int train_forward(struct br_train *t)
{
    int rc = 0;

    for (int l = 0; l < BR_TRAIN_LAYERS && !rc; l++) {
        uint64_t start;

        rc = t->method->wait(t, l);
        start = br_clock_now();
        if (!rc)
            br_train_network_forward(&t->network, l, t->method->weight(t, l));
        train_pretend(t, start, 1);
    }
    return rc;
}

static int train_backward(struct br_train *t)
{
    int rc = 0;

    for (int l = BR_TRAIN_LAYERS - 1; l >= 0 && !rc; l--) {
        float *gradient = t->method->gradient(t, l);
        uint64_t start = br_clock_now();

        if (!gradient)
            return -ECANCELED;
        br_train_network_backward(&t->network, l, t->method->weight(t, l), gradient);
        train_pretend(t, start, 2);
        rc = t->method->ready(t, l);
    }
    return rc;
}

static int train_iterate(struct br_train *t, const struct br_train_data *data, double *loss)
{
    int index[BR_TRAIN_BATCH], shares = t->comm ? 1 : t->ranks, rc = 0;

    for (int share = 0; share < shares && !rc; share++) {
        if (!t->comm)
            t->rank = share;
        draw_batch(t, t->rank, index);
        br_train_network_load(&t->network, data, index);
        rc = train_forward(t);
        if (!rc)
            rc = t->method->step(t);
        if (rc)
            break;
        br_train_network_judge(&t->network, data, index, loss);
        rc = train_backward(t);
    }
    t->iteration++;
    return rc;
}

/* ---- a run ----------------------------------------------------------------------------------- */

static uint64_t train_digest(struct br_train *t)
{
    uint64_t layers[BR_TRAIN_LAYERS];

    for (int l = 0; l < BR_TRAIN_LAYERS; l++)
        layers[l] =
            br_digest_bytes(t->method->weight(t, l), t->network.layers[l].count * sizeof(float));
    return br_digest(layers, BR_TRAIN_LAYERS);
}

static int train_judge(struct br_train *t, struct outcome *outcome)
{
    int index[BR_TRAIN_BATCH], batches = (int)t->settings->test / t->network.batch, right = 0;
    struct br_train_data data;
    int rc = br_train_data_make(&data, (int)t->settings->test, TEST_SEED);

    for (int i = 0; i < batches && !rc; i++) {
        double loss;

        for (int b = 0; b < t->network.batch; b++)
            index[b] = i * t->network.batch + b;
        br_train_network_load(&t->network, &data, index);
        for (int l = 0; l < BR_TRAIN_LAYERS; l++)
            br_train_network_forward(&t->network, l, t->method->weight(t, l));
        right += br_train_network_judge(&t->network, &data, index, &loss);
        outcome->loss += loss / batches;
    }
    outcome->accuracy = (double)right / (batches * t->network.batch);
    outcome->best = data.best;
    outcome->digest = train_digest(t);
    if (!rc)
        br_train_data_free(&data);
    return rc;
}

static int train_run(struct br_train *t, const struct br_train_data *data, struct outcome *outcome)
{
    int64_t all = t->settings->iterations;
    uint64_t start, middle = 0;
    double loss;
    int rc = t->comm ? braid_barrier(t->comm, NULL, NULL) : 0;

    start = br_clock_now();
    for (int64_t i = 0; i < all && !rc; i++) {
        if (i == all / 2)
            middle = br_clock_now();
        rc = train_iterate(t, data, &loss);
    }
    outcome->steady = (double)(br_clock_now() - middle) / 1e9 / (double)(all - all / 2);
    if (!t->comm)
        t->rank = 0;
    if (!rc)
        rc = t->method->finish(t);
    outcome->seconds = (double)(br_clock_now() - start) / 1e9;
    if (!rc && t->session)
        rc = braid_session_report(t->session, &outcome->session);
    if (!rc && t->parameters)
        rc = braid_parameters_report(t->parameters, &outcome->servers);
    return rc || t->rank ? rc : train_judge(t, outcome);
}

static void train_print(const struct br_train *t, const struct outcome *o)
{
    const struct br_train_settings *s = t->settings;
    const char *where = t->comm ? "servers" : "single";
    int steps = t->comm ? o->servers.steps : (int)s->steps;
    char how[96];

    if (s->servers && steps)
        snprintf(how, sizeof how, "%s %s, k = %d%s%s", where, s->servers, steps,
                 s->local ? ", " : "", s->local ? s->local : "");
    else if (s->servers)
        snprintf(how, sizeof how, "%s %s", where, s->servers);
    else if (t->session)
        snprintf(how, sizeof how, "policy %s, %d groups", s->policy ? s->policy : "auto",
                 o->session.groups);
    else
        snprintf(how, sizeof how, "single");
    printf("%-28s %3d ranks %6" PRId64 " iterations %9.3f ms each, %.3f of the second half  loss "
           "%.4f  accuracy %.2f %% (at best %.2f "
           "%%)  weights %016" PRIx64 "\n",
           how, t->ranks, s->iterations, o->seconds * 1e3 / (double)s->iterations, o->steady * 1e3,
           o->loss, o->accuracy * 100, o->best * 100, o->digest);
    if (o->servers.predicted[0] > 0)
        printf("ms by the warm-up's times: ssgd %.3f, k = 1 to 5 %.3f %.3f %.3f %.3f %.3f\n",
               o->servers.predicted[0] * 1e3, o->servers.predicted[1] * 1e3,
               o->servers.predicted[2] * 1e3, o->servers.predicted[3] * 1e3,
               o->servers.predicted[4] * 1e3, o->servers.predicted[5] * 1e3);
    fflush(stdout);
}

static int train(struct br_train *t)
{
    const struct br_train_settings *s = t->settings;
    struct outcome outcome = {0};
    struct br_train_data data = {0};
    int rc = br_train_network_open(&t->network, (int)s->batch, (int)s->width), closed;

    if (!rc)
        rc = br_train_data_make(&data, (int)s->samples, (uint64_t)s->seed);
    if (!rc)
        rc = t->method->open(t);
    if (!rc)
        rc = train_run(t, &data, &outcome);
    if (!rc && !t->rank)
        train_print(t, &outcome);
    if (rc)
        fprintf(stderr, "braid train: rank %d: %s\n", t->rank, br_error_message());
    closed = t->method->close(t);
    if (closed && !rc)
        fprintf(stderr, "braid train: rank %d: %s\n", t->rank, br_error_message());
    br_train_data_free(&data);
    br_train_network_close(&t->network);
    return rc || closed;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int train_check(struct br_train_settings *s, const char *rate)
{
    char *end;

    s->rate = rate ? strtof(rate, &end) : 0.02f;
    if (rate && (end == rate || *end || !(s->rate > 0)))
        return br_error(EINVAL, "--rate %s: must be a number greater than 0", rate);
    if (s->policy && s->servers)
        return br_error(EINVAL, "--policy applies to a gradient session and --servers to parameter "
                                "servers: give one of the two");
    if (s->algorithm && (s->servers || s->single))
        return br_error(
            EINVAL,
            "--algorithm applies to a gradient session; leave it out with --servers and --single");
    if (s->single &&
        (s->policy || (s->servers && strcmp(s->servers, "ssgd") && strcmp(s->servers, "ssd"))))
        return br_error(EINVAL,
                        "--single computes --servers ssgd (default) or ssd, and nothing else");
    if (s->single && s->servers && !strcmp(s->servers, "ssd") && !s->steps)
        return br_error(EINVAL,
                        "--single --servers ssd needs --steps: it has no times to choose them by");
    return 0;
}

static int train_start(const struct br_train_settings *s)
{
    struct br_train t = {.settings = s, .ranks = (int)s->single, .method = &br_train_single};
    int rc;

    if (!s->single) {
        if (braid_init(NULL, &t.comm)) {
            fprintf(stderr, "braid train: %s\n", braid_last_error());
            return 1;
        }
        t.rank = braid_rank(t.comm);
        t.ranks = braid_size(t.comm);
        t.method = s->servers ? &br_train_servers : &br_train_session;
    }
    rc = train(&t);
    if (rc && t.comm)
        braid_comm_abort(t.comm, "a rank of braid train failed");
    if (braid_finalize(t.comm) && !rc)
        rc = 1;
    return rc != 0;
}

int br_tool_train(int argc, char **argv)
{
    static const char usage[] =
        "braid train [options]        in a job: braid run -n 4 -- braid train "
        "--servers ssd --steps 4\n"
        "trains a small network on a generated data set, over all ranks\n";
    struct br_train_settings s = {.iterations = 1200,
                                  .batch = 16,
                                  .width = 64,
                                  .seed = 1,
                                  .samples = 8000,
                                  .test = 8000,
                                  .warmup = 500};
    const char *rate = NULL;
    const struct br_option options[] = {
        {"policy", 'p', BR_OPTION_TEXT, &s.policy, 0, 0,
         "NAME gradient session: layerwise, single, bucket, mgwfbp, optimal, p3, auto (default)"},
        {"algorithm", 'a', BR_OPTION_TEXT, &s.algorithm, 0, 0,
         "NAME of a session's all-reduces; direct: as --single to the bit, by any policy; default "
         "auto"},
        {"servers", 's', BR_OPTION_TEXT, &s.servers, 0, 0,
         "METHOD parameter servers: ssgd, asgd, ssd, local"},
        {"single", 0, BR_OPTION_NUMBER, &s.single, 1, 1024,
         "N one process does the work of N ranks, as --servers ssgd (default) or ssd: the "
         "reference"},
        {"steps", 'k', BR_OPTION_NUMBER, &s.steps, 0, 1000,
         "K iterations from pull to pull (ssd, local); default 0: by the time model"},
        {"local", 0, BR_OPTION_TEXT, &s.local, 0, 0, "NAME ssd between pulls: glu (default), sgd"},
        {"warmup", 0, BR_OPTION_NUMBER, &s.warmup, 0, 1000000,
         "N iterations of ssgd first; default 500"},
        {"count", 0, BR_OPTION_NUMBER, &s.count, 1, 1024,
         "N ranks 0 to N-1 are servers; default: all"},
        {"slice", 0, BR_OPTION_NUMBER, &s.slice, 4, 1 << 30,
         "N bytes of a push or pull to or from servers; default 200000"},
        {"iterations", 'n', BR_OPTION_NUMBER, &s.iterations, 1, 100000000, "N default 1200"},
        {"batch", 'b', BR_OPTION_NUMBER, &s.batch, 1, BR_TRAIN_BATCH,
         "N samples a rank; default 16"},
        {"rate", 'r', BR_OPTION_TEXT, &rate, 0, 0,
         "R learning rate, default 0.02; a tenth from 60 % on"},
        {"width", 'w', BR_OPTION_NUMBER, &s.width, 1, 65536,
         "N of the first dense layer, which has 145 weights for each; default 64"},
        {"samples", 0, BR_OPTION_NUMBER, &s.samples, 1, 10000000, "N to learn from; default 8000"},
        {"test", 0, BR_OPTION_NUMBER, &s.test, BR_TRAIN_BATCH, 10000000,
         "N samples that accuracy is taken on; default 8000"},
        {"seed", 0, BR_OPTION_NUMBER, &s.seed, 0, 1 << 20,
         "N of samples and first weights; default 1"},
        {"device-ms", 0, BR_OPTION_NUMBER, &s.device_ms, 0, 10000,
         "MS an iteration's passes take at least so long, as on a device; default 0"},
        {0},
    };
    int rc = br_options_parse(options, usage, argc, argv);

    if (rc > 0)
        return 0;
    if (!rc)
        rc = train_check(&s, rate);
    if (rc) {
        fprintf(stderr, "braid train: %s\n", br_error_message());
        return 2;
    }
    return train_start(&s);
}
