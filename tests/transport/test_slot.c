/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/slot.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/random.h"

static struct br_slot_table table;
static uint8_t place[1 << 20];

static int setup(void **state)
{
    (void)state;
    return br_slot_table_init(&table, 4);
}

static int teardown(void **state)
{
    (void)state;
    br_slot_table_destroy(&table);
    return 0;
}

static void slot_table_init__limits(void **state)
{
    struct br_slot_table other;

    (void)state;
    assert_int_equal(br_slot_table_init(&other, 0), -EINVAL);
    assert_int_equal(br_slot_table_init(&other, 65537), -EINVAL);
    assert_non_null(strstr(br_error_message(), "65537"));
    assert_int_equal(br_slot_table_init(&other, 65536), 0);
    br_slot_table_destroy(&other);
    br_slot_table_destroy(&other); /* safe on a zeroed one */
}

static void slot_table_limit__before_the_first_use(void **state)
{
    struct br_slot *slot;

    (void)state;
    br_slot_table_limit(&table, 4);
    assert_int_equal(table.n_free, 4);
    br_slot_table_limit(&table, 2);
    assert_int_equal(table.n_free, 2);
    slot = br_slot_get(&table, place, 100, 4096);
    assert_ptr_equal(br_slot_get(&table, place, 100, 4096), slot + 1);
    assert_null(br_slot_get(&table, place, 100, 4096));
    br_slot_table_limit(&table, 1); /* too late */
    assert_int_equal(table.count, 2);
}

static void slot_get__all_and_no_more(void **state)
{
    struct br_slot *slots[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        slots[i] = br_slot_get(&table, place, 100, 4096);
        assert_non_null(slots[i]);
        assert_ptr_equal(br_slot_find(&table, br_slot_number(&table, slots[i])), slots[i]);
    }
    assert_null(br_slot_get(&table, place, 100, 4096));
    br_slot_put(&table, slots[2]);
    assert_ptr_equal(br_slot_get(&table, place, 100, 4096), slots[2]);
}

static void slot_get__starts_clean(void **state)
{
    struct br_slot *slot = br_slot_get(&table, place, 100, 4096);

    (void)state;
    slot->may_map = true;
    slot->mapped = place;
    slot->n_maps = 3;
    slot->owner = place;
    slot->region = (struct br_region *)place;
    slot->reducer = (struct br_slot_reducer *)place;
    slot->arrived_direct = 1;
    assert_true(br_slot_arrive(slot, 0, 100));
    br_slot_put(&table, slot);
    slot = br_slot_get(&table, place, 200, 4096);
    assert_false(slot->may_map);
    assert_null(slot->mapped);
    assert_null(slot->owner);
    assert_null(slot->region);
    assert_null(slot->reducer);
    assert_int_equal(slot->arrived_direct, 0);
    assert_int_equal(slot->n_maps, 0);
    assert_int_equal(slot->missing, 1);
    assert_int_equal(slot->arrived[0], 0);
}

/* A number dies with br_slot_put() and does not come back for 65,535 uses of its slot. */
static void slot_put__number_dies(void **state)
{
    struct br_slot *slot = br_slot_get(&table, place, 100, 4096);
    uint32_t number = br_slot_number(&table, slot), index = number & 0xffff;

    (void)state;
    for (uint32_t i = 0; i < 65534; i++) {
        br_slot_put(&table, slot);
        assert_null(br_slot_find(&table, number));
        slot = br_slot_get(&table, place, 100, 4096);
        assert_int_equal(br_slot_number(&table, slot) & 0xffff, index);
        assert_true(br_slot_number(&table, slot) >> 16); /* generation 0 is never used */
        assert_int_not_equal(br_slot_number(&table, slot), number);
    }
}

/* What was complete stays so; what had begun to arrive has not; and the old number is known as
 * such. */
