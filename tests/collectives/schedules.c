/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/collectives/schedules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/verifier/verifier.h"

/* Without a shape: up to so many ranks each root and collective is proved in all three ways of
 * being in place; beyond, where a proof takes long, in one of them, another for each number of
 * ranks, root and collective. */
#define ALL_IN_PLACE 32

uint32_t schedules_most_ranks(void)
{
    const char *sanitize = getenv("BRAID_SANITIZE");

    return sanitize && *sanitize ? 24 : 64;
}

void schedules_build(struct schedules *schedules, struct br_schedule_request request,
                     enum in_place in_place)
{
    schedules->n = request.n;
    schedules->of = calloc(request.n, sizeof(struct br_schedule *));
    assert_non_null(schedules->of);
    for (request.rank = 0; request.rank < request.n; request.rank++) {
        request.in_place =
            in_place == IN_PLACE_ALL || (in_place == IN_PLACE_SOME && request.rank % 3 == 1);
        if (br_algorithm_build(&request, &schedules->of[request.rank]) != 0)
            fail_msg("%s, %s, %u ranks: %s", br_algorithm_name(request.algorithm),
                     br_collective_name(request.collective), request.n, br_error_message());
    }
}

void schedules_free(struct schedules *schedules)
{
    for (uint32_t r = 0; r < schedules->n; r++)
        br_schedule_free(schedules->of[r]);
    free(schedules->of);
}

int schedules_verify(const struct schedules *schedules, uint32_t orders)
{
    return br_verify((const struct br_schedule *const *)schedules->of, orders, 1);
}

static void prove(const struct br_schedule_request *request, enum in_place in_place)
{
    struct schedules schedules;

    schedules_build(&schedules, *request, in_place);
    if (schedules_verify(&schedules, 3) != 0)
        fail_msg("%s, %s, %u ranks, root %u, in place %d, packed %d: %s",
                 br_algorithm_name(request->algorithm), br_collective_name(request->collective),
                 request->n, request->root, (int)in_place, (int)request->packed,
                 br_error_message());
    schedules_free(&schedules);
}

/* With packed messages, too, where there are some, in one of the ways of being in place. Returns
 * how many sets it has proved. */
static uint32_t prove_packed_too(struct br_schedule_request request, enum in_place in_place)
{
    prove(&request, in_place);
    request.packed = (uint32_t)in_place == request.n % 3 && br_algorithm_can_pack(&request);
    if (!request.packed)
        return 1;
    prove(&request, in_place);
    return 2;
}

uint32_t schedules_prove(enum br_algorithm algorithm, const struct br_shape *shape, uint32_t n)
{
    struct br_schedule_request request = {.algorithm = algorithm, .n = n};
    uint32_t count = 0;

    if (shape)
        request.shape = *shape;
    for (int c = 0; c < BR_COLLECTIVES; c++) {
        bool rooted = br_collective_rooted((enum br_collective)c);

        request.collective = (enum br_collective)c;
        for (request.root = 0; request.root < n; request.root += rooted ? 1 + n / 3 : n) {
            if (br_algorithm_check(&request) != 0)
                break;
            for (int i = 0; i < 3; i++)
                if (shape || n <= ALL_IN_PLACE ||
                    (n + request.root + (uint32_t)c + (uint32_t)i) % 3 == 0)
                    count += prove_packed_too(request, (enum in_place)i);
        }
    }
    return count;
}
