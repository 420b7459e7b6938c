/* SPDX-License-Identifier: BSD-3-Clause */
/* The network as a whole: hosts, switches, cables, the time with its events, and the trace. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "transport/sim/internal.h"

static void set_defaults(struct br_sim_config *config)
{
#define DEFAULT(field, value)                                                                      \
    if (!config->field)                                                                            \
    config->field = value
    DEFAULT(max_frame, 256u << 10);
    DEFAULT(max_message, BR_FRAME_MAX_PAYLOAD);
    DEFAULT(tx_depth, 64);
    DEFAULT(bits_per_second, 10000000000ull);
    DEFAULT(latency_ns, 2 * BR_US);
    DEFAULT(forward_bytes, 4096);
    DEFAULT(reorder_ns, 100 * BR_US);
    DEFAULT(retransmit_ns, 4 * BR_MS);
    DEFAULT(retry_limit, 7);
#undef DEFAULT
}

struct br_sim *br_sim_create(const struct br_sim_config *config)
{
    struct br_sim *sim = calloc(1, sizeof *sim);

    if (!sim)
        return NULL;
    sim->config = *config;
    set_defaults(&sim->config);
    br_random_seed(&sim->random, config->seed);
    br_list_init(&sim->ready);
    br_list_init(&sim->connections);
    br_list_init(&sim->free_frames);
    br_list_init(&sim->free_notes);
    sim->now = BR_SEC; /* so that 0 is a moment long past on every host's clock */
    return sim;
}

void br_sim_destroy(struct br_sim *sim)
{
    struct br_sim_step step;

    if (!sim)
        return;
    while (br_sim_heap_pop(&sim->heap, &step))
        if (step.kind != BR_SIM_FAULT)
            br_sim_frame_drop(step.frame);
    br_list_for_each_safe (node, &sim->free_frames)
        free(br_container_of(node, struct br_sim_frame, node));
    br_list_for_each_safe (node, &sim->free_notes)
        free(br_container_of(node, struct br_sim_note, node));
    for (uint32_t i = 0; i < sim->n_hosts; i++) {
        free(sim->hosts[i]->ports);
        free(sim->hosts[i]);
    }
    for (uint32_t i = 0; i < sim->n_switches; i++)
        free(sim->switches[i]);
    free(sim->hosts);
    free(sim->switches);
    free(sim->paths);
    free(sim->faults);
    free(sim->heap.memory);
    free(sim->heap.steps);
    free(sim);
}

static void start_clock(struct br_sim *sim, struct br_sim_host *host)
{
    uint64_t offset = sim->config.clock_offset_ns, drift = sim->config.clock_drift_ppm * 1000ull;

    if (offset)
        host->clock_offset = (int64_t)br_random_below(&sim->random, offset + 1);
    if (drift)
        host->drift_ppb = (int64_t)br_random_below(&sim->random, 2 * drift + 1) - (int64_t)drift;
}

/* Returns the number of the new host, or -ENOMEM with a message. */
static int sim_add_host(struct br_sim *sim, int n_ports)
{
    struct br_sim_host **hosts =
        realloc(sim->hosts, (sim->n_hosts + 1) * sizeof(struct br_sim_host *));
    struct br_sim_host *host = calloc(1, sizeof *host);

    if (hosts)
        sim->hosts = hosts;
    if (host)
        host->ports = calloc((size_t)n_ports, sizeof *host->ports);
    if (!hosts || !host || !host->ports) {
        free(host);
        return br_error(ENOMEM, "no memory for a simulated host");
    }
    host->sim = sim;
    host->number = (int)sim->n_hosts;
    host->n_ports = n_ports;
    br_list_init(&host->ready);
    for (int i = 0; i < n_ports; i++) {
        struct br_sim_port *port = &host->ports[i];

        port->host = host;
        port->bits_per_second = sim->config.bits_per_second;
        port->latency = sim->config.latency_ns;
        snprintf(port->name, sizeof port->name, "sim%d", i);
        br_list_init(&port->devices);
    }
    start_clock(sim, host);
    sim->hosts[sim->n_hosts++] = host;
    return host->number;
}

