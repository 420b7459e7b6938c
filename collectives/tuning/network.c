/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/tuning/network.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "collectives/tuning/calibration.h"
#include "protocol/bootstrap/store.h"

#define KEY      "cost model"
#define LINK_KEY "link"

/* What rank 0 publishes. */
struct figures {
    int32_t error; /* not 0: `message` says what is wrong with the calibration */
    char message[300];
    uint32_t measured, tries_link, n_levels, cores, emulated, serial, shared;
    struct br_cost_level levels[BR_COST_LEVELS];
    struct br_cost_machine machine;
    double gamma, gammas[BR_COST_CLASSES], copy, received, relay;
    uint32_t n_configs;
    struct br_cost_measured configs[BR_COST_MEASURED]; /* n_configs of them are sent */
};

_Static_assert(sizeof(struct figures) <= BR_STORE_VALUE_MAX, "fits into the store");

static size_t tuning_network_bytes_of(const struct figures *figures)
{
    return offsetof(struct figures, configs) + figures->n_configs * sizeof *figures->configs;
}

static void read_calibration(const struct br_network *network, const char *path,
                             const char *devices, struct br_calibration *calibration,
                             struct figures *out)
{
    char text[BR_CALIBRATION_STALE_TEXT];

    out->error = br_calibration_read(path, calibration);
    if (!out->error)
        out->error = br_calibration_check(calibration, &network->topology);
    if (out->error) {
        snprintf(out->message, sizeof out->message, "BRAID_CALIBRATION: %s", br_error_message());
        return;
    }
    if (br_calibration_stale(calibration, &network->topology, devices, &network->oversubscribed,
                             text))
        br_log_warn("BRAID_CALIBRATION: %s of %s is stale, but used (%s); measure again with "
                    "`braid calibrate`",
                    path, calibration->date, text);
    out->measured = 1;
    out->n_configs = calibration->n_measured;
    memcpy(out->configs, calibration->measured, out->n_configs * sizeof *out->configs);
}

/* In a BCube the links' figures decide little: few algorithms send nothing to be relayed. */
static bool goes_over_links(const struct br_topology *topology, enum br_cost_locality place)
{
    return topology->n > 1 && (topology->kind == BR_TOPOLOGY_HOSTS ||
                               (topology->kind == BR_TOPOLOGY_FLAT &&
                                (topology->emulated || place == BR_COST_NETWORK)));
}

static void get_figures(const struct br_network *network, enum br_cost_locality place,
                        const char *path, const char *devices, struct figures *out)
{
    struct br_calibration calibration;
    struct br_cost_model model = network->model;

    memset(out, 0, sizeof *out);
    if (path && *path)
        read_calibration(network, path, devices, &calibration, out);
    if (out->measured)
        model = calibration.model;
    out->tries_link = !out->measured && goes_over_links(&network->topology, place);
    out->n_levels = model.n_levels;
    out->cores = out->measured ? 0 : network->topology.cores; /* the measured figures contain it */
    out->emulated = network->topology.emulated;
    out->serial = network->model.serial;
    out->shared = network->model.shared;
    memcpy(out->levels, model.levels, sizeof out->levels);
    out->machine = model.machine;
    out->gamma = model.gamma;
    memcpy(out->gammas, model.gammas, sizeof out->gammas);
    out->copy = model.copy;
    out->received = network->model.received; /* calibrations do not measure it */
    out->relay = model.relay;
}

static int use_figures(struct br_network *network, const struct figures *figures)
{
    struct br_cost_model *model = &network->model;

    if (figures->error)
        return br_error(-figures->error, "%.*s", (int)sizeof figures->message - 1,
                        figures->message);
    network->measured = figures->measured != 0;
    network->tries_link = figures->tries_link != 0;
    network->topology.cores = figures->cores;
    network->topology.emulated = figures->emulated != 0;
    model->serial = figures->serial;
    model->shared = figures->shared;
    model->n_levels = figures->n_levels;
    memcpy(model->levels, figures->levels, sizeof model->levels);
    model->machine = figures->machine;
    model->gamma = figures->gamma;
    memcpy(model->gammas, figures->gammas, sizeof model->gammas);
    model->copy = figures->copy;
    model->received = figures->received;
    model->relay = figures->relay;
    if (br_cost_model_check(model))
        return -EINVAL;
    if (!figures->n_configs)
        return 0;
    network->measured_configs = calloc(figures->n_configs, sizeof *network->measured_configs);
    if (!network->measured_configs)
        return br_error(ENOMEM, "no memory for the figures of %u algorithms", figures->n_configs);
    memcpy(network->measured_configs, figures->configs,
           figures->n_configs * sizeof *network->measured_configs);
    model->measured = network->measured_configs;
    model->n_measured = figures->n_configs;
    return 0;
}

int br_network_init(struct br_network *network, int rank, enum br_cost_locality place,
                    uint32_t rails, const char *calibration, const char *devices,
                    struct br_store *store, uint64_t deadline)
{
    struct figures figures;
    size_t n = sizeof figures;
    int rc = 0;

