/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of calls, what goes in and what must come out. */
#include "storm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/pattern.h"
#include "collectives/reduce.h"
#include "collectives/type.h"

#define GUARD      64
#define GUARD_BYTE 0xa5

/* Where a rank's part of a call reads and writes. */
struct layout {
    uint8_t *in, *out;
    size_t in_bytes, out_bytes;
};

bool storm_takes_part(const struct storm_plan *plan, int number, int rank)
{
    const struct storm_call *call = &plan->calls[number];

    switch (call->kind) {
    case BR_OPERATION_COLLECTIVE:
        return storm_rank_in(&plan->comms[call->comm], rank) >= 0;
    case BR_OPERATION_PUT:
    case BR_OPERATION_GET:
    case BR_OPERATION_ADD:
        return rank == call->from;
    default:
        return rank == call->from || rank == call->to;
    }
}

static int owner(const struct storm *s, int call)
{
    return s->plan->calls[call].again < 0 ? call : s->plan->calls[call].again;
}

struct storm_part *storm_memory_of(struct storm *s, int call, int rank)
{
    return &s->parts[owner(s, call)][rank];
}

void storm_name_call(const struct storm *s, int call, char *words, size_t bytes)
{
    static const char *const kinds[] = {"", "message", "", "put", "get", "fetch-and-add"};
    const struct storm_call *c = &s->plan->calls[call];

    if (c->kind == BR_OPERATION_COLLECTIVE)
        snprintf(words, bytes, "call %d (%s %s of %zu %s %s, root %d, communicator %d%s%s)", call,
                 c->algorithm, br_collective_name(c->collective), c->count, br_type_name(c->type),
                 br_reduction_name(c->reduction), c->root, c->comm, c->in_place ? ", in place" : "",
                 c->again >= 0 ? ", again" : "");
    else
        snprintf(words, bytes, "call %d (%s of %zu bytes, %d to %d, tag %u, communicator %d%s%s)", call,
                 kinds[c->kind], c->count, c->from, c->to, c->tag, c->comm, c->stale_key ? ", stale key" : "",
                 c->again >= 0 ? ", again" : "");
}

/* ---- fetch-and-add ------------------------------------------------------------------------------- */

static uint64_t addend(const struct storm *s, int call)
{
    return storm_mix(s->plan->seed, (uint64_t)owner(s, call));
}

/* What stands in the region after so many. */
static uint64_t sum(const struct storm *s, int call, uint64_t times)
{
    return GUARD_BYTE * 0x0101010101010101ull + times * addend(s, call);
}

/* ---- numbers ------------------------------------------------------------------------------- */

static void fill(const struct storm *s, int call, int rank, uint8_t *to, size_t bytes)
{
    const struct storm_call *c = &s->plan->calls[call];
    uint64_t salt = storm_mix(s->plan->seed + (uint64_t)call, (uint64_t)rank + 1);
    size_t size = c->kind == BR_OPERATION_COLLECTIVE ? br_type_size(c->type) : 1;
    unsigned range = c->reduction == BRAID_PROD ? 2 : 5;

    for (size_t i = 0; i < bytes / size; i++) {
        uint64_t word = (salt + i) * 0x9e3779b97f4a7c15ull;
        double unit = (double)(word >> 11) / (double)(1ull << 52) - 1;
        float single = (float)unit;

        if (c->kind != BR_OPERATION_COLLECTIVE)
            to[i] = (uint8_t)(word >> 40);
        else if (!c->rough)
            pattern_put(c->type, to + i * size, (int)((word >> 40) % range) + 1);
        else if (c->type == BRAID_FLOAT32)
            memcpy(to + i * size, &single, size);
        else
            memcpy(to + i * size, &unit, size);
    }
}

static bool is_reduction(const struct storm_call *c)
{
    return br_collective_reduces(c->collective);
}

/* Block r of what rank s sends goes to block s of what rank r receives. */
static void transpose(uint8_t *to, const uint8_t *from, size_t block, size_t n)
{
    for (size_t s = 0; s < n; s++)
        for (size_t r = 0; r < n; r++)
            memcpy(to + (r * n + s) * block, from + (s * n + r) * block, block);
}

