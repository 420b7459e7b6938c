/* SPDX-License-Identifier: BSD-3-Clause */
/* The figures of the cost model, and what a message costs by them. */
#include "collectives/tuning/cost.h"

#include <errno.h>
#include <math.h>

#include "base/error.h"
#include "protocol/message.h"

/* MACHINE: with 8 ranks on 16 cores, loopback, a scatter of 8 bytes by `flat`, one call behind the
 * other, takes 4.5 us a message, a gather 1.7, and an exchange of 2 ranks 9. beta and one_way are
 * the medians of three calibrations while other programs ran: the processor of a rank moves what it
 * sends and what it receives. gamma is what a reduce took longer than a broadcast, both by `flat`,
 * of 256 KiB. */
void br_cost_model_default(struct br_cost_model *model, enum br_cost_locality place, uint32_t rails)
{
    static const struct br_cost_level levels[] = {
        [BR_COST_HOST] = {.alpha = 0.6e-6, .overhead = 0.4e-6, .beta = 0.1e-9},
        [BR_COST_MACHINE] = {.alpha = 4e-6,
                             .overhead = 4.5e-6,
                             .beta = 0.75e-9,
                             .one_way = 0.53e-9},
        [BR_COST_NETWORK] = {.alpha = 20e-6, .overhead = 2e-6, .beta = 0.85e-9}};

    *model = (struct br_cost_model){.gamma = place == BR_COST_MACHINE ? 0.05e-9 : 0.1e-9,
                                    .copy = 0.1e-9,
                                    .received = place == BR_COST_MACHINE ? 0.4 : 0,
                                    .relay = 50e-6,
                                    .eager_bytes = place == BR_COST_HOST ? 0 : BR_EAGER_BYTES,
                                    .serial = place != BR_COST_NETWORK,
                                    .shared = place != BR_COST_NETWORK};
    model->n_levels = rails < 1 ? 1 : rails > BR_COST_LEVELS ? BR_COST_LEVELS : rails;
    for (uint32_t i = 0; i < model->n_levels; i++)
        model->levels[i] = levels[place];
}

/*
 * Of ranks that take turns on few cores: nothing waits for a network, but every message costs its
 * sender and its receiver time of a core, and a change between them. Measured with 4 ranks on 2
 * cores, shared memory and TCP on loopback and veth. Between HOSTS a message in memory costs more,
 * because who waits for it looks at its sockets, too: there 8 bytes took 25 us by binary_tree, 38
 * by doubling.
 */
static struct br_cost_level cost_model_crowded(const struct br_topology *topology,
                                               enum br_cost_locality place, uint32_t level)
{
    static const struct br_cost_level host = {.alpha = 1e-6, .overhead = 3e-6, .beta = 0.2e-9},
                                      beside_sockets = {.alpha = 1e-6,
                                                        .overhead = 9e-6,
                                                        .beta = 0.2e-9},
                                      rail = {.alpha = 3e-6, .overhead = 12e-6, .beta = 0.6e-9};
    struct br_cost_level cost = rail;

    if (topology->kind == BR_TOPOLOGY_HOSTS && level == 0)
        cost = beside_sockets;
    else if (place == BR_COST_HOST)
        cost = host;
    cost.overhead /= topology->cores;
    cost.beta /= topology->cores;
    return cost;
}

void br_cost_model_on(struct br_cost_model *model, const struct br_topology *topology,
                      enum br_cost_locality place, uint32_t rails)
{
    bool serial = topology->kind == BR_TOPOLOGY_FLAT && place != BR_COST_NETWORK;
    bool in_memory = topology->kind == BR_TOPOLOGY_FLAT && place == BR_COST_HOST;
    struct br_cost_model memory;

