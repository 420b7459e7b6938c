/* SPDX-License-Identifier: BSD-3-Clause */
/* Notifications wait in order, each group's apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "collectives/engine/notifications.h"

static void takes(struct br_notifications *q, uint32_t group, int rank, uint64_t value)
{
    uint64_t v;
    int r;

    assert_true(br_notifications_take(q, group, &r, &v));
    assert_int_equal(r, rank);
    assert_int_equal(v, value);
}

/* Many rounds through the ring, and more than fit into it at first. */
static void notifications_take__in_order(void **state)
{
    struct br_notifications q = {0};
    uint64_t in = 0, out = 0, v;
    int r;

    (void)state;
    assert_false(br_notifications_take(&q, 0, &r, &v));
    for (int round = 1; round < 60; round++) {
        for (int i = 0; i < round * 17; i++, in++)
            assert_int_equal(br_notifications_add(&q, 0, (int)(in % 7), in), 0);
        for (int i = 0; i < round * 16; i++, out++)
            takes(&q, 0, (int)(out % 7), out);
    }
    for (; out < in; out++)
        takes(&q, 0, (int)(out % 7), out);
    assert_false(br_notifications_take(&q, 0, &r, &v));
    assert_int_equal(q.added, in);
    assert_true(q.grown > 0);
    br_notifications_destroy(&q);
}

static void notifications_take__groups_are_apart(void **state)
{
    struct br_notifications q = {0};
    uint64_t v;
    int r;

    (void)state;
    for (uint64_t i = 0; i < 300; i++)
        assert_int_equal(br_notifications_add(&q, (uint32_t)(i % 3), 5, i), 0);
    for (uint64_t i = 0; i < 300; i += 3)
        takes(&q, 2, 5, i + 2);
    br_notifications_forget(&q, 1);
    assert_false(br_notifications_take(&q, 1, &r, &v));
    for (uint64_t i = 0; i < 300; i += 3)
        takes(&q, 0, 5, i);
    assert_int_equal(q.n, 0);
    br_notifications_destroy(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notifications_take__in_order),
        cmocka_unit_test(notifications_take__groups_are_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
