/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replays the training of a network of data/models/ over a real gradient session, for policies.sh and copying.sh: a rank of a job sleeps where a
 * device would compute, and the gradients travel.
 *
 *     replay MODEL PERCENT COMPUTE_MS POLICY ITERATIONS [apart]
 *
 * PERCENT of each layer's gradient is sent. COMPUTE_MS is an iteration's computation, a third of it forwards, layers by their
 * multiply-adds. Prints the ms of an iteration, once the session has its plan, and rank 0's processor time in one. `apart`: each gradient has memory of
 * its own, so that merged ones are copied.
 *
 * A sleep ends late. A device does not: its next pass begins when the one before should have ended, or when the gradient came that it had
 * to wait for.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <braid/training.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/model.h"

#define WARMUP  8 /* iterations at least: the session plans after 5, and may then try plans */
#define BLOCKED (200 * BR_US)
#define GAP     64 /* bytes between gradients that are apart */

struct replay {
    struct braid_comm *comm;
    struct braid_session *session;
    struct br_model model;
    uint64_t *forward; /* ns, by layer; twice that backwards */
    uint64_t at;       /* the device is done with what it has */
    uint8_t *apart;    /* memory of gradients that are; NULL: they are not */
};

static int time_layers(struct replay *r, double compute_ms)
{
    double all = 0;

    r->forward = calloc((size_t)r->model.count, sizeof *r->forward);
    if (!r->forward)
        return br_error(ENOMEM, "no memory for %d layers", r->model.count);
    for (int l = 0; l < r->model.count; l++)
        all += (double)r->model.layers[l].multiply_adds;
    for (int l = 0; l < r->model.count; l++)
        r->forward[l] = (uint64_t)(compute_ms * 1e6 / 3 * (double)r->model.layers[l].multiply_adds / all);
    return 0;
}

static int put_apart(struct replay *r, struct braid_layer *layers)
{
    size_t bytes = 0;

    for (int l = 0; l < r->model.count; l++)
        bytes += layers[l].count * sizeof(float) + GAP;
    r->apart = braid_alloc(r->comm, bytes);
    if (!r->apart)
        return -ENOMEM;
    bytes = 0;
    for (int l = 0; l < r->model.count; l++) {
        layers[l].gradient = r->apart + bytes;
        bytes += layers[l].count * sizeof(float) + GAP;
    }
    return 0;
}

static int open_session(struct replay *r, double percent, const char *policy, bool apart)
{
    struct braid_session_options options = {
        .policy = policy, .review = -1, .bucket_bytes = (size_t)(25 * 1048576 * percent / 100)};
    struct braid_layer *layers = calloc((size_t)r->model.count, sizeof *layers);
    int rc = layers ? 0 : br_error(ENOMEM, "no memory for %d layers", r->model.count);

    for (int l = 0; l < r->model.count && !rc; l++)
        layers[l].count = 1 + (size_t)((double)r->model.layers[l].parameters * percent / 100);
    if (!rc && apart)
        rc = put_apart(r, layers);
    if (!rc)
        rc = braid_session_create(r->comm, layers, r->model.count, &options, &r->session);
    free(layers);
    return rc;
}

static void compute(struct replay *r, uint64_t ns)
{
    struct timespec until;

    r->at += ns;
    until = (struct timespec){(time_t)(r->at / BR_SEC), (long)(r->at % BR_SEC)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

/* A call of the session since `start`: if it has blocked, the device goes on from here. */
static void catch_up(struct replay *r, uint64_t start)
{
    uint64_t end = br_clock_now();

    if (end - start > BLOCKED && end > r->at)
        r->at = end;
}

static int iterate(struct replay *r)
{
    int rc = 0;

    for (int l = 0; l < r->model.count && !rc; l++) {
        uint64_t start = br_clock_now();

        rc = braid_gradient_wait(r->session, l);
        catch_up(r, start);
        compute(r, r->forward[l]);
    }
    if (!rc) {
        uint64_t start = br_clock_now();

        rc = braid_session_step(r->session); /* it may plan */
        catch_up(r, start);
    }
    for (int l = r->model.count; l-- > 0 && !rc;) {
        compute(r, 2 * r->forward[l]);
        rc = braid_gradient_ready(r->session, l);
    }
    return rc;
}

/* Until the session has its plan. */
static int warm_up(struct replay *r)
{
    struct braid_session_report report = {0};
    int rc = 0;

    r->at = br_clock_now();
    for (int i = 0; (i < WARMUP || report.trying) && !rc; i++) {
        rc = iterate(r);
        if (!rc)
            rc = braid_session_report(r->session, &report);
    }
    return rc ? rc : braid_barrier(r->comm, NULL, NULL);
}

static int run(struct replay *r, int iterations, const char *policy)
{
    struct braid_session_report report;
    uint64_t start, busy, end;
    int rc = warm_up(r);

    start = r->at = br_clock_now();
    busy = br_clock_process();
    for (int i = 0; i < iterations && !rc; i++)
        rc = iterate(r);
    busy = br_clock_process() - busy;
    end = br_clock_now(); /* as at the start, the last gradients are on their way */
    if (!rc)
        rc = braid_session_step(r->session);
    if (!rc)
        rc = braid_session_report(r->session, &report);
    if (!rc && braid_rank(r->comm) == 0)
        printf("%s %s %.2f ms, %d all-reduces, planned %.2f ms, busy %.2f ms, copied %.2f MB\n",
               r->model.title, policy, (double)(end - start) / 1e6 / iterations, report.groups,
               report.predicted_iteration * 1e3, (double)busy / 1e6 / iterations,
               (double)report.copied_bytes / 1e6 / (double)report.iterations);
    return rc;
}

int main(int argc, char **argv)
{
    struct replay r = {0};
    bool apart = argc == 7 && !strcmp(argv[6], "apart");
    int rc;

    if (argc != 6 + apart || !(atof(argv[2]) > 0) || !(atof(argv[3]) > 0) || atoi(argv[5]) < 1) {
        fprintf(stderr, "usage: replay MODEL PERCENT COMPUTE_MS POLICY ITERATIONS [apart]        in a job\n");
        return 2;
    }
    rc = br_model_load(argv[1], &r.model);
    if (!rc)
        rc = time_layers(&r, atof(argv[3]));
    if (!rc)
        rc = braid_init(NULL, &r.comm);
    if (!rc)
        rc = open_session(&r, atof(argv[2]), argv[4], apart);
    if (!rc)
        rc = run(&r, atoi(argv[5]), argv[4]);
    if (rc)
        fprintf(stderr, "replay: %s\n", br_error_words());
    if (rc && r.comm)
        braid_comm_abort(r.comm, "a rank of replay failed");
    if (r.session)
        braid_session_free(r.session);
    if (r.apart)
        braid_free(r.comm, r.apart);
    if (r.comm)
        braid_finalize(r.comm);
    free(r.forward);
    br_model_free(&r.model);
    return rc != 0;
}
