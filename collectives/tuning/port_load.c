/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/tuning/port_load.h"

#include <math.h>
#include <string.h>

void br_port_load_init(struct br_port_load *load, const struct br_cost_model *model,
                       const struct br_topology *t)
{
    memset(load, 0, sizeof *load);
    load->ports = t->n < BR_PORT_LOAD_PORTS ? t->n : BR_PORT_LOAD_PORTS;
    load->levels = model->n_levels;
}

/* Who is asked, and whose ports count. */
struct sample {
    bool whole;        /* every rank is asked: each end of each link counts for its port */
    uint32_t senders;  /* else the first so many */
    double stands_for; /* ranks, each of those that are asked */
    /* The part of a message's time that counts for both directions of a port, at each end that is
     * counted: 1/2, as its other half would go by for a message the other way. Where the sender
     * alone is counted and receives as much, both halves; where each rank is counted as a sender
     * and as a receiver but is only one of the two, half of it. */
    double of_both;
};

/* Of several hosts the first one's ranks are. */
static double port_load_asked(const struct br_topology *t, const struct sample *sample)
{
    uint32_t n = 0;

    for (uint32_t rank = 0; rank < sample->senders; rank++)
        n += sample->whole || t->kind != BR_TOPOLOGY_HOSTS || br_topology_port(t, rank, 0) == 0;
    return n;
}

static struct sample sample_of(const struct br_topology *t, const struct br_exchange *exchange)
{
    struct sample sample = {.whole = t->n <= BR_PORT_LOAD_PORTS &&
                                     (t->kind != BR_TOPOLOGY_FLAT || t->cores),
                            .senders = exchange->ranks,
                            .stands_for = 1,
                            .of_both = 0.5};
    bool one_way = exchange->one_way || exchange->sender != BR_PORT_LOAD_ALL;

    if (!sample.whole && t->kind == BR_TOPOLOGY_FLAT && exchange->sender == BR_PORT_LOAD_ALL)
        sample.senders = 1;
    else if (!sample.whole && t->kind == BR_TOPOLOGY_BCUBE && exchange->ranks > BR_PORT_LOAD_PORTS)
        sample.senders = BR_PORT_LOAD_PORTS;
    if (!one_way && !sample.whole)
        sample.of_both = 1;
    else if (one_way && sample.whole && exchange->sender == BR_PORT_LOAD_ALL)
        sample.of_both = 0.25;
    if (exchange->sender == BR_PORT_LOAD_ALL)
        sample.stands_for = (exchange->active > 0 ? exchange->active : exchange->ranks) /
                            port_load_asked(t, &sample);
    return sample;
}

/* The time of a message is that of all cores together; each of its ends has one core at a time. */
static void port_load_add_ends(struct br_port_load *load, const struct br_topology *t,
                               const struct sample *sample, const struct br_hop *hop, bool reversed,
                               double time)
{
    load->machine += time * sample->stands_for;
    load->out[hop->from % BR_PORT_LOAD_PORTS][0] += time * br_cost_of_end(t, reversed);
    if (sample->whole)
        load->in[hop->to][0] += time * br_cost_of_end(t, !reversed);
}

static void add_hop(struct br_port_load *load, const struct br_cost_model *model,
                    const struct br_topology *t, const struct sample *sample,
                    const struct br_hop *hop, uint32_t sender, bool reversed, double time,
                    double one_way)
{
    uint32_t from = br_topology_port(t, sample->whole ? hop->from : sender, hop->level);
    uint32_t to = br_topology_port(t, hop->to, hop->level);

    if (t->cores) {
        port_load_add_ends(load, t, sample, hop, reversed, time);
        return;
    }
    for (uint32_t l = 0; l < model->n_levels; l++) {
        if (hop->level < model->n_levels && l != hop->level)
            continue;
        if (br_topology_is_memory(t, (uint8_t)l)) {
            load->out[from % BR_PORT_LOAD_PORTS][l] += time;
            continue;
        }
        load->out[from % BR_PORT_LOAD_PORTS][l] += one_way;
        load->both[from % BR_PORT_LOAD_PORTS][l] += time * sample->of_both;
        if (sample->whole) {
            load->in[to][l] += one_way;
            load->both[to][l] += time * sample->of_both;
        }
    }
}

/* Ranks that take turns on few cores: who wakes up for a message takes the others that have come by
 * then along, each for this part of what a message alone costs. Measured with reduce_scatter and
 * allgather of 4 and 8 ranks on 2 cores by `direct` and packed `halving`, TCP on loopback: with 8
 * bytes `direct` took 1.1 and 1.6 times as long. */
#define TAKEN_ALONG (2.0 / 3)

/* Over a socket a byte between two ranks of one core, which stays in its caches, costs this part of
 * one that goes to another core. The figures of the model are those of an exchange of all with all.
 * Measured with 4 and 8 ranks on 2 cores, TCP on loopback: doc/design/cost_model.md, section 3. */
#define BYTE_WITHIN_CORE 0.8

/* What a byte costs as a part of the mean. Neighbouring ranks share a core (base/cpu_affinity.h).
 */
