/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of calls, what goes in and what must come out. */
#include "storm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/schedule/type.h"
#include "tests/collectives/case.h"

#define GUARD      CASE_GUARD
#define GUARD_BYTE 0xa5

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

void storm_name_call(const struct storm *s, int call, char *text, size_t bytes)
{
    static const char *const kinds[] = {"", "message", "", "put", "get", "fetch-and-add"};
    const struct storm_call *c = &s->plan->calls[call];

    if (c->kind == BR_OPERATION_COLLECTIVE)
        snprintf(text, bytes, "call %d (%s %s of %zu %s %s, root %d, communicator %d%s%s)", call,
                 c->algorithm,
                 c->uneven ? br_collective_uneven_name(c->collective)
                           : br_collective_name(c->collective),
                 c->count, br_type_name(c->type), br_reduction_name(c->reduction), c->root, c->comm,
                 c->in_place ? ", in place" : "", c->again >= 0 ? ", again" : "");
    else
        snprintf(text, bytes, "call %d (%s of %zu bytes, %d to %d, tag %u, communicator %d%s%s)",
                 call, kinds[c->kind], c->count, c->from, c->to, c->tag, c->comm,
                 c->stale_key ? ", stale key" : "", c->again >= 0 ? ", again" : "");
}

/* ---- fetch-and-add --------------------------------------------------------------------------- */

static uint64_t addend(const struct storm *s, int call)
{
    return storm_mix(s->plan->seed, (uint64_t)owner(s, call));
}

