/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "collectives/show.h"
#include "tests/collectives/schedules.h"

static void br_show_text__tells_each_step(void **state)
{
    struct br_schedule_request request = {.algorithm = BR_RING, .n = 2};
    struct schedules schedules;
    char *text;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    (void)state;
    assert_non_null(stream);
    schedules_build(&schedules, request, IN_PLACE_NOBODY);
    assert_int_equal(br_show_text(schedules.of[0], stream), 0);
    fclose(stream);
    assert_string_equal(text, "allreduce, rank 0 of 2: 2 pieces a block, 1 scratch chunks, 5 steps\n"
                              "   0  send in[1] to 1\n"
                              "   1  recv scratch[0] from 1, may map  -> 2\n"
                              "   2  reduce out[0] = scratch[0] + in[0], final  -> 3\n"
                              "   3  send out[0] to 1\n"
                              "   4  recv out[1] from 1\n");
    free(text);
    schedules_free(&schedules);
}

static uint32_t count(const char *text, const char *part)
{
    uint32_t n = 0;

    for (; (text = strstr(text, part)); text++)
        n++;
    return n;
}

static void br_show_dot__draws_every_rank_and_message(void **state)
{
    struct br_schedule_request request = {.algorithm = BR_DIRECT, .n = 3};
    struct schedules schedules;
    char *text;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    (void)state;
    assert_non_null(stream);
    schedules_build(&schedules, request, IN_PLACE_ALL);
    assert_int_equal(br_show_dot((const struct br_schedule *const *)schedules.of, stream), 0);
    fclose(stream);
    assert_int_equal(count(text, "subgraph"), 3);
    assert_int_equal(count(text, "dashed"), 12);
    assert_int_equal(count(text, "{"), count(text, "}"));
    free(text);
    schedules_free(&schedules);
}

static void br_show_text__says_when_it_cannot_write(void **state)
{
    struct br_schedule_request request = {.algorithm = BR_RING, .n = 2};
    struct schedules schedules;
    FILE *stream = fopen("/dev/full", "w");

    (void)state;
    assert_non_null(stream);
    schedules_build(&schedules, request, IN_PLACE_NOBODY);
    assert_int_equal(br_show_text(schedules.of[0], stream), -EIO);
    fclose(stream);
    schedules_free(&schedules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_show_text__tells_each_step),
        cmocka_unit_test(br_show_dot__draws_every_rank_and_message),
        cmocka_unit_test(br_show_text__says_when_it_cannot_write),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
