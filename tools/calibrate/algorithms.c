/* SPDX-License-Identifier: BSD-3-Clause */
/* a and b of every way of a collective. All ways of a size take turns, so that what disturbs the
 * machine disturbs all of them. */
#include "tools/calibrate/calibrate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/median.h"
#include "collectives/tuning/tuning.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/engine/group.h"
#include "collectives/schedule/type.h"
#include "tools/common/coll_table.h"

#define LEAST_BYTES 64u /* smaller ones take as long */
#define STEP        4
#define ENOUGH      (10 * BR_MS) /* a measurement */
#define MOST_CALLS  50
#define LONGEST     0.25 /* s that a call may take */

struct work {
    struct braid_comm *comm;
    const struct br_coll *coll;
    struct br_cost_model model;
    void *send, *recv;
    int rounds;
    struct br_cost_measured *algorithms;
    uint32_t n;
};

/* The ways that serve, each once, with methods decided for a size in the middle. */
static int algorithms_list(struct work *w, enum br_collective collective)
{
    static struct br_tuning tunings[BR_ALGORITHM_CONFIGS];
    uint32_t ranks = (uint32_t)braid_size(w->comm);
    int n = br_tuning_choose_all(&w->model, collective, ranks, 256 << 10, tunings);

    if (n < 0)
        return n;
    w->algorithms = calloc((size_t)n, sizeof *w->algorithms);
    if (!w->algorithms)
        return br_error(ENOMEM, "no memory for %d algorithms", n);
    for (int i = 0; i < n; i++) {
        bool known = false;

        for (uint32_t k = 0; k < w->n; k++)
            known =
                known || br_algorithm_config_equal(&w->algorithms[k].config, &tunings[i].config);
        if (!known)
            w->algorithms[w->n++] = (struct br_cost_measured){
                .collective = collective, .ranks = ranks, .config = tunings[i].config};
    }
    return 0;
}

/* By what was measured, not by the model: where ranks share a machine but have links of their own,
 * as emulated hosts do, the model has all of them pay for each other. The time grows on as from the
 * size before to the last one; a line needs two. */
bool br_calibrate_is_short(const struct br_cost_measured *m)
{
    uint32_t n = m->n_points;
    double last, slope;

    if (n == 0)
        return true;
    last = m->seconds[n - 1];
    slope = n < 2 ? 0 : fmax(0, last - m->seconds[n - 2]) / (m->bytes[n - 1] - m->bytes[n - 2]);
    return last + slope * m->bytes[n - 1] * (STEP - 1) < LONGEST;
}

static int measure_size(struct work *w, size_t bytes)
{
    struct br_coll_shape shape = br_coll_shape(w->coll, bytes, BRAID_FLOAT32, braid_size(w->comm));
    double block = (double)(shape.count * br_type_size(BRAID_FLOAT32)),
           (*times)[BR_CALIBRATE_ROUNDS];
    int rc = 0;

    times = calloc(w->n, sizeof *times);
    if (!times)
        return br_error(ENOMEM, "no memory for the times of %u algorithms", w->n);
    for (int r = 0; r < w->rounds && !rc; r++)
        for (uint32_t i = 0; i < w->n && !rc; i++) {
            char name[BR_ALGORITHM_TEXT];
            struct br_coll_timing calls = {
                .comm = w->comm,
                .coll = w->coll,
                .algorithm = br_algorithm_config_name(&w->algorithms[i].config, name),
                .bytes = bytes,
                .send = w->send,
                .recv = w->recv,
                .min_ns = ENOUGH,
                .max_calls = MOST_CALLS};

            if (br_calibrate_is_short(&w->algorithms[i]))
                rc = br_coll_time(&calls, &times[i][r]);
        }
    for (uint32_t i = 0; i < w->n && !rc; i++) {
        struct br_cost_measured *m = &w->algorithms[i];

        if (!br_calibrate_is_short(m) || block < 1 || m->n_points == BR_COST_POINTS)
            continue;
        m->bytes[m->n_points] = block;
        m->seconds[m->n_points++] = br_median(times[i], (size_t)w->rounds);
    }
    free(times);
    return rc;
}

static int algorithms_measure(struct work *w, size_t most, struct br_calibration *c)
{
    int rc = 0;

    for (size_t bytes = LEAST_BYTES; bytes <= most && !rc; bytes *= STEP)
        rc = measure_size(w, bytes);
    for (uint32_t i = 0; i < w->n && !rc; i++) {
        struct br_cost_measured *m = &w->algorithms[i];

        if (!br_cost_fit_line(m->bytes, m->seconds, m->n_points, &m->fit))
            continue;
        if (c->n_measured == BR_COST_MEASURED)
            rc = br_error(E2BIG, "more than %d algorithms; calibrate fewer collectives",
                          BR_COST_MEASURED);
        else
            c->measured[c->n_measured++] = *m;
    }
    return rc;
}

int br_calibrate_algorithms(struct braid_comm *comm, const struct br_coll *coll,
                            enum br_collective collective, size_t most, int rounds,
                            struct br_calibration *c)
{
    struct work w = {.comm = comm, .coll = coll, .model = c->model, .rounds = rounds};
    int rc;

    w.model.topology = &comm->context->network.topology;
    w.model.chunk_bytes = comm->group->model.chunk_bytes;
    rc = algorithms_list(&w, collective);
    if (!rc &&
        (!(w.send = braid_alloc(comm, most + 4096)) || !(w.recv = braid_alloc(comm, most + 4096))))
        rc = -ENOMEM;
    if (!rc)
        rc = algorithms_measure(&w, most, c);
    if (w.recv)
        braid_free(comm, w.recv);
    if (w.send)
        braid_free(comm, w.send);
    free(w.algorithms);
    return rc;
}
