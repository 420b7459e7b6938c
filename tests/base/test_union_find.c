/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/union_find.h"
#include "base/random.h"

#define N 200

static void disjoint_join__the_smallest_is_the_root(void **state)
{
    uint32_t parent[6];

    (void)state;
    br_union_find_init(parent, 6);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(br_union_find_root(parent, i), i);
    br_union_find_join(parent, 5, 3);
    br_union_find_join(parent, 1, 4);
    br_union_find_join(parent, 4, 5);
    br_union_find_join(parent, 3, 1); /* already */
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(br_union_find_root(parent, i), i == 0 || i == 2 ? i : 1);
}

/* Against labels that are all rewritten with each merge. */
static void disjoint_join__random_merges(void **state)
{
    uint32_t parent[N], label[N];
    struct br_random random;

    (void)state;
    br_random_seed(&random, 5);
    br_union_find_init(parent, N);
    br_union_find_init(label, N);
    for (int merge = 0; merge < 150; merge++) {
        uint32_t a = (uint32_t)br_random_below(&random, N),
                 b = (uint32_t)br_random_below(&random, N);
        uint32_t low = label[a] < label[b] ? label[a] : label[b],
                 high = label[a] < label[b] ? label[b] : label[a];

        br_union_find_join(parent, a, b);
        for (uint32_t i = 0; i < N; i++)
            label[i] = label[i] == high ? low : label[i];
        for (uint32_t i = 0; i < N; i++)
            assert_int_equal(br_union_find_root(parent, i), label[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(disjoint_join__the_smallest_is_the_root),
        cmocka_unit_test(disjoint_join__random_merges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
