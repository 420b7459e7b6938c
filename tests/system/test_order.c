/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations of several communicators, more urgent ones behind less urgent ones, more than there
 * are runs: none waits for ever, also where the oldest has begun on one rank, while on the other it
 * waits for its stream, or for what a shared segment says (collectives/engine/admission.c, note 2).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <braid/gpu.h>

#include "gpu/reduce.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/system/app_gpu.h"
#include "tests/system/ranks.h"

/* The fake driver has the kernels, whatever is loaded; a build under a sanitizer has no image, and
 * takes this one. */
const struct br_gpu_image br_gpu_image = {"image", NULL, "sm_none"};

#define URGENT 200   /* operations, three times the runs */
#define LARGE  70000 /* elements, enough to be combined by levels (gpu_local.h, note 16) */

/* Communicators: two with an old operation each, and that of the urgent ones. */
struct part {
    struct braid_comm *old[2], *urgent;
    struct braid_op *ops[3 + URGENT];
    int32_t data[2][LARGE], bunch, values[URGENT];
    int n;
    struct CUstream_st *stream;
};

static _Atomic uint32_t gate;

/* What is put there waits until the gate is open. */
static int stop_stream(struct part *p)
{
    CHECK(!own_gpu()->stream_create(&p->stream, BR_CUDA_STREAM_NON_BLOCKING, 0) &&
              !own_gpu()->stream_wait_32(p->stream, (uintptr_t)&gate, 1, BR_CUDA_WAIT_GEQ),
          "no stream");
    return 0;
}

static int submit_old(struct part *p, bool streams)
{
    for (int c = 0; c < 2; c++) {
        int32_t *data = p->data[c];

        for (size_t i = 0; i < LARGE; i++)
            data[i] = (int32_t)i;
        if (streams)
            RETURNS(0, braid_allreduce_on_stream(p->old[c], data, data, LARGE, BRAID_INT32,
                                                 BRAID_SUM, NULL, p->stream));
        else
            RETURNS(0, braid_allreduce(p->old[c], data, data, LARGE, BRAID_INT32, BRAID_SUM, NULL,
                                       &p->ops[p->n++]));
    }
    return 0;
}

/* Each more urgent than those before; in turns of their own, so that the first ones begin first. */
static int submit_urgent(struct part *p, bool in_turns)
{
    struct braid_options options = {.algorithm = "direct"}; /* not the shared segment */
    int done;

    for (int i = 0; i < URGENT; i++) {
        options.priority = i + 1;
        p->values[i] = i;
        RETURNS(0, braid_allreduce(p->urgent, &p->values[i], &p->values[i], 1, BRAID_INT32,
                                   BRAID_SUM, &options, &p->ops[p->n++]));
        if (in_turns)
            RETURNS(0, braid_test(p->ops[p->n - 1], &done));
    }
    return 0;
}

/* Comes first, and has begun what it can when rank 0 comes. */
static int lead(struct part *p, bool streams)
{
    struct braid_options options = {.algorithm = "direct"};

    if (stop_stream(p) || submit_old(p, streams))
        return 1;
    RETURNS(0, braid_allreduce(p->urgent, &p->bunch, &p->bunch, 1, BRAID_INT32, BRAID_SUM, &options,
                               &p->ops[p->n++]));
    if (submit_urgent(p, true))
        return 1;
    ranks_tell(0);
    ranks_await(1, 1);
    gate = 1;
    return 0;
}

/* Rank 0: the urgent ones stand behind one in a stream, so that they begin all at once: the most
 * urgent first. */
static int follow(struct part *p, int others)
{
    struct braid_options options = {.algorithm = "direct"};

    ranks_await(0, others);
    if (stop_stream(p) || submit_old(p, false))
        return 1;
    RETURNS(0, braid_allreduce_on_stream(p->urgent, &p->bunch, &p->bunch, 1, BRAID_INT32, BRAID_SUM,
                                         &options, p->stream));
    if (submit_urgent(p, false))
        return 1;
    gate = 1;
    ranks_tell(1);
    return 0;
}

static int check(struct part *p, int size)
{
    for (int i = 0; i < p->n; i++)
        RETURNS(0, braid_wait(p->ops[i], -1));
    own_gpu()->stream_synchronize(p->stream);
    for (int i = 0; i < URGENT; i++)
        CHECK(p->values[i] == size * i, "operation %d: %d", i, p->values[i]);
    for (int i = 0; i < 2 * LARGE; i++)
        CHECK(p->data[i / LARGE][i % LARGE] == size * (i % LARGE), "element %d", i);
    return 0;
}

/* context: the old ones stand in a stream. */
static int urgent_ones(struct braid_comm *comm, void *context)
{
    struct part *p = calloc(1, sizeof *p);
    int rank = braid_rank(comm), size = braid_size(comm);

    CHECK(p, "no memory");
    fake_cuda()->thread = true;
    gate = 0;
    p->old[0] = comm;
    RETURNS(0, braid_comm_split(comm, 0, rank, &p->old[1]));
    RETURNS(0, braid_comm_split(comm, 0, rank, &p->urgent));
    if (rank == 0 ? follow(p, size - 1) : lead(p, context != NULL))
        return 1;
    if (check(p, size))
        return 1;
    own_gpu()->stream_destroy(p->stream);
    RETURNS(0, braid_finalize(p->urgent));
    RETURNS(0, braid_finalize(p->old[1]));
    free(p);
    return 0;
}

static void run(const struct ranks *job, void *context)
{
    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    setenv("BRAID_GPU_REDUCE", "auto", 1);
    ranks_run(job, urgent_ones, context);
}

static void order__behind_a_stream(void **state)
{
    (void)state;
    run(
        &(struct ranks){
            .size = 2, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = RANKS_PATIENCE},
        "streams");
}

/* Each all-reduce asks there whether memory of GPUs is shared. */
static void order__behind_shm_coll(void **state)
{
    (void)state;
    run(&(struct ranks){.size = 2, .backend = "shm", .timeout_ms = RANKS_PATIENCE}, NULL);
}

/* And there all hosts. */
static void order__behind_shm_coll_of_hosts(void **state)
{
    (void)state;
    if (geteuid()) /* hosts are told apart by what is mounted over the boot ID */
        skip();
    run(&(struct ranks){.size = 4,
                        .per_host = 2,
                        .backend = "auto",
                        .devices = "127.0.0.1",
                        .timeout_ms = RANKS_PATIENCE},
        NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order__behind_a_stream),
        cmocka_unit_test(order__behind_shm_coll),
        cmocka_unit_test(order__behind_shm_coll_of_hosts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
