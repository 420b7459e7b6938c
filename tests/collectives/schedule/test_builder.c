/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "collectives/schedule/builder.h"
#include "tests/says.h"

static const struct br_span input = {BR_INPUT, 0, 1}, output = {BR_OUTPUT, 0, 1};

/* A builder of rank 1 of 3, one piece a block. */
static struct br_builder *begin(enum br_collective collective, bool in_place, uint32_t pieces)
{
    struct br_builder *builder;

    assert_int_equal(br_builder_new(&builder, collective, 3, 1, 0, in_place), 0);
    br_builder_set_pieces(builder, pieces);
    return builder;
}

static struct br_schedule *finish(struct br_builder *builder)
{
    struct br_schedule *schedule = NULL;

    if (br_builder_finish(builder, &schedule) != 0)
        fail_msg("%s", br_error_message());
    return schedule;
}

static void refused(struct br_builder *builder, const char *text)
{
    struct br_schedule *schedule = NULL;

    assert_int_equal(br_builder_finish(builder, &schedule), -EINVAL);
    assert_null(schedule);
    if (!says_all(br_error_message(), text) || !says_all(br_error_message(), "rank 1"))
        fail_msg("\"%s\" instead of \"%s\"", br_error_message(), text);
}

static bool edge(const struct br_schedule *schedule, uint32_t from, uint32_t to)
{
    const struct br_step *step = &schedule->steps[from];

    for (uint32_t i = 0; i < step->n_successors; i++) {
        if (schedule->successors[step->first_successor + i] == to)
            return true;
    }
    return false;
}

static void br_builder_finish__derives_raw_war_and_waw(void **state)
{
    struct br_builder *builder = begin(BR_ALLREDUCE, false, 1);
    struct br_schedule *schedule;

    (void)state;
    br_builder_copy(builder, output, input);           /* 0 */
    br_builder_send(builder, 0, BR_LEVEL_ANY, output); /* 1 reads what 0 wrote */
    br_builder_send(builder, 2, BR_LEVEL_ANY, output); /* of 2, not ordered with 1 */
    br_builder_recv(builder, 0, BR_LEVEL_ANY, output); /* 3 overwrites what 1 and 2 read */
    br_builder_recv(builder, 2, BR_LEVEL_ANY, output); /* 4 overwrites 3 unread */
    schedule = finish(builder);
    assert_int_equal(schedule->n_successors, 5);
    assert_true(edge(schedule, 0, 1) && edge(schedule, 0, 2));
    assert_true(edge(schedule, 1, 3) && edge(schedule, 2, 3) && edge(schedule, 3, 4));
    assert_int_equal(schedule->n_ready, 1);
    assert_int_equal(schedule->ready[0], 0);
    assert_int_equal(schedule->n_sends, 2);
    assert_int_equal(schedule->n_recvs, 2);
    br_schedule_free(schedule);
}

/* In place block 1 of INPUT is OUTPUT, also in the middle of a longer span. */
static void br_builder_finish__orders_spans_of_several_blocks(void **state)
{
    struct br_builder *builder = begin(BR_REDUCE_SCATTER, true, 2);
    struct br_schedule *schedule;

    (void)state;
    br_builder_set_uncut(builder, 6);
    br_builder_send(builder, 0, BR_LEVEL_ANY, (struct br_span){BR_INPUT, 1, 3}); /* 0 */
    br_builder_recv(builder, 0, BR_LEVEL_ANY, output);                           /* 1: chunk 2 */
    br_builder_send(builder, 2, BR_LEVEL_ANY, (struct br_span){BR_INPUT, 4, 2}); /* 2: others */
    schedule = finish(builder);
    assert_int_equal(schedule->steps[0].span.buffer, BR_INPUT);
    assert_int_equal(schedule->n_successors, 1);
    assert_true(edge(schedule, 0, 1));
    assert_int_equal(schedule->packed, 6);
    br_schedule_free(schedule);
    builder = begin(BR_REDUCE_SCATTER, true, 2);
    br_builder_send(builder, 0, BR_LEVEL_ANY, (struct br_span){BR_INPUT, 1, 3});
    refused(builder, "crosses blocks");
    builder = begin(BR_REDUCE_SCATTER, true, 2);
    br_builder_set_uncut(builder, 2);
    br_builder_send(builder, 0, BR_LEVEL_ANY, (struct br_span){BR_INPUT, 1, 3});
    refused(builder, "more blocks than announced");
    builder = begin(BR_REDUCE_SCATTER, true, 2);
    br_builder_set_uncut(builder, 0);
    refused(builder, "packed");
}

