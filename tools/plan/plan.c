/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `braid plan`: what the cost model makes of every algorithm, and what it chooses and why. On any
 * topology without a job; in a job on the job's own, where --run measures each candidate and
 * --measure the figures of the model themselves. With --model what they make of the gradients of a
 * network (model.h). `braid sim` is `braid plan --simulate`.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <braid/braid.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectives/tuning/calibration.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/settings.h"
#include "collectives/engine/group.h"
#include "tools/plan/show.h"
#include "tools/plan/timing.h"
#include "collectives/schedule/type.h"
#include "tools/common/coll_table.h"
#include "tools/calibrate/measure.h"
#include "tools/common/output.h"
#include "tools/plan/model.h"
#include "tools/plan/settings.h"
#include "tools/plan/table.h"
#include "tools/common/tool.h"

#define MOST_DRAWN     64            /* ranks */
#define MOST_SIMULATED (4u << 20)    /* steps of all ranks and fragments */
#define ENOUGH         (500 * BR_MS) /* to measure one candidate of one size */
#define MOST_CALLS     20

struct plan {
    struct br_plan_settings set;
    const struct br_coll *coll;
    enum br_collective collective;
    struct br_topology own; /* without a job */
    struct br_cost_model model;
    struct br_calibration calibration; /* that the model has its figures from */
    char figures[160];
    struct braid_comm *comm;     /* NULL: no job */
    char *send, *recv;           /* with --run */
    struct br_plan_table *table; /* rank 0 */
};

static int find_collective(struct plan *p)
{
    const char *name = p->set.collective;

    p->coll = br_coll_find(name);
    if (!p->coll || br_collective_find(name, &p->collective))
        return br_error(EINVAL, "--collective %s: no such collective", name);
    return 0;
}

/* ---- the network ----------------------------------------------------------------------------- */

static int open_topology(struct plan *p)
{
    const struct br_plan_settings *s = &p->set;
    char text[BR_TOPOLOGY_TEXT];

    if (!!s->ranks + !!s->topology + !!s->hosts > 1)
        return br_error(EINVAL, "say one of --ranks, --topology, --hosts");
    if (s->topology)
        return br_topology_parse(&p->own, s->topology);
    if (s->hosts)
        snprintf(text, sizeof text, "hosts:%s", s->hosts);
    else
        snprintf(text, sizeof text, "flat:%" PRId64, s->ranks ? s->ranks : 4);
    return br_topology_parse(&p->own, text);
}

/* The figures of p->calibration instead of the built-in ones. */
static int use_calibration(struct plan *p, const char *path)
{
    const struct br_calibration *c = &p->calibration;
    const struct br_topology *topology = p->model.topology;
    char stale[BR_CALIBRATION_STALE_TEXT], devices[BR_CALIBRATION_TEXT] = "";
    size_t chunk = p->model.chunk_bytes;
    int rc = br_calibration_check(c, topology);

    if (rc)
        return rc;
    p->model = c->model;
    p->model.topology = topology;
    p->model.chunk_bytes = chunk;
    p->model.measured = c->measured;
    p->model.n_measured = c->n_measured;
    if (p->comm)
        br_comm_name_devices(p->comm->context, devices);
    snprintf(p->figures, sizeof p->figures, "calibration %.80s of %s", path, c->date);
    if (br_calibration_stale(c, topology, devices,
                             p->comm ? &p->comm->context->network.oversubscribed : NULL, stale) &&
        (!p->comm || braid_rank(p->comm) == 0))
        fprintf(
            stderr,
            "braid plan: the calibration %s is stale (%s); measure again with `braid calibrate`\n",
            path, stale);
    return 0;
}

static int open_model(struct plan *p)
{
    int rc = 0;

    snprintf(p->figures, sizeof p->figures, "default figures");
    if (p->comm) {
        p->model = p->comm->group->model;
        if (p->comm->context->network.measured)
            snprintf(p->figures, sizeof p->figures, "calibration of the job");
    } else if (!(rc = open_topology(p))) {
        br_cost_model_on(&p->model, &p->own, BR_COST_NETWORK,
                         p->set.rails ? (uint32_t)p->set.rails : 1);
        p->model.chunk_bytes = BR_CHUNK_BYTES;
    }
    if (!rc && p->set.calibration &&
        !(rc = br_calibration_read(p->set.calibration, &p->calibration)))
        rc = use_calibration(p, p->set.calibration);
    if (!rc && p->set.measure && !(rc = br_measure(p->comm, &p->calibration))) {
        rc = use_calibration(p, p->set.measure);
        if (!rc && braid_rank(p->comm) == 0)
            rc = br_calibration_write(p->set.measure, &p->calibration);
    }
    return rc;
}

