/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/random.h"

static void random_next__is_xoshiro256starstar(void **state)
{
    /* From the state {1, 2, 3, 4}, computed by hand for the first two: rotl(2*5,7)*9 = 11520, then
     * s[1] = 0. */
    struct br_random random = {.s = {1, 2, 3, 4}};

    (void)state;
    assert_int_equal(br_random_next(&random), 11520);
    assert_int_equal(br_random_next(&random), 0);
    assert_int_equal(br_random_next(&random), 1509978240);
}

static void random_seed__same_seed_same_sequence(void **state)
{
    struct br_random a, b, c;
    int different = 0;

    (void)state;
    br_random_seed(&a, 42);
    br_random_seed(&b, 42);
    br_random_seed(&c, 43);
    for (int i = 0; i < 100; i++) {
        uint64_t next = br_random_next(&a);

        assert_true(next == br_random_next(&b));
        different += next != br_random_next(&c);
    }
    assert_true(different > 90);
}

static void random_below__reaches_all_and_only_those(void **state)
{
    struct br_random random;
    int seen[7] = {0};

    (void)state;
    br_random_seed(&random, 0);
    for (int i = 0; i < 7000; i++) {
        uint64_t x = br_random_below(&random, 7);

        assert_true(x < 7);
        seen[x]++;
    }
    for (int i = 0; i < 7; i++) {
        assert_true(seen[i] > 850);
        assert_true(seen[i] < 1150);
    }
    assert_int_equal(br_random_below(&random, 1), 0);
    assert_true(br_random_below(&random, UINT64_MAX) < UINT64_MAX);
}

static void random_unit__stays_in_its_interval(void **state)
{
    struct br_random random;
    double sum = 0;

    (void)state;
    br_random_seed(&random, 5);
    for (int i = 0; i < 10000; i++) {
        double x = br_random_unit(&random);

        assert_true(x >= 0 && x < 1);
        sum += x;
    }
    assert_true(sum > 4800 && sum < 5200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_next__is_xoshiro256starstar),
        cmocka_unit_test(random_seed__same_seed_same_sequence),
        cmocka_unit_test(random_below__reaches_all_and_only_those),
        cmocka_unit_test(random_unit__stays_in_its_interval),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
