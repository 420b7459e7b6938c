/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/collectives/case.h"

#include <stdio.h>
#include <string.h>

#include "collectives/schedule/type.h"

#define GUARD_BYTE 0xa5
#define OLD_BYTE   0xee /* of a result before the call */

const char *case_name(enum br_collective collective)
{
    return collective == CASE_SENDRECV ? "sendrecv" : br_collective_name(collective);
}

static size_t blocks(const struct collective_case *c, int n, enum br_buffer buffer)
{
    return c->collective == CASE_SENDRECV
               ? 1
               : br_collective_blocks(c->collective, (uint32_t)n, buffer);
}

size_t case_blocks(const struct collective_case *c, int n)
{
    size_t in = blocks(c, n, BR_INPUT), out = blocks(c, n, BR_OUTPUT);

    return in > out ? in : out;
}

void case_bytes(const struct collective_case *c, int n, size_t *send, size_t *recv)
{
    size_t block = c->collective == BR_BARRIER ? 0 : c->count * br_type_size(c->data.type);

    *send = block * blocks(c, n, BR_INPUT);
    *recv = block * blocks(c, n, BR_OUTPUT);
}

struct case_buffers case_place(const struct collective_case *c, int n, int rank, uint8_t *send,
                               uint8_t *recv)
{
    size_t block = c->count * br_type_size(c->data.type);
    bool rooted = c->collective != CASE_SENDRECV;
    struct case_buffers b = {
        .send = send,
        .recv = recv,
        .send_whole = true,
        .recv_whole = true,
        .reads = !rooted || !br_collective_from_root(c->collective) || rank == c->root,
        .writes = !rooted || !br_collective_to_root(c->collective) || rank == c->root,
    };

    case_bytes(c, n, &b.send_bytes, &b.recv_bytes);
    if (!c->in_place)
        return b;
    b.send_whole = b.send_bytes >= b.recv_bytes;
    b.recv_whole = b.recv_bytes >= b.send_bytes;
    if (!b.recv_whole)
        b.recv = send + block * (size_t)rank;
    else
        b.send = recv + (b.send_whole ? 0 : block * (size_t)rank);
    return b;
}

static void put_guards(uint8_t *start, size_t bytes)
{
    memset(start - CASE_GUARD, GUARD_BYTE, CASE_GUARD);
    memset(start + bytes, GUARD_BYTE, CASE_GUARD);
}

static bool guards_hold(const uint8_t *start, size_t bytes)
{
    for (int i = 0; i < CASE_GUARD; i++)
        if (start[-i - 1] != GUARD_BYTE || start[bytes + (size_t)i] != GUARD_BYTE)
            return false;
    return true;
}

void case_fill(const struct collective_case *c, int rank, const struct case_buffers *b)
{
    memset(b->recv, OLD_BYTE, b->recv_bytes);
    br_data_fill(&c->data, rank, 0, b->send, b->send_bytes / br_type_size(c->data.type));
    if (b->send_whole)
        put_guards(b->send, b->send_bytes);
    if (b->recv_whole)
        put_guards(b->recv, b->recv_bytes);
}

/* Elements of the result that are wrong. */
static size_t count_wrong(const struct collective_case *c, int n, int rank, const uint8_t *recv)
{
    size_t block = c->count * br_type_size(c->data.type), own = c->count * (size_t)rank, wrong = 0;

    switch (c->collective) {
    case CASE_SENDRECV:
        return br_data_wrong_copy(&c->data, (rank + n - 1) % n, 0, recv, c->count);
    case BR_REDUCE_SCATTER:
        return br_data_wrong_reduced(&c->data, n, own, recv, c->count);
    case BR_ALLGATHER:
    case BR_GATHER:
    case BR_ALLTOALL:
        for (int r = 0; r < n; r++)
            wrong += br_data_wrong_copy(&c->data, r, c->collective == BR_ALLTOALL ? own : 0,
                                        recv + block * (size_t)r, c->count);
        return wrong;
    case BR_SCATTER:
        return br_data_wrong_copy(&c->data, c->root, own, recv, c->count);
    case BR_BROADCAST:
        return br_data_wrong_copy(&c->data, c->root, 0, recv, c->count);
    case BR_BARRIER:
        return 0;
    default:
        return br_data_wrong_reduced(&c->data, n, 0, recv, c->count);
    }
}

bool case_same_everywhere(enum br_collective collective)
{
    return collective == BR_ALLREDUCE || collective == BR_ALLGATHER || collective == BR_BROADCAST;
}

bool case_check(const struct collective_case *c, int n, int rank, const struct case_buffers *b,
                const void *right, char *text, size_t bytes)
{
    size_t wrong = b->writes && !right ? count_wrong(c, n, rank, b->recv) : 0;

    text[0] = 0;
    if (b->writes && right && memcmp(right, b->recv, b->recv_bytes))
        snprintf(text, bytes,
                 "the result has other bits than that of another rank, or of the same call before");
    else if (wrong)
        snprintf(text, bytes, "%zu elements are wrong", wrong);
    else if (!c->in_place &&
             (wrong = br_data_wrong_copy(&c->data, rank, 0, b->send,
                                         b->send_bytes / br_type_size(c->data.type))))
        snprintf(text, bytes, "%zu elements of the input have changed", wrong);
    else if (b->send_whole && !guards_hold(b->send, b->send_bytes))
        snprintf(text, bytes, "something was written around the input");
    else if (b->recv_whole && !guards_hold(b->recv, b->recv_bytes))
        snprintf(text, bytes, "something was written around the output");
    return !text[0];
}