/* Returns the number of the new switch, or -ENOMEM with a message. */
static int sim_add_switch(struct br_sim *sim)
{
    struct br_sim_switch **switches =
        realloc(sim->switches, (sim->n_switches + 1) * sizeof(struct br_sim_switch *));
    struct br_sim_switch *switch_ = calloc(1, sizeof *switch_);

    if (switches)
        sim->switches = switches;
    if (!switches || !switch_) {
        free(switch_);
        return br_error(ENOMEM, "no memory for a simulated switch");
    }
    switches[sim->n_switches] = switch_;
    return (int)sim->n_switches++;
}

void br_sim_attach(struct br_sim *sim, int host, int port, int switch_, uint64_t bits_per_second,
                   uint64_t latency_ns)
{
    struct br_sim_port *at = &sim->hosts[host]->ports[port];

    at->switch_ = sim->switches[switch_];
    if (bits_per_second)
        at->bits_per_second = bits_per_second;
    if (latency_ns)
        at->latency = latency_ns;
}

int br_sim_add_rails(struct br_sim *sim, int hosts, int rails)
{
    int first = (int)sim->n_switches;

    for (int r = 0; r < rails; r++)
        if (sim_add_switch(sim) < 0)
            return -ENOMEM;
    for (int h = 0; h < hosts; h++) {
        int host = sim_add_host(sim, rails);

        if (host < 0)
            return host;
        for (int r = 0; r < rails; r++)
            br_sim_attach(sim, host, r, first + r, 0, 0);
    }
    return 0;
}

int br_sim_bcube_switch(const struct br_bcube *cube, uint32_t level, uint32_t index)
{
    return (int)(level * br_bcube_power(cube, cube->k - 1) + index);
}

int br_sim_add_bcube(struct br_sim *sim, const struct br_bcube *cube)
{
    for (uint32_t i = 0; i < cube->k * br_bcube_power(cube, cube->k - 1); i++)
        if (sim_add_switch(sim) < 0)
            return -ENOMEM;
    for (uint32_t h = 0; h < cube->hosts; h++) {
        int host = sim_add_host(sim, (int)cube->k);

        if (host < 0)
            return host;
        for (uint32_t level = 0; level < cube->k; level++)
            br_sim_attach(sim, host, (int)level,
                          br_sim_bcube_switch(cube, level, br_bcube_switch(cube, h, level)), 0, 0);
    }
    return 0;
}

int br_sim_hosts(const struct br_sim *sim)
{
    return (int)sim->n_hosts;
}

void br_sim_device_config(struct br_sim *sim, int host, int port, struct br_device_config *config)
{
    config->simulation = sim->hosts[host];
    config->name = sim->hosts[host]->ports[port].name;
    config->level = port;
}

uint64_t br_sim_now(const struct br_sim *sim)
{
    return sim->now;
}

static int64_t sim_network_drift(int64_t time, int64_t ppb)
{
    return (int64_t)((__int128)time * ppb / 1000000000);
}

uint64_t br_sim_host_now(const struct br_sim *sim, int host)
{
    int64_t now = (int64_t)sim->now;

    return (uint64_t)(now + sim->hosts[host]->clock_offset +
                      sim_network_drift(now, sim->hosts[host]->drift_ppb));
}

uint64_t br_sim_time_of(const struct br_sim *sim, int host, uint64_t host_time)
{
    const struct br_sim_host *at = sim->hosts[host];
    int64_t scale = 1000000000 + at->drift_ppb, since;

    if (host_time >= INT64_MAX)
        return BR_SIM_NEVER;
    since = (int64_t)host_time - at->clock_offset;
    /* Rounded up, and the clock rounds down: at that time the host sees at least host_time. */
    return since <= 0 ? 0 : (uint64_t)(((__int128)since * 1000000000 + scale - 1) / scale + 1);
}

