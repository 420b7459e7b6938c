/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/tuning/tuning.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "collectives/schedule/schedule.h"
#include "protocol/message.h"

#define MOST_FRAGMENTS       64
#define DISJOINT_TREES_CHUNK (32u << 10)

static struct br_schedule_request request_of(enum br_collective collective, uint32_t n,
                                             const struct br_algorithm_config *config)
{
    return (struct br_schedule_request){.collective = collective,
                                        .algorithm = config->algorithm,
                                        .n = n,
                                        .shape = config->shape,
                                        .disjoint_trees = config->disjoint_trees};
}

/* Takes so many fragments if that is the cheapest so far. */
static int try_fragments(const struct br_cost_model *model,
                         const struct br_schedule_request *request, double bytes,
                         uint32_t fragments, size_t chunk, struct br_tuning *tuning)
{
    double seconds;
    int rc = br_cost_estimate(model, request, bytes, fragments, &seconds);

    if (rc || seconds >= tuning->seconds)
        return rc;
    tuning->seconds = seconds;
    tuning->fragments = fragments;
    tuning->chunk_bytes = chunk;
    return 0;
}

/* Takes packed messages, in one fragment, if these are cheaper than what is the cheapest so far. */
static int try_packed(const struct br_cost_model *model, const struct br_schedule_request *request,
                      double bytes, struct br_tuning *tuning)
{
    struct br_schedule_request packed = *request;
    double seconds;
    int rc;

    packed.packed = true;
    if (!br_algorithm_can_pack(&packed) || bytes * br_algorithm_packed(&packed) > BR_MAX_TRANSFER)
        return 0;
    rc = br_cost_estimate(model, &packed, bytes, 1, &seconds);
    if (rc || seconds >= tuning->seconds)
        return rc;
    tuning->seconds = seconds;
    tuning->fragments = 1;
    tuning->packed = true;
    return 0;
}

/*
 * Between hosts of several ranks memory and link are busy one after the other within a fragment, so
 * more fragments than the engine's own cut makes can keep the link busier. Elsewhere all of a
 * schedule's steps want the same thing, and smaller pieces gained nothing: of 2 ranks in shared
 * memory 64 KiB instead of 512 KiB cost up to half more time.
 */
static size_t least_chunk(const struct br_cost_model *model)
{
    bool hosts = model->topology && model->topology->kind == BR_TOPOLOGY_HOSTS;

    return hosts && model->chunk_bytes > BR_CHUNK_MIN_BYTES ? BR_CHUNK_MIN_BYTES
                                                            : model->chunk_bytes;
}

/* With disjoint trees a fragment goes up and down deep trees, so it takes many to fill the links.
 */
static size_t first_chunk(const struct br_cost_model *model,
                          const struct br_schedule_request *request)
{
    return request->disjoint_trees && model->chunk_bytes > DISJOINT_TREES_CHUNK
               ? DISJOINT_TREES_CHUNK
               : model->chunk_bytes;
}

/*
 * In a BCube each step waits for all neighbours of another level. The flows that share a NIC are
 * not alike, so a level is idle until the slowest of them has come, unless other fragments have
 * something to send there. The engine's own cut looks at the smallest messages, those of the last
 * level; here what counts is their mean. The model lets all flows be alike and does not see what
 * this gains, so the price by which algorithms are compared stays that of the model's own cut.
 */
static void cut_for_cube(const struct br_cost_model *model,
                         const struct br_schedule_request *request, double bytes,
                         struct br_tuning *tuning)
{
    const struct br_shape *shape = &request->shape;
    uint32_t neighbours = 0;

    if (!model->topology || model->topology->kind != BR_TOPOLOGY_BCUBE ||
        model->chunk_bytes <= BR_CHUNK_MIN_BYTES || request->collective != BR_ALLREDUCE ||
        shape->n_dimensions < 2 || tuning->packed || tuning->fragments >= BR_CUBE_FRAGMENTS)
        return;
    for (uint32_t i = 0; i < shape->n_dimensions; i++)
        neighbours += shape->dimensions[i].size - 1;
    if (bytes / shape->threads / neighbours < BR_CUBE_FRAGMENTS * BR_CHUNK_MIN_BYTES)
        return;
    tuning->fragments = BR_CUBE_FRAGMENTS;
    tuning->chunk_bytes = (size_t)(bytes / br_algorithm_pieces(request) / BR_CUBE_FRAGMENTS) + 1;
}

