/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/network.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "collectives/calibration.h"
#include "protocol/bootstrap/store.h"

#define KEY "cost model"

/* What rank 0 tells. */
struct figures {
    int32_t error; /* then words say what is wrong with the calibration */
    char words[300];
    uint32_t measured, n_levels;
    struct br_cost_level levels[BR_COST_LEVELS];
    double gamma, gammas[BR_COST_CLASSES], copy, relay;
};

static void get_figures(const struct br_network *network, const char *path, struct figures *out)
{
    struct br_calibration calibration;
    struct br_cost_model model = network->model;

    memset(out, 0, sizeof *out);
    if (path && *path) {
        out->error = br_calibration_read(path, &calibration);
        if (!out->error)
            out->error = br_calibration_check(&calibration, &network->topology);
        if (out->error)
            snprintf(out->words, sizeof out->words, "BRAID_CALIBRATION: %s", br_error_words());
        else
            model = calibration.model;
        out->measured = !out->error;
    }
    out->n_levels = model.n_levels;
    memcpy(out->levels, model.levels, sizeof out->levels);
    out->gamma = model.gamma;
    memcpy(out->gammas, model.gammas, sizeof out->gammas);
    out->copy = model.copy;
    out->relay = model.relay;
}

static int use_figures(struct br_network *network, const struct figures *figures)
{
    struct br_cost_model *model = &network->model;

    if (figures->error)
        return br_error(-figures->error, "%.*s", (int)sizeof figures->words - 1, figures->words);
    network->measured = figures->measured != 0;
    model->n_levels = figures->n_levels;
    memcpy(model->levels, figures->levels, sizeof model->levels);
    model->gamma = figures->gamma;
    memcpy(model->gammas, figures->gammas, sizeof model->gammas);
    model->copy = figures->copy;
    model->relay = figures->relay;
    return br_cost_model_check(model);
}

int br_network_init(struct br_network *network, int rank, enum br_cost_place place, uint32_t rails,
                    const char *calibration, struct br_store *store, uint64_t deadline)
{
    struct figures figures;
    size_t n = sizeof figures;
    int rc = 0;

    br_cost_model_on(&network->model, &network->topology, place, rails);
    if (rank == 0) {
        get_figures(network, calibration, &figures);
        rc = store ? br_store_put(store, KEY, &figures, sizeof figures, deadline) : 0;
    } else {
        rc = br_store_get(store, KEY, &figures, sizeof figures, &n, deadline);
        if (!rc && n != sizeof figures)
            rc = br_error(EPROTO, "rank 0 told figures of %zu bytes instead of %zu", n, sizeof figures);
    }
    return rc ? rc : use_figures(network, &figures);
}

void br_network_destroy(struct br_network *network)
{
    br_topology_destroy(&network->topology);
}
