/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/random.h"
#include "protocol/queue.h"

#define NEVER UINT64_MAX /* a starvation bound that no entry reaches */

/* What leaves next where there is one queue. */
static struct br_queued *head_of(const struct br_queue *queue, uint64_t now, uint64_t bound)
{
    struct br_queued *starved = br_queue_starved(queue, now, bound);

    return starved ? starved : br_queue_first(queue);
}

static struct br_queued *next(struct br_queue *queue, uint64_t now, uint64_t bound)
{
    struct br_queued *head = head_of(queue, now, bound);

    if (head)
        br_queue_remove(head);
    return head;
}

static void first__of_an_empty_queue(void **state)
{
    struct br_queue queue;

    (void)state;
    br_queue_init(&queue);
    assert_null(head_of(&queue, 0, NEVER));
}

static void first__most_urgent(void **state)
{
    struct br_queued items[5];
    static const int32_t priorities[5] = {0, 7, INT32_MIN, 3, INT32_MAX};
    static const int order[5] = {4, 1, 3, 0, 2};
    struct br_queue queue;

    (void)state;
    br_queue_init(&queue);
    for (int i = 0; i < 5; i++) {
        br_queued_init(&items[i], priorities[i], (uint64_t)i, 0);
        br_queue_insert(&queue, &items[i], 0);
    }
    for (int i = 0; i < 5; i++)
        assert_ptr_equal(next(&queue, 0, NEVER), &items[order[i]]);
    assert_null(head_of(&queue, 0, NEVER));
}

/* Of one priority the older operation goes first, also when it is queued later (its READY came
 * later). */
static void first__older_operation(void **state)
{
    struct br_queued items[3];
    static const uint64_t orders[3] = {20, 30, 10};
    struct br_queue queue;

    (void)state;
    br_queue_init(&queue);
    for (int i = 0; i < 3; i++) {
        br_queued_init(&items[i], 1, orders[i], 0);
        br_queue_insert(&queue, &items[i], 0);
    }
    assert_ptr_equal(next(&queue, 0, NEVER), &items[2]);
    assert_ptr_equal(next(&queue, 0, NEVER), &items[0]);
    assert_ptr_equal(next(&queue, 0, NEVER), &items[1]);
}

/* Of one operation the earlier step goes first; of an older operation every step. */
static void first__earlier_step(void **state)
{
    struct br_queued items[4];
    static const uint64_t orders[4] = {6, 5, 5, 6}, steps[4] = {1, 9, 2, 0};
    static const int expected[4] = {2, 1, 3, 0};
    struct br_queue queue;

    (void)state;
    br_queue_init(&queue);
    for (int i = 0; i < 4; i++) {
        br_queued_init(&items[i], 1, orders[i], steps[i]);
        br_queue_insert(&queue, &items[i], 0);
    }
    for (int i = 0; i < 4; i++)
        assert_ptr_equal(next(&queue, 0, NEVER), &items[expected[i]]);
}

/* The transfers of one operation (fragments) leave in the order in which they were queued. */
static void first__equal_entries_in_order_of_arrival(void **state)
{
    struct br_queued items[8];
    struct br_queue queue;

    (void)state;
    br_queue_init(&queue);
    for (int i = 0; i < 8; i++) {
        br_queued_init(&items[i], 1, 5, 0);
        br_queue_insert(&queue, &items[i], 0);
    }
    for (int i = 0; i < 8; i++)
        assert_ptr_equal(next(&queue, 0, NEVER), &items[i]);
}

static void first__random_entries_are_sorted(void **state)
{
    static struct br_queued items[500];
    struct br_random random;
    struct br_queued *last = NULL, *item;
    struct br_queue queue;
    int n = 0;

    (void)state;
    br_random_seed(&random, 5);
    br_queue_init(&queue);
    for (int i = 0; i < 500; i++) {
        br_queued_init(&items[i], (int32_t)(br_random_next(&random) % 7) - 3,
                       br_random_next(&random) % 50, br_random_next(&random) % 3);
        br_queue_insert(&queue, &items[i], 0);
    }
    for (; (item = next(&queue, 0, NEVER)); n++, last = item)
        assert_false(last && br_queued_before(item, last));
    assert_int_equal(n, 500);
}

/* An entry that is never the most urgent one waits for the bound, is served once, and then waits
 * for the bound again. */
static void starved__waits_for_its_next_turn(void **state)
{
    struct br_queued urgent, patient;
    uint64_t last = 0;
    struct br_queue queue;
    int turns = 0;

    (void)state;
    br_queue_init(&queue);
    br_queued_init(&urgent, 9, 1, 0);
    br_queued_init(&patient, 0, 0, 0);
    br_queue_insert(&queue, &urgent, 0);
    br_queue_insert(&queue, &patient, 0);
    for (uint64_t now = 0; now < 1000; now++) {
        struct br_queued *head = head_of(&queue, now, 100);

        if (head == &patient) {
            assert_in_range(now - last, 101, 102);
            last = now;
            turns++;
        }
        br_queue_served(head, now);
    }
    assert_int_equal(turns, 9);
}