/* All blocks that come out of a collective, one after the other. */
static const uint8_t *expected(struct storm *s, int call)
{
    const struct storm_call *c = &s->plan->calls[call];
    const struct storm_comm *comm = &s->plan->comms[c->comm];
    uint32_t n = (uint32_t)comm->n;
    size_t block = c->count * br_type_size(c->type);
    size_t bytes = block * br_collective_blocks(c->collective, n, BR_INPUT);
    uint8_t *inputs;
    const void *sources[STORM_RANKS];

    if (s->expected[call])
        return s->expected[call];
    s->expected[call] = malloc(block * n * (c->collective == BR_ALLTOALL ? n : 1) + 1);
    inputs = malloc(bytes * n + 1);
    for (uint32_t r = 0; r < n; r++) {
        fill(s, call, comm->ranks[r], inputs + r * bytes, bytes);
        sources[r] = inputs + r * bytes;
    }
    if (is_reduction(c))
        br_reduce(c->type, c->reduction, s->expected[call], sources, (int)n, bytes / br_type_size(c->type),
                  (int)n);
    else if (c->collective == BR_ALLTOALL)
        transpose(s->expected[call], inputs, block, n);
    else
        memcpy(s->expected[call], br_collective_from_root(c->collective) ? sources[c->root] : inputs,
               br_collective_from_root(c->collective) ? bytes : bytes * n);
    free(inputs);
    return s->expected[call];
}

/* ---- memory -------------------------------------------------------------------------------- */

static struct layout lay_out(struct storm *s, int call, int rank)
{
    const struct storm_call *c = &s->plan->calls[call];
    const struct storm_comm *comm = &s->plan->comms[c->comm];
    struct storm_part *part = storm_memory_of(s, call, rank);
    uint32_t n = (uint32_t)comm->n;
    size_t block = c->count * br_type_size(c->type),
           misaligned = storm_mix(s->plan->seed, (uint64_t)call) % 8;
    struct layout l = {0};

    if (c->kind == BR_OPERATION_COLLECTIVE) {
        l.in_bytes = block * br_collective_blocks(c->collective, n, BR_INPUT);
        l.out_bytes = block * br_collective_blocks(c->collective, n, BR_OUTPUT);
    } else if (c->kind == BR_OPERATION_PUT || (c->kind == BR_OPERATION_SEND && rank == c->from)) {
        l.in_bytes = c->count;
    } else {
        l.out_bytes = c->count;
    }
    if (!part->block) {
        part->bytes = 7 + 3 * GUARD + l.in_bytes + l.out_bytes;
        part->block = malloc(part->bytes);
    }
    l.in = l.out = part->block + misaligned + GUARD;
    if (!c->in_place)
        l.out += l.in_bytes + GUARD;
    else if (l.in_bytes < l.out_bytes)
        l.in += (size_t)storm_rank_in(comm, rank) * block;
    else if (l.out_bytes < l.in_bytes)
        l.out += (size_t)storm_rank_in(comm, rank) * block;
    return l;
}

void storm_prepare(struct storm *s, int call, int rank)
{
    const struct storm_call *c = &s->plan->calls[call];
    struct storm_part *part = storm_memory_of(s, call, rank);
    const struct storm_comm *comm = &s->plan->comms[c->comm];
    bool receives = c->kind == BR_OPERATION_SEND && rank == c->to,
         is_root = storm_rank_in(comm, rank) == c->root;
    struct layout l = lay_out(s, call, rank);

    memset(part->block, GUARD_BYTE, part->bytes);
    fill(s, call, rank, l.in, l.in_bytes);
    part->put_overwritten = false;
    part->op = (struct br_operation){
        .kind = receives ? BR_OPERATION_RECV : c->kind,
        .collective = c->collective,
        .send = l.in,
        .recv = l.out,
        .count = c->count,
        .type = c->type,
        .reduction = c->reduction,
        .root = c->root,
        .peer = storm_rank_in(comm, receives ? c->from : c->to),
        .group = c->comm ? &s->ranks[rank].groups[c->comm] : NULL,
        .priority = c->priority,
        .tag = c->tag,
        .key = {.rank = (uint32_t)c->to, .id = c->stale_key ? 2 : 1, .check = 77},
        .offset = c->offset,
        .operands = {.value = addend(s, call)},
        .timeout = c->timeout,
    };
    memcpy(part->op.algorithm, c->algorithm, sizeof part->op.algorithm);
    if (!c->in_place && br_collective_from_root(c->collective) && !is_root)
        part->op.send = NULL;
    if (!c->in_place && br_collective_to_root(c->collective) && !is_root)
        part->op.recv = NULL;
}

