/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/training_comm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "training/session/agree.h"

struct br_sim_job training_job;

int training_submit(struct braid_comm *comm, struct br_operation like,
                    const struct braid_options *options, struct braid_op **op)
{
    struct br_operation *operation = calloc(1, sizeof *operation);

    assert_non_null(operation);
    *operation = like;
    operation->priority = options->priority;
    operation->tag = options->tag;
    operation->done = options->done;
    operation->done_context = options->context;
    *op = (struct braid_op *)operation;
    return br_sim_job_submit(&training_job, (uint32_t)comm->rank, operation);
}

void training_ended(void *with, uint32_t rank, struct br_operation *op, uint64_t now)
{
    (void)with;
    (void)rank;
    (void)now;
    assert_int_equal(op->status, 0);
    atomic_store(&op->state, BR_OPERATION_ENDED);
    if (op->done)
        op->done(op->done_context, 0);
}

bool training_has_ended(const struct braid_op *op)
{
    return atomic_load(&((const struct br_operation *)op)->state) == BR_OPERATION_ENDED;
}

uint64_t __wrap_br_comm_now(const struct braid_comm *comm);
int __wrap_braid_rank(const struct braid_comm *comm);
int __wrap_br_agree(struct braid_comm *comm, uint64_t digest, int rc, const char *who,
                    const char *what);
void *__wrap_braid_alloc(struct braid_comm *comm, size_t bytes);
void __wrap_braid_free(struct braid_comm *comm, void *memory);
int __wrap_braid_wait(struct braid_op *op, int timeout_ms);
int __wrap_braid_wait_any(struct braid_op **ops, size_t n, size_t *index, int timeout_ms);

uint64_t __wrap_br_comm_now(const struct braid_comm *comm)
{
    return br_sim_host_now(training_job.sim, comm->rank);
}

int __wrap_braid_rank(const struct braid_comm *comm)
{
    return comm->rank;
}

int __wrap_br_agree(struct braid_comm *comm, uint64_t digest, int rc, const char *who,
                    const char *what)
{
    (void)comm;
    (void)digest;
    (void)who;
    (void)what;
    return rc;
}

void *__wrap_braid_alloc(struct braid_comm *comm, size_t bytes)
{
    (void)comm;
    return calloc(1, bytes);
}

void __wrap_braid_free(struct braid_comm *comm, void *memory)
{
    (void)comm;
    free(memory);
}

int __wrap_braid_wait(struct braid_op *op, int timeout_ms)
{
    struct br_operation *operation = (struct br_operation *)op;
    int status = operation->status;

    (void)timeout_ms;
    assert_true(training_has_ended(op));
    free(operation);
    return status;
}

int __wrap_braid_wait_any(struct braid_op **ops, size_t n, size_t *index, int timeout_ms)
{
    struct braid_op *op = ops[0];

    assert_int_equal(n, 1);
    ops[0] = NULL;
    *index = 0;
    return __wrap_braid_wait(op, timeout_ms);
}