/* ---- one candidate --------------------------------------------------------------------------- */

/* The schedules of all ranks; the caller frees with close_schedules(). */
static struct br_schedule **open_schedules(const struct plan *p, const struct br_tuning *tuning)
{
    uint32_t n = p->model.topology->n;
    struct br_schedule **all = calloc(n, sizeof(struct br_schedule *));
    struct br_schedule_request request = {.collective = p->collective,
                                          .algorithm = tuning->config.algorithm,
                                          .n = n,
                                          .packed = tuning->packed,
                                          .shape = tuning->config.shape};

    for (request.rank = 0; all && request.rank < n; request.rank++)
        if (br_algorithm_build(&request, &all[request.rank]))
            break;
    return all;
}

static void close_schedules(const struct plan *p, struct br_schedule **all)
{
    for (uint32_t r = 0; all && r < p->model.topology->n; r++)
        br_schedule_free(all[r]);
    free(all);
}

/* 0: it cannot be said, or would take too long. */
static double time_exactly(const struct plan *p, const struct br_tuning *tuning, double bytes)
{
    struct br_schedule **all = p->model.topology->n <= 512 ? open_schedules(p, tuning) : NULL;
    uint32_t n = p->model.topology->n;
    double seconds = 0;

    if (all && all[n - 1] && (uint64_t)all[0]->n_steps * n * tuning->fragments <= MOST_SIMULATED &&
        br_timing_run(&p->model, (const struct br_schedule *const *)all, bytes, tuning->fragments,
                      &seconds))
        seconds = 0;
    close_schedules(p, all);
    return seconds;
}

static int plan_draw(const struct plan *p, const struct br_tuning *tuning)
{
    struct br_schedule **all;
    FILE *file = NULL;
    int rc = 0;

    if (p->model.topology->n > MOST_DRAWN)
        return br_error(EINVAL, "--dot draws %d ranks at most, not %u", MOST_DRAWN,
                        p->model.topology->n);
    all = open_schedules(p, tuning);
    if (!all || !all[p->model.topology->n - 1])
        rc = br_error(ENOMEM, "no memory for the schedules");
    if (!rc)
        file = br_output_open(p->set.dot, true, &rc);
    if (file)
        rc = br_output_close(file, p->set.dot,
                             br_show_dot((const struct br_schedule *const *)all, file));
    close_schedules(p, all);
    return rc;
}

