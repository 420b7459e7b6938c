/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/list.h"

struct item {
    int number;
    struct br_list node;
};

/* The numbers in the list as decimal digits of one number: 1,2,3 -> 123. */
static int digits(const struct br_list *head)
{
    int all = 0;

    br_list_for_each (node, head) {
        all = all * 10 + br_container_of(node, struct item, node)->number;
    }
    return all;
}

static void list_push__keeps_order(void **state)
{
    struct item items[3] = {{.number = 1}, {.number = 2}, {.number = 3}};
    struct br_list head;

    (void)state;
    br_list_init(&head);
    assert_true(br_list_empty(&head));
    br_list_push_back(&head, &items[1].node);
    br_list_push_back(&head, &items[2].node);
    br_list_push_front(&head, &items[0].node);
    assert_int_equal(digits(&head), 123);
    assert_false(br_list_empty(&head));
}

static void list_insert_before__goes_between(void **state)
{
    struct item items[3] = {{.number = 1}, {.number = 2}, {.number = 3}};
    struct br_list head;

    (void)state;
    br_list_init(&head);
    br_list_push_back(&head, &items[0].node);
    br_list_push_back(&head, &items[2].node);
    br_list_insert_before(&items[2].node, &items[1].node);
    assert_int_equal(digits(&head), 123);
}

static void list_remove__is_safe_twice_and_inside_a_loop(void **state)
{
    struct item items[4] = {{.number = 1}, {.number = 2}, {.number = 3}, {.number = 4}};
    struct br_list head;

    (void)state;
    br_list_init(&head);
    for (int i = 0; i < 4; i++)
        br_list_push_back(&head, &items[i].node);
    br_list_for_each_safe (node, &head) {
        if (br_container_of(node, struct item, node)->number % 2 == 0)
            br_list_remove(node);
    }
    assert_int_equal(digits(&head), 13);
    br_list_remove(&items[1].node);
    assert_int_equal(digits(&head), 13);
}

static void list_pop_front__ends_with_null(void **state)
{
    struct item items[2] = {{.number = 1}, {.number = 2}};
    struct br_list head;

    (void)state;
    br_list_init(&head);
    br_list_push_back(&head, &items[0].node);
    br_list_push_back(&head, &items[1].node);
    assert_ptr_equal(br_list_pop_front(&head), &items[0].node);
    assert_ptr_equal(br_list_pop_front(&head), &items[1].node);
    assert_null(br_list_pop_front(&head));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list_push__keeps_order),
        cmocka_unit_test(list_insert_before__goes_between),
        cmocka_unit_test(list_remove__is_safe_twice_and_inside_a_loop),
        cmocka_unit_test(list_pop_front__ends_with_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