static void slot_renew__keeps_complete_slices(void **state)
{
    struct br_slot *slot = br_slot_get(&table, place, 10000, 4096), *found;
    uint32_t number = br_slot_number(&table, slot), renewed;

    (void)state;
    assert_false(br_slot_arrive(slot, 0, 4096));
    assert_false(br_slot_arrive(slot, 4096, 64));
    assert_false(br_slot_was_renewed(&table, number));
    br_slot_renew(&table, slot);
    renewed = br_slot_number(&table, slot);
    assert_null(br_slot_find(&table, number));
    assert_ptr_equal(br_slot_find(&table, renewed), slot);
    assert_true(br_slot_was_renewed(&table, number));
    assert_false(br_slot_was_renewed(&table, renewed));
    assert_false(br_slot_was_renewed(&table, number - 0x10000)); /* of the use before */
    assert_int_equal(br_slot_expect(&table, renewed, 0, 64, &found), -ESTALE);
    assert_int_equal(br_slot_expect(&table, number, 4096, 64, &found), -ESTALE);
    assert_false(br_slot_arrive(slot, 4160, 4032));
    assert_false(br_slot_arrive(slot, 8192, 1808));
    assert_true(br_slot_arrive(slot, 4096, 64));
    br_slot_put(&table, slot);
    assert_false(br_slot_was_renewed(&table, number)); /* complete, not renewed */
    br_slot_get(&table, place, 100, 4096);
    assert_false(br_slot_was_renewed(&table, number));
    assert_false(br_slot_was_renewed(&table, number | 0xffff));
}

static void slot_renew__over_the_end_of_the_generations(void **state)
{
    struct br_slot *slot = br_slot_get(&table, place, 100, 4096);
    uint32_t number;

    (void)state;
    br_slot_put(&table, slot);
    slot->generation = 0xffff;
    assert_ptr_equal(br_slot_get(&table, place, 100, 4096), slot);
    number = br_slot_number(&table, slot);
    br_slot_renew(&table, slot);
    assert_true(br_slot_number(&table, slot) >> 16);
    assert_true(br_slot_was_renewed(&table, number));
    assert_false(br_slot_was_renewed(&table, br_slot_number(&table, slot)));
}

static void slot_find__foreign_numbers(void **state)
{
    struct br_slot *slot = br_slot_get(&table, place, 100, 4096);
    uint32_t number = br_slot_number(&table, slot);

    (void)state;
    assert_null(br_slot_find(&table, number + 0x10000));
    assert_null(br_slot_find(&table, number ^ 1)); /* right generation, but nobody uses it */
    assert_null(br_slot_find(&table, (number & 0xffff0000) | 4));
    assert_null(br_slot_find(&table, (number & 0xffff0000) | 0xffff));
    assert_null(br_slot_find(&table, 0));
}

static void slot_slice_bytes__at_most_64_slices(void **state)
{
    static const uint32_t lengths[] = {1,      64,       4096,       4097,      262144,
                                       262145, 16777216, 0x7fffffff, 0xffffffff};
    static const uint32_t wishes[] = {0,     1,        4095,       4096,       4097,
                                      50000, 1u << 20, 0x7fffffff, 0xfffff001, 0xffffffff};

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (size_t k = 0; k < sizeof wishes / sizeof *wishes; k++) {
            uint32_t slice = br_slot_slice_bytes(lengths[i], wishes[k]),
                     granule = br_slot_granule_bytes(slice);

            assert_true(slice);
            assert_int_equal(granule * BR_SLOT_GRANULES, slice);
            assert_int_equal(granule % 64, 0);
            assert_in_range((lengths[i] - 1) / slice, 0, BR_SLOT_SLICES - 1);
            if (wishes[k] < 0xfffff000)
                assert_true(slice >= wishes[k]);
            assert_int_equal(br_slot_slice_bytes(lengths[i], slice), slice); /* both ends agree */
        }
    }
}