/* The first candidate of a size finds the pages of the scratch: its first call never counts. */
static int measure_calls(const struct plan *p, const char *algorithm, size_t bytes, bool first,
                         double *seconds)
{
    struct br_coll_timing calls = {.comm = p->comm,
                                   .coll = p->coll,
                                   .algorithm = algorithm,
                                   .bytes = bytes,
                                   .send = p->send,
                                   .recv = p->recv,
                                   .min_ns = ENOUGH,
                                   .max_calls = MOST_CALLS,
                                   .once = !first};

    return br_coll_time(&calls, seconds);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int plan_candidates(const struct plan *p, double bytes,
                           struct br_tuning tunings[BR_ALGORITHM_CONFIGS])
{
    struct br_algorithm_config config;
    int rc;

    if (!p->set.algorithm || !strcmp(p->set.algorithm, "auto"))
        return br_tuning_choose_all(&p->model, p->collective, p->model.topology->n, bytes, tunings);
    rc = br_algorithm_config_parse(p->model.topology, p->set.algorithm, &config);
    if (!rc)
        rc = br_tuning_choose_methods(&p->model, p->collective, p->model.topology->n, bytes,
                                      &config, tunings);
    return rc ? rc : 1;
}

static int one_row(struct plan *p, size_t bytes, double block, const struct br_tuning *tuning,
                   bool chosen)
{
    char name[BR_ALGORITHM_TEXT], why[BR_TUNING_TEXT];
    struct br_plan_row row = {.bytes = bytes,
                              .algorithm = br_algorithm_config_name(&tuning->config, name),
                              .predicted = tuning->seconds,
                              .fragments = tuning->fragments,
                              .chosen = chosen,
                              .why = why};
    int rc = br_tuning_explain(&p->model, p->collective, p->model.topology->n, block, tuning, why);

    if (!rc && p->set.run && tuning->seconds < (double)p->set.limit)
        rc = measure_calls(p, name, bytes, chosen, &row.measured);
    if (rc || !p->table)
        return rc;
    if (p->set.exact)
        row.exact = time_exactly(p, tuning, block);
    br_plan_table_add(p->table, &row);
    return 0;
}

static int plan_one_size(struct plan *p, size_t bytes)
{
    static struct br_tuning tunings[BR_ALGORITHM_CONFIGS];
    struct br_coll_shape shape =
        br_coll_shape(p->coll, bytes, BRAID_FLOAT32, (int)p->model.topology->n);
    double block = (double)(shape.count * br_type_size(BRAID_FLOAT32));
    int n = plan_candidates(p, block, tunings), rc = n < 0 ? n : 0;

    for (int i = 0; i < n && !rc; i++)
        rc = one_row(p, bytes, block, &tunings[i], i == 0);
    if (!rc && p->set.dot && p->table &&
        (double)bytes * (double)p->set.factor > (double)p->set.max_bytes)
        rc = plan_draw(p, &tunings[0]);
    return rc;
}

static int plan_get_buffers(struct plan *p)
{
    size_t bytes = (size_t)p->set.max_bytes + 4096;

    if (!p->set.run)
        return 0;
    p->send = braid_alloc(p->comm, bytes);
    p->recv = p->send ? braid_alloc(p->comm, bytes) : NULL;
    if (!p->recv)
        return -ENOMEM;
    /* the kernel finds the pages now, not while the first candidate is timed */
    memset(p->send, 0, bytes);
    memset(p->recv, 0, bytes);
    return 0;
}

static int plan(struct plan *p)
{
    const struct br_plan_settings *s = &p->set;
    bool barrier = p->coll->id == BR_COLL_BARRIER;
    int rc = open_model(p);

    if (!rc && s->rails && p->model.topology->kind == BR_TOPOLOGY_BCUBE)
        rc = br_error(EINVAL, "--rails: a BCube has a NIC a level");
    if (!rc && s->model)
        return p->comm && braid_rank(p->comm) ? 0 : br_plan_model(s, &p->model, p->figures);
    if (!rc)
        rc = plan_get_buffers(p);
    if (!rc && (!p->comm || braid_rank(p->comm) == 0) &&
        !(p->table =
              br_plan_table_new(s->collective, &p->model, p->figures, s->json, s->exact, s->run)))
        rc = -EIO;
    for (int64_t bytes = barrier ? s->max_bytes : s->min_bytes; bytes <= s->max_bytes && !rc;
         bytes = bytes ? bytes * s->factor : s->factor)
        rc = plan_one_size(p, barrier ? 0 : (size_t)bytes);
    if (!rc && p->table)
        rc = br_plan_table_finish(p->table);
    return rc;
}

int br_tool_plan(int argc, char **argv)
{
    struct plan p = {0};
    int rc = br_plan_settings_read(&p.set, argc, argv);

    if (rc == 1)
        return 0;
    if (!rc)
        rc = find_collective(&p);
    if (rc) {
        fprintf(stderr, "braid %s: %s\n", argv[0], br_error_message());
        return 2;
    }
    if (p.set.run || p.set.measure ||
        (br_plan_in_job() && !p.set.simulate && !p.set.ranks && !p.set.topology && !p.set.hosts))
        rc = braid_init(NULL, &p.comm);
    if (!rc)
        rc = plan(&p);
    if (rc) {
        fprintf(stderr, "braid %s: %s\n", argv[0], br_error_message());
        if (p.comm)
            braid_comm_abort(p.comm, "a rank of braid plan failed");
    }
    br_plan_table_free(p.table);
    if (p.comm && braid_finalize(p.comm) && !rc)
        rc = -EIO;
    br_topology_destroy(&p.own);
    return rc != 0;
}
