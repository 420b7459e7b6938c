/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/collectives/case.h"

#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "collectives/schedule/type.h"

#define GUARD_BYTE 0xa5
#define OLD_BYTE   0xee /* of a result before the call */

const char *case_name(const struct collective_case *c)
{
    if (c->collective == CASE_SENDRECV)
        return "sendrecv";
    return c->uneven ? br_collective_uneven_name(c->collective) : br_collective_name(c->collective);
}

static size_t blocks(const struct collective_case *c, int n, enum br_buffer buffer)
{
    return c->collective == CASE_SENDRECV
               ? 1
               : br_collective_blocks(c->collective, (uint32_t)n, buffer);
}

size_t case_count(const struct collective_case *c, int from, int to)
{
    uint64_t key = (uint64_t)from * 64 + (uint64_t)to, words[2];

    if (!c->uneven)
        return c->count;
    if (c->collective == BR_ALLGATHER || c->collective == BR_GATHER)
        key = (uint64_t)from;
    else if (c->collective != BR_ALLTOALL)
        key = (uint64_t)to;
    else if (c->in_place && from > to)
        key = (uint64_t)to * 64 + (uint64_t)from;
    words[0] = c->data.seed;
    words[1] = key;
    key = br_digest(words, 2);
    return key % 4 == 0 ? 0 : key % 4 == 1 ? c->count : key / 4 % (c->count + 1);
}

size_t case_block(const struct collective_case *c, enum br_buffer buffer, int rank, int block)
{
    if (blocks(c, 2, buffer) == 1) /* of this rank, or for it */
        return case_count(c, rank, rank);
    return buffer == BR_INPUT ? case_count(c, rank, block) : case_count(c, block, rank);
}

size_t case_elements(const struct collective_case *c, int n, enum br_buffer buffer, int rank)
{
    size_t elements = 0;

    for (int b = 0; b < (int)blocks(c, n, buffer); b++)
        elements += case_block(c, buffer, rank, b);
    return elements;
}

size_t case_most(const struct collective_case *c, int n, int rank)
{
    size_t most = 0;

    for (int i = 0; i < BR_SCRATCH; i++)
        for (int b = 0; b < (int)blocks(c, n, (enum br_buffer)i); b++) {
            bool has = i == BR_INPUT ? !br_collective_from_root(c->collective)
                                     : !br_collective_to_root(c->collective);
            size_t count = has || rank == c->root ? case_block(c, (enum br_buffer)i, rank, b) : 0;

            most = count > most ? count : most;
        }
    return most;
}

bool case_packed(const struct collective_case *c)
{
    return !c->uneven || c->data.seed & 8;
}

size_t case_offset(const struct collective_case *c, int n, enum br_buffer buffer, int rank,
                   int block)
{
    size_t offset = 0;

    if (blocks(c, n, buffer) == 1)
        return 0;
    if (!case_packed(c)) /* at the end of its place */
        return (size_t)block * c->count + c->count - case_block(c, buffer, rank, block);
    for (int b = 0; b < block; b++)
        offset += case_block(c, buffer, rank, b);
    return offset;
}