static void slot_expect__on_the_grid(void **state)
{
    struct br_slot *slot = br_slot_get(&table, place, 10000, 4096), *found = NULL;
    uint32_t number = br_slot_number(&table, slot);

    (void)state;
    assert_int_equal(slot->granule_bytes, 64);
    assert_int_equal(br_slot_expect(&table, number, 0, 4096, &found), 0);
    assert_ptr_equal(found, slot);
    assert_int_equal(br_slot_expect(&table, number, 4096 + 128, 64, &found), 0);
    assert_int_equal(br_slot_expect(&table, number, 8192, 1808, &found), 0); /* the tail */
    /* the last, short granule */
    assert_int_equal(br_slot_expect(&table, number, 9984, 16, &found), 0);
    assert_int_equal(table.bad_frames + table.stale_frames, 0);
}

static void slot_expect__bad_frames(void **state)
{
    static const struct {
        uint32_t offset, length;
    } bad[] = {{0, 0},          {0, 65},          {1, 64},           {4032, 128},
               {8192, 1807},    {8192, 1809},     {10000, 64},       {10048, 64},
               {0, 0xffffffff}, {0xffffffc0, 64}, {0xffffffc0, 128}, {64, 0xffffffc0},
               {0, 10000},      {9984, 32}};
    struct br_slot *slot = br_slot_get(&table, place, 10000, 4096), *found = NULL;
    uint32_t number = br_slot_number(&table, slot);

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(br_slot_expect(&table, number, bad[i].offset, bad[i].length, &found),
                         -EPROTO);
        assert_int_equal(table.bad_frames, i + 1);
        assert_non_null(strstr(br_error_message(), "frame ["));
    }
    assert_null(found);
    assert_int_equal(table.stale_frames, 0);
}

static void slot_expect__stale(void **state)
{
    struct br_slot *slot = br_slot_get(&table, place, 8192, 4096), *found = NULL;
    uint32_t number = br_slot_number(&table, slot);

    (void)state;
    assert_false(br_slot_arrive(slot, 0, 4096));
    /* that slice is complete */
    assert_int_equal(br_slot_expect(&table, number, 0, 64, &found), -ESTALE);
    assert_int_equal(br_slot_expect(&table, number, 4096, 64, &found), 0);
    br_slot_put(&table, slot);
    assert_int_equal(br_slot_expect(&table, number, 4096, 64, &found), -ESTALE);
    assert_int_equal(table.stale_frames, 2);
    assert_int_equal(table.bad_frames, 0);
}

static void slot_arrive__duplicates_do_not_complete(void **state)
{
    struct br_slot *slot = br_slot_get(&table, place, 5000, 4096);

    (void)state;
    assert_false(br_slot_arrive(slot, 0, 2048));
    assert_false(br_slot_arrive(slot, 0, 2048));
    assert_false(br_slot_arrive(slot, 4096, 904));
    assert_false(br_slot_arrive(slot, 4096, 904));
    assert_true(br_slot_arrive(slot, 2048, 2048));
    assert_false(br_slot_arrive(slot, 2048, 2048)); /* complete just once */
}

/* Any cut, any order: complete at the last missing frame and not before. */
static void slot_arrive__random_orders(void **state)
{
    struct br_random random;

    (void)state;
    br_random_seed(&random, 1);
    for (int round = 0; round < 500; round++) {
        uint32_t length = 1 + (uint32_t)br_random_below(&random, round % 2 ? 300 : sizeof place),
                 granules, left;
        struct br_slot *slot = br_slot_get(&table, place, length,
                                           (uint32_t)br_random_below(&random, 70000)),
                       *found;
        static uint32_t order[BR_SLOT_SLICES * BR_SLOT_GRANULES];

        granules = (length + slot->granule_bytes - 1) / slot->granule_bytes;
        assert_in_range(granules, 1, sizeof order / sizeof *order);
        for (uint32_t i = 0; i < granules; i++) {
            uint32_t k = (uint32_t)br_random_below(&random, i + 1);

            order[i] = order[k];
            order[k] = i;
        }
        for (uint32_t i = 0; i < granules; i++) {
            uint32_t offset = order[i] * slot->granule_bytes;

            left = length - offset < slot->granule_bytes ? length - offset : slot->granule_bytes;
            assert_int_equal(
                br_slot_expect(&table, br_slot_number(&table, slot), offset, left, &found), 0);
            assert_int_equal(br_slot_arrive(slot, offset, left), i == granules - 1);
        }
        br_slot_put(&table, slot);
    }
}