    if (topology->kind != BR_TOPOLOGY_FLAT || (topology->cores && place == BR_COST_MACHINE))
        place = BR_COST_NETWORK;
    br_cost_model_default(model, place,
                          topology->kind == BR_TOPOLOGY_BCUBE ? topology->cube.k : rails);
    if (topology->kind == BR_TOPOLOGY_HOSTS) {
        br_cost_model_default(&memory, BR_COST_HOST, 1);
        model->levels[1] = br_cost_message(model, BR_LEVEL_ANY);
        model->levels[0] = memory.levels[0];
        model->n_levels = 2;
    }
    for (uint32_t i = 0; topology->cores && i < model->n_levels; i++)
        model->levels[i] = cost_model_crowded(topology, place, i);
    model->serial = serial;
    model->in_memory = in_memory;
    if (topology->kind == BR_TOPOLOGY_BCUBE)
        model->eager_bytes = BR_EAGER_BYTES_OF_CUBE;
    model->shared = model->shared && !topology->cores; /* a crowd's figures have it in them */
    model->topology = topology;
}

/* Not NaN either. */
static bool is_figure(double figure)
{
    return figure >= 0 && figure <= BR_COST_MAX;
}

static bool is_machine(const struct br_cost_machine *m)
{
    return is_figure(m->overhead) && is_figure(m->beta) && is_figure(m->relayed_overhead) &&
           is_figure(m->relayed_beta);
}

int br_cost_model_check(const struct br_cost_model *model)
{
    bool good = model->n_levels >= 1 && model->n_levels <= BR_COST_LEVELS;

    for (int c = 0; c < BR_COST_CLASSES; c++)
        good = good && is_figure(model->gammas[c]);
    good = good && is_figure(model->gamma) && is_figure(model->copy) && is_figure(model->relay) &&
           model->received >= 0 && model->received <= 1 && is_machine(&model->machine) &&
           is_figure(model->link.alpha) && is_figure(model->link.beta);
    for (uint32_t i = 0; good && i < model->n_levels; i++) {
        const struct br_cost_level *level = &model->levels[i];

        good = is_figure(level->alpha) && is_figure(level->overhead) && is_figure(level->beta) &&
               level->beta > 0 && is_figure(level->one_way) && level->one_way <= level->beta;
    }
    return good ? 0
                : br_error(EINVAL, "a cost model has 1 to %d levels, and figures from 0 to %g",
                           BR_COST_LEVELS, BR_COST_MAX);
}

double br_cost_gamma(const struct br_cost_model *model, enum br_cost_class class)
{
    return model->gammas[class] > 0 ? model->gammas[class] : model->gamma;
}

struct br_cost_level br_cost_message(const struct br_cost_model *model, uint8_t level)
{
    struct br_cost_level all = {0};
    double rate = 0, one_way = 0;

    if (level < model->n_levels)
        return model->levels[level];
    for (uint32_t i = 0; i < model->n_levels; i++) {
        all.alpha = fmax(all.alpha, model->levels[i].alpha);
        all.overhead = fmax(all.overhead, model->levels[i].overhead);
        rate += 1 / model->levels[i].beta;
        one_way += 1 / br_cost_one_way(&model->levels[i]);
    }
    all.beta = 1 / rate;
    all.one_way = 1 / one_way;
    return all;
}

uint32_t br_cost_links(const struct br_topology *topology, uint32_t from, uint32_t to,
                       uint8_t level, double bytes, struct br_hop hops[BR_TOPOLOGY_HOPS])
{
    uint32_t n = br_topology_route(topology, from, to, level, hops), first = n < 1 ? 0 : 1;

    if (bytes > BR_RELAY_PAYLOAD)
        return n;
    while (first < n && hops[first].from != from)
        first++;
    for (uint32_t i = 0; i < first; i++)
        hops[i].share = 1;
    return first;
}

