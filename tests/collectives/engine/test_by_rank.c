/* SPDX-License-Identifier: BSD-3-Clause */
/* BRAID_ORDER_RANKS between engines over the simulator: the bits are those of one br_reduce() over
 * the ranks' values, however the elements travel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "collectives/engine/reduce.h"
#include "collectives/schedule/type.h"
#include "tests/collectives/call.h"

#define RANKS 5
#define COUNT 20011

static const enum braid_type types[] = {BRAID_FLOAT32, BRAID_FLOAT16, BRAID_BFLOAT16,
                                        BRAID_FLOAT8_E5M2, BRAID_COMPLEX128};
#define TYPES (sizeof types / sizeof *types)

/* Elements [first, first + count) of the ranks' streams, combined. */
static void combine(const struct call *c, int n, size_t first, size_t count, void *out)
{
    struct br_data data = {.seed = c->count, .type = c->type, .reduction = c->reduction};
    const void *sources[RANKS] = {NULL};

    for (int r = 0; r < n; r++) {
        void *values = malloc(count * br_type_size(c->type));

        br_data_fill(&data, r, first, values, count);
        sources[r] = values;
    }
    assert_int_equal(br_reduce(c->type, c->reduction, out, sources, n, count, n), 0);
    for (int r = 0; r < n; r++)
        free((void *)(uintptr_t)sources[r]);
}

static void run(struct job *job, struct call c)
{
    void *want = malloc(c.count * br_type_size(c.type));

    call_create(&c, job);
    for (int r = 0; r < job->n; r++) {
        call_prepare(&c, job, r);
        c.ops[r].by_rank = true;
        job_submit(job, r, &c.ops[r]);
    }
    job_run(job, job->ended + job->n);
    call_check(&c, job);
    for (int r = 0; r < job->n; r++) {
        combine(&c, job->n, c.collective == BR_REDUCE_SCATTER ? (size_t)r * c.count : 0, c.count,
                want);
        if (c.buffers[r].writes)
            assert_memory_equal(c.buffers[r].recv, want, c.count * br_type_size(c.type));
    }
    call_destroy(&c, job);
    free(want);
}

static void by_rank__same_bits(void **state)
{
    static const enum br_collective collectives[] = {BR_ALLREDUCE, BR_REDUCE, BR_REDUCE_SCATTER};
    static const char *const algorithms[] = {NULL, "direct", "flat"};
    int turn = 0;

    (void)state;
    for (int n = 3; n <= RANKS; n++) {
        struct job job;

        job_create(&job, &(struct job_options){.n = n,
                                               .rails = 1,
                                               .network = {.seed = 7, .maps = n == 4},
                                               .engine = {.chunk_bytes = 8192}});
        for (size_t t = 0; t < TYPES; t++)
            for (int k = 0; k < 3; k++)
                for (int a = 0; a < 3; a++, turn++)
                    if (a < 2 || collectives[k] != BR_REDUCE_SCATTER)
                        run(&job, (struct call){.collective = collectives[k],
                                                .algorithm = algorithms[a],
                                                .count = turn % 3 ? COUNT : 31,
                                                .type = types[t],
                                                .reduction = turn % 2 ? BRAID_AVG : BRAID_SUM,
                                                .root = collectives[k] == BR_REDUCE ? n / 2 : 0,
                                                .in_place = turn % 4 == 0});
        job_destroy(&job);
    }
}

/* Else this file proves nothing: a ring has other bits. */
static void by_rank__other_algorithms_have_other_bits(void **state)
{
    struct call c = {
        .collective = BR_ALLREDUCE, .algorithm = "ring", .count = COUNT, .type = BRAID_FLOAT32};
    float *want = malloc(COUNT * sizeof *want);
    struct job job;

    (void)state;
    job_create(&job, &(struct job_options){.n = 5, .rails = 1, .network = {.seed = 7}});
    call_submit(&c, &job);
    job_run(&job, 5);
    call_check(&c, &job);
    combine(&c, 5, 0, COUNT, want);
    assert_memory_not_equal(c.buffers[0].recv, want, COUNT * sizeof *want);
    call_destroy(&c, &job);
    job_destroy(&job);
    free(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_rank__same_bits),
        cmocka_unit_test(by_rank__other_algorithms_have_other_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