/* Without an engine that cuts, the best number of fragments is taken. */
static int tuning_estimate(const struct br_cost_model *model,
                           const struct br_schedule_request *request, double bytes,
                           struct br_tuning *tuning)
{
    const struct br_cost_measured *measured = br_cost_measured_find(model, request);
    int rc = br_algorithm_check(request);
    double seconds;

    tuning->seconds = INFINITY;
    tuning->packed = false;
    for (uint32_t f = 1; !model->chunk_bytes && f <= MOST_FRAGMENTS && !rc; f *= 2)
        rc = try_fragments(model, request, bytes, f, 0, tuning);
    for (size_t chunk = first_chunk(model, request), least = least_chunk(model); chunk && !rc;
         chunk /= 2) {
        uint32_t f = br_fragment_count((size_t)bytes, br_algorithm_packed(request),
                                       br_algorithm_pieces(request), chunk, model->serial);

        if (!f)
            return br_error(E2BIG, "blocks of %g bytes are too large", bytes);
        rc = try_fragments(model, request, bytes, f, chunk, tuning);
        if (chunk / 2 < least)
            break;
    }
    if (!rc)
        rc = try_packed(model, request, bytes, tuning);
    if (!rc)
        cut_for_cube(model, request, bytes, tuning);
    if (measured && (seconds = br_cost_measured_at(measured, bytes)) > 0)
        tuning->seconds = seconds;
    if (!rc && !isfinite(tuning->seconds))
        rc = br_error(
            EINVAL, "%s takes more seconds than a number can say, by the figures of the cost model",
            br_algorithm_name(request->algorithm));
    return rc;
}

/* The stages do not depend on each other, so each may be decided for itself. */
int br_tuning_choose_methods(const struct br_cost_model *model, enum br_collective collective,
                             uint32_t n, double bytes, struct br_algorithm_config *config,
                             struct br_tuning *tuning)
{
    struct br_schedule_request request = request_of(collective, n, config);
    struct br_tuning trial = {.fragments = 0};

    for (uint32_t i = 0; i < request.shape.n_dimensions && config->undecided; i++) {
        enum br_method best = BR_METHOD_DIRECT;
        double least = INFINITY;

        if (!(config->undecided & 1u << i))
            continue;
        for (int m = BR_METHOD_DIRECT; m <= BR_METHOD_HALVING; m++) {
            request.shape.dimensions[i].method = (enum br_method)m;
            if (m == BR_METHOD_HALVING &&
                (request.shape.dimensions[i].size & (request.shape.dimensions[i].size - 1)))
                continue;
            if (tuning_estimate(model, &request, bytes, &trial) == 0 && trial.seconds < least) {
                least = trial.seconds;
                best = (enum br_method)m;
            }
        }
        request.shape.dimensions[i].method = best;
    }
    config->shape = request.shape;
    config->undecided = 0;
    tuning->config = *config;
    return tuning_estimate(model, &request, bytes, tuning);
}

/* Bytes of all that a leader of a core_tree collects, or passes on; more leave the caches of its
 * core. */
#define HELD_MOST (2u << 20)

/* Where core_tree gains: where it was measured, that is compared. Else not in memory, where it took
 * 1.1 to 1.9 times as long in the few sizes for which the formulas say that it is the fastest, and
 * not beyond the caches. Measured with 4 and 8 ranks on 2 cores: doc/design/cost_model.md,
 * section 3. */
static bool is_compared(const struct br_cost_model *model, enum br_collective collective,
                        uint32_t n, double bytes, const struct br_algorithm_config *config)
{
    struct br_schedule_request request = request_of(collective, n, config);
    const struct br_cost_measured *measured = br_cost_measured_find(model, &request);
    double held = bytes * config->shape.dimensions[0].size;

    if (config->algorithm != BR_CORE_TREE)
        return true;
    if (measured)
        return br_cost_measured_at(measured, bytes) > 0;
    if (br_collective_by_blocks(collective))
        held *= n;
    return !model->in_memory && held <= HELD_MOST;
}

/* The core trees that a calibration has measured: its figures have the sharing of cores in them, so
 * the topology does not name any. Returns how many configurations there are then. */
static uint32_t add_measured_core_trees(const struct br_cost_model *model,
                                        enum br_collective collective, uint32_t n,
                                        struct br_algorithm_config configs[BR_ALGORITHM_CONFIGS],
                                        uint32_t count)
{
    if (model->topology && model->topology->cores)
        return count;
    for (uint32_t i = 0; i < model->n_measured && count < BR_ALGORITHM_CONFIGS; i++) {
        const struct br_cost_measured *m = &model->measured[i];

        if (m->config.algorithm == BR_CORE_TREE && m->collective == collective && m->ranks == n)
            configs[count++] = m->config;
    }
    return count;
}