uint64_t br_sim_next(const struct br_sim *sim)
{
    const struct br_sim_heap *heap = &sim->heap;

    if (heap->front_count)
        return heap->front[heap->front_head % BR_SIM_FRONT].step.at;
    return heap->count ? heap->keys[0].at : BR_SIM_NEVER;
}

int br_sim_take_ready(struct br_sim *sim)
{
    struct br_list *node = br_list_pop_front(&sim->ready);

    return node ? br_container_of(node, struct br_sim_host, ready)->number : -1;
}

bool br_sim_host_dead(const struct br_sim *sim, int host)
{
    return sim->hosts[host]->dead;
}

const struct br_sim_counters *br_sim_counters(const struct br_sim *sim)
{
    return &sim->counters;
}

bool br_sim_advance_to(struct br_sim *sim, uint64_t time)
{
    struct br_sim_step step;

    if (time == BR_SIM_NEVER)
        time = br_sim_next(sim);
    if (time == BR_SIM_NEVER)
        return false;
    while (br_sim_next(sim) <= time && br_sim_heap_pop(&sim->heap, &step)) {
        br_sim_heap_fetch(sim);
        if (step.at > sim->now)
            sim->now = step.at;
        br_sim_run_step(sim, &step);
    }
    if (time > sim->now)
        sim->now = time;
    return true;
}

bool br_sim_advance(struct br_sim *sim)
{
    return br_sim_advance_to(sim, br_sim_next(sim));
}

/* ---- the trace: a hash over all that happened, and on request a line for each fact ----------- */

static inline uint64_t sim_trace_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9fb21c651e98df25ull;
    return hash ^ hash >> 29;
}

void br_sim_trace_bytes(struct br_sim *sim, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    uint64_t word, hash = sim_trace_mix(sim->hash, n);

    for (; n >= sizeof word; n -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = sim_trace_mix(hash, word);
    }
    word = 0;
    if (n)
        memcpy(&word, at, n);
    sim->hash = sim_trace_mix(hash, word);
}

static void fact_hash(struct br_sim *sim, const char *fact)
{
    sim->hash = sim_trace_mix(sim->hash, sim->now);
    for (; *fact; fact++)
        sim->hash = sim_trace_mix(sim->hash, (uint8_t)*fact);
}

void br_sim_trace(struct br_sim *sim, const char *fact, const struct br_sim_frame *frame)
{
    static const char *const kinds[] = {"data", "connect", "close"};
    const struct br_sim_connection *connection = frame->connection;
    const struct br_frame_header *header = &frame->header;

    fact_hash(sim, fact);
    sim->hash = sim_trace_mix(sim->hash, (uint64_t)connection->number << 32 |
                                             (uint64_t)frame->kind << 8 | frame->from);
    sim->hash = sim_trace_mix(sim->hash, frame->sequence);
    if (sim->config.trace)
        fprintf(sim->config.trace,
                "%" PRIu64 " %s link %u host %d -> %d %s %" PRIu64 " kind %u slot %#x [%u, +%u)\n",
                sim->now, fact, connection->number, connection->port[frame->from]->host->number,
                connection->port[!frame->from]->host->number, kinds[frame->kind], frame->sequence,
                header->kind, header->slot, header->offset, header->length);
}

void br_sim_trace_number(struct br_sim *sim, const char *fact, uint64_t number)
{
    fact_hash(sim, fact);
    sim->hash = sim_trace_mix(sim->hash, number);
    if (sim->config.trace)
        fprintf(sim->config.trace, "%" PRIu64 " %s %" PRIu64 "\n", sim->now, fact, number);
}

uint64_t br_sim_trace_hash(const struct br_sim *sim)
{
    return sim->hash;
}