/* What stands in the region after so many. */
static uint64_t sum(const struct storm *s, int call, uint64_t times)
{
    return GUARD_BYTE * 0x0101010101010101ull + times * addend(s, call);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static struct collective_case case_of(const struct storm *s, int call)
{
    const struct storm_call *c = &s->plan->calls[call];

    return (struct collective_case){
        .collective = c->collective,
        .data = {.seed = storm_mix(s->plan->seed, (uint64_t)call),
                 .type = c->type,
                 .reduction = c->reduction},
        .count = c->count,
        .root = c->root,
        .in_place = c->in_place,
        .uneven = c->uneven,
    };
}

/* The bytes that a rank sends, puts or lets others get. */
static void fill(const struct storm *s, int call, int rank, uint8_t *to, size_t bytes)
{
    uint64_t salt = storm_mix(s->plan->seed + (uint64_t)call, (uint64_t)rank + 1);

    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)((salt + i) * 0x9e3779b97f4a7c15ull >> 40);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Where a rank's part of a call reads and writes. */
static struct case_buffers lay_out(struct storm *s, int call, int rank)
{
    const struct storm_call *c = &s->plan->calls[call];
    const struct storm_comm *comm = &s->plan->comms[c->comm];
    struct storm_part *part = storm_memory_of(s, call, rank);
    size_t misaligned = storm_mix(s->plan->seed, (uint64_t)call) % 8, in;
    struct collective_case of = case_of(s, call);
    struct case_buffers b = {0};

    if (c->kind == BR_OPERATION_COLLECTIVE)
        case_bytes(&of, comm->n, &b.send_bytes, &b.recv_bytes);
    else if (c->kind == BR_OPERATION_PUT || (c->kind == BR_OPERATION_SEND && rank == c->from))
        b.send_bytes = c->count;
    else
        b.recv_bytes = c->count;
    if (!part->block) {
        part->bytes = 7 + 3 * GUARD + b.send_bytes + b.recv_bytes;
        part->block = malloc(part->bytes);
    }
    in = misaligned + GUARD;
    b.send = b.recv = part->block + in;
    if (!c->in_place)
        b.recv += b.send_bytes + GUARD;
    if (c->kind == BR_OPERATION_COLLECTIVE)
        b = case_place(&of, comm->n, storm_rank_in(comm, rank), b.send, b.recv);
    return b;
}

static bool notifies(const struct storm *s, int call)
{
    return s->plan->calls[call].kind == BR_OPERATION_PUT &&
           storm_mix(s->plan->seed, (uint64_t)call + 99) % 2;
}

/* Counts what a rank has been notified of. */
static void count_notifications(struct storm *s, int rank)
{
    struct braid_notification n;

    while (br_engine_notified(s->ranks[rank].engine, NULL, &n))
        s->notified[n.value % STORM_CALLS]++;
}

void storm_prepare(struct storm *s, int call, int rank)
{
    const struct storm_call *c = &s->plan->calls[call];
    struct storm_part *part = storm_memory_of(s, call, rank);
    const struct storm_comm *comm = &s->plan->comms[c->comm];
    bool receives = c->kind == BR_OPERATION_SEND && rank == c->to,
         is_root = storm_rank_in(comm, rank) == c->root;
    struct case_buffers b = lay_out(s, call, rank);
    struct collective_case of = case_of(s, call);

    memset(part->block, GUARD_BYTE, part->bytes);
    if (c->kind == BR_OPERATION_COLLECTIVE)
        case_fill(&of, storm_rank_in(comm, rank), &b);
    else
        fill(s, call, rank, b.send, b.send_bytes);
    part->put_overwritten = false;
    part->op = (struct br_operation){
        .kind = receives ? BR_OPERATION_RECV : c->kind,
        .collective = c->collective,
        .send = b.send,
        .recv = b.recv,
        .count = c->count,
        .type = c->type,
        .reduction = c->reduction,
        .root = c->root,
        .peer = storm_rank_in(comm, receives ? c->from : c->to),
        .group = c->comm ? &s->ranks[rank].groups[c->comm] : NULL,
        .priority = c->priority,
        .tag = c->tag,
        .learns = receives && storm_mix(s->plan->seed, (uint64_t)call + 77) % 3 == 0,
        .key = {.rank = (uint32_t)c->to, .id = c->stale_key ? 2 : 1, .check = 77},
        .offset = c->offset,
        .operands = {.value = addend(s, call)},
        .notifies = notifies(s, call),
        .notify = {.value = (uint64_t)call},
        .timeout = c->timeout,
    };
    memcpy(part->op.algorithm, c->algorithm, sizeof part->op.algorithm);
    if (!c->in_place && br_collective_from_root(c->collective) && !is_root)
        part->op.send = NULL;
    if (!c->in_place && br_collective_to_root(c->collective) && !is_root)
        part->op.recv = NULL;
    for (int i = 0; i < BR_SCRATCH && c->uneven; i++) {
        size_t *counts = part->sizes + 2 * (size_t)i * STORM_RANKS, *offsets = counts + STORM_RANKS;

        case_arrays(&of, comm->n, (enum br_buffer)i, storm_rank_in(comm, rank), counts, offsets);
        if (i == BR_INPUT ? b.reads : b.writes)
            part->op.blocks[i] = (struct br_blocks){counts, offsets};
    }
    if (c->uneven)
        part->op.count = case_most(&of, comm->n, storm_rank_in(comm, rank));
}

void storm_fill_region(struct storm *s, int rank)
{
    struct storm_rank *r = &s->ranks[rank];

    r->region = (struct br_region){.base = malloc(s->plan->region_bytes),
                                   .bytes = s->plan->region_bytes,
                                   .segment_fd = -1,
                                   .id = 1};
    memset(r->region.base, GUARD_BYTE, r->region.bytes);
    for (int i = 0; i < s->plan->n_calls; i++) {
        const struct storm_call *c = &s->plan->calls[i];

        if (c->kind == BR_OPERATION_GET && c->to == rank && c->again < 0)
            fill(s, i, rank, (uint8_t *)r->region.base + c->offset, c->count);
    }
}

/* ---- looking --------------------------------------------------------------------------------- */

static bool all_bytes(const uint8_t *at, size_t bytes, uint8_t value)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != value)
            return false;
    return true;
}

/* false: the message says what is wrong. A call that has failed leaves what it only reads, and what
 * is around it. */