int br_tuning_choose_all(const struct br_cost_model *model, enum br_collective collective,
                         uint32_t n, double bytes, struct br_tuning tunings[BR_ALGORITHM_CONFIGS])
{
    struct br_algorithm_config configs[BR_ALGORITHM_CONFIGS];
    struct br_topology flat;
    uint32_t n_ways, found = 0;

    if (br_cost_model_check(model))
        return -EINVAL;
    br_topology_flat(&flat, n);
    n_ways = br_algorithm_config_list(model->topology ? model->topology : &flat, configs);
    n_ways = add_measured_core_trees(model, collective, n, configs, n_ways);
    for (uint32_t i = 0; i < n_ways; i++) {
        struct br_tuning tuning = {.fragments = 0};
        uint32_t at = found;

        if (!is_compared(model, collective, n, bytes, &configs[i]) ||
            br_tuning_choose_methods(model, collective, n, bytes, &configs[i], &tuning) != 0)
            continue;
        for (; at > 0 && tunings[at - 1].seconds > tuning.seconds; at--)
            tunings[at] = tunings[at - 1];
        tunings[at] = tuning;
        found++;
    }
    return found ? (int)found
                 : br_error(EINVAL, "no algorithm does %s on %u ranks",
                            br_collective_name(collective), n);
}

int br_tuning_choose(const struct br_cost_model *model, enum br_collective collective, uint32_t n,
                     double bytes, struct br_tuning *tuning)
{
    struct br_tuning all[BR_ALGORITHM_CONFIGS];
    int rc = br_tuning_choose_all(model, collective, n, bytes, all);

    if (rc < 0)
        return rc;
    *tuning = all[0];
    return 0;
}

static int explain_bound(const struct br_cost_model *model, enum br_collective collective,
                         uint32_t n, double bytes, const struct br_tuning *tuning,
                         char text[BR_TUNING_TEXT])
{
    struct br_schedule_request request = request_of(collective, n, &tuning->config);
    const struct br_cost_measured *measured = br_cost_measured_find(model, &request);
    struct br_cost_parts parts;
    int rc;

    request.packed = tuning->packed;
    rc = br_cost_explain(model, &request, bytes, tuning->fragments, &parts);

    if (rc)
        return rc;
    if (measured && br_cost_measured_at(measured, bytes) > 0) {
        snprintf(text, BR_TUNING_TEXT, "as measured: a %.3g us, b %.3g ns/B",
                 measured->fit.start * 1e6, measured->fit.slope * 1e9);
        return 0;
    }
    if (parts.latency > 0.5 * parts.total)
        snprintf(text, BR_TUNING_TEXT, "latency bound: %.0f %% is start-up",
                 100 * parts.latency / parts.total);
    else if (parts.cpu > parts.port)
        snprintf(text, BR_TUNING_TEXT, "bound by the reduction: %.0f %% of the time",
                 100 * parts.cpu / parts.total);
    else if (model->topology && model->topology->cores)
        snprintf(text, BR_TUNING_TEXT, "bound by %u cores for all ranks, busy %.0f %%",
                 model->topology->cores, 100 * parts.port / parts.total);
    else if (parts.level == BR_COST_MACHINE_LEVEL)
        snprintf(text, BR_TUNING_TEXT, "bound by the cores that all ranks share, busy %.0f %%",
                 100 * parts.port / parts.total);
    else if (model->topology && br_topology_is_memory(model->topology, parts.level))
        snprintf(text, BR_TUNING_TEXT, "bandwidth bound by the memory of a host, busy %.0f %%",
                 100 * parts.port / parts.total);
    else if (model->n_levels > 1 && model->topology && model->topology->kind != BR_TOPOLOGY_FLAT)
        snprintf(text, BR_TUNING_TEXT, "bandwidth bound on level %u, busy %.0f %%", parts.level,
                 100 * parts.port / parts.total);
    else
        snprintf(text, BR_TUNING_TEXT, "bandwidth bound, links busy %.0f %%",
                 100 * parts.port / parts.total);
    return 0;
}

int br_tuning_explain(const struct br_cost_model *model, enum br_collective collective, uint32_t n,
                      double bytes, const struct br_tuning *tuning, char text[BR_TUNING_TEXT])
{
    int rc = explain_bound(model, collective, n, bytes, tuning, text);

    if (!rc && tuning->packed) {
        size_t used = strlen(text);

        snprintf(text + used, BR_TUNING_TEXT - used, "; packed");
    }
    return rc;
}
