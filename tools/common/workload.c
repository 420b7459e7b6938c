/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 1. A backward pass costs twice the forward pass: it computes the gradient of the weights and that
 *    of the input.
 * 2. a and b of the cost model are fitted to the times of all-reduces of the sizes that merged
 *    layers may have, from the smallest layer to all of them. The model changes the algorithm with
 *    the size, so no line fits all; how far off it is stands in the message.
 * 3. What is urgent overtakes what has not left: it waits for the windows that are in flight.
 */
#include "tools/common/workload.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "collectives/tuning/tuning.h"
#include "protocol/peer.h"

#define MOST_SAMPLES 64

/* ---- numbers --------------------------------------------------------------------------------- */

int br_tool_numbers(const char *text, int n, double *numbers)
{
    for (int i = 0; i < n; i++) {
        char *end;

        numbers[i] = strtod(text, &end);
        if (end == text || !isfinite(numbers[i]) || numbers[i] < 0 ||
            *end != (i == n - 1 ? 0 : ','))
            return -EINVAL;
        text = end + 1;
    }
    return 0;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static int times_by_speed(struct br_tool_workload *w, const struct br_plan_settings *set)
{
    double speed = 1000;

    if (set->speed && (br_tool_numbers(set->speed, 1, &speed) || speed <= 0))
        return br_error(EINVAL,
                        "--speed %s: must be a number above 0, in 10^9 multiply-adds a second",
                        set->speed);
    for (int l = 0; l < w->model.count; l++) {
        struct br_layer *layer = &w->layers[l];

        layer->forward =
            (double)w->model.layers[l].multiply_adds * (double)set->batch / (speed * 1e9);
        layer->backward = 2 * layer->forward;
    }
    return 0;
}

static int read_times(struct br_tool_workload *w, FILE *file, const char *path)
{
    char line[512];
    int layer = 0;

    for (int number = 1; fgets(line, sizeof line, file); number++) {
        double us[3];

        line[strcspn(line, "\r\n")] = 0;
        if (!line[0] || line[0] == '#' || !strncmp(line, "layer", 5))
            continue;
        if (br_tool_numbers(line, 3, us) || us[0] != layer + 1)
            return br_error(EINVAL, "%s, line %d: must be %d,forward_us,backward_us", path, number,
                            layer + 1);
        if (layer == w->model.count)
            return br_error(EINVAL, "%s, line %d: the model has %d layers only", path, number,
                            layer);
        w->layers[layer].forward = us[1] * 1e-6;
        w->layers[layer++].backward = us[2] * 1e-6;
    }
    if (layer < w->model.count)
        return br_error(EINVAL, "%s has the times of %d layers, the model has %d", path, layer,
                        w->model.count);
    return 0;
}

static int open_layers(struct br_tool_workload *w, const struct br_plan_settings *set)
{
    FILE *file;
    int rc;

    w->layers = calloc((size_t)w->model.count, sizeof *w->layers);
    if (!w->layers)
        return br_error(ENOMEM, "no memory for %d layers", w->model.count);
    for (int l = 0; l < w->model.count; l++)
        w->layers[l].bytes = (double)w->model.layers[l].parameters * sizeof(float);
    if (!set->times)
        return times_by_speed(w, set);
    file = fopen(set->times, "r");
    if (!file)
        return br_error(errno, "%s: %s", set->times, strerror(errno));
    rc = read_times(w, file, set->times);
    fclose(file);
    return rc;
}

/* ---- a and b --------------------------------------------------------------------------------- */

static int cost_of_text(struct br_tool_workload *w, const char *text)
{
    double numbers[2];

    if (br_tool_numbers(text, 2, numbers))
        return br_error(EINVAL, "--cost %s: must be A,B: microseconds and nanoseconds a byte",
                        text);
    w->load.cost = (struct br_cost_line){numbers[0] * 1e-6, numbers[1] * 1e-9};
    snprintf(w->cost, sizeof w->cost, "as given");
    return 0;
}

static int cost_of_links(struct br_tool_workload *w, const char *text, uint32_t n)
{
    const char *colon = strchr(text, ':');
    double numbers[3];
    char law[16];

    if (!colon || (size_t)(colon - text) >= sizeof law || br_tool_numbers(colon + 1, 3, numbers))
        return br_error(EINVAL, "--links %s: must be LAW:ALPHA,BETA,GAMMA such as ring:45,0.8,0.1",
                        text);
    snprintf(law, sizeof law, "%.*s", (int)(colon - text), text);
    snprintf(w->cost, sizeof w->cost, "of %s on %u ranks", law, n);
    return br_cost_line_law(
        law, n,
        &(struct br_cost_line_links){numbers[0] * 1e-6, numbers[1] * 1e-9, numbers[2] * 1e-9},
        &w->load.cost);
}

static int common_workload_choose(const struct br_cost_model *model, const char *algorithm,
                                  double bytes, struct br_tuning *tuning)
{
    uint32_t n = model->topology->n;
    struct br_algorithm_config config;
    int rc;

    if (!algorithm || !strcmp(algorithm, "auto"))
        return br_tuning_choose(model, BR_ALLREDUCE, n, bytes, tuning);
    rc = br_algorithm_config_parse(model->topology, algorithm, &config);
    return rc ? rc : br_tuning_choose_methods(model, BR_ALLREDUCE, n, bytes, &config, tuning);
}

static int cost_of_model(struct br_tool_workload *w, const struct br_cost_model *model,
                         const char *algorithm, const char *figures)
{
    double bytes = INFINITY, all = (double)w->model.parameters * sizeof(float), off = 0;
    struct br_cost_line_sample samples[MOST_SAMPLES];
    uint32_t n = 0;
    int rc;

    if (model->topology->n == 1) {
        snprintf(w->cost, sizeof w->cost, "one rank");
        return 0;
    }
    for (uint32_t l = 0; l < w->load.n; l++)
        bytes = fmin(bytes, w->layers[l].bytes);
    while (n < MOST_SAMPLES) {
        struct br_tuning tuning;

        rc = common_workload_choose(model, algorithm, bytes, &tuning);
        if (rc)
            return rc;
        samples[n++] = (struct br_cost_line_sample){bytes, tuning.seconds};
        if (bytes >= all)
            break;
        bytes = fmin(2 * bytes, all);
    }
    rc = br_cost_line_measure(samples, n, &w->load.cost);
    for (uint32_t i = 0; i < n && !rc; i++)
        off = fmax(
            off,
            fabs(br_cost_line_seconds(&w->load.cost, samples[i].bytes) / samples[i].seconds - 1));
    snprintf(w->cost, sizeof w->cost, "fitted to the cost model, off by %.0f %% at most; %.120s",
             off * 100, figures);
    return rc;
}

/* ---- overtaking ------------------------------------------------------------------------------ */

/* How many windows an all-reduce finds in front of its messages, one after the other: in a direct
 * exchange those of the n - 1 peers in each of the two steps, in a ring one in each of its 2 (n -
 * 1) steps. On a BCube the same holds for each level. */
static double windows_in_front(const struct br_topology *topology)
{
    if (topology->kind == BR_TOPOLOGY_BCUBE)
        return 2.0 * topology->cube.k * (topology->cube.n - 1);
    if (topology->kind == BR_TOPOLOGY_HOSTS)
        return 2.0 * (topology->hosts - 1);
    return 2.0 * (topology->n - 1);
}

/* The windows are those of rails that carry what an all-reduce sends by the line: of each byte of
 * the buffer 2 (n - 1) / n leave a rank, or a host of several. */
static double overtake_of(const struct br_cost_line *cost, const struct br_topology *topology,
                          uint32_t rails)
{
    double n = topology->kind == BR_TOPOLOGY_HOSTS ? topology->hosts : topology->n;
    double windows = windows_in_front(topology), rate, round_trip;

    if (n < 2 || windows < 1 || cost->b <= 0)
        return 0;
    rate = 2 * (n - 1) / n / cost->b / rails;
    round_trip = fmin(2 * cost->a / windows, 1);
    return windows * (double)br_rail_shared_window(rate, (uint64_t)(round_trip * 1e9)) / rate;
}

static int find_overtake(struct br_tool_workload *w, const struct br_plan_settings *set,
                         const struct br_cost_model *model)
{
    const struct br_topology *topology = model->topology;
    uint32_t rails = topology->kind == BR_TOPOLOGY_BCUBE  ? topology->cube.k
                     : set->rails                         ? (uint32_t)set->rails
                     : topology->kind == BR_TOPOLOGY_FLAT ? model->n_levels
                                                          : 1;
    double us;

    if (!set->overtake) {
        w->load.overtake = overtake_of(&w->load.cost, topology, rails);
        return 0;
    }
    if (br_tool_numbers(set->overtake, 1, &us))
        return br_error(EINVAL, "--overtake %s: must be microseconds, not negative", set->overtake);
    w->load.overtake = us * 1e-6;
    return 0;
}

/* ---- all ------------------------------------------------------------------------------------- */

int br_tool_workload_open(struct br_tool_workload *w, const struct br_plan_settings *set,
                          const struct br_cost_model *model, const char *figures)
{
    int rc;

    memset(w, 0, sizeof *w);
    rc = br_model_load(set->model, &w->model);
    if (rc)
        return rc;
    rc = open_layers(w, set);
    w->load = (struct br_workload){.layers = w->layers,
                                   .n = (uint32_t)w->model.count,
                                   .slice_bytes = (double)set->slice,
                                   .bucket_bytes = (double)set->bucket};
    if (!rc && set->cost)
        rc = cost_of_text(w, set->cost);
    else if (!rc && set->links)
        rc = cost_of_links(w, set->links, model->topology->n);
    else if (!rc)
        rc = cost_of_model(w, model, set->algorithm, figures);
    if (!rc)
        rc = find_overtake(w, set, model);
    if (!rc)
        rc = br_workload_check(&w->load);
    if (rc)
        br_tool_workload_close(w);
    return rc;
}

void br_tool_workload_close(struct br_tool_workload *w)
{
    free(w->layers);
    br_model_free(&w->model);
    memset(w, 0, sizeof *w);
}