/* Of several starved entries the one that waits longest goes first, whatever their priorities
 * are. */
static void starved__in_order_of_their_last_turn(void **state)
{
    struct br_queued a, b, c;
    struct br_queue queue;

    (void)state;
    br_queue_init(&queue);
    br_queued_init(&a, 1, 0, 0);
    br_queued_init(&b, 2, 0, 0);
    br_queued_init(&c, 3, 0, 0);
    br_queue_insert(&queue, &a, 10);
    br_queue_insert(&queue, &b, 20);
    br_queue_insert(&queue, &c, 30);
    assert_ptr_equal(head_of(&queue, 110, 100), &c); /* exactly the bound: nobody is starved yet */
    assert_ptr_equal(head_of(&queue, 111, 100), &a);
    br_queue_served(&a, 111);
    assert_ptr_equal(head_of(&queue, 121, 100), &b);
    br_queue_served(&b, 121);
    assert_ptr_equal(head_of(&queue, 122, 100), &c);
}

/* However long they wait: else each of many equal transfers gets a frame in turn, and all end
 * together. */
static void starved__equal_entries_do_not_take_turns(void **state)
{
    struct br_queued items[8];
    struct br_queue queue;
    uint64_t now = 0;

    (void)state;
    br_queue_init(&queue);
    for (int i = 0; i < 8; i++) {
        br_queued_init(&items[i], 1, (uint64_t)i, 0);
        br_queue_insert(&queue, &items[i], 0);
    }
    for (int i = 0; i < 8; i++) {
        for (int frame = 0; frame < 4; frame++) {
            now += 50;
            assert_ptr_equal(head_of(&queue, now, 100), &items[i]);
            br_queue_served(&items[i], now);
        }
        br_queue_remove(&items[i]);
    }
}

/* A priority that has waited as long sends its first, once, whoever of it has come when, or
 * gone. */
static void starved__the_first_of_a_priority(void **state)
{
    struct br_queued urgent, items[3];
    struct br_queue queue;

    (void)state;
    br_queue_init(&queue);
    br_queued_init(&urgent, 9, 0, 0);
    br_queue_insert(&queue, &urgent, 0);
    for (int i = 0; i < 3; i++)
        br_queued_init(&items[i], 1, (uint64_t)i, 0);
    br_queue_insert(&queue, &items[1], 0);
    br_queue_insert(&queue, &items[2], 10);
    br_queue_insert(&queue, &items[0], 20);
    br_queue_served(&urgent, 50);
    assert_ptr_equal(head_of(&queue, 101, 100), &items[0]);
    br_queue_served(&items[2], 101); /* another of it left, as the first could not */
    assert_ptr_equal(head_of(&queue, 102, 100), &urgent);
    br_queue_served(&urgent, 150);
    br_queue_remove(&items[0]);
    assert_ptr_equal(head_of(&queue, 201, 100), &urgent);
    assert_ptr_equal(head_of(&queue, 202, 100), &items[1]);
    br_queue_remove(&items[1]);
    assert_ptr_equal(head_of(&queue, 202, 100), &items[2]);
    br_queue_remove(&items[2]);
    assert_ptr_equal(head_of(&queue, 1000, 100), &urgent);
}

/* A clock that reads less than at the last turn (another thread's turn) starves nobody. */
static void starved__time_may_stand_still(void **state)
{
    struct br_queued low, high;
    struct br_queue queue;

    (void)state;
    br_queue_init(&queue);
    br_queued_init(&low, 0, 0, 0);
    br_queued_init(&high, 1, 0, 0);
    br_queue_insert(&queue, &low, 500);
    br_queue_insert(&queue, &high, 500);
    assert_ptr_equal(head_of(&queue, 400, 10), &high);
}

static void remove__is_safe_when_not_queued(void **state)
{
    struct br_queued item;
    struct br_queue queue;

    (void)state;
    br_queue_init(&queue);
    br_queued_init(&item, 0, 0, 0);
    br_queue_remove(&item);
    br_queue_insert(&queue, &item, 0);
    br_queue_remove(&item);
    br_queue_remove(&item);
    assert_null(head_of(&queue, 1000, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first__of_an_empty_queue),
        cmocka_unit_test(first__most_urgent),
        cmocka_unit_test(first__older_operation),
        cmocka_unit_test(first__earlier_step),
        cmocka_unit_test(first__equal_entries_in_order_of_arrival),
        cmocka_unit_test(first__random_entries_are_sorted),
        cmocka_unit_test(starved__waits_for_its_next_turn),
        cmocka_unit_test(starved__in_order_of_their_last_turn),
        cmocka_unit_test(starved__equal_entries_do_not_take_turns),
        cmocka_unit_test(starved__the_first_of_a_priority),
        cmocka_unit_test(starved__time_may_stand_still),
        cmocka_unit_test(remove__is_safe_when_not_queued),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
