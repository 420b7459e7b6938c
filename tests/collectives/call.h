/* SPDX-License-Identifier: BSD-3-Clause */
/* One collective on all ranks of a job, its buffers and what should stand in them afterwards. For tests. */
#ifndef BR_TESTS_COLLECTIVES_CALL_H
#define BR_TESTS_COLLECTIVES_CALL_H

#include "job.h"

struct call {
    enum br_collective collective;
    size_t count;
    enum braid_type type;
    enum braid_reduction reduction;
    int root;
    bool in_place;
    const char *algorithm;
    int32_t priority;

    struct br_operation *ops;
    uint8_t **in, **out; /* of each rank, with guards; in place: in is a copy of what was there */
    uint8_t **memory;
};

/* Buffers and operations of all ranks. */
void call_create(struct call *c, const struct job *job);
void call_destroy(struct call *c, const struct job *job);
/* Fills the buffers and the operation of one rank. */
void call_prepare(struct call *c, const struct job *job, int rank);
/* Creates, prepares and submits on all ranks. */
void call_submit(struct call *c, struct job *job);
/* Fails the test unless the results, the inputs and what lies around the buffers are as they should be. */
void call_check(const struct call *c, const struct job *job);
/* All of these. */
void call_run(struct job *job, struct call c);

#endif
