/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/collectives/call.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "collectives/schedule/type.h"
#include "tests/says.h"

static struct collective_case case_of(const struct call *c)
{
    return (struct collective_case){
        .collective = c->collective,
        .data = {.seed = c->count, .type = c->type, .reduction = c->reduction},
        .count = c->count,
        .root = c->root,
        .in_place = c->in_place,
        .uneven = c->uneven,
    };
}

size_t call_bytes(const struct call *c, const struct job *job)
{
    return (c->count * br_type_size(c->type) + 1) * (size_t)job->n * 2 + 3 * CASE_GUARD;
}

void call_create(struct call *c, const struct job *job)
{
    c->ops = calloc((size_t)job->n, sizeof *c->ops);
    c->buffers = calloc((size_t)job->n, sizeof *c->buffers);
    c->memory = calloc((size_t)job->n, sizeof *c->memory);
    c->arrays = calloc(4 * (size_t)job->n * (size_t)job->n, sizeof *c->arrays);
    for (int r = 0; r < job->n; r++)
        c->memory[r] = malloc(call_bytes(c, job));
}

void call_prepare(struct call *c, const struct job *job, int rank)
{
    struct collective_case of = case_of(c);
    size_t block = c->count * br_type_size(c->type) * case_blocks(&of, job->n);
    uint8_t *send = c->memory[rank] + CASE_GUARD;
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
    c->buffers[rank] =
        case_place(&of, job->n, rank, send, c->in_place ? send : send + block + CASE_GUARD);
    case_fill(&of, rank, &c->buffers[rank]);
    op->send = c->buffers[rank].send;
    op->recv = c->buffers[rank].recv;
    for (int i = 0; i < BR_SCRATCH && c->uneven; i++) {
        size_t n = (size_t)job->n, *counts = c->arrays + (4 * (size_t)rank + 2 * (size_t)i) * n;

        case_arrays(&of, job->n, (enum br_buffer)i, rank, counts, counts + n);
        if (i == BR_INPUT ? c->buffers[rank].reads : c->buffers[rank].writes)
            op->blocks[i] = (struct br_blocks){counts, counts + n};
    }
    if (c->uneven)
        op->count = case_most(&of, job->n, rank);
}

void call_destroy(struct call *c, const struct job *job)
{
    for (int r = 0; r < job->n; r++)
        free(c->memory[r]);
    free(c->ops);
    free(c->buffers);
    free(c->memory);
    free(c->arrays);
}

void call_submit(struct call *c, struct job *job)
{
    call_create(c, job);
    for (int r = 0; r < job->n; r++) {
        call_prepare(c, job, r);
        job_submit(job, r, &c->ops[r]);
    }
}

void call_check(const struct call *c, const struct job *job)
{
    struct collective_case of = case_of(c);
    char text[100];

    for (int r = 0; r < job->n; r++) {
        bool same = r && case_same_everywhere(c->collective);

        if (c->ops[r].status)
            fail_msg("%s: %s", case_name(&of), c->ops[r].message);
        if (!case_check(&of, job->n, r, &c->buffers[r], same ? c->buffers[0].recv : NULL, text,
                        sizeof text))
            fail_msg("%s %s of %zu %s %s, rank %d of %d (in place %d): %s",
                     c->algorithm ? c->algorithm : "auto", case_name(&of), c->count,
                     br_type_name(c->type), br_reduction_name(c->reduction), r, job->n, c->in_place,
                     text);
    }
}

void call_run(struct job *job, struct call c)
{
    call_submit(&c, job);
    job_run(job, job->ended + job->n);
    call_check(&c, job);
    call_destroy(&c, job);
}

int call_run_disagreeing(struct job *job, struct call calls[2], uint64_t timeout)
{
    int noticed = 0;

    for (int r = 0; r < 2; r++) {
        call_create(&calls[r], job);
        call_prepare(&calls[r], job, r);
        calls[r].ops[r].timeout = timeout;
        job_submit(job, r, &calls[r].ops[r]);
    }
    job_run(job, job->ended + 2);
    for (int r = 0; r < 2; r++) {
        const struct br_operation *op = &calls[r].ops[r];

        assert_true(op->status < 0);
        noticed += op->status == -EPROTO && says_all(op->message, "disagree");
    }
    for (int r = 0; r < 2; r++)
        call_destroy(&calls[r], job);
    return noticed;
}
