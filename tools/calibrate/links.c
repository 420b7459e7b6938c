/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links, one at a time. Small messages there and back give alpha; a stream of larger ones gives
 * beta, and what a message costs besides its bytes. A size of which one message takes too long ends
 * the sizes of its link.
 */
#include "tools/calibrate/calibrate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/median.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/tuning/calibration.h"
#include "tools/calibrate/link.h"

#define TRIPS       8  /* sizes: 8 to 1024 bytes */
#define STREAMS     11 /* 4 KiB to 4 MiB */
#define LEAST_TRIP  8u
#define LEAST_BYTES 4096u
#define EACH        (4 * BR_MS) /* a measurement of a size */
#define LONGEST     0.05        /* s that a message may take */
/* bytes of a stream at least: several of the bursts in which networks pass them on */
#define ENOUGH (256u << 10)
#define LEAD                                                                                       \
    (256u                                                                                          \
     << 10) /* bytes in front of a stream: more than a shaped link lets through after a pause */
#define LEAST_SIZES 3 /* that are measured however slow the link is */

/* What is measured of a link; 0: it is not. */
struct raw {
    double trips[TRIPS], streams[STREAMS];
};

struct work {
    struct br_link_bench bench;
    const struct br_topology *topology;
    int rank, rounds;
    struct br_calibration_link *links;
    struct raw *raw; /* by link; each rank knows what it has measured */
    uint32_t n;
};

/* ---- which links ----------------------------------------------------------------------------- */

/* The level of the link between two ranks; false: there is none. */
static bool level_of(const struct br_topology *t, uint32_t from, uint32_t to, uint8_t *level)
{
    struct br_hop hops[BR_TOPOLOGY_HOPS];

    if (from == to || br_topology_route(t, from, to, BR_LEVEL_ANY, hops) != 1)
        return false;
    *level = t->kind == BR_TOPOLOGY_FLAT ? 0 : hops[0].level;
    return true;
}

/* All links or, with `next`, from each rank the first one of each level behind it. links NULL:
 * counts. */
static uint32_t links_list(const struct br_topology *t, bool next,
                           struct br_calibration_link *links)
{
    uint32_t n = 0;

    for (uint32_t from = 0; from < t->n; from++) {
        uint32_t taken = 0; /* levels */

        for (uint32_t i = 1; i < t->n; i++) {
            uint32_t to = (from + i) % t->n;
            uint8_t level;

            if (!level_of(t, from, to, &level) || (next && taken & 1u << level))
                continue;
            taken |= 1u << level;
            if (links)
                links[n] = (struct br_calibration_link){.from = from, .to = to, .level = level};
            n++;
        }
    }
    return n;
}

/* ---- one link -------------------------------------------------------------------------------- */

static uint32_t at_least(double a, uint32_t least, uint32_t most)
{
    return a < least ? least : a > most ? most : (uint32_t)a;
}

static int measure_trips(struct work *w, int other, struct raw *raw)
{
    int rc = 0;

    for (int i = 0; i < TRIPS && !rc; i++)
        rc = br_link_trip(&w->bench, other, LEAST_TRIP << i, EACH, &raw->trips[i]);
    return rc;
}

static int measure_streams(struct work *w, int other, struct raw *raw)
{
    double each = 0; /* s, of the next size */
    int rc = 0;

    for (int i = 0; i < STREAMS && !rc && (i < LEAST_SIZES || each < LONGEST); i++) {
        uint32_t bytes = LEAST_BYTES << i;
        uint32_t least = ENOUGH / bytes > 4 ? ENOUGH / bytes : 4;
        uint32_t count = i == 0 ? least : at_least((double)EACH / 1e9 / each, least, 512);

        rc = br_link_stream(&w->bench, other, bytes, at_least((double)LEAD / bytes, 2, 512), count,
                            &raw->streams[i]);
        each = 2 * raw->streams[i];
    }
    return rc;
}