void storm_fill_region(struct storm *s, int rank)
{
    struct storm_rank *r = &s->ranks[rank];

    r->region = (struct br_region){
        .base = malloc(s->plan->region_bytes), .bytes = s->plan->region_bytes, .segment_fd = -1, .id = 1};
    memset(r->region.base, GUARD_BYTE, r->region.bytes);
    for (int i = 0; i < s->plan->n_calls; i++) {
        const struct storm_call *c = &s->plan->calls[i];

        if (c->kind == BR_OPERATION_GET && c->to == rank && c->again < 0)
            fill(s, i, rank, (uint8_t *)r->region.base + c->offset, c->count);
    }
}

/* ---- looking ------------------------------------------------------------------------------- */

static bool all_bytes(const uint8_t *at, size_t bytes, uint8_t value)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != value)
            return false;
    return true;
}

/* Rough numbers: near enough, and the same bits as what the other ranks got where all get the same. */
static bool rough_right(struct storm *s, int call, const uint8_t *got, const uint8_t *wanted, size_t bytes)
{
    const struct storm_call *c = &s->plan->calls[call];
    size_t size = br_type_size(c->type);

    for (size_t i = 0; i < bytes / size; i++) {
        float a32, b32;
        double a, b;

        if (c->type == BRAID_FLOAT32) {
            memcpy(&a32, got + i * size, size);
            memcpy(&b32, wanted + i * size, size);
            a = (double)a32;
            b = (double)b32;
        } else {
            memcpy(&a, got + i * size, size);
            memcpy(&b, wanted + i * size, size);
        }
        if (!(fabs(a - b) < (c->type == BRAID_FLOAT32 ? 1e-4 : 1e-12)))
            return false;
    }
    if (c->collective != BR_ALLREDUCE)
        return true;
    if (!s->first[call]) {
        s->first[call] = malloc(bytes + 1);
        memcpy(s->first[call], got, bytes);
    }
    return memcmp(s->first[call], got, bytes) == 0;
}

static bool collective_right(struct storm *s, int call, int rank, const struct layout *l)
{
    const struct storm_call *c = &s->plan->calls[call];
    const uint8_t *wanted = expected(s, call);
    int own = storm_rank_in(&s->plan->comms[c->comm], rank);

    if (br_collective_to_root(c->collective) && own != c->root)
        return true;
    if (c->collective == BR_REDUCE_SCATTER || c->collective == BR_SCATTER || c->collective == BR_ALLTOALL)
        wanted += (size_t)own * l->out_bytes;
    if (c->rough && is_reduction(c))
        return rough_right(s, call, l->out, wanted, l->out_bytes);
    return memcmp(l->out, wanted, l->out_bytes) == 0;
}

/* The same bytes went in at `rank` as came out at `at`. */
static bool bytes_right(const struct storm *s, int call, int rank, const uint8_t *at, size_t bytes)
{
    uint8_t *wanted = malloc(bytes + 1);
    bool right;

    fill(s, call, rank, wanted, bytes);
    right = memcmp(wanted, at, bytes) == 0;
    free(wanted);
    return right;
}

static bool result_right(struct storm *s, int call, int rank, const struct layout *l)
{
    const struct storm_call *c = &s->plan->calls[call];
    struct storm_part *part = storm_memory_of(s, call, rank);
    uint8_t *there = (uint8_t *)s->ranks[c->to].region.base + c->offset;

    switch (part->op.kind) {
    case BR_OPERATION_COLLECTIVE:
        return collective_right(s, call, rank, l);
    case BR_OPERATION_RECV:
        return bytes_right(s, call, c->from, l->out, l->out_bytes);
    case BR_OPERATION_GET:
        return bytes_right(s, owner(s, call), c->to, l->out, l->out_bytes);
    case BR_OPERATION_PUT:
        if (memcmp(there, l->in, l->in_bytes) != 0)
            return false;
        memset(there, (uint8_t)~GUARD_BYTE, c->count);
        part->put_overwritten = true;
        return true;
    case BR_OPERATION_ADD:
        return !memcmp(&(uint64_t){sum(s, call, part->added++)}, l->out, sizeof(uint64_t));
    default:
        return true;
    }
}

