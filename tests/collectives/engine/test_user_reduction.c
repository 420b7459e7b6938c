/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/engine/user_reduction.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collectives/schedule/type.h"
#include "tests/collectives/call.h"

/* x -> a x + b modulo 2^32: composing these is associative and not commutative, and exact. */
struct map {
    uint32_t a, b;
};
_Static_assert(sizeof(struct map) == 8, "as long as a uint64");

static struct map compose(struct map f, struct map g)
{
    return (struct map){f.a * g.a, f.a * g.b + f.b};
}

struct seen {
    size_t calls, elements, unaligned;
};

static void compose_all(void *context, const void *in, void *inout, size_t count,
                        enum braid_type type)
{
    struct seen *seen = context;
    const struct map *f = in;
    struct map *g = inout;

    assert_int_equal(type, BRAID_UINT64);
    assert_true(br_user_reduction_runs);
    for (size_t i = 0; i < count; i++)
        g[i] = compose(f[i], g[i]);
    seen->calls++;
    seen->elements += count;
    seen->unaligned += (uintptr_t)in % 64 || (uintptr_t)inout % 64;
}

static struct map value(size_t i, int rank)
{
    return (struct map){(uint32_t)(2 * i + 3 * (size_t)rank + 1),
                        (uint32_t)(i * 7 + (size_t)rank * 11)};
}

static struct map expected(size_t i, int n)
{
    struct map all = value(i, 0);

    for (int r = 1; r < n; r++)
        all = compose(all, value(i, r));
    return all;
}

static void br_user_reduce__left_to_right_in_blocks(void **state)
{
    enum { COUNT = 1100, SOURCES = 4 };
    static uint8_t room[SOURCES][COUNT * sizeof(struct map) + 16];
    const void *sources[SOURCES];
    struct seen seen = {0};
    struct br_user_reduction user = {compose_all, &seen, false};

    (void)state;
    for (int dst = 0; dst < SOURCES; dst++) { /* is one of the sources */
        for (int s = 0; s < SOURCES; s++) {
            sources[s] = room[s] + 1 + s;
            for (size_t i = 0; i < COUNT; i++) {
                struct map v = value(i, s);

                memcpy(room[s] + 1 + s + i * sizeof v, &v, sizeof v);
            }
        }
        br_user_reduce(&user, BRAID_UINT64, room[dst] + 1 + dst, sources, SOURCES, COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            struct map want = expected(i, SOURCES);

            assert_memory_equal(room[dst] + 1 + dst + i * sizeof want, &want, sizeof want);
        }
    }
    assert_false(br_user_reduction_runs);
    assert_int_equal(seen.elements, SOURCES * COUNT * (SOURCES - 1));
    assert_true(seen.calls > SOURCES * (SOURCES - 1));
    assert_int_equal(seen.unaligned, 0);
}

static void br_user_reduce__one_source_is_copied(void **state)
{
    struct seen seen = {0};
    struct br_user_reduction user = {compose_all, &seen, false};
    struct map from = {5, 6}, to = {0, 0};

    (void)state;
    br_user_reduce(&user, BRAID_UINT64, &to, (const void *[]){&from}, 1, 1);
    assert_memory_equal(&to, &from, sizeof to);
    assert_int_equal(seen.calls, 0);
}

/* One call of all ranks, whose values depend on their order. */
static void run(struct job *job, struct call c)
{
    struct seen seen = {0};

    c.type = BRAID_UINT64;
    call_create(&c, job);
    for (int r = 0; r < job->n; r++) {
        struct br_operation *op = &c.ops[r];
        size_t blocks = c.collective == BR_REDUCE_SCATTER ? (size_t)job->n : 1;

        call_prepare(&c, job, r);
        op->reduction = BRAID_REDUCTION_USER;
        op->user = (struct br_user_reduction){compose_all, &seen, false};
        op->by_rank = true;
        for (size_t i = 0; i < c.count * blocks; i++)
            ((struct map *)(uintptr_t)op->send)[i] = value(i, r);
        job_submit(job, r, op);
    }
    job_run(job, job->ended + job->n);
    for (int r = 0; r < job->n; r++) {
        const struct map *got = c.ops[r].recv;
        size_t first = c.collective == BR_REDUCE_SCATTER ? (size_t)r * c.count : 0;

        assert_int_equal(c.ops[r].status, 0);
        for (size_t i = 0; i < c.count && c.buffers[r].writes; i++) {
            struct map want = expected(first + i, job->n);

            assert_memory_equal(&got[i], &want, sizeof want);
        }
    }
    assert_true(seen.calls > 0);
    call_destroy(&c, job);
}

static void user_reduction__not_commutative(void **state)
{
    static const size_t counts[] = {1, 7, 1001, 30011};

    (void)state;
    for (int n = 2; n <= 7; n++) {
        struct job job;

        job_create(&job, &(struct job_options){.n = n,
                                               .rails = 2,
                                               .network = {.seed = 3, .maps = n % 2},
                                               .engine = {.chunk_bytes = 4096}});
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            struct call c = {.count = counts[i], .in_place = i % 2};

            c.collective = BR_ALLREDUCE;
            run(&job, c);
            c.algorithm = "flat";
            run(&job, c);
            c.algorithm = "direct";
            run(&job, c);
            c.collective = BR_REDUCE_SCATTER;
            run(&job, c);
            c.collective = BR_REDUCE;
            c.root = n - 1;
            run(&job, c);
            c.algorithm = "flat";
            run(&job, c);
        }
        job_destroy(&job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_user_reduce__left_to_right_in_blocks),
        cmocka_unit_test(br_user_reduce__one_source_is_copied),
        cmocka_unit_test(user_reduction__not_commutative),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