    br_cost_model_on(&network->model, &network->topology, place, rails);
    if (rank == 0) {
        get_figures(network, place, calibration, devices, &figures);
        rc = store ? br_store_put(store, KEY, &figures, tuning_network_bytes_of(&figures), deadline)
                   : 0;
    } else {
        rc = br_store_get(store, KEY, &figures, sizeof figures, &n, deadline);
        if (!rc && (n < offsetof(struct figures, configs) || figures.n_configs > BR_COST_MEASURED ||
                    n != tuning_network_bytes_of(&figures)))
            rc = br_error(EPROTO,
                          "rank 0 told figures of %zu bytes, which are none of this version", n);
    }
    return rc ? rc : use_figures(network, &figures);
}

int br_network_tried(const struct br_network *network)
{
    const struct br_topology *t = &network->topology;
    uint32_t other = 1;

    while (t->kind == BR_TOPOLOGY_HOSTS && other + 1 < t->n && t->leader[other] == t->leader[0])
        other++;
    return (int)other;
}

static double power_of_two(double seconds)
{
    return seconds > 0 ? exp2(round(log2(seconds))) : 0;
}

int br_network_agree_on_link(struct br_network *network, int rank, const struct br_cost_level *link,
                             struct br_store *store, uint64_t deadline)
{
    const struct br_cost_level *known = &network->model.levels[network->model.n_levels - 1];
    struct br_cost_level told = {0};
    size_t n = sizeof told;
    int rc;

    if (rank == 0) {
        told.alpha = power_of_two(link->alpha - known->alpha - known->overhead);
        told.beta = power_of_two(link->beta);
        rc = br_store_put(store, LINK_KEY, &told, sizeof told, deadline);
    } else {
        rc = br_store_get(store, LINK_KEY, &told, sizeof told, &n, deadline);
    }
    if (rc)
        return rc;
    if (n != sizeof told)
        return br_error(EPROTO, "rank 0 told a link of %zu bytes, which is none of this version",
                        n);
    network->model.link = told;
    return br_cost_model_check(&network->model);
}

void br_network_destroy(struct br_network *network)
{
    br_topology_destroy(&network->topology);
    free(network->measured_configs);
    network->measured_configs = NULL;
}

static int part_of_hosts(const struct br_network *whole, const int *ranks, int n,
                         struct br_network *part)
{
    uint64_t *host = calloc((size_t)n, sizeof *host);
    int rc;

    if (!host)
        return br_error(ENOMEM, "no memory for the hosts of %d ranks", n);
    for (int i = 0; i < n; i++)
        host[i] = whole->topology.leader[ranks[i]];
    rc = br_topology_hosts(&part->topology, (uint32_t)n, host);
    if (!rc && part->topology.kind == BR_TOPOLOGY_FLAT) { /* one host, or one rank on each */
        bool memory = n > 1 && host[0] == host[1];

        part->model.n_levels = 1;
        part->model.levels[0] = whole->model.levels[memory ? 0 : 1];
        part->model.in_memory = memory;
        part->topology.emulated = !memory;
        if (memory) {
            part->model.eager_bytes = 0;
            part->model.link = (struct br_cost_level){0};
        }
    }
    free(host);
    return rc;
}

static void part_of_cube(const struct br_network *whole, const int *ranks, int n,
                         struct br_network *part)
{
    bool all = (uint32_t)n == whole->topology.n;

    for (int i = 0; i < n && all; i++)
        all = ranks[i] == i;
    if (all) {
        part->topology = whole->topology;
        return;
    }
    br_topology_flat(&part->topology, (uint32_t)n);
    part->model.n_levels = 1;
    for (uint32_t i = 1; i < whole->model.n_levels; i++)
        if (whole->model.levels[i].beta > part->model.levels[0].beta)
            part->model.levels[0] = whole->model.levels[i];
}

int br_network_part(const struct br_network *whole, const int *ranks, int n,
                    struct br_network *part)
{
    int rc = 0;

    *part = (struct br_network){.model = whole->model, .measured = whole->measured};
    if (whole->topology.kind == BR_TOPOLOGY_HOSTS)
        rc = part_of_hosts(whole, ranks, n, part);
    else if (whole->topology.kind == BR_TOPOLOGY_BCUBE)
        part_of_cube(whole, ranks, n, part);
    else
        br_topology_flat(&part->topology, (uint32_t)n);
    if (whole->topology.emulated)
        part->topology.emulated = true;
    if (!rc && (uint32_t)n > whole->topology.cores)
        part->topology.cores = whole->topology.cores;
    part->model.topology = &part->topology;
    return rc;
}

double br_calibration_drift_add(struct br_calibration_drift *d, double predicted, double measured)
{
    double off = 0, ratio = measured / predicted;

    if (d->bound <= 0 || predicted <= 0 || measured <= 0)
        return 0;
    d->least = d->n ? fmin(d->least, ratio) : ratio;
    d->most = d->n ? fmax(d->most, ratio) : ratio;
    if (++d->n < BR_CALIBRATION_DRIFT_WINDOW)
        return 0;
    if (d->least > d->bound)
        off = d->least;
    else if (d->most < 1 / d->bound)
        off = d->most;
    d->n = 0;
    if (off > 0)
        d->bound = 0;
    return off;
}