static bool guards_right(struct storm *s, int call, int rank, const struct layout *l)
{
    const struct storm_call *c = &s->plan->calls[call];
    const struct storm_part *part = storm_memory_of(s, call, rank);
    const uint8_t *begin = l->in < l->out ? l->in : l->out, *end = part->block + part->bytes;
    size_t most = l->in_bytes > l->out_bytes ? l->in_bytes : l->out_bytes;

    if (c->in_place) {
        const uint8_t *whole = l->in_bytes > l->out_bytes ? l->in : l->out;

        return all_bytes(part->block, (size_t)(whole - part->block), GUARD_BYTE) &&
               all_bytes(whole + most, (size_t)(end - whole) - most, GUARD_BYTE);
    }
    return all_bytes(part->block, (size_t)(begin - part->block), GUARD_BYTE) &&
           all_bytes(l->in + l->in_bytes, GUARD, GUARD_BYTE) &&
           all_bytes(l->out + l->out_bytes, (size_t)(end - l->out) - l->out_bytes, GUARD_BYTE) &&
           bytes_right(s, call, rank, l->in, l->in_bytes);
}

void storm_look(struct storm *s, int call, int rank)
{
    struct storm_part *part = storm_memory_of(s, call, rank);
    struct layout l = lay_out(s, call, rank);
    char name[160];

    storm_name_call(s, call, name, sizeof name);
    if (!guards_right(s, call, rank, &l))
        storm_wrong(s, "rank %d, %s: bytes around its buffers, or what it only reads, have changed", rank,
                    name);
    else if (!part->op.status && !result_right(s, call, rank, &l))
        storm_wrong(s, "rank %d, %s: wrong result", rank, name);
    part->overwritten = (uint8_t)(0x40 + call);
    memset(part->block, part->overwritten, part->bytes);
}

/* False: one has failed, or its rank has died, and it may count or not. */
static bool all_added(const struct storm *s, int call, int rank)
{
    for (int c = call; c < s->plan->n_calls; c++)
        if (owner(s, c) == call && (s->parts[c][rank].state != STORM_ENDED || s->parts[call][rank].op.status))
            return false;
    return true;
}

static void look_at_region(struct storm *s, int call, int rank)
{
    const struct storm_call *c = &s->plan->calls[call];
    const uint8_t *base = s->ranks[c->to].region.base;

    if (s->parts[call][rank].put_overwritten && !all_bytes(base + c->offset, c->count, (uint8_t)~GUARD_BYTE))
        storm_wrong(s, "call %d: rank %d's region was written after the put had ended", call, c->to);
    if (c->kind == BR_OPERATION_ADD && c->again < 0) {
        const struct storm_part *part = &s->parts[call][rank];
        uint64_t there;

        memcpy(&there, base + c->offset, sizeof there);
        if (there != sum(s, call, part->added) &&
            (all_added(s, call, rank) || there != sum(s, call, part->added + 1)))
            storm_wrong(s, "call %d: rank %d's number is not the sum of %llu", call, c->to,
                        (unsigned long long)part->added);
    }
    if (c->again < 0 && !all_bytes(base + c->offset - GUARD, GUARD, GUARD_BYTE))
        storm_wrong(s, "call %d: bytes before its place in rank %d's region have changed", call, c->to);
}

void storm_look_again(struct storm *s)
{
    for (int c = 0; c < s->plan->n_calls; c++)
        for (int r = 0; r < s->plan->n; r++) {
            const struct storm_part *part = &s->parts[c][r];

            if (part->block && part->state == STORM_ENDED &&
                !all_bytes(part->block, part->bytes, part->overwritten))
                storm_wrong(s, "rank %d, call %d: its memory was written after it had ended", r, c);
            if (part->block && s->plan->calls[c].kind >= BR_OPERATION_PUT)
                look_at_region(s, c, r);
        }
}
