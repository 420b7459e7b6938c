/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/calibrate/measure.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/median.h"
#include "bcube/address.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/engine/group.h"
#include "collectives/tuning/calibration.h"
#include "collectives/engine/reduce.h"
#include "collectives/schedule/type.h"

#define BURST       16 /* small messages on their way at once */
#define WINDOW      4  /* large ones, as of fragments */
#define MOST_BYTES  (256u << 10)
#define BLOCK_BYTES (256u << 10) /* of local work */
#define ENOUGH      (200 * BR_MS)
#define LEAST_TURNS 5
#define MOST_TURNS  64
#define IDLE        (-1.0)

struct bench {
    struct braid_comm *comm;
    const struct br_topology *topology;
    int rank, size;
    bool pair; /* the first rank with a partner and this one, and nobody else */
    /* of a pair the first one sends and its partner receives */
    bool one_way;
    /* messages go to all neighbours of a level in turn, not to the next one alone */
    bool spread;
    uint8_t *out, *in; /* WINDOW * MOST_BYTES each */
    double *all;       /* [size] */
};

/* The median over the ranks that have measured anything: those with nobody to send to say IDLE. The
 * same on all. */
static int measure_agree(struct bench *b, double *value)
{
    int rc = braid_allgather(b->comm, value, b->all, 1, BRAID_FLOAT64, NULL, NULL);
    size_t n = 0;

    for (int r = 0; r < b->size && !rc; r++)
        if (b->all[r] >= 0)
            b->all[n++] = b->all[r];
    if (!rc)
        *value = br_median(b->all, n);
    return rc;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Whom this rank sends to and hears from on a level; itself: nobody. */
struct partners {
    int next, previous;
};

/* The next rank of the same host, or the same rank of the next host. */
static struct partners of_hosts(const struct bench *b, int self, uint32_t level)
{
    const struct br_topology *t = b->topology;
    struct partners p = {self, self};
    uint32_t rank = (uint32_t)self, n = (uint32_t)b->size;

    if (level == 1 && t->per_host)
        return (struct partners){(int)((rank + t->per_host) % n),
                                 (int)((rank + n - t->per_host) % n)};
    for (uint32_t i = 1; i < n && p.next == self; i++) {
        uint32_t r = (rank + i) % n;

        if (level == 0 ? t->leader[r] == t->leader[rank]
                       : t->leader[rank] == rank && t->leader[r] == r)
            p.next = (int)r;
    }
    for (uint32_t i = 1; i < n && p.previous == self; i++) {
        uint32_t r = (rank + n - i) % n;

        if (level == 0 ? t->leader[r] == t->leader[rank]
                       : t->leader[rank] == rank && t->leader[r] == r)
            p.previous = (int)r;
    }
    return p;
}

/* So far apart in the digit. Level `levels` of a BCube: the neighbour of a neighbour. */
static struct partners of_cube(const struct bench *b, int self, uint32_t level, uint32_t distance)
{
    const struct br_bcube *cube = &b->topology->cube;
    uint32_t next = (uint32_t)self, previous = next, first = level < cube->k ? level : 0,
             last = level < cube->k ? level : 1;

    for (uint32_t l = first; l <= last; l++) {
        uint32_t digit = br_bcube_digit(cube, (uint32_t)self, l);

        next = br_bcube_with_digit(cube, next, l, (digit + distance) % cube->n);
        previous = br_bcube_with_digit(cube, previous, l, (digit + cube->n - distance) % cube->n);
    }
    return (struct partners){(int)next, (int)previous};
}

static struct partners partners_of(const struct bench *b, int rank, uint32_t level,
                                   uint32_t distance)
{
    if (b->topology->kind == BR_TOPOLOGY_HOSTS)
        return of_hosts(b, rank, level);
    if (b->topology->kind == BR_TOPOLOGY_BCUBE)
        return of_cube(b, rank, level, distance);
    return (struct partners){(rank + 1) % b->size, (rank + b->size - 1) % b->size};
}

/* Of the i-th message. */
static struct partners partners_on(const struct bench *b, uint32_t level, uint32_t i)
{
    bool turns = b->spread && b->topology->kind == BR_TOPOLOGY_BCUBE;
    int first = 0, second;

    if (!b->pair)
        return partners_of(b, b->rank, level, turns ? 1 + i % (b->topology->cube.n - 1) : 1);
    while ((second = partners_of(b, first, level, 1).next) == first && first < b->size - 1)
        first++; /* alone on its host */
    if (b->rank == first)
        return (struct partners){second, second};
    return b->rank == second ? (struct partners){first, first}
                             : (struct partners){b->rank, b->rank};
}

/* Has this rank somebody to send to on one of these levels? */
static bool measure_sends(const struct bench *b, uint32_t first, uint32_t last)
{
    for (uint32_t level = first; level <= last; level++)
        if (partners_on(b, level, 0).next != b->rank)
            return true;
    return false;
}

/* Sends `count` messages to the next ranks of each of these levels and gets as many from the
 * previous ones; one way: the one or the other. */
static int measure_shift(struct bench *b, uint32_t first, uint32_t last, size_t bytes, int count)
{
    struct braid_op *ops[2 * BURST * BR_COST_LEVELS];
    int n = 0, rc = 0;

    for (uint32_t level = first; level <= last; level++) {
        for (int i = 0; i < count && !rc; i++) {
            struct partners p = partners_on(b, level, (uint32_t)i);
            size_t at = (size_t)(i % WINDOW) * MOST_BYTES;

            if (p.next == b->rank || p.previous == b->rank)
                break;
            if (!b->one_way || p.next < b->rank) {
                rc = braid_recv(b->comm, b->in + at, bytes, p.previous, NULL, &ops[n]);
                n += !rc;
            }
            if (!rc && (!b->one_way || p.next > b->rank)) {
                rc = braid_send(b->comm, b->out + at, bytes, p.next, NULL, &ops[n]);
                n += !rc;
            }
        }
    }
    for (int i = 0; i < n; i++) {
        int ended = braid_wait(ops[i], -1);

        rc = rc ? rc : ended;
    }
    return rc;
}

/* Seconds of one shift, the median of many. All ranks must agree when it is enough, so the slowest
 * first one says how many there will be. */
static int time_shift(struct bench *b, uint32_t first, uint32_t last, size_t bytes, int count,
                      double *seconds)
{
    double times[MOST_TURNS];
    int64_t turns = 1;
    int rc = measure_shift(b, first, last, bytes, count);

    for (int phase = 0; phase < 2 && !rc; phase++) {
        rc = braid_barrier(b->comm, NULL, NULL);
        for (int64_t i = 0; i < turns && !rc; i++) {
            uint64_t start = br_clock_now();

            rc = measure_shift(b, first, last, bytes, count);
            times[i] = (double)(br_clock_now() - start) / 1e9;
        }
        if (!rc && phase == 0) {
            double most = (double)ENOUGH / 1e9 / fmax(times[0], 1e-7);

            turns = most < LEAST_TURNS  ? LEAST_TURNS
                    : most > MOST_TURNS ? MOST_TURNS
                                        : (int64_t)most;
            rc = braid_allreduce(b->comm, &turns, &turns, 1, BRAID_INT64, BRAID_MIN, NULL, NULL);
        }
    }
    if (rc)
        return rc;
    *seconds = measure_sends(b, first, last) ? br_median(times, (size_t)turns) : IDLE;
    return measure_agree(b, seconds);
}

/* On shared links the figures are those of the link, not of one of the ranks that share it. */
static double measure_sharers(const struct bench *b)
{
    const struct br_topology *t = b->topology;

    return t->kind == BR_TOPOLOGY_HOSTS && t->per_host && !b->pair ? t->per_host : 1;
}

/* Seconds a byte while all ranks send on these levels. */
static int measure_bytes(struct bench *b, uint32_t first, uint32_t last, double *beta)
{
    static const size_t sizes[] = {32u << 10, 64u << 10, 96u << 10, 128u << 10, MOST_BYTES};
    double bytes[5], seconds[5];
    struct br_cost_fit fit;
    int rc = 0;

    for (int i = 0; i < 5 && !rc; i++) {
        bytes[i] = (double)sizes[i] * WINDOW;
        rc = time_shift(b, first, last, sizes[i], WINDOW, &seconds[i]);
    }
    if (rc)
        return rc;
    *beta = br_cost_fit_line(bytes, seconds, 5, &fit) && fit.slope > 0 ? fit.slope
                                                                       : seconds[4] / bytes[4];
    *beta /= measure_sharers(b);
    return 0;
}

/* What a pair takes one way as a part of what it takes both ways at once: 1 on a link whose two
 * directions take nothing from each other, 1/2 where one processor moves the bytes of both. Of the
 * same pair, so what ranks take from each other because they are many does not count. */
static int measure_one_way(struct bench *b, uint32_t level, struct br_cost_level *out)
{
    bool pair = b->pair;
    double both, one;
    int rc;

    b->pair = true;
    rc = measure_bytes(b, level, level, &both);
    b->one_way = true;
    if (!rc)
        rc = measure_bytes(b, level, level, &one);
    b->one_way = false;
    b->pair = pair;
    if (!rc)
        out->one_way = out->beta * fmin(fmax(one / both, 0.5), 1);
    return rc;
}

static int measure_level(struct bench *b, uint32_t level, struct br_cost_level *out)
{
    double one = 0, many = 0;
    int rc = time_shift(b, level, level, 8, 1, &one);

    if (!rc)
        rc = time_shift(b, level, level, 8, BURST, &many);
    if (!rc)
        rc = measure_bytes(b, level, level, &out->beta);
    out->overhead = many / BURST / measure_sharers(b);
    out->alpha = fmax(one - many / BURST, 0);
    return rc || br_topology_is_memory(b->topology, (uint8_t)level)
               ? rc
               : measure_one_way(b, level, out);
}

/* What all links at once take from each other. The levels' own figures say it of one level, unless
 * they are those of a pair. */
static int measure_congestion(struct bench *b, struct br_calibration *c)
{
    bool alone = c->model.machine.beta > 0;
    double beta = 0;
    int rc = c->model.n_levels > 1 ? measure_bytes(b, 0, c->model.n_levels - 1, &beta) : 0;

    for (uint32_t l = 0; l < c->model.n_levels && !rc; l++) {
        c->congestion[l].level = c->model.levels[l].beta;
        if (alone)
            rc = measure_bytes(b, l, l, &c->congestion[l].level);
        c->congestion[l].levels = c->model.n_levels > 1 ? beta : c->congestion[l].level;
    }
    return rc;
}

/* Do hosts of a BCube reach those that are no neighbours? */
static bool measure_relays(const struct bench *b)
{
    return b->topology->kind == BR_TOPOLOGY_BCUBE && b->topology->cube.k > 1 &&
           b->comm->context->worker->relay;
}

/* What a relayed message takes longer than its links would. */
static int measure_relay(struct bench *b, struct br_cost_model *model)
{
    double seconds = 0;
    int rc;

    model->relay = b->comm->group->model.relay;
    if (!measure_relays(b))
        return 0;
    rc = time_shift(b, b->topology->cube.k, b->topology->cube.k, 8, 1, &seconds);
    model->relay = fmax(seconds - model->levels[0].alpha - model->levels[0].overhead -
                            model->levels[1].alpha - model->levels[1].overhead,
                        0);
    return rc;
}

/* The links over which all ranks together send at once on these levels. */
static int count_links(struct bench *b, uint32_t first, uint32_t last, double *links)
{
    *links = 0;
    for (uint32_t level = first; level <= last; level++) {
        struct br_hop hops[BR_TOPOLOGY_HOPS];
        struct partners p = partners_on(b, level, 0);
        uint32_t n = p.next == b->rank || p.previous == b->rank
                         ? 0
                         : br_topology_route(b->topology, (uint32_t)b->rank, (uint32_t)p.next,
                                             (uint8_t)level, hops);

        while (n-- > 0)
            *links += hops[n].share;
    }
    return braid_allreduce(b->comm, links, links, 1, BRAID_FLOAT64, BRAID_SUM, NULL, NULL);
}

/* What a message and a byte take of the machine, on each link: all links are busy at once. */
static int measure_crowd(struct bench *b, uint32_t first, uint32_t last, double *overhead,
                         double *beta)
{
    double links, seconds;
    int rc = count_links(b, first, last, &links);

    if (!rc)
        rc = time_shift(b, first, last, 8, BURST, &seconds);
    if (!rc)
        rc = measure_bytes(b, first, last, beta);
    if (rc)
        return rc;
    *overhead = seconds / BURST / links;
    *beta *= measure_sharers(b) / links;
    return 0;
}

/* The levels: all ranks at once, as they will be. Not where they are more than the cores of their
 * one machine: what they take from each other there depends on how many are at it, so one link
 * alone is measured, and then what the machine can carry. */
static int measure_links(struct bench *b, struct br_cost_model *model)
{
    struct br_cost_machine *machine = &model->machine;
    /* each rank's own; all must measure the same */
    int64_t cores = b->comm->context->settings.cores;
    int rc = braid_allreduce(b->comm, &cores, &cores, 1, BRAID_INT64, BRAID_MIN, NULL, NULL);

    b->pair = cores > 0;
    for (uint32_t l = 0; l < model->n_levels && !rc; l++)
        rc = measure_level(b, l, &model->levels[l]);
    if (!rc)
        rc = measure_relay(b, model);
    if (rc || !b->pair)
        return rc;
    b->pair = false;
    b->spread = true;
    rc = measure_crowd(b, 0, model->n_levels - 1, &machine->overhead, &machine->beta);
    machine->relayed_overhead = machine->overhead;
    machine->relayed_beta = machine->beta;
    if (!rc && measure_relays(b))
        rc = measure_crowd(b, model->n_levels, model->n_levels, &machine->relayed_overhead,
                           &machine->relayed_beta);
    b->spread = false;
    return rc;
}

/* ---- local work ------------------------------------------------------------------------------ */

static int measure_work(struct bench *b, enum braid_type type, bool copies, size_t at)
{
    const void *sources[2] = {b->out + at, b->in + at};

    if (!copies)
        return br_reduce(type, BRAID_SUM, b->out + at, sources, 2, BLOCK_BYTES / br_type_size(type),
                         0);
    memcpy(b->out + at, b->in + at, BLOCK_BYTES);
    return 0;
}

/* Seconds a byte, while all other ranks work, too. */
static int time_work(struct bench *b, enum braid_type type, bool copies, double *seconds)
{
    uint64_t end, start;
    int64_t blocks = 0;
    int rc = braid_barrier(b->comm, NULL, NULL);

    start = br_clock_now();
    end = start + ENOUGH / 4;
    for (; !rc && br_clock_now() < end; blocks++)
        rc = measure_work(b, type, copies,
                          (size_t)blocks * BLOCK_BYTES % ((size_t)WINDOW * MOST_BYTES));
    *seconds = (double)(br_clock_now() - start) / 1e9 / (double)blocks / BLOCK_BYTES;
    return rc ? rc : measure_agree(b, seconds);
}

static int measure_all_work(struct bench *b, struct br_calibration *c)
{
    static const enum braid_type types[BR_COST_CLASSES] = {[BR_COST_4_BYTES] = BRAID_FLOAT32,
                                                           [BR_COST_8_BYTES] = BRAID_FLOAT64,
                                                           [BR_COST_2_BYTES] = BRAID_FLOAT16,
                                                           [BR_COST_1_BYTE] = BRAID_INT8};
    int rc = time_work(b, BRAID_FLOAT32, true, &c->model.copy);

    for (int t = 0; t < BRAID_TYPES && !rc; t++)
        rc = time_work(b, (enum braid_type)t, false, &c->types[t]);
    for (int class = 0; class < BR_COST_CLASSES; class ++)
        c->model.gammas[class] = c->types[types[class]];
    c->model.gamma = c->model.gammas[BR_COST_4_BYTES];
    return rc;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void measure_describe(const struct bench *b, struct br_calibration *c)
{
    struct utsname system;
    time_t now = time(NULL);
    struct tm tm;

    if (uname(&system) == 0)
        snprintf(c->system, sizeof c->system, "%.20s %.64s %.20s", system.sysname, system.release,
                 system.machine);
    br_comm_name_devices(b->comm->context, c->devices);
    br_topology_text(b->topology, c->topology);
    snprintf(c->version, sizeof c->version, "%s", braid_version());
    gmtime_r(&now, &tm);
    strftime(c->date, sizeof c->date, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static int measure(struct bench *b, struct br_calibration *c)
{
    uint32_t levels = br_topology_levels(b->topology);
    int rc;

    c->model.n_levels = levels ? levels : 1;
    rc = measure_links(b, &c->model);
    if (!rc)
        rc = measure_congestion(b, c);
    return rc ? rc : measure_all_work(b, c);
}

int br_measure(struct braid_comm *comm, struct br_calibration *calibration)
{
    struct bench b = {.comm = comm,
                      .topology = &comm->context->network.topology,
                      .rank = braid_rank(comm),
                      .size = braid_size(comm)};
    int rc;

    memset(calibration, 0, sizeof *calibration);
    if (b.size < 2)
        return br_error(
            EINVAL, "one rank has no network to measure; start more with `braid run -n N -- ...`");
    if (b.size != comm->context->size)
        return br_error(EINVAL,
                        "only the network of a whole job is measured, not of a part of its ranks");
    if (b.topology->kind == BR_TOPOLOGY_BCUBE && !br_topology_is_whole_cube(b.topology))
        return br_error(EINVAL,
                        "hosts of BCube(%u,%u) are missing: only where all of them run a rank have "
                        "all ranks a next one "
                        "on every level to be measured with",
                        b.topology->cube.n, b.topology->cube.k);
    b.out = braid_alloc(comm, (size_t)WINDOW * MOST_BYTES);
    b.in = b.out ? braid_alloc(comm, (size_t)WINDOW * MOST_BYTES) : NULL;
    b.all = calloc((size_t)b.size, sizeof *b.all);
    if (!b.in || !b.all)
        rc = br_error(ENOMEM, "rank %d: no memory to measure with", b.rank);
    else
        rc = measure(&b, calibration);
    if (!rc)
        measure_describe(&b, calibration);
    free(b.all);
    if (b.in)
        braid_free(comm, b.in);
    if (b.out)
        braid_free(comm, b.out);
    return rc;
}
