/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule/schedule.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "protocol/message.h"

#define MOST_FRAGMENTS 65536u /* 16 bits in the tag */
#define DEPTH          4u /* fragments that are enough to keep network and memory busy at once */

static const char *const names[BR_COLLECTIVES] = {
    "allreduce", "reduce_scatter", "allgather", "broadcast", "reduce", "barrier",
    "alltoall",  "gather",         "scatter",   "scan",      "exscan"};

const char *br_collective_name(enum br_collective collective)
{
    return (unsigned)collective < BR_COLLECTIVES ? names[collective] : "?";
}

const char *br_collective_uneven_name(enum br_collective collective)
{
    switch (collective) {
    case BR_REDUCE_SCATTER:
        return "reduce_scatterv";
    case BR_ALLGATHER:
        return "allgatherv";
    case BR_ALLTOALL:
        return "alltoallv";
    case BR_GATHER:
        return "gatherv";
    case BR_SCATTER:
        return "scatterv";
    default:
        return NULL;
    }
}

int br_collective_find(const char *name, enum br_collective *collective)
{
    for (unsigned i = 0; i < BR_COLLECTIVES; i++) {
        if (strcmp(name, names[i]) == 0) {
            *collective = (enum br_collective)i;
            return 0;
        }
    }
    return br_error(EINVAL,
                    "no collective is called '%s'; there are allreduce, reduce_scatter, allgather, "
                    "broadcast, reduce, barrier, alltoall, gather, scatter, scan, exscan",
                    name);
}

struct br_span br_span_alias(const struct br_schedule *schedule, struct br_span span)
{
    uint32_t own = schedule->rank * schedule->pieces; /* first chunk of the rank's own block */

    if (!schedule->in_place || span.buffer != BR_INPUT)
        return span;
    if (schedule->rank != schedule->root &&
        (br_collective_to_root(schedule->collective) || schedule->collective == BR_SCATTER))
        return span;
    switch (schedule->collective) {
    case BR_ALLREDUCE:
    case BR_BROADCAST:
    case BR_REDUCE:
    case BR_ALLTOALL:
    case BR_SCAN:
    case BR_EXSCAN:
        span.buffer = BR_OUTPUT;
        break;
    case BR_ALLGATHER:
    case BR_GATHER:
        span.buffer = BR_OUTPUT;
        span.first += own;
        break;
    case BR_REDUCE_SCATTER:
    case BR_SCATTER:
        if (span.first >= own && span.first - own + span.count <= schedule->pieces) {
            span.buffer = BR_OUTPUT;
            span.first -= own;
        }
        break;
    case BR_BARRIER:
    case BR_COLLECTIVES:
        break;
    }
    return span;
}

const char *br_span_fault(const struct br_schedule *schedule, struct br_span span, bool write)
{
    uint64_t chunks = schedule->n_scratch;

    if (span.buffer != BR_SCRATCH)
        chunks = (uint64_t)br_collective_blocks(schedule->collective, schedule->n, span.buffer) *
                 schedule->pieces;
    if (span.buffer >= BR_BUFFERS || span.count == 0 || (uint64_t)span.first + span.count > chunks)
        return "a span lies outside its buffer";
    if (span.buffer != BR_SCRATCH && !schedule->uncut &&
        span.first % schedule->pieces + span.count > schedule->pieces)
        return "a span crosses blocks";
    if (write && span.buffer == BR_INPUT)
        return "INPUT is not for writing";
    if (write && span.buffer == BR_OUTPUT &&
        !br_collective_writes(schedule->collective, schedule->rank, schedule->root))
        return "this rank has no OUTPUT";
    return NULL;
}

bool br_span_overlap(struct br_span a, struct br_span b)
{
    return a.buffer == b.buffer && a.first < b.first + b.count && b.first < a.first + a.count;
}

void br_schedule_free(struct br_schedule *schedule)
{
    free(schedule);
}

static size_t divide_up(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

uint32_t br_fragment_count(size_t elements, size_t element_bytes, uint32_t pieces,
                           size_t chunk_bytes, bool serial)
{
    size_t most = BR_MAX_TRANSFER / element_bytes; /* elements of a block of a fragment */
    size_t least_count = divide_up(elements, most), bytes = elements * element_bytes;
    size_t count = divide_up(bytes, chunk_bytes * pieces);

    if (least_count > MOST_FRAGMENTS)
        return 0;
    if (count < DEPTH && !serial)
        count = bytes / pieces / BR_CHUNK_MIN_BYTES < DEPTH ? bytes / pieces / BR_CHUNK_MIN_BYTES
                                                            : DEPTH;
    if (count > MOST_FRAGMENTS)
        count = MOST_FRAGMENTS;
    if (count < least_count)
        count = least_count;
    return count ? (uint32_t)count : 1;
}
