/* SPDX-License-Identifier: BSD-3-Clause */
#include "call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "collectives/reduce.h"
#include "collectives/type.h"
#include "pattern.h"

#define GUARD 64 /* bytes around each buffer that must stay as they were */

static size_t in_bytes(const struct call *c, int n)
{
    return c->count * br_type_size(c->type) * br_collective_blocks(c->collective, (uint32_t)n, BR_INPUT);
}

static size_t out_bytes(const struct call *c, int n)
{
    return c->count * br_type_size(c->type) * br_collective_blocks(c->collective, (uint32_t)n, BR_OUTPUT);
}

static void fill(const struct call *c, uint8_t *memory, size_t bytes, int rank)
{
    size_t size = br_type_size(c->type);
    size_t range = c->reduction == BRAID_PROD ? 2 : 5;

    for (size_t i = 0; i < bytes / size; i++)
        pattern_put(c->type, memory + i * size, (int)(((size_t)rank * 7 + i * 3 + i / 11) % range) + 1);
}

/* Where the call reads and writes, for one rank. */
static void lay_out(struct call *c, struct br_operation *op, int n, int rank)
{
    size_t in = in_bytes(c, n), out = out_bytes(c, n), block = c->count * br_type_size(c->type);
    uint8_t *memory = c->memory[rank];

    op->send = memory + GUARD;
    op->recv = memory + GUARD + in + GUARD;
    if (c->in_place) {
        op->send = memory + GUARD + (in < out ? (size_t)rank * block : 0);
        op->recv = memory + GUARD + (out < in ? (size_t)rank * block : 0);
    }
    memset(memory, 0xa5, in + out + 3 * GUARD);
    fill(c, (uint8_t *)(uintptr_t)op->send, in, rank);
    memcpy(c->in[rank], op->send, in);
    c->out[rank] = op->recv;
}

void call_create(struct call *c, const struct job *job)
{
    size_t most = (c->count * 8 + 1) * (size_t)job->n * 2 + 3 * GUARD;

    c->ops = calloc((size_t)job->n, sizeof *c->ops);
    c->in = calloc((size_t)job->n, sizeof *c->in);
    c->out = calloc((size_t)job->n, sizeof *c->out);
    c->memory = calloc((size_t)job->n, sizeof *c->memory);
    for (int r = 0; r < job->n; r++) {
        c->in[r] = malloc(most);
        c->memory[r] = malloc(most);
    }
}

void call_prepare(struct call *c, const struct job *job, int rank)
{
    struct br_operation *op = &c->ops[rank];

    *op = (struct br_operation){.kind = BR_OPERATION_COLLECTIVE,
                                .collective = c->collective,
                                .count = c->count,
                                .type = c->type,
                                .reduction = c->reduction,
                                .root = c->root,
                                .priority = c->priority};
    if (c->algorithm)
        snprintf(op->algorithm, sizeof op->algorithm, "%s", c->algorithm);
    lay_out(c, op, job->n, rank);
}

void call_destroy(struct call *c, const struct job *job)
{
    for (int r = 0; r < job->n; r++) {
        free(c->in[r]);
        free(c->memory[r]);
    }
    free(c->ops);
    free(c->in);
    free(c->out);
    free(c->memory);
}

void call_submit(struct call *c, struct job *job)
{
    call_create(c, job);
    for (int r = 0; r < job->n; r++) {
        call_prepare(c, job, r);
        job_submit(job, r, &c->ops[r]);
    }
}

/* What `rank` should have in `expected`; false: its output does not count. */
static bool expect(const struct call *c, int n, int rank, uint8_t *expected)
{
    size_t block = c->count * br_type_size(c->type);
    const void *sources[64];

    for (int r = 0; r < n; r++)
        sources[r] = c->in[r] + (c->collective == BR_REDUCE_SCATTER ? (size_t)rank * block : 0);
    switch (c->collective) {
    case BR_ALLGATHER:
    case BR_GATHER:
        for (int r = 0; r < n; r++)
            memcpy(expected + (size_t)r * block, c->in[r], block);
        return c->collective == BR_ALLGATHER || rank == c->root;
    case BR_ALLTOALL:
        for (int r = 0; r < n; r++)
            memcpy(expected + (size_t)r * block, c->in[r] + (size_t)rank * block, block);
        return true;
    case BR_SCATTER:
        memcpy(expected, c->in[c->root] + (size_t)rank * block, block);
        return true;
    case BR_BROADCAST:
        memcpy(expected, c->in[c->root], block);
        return true;
    case BR_BARRIER:
        return false;
    default:
        assert_int_equal(br_reduce(c->type, c->reduction, expected, sources, n, c->count, n), 0);
        return c->collective != BR_REDUCE || rank == c->root;
    }
}

static void guard_intact(const uint8_t *at)
{
    for (int i = 0; i < GUARD; i++)
        assert_int_equal(at[i], 0xa5);
}

void call_check(const struct call *c, const struct job *job)
{
    uint8_t *expected = calloc(1, c->count * 8 * (size_t)job->n + 1);

    for (int r = 0; r < job->n; r++) {
        size_t bytes = out_bytes(c, job->n);

        if (c->ops[r].status)
            fail_msg("%s: %s", br_collective_name(c->collective), c->ops[r].words);
        if (expect(c, job->n, r, expected) && memcmp(expected, c->out[r], bytes) != 0)
            fail_msg("%s %s of %zu %s %s: wrong result at rank %d of %d (in place %d)",
                     c->algorithm ? c->algorithm : "auto", br_collective_name(c->collective), c->count,
                     br_type_name(c->type), br_reduction_name(c->reduction), r, job->n, c->in_place);
        guard_intact(c->memory[r]);
        if (!c->in_place) {
            assert_memory_equal(c->in[r], c->ops[r].send, in_bytes(c, job->n));
            guard_intact(c->out[r] + bytes);
        }
    }
    free(expected);
}

void call_run(struct job *job, struct call c)
{
    call_submit(&c, job);
    job_run(job, job->ended + job->n);
    call_check(&c, job);
    call_destroy(&c, job);
}