static bool collective_right(struct storm *s, int call, int rank, struct case_buffers b, char *text,
                             size_t bytes)
{
    const struct storm_comm *comm = &s->plan->comms[s->plan->calls[call].comm];
    bool ended_well = !storm_memory_of(s, call, rank)->op.status;
    struct collective_case of = case_of(s, call);

    b.writes = b.writes && ended_well;
    if (!case_check(&of, comm->n, storm_rank_in(comm, rank), &b, s->first[call], text, bytes))
        return false;
    if (ended_well && !s->first[call] && case_same_everywhere(of.collective)) {
        s->first[call] = malloc(b.recv_bytes + 1);
        memcpy(s->first[call], b.recv, b.recv_bytes);
    }
    return true;
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

static bool result_right(struct storm *s, int call, int rank, const struct case_buffers *b)
{
    const struct storm_call *c = &s->plan->calls[call];
    struct storm_part *part = storm_memory_of(s, call, rank);
    uint8_t *there = (uint8_t *)s->ranks[c->to].region.base + c->offset;

    switch (part->op.kind) {
    case BR_OPERATION_RECV:
        return bytes_right(s, call, c->from, b->recv, b->recv_bytes);
    case BR_OPERATION_GET:
        return bytes_right(s, owner(s, call), c->to, b->recv, b->recv_bytes);
    case BR_OPERATION_PUT:
        count_notifications(s, c->to);
        if (s->notified[call] != notifies(s, call) || memcmp(there, b->send, b->send_bytes) != 0)
            return false;
        memset(there, (uint8_t)~GUARD_BYTE, c->count);
        part->put_overwritten = true;
        return true;
    case BR_OPERATION_ADD:
        return !memcmp(&(uint64_t){sum(s, call, part->added++)}, b->recv, sizeof(uint64_t));
    default:
        return true;
    }
}

/* Of anything but a collective, one of whose two buffers is empty. */
static bool guards_right(struct storm *s, int call, int rank, const struct case_buffers *b)
{
    const struct storm_part *part = storm_memory_of(s, call, rank);
    const uint8_t *end = part->block + part->bytes;

    return all_bytes(part->block, (size_t)(b->send - part->block), GUARD_BYTE) &&
           all_bytes(b->send + b->send_bytes, GUARD, GUARD_BYTE) &&
           all_bytes(b->recv + b->recv_bytes, (size_t)(end - b->recv) - b->recv_bytes,
                     GUARD_BYTE) &&
           bytes_right(s, call, rank, b->send, b->send_bytes);
}

void storm_look(struct storm *s, int call, int rank)
{
    struct storm_part *part = storm_memory_of(s, call, rank);
    struct case_buffers b = lay_out(s, call, rank);
    char name[160], text[120];

    storm_name_call(s, call, name, sizeof name);
    if (part->op.kind == BR_OPERATION_COLLECTIVE) {
        if (!collective_right(s, call, rank, b, text, sizeof text))
            storm_wrong(s, "rank %d, %s: %s", rank, name, text);
    } else if (!guards_right(s, call, rank, &b))
        storm_wrong(s, "rank %d, %s: bytes around its buffers, or what it only reads, have changed",
                    rank, name);
    else if (!part->op.status && !result_right(s, call, rank, &b))
        storm_wrong(s, "rank %d, %s: wrong result", rank, name);
    part->overwritten = (uint8_t)(0x40 + call);
    memset(part->block, part->overwritten, part->bytes);
}

/* False: one has failed, or its rank has died, and it may count or not. */
static bool all_added(const struct storm *s, int call, int rank)
{
    for (int c = call; c < s->plan->n_calls; c++)
        if (owner(s, c) == call &&
            (s->parts[c][rank].state != STORM_ENDED || s->parts[call][rank].op.status))
            return false;
    return true;
}

static void look_at_region(struct storm *s, int call, int rank)
{
    const struct storm_call *c = &s->plan->calls[call];
    const uint8_t *base = s->ranks[c->to].region.base;

    if (s->parts[call][rank].put_overwritten &&
        !all_bytes(base + c->offset, c->count, (uint8_t)~GUARD_BYTE))
        storm_wrong(s, "call %d: rank %d's region was written after the put had ended", call,
                    c->to);
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
        storm_wrong(s, "call %d: bytes before its place in rank %d's region have changed", call,
                    c->to);
}

void storm_look_again(struct storm *s)
{
    for (int c = 0; c < s->plan->n_calls; c++)
        if (s->notified[c] > 1)
            storm_wrong(s, "call %d: its put has notified %d times", c, s->notified[c]);
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
