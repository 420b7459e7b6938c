/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/slot_view.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SLOTS 256
#define BYTES 4096

static struct br_slot_table table;
static struct br_slot_view *view;
static uint8_t place[BYTES];

static int setup(void **state)
{
    (void)state;
    return br_slot_table_init(&table, SLOTS) || br_slot_view_open(&table, &view);
}

static int teardown(void **state)
{
    (void)state;
    br_slot_view_close(view);
    assert_null(table.views);
    br_slot_table_destroy(&table);
    return 0;
}

static void slot_view_open__finds_slots_that_are_in_use(void **state)
{
    struct br_slot *slot = br_slot_get(&table, place, BYTES, BYTES);
    struct br_slot_view *second;

    (void)state;
    assert_int_equal(br_slot_view_open(&table, &second), 0);
    assert_ptr_equal(br_slot_view_find(second, br_slot_number(&table, slot)), slot);
    br_slot_view_settle(second);
    br_slot_view_close(second);
    assert_ptr_equal(br_slot_view_find(view, br_slot_number(&table, slot)), slot);
    br_slot_view_settle(view);
}

static void slot_view_find__only_the_present_number(void **state)
{
    struct br_slot *slot = br_slot_get(&table, place, BYTES, BYTES);
    uint32_t number = br_slot_number(&table, slot);

    (void)state;
    assert_ptr_equal(br_slot_view_find(view, number), slot);
    assert_null(br_slot_view_find(view, number + 0x10000));
    assert_null(br_slot_view_find(view, number + 1));
    assert_null(br_slot_view_find(view, number & 0xffff)); /* the number of no use */
    assert_null(br_slot_view_find(view, 5));
    assert_null(br_slot_view_find(view, 0x10000 + SLOTS));
    assert_null(br_slot_view_find(view, UINT32_MAX));
    br_slot_view_settle(view);
    br_slot_renew(&table, slot);
    assert_null(br_slot_view_find(view, number));
    assert_ptr_equal(br_slot_view_find(view, br_slot_number(&table, slot)), slot);
    br_slot_view_settle(view);
    br_slot_put(&table, slot);
    assert_null(br_slot_view_find(view, number + 0x10000));
    br_slot_view_settle(view);
}

/* Through the table that a device gets. */
static void slot_expect__asks_the_view(void **state)
{
    struct br_slot *slot = br_slot_get(&table, place, BYTES, BYTES), *found = NULL;
    uint32_t number = br_slot_number(&table, slot);

    (void)state;
    assert_int_equal(br_slot_expect(&view->face, number, 0, BYTES, &found), 0);
    assert_ptr_equal(found, slot);
    assert_int_equal(br_slot_expect(&view->face, number, 1, 64, &found), -EPROTO);
    assert_int_equal(br_slot_expect(&view->face, number + 1, 0, 64, &found), -ESTALE);
    br_slot_view_settle(view);
    assert_true(br_slot_arrive(slot, 0, BYTES));
    assert_int_equal(br_slot_expect(&view->face, number, 0, BYTES, &found), -ESTALE);
    br_slot_view_settle(view);
    assert_int_equal(view->face.stale_frames, 2);
    assert_int_equal(view->face.bad_frames, 1);
    assert_int_equal(table.stale_frames + table.bad_frames, 0);
}

/* More slots in one poll than are listed one by one: all are unmarked, or putting one would never
 * end. */
static void slot_view_settle__many_slots(void **state)
{
    struct br_slot_table large = {0};
    struct br_slot_view *of_large;
    enum { MANY = 64 * (BR_SLOT_VIEW_MARKS + 3) };
    static struct br_slot *slots[MANY];

    (void)state;
    assert_int_equal(br_slot_table_init(&large, MANY), 0);
    assert_int_equal(br_slot_view_open(&large, &of_large), 0);
    for (int i = 0; i < MANY; i++)
        slots[i] = br_slot_get(&large, place, BYTES, BYTES);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++)
            assert_non_null(br_slot_view_find(of_large, br_slot_number(&large, slots[i])));
        br_slot_view_settle(of_large);
    }
    for (int i = 0; i < MANY; i++)
        br_slot_put(&large, slots[i]);
    br_slot_view_close(of_large);
    br_slot_table_destroy(&large);
}

/* What the thread of a device does, all the time, for the number that it was told. */
static struct writer {
    _Atomic uint32_t number;
    _Atomic uint64_t polls, writes;
    _Atomic bool stop;
} writer;

static void *write_all_the_time(void *argument)
{
    (void)argument;
    for (uint8_t value = 0; !writer.stop; value++) {
        struct br_slot *slot = br_slot_view_find(view, writer.number);

        if (slot) {
            memset(slot->base, value, slot->length);
            writer.writes++;
        }
        br_slot_view_settle(view);
        writer.polls++;
        sched_yield();
    }
    return NULL;
}

static void wait_for(const _Atomic uint64_t *count, uint64_t more)
{
    for (uint64_t until = *count + more; *count < until;)
        sched_yield();
}

/* The memory is the user's again, and ThreadSanitizer sees that it is. */
static void slot_put__no_byte_is_written_afterwards(void **state)
{
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, write_all_the_time, NULL), 0);
    for (int i = 0; i < 50; i++) {
        struct br_slot *slot;

        memset(place, 0xee, BYTES);
        slot = br_slot_get(&table, place, BYTES, BYTES);
        writer.number = br_slot_number(&table, slot);
        wait_for(&writer.writes, 1);
        br_slot_put(&table, slot);
        memset(place, 0xaa, BYTES);
        wait_for(&writer.polls, 2);
        for (int k = 0; k < BYTES; k++)
            assert_int_equal(place[k], 0xaa);
    }
    writer.stop = true;
    pthread_join(thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(slot_view_open__finds_slots_that_are_in_use, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(slot_view_find__only_the_present_number, setup, teardown),
        cmocka_unit_test_setup_teardown(slot_expect__asks_the_view, setup, teardown),
        cmocka_unit_test_setup_teardown(slot_view_settle__many_slots, setup, teardown),
        cmocka_unit_test_setup_teardown(slot_put__no_byte_is_written_afterwards, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
