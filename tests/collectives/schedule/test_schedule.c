/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "collectives/schedule/schedule.h"
#include "tests/says.h"

static void br_piece_offset__cuts_into_near_equal_parts(void **state)
{
    (void)state;
    for (size_t elements = 0; elements < 50; elements++) {
        for (uint32_t pieces = 1; pieces < 20; pieces++) {
            size_t room = br_piece_max(elements, pieces);

            assert_int_equal(br_piece_offset(elements, pieces, 0), 0);
            assert_int_equal(br_piece_offset(elements, pieces, pieces), elements);
            for (uint32_t p = 0; p < pieces; p++) {
                size_t size =
                    br_piece_offset(elements, pieces, p + 1) - br_piece_offset(elements, pieces, p);

                assert_true(size <= room && size + 1 >= room);
            }
        }
    }
}

static void br_collective_find__knows_every_name(void **state)
{
    enum br_collective found;

    (void)state;
    for (int c = 0; c < BR_COLLECTIVES; c++) {
        assert_int_equal(br_collective_find(br_collective_name((enum br_collective)c), &found), 0);
        assert_int_equal(found, c);
    }
    assert_int_equal(br_collective_find("alreduce", &found), -EINVAL);
    assert_says(br_error_message(), "'alreduce'");
    assert_string_equal(br_collective_name((enum br_collective)77), "?");
}

static struct br_span alias(enum br_collective collective, uint32_t rank, uint32_t chunk)
{
    const struct br_schedule schedule = {
        .collective = collective, .n = 4, .rank = rank, .root = 2, .in_place = true, .pieces = 3};

    return br_span_alias(&schedule, (struct br_span){BR_INPUT, chunk, 1});
}

static void br_span_alias__follows_the_rule_of_each_collective(void **state)
{
    (void)state;
    assert_int_equal(alias(BR_ALLREDUCE, 1, 2).buffer, BR_OUTPUT);
    assert_int_equal(alias(BR_ALLREDUCE, 1, 2).first, 2);
    assert_int_equal(alias(BR_REDUCE, 2, 0).buffer, BR_OUTPUT);
    assert_int_equal(alias(BR_REDUCE, 1, 0).buffer, BR_INPUT);
    assert_int_equal(alias(BR_ALLGATHER, 3, 1).first, 10);
    assert_int_equal(alias(BR_REDUCE_SCATTER, 3, 10).buffer, BR_OUTPUT);
    assert_int_equal(alias(BR_REDUCE_SCATTER, 3, 10).first, 1);
    assert_int_equal(alias(BR_REDUCE_SCATTER, 3, 8).buffer, BR_INPUT);
    assert_int_equal(alias(BR_BARRIER, 0, 0).buffer, BR_INPUT);
    assert_int_equal(alias(BR_ALLTOALL, 3, 7).buffer, BR_OUTPUT);
    assert_int_equal(alias(BR_ALLTOALL, 3, 7).first, 7);
    assert_int_equal(alias(BR_GATHER, 2, 1).first, 7);
    assert_int_equal(alias(BR_GATHER, 3, 1).buffer, BR_INPUT);
    assert_int_equal(alias(BR_SCATTER, 2, 7).buffer, BR_OUTPUT);
    assert_int_equal(alias(BR_SCATTER, 2, 7).first, 1);
    assert_int_equal(alias(BR_SCATTER, 1, 4).buffer, BR_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_piece_offset__cuts_into_near_equal_parts),
        cmocka_unit_test(br_collective_find__knows_every_name),
        cmocka_unit_test(br_span_alias__follows_the_rule_of_each_collective),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
