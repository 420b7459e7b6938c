/* SPDX-License-Identifier: BSD-3-Clause */
/* The trace: a hash over all that happened, and on wish a line of text for each fact. */
#include <inttypes.h>
#include <string.h>

#include "transport/sim/internal.h"

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