/* The leader's part: the median of all rounds, of sizes that were measured in each. */
static int links_measure_link(struct work *w, int other, struct raw *out)
{
    static struct raw rounds[BR_CALIBRATE_ROUNDS];
    double values[BR_CALIBRATE_ROUNDS];
    int rc = 0;

    memset(rounds, 0, sizeof rounds);
    for (int r = 0; r < w->rounds && !rc; r++) {
        rc = measure_trips(w, other, &rounds[r]);
        if (!rc)
            rc = measure_streams(w, other, &rounds[r]);
    }
    if (rc)
        return rc;
    for (int i = 0; i < TRIPS + STREAMS; i++) {
        bool all = true;

        for (int r = 0; r < w->rounds; r++) {
            values[r] = i < TRIPS ? rounds[r].trips[i] : rounds[r].streams[i - TRIPS];
            all = all && values[r] > 0;
        }
        *(i < TRIPS ? &out->trips[i] : &out->streams[i - TRIPS]) =
            all ? br_median(values, (size_t)w->rounds) : 0;
    }
    return br_link_release(&w->bench, other);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int measure_all(struct work *w)
{
    int rc = 0;

    for (uint32_t i = 0; i < w->n && !rc; i++) {
        const struct br_calibration_link *l = &w->links[i];

        rc = braid_barrier(w->bench.comm, NULL, NULL);
        if (!rc && (uint32_t)w->rank == l->from)
            rc = links_measure_link(w, (int)l->to, &w->raw[i]);
        else if (!rc && (uint32_t)w->rank == l->to)
            rc = br_link_follow(&w->bench, (int)l->from);
    }
    return rc ? rc
              : braid_allreduce(w->bench.comm, w->raw, w->raw,
                                w->n * sizeof *w->raw / sizeof(double), BRAID_FLOAT64, BRAID_SUM,
                                NULL, NULL);
}

/* Takes the sizes that were measured. */
static uint32_t links_take(const double *seconds, uint32_t n, uint32_t least, double *x, double *y)
{
    uint32_t k = 0;

    for (uint32_t i = 0; i < n; i++)
        if (seconds[i] > 0) {
            x[k] = (double)((uint64_t)least << i);
            y[k++] = seconds[i];
        }
    return k;
}

bool br_calibrate_fit(struct br_calibration_link *l, const double *trips, const double *streams)
{
    l->n_trips = links_take(trips, TRIPS, LEAST_TRIP, l->trip_bytes, l->trip_seconds);
    l->n_streams = links_take(streams, STREAMS, LEAST_BYTES, l->stream_bytes, l->stream_seconds);
    return br_cost_fit_line(l->trip_bytes, l->trip_seconds, l->n_trips, &l->trips) &&
           br_cost_fit_line(l->stream_bytes, l->stream_seconds, l->n_streams, &l->streams);
}

static int fit_all(struct work *w)
{
    for (uint32_t i = 0; i < w->n; i++)
        if (!br_calibrate_fit(&w->links[i], w->raw[i].trips, w->raw[i].streams))
            return br_error(
                EIO,
                "the link from rank %u to rank %u could not be measured: too slow, or no clock",
                w->links[i].from, w->links[i].to);
    return 0;
}

static int open_work(struct work *w)
{
    bool next = links_list(w->topology, false, NULL) > BR_CALIBRATE_LINKS;

    w->n = links_list(w->topology, next, NULL);
    w->links = calloc(w->n, sizeof *w->links);
    w->raw = calloc(w->n, sizeof *w->raw);
    if (!w->links || !w->raw)
        return br_error(ENOMEM, "no memory for %u links", w->n);
    links_list(w->topology, next, w->links);
    return br_link_open(&w->bench, w->bench.comm);
}

int br_calibrate_links(struct braid_comm *comm, int rounds, struct br_calibration_link **links,
                       uint32_t *n)
{
    struct work w = {.bench.comm = comm,
                     .topology = &comm->context->network.topology,
                     .rank = braid_rank(comm),
                     .rounds = rounds};
    int rc = open_work(&w);

    if (!rc)
        rc = measure_all(&w);
    if (!rc && w.rank == 0)
        rc = fit_all(&w);
    br_link_close(&w.bench);
    free(w.raw);
    *links = NULL;
    *n = w.n;
    if (!rc && w.rank == 0)
        *links = w.links;
    else
        free(w.links);
    return rc;
}
