/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One collective as every test runs it, over whatever back end: how large its buffers are and where
 * they lie, what goes in and what has to come out. A test that calls a collective needs an adapter
 * only: of the engine over the simulator (call.h, tests/sim/calls.c), or of the public calls in
 * real processes (tests/system/collective.h).
 *
 * The values are those of tools/common/data.h: each rank can tell what every other one gives, and
 * rounded results must lie within what any order of the reduction can cost. All functions are pure;
 * any thread may call them.
 */
#ifndef BR_TESTS_COLLECTIVES_CASE_H
#define BR_TESTS_COLLECTIVES_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/schedule/schedule.h"
#include "tools/common/data.h"

/* Beside the collectives: each rank sends its buffer to the next rank and receives that of the
 * previous one. */
#define CASE_SENDRECV ((enum br_collective)BR_COLLECTIVES)
#define CASE_KINDS    (BR_COLLECTIVES + 1)

/* Bytes on both sides of a buffer, which the caller provides and nobody may touch. */
#define CASE_GUARD 64

/* The same on all ranks. */
struct collective_case {
    enum br_collective collective;
    struct br_data data; /* type, reduction, and what the values depend on */
    size_t count;        /* elements of a block */
    int root;
    bool in_place;
    /* blocks of different sizes, up to `count`, some of them empty, in part with gaps between
     * them: allgatherv and the like */
    bool uneven;
};

/* The buffers of a rank. In place one of them may be a block of the other; then only the other is
 * whole. */
struct case_buffers {
    uint8_t *send, *recv;
    size_t send_bytes, recv_bytes;
    bool send_whole, recv_whole;
    /* false: what is sent, or received, does not count: this rank is not the root */
    bool reads, writes;
};

const char *case_name(const struct collective_case *c);
/* Elements of the block that goes from one rank to another; or from, or to, all. */
size_t case_count(const struct collective_case *c, int from, int to);
/* Where a block of a rank's buffer begins, in elements, and how many it has. */
size_t case_offset(const struct collective_case *c, int n, enum br_buffer buffer, int rank,
                   int block);
size_t case_block(const struct collective_case *c, enum br_buffer buffer, int rank, int block);
/* Writes counts and offsets of a rank's buffer, for each of its blocks, to the arrays. */
void case_arrays(const struct collective_case *c, int n, enum br_buffer buffer, int rank,
                 size_t *counts, size_t *offsets);
/* Elements of all blocks of a rank's buffer. */
size_t case_elements(const struct collective_case *c, int n, enum br_buffer buffer, int rank);
/* Elements of the largest block that a rank knows of. */
size_t case_most(const struct collective_case *c, int n, int rank);
/* Do blocks follow each other without gaps? */
bool case_packed(const struct collective_case *c);
size_t case_blocks(const struct collective_case *c, int n); /* of the larger buffer */
void case_bytes(const struct collective_case *c, int n, size_t *send, size_t *recv);

/* send, recv: two places, each for case_blocks() blocks, with guards around them. In place the
 * larger buffer stands at its place. */
struct case_buffers case_place(const struct collective_case *c, int n, int rank, uint8_t *send,
                               uint8_t *recv);

/* Writes the input, and what a result must overwrite, and the guards. */
void case_fill(const struct collective_case *c, int rank, const struct case_buffers *buffers);

/* All ranks must have the same bits. */
bool case_same_everywhere(enum br_collective collective);

/*
 * Looks at result, input and guards after the call. right: a result of the same case, of this rank
 * or where all ranks have the same, that has been found right: these bits are wanted then; NULL:
 * the values are checked. false: something is wrong, and `text` says what.
 */
bool case_check(const struct collective_case *c, int n, int rank,
                const struct case_buffers *buffers, const void *right, char *text, size_t bytes);

#endif
