/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "tools/plan/show.h"
#include "tests/collectives/schedules.h"

static uint32_t count(const char *text, const char *part)
{
    uint32_t n = 0;

    for (; (text = strstr(text, part)); text++)
        n++;
    return n;
}

static char *draw(struct br_schedule_request request)
{
    struct schedules schedules;
    char *text;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    assert_non_null(stream);
    schedules_build(&schedules, request, IN_PLACE_ALL);
    assert_int_equal(br_show_dot((const struct br_schedule *const *)schedules.of, stream), 0);
    fclose(stream);
    schedules_free(&schedules);
    return text;
}

/* BML of BCube(3,2): four rounds of 9 * 4 messages, half of them on each level. */
static void br_show_dot__draws_every_rank_and_message(void **state)
{
    struct br_schedule_request request = {.algorithm = BR_DIMENSIONAL, .n = 9};
    char *text;

    (void)state;
    request.shape =
        (struct br_shape){.n_dimensions = 2,
                          .threads = 2,
                          .dimensions = {{3, BR_METHOD_DIRECT, 0}, {3, BR_METHOD_DIRECT, 1}}};
    text = draw(request);
    assert_non_null(strstr(text, "18 pieces a block, 4 rounds"));
    assert_int_equal(count(text, ">rank "), 9);
    assert_int_equal(count(text, "tooltip"), 9 * 4 * 4);
    assert_int_equal(count(text, "3 pieces from"), 9 * 4 * 2);
    assert_int_equal(count(text, "[color=\"#1f6fb4\""), 9 * 4 * 2);
    assert_int_equal(count(text, "level 1</font>"), 1);
    assert_int_equal(count(text, "level 2</font>"), 0);
    assert_non_null(strstr(text, "r0w0:s -> r1w1:n"));
    assert_non_null(strstr(text, "r0w3:s -> r6w4:n"));
    assert_int_equal(count(text, "{"), count(text, "}"));
    /* complete sums: a rank's piece of each thread */
    assert_int_equal(count(text, "<b>&Sigma;</b>"), 18);
    free(text);
}

/* A message is in the round after the last one that it needs: a chain of 5 has 4, whoever is the
 * root. */
static void br_show_dot__puts_messages_into_rounds(void **state)
{
    char *text;

    (void)state;
    text = draw((struct br_schedule_request){
        .collective = BR_BROADCAST, .algorithm = BR_CHAIN, .n = 5, .root = 3});
    assert_non_null(strstr(text, "1 piece a block, 4 rounds"));
    assert_non_null(strstr(text, "r3w0:s -> r4w1:n"));
    assert_non_null(strstr(text, "r1w3:s -> r2w4:n"));
    free(text);
    text = draw(
        (struct br_schedule_request){.collective = BR_ALLTOALL, .algorithm = BR_DIRECT, .n = 4});
    assert_non_null(strstr(text, "a block, 1 round>"));
    free(text);
}

static void br_show_dot__says_when_it_cannot_write(void **state)
{
    struct br_schedule_request request = {.algorithm = BR_RING, .n = 2};
    struct schedules schedules;
    FILE *stream = fopen("/dev/full", "w");

    (void)state;
    assert_non_null(stream);
    schedules_build(&schedules, request, IN_PLACE_NOBODY);
    assert_int_equal(br_show_dot((const struct br_schedule *const *)schedules.of, stream), -EIO);
    fclose(stream);
    schedules_free(&schedules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_show_dot__draws_every_rank_and_message),
        cmocka_unit_test(br_show_dot__puts_messages_into_rounds),
        cmocka_unit_test(br_show_dot__says_when_it_cannot_write),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