static double core_part(const struct br_topology *t, const struct br_hop *hop)
{
    double within = ((double)t->n / t->cores - 1) / (t->n - 1); /* of all pairs */
    bool same = (uint64_t)hop->from * t->cores / t->n == (uint64_t)hop->to * t->cores / t->n;

    return (same ? BYTE_WITHIN_CORE : 1) / (within * BYTE_WITHIN_CORE + 1 - within);
}

static double time_of(const struct br_cost_model *model, const struct br_topology *t,
                      const struct br_exchange *exchange, const struct br_hop *hop)
{
    double time = br_cost_of_hop(model, hop, exchange->bytes);
    double overheads = br_cost_of_hop(model, hop, 0), ready = 0;

    if (t->cores && exchange->ready)
        ready = br_cost_of_ready(model, hop, exchange->bytes);
    if (exchange->by_core && t->cores && t->kind == BR_TOPOLOGY_FLAT && !t->emulated &&
        !model->in_memory &&
        t->n <= BR_PORT_LOAD_PORTS) /* of more, one rank that stands for all knows its core alone */
        time += (time - overheads) * (core_part(t, hop) - 1);
    time += ready;
    overheads += ready;
    if (t->cores && exchange->together > 1)
        time -= overheads * (1 - TAKEN_ALONG) * (1 - 1 / exchange->together);
    return time;
}

/* By how much a message occupies its receiver for less time than its sender, where the receiver is
 * the end that is counted. */
static double received_sooner(const struct br_cost_model *model, const struct br_topology *t,
                              const struct br_exchange *exchange, const struct br_hop *hop)
{
    if (!exchange->reversed || t->cores)
        return 0;
    return br_cost_message(model, hop->level).overhead * (1 - br_cost_received(model));
}

static double add_message(struct br_port_load *load, const struct br_cost_model *model,
                          const struct br_topology *t, const struct br_exchange *exchange,
                          const struct sample *sample, uint32_t from, uint32_t to, double rounds)
{
    struct br_hop hops[BR_TOPOLOGY_HOPS];
    uint32_t n = br_cost_links(t, from, to, exchange->level, exchange->bytes, hops);

    load->machine += rounds * exchange->messages * sample->stands_for *
                     br_cost_of_machine(model, hops, n, exchange->bytes);
    for (uint32_t h = 0; h < n; h++) {
        double sooner = received_sooner(model, t, exchange, &hops[h]) * hops[h].share;
        double one_way = br_cost_of_hop_one_way(model, &hops[h], exchange->bytes, false);

        add_hop(load, model, t, sample, &hops[h], from, exchange->reversed,
                rounds * exchange->messages * (time_of(model, t, exchange, &hops[h]) - sooner),
                rounds * exchange->messages * (one_way - sooner));
    }
    load->ready = fmax(load->ready, br_cost_ready(model, hops, n, exchange->bytes));
    /* who receives several waits for the sender of one */
    return br_cost_latency(model, hops, n, exchange->bytes) +
           received_sooner(model, t, exchange, &hops[0]);
}

void br_port_load_add(struct br_port_load *load, const struct br_cost_model *model,
                      const struct br_topology *t, const struct br_exchange *exchange,
                      double rounds)
{
    struct sample sample = sample_of(t, exchange);
    uint32_t first = exchange->sender == BR_PORT_LOAD_ALL ? 0 : exchange->sender;
    uint32_t end = exchange->sender == BR_PORT_LOAD_ALL ? sample.senders : first + 1;

    for (uint32_t rank = first; rank < end; rank++) {
        if (!sample.whole && t->kind == BR_TOPOLOGY_HOSTS && end > first + 1 &&
            br_topology_port(t, rank, 0) != 0)
            continue; /* the first host stands for all */
        for (uint32_t i = 0; i < exchange->peers; i++) {
            uint32_t to = exchange->peer(exchange->context, rank, i);

            if (to != rank)
                load->alpha = fmax(load->alpha, rounds * add_message(load, model, t, exchange,
                                                                     &sample, rank, to, rounds));
        }
    }
}

void br_port_load_sum(struct br_port_load *load, const struct br_port_load *other)
{
    for (uint32_t p = 0; p < load->ports; p++)
        for (uint32_t l = 0; l < load->levels; l++) {
            load->out[p][l] += other->out[p][l];
            load->in[p][l] += other->in[p][l];
            load->both[p][l] += other->both[p][l];
        }
    load->machine += other->machine;
}

double br_port_load_busiest(const struct br_port_load *load, uint8_t *level)
{
    double most = 0;

    for (uint32_t p = 0; p < load->ports; p++)
        for (uint32_t l = 0; l < load->levels; l++) {
            double busy = fmax(fmax(load->out[p][l], load->in[p][l]), load->both[p][l]);

            if (busy > most && level)
                *level = (uint8_t)l;
            most = fmax(most, busy);
        }
    if (load->machine > most && level)
        *level = BR_COST_MACHINE_LEVEL;
    return fmax(most, load->machine);
}