static void br_builder_finish__leaves_out_implied_edges(void **state)
{
    struct br_builder *builder = begin(BR_ALLREDUCE, false, 2);
    const struct br_span both = {BR_OUTPUT, 0, 2}, second = {BR_OUTPUT, 1, 1};
    struct br_schedule *schedule;

    (void)state;
    /* 0 */
    br_builder_recv(builder, 0, BR_LEVEL_ANY, both);
    /* 1 */
    br_builder_reduce(builder, second, (struct br_span[]){second, {BR_INPUT, 1, 1}}, 2, true);
    br_builder_send(builder, 0, BR_LEVEL_ANY, both); /* 2 waits for 0 and 1, but 1 implies 0 */
    schedule = finish(builder);
    assert_true(edge(schedule, 0, 1) && edge(schedule, 1, 2));
    assert_false(edge(schedule, 0, 2));
    br_schedule_free(schedule);
}

static void br_builder_finish__counts_matches_by_pair_and_direction(void **state)
{
    struct br_builder *builder = begin(BR_ALLREDUCE, false, 1);
    struct br_schedule *schedule;

    (void)state;
    br_builder_send(builder, 0, BR_LEVEL_ANY, input);
    br_builder_send(builder, 2, BR_LEVEL_ANY, input);
    br_builder_recv(builder, 0, BR_LEVEL_ANY, output);
    br_builder_send(builder, 0, BR_LEVEL_ANY, input);
    schedule = finish(builder);
    assert_int_equal(schedule->steps[0].match, 0);
    assert_int_equal(schedule->steps[1].match, 0);
    assert_int_equal(schedule->steps[2].match, 0);
    assert_int_equal(schedule->steps[3].match, 1);
    br_schedule_free(schedule);
}

static void br_builder_finish__maps_what_only_reduces_read(void **state)
{
    struct br_builder *builder = begin(BR_ALLREDUCE, false, 1);
    struct br_span mapped, sent, mixed;
    struct br_schedule *schedule;

    (void)state;
    mapped = br_builder_recv_scratch(builder, 0, BR_LEVEL_ANY, input); /* 0 */
    sent = br_builder_recv_scratch(builder, 2, BR_LEVEL_ANY, input);   /* 1 */
    mixed = br_builder_recv_scratch(builder, 2, BR_LEVEL_ANY, input);  /* 2 */
    /* 3: nobody reads it */
    br_builder_recv_scratch(builder, 2, BR_LEVEL_ANY, input);
    br_builder_send(builder, 0, BR_LEVEL_ANY, sent);                                 /* 4 */
    br_builder_reduce(builder, output, (struct br_span[]){mapped, mixed}, 2, false); /* 5 */
    br_builder_copy(builder, output, mixed);                                         /* 6 */
    schedule = finish(builder);
    assert_int_equal(schedule->steps[0].flags, BR_STEP_MAY_MAP);
    assert_int_equal(schedule->steps[1].flags, 0);
    assert_int_equal(schedule->steps[2].flags, 0);
    assert_int_equal(schedule->steps[3].flags, 0);
    assert_int_equal(schedule->sources[schedule->steps[5].first_source].recv, 0);
    assert_int_equal(schedule->sources[schedule->steps[5].first_source + 1].recv, -1);
    br_schedule_free(schedule);
}

