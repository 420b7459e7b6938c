/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "training/session/group.h"

#define N 5

static const uint8_t joins[N] = {0, 1, 0, 1, 1}; /* {0, 1}, {2, 3, 4} */

static void groups__side_by_side_travel_from_where_they_are(void **state)
{
    static float up[15], down[15];
    struct br_gradient gradients[N];
    struct br_layer_group groups[N];

    (void)state;
    for (size_t l = 0, at = 0; l < N; at += ++l) /* layer l has l + 1 elements */
        gradients[l] = (struct br_gradient){.memory = &up[at], .count = l + 1};
    assert_int_equal(br_groups_buffer(gradients, N, 4, joins), 0);
    assert_int_equal(br_groups_lay_out(gradients, N, 4, joins, true, NULL, groups), 2);
    assert_ptr_equal(groups[0].memory, &up[0]);
    assert_ptr_equal(groups[1].memory, &up[3]);
    assert_int_equal(groups[1].count, 12);
    assert_int_equal(groups[1].first, 2);
    assert_int_equal(groups[1].last, 4);
    assert_false(groups[0].copied || groups[1].copied);
    assert_int_equal(groups[0].priority, 5);
    assert_int_equal(groups[1].priority, 3);
    assert_int_equal(gradients[4].group, 1);
    for (size_t l = 0, at = 0; l < N; at += ++l)
        gradients[N - 1 - l] = (struct br_gradient){.memory = &down[at], .count = l + 1};
    assert_int_equal(br_groups_lay_out(gradients, N, 4, joins, false, NULL, groups), 2);
    assert_ptr_equal(groups[1].memory, &down[0]);
    assert_ptr_equal(groups[0].memory, &down[6]);
    assert_int_equal(groups[0].priority, 0);
    assert_null(gradients[0].packed);
}

static void groups__others_go_into_the_buffer(void **state)
{
    static float own[N][8], buffer[64];
    struct br_gradient gradients[N];
    struct br_layer_group groups[N];

    (void)state;
    for (size_t l = 0; l < N; l++)
        gradients[l] = (struct br_gradient){.memory = own[l], .count = l + 1};
    assert_int_equal(br_groups_buffer(gradients, N, 4, joins), 15 * 4);
    assert_int_equal(br_groups_lay_out(gradients, N, 4, joins, false, buffer, groups), 2);
    assert_true(groups[0].copied && groups[1].copied);
    assert_ptr_equal(groups[0].memory, &buffer[0]);
    assert_ptr_equal(groups[1].memory, &buffer[3]);
    assert_ptr_equal(gradients[1].packed, &buffer[1]);
    assert_ptr_equal(gradients[4].packed, &buffer[10]);
    /* Alone a layer needs no neighbour. */
    assert_int_equal(br_groups_buffer(gradients, N, 4, (uint8_t[N]){0}), 0);
    assert_int_equal(br_groups_lay_out(gradients, N, 4, (uint8_t[N]){0}, false, NULL, groups), N);
    assert_ptr_equal(groups[3].memory, own[3]);
    /* Side by side, but not in one direction. */
    gradients[0].memory = own[0];
    gradients[1].memory = &own[0][1];
    gradients[2].memory = &own[0][3];
    assert_int_equal(br_groups_buffer(gradients, 3, 4, (uint8_t[]){0, 1, 1}), 0);
    gradients[1].memory = &own[0][4];
    gradients[2].memory = &own[0][1];
    assert_int_equal(br_groups_buffer(gradients, 3, 4, (uint8_t[]){0, 1, 1}), 6 * 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups__side_by_side_travel_from_where_they_are),
        cmocka_unit_test(groups__others_go_into_the_buffer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
