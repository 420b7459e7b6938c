/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/collectives/schedules.h"
#include "tests/says.h"

static void br_algorithm_build__is_proved_for_all_ranks(void **state)
{
    uint32_t most = schedules_most_ranks();

    (void)state;
    for (int a = 0; a < BR_ALGORITHMS; a++) {
        uint32_t count = 0;

        for (uint32_t n = 1; n <= most && a != BR_DIMENSIONAL; n++)
            count += schedules_prove((enum br_algorithm)a, NULL, n);
        assert_true((a >= BR_DIMENSIONAL && a <= BR_DISJOINT_TREES) || a == BR_HOST_TREE ||
                    a == BR_CORE_TREE || count >= 2 * most);
    }
}

static void br_algorithm_build__refuses_what_does_not_apply(void **state)
{
    static const struct {
        struct br_schedule_request request;
        const char *message;
    } cases[] = {
        {{.collective = BR_BARRIER, .algorithm = BR_RING, .n = 4}, "ring|barrier"},
        {{.collective = BR_REDUCE, .algorithm = BR_HALVING, .n = 4}, "halving|reduce"},
        {{.collective = BR_BROADCAST, .algorithm = BR_TREE, .n = 4, .root = 4}, "root 4|among 4"},
        {{.collective = BR_ALLREDUCE, .algorithm = BR_RING, .n = 0}, "among 0"},
        {{.collective = BR_ALLREDUCE, .algorithm = BR_RING, .n = 3, .rank = 3}, "rank 3|among 3"},
        {{.collective = BR_ALLREDUCE, .algorithm = BR_DIMENSIONAL, .n = 3}, "dimensions"},
        {{.collective = BR_ALLREDUCE, .algorithm = BR_HOST_TREE, .n = 4}, "hosts"},
        {{.collective = BR_COLLECTIVES, .algorithm = BR_RING, .n = 3}, "collective"},
        {{.collective = BR_ALLGATHER, .algorithm = BR_RING, .n = 4, .packed = true}, "pack|4"},
        {{.collective = BR_ALLREDUCE, .algorithm = BR_HALVING, .n = 4, .packed = true}, "pack"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct br_schedule *schedule = NULL;

        assert_int_equal(br_algorithm_build(&cases[i].request, &schedule), -EINVAL);
        assert_null(schedule);
        if (!says_all(br_error_message(), cases[i].message))
            fail_msg("\"%s\" instead of \"%s\"", br_error_message(), cases[i].message);
    }
}

/* What the choice knows without building is what is built. */
static void br_algorithm_pieces__and_packed_are_those_of_the_schedule(void **state)
{
    uint32_t count = 0;

    (void)state;
    for (int i = 0; i < BR_ALGORITHMS * BR_COLLECTIVES * 18; i++) {
        struct br_schedule_request request = {.n = 1 + (uint32_t)i % 18};
        struct br_schedule *schedule;

        request.algorithm = (enum br_algorithm)(i / 18 / BR_COLLECTIVES);
        request.collective = (enum br_collective)(i / 18 % BR_COLLECTIVES);
        if (br_algorithm_check(&request) != 0)
            continue;
        do {
            assert_int_equal(br_algorithm_build(&request, &schedule), 0);
            assert_int_equal(br_algorithm_pieces(&request), schedule->pieces);
            assert_int_equal(br_algorithm_packed(&request), schedule->packed);
            assert_int_equal(schedule->uncut, request.packed);
            br_schedule_free(schedule);
            count++;
            request.packed = !request.packed;
        } while (request.packed && br_algorithm_can_pack(&request));
        request.packed = true;
        assert_int_equal(br_algorithm_check(&request),
                         br_algorithm_can_pack(&request) ? 0 : -EINVAL);
    }
    assert_true(count > 18 * BR_ALGORITHMS);
}

static void br_algorithm_find__knows_every_name(void **state)
{
    enum br_algorithm found;

    (void)state;
    for (int a = 0; a < BR_ALGORITHMS; a++) {
        assert_int_equal(br_algorithm_find(br_algorithm_name((enum br_algorithm)a), &found), 0);
        assert_int_equal(found, a);
    }
    assert_int_equal(br_algorithm_find("server", &found), 0);
    assert_int_equal(found, BR_DIRECT);
    assert_int_equal(br_algorithm_find("rung", &found), -EINVAL);
    assert_says(br_error_message(), "'rung'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_algorithm_build__is_proved_for_all_ranks),
        cmocka_unit_test(br_algorithm_build__refuses_what_does_not_apply),
        cmocka_unit_test(br_algorithm_pieces__and_packed_are_those_of_the_schedule),
        cmocka_unit_test(br_algorithm_find__knows_every_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
