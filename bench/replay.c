/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replays the training of a network of data/models/ over a real gradient session, for policies.sh
 * and gradient_copies.sh: a rank of a job sleeps where a device would compute, and the gradients
 * travel. Prints the ms of an iteration, once the session has its plan, and rank 0's processor time
 * in one. `replay --help` lists the options.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <braid/training.h>

#include "bench/device.h"
#include "tools/common/options.h"

#define WARMUP 8  /* iterations at least: the session plans after 5, and may then try plans */
#define GAP    64 /* bytes between gradients that are apart */

struct replay {
    struct braid_comm *comm;
    struct braid_session *session;
    struct device device;
    uint8_t *apart; /* memory of gradients that are; NULL: they are not */
};

static int put_apart(struct replay *r, struct braid_layer *layers)
{
    size_t bytes = 0;

    for (int l = 0; l < r->device.model.count; l++)
        bytes += layers[l].count * sizeof(float) + GAP;
    r->apart = braid_alloc(r->comm, bytes);
    if (!r->apart)
        return -ENOMEM;
    bytes = 0;
    for (int l = 0; l < r->device.model.count; l++) {
        layers[l].gradient = r->apart + bytes;
        bytes += layers[l].count * sizeof(float) + GAP;
    }
    return 0;
}

static int open_session(struct replay *r, double percent, const char *policy, bool apart)
{
    struct braid_session_options options = {
        .policy = policy, .replan = -1, .bucket_bytes = (size_t)(25 * 1048576 * percent / 100)};
    struct braid_layer *layers = calloc((size_t)r->device.model.count, sizeof *layers);
    int rc = layers ? 0 : br_error(ENOMEM, "no memory for %d layers", r->device.model.count);

    for (int l = 0; l < r->device.model.count && !rc; l++)
        layers[l].count = device_count(&r->device, l, percent);
    if (!rc && apart)
        rc = put_apart(r, layers);
    if (!rc)
        rc = braid_session_create(r->comm, layers, r->device.model.count, &options, &r->session);
    free(layers);
    return rc;
}

static int iterate(struct replay *r)
{
    int rc = 0;

    for (int l = 0; l < r->device.model.count && !rc; l++) {
        uint64_t start = br_clock_now();

        rc = braid_gradient_wait(r->session, l);
        device_catch_up(&r->device, start);
        device_compute(&r->device, r->device.forward[l]);
    }
    if (!rc) {
        uint64_t start = br_clock_now();

        rc = braid_session_step(r->session); /* it may plan */
        device_catch_up(&r->device, start);
    }
    for (int l = r->device.model.count; l-- > 0 && !rc;) {
        device_compute(&r->device, 2 * r->device.forward[l]);
        rc = braid_gradient_ready(r->session, l);
    }
    return rc;
}

/* Until the session has its plan; *copied: bytes until then. */
static int warm_up(struct replay *r, uint64_t *copied)
{
    struct braid_session_report report = {0};
    int rc = 0;

    r->device.at = br_clock_now();
    for (int i = 0; (i < WARMUP || report.trying) && !rc; i++) {
        rc = iterate(r);
        if (!rc)
            rc = braid_session_report(r->session, &report);
    }
    *copied = report.copied_bytes;
    return rc ? rc : braid_barrier(r->comm, NULL, NULL);
}

static int run(struct replay *r, int iterations, const char *policy)
{
    struct braid_session_report report = {0};
    uint64_t start, busy, end, copied;
    int rc = warm_up(r, &copied);

    start = r->device.at = br_clock_now();
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
               r->device.model.title, policy, (double)(end - start) / 1e6 / iterations,
               report.groups, report.predicted_iteration * 1e3, (double)busy / 1e6 / iterations,
               (double)(report.copied_bytes - copied) / 1e6 / iterations);
    return rc;
}

int main(int argc, char **argv)
{
    struct replay r = {0};
    double percent = 100, compute = 100;
    int64_t iterations = 20;
    bool apart = false;
    const struct br_option options[] = {
        {"percent", 0, BR_OPTION_DECIMAL, &percent, 0, 1000000,
         "P of each layer's gradient is sent; default 100"},
        {"compute", 0, BR_OPTION_DECIMAL, &compute, 0, 1000000,
         "MS of computation in an iteration, a third of it forwards, layers by their "
         "multiply-adds; default 100"},
        {"iterations", 0, BR_OPTION_NUMBER, &iterations, 1, 1000000,
         "N that are timed; default 20"},
        {"apart", 0, BR_OPTION_FLAG, &apart, 0, 0,
         " each gradient has memory of its own, so that merged ones are copied"},
        {0},
    };
    const char *usage = "replay [options] MODEL POLICY, in a job", *policy;
    struct br_arguments arguments;
    int rc = br_arguments_parse(&arguments, options, usage, argc, argv);

    if (!rc && (arguments.count != 2 || arguments.command))
        rc = br_error(EINVAL, "write it as: %s", usage);
    if (rc < 0)
        fprintf(stderr, "replay: %s\n", br_error_message());
    if (rc)
        return rc < 0 ? 2 : 0;
    policy = arguments.operands[1];
    rc = device_open(&r.device, arguments.operands[0], compute);
    if (!rc)
        rc = braid_init(NULL, &r.comm);
    if (!rc)
        rc = open_session(&r, percent, policy, apart);
    if (!rc)
        rc = run(&r, (int)iterations, policy);
    if (rc)
        fprintf(stderr, "replay: %s\n", br_error_message());
    if (rc && r.comm)
        braid_comm_abort(r.comm, "a rank of replay failed");
    if (r.session)
        braid_session_free(r.session);
    if (r.apart)
        braid_free(r.comm, r.apart);
    if (r.comm)
        braid_finalize(r.comm);
    device_close(&r.device);
    return rc != 0;
}