static void br_builder_finish__maps_nothing_where_a_send_holds_the_sum(void **state)
{
    struct br_builder *builder = begin(BR_ALLREDUCE, true, 1);
    struct br_span got;
    struct br_schedule *schedule;

    (void)state;
    br_builder_send(builder, 0, BR_LEVEL_ANY, input);
    got = br_builder_recv_scratch(builder, 0, BR_LEVEL_ANY, input);
    br_builder_reduce(builder, output, (struct br_span[]){input, got}, 2, true);
    schedule = finish(builder);
    assert_true(edge(schedule, 0, 2));
    assert_int_equal(schedule->steps[1].flags, 0);
    br_schedule_free(schedule);
}

static void br_builder_finish__calls_input_output_in_place(void **state)
{
    struct br_builder *builder = begin(BR_ALLGATHER, true, 2);
    struct br_schedule *schedule;

    (void)state;
    br_builder_copy(builder, (struct br_span){BR_OUTPUT, 2, 2},
                    (struct br_span){BR_INPUT, 0, 2}); /* no step */
    br_builder_send(builder, 0, BR_LEVEL_ANY, (struct br_span){BR_INPUT, 1, 1});
    schedule = finish(builder);
    assert_int_equal(schedule->n_steps, 1);
    assert_int_equal(schedule->steps[0].span.buffer, BR_OUTPUT);
    assert_int_equal(schedule->steps[0].span.first, 3);
    assert_int_equal(schedule->steps[0].piece, 1);
    br_schedule_free(schedule);
}

static void br_builder_finish__refuses_broken_rules(void **state)
{
    struct br_builder *builder = begin(BR_ALLGATHER, false, 2);
    struct br_span scratch;

    (void)state;
    br_builder_send(builder, 0, BR_LEVEL_ANY, (struct br_span){BR_OUTPUT, 1, 2});
    refused(builder, "crosses blocks");
    builder = begin(BR_ALLREDUCE, false, 1);
    br_builder_recv(builder, 0, BR_LEVEL_ANY, input);
    refused(builder, "INPUT");
    builder = begin(BR_REDUCE, false, 1);
    br_builder_recv(builder, 0, BR_LEVEL_ANY, output);
    refused(builder, "no OUTPUT");
    builder = begin(BR_ALLREDUCE, false, 1);
    br_builder_send(builder, 1, BR_LEVEL_ANY, input);
    refused(builder, "peer");
    builder = begin(BR_ALLREDUCE, false, 1);
    br_builder_send(builder, 0, BR_LEVEL_ANY, (struct br_span){BR_INPUT, 0, 0});
    refused(builder, "outside|buffer");
    builder = begin(BR_ALLREDUCE, false, 1);
    br_builder_send(builder, 0, BR_LEVEL_ANY, br_builder_scratch(builder, 1));
    refused(builder, "no step");
    builder = begin(BR_ALLREDUCE, false, 2);
    scratch = br_builder_recv_scratch(builder, 0, BR_LEVEL_ANY, (struct br_span){BR_INPUT, 0, 2});
    br_builder_send(builder, 2, BR_LEVEL_ANY, (struct br_span){BR_SCRATCH, scratch.first, 1});
    refused(builder, "another span");
    builder = begin(BR_ALLREDUCE, false, 2);
    br_builder_copy(builder, (struct br_span){BR_OUTPUT, 0, 1}, (struct br_span){BR_INPUT, 1, 1});
    refused(builder, "other pieces");
    builder = begin(BR_ALLREDUCE, false, 1);
    br_builder_reduce(builder, output, NULL, 0, false);
    refused(builder, "reduction");
    builder = begin(BR_ALLREDUCE, false, 0);
    refused(builder, "too many chunks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_builder_finish__derives_raw_war_and_waw),
        cmocka_unit_test(br_builder_finish__orders_spans_of_several_blocks),
        cmocka_unit_test(br_builder_finish__leaves_out_implied_edges),
        cmocka_unit_test(br_builder_finish__counts_matches_by_pair_and_direction),
        cmocka_unit_test(br_builder_finish__maps_what_only_reduces_read),
        cmocka_unit_test(br_builder_finish__maps_nothing_where_a_send_holds_the_sum),
        cmocka_unit_test(br_builder_finish__calls_input_output_in_place),
        cmocka_unit_test(br_builder_finish__refuses_broken_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
