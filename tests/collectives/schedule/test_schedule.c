/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "collectives/schedule/schedule.h"
#include "protocol/message.h"
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

#define CHUNK ((size_t)512 << 10)

static void fragment_count__small_is_one(void **state)
{
    (void)state;
    assert_int_equal(br_fragment_count(0, 4, 3, CHUNK, false), 1);
    assert_int_equal(br_fragment_count(1, 8, 1, CHUNK, false), 1);
    assert_int_equal(br_fragment_count(30000, 4, 1, CHUNK, false), 1);
}

/* Middle sizes are cut for the pipeline, large ones into chunks of the size asked for. */
static void fragment_count__grows_with_size(void **state)
{
    uint32_t before = 1;

    (void)state;
    for (size_t bytes = 1000; bytes < (size_t)1 << 32; bytes += bytes / 3) {
        uint32_t count = br_fragment_count(bytes, 1, 2, CHUNK, false);

        assert_true(count >= before);
        before = count;
    }
    assert_int_equal(br_fragment_count(1 << 20, 1, 2, CHUNK, false), 4);
    assert_int_equal(br_fragment_count(256 << 20, 1, 2, CHUNK, false), 256);
}

static void fragment_count__serial(void **state)
{
    (void)state;
    assert_int_equal(br_fragment_count(1 << 20, 1, 2, CHUNK, true), 1);
    assert_int_equal(br_fragment_count(4 << 20, 1, 2, CHUNK, true), 4);
}

/* No block of a fragment is longer than a transfer, whatever the pieces. */
static void fragment_count__fits_transfers(void **state)
{
    static const uint32_t pieces[] = {1, 2, 9, 64, 1000};

    (void)state;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        for (size_t elements = 1; elements < (size_t)1 << 36; elements = elements * 3 + 1) {
            uint32_t count = br_fragment_count(elements, 8, pieces[i], CHUNK, false);

            assert_true(br_piece_max(elements, count) * 8 <= BR_MAX_TRANSFER);
        }
}

static void fragment_count__too_large(void **state)
{
    (void)state;
    assert_int_equal(br_fragment_count((size_t)1 << 40, 1, 1, CHUNK, false), 65536);
    assert_int_equal(br_fragment_count(((size_t)1 << 40) + 1, 1, 1, CHUNK, false), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_piece_offset__cuts_into_near_equal_parts),
        cmocka_unit_test(br_collective_find__knows_every_name),
        cmocka_unit_test(br_span_alias__follows_the_rule_of_each_collective),
        cmocka_unit_test(fragment_count__small_is_one),
        cmocka_unit_test(fragment_count__grows_with_size),
        cmocka_unit_test(fragment_count__serial),
        cmocka_unit_test(fragment_count__fits_transfers),
        cmocka_unit_test(fragment_count__too_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
