/* SPDX-License-Identifier: BSD-3-Clause */
#include "flow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/error.h"

/* ---- what is sent ---------------------------------------------------------------------------- */

/* Bytes of message i from one rank to another, or elements of collective i: most are small. */
static uint32_t size_of(const struct flow *f, const struct stream *s, int from, int to, int i)
{
    uint64_t x = flow_mix(f->seed + s->group, (uint64_t)(from * RANKS + to), (uint64_t)i);

    if (s->kind == COLLECTIVES)
        return x % 10 ? 1 + (uint32_t)(x % 8) : 1 + (uint32_t)(x % (3 * f->eager));
    return x % 12 ? (uint32_t)(x % (f->eager + 1)) : f->eager + 1 + (uint32_t)(x % 5000);
}

void flow_fill(uint8_t *memory, uint32_t bytes, uint64_t seed)
{
    for (uint32_t k = 0; k < bytes; k++)
        memory[k] = (uint8_t)(seed + k * 7);
}

static bool is_filled(const uint8_t *memory, uint32_t bytes, uint64_t seed)
{
    for (uint32_t k = 0; k < bytes; k++)
        if (memory[k] != (uint8_t)(seed + k * 7))
            return false;
    return true;
}

static uint64_t fill_of(const struct stream *s, int from, int to, uint32_t tag)
{
    return flow_mix(s->group, (uint64_t)(from * RANKS + to), tag);
}

static enum br_collective collective_of(const struct flow *f, const struct stream *s, int i)
{
    static const enum br_collective kinds[] = {BR_ALLREDUCE, BR_BROADCAST, BR_REDUCE};

    return kinds[flow_mix(f->seed, s->group, (uint64_t)i) % 3];
}

static int root_of(const struct flow *f, const struct stream *s, int i)
{
    return (int)(flow_mix(f->seed + 1, s->group, (uint64_t)i) % (uint64_t)f->n);
}

static int32_t value_of(int rank, int i)
{
    return rank * 1000 + i;
}

/* ---- operations ------------------------------------------------------------------------------ */

static void prepare_collective(struct flow *f, struct actor *a, int i)
{
    uint32_t count = size_of(f, a->stream, 0, 0, i);
    int32_t *memory = malloc(2 * count * sizeof *memory);

    a->memory[i] = (uint8_t *)memory;
    for (uint32_t k = 0; k < 2 * count; k++)
        memory[k] = k < count ? value_of(a->rank, i) : -1;
    a->ops[i] = (struct br_operation){.kind = BR_OPERATION_COLLECTIVE,
                                      .collective = collective_of(f, a->stream, i),
                                      .send = memory,
                                      .recv = memory + count,
                                      .count = count,
                                      .type = BRAID_INT32,
                                      .reduction = BRAID_SUM,
                                      .root = root_of(f, a->stream, i)};
    if (a->ops[i].collective == BR_BROADCAST && a->rank != a->ops[i].root)
        a->ops[i].send = NULL;
    if (a->ops[i].collective == BR_REDUCE && a->rank != a->ops[i].root)
        a->ops[i].recv = NULL;
}

static void prepare_message(struct flow *f, struct actor *a, int i)
{
    uint32_t tag = (uint32_t)a->order[i], bytes;

    if (a->stream->kind == ANY && !a->sends) {
        bytes = f->eager + 6000;
        a->memory[i] = malloc(bytes);
        a->ops[i] = (struct br_operation){.kind = BR_OPERATION_RECV,
                                          .peer = BRAID_ANY_SOURCE,
                                          .recv = a->memory[i],
                                          .count = bytes,
                                          .tag_ignore = UINT32_MAX,
                                          .learns = true,
                                          .received = &a->received[i]};
        return;
    }
    bytes = a->sends ? size_of(f, a->stream, a->rank, a->peer, (int)tag)
                     : size_of(f, a->stream, a->peer, a->rank, (int)tag);
    a->memory[i] = malloc(bytes + 1u);
    if (a->sends)
        flow_fill(a->memory[i], bytes, fill_of(a->stream, a->rank, a->peer, tag));
    a->ops[i] = (struct br_operation){.kind = a->sends ? BR_OPERATION_SEND : BR_OPERATION_RECV,
                                      .peer = a->peer,
                                      .send = a->sends ? a->memory[i] : NULL,
                                      .recv = a->sends ? NULL : a->memory[i],
                                      .count = bytes,
                                      .tag = tag};
}

static void prepare_access(struct flow *f, struct actor *a, int i)
{
    bool adds = i % 2;
    uint32_t bytes = adds ? 8 : 1 + (uint32_t)br_random_below(&f->random, REGION - 8);

    a->memory[i] = malloc(bytes);
    a->ops[i] = (struct br_operation){.kind = adds ? BR_OPERATION_ADD : BR_OPERATION_GET,
                                      .recv = a->memory[i],
                                      .count = bytes,
                                      .key = {.rank = (uint32_t)a->peer, .id = 1, .check = 77},
                                      .offset = adds ? REGION - 8 : 0,
                                      .operands = {.value = 1}};
}

void flow_submit(struct flow *f, struct actor *a)
{
    int i = a->next++, which = (int)(a->stream - f->streams);
    uint64_t now = br_sim_host_now(f->job.sim, a->rank);
    struct br_operation *op = &a->ops[i];

    if (a->stream->kind == COLLECTIVES)
        prepare_collective(f, a, i);
    else if (a->stream->kind == ACCESSES)
        prepare_access(f, a, i);
    else
        prepare_message(f, a, i);
    op->group = a->stream->kind == ACCESSES ? NULL : &f->groups[which][a->rank];
    op->priority = (int32_t)(flow_mix(f->seed + 2, a->stream->group, (uint64_t)i) % 3);
    op->timeout = LIMIT;
    op->deadline = now + LIMIT;
    op->order = f->next_order[a->rank]++;
    op->state = UNDER_WAY;
    if (a->stream->kind == COLLECTIVES)
        op->sequence = f->next_sequence[which][a->rank]++;
    if (br_engine_submit(f->job.ranks[a->rank].engine, op, now))
        fail_msg("seed %llu: %s", (unsigned long long)f->seed, br_error_message());
    f->operations++;
}

static bool collective_right(const struct flow *f, const struct actor *a, int i)
{
    const struct br_operation *op = &a->ops[i];
    const int32_t *recv = op->recv;
    int32_t sum = 0;

    for (int r = 0; r < f->n; r++)
        sum += value_of(r, i);
    if (op->collective == BR_BROADCAST)
        sum = value_of(op->root, i);
    for (size_t k = 0; recv && k < op->count; k++)
        if (recv[k] != sum && (op->collective != BR_BROADCAST || a->rank != op->root))
            return false;
    return true;
}

bool flow_right(const struct flow *f, const struct actor *a, int i)
{
    const struct braid_received *r = &a->received[i];

    if (a->stream->kind == COLLECTIVES)
        return collective_right(f, a, i);
    if (a->stream->kind == ACCESSES)
        return i % 2 || is_filled(a->memory[i], (uint32_t)a->ops[i].count, (uint64_t)a->peer);
    if (a->sends)
        return true;
    if (a->stream->kind == ANY)
        return r->bytes == size_of(f, a->stream, r->peer, a->rank, (int)r->tag) &&
               is_filled(a->memory[i], (uint32_t)r->bytes,
                         fill_of(a->stream, r->peer, a->rank, r->tag));
    return is_filled(a->memory[i], (uint32_t)a->ops[i].count,
                     fill_of(a->stream, a->peer, a->rank, a->ops[i].tag));
}
