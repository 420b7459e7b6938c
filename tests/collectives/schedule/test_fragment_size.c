/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "collectives/schedule/fragment_size.h"
#include "collectives/schedule/schedule.h"
#include "protocol/message.h"

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
        cmocka_unit_test(fragment_count__small_is_one),
        cmocka_unit_test(fragment_count__grows_with_size),
        cmocka_unit_test(fragment_count__serial),
        cmocka_unit_test(fragment_count__fits_transfers),
        cmocka_unit_test(fragment_count__too_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