/* Adds up what comes for the slot in `context`, whose bytes are all 1. */
static void count_bytes(void *context, uint32_t offset, const uint8_t *bytes, uint32_t length)
{
    const struct br_slot *slot = context;

    assert_int_equal(offset % slot->granule_bytes, 0);
    assert_true(length % slot->granule_bytes == 0 || offset + length == slot->length);
    for (uint32_t i = 0; i < length; i++)
        place[offset + i] = (uint8_t)(place[offset + i] + bytes[i]);
}

/* Frames that overlap and come again, as after lost links: each byte counts once. */
static void slot_reduce__each_byte_once(void **state)
{
    static uint8_t ones[1 << 20];
    struct br_random random;

    (void)state;
    br_random_seed(&random, 8);
    memset(ones, 1, sizeof ones);
    for (int round = 0; round < 200; round++) {
        uint32_t length = 1 + (uint32_t)br_random_below(&random, round % 2 ? 9000 : sizeof ones),
                 granules;
        struct br_slot *slot =
            br_slot_get(&table, NULL, length, 1u << (12 + br_random_below(&random, 7)));
        struct br_slot_reducer reducer = {count_bytes, slot};

        memset(place, 0, length);
        assert_true(br_slot_set_reducer(slot, &reducer));
        granules = slot->slice_bytes / slot->granule_bytes;
        while (slot->missing) {
            uint32_t slice = (uint32_t)__builtin_ctzll(slot->missing) * slot->slice_bytes;
            uint32_t from =
                slice + (uint32_t)br_random_below(&random, granules) * slot->granule_bytes;
            uint32_t most = length < slice + slot->slice_bytes ? length : slice + slot->slice_bytes,
                     end;

            if (from >= most)
                continue;
            end = from + (1 + (uint32_t)br_random_below(&random, granules)) * slot->granule_bytes;
            end = end < most ? end : most;
            br_slot_reduce(slot, from, ones, end - from);
            if (br_random_below(&random, 2)) /* else its link is lost before anybody hears of it */
                (void)br_slot_arrive(slot, from, end - from);
        }
        assert_memory_equal(place, ones, length);
        br_slot_put(&table, slot);
    }
}

static void slot_set_reducer__only_before_the_first_byte(void **state)
{
    struct br_slot *slot = br_slot_get(&table, place, 10000, 4096);
    struct br_slot_reducer reducer = {count_bytes, slot};

    (void)state;
    assert_false(br_slot_arrive(slot, 4096, 64));
    assert_false(br_slot_set_reducer(slot, &reducer));
    assert_false(br_slot_arrive(slot, 4096, 4096));
    assert_false(br_slot_set_reducer(slot, &reducer));
    assert_null(slot->reducer);
    slot = br_slot_get(&table, place, 10000, 4096);
    slot->n_maps = 1;
    assert_false(br_slot_set_reducer(slot, &reducer));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest cases[] = {
        CASE(slot_table_init__limits),
        CASE(slot_table_limit__before_the_first_use),
        CASE(slot_get__all_and_no_more),
        CASE(slot_get__starts_clean),
        CASE(slot_put__number_dies),
        CASE(slot_find__foreign_numbers),
        CASE(slot_slice_bytes__at_most_64_slices),
        CASE(slot_expect__on_the_grid),
        CASE(slot_expect__bad_frames),
        CASE(slot_expect__stale),
        CASE(slot_arrive__duplicates_do_not_complete),
        CASE(slot_arrive__random_orders),
        CASE(slot_reduce__each_byte_once),
        CASE(slot_set_reducer__only_before_the_first_byte),
        CASE(slot_renew__keeps_complete_slices),
        CASE(slot_renew__over_the_end_of_the_generations),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
