/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "collectives/engine/tag_sequence.h"

static uint64_t take(struct br_tag_sequences *numbers, int peer, bool send, uint32_t tag,
                     uint32_t many)
{
    uint64_t first = 12345;

    assert_int_equal(br_tag_sequences_take(numbers, peer, send, tag, many, &first), 0);
    return first;
}

static void tag_sequences_take__counts_apart(void **state)
{
    struct br_tag_sequences numbers;

    (void)state;
    assert_int_equal(br_tag_sequences_init(&numbers), 0);
    assert_int_equal(take(&numbers, 0, false, 0, 1), 0);
    assert_int_equal(take(&numbers, 0, false, 0, 3), 1);
    assert_int_equal(take(&numbers, 0, false, 0, 1), 4);
    assert_int_equal(take(&numbers, 0, true, 0, 1), 0);
    assert_int_equal(take(&numbers, 1, false, 0, 1), 0);
    assert_int_equal(take(&numbers, 0, false, 1, 1), 0);
    assert_int_equal(numbers.grown, 0);
    br_tag_sequences_destroy(&numbers);
}

static void tag_sequences_find__counts_on(void **state)
{
    struct br_tag_sequences numbers;

    (void)state;
    assert_int_equal(br_tag_sequences_init(&numbers), 0);
    assert_null(br_tag_sequences_find(&numbers, 3, true, 9));
    assert_int_equal(take(&numbers, 3, true, 9, 2), 0);
    assert_null(br_tag_sequences_find(&numbers, 3, false, 9));
    assert_int_equal(br_tag_sequences_find(&numbers, 3, true, 9)->next++, 2);
    assert_int_equal(take(&numbers, 3, true, 9, 1), 3);
    br_tag_sequences_destroy(&numbers);
}

static void tag_sequences_take__grows_and_keeps(void **state)
{
    enum { TAGS = 5000 };
    struct br_tag_sequences numbers;

    (void)state;
    assert_int_equal(br_tag_sequences_init(&numbers), 0);
    for (uint64_t turn = 0; turn < 3; turn++)
        for (uint32_t tag = 0; tag < TAGS; tag++)
            assert_int_equal(take(&numbers, (int)(tag % 7), tag % 2, tag * 0x9e3779b1u, 1), turn);
    assert_int_equal(numbers.count, TAGS);
    assert_true(numbers.grown > 0);
    br_tag_sequences_destroy(&numbers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tag_sequences_take__counts_apart),
        cmocka_unit_test(tag_sequences_find__counts_on),
        cmocka_unit_test(tag_sequences_take__grows_and_keeps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
