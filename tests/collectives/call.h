/* SPDX-License-Identifier: BSD-3-Clause */
/* The adapter of case.h for a job of engines over the simulator (job.h): a collective on all ranks,
 * from submit to the check. */
#ifndef BR_TESTS_COLLECTIVES_CALL_H
#define BR_TESTS_COLLECTIVES_CALL_H

#include "tests/collectives/case.h"
#include "tests/collectives/job.h"

struct call {
    enum br_collective collective;
    size_t count;
    enum braid_type type;
    enum braid_reduction reduction;
    int root;
    bool in_place, uneven;
    const char *algorithm;
    int32_t priority;

    struct br_operation *ops;     /* of each rank */
    struct case_buffers *buffers; /* of each rank, in its memory */
    uint8_t **memory;
    size_t *arrays; /* uneven: of each rank, counts and offsets of both buffers, n entries each */
};

/* Of a rank's memory: input and output, with guards. */
size_t call_bytes(const struct call *c, const struct job *job);

/* Buffers and operations of all ranks. */
void call_create(struct call *c, const struct job *job);
void call_destroy(struct call *c, const struct job *job);
/* Fills the buffers and the operation of one rank. */
void call_prepare(struct call *c, const struct job *job, int rank);
/* Creates, prepares and submits on all ranks. */
void call_submit(struct call *c, struct job *job);
/* Fails the test unless all is as case_check() wants it, and all ranks have the same bits of an
 * all- reduce. */
void call_check(const struct call *c, const struct job *job);
/* All of these. */
void call_run(struct job *job, struct call c);
/* Each of the two ranks makes another call; fails the test unless both end with an error. Returns
 * how many of them say that the ranks disagree. */
int call_run_disagreeing(struct job *job, struct call calls[2], uint64_t timeout);

#endif