void case_arrays(const struct collective_case *c, int n, enum br_buffer buffer, int rank,
                 size_t *counts, size_t *offsets)
{
    for (int b = 0; b < (int)blocks(c, n, buffer); b++) {
        counts[b] = case_block(c, buffer, rank, b);
        offsets[b] = case_offset(c, n, buffer, rank, b);
    }
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
    size_t size = br_type_size(c->data.type);
    bool rooted = c->collective != CASE_SENDRECV;
    struct case_buffers b = {
        .send = send,
        .recv = recv,
        .send_whole = true,
        .recv_whole = true,
        .reads = !rooted || !br_collective_from_root(c->collective) || rank == c->root,
        .writes = !rooted || br_collective_writes(c->collective, (uint32_t)rank, (uint32_t)c->root),
    };

    case_bytes(c, n, &b.send_bytes, &b.recv_bytes);
    if (c->in_place) {
        b.send_whole = b.send_bytes >= b.recv_bytes;
        b.recv_whole = b.recv_bytes >= b.send_bytes;
    }
    if (c->uneven && blocks(c, n, BR_INPUT) == 1)
        b.send_bytes = case_block(c, BR_INPUT, rank, 0) * size;
    if (c->uneven && blocks(c, n, BR_OUTPUT) == 1)
        b.recv_bytes = case_block(c, BR_OUTPUT, rank, 0) * size;
    if (!b.recv_whole)
        b.recv = send + case_offset(c, n, BR_INPUT, rank, rank) * size;
    else if (c->in_place)
        b.send = recv + (b.send_whole ? 0 : case_offset(c, n, BR_OUTPUT, rank, rank) * size);
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
    size_t size = br_type_size(c->data.type), wrong = 0;

    switch (c->collective) {
    case CASE_SENDRECV:
        return br_data_wrong_copy(&c->data, (rank + n - 1) % n, 0, recv, c->count);
    case BR_REDUCE_SCATTER:
        return br_data_wrong_reduced(&c->data, n, case_offset(c, n, BR_INPUT, rank, rank), recv,
                                     case_block(c, BR_OUTPUT, rank, 0));
    case BR_ALLGATHER:
    case BR_GATHER:
    case BR_ALLTOALL:
        for (int r = 0; r < n; r++)
            wrong += br_data_wrong_copy(&c->data, r, case_offset(c, n, BR_INPUT, r, rank),
                                        recv + case_offset(c, n, BR_OUTPUT, rank, r) * size,
                                        case_block(c, BR_OUTPUT, rank, r));
        return wrong;
    case BR_SCATTER:
        return br_data_wrong_copy(&c->data, c->root, case_offset(c, n, BR_INPUT, c->root, rank),
                                  recv, case_block(c, BR_OUTPUT, rank, 0));
    case BR_BROADCAST:
        return br_data_wrong_copy(&c->data, c->root, 0, recv, c->count);
    case BR_BARRIER:
        return 0;
    case BR_SCAN:
        return br_data_wrong_reduced(&c->data, rank + 1, 0, recv, c->count);
    case BR_EXSCAN:
        return br_data_wrong_reduced(&c->data, rank, 0, recv, c->count);
    default:
        return br_data_wrong_reduced(&c->data, n, 0, recv, c->count);
    }
}

/* Bytes that are not what they were before the call. */
static size_t old_wrong(const uint8_t *at, size_t bytes)
{
    size_t wrong = 0;

    for (size_t i = 0; i < bytes; i++)
        wrong += at[i] != OLD_BYTE;
    return wrong;
}

/* Elements between the blocks of the result that the call has written; in place the input may stand
 * there. */
static size_t gaps_wrong(const struct collective_case *c, int n, int rank,
                         const struct case_buffers *b)
{
    size_t size = br_type_size(c->data.type), end = 0, wrong = 0, most = b->recv_bytes / size;
    int count = (int)blocks(c, n, BR_OUTPUT);

    for (int block = 0; block <= count; block++) {
        size_t next = block < count ? case_offset(c, n, BR_OUTPUT, rank, block) : most;
        const uint8_t *gap = b->recv + end * size;

        if (c->in_place && c->collective == BR_ALLTOALL)
            wrong += br_data_wrong_copy(&c->data, rank, end, gap, next - end);
        else
            wrong += old_wrong(gap, (next - end) * size);
        if (block < count)
            end = next + case_block(c, BR_OUTPUT, rank, block);
    }
    return wrong;
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
    else if (c->collective == BR_EXSCAN && rank == 0 && !c->in_place &&
             (wrong = old_wrong(b->recv, b->recv_bytes)))
        snprintf(text, bytes, "%zu bytes of a rank without a result were written", wrong);
    else if (c->uneven && b->writes && (wrong = gaps_wrong(c, n, rank, b)))
        snprintf(text, bytes, "%zu elements between blocks were written", wrong);
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
