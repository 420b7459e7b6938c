/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tools/demo/values.h"

#define COUNT 5003 /* no whole number of blocks */
#define RANKS 9

static float sum[COUNT], one[COUNT];

static void add_up(struct br_demo_values which)
{
    memset(sum, 0, sizeof sum);
    for (int r = 0; r < RANKS; r++) {
        br_demo_fill(which, r, one, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            sum[i] += one[i];
    }
}

static void wrong__finds_none_in_the_sum_and_every_change(void **state)
{
    struct br_demo_values which = {3, 7};

    (void)state;
    add_up(which);
    assert_int_equal(br_demo_wrong(which, RANKS, sum, COUNT), 0);
    sum[0] += 1;
    sum[4999] -= 1;
    sum[COUNT - 1] = 0;
    assert_int_equal(br_demo_wrong(which, RANKS, sum, COUNT), 3);
}

/* A rank that is missing, a buffer or a filling that was mixed up: nearly every value shows it. */
static void wrong__tells_ranks_buffers_and_fillings_apart(void **state)
{
    struct br_demo_values which = {3, 7};

    (void)state;
    add_up(which);
    assert_true(br_demo_wrong(which, RANKS - 1, sum, COUNT) > COUNT * 9 / 10);
    which.buffer++;
    assert_true(br_demo_wrong(which, RANKS, sum, COUNT) > COUNT * 9 / 10);
    which = (struct br_demo_values){4, 7};
    assert_true(br_demo_wrong(which, RANKS, sum, COUNT) > COUNT * 9 / 10);
}

/* Below 2^24 / BR_DEMO_RANKS, so that float32 sums are exact in any order. */
static void fill__values_are_small_whole_numbers(void **state)
{
    (void)state;
    br_demo_fill((struct br_demo_values){1, 1}, 5, one, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(one[i] >= 0 && one[i] < (1 << 24) / BR_DEMO_RANKS);
        assert_true(one[i] == (float)(int)one[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong__finds_none_in_the_sum_and_every_change),
        cmocka_unit_test(wrong__tells_ranks_buffers_and_fillings_apart),
        cmocka_unit_test(fill__values_are_small_whole_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