double br_cost_latency(const struct br_cost_model *model, const struct br_hop *hops, uint32_t n,
                       double bytes)
{
    double longest = 0, latency = 0, frame = fmin(bytes, BR_RELAY_PAYLOAD);

    for (uint32_t i = 0; i < n; i++) {
        struct br_cost_level link = br_cost_message(model, hops[i].level);

        latency = hops[i].from == hops[0].from
                      ? 0
                      : latency + model->relay + link.overhead + frame * link.beta;
        latency += link.alpha;
        longest = fmax(longest, latency);
    }
    return longest;
}

/* READY comes over the first of the routes. */
double br_cost_ready(const struct br_cost_model *model, const struct br_hop *hops, uint32_t n,
                     double bytes)
{
    uint32_t first = 1;

    if (!model->eager_bytes || bytes <= (double)model->eager_bytes || n < 1 ||
        (model->topology && br_topology_is_memory(model->topology, hops[0].level)))
        return 0;
    while (first < n && hops[first].from != hops[0].from)
        first++;
    return br_cost_message(model, hops[0].level).overhead + br_cost_latency(model, hops, first, 0);
}

double br_cost_of_ready(const struct br_cost_model *model, const struct br_hop *hop, double bytes)
{
    const struct br_topology *topology = model->topology;

    if (!model->eager_bytes || bytes <= (double)model->eager_bytes ||
        (topology && topology->kind == BR_TOPOLOGY_HOSTS && hop->level == 0))
        return 0;
    return br_cost_of_hop(model, hop, 0);
}

double br_cost_of_hop(const struct br_cost_model *model, const struct br_hop *hop, double bytes)
{
    struct br_cost_level cost = br_cost_message(model, hop->level);

    return (cost.overhead + bytes * cost.beta) * hop->share;
}

double br_cost_of_hop_one_way(const struct br_cost_model *model, const struct br_hop *hop,
                              double bytes, bool receiver)
{
    struct br_cost_level cost = br_cost_message(model, hop->level);
    double overhead = cost.overhead * (receiver ? br_cost_received(model) : 1);

    return (overhead + bytes * br_cost_one_way(&cost)) * hop->share;
}

double br_cost_of_machine(const struct br_cost_model *model, const struct br_hop *hops, uint32_t n,
                          double bytes)
{
    const struct br_cost_machine *m = &model->machine;
    double links = 0;

    for (uint32_t i = 0; i < n; i++)
        links += hops[i].share;
    return n > 1 ? links * (m->relayed_overhead + bytes * m->relayed_beta)
                 : links * (m->overhead + bytes * m->beta);
}

/* The sender of a message carries it through both ends of a socket in memory, its receiver copies
 * it. Measured with 4 ranks on 2 cores, TCP on loopback, broadcasts of 2 MiB: `flat`, where one
 * rank sends all, took 1.3 to 1.9 times as long as `tree`. */
#define SENDERS_PART (2.0 / 3)

double br_cost_of_end(const struct br_topology *topology, bool receiver)
{
    double part = receiver ? 1 - SENDERS_PART : SENDERS_PART;

    return part * topology->cores;
}

const struct br_cost_measured *br_cost_measured_find(const struct br_cost_model *model,
                                                     const struct br_schedule_request *request)
{
    struct br_algorithm_config config = {.algorithm = request->algorithm, .shape = request->shape};

    for (uint32_t i = 0; i < model->n_measured; i++) {
        const struct br_cost_measured *m = &model->measured[i];

        if (m->collective == request->collective && m->ranks == request->n &&
            br_algorithm_config_equal(&m->config, &config))
            return m;
    }
    return NULL;
}

double br_cost_measured_at(const struct br_cost_measured *m, double bytes)
{
    uint32_t i = 1;
    double share;

    if (bytes > m->bytes[m->n_points - 1])
        return 0;
    if (bytes <= m->bytes[0])
        return m->seconds[0];
    while (bytes > m->bytes[i])
        i++;
    share = log(bytes / m->bytes[i - 1]) / log(m->bytes[i] / m->bytes[i - 1]);
    return m->seconds[i - 1] * pow(m->seconds[i] / m->seconds[i - 1], share);
}
