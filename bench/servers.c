/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replays the training of a network of data/models/ over real parameter servers, for servers.sh:
 * what slices and priorities (P3) make of an iteration, against layers in the order in which they
 * come.
 *
 *     servers [options] MODEL METHOD        --help lists the options
 *
 * METHOD: `layers` whole, in order; `split`: layers larger than an N-th of the largest in pieces of
 * that size for N servers, others whole, in order; `slices` of --slice bytes at most, in order;
 * `p3`: the same by priority. All ranks are workers and servers. Prints the ms of an iteration.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <braid/parameters.h>

#include "bench/device.h"
#include "tools/common/options.h"

#define WARMUP 4 /* iterations */

static const char *const ways[] = {"layers", "split", "slices", "p3", NULL};

static int open_servers(struct braid_comm *comm, const struct device *d, double percent,
                        struct braid_parameters_options *options, const char *way,
                        struct braid_parameters **p)
{
    struct braid_parameter_layer layers[BR_MODEL_LAYERS] = {0};
    size_t most = 0, ranks = (size_t)braid_size(comm);

    for (int l = 0; l < d->model.count; l++) {
        layers[l].count = device_count(d, l, percent);
        most = layers[l].count > most ? layers[l].count : most;
    }
    options->in_order = strcmp(way, "p3") != 0;
    if (!strcmp(way, "layers"))
        options->slice_bytes = (uint32_t)(most * sizeof(float));
    else if (!strcmp(way, "split"))
        options->slice_bytes = (uint32_t)((most + ranks - 1) / ranks * sizeof(float));
    return braid_parameters_create(comm, layers, d->model.count, options, p);
}

static int iterate(struct braid_parameters *p, struct device *d)
{
    int rc = 0;

    for (int l = 0; l < d->model.count && !rc; l++) {
        uint64_t start = br_clock_now();

        rc = braid_parameters_wait(p, l);
        device_catch_up(d, start);
        device_compute(d, d->forward[l]);
    }
    for (int l = d->model.count; l-- > 0 && !rc;) {
        device_compute(d, 2 * d->forward[l]);
        if (!braid_parameters_gradient(p, l))
            return -ECANCELED;
        rc = braid_parameters_push(p, l);
    }
    return rc;
}

static int run(struct braid_comm *comm, struct braid_parameters *p, struct device *d,
               int iterations, const char *way)
{
    struct braid_parameters_report report = {0};
    uint64_t start = 0;
    int rc = 0;

    for (int i = 0; i < WARMUP + iterations && !rc; i++) {
        if (i == WARMUP)
            rc = braid_barrier(comm, NULL, NULL);
        if (i == 0 || i == WARMUP)
            start = d->at = br_clock_now();
        rc = rc ? rc : iterate(p, d);
    }
    start = br_clock_now() - start; /* as at the start, the last pushes are on their way */
    if (!rc)
        rc = braid_parameters_sync(p);
    if (!rc)
        rc = braid_parameters_report(p, &report);
    if (!rc && braid_rank(comm) == 0)
        printf("%s %s %.2f ms, %d messages\n", d->model.title, way,
               (double)start / 1e6 / iterations, report.slices);
    return rc;
}

static bool is_method(const char *text)
{
    for (int i = 0; ways[i]; i++)
        if (!strcmp(text, ways[i]))
            return true;
    return false;
}

int main(int argc, char **argv)
{
    struct braid_parameters_options options = {.momentum = 0.9f};
    struct braid_parameters *p = NULL;
    struct braid_comm *comm = NULL;
    struct device device = {0};
    double percent = 100, compute = 100;
    int64_t slice = 200000, iterations = 20;
    const struct br_option table[] = {
        {"percent", 0, BR_OPTION_DECIMAL, &percent, 0, 1000000,
         "P of each layer's weights and gradients are sent; default 100"},
        {"compute", 0, BR_OPTION_DECIMAL, &compute, 0, 1000000,
         "MS of computation in an iteration, a third of it forwards, layers by their "
         "multiply-adds; default 100"},
        {"slice", 0, BR_OPTION_BYTES, &slice, 4, 1 << 30,
         "SIZE of a slice, at most; default 200000"},
        {"iterations", 0, BR_OPTION_NUMBER, &iterations, 1, 1000000,
         "N that are timed; default 20"},
        {0},
    };
    const char *usage = "servers [options] MODEL layers|split|slices|p3, in a job", *way;
    struct br_arguments arguments;
    int rc = br_arguments_parse(&arguments, table, usage, argc, argv);

    way = arguments.operands[1];
    if (!rc && (arguments.count != 2 || arguments.command || !is_method(way)))
        rc = br_error(EINVAL, "write it as: %s", usage);
    if (rc < 0)
        fprintf(stderr, "servers: %s\n", br_error_message());
    if (rc)
        return rc < 0 ? 2 : 0;
    options.slice_bytes = (uint32_t)slice;
    rc = device_open(&device, arguments.operands[0], compute);
    if (!rc)
        rc = braid_init(NULL, &comm);
    if (!rc)
        rc = open_servers(comm, &device, percent, &options, way, &p);
    if (!rc)
        rc = run(comm, p, &device, (int)iterations, way);
    if (rc)
        fprintf(stderr, "servers: %s\n", br_error_message());
    if (rc && comm)
        braid_comm_abort(comm, "a rank of servers failed");
    if (p)
        braid_parameters_free(p);
    if (comm)
        braid_finalize(comm);
    device_close(&device);
    return rc != 0;
}
