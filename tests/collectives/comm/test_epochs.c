/* SPDX-License-Identifier: BSD-3-Clause */
/* From what the ranks miss to what is broken, and operations that wait for it. */
#include "collectives/comm/epochs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "bcube/address.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/internal.h"
#include "collectives/engine/operation.h"
#include "tests/collectives/job.h"
#include "tests/says.h"

/* What the ranks of a cube say when these NICs are out. */
static void miss(const struct br_bcube *cube, const struct br_failures *failures, uint64_t *broken)
{
    for (uint32_t host = 0; host < cube->hosts; host++)
        for (uint32_t bit = 0; bit < cube->k * (cube->n - 1); bit++) {
            uint32_t level = bit / (cube->n - 1);
            uint32_t other = br_bcube_neighbour(cube, host, level, bit % (cube->n - 1));

            if (!br_link_works(cube, failures, host, other, level))
                broken[host] |= 1ull << bit;
        }
}

static void br_epochs_failures__names_nics(void **state)
{
    struct br_failures planted = {0}, found = {0};
    struct br_bcube cube;
    uint64_t broken[9] = {0};

    (void)state;
    assert_int_equal(br_bcube_init(&cube, 3, 2), 0);
    assert_int_equal(br_epochs_failures(&cube, broken, &found), 0);
    assert_int_equal(found.count, 0);
    assert_int_equal(br_failures_add(&planted, BR_FAILURE_NIC, 4, 0), 0);
    assert_int_equal(br_failures_add(&planted, BR_FAILURE_NIC, 2, 1), 0);
    miss(&cube, &planted, broken);
    assert_int_equal(br_epochs_failures(&cube, broken, &found), 0);
    assert_int_equal(found.count, 2);
    assert_true(br_failures_has(&found, BR_FAILURE_NIC, 4, 0) &&
                br_failures_has(&found, BR_FAILURE_NIC, 2, 1));
    br_failures_destroy(&planted);
    br_failures_destroy(&found);
}

/* One end is enough; of two NICs with as many broken links, one. */
static void br_epochs_failures__of_a_link_and_a_switch(void **state)
{
    struct br_failures planted = {0}, found = {0};
    struct br_bcube cube;
    uint64_t broken[9] = {[5] = 1ull << 2};

    (void)state;
    assert_int_equal(br_bcube_init(&cube, 3, 2), 0);
    assert_int_equal(br_epochs_failures(&cube, broken, &found),
                     0); /* rank 5 misses its first neighbour of level 1 */
    assert_int_equal(found.count, 1);
    assert_false(br_link_works(&cube, &found, 5, 2, 1));
    br_failures_destroy(&found);
    memset(broken, 0, sizeof broken);
    assert_int_equal(br_failures_add(&planted, BR_FAILURE_SWITCH, 1, 0), 0);
    miss(&cube, &planted, broken);
    assert_int_equal(br_epochs_failures(&cube, broken, &found), 0);
    assert_int_equal(found.count, 2); /* the third NIC has nobody left */
    for (uint32_t host = 0; host < 9; host++)
        for (uint32_t level = 0; level < 2; level++)
            for (uint32_t i = 0; i < 2; i++) {
                uint32_t other = br_bcube_neighbour(&cube, host, level, i);

                assert_int_equal(br_link_works(&cube, &found, host, other, level),
                                 br_link_works(&cube, &planted, host, other, level));
            }
    br_failures_destroy(&planted);
    br_failures_destroy(&found);
}

static void submit(struct job *job, struct br_operation ops[2], float values[2], uint64_t view,
                   const char *algorithm)
{
    for (int r = 0; r < 2; r++) {
        values[r] = (float)r + 1;
        ops[r] = (struct br_operation){.kind = BR_OPERATION_COLLECTIVE,
                                       .collective = BR_ALLREDUCE,
                                       .send = &values[r],
                                       .recv = &values[r],
                                       .count = 1,
                                       .type = BRAID_FLOAT32,
                                       .epoch = view};
        strcpy(ops[r].algorithm, algorithm);
        job_submit(job, r, &ops[r]);
    }
}

/* Others overtake them meanwhile. */
static void br_engine_set_epoch__begins_what_has_waited(void **state)
{
    struct br_operation waits[2], goes[2], wrong[2];
    float values[3][2];
    struct job job;

    (void)state;
    job_create(&job, &(struct job_options){.n = 2, .rails = 1, .network = {.seed = 1}});
    submit(&job, waits, values[0], 1, "");
    /* there is none: an error, when its view is known */
    submit(&job, wrong, values[1], 2, "disjoint_trees");
    submit(&job, goes, values[2], 0, "");
    job_run(&job, 2);
    assert_true(values[2][0] == 3 && values[2][1] == 3);
    assert_true(values[0][0] == 1);
    for (int r = 0; r < 2; r++)
        br_engine_set_epoch(job.ranks[r].engine, br_engine_all(job.ranks[r].engine), NULL);
    job_run(&job, 4);
    assert_true(values[0][0] == 3 && values[0][1] == 3);
    for (int r = 0; r < 2; r++)
        br_engine_set_epoch(job.ranks[r].engine, br_engine_all(job.ranks[r].engine), NULL);
    job_run(&job, 6);
    assert_true(wrong[0].status < 0 && wrong[1].status == wrong[0].status);
    assert_says(wrong[0].message, "disjoint_trees");
    job_destroy(&job);
}

/* A round that begins late, as the one before has taken long, is older than what was submitted
 * after it was due. */
static void br_epochs_assign__a_round_is_as_old_as_its_cause(void **state)
{
    struct br_epochs *epochs = calloc(1, sizeof *epochs);
    struct br_context *context = calloc(1, sizeof *context);
    struct br_group group = {.size = 9};
    struct braid_comm comm = {.context = context, .size = 9, .group = &group};
    struct br_operation op = {.kind = BR_OPERATION_COLLECTIVE,
                              .collective = BR_ALLREDUCE,
                              .comm = &comm,
                              .group = &group,
                              .count = BR_EPOCHS_BYTES,
                              .type = BRAID_FLOAT32};

    (void)state;
    assert_true(context && epochs);
    context->epochs = epochs;
    context->world = &comm;
    op.order = 7;
    context->next_order = 21; /* op has waited for a stream, with others behind it */
    epochs->begun_rounds = 1; /* round 0 is under way */
    epochs->due_rounds = 1;
    br_epochs_assign(context, &op, 0);
    assert_int_equal(epochs->due_rounds, 2);
    assert_int_equal(epochs->begun_rounds, 1);
    assert_int_equal(epochs->orders[1], 8);
    assert_int_equal(context->next_order, 21);
    free(epochs);
    free(context);
}

static uint64_t oldest_order(const struct br_engine *engine)
{
    return br_container_of(engine->collectives.next, struct br_operation, node)->order;
}

/* It is the oldest, also in the engine. */
static void br_engine_submit__in_order(void **state)
{
    struct br_operation later[2], round[2];
    float values[2][2];
    struct job job;

    (void)state;
    job_create(&job, &(struct job_options){
                         .n = 2, .rails = 1, .network = {.seed = 1, .latency_ns = BR_MS}});
    for (int r = 0; r < 2; r++)
        job.ranks[r].next_order = 9;
    submit(&job, later, values[0], 0, "");
    job_step(&job);
    assert_int_equal(oldest_order(job.ranks[0].engine), 9);
    for (int r = 0; r < 2; r++)
        job.ranks[r].next_order = 4;
    submit(&job, round, values[1], 0, "");
    job_step(&job);
    assert_int_equal(oldest_order(job.ranks[0].engine), 4);
    job_run(&job, 4);
    job_destroy(&job);
}

/* Only what all ranks submit alike may make a round due. */
static void br_epochs_assign__counts_unnamed_allreduces_alone(void **state)
{
    struct br_group group = {.size = 9};
    struct br_epochs epochs = {0};
    struct br_context *context = calloc(1, sizeof *context);
    struct braid_comm comm = {.context = context, .size = 9, .group = &group};
    struct br_operation op = {
        .comm = &comm, .group = &group, .count = BR_EPOCHS_BYTES, .type = BRAID_FLOAT32};

    (void)state;
    assert_non_null(context);
    context->epochs = &epochs;
    context->world = &comm;
    for (op.kind = BR_OPERATION_SEND; op.kind <= BR_OPERATION_GET; op.kind++)
        br_epochs_assign(context, &op, 0);
    op.kind = BR_OPERATION_COLLECTIVE;
    op.collective = BR_BROADCAST;
    br_epochs_assign(context, &op, 0);
    op.collective = BR_ALLREDUCE;
    op.count = BR_DISJOINT_TREES_MIN_BYTES / 4 - 1; /* too small for a forest */
    br_epochs_assign(context, &op, 0);
    op.count = BR_EPOCHS_BYTES;
    strcpy(op.algorithm, "bml");
    br_epochs_assign(context, &op, 0);
    assert_int_equal(epochs.due_rounds, 0);
    assert_int_equal(epochs.bytes, 0);
    assert_int_equal(op.epoch, 0);
    op.algorithm[0] = 0;
    op.count = BR_EPOCHS_BYTES / 8;
    br_epochs_assign(context, &op, 0);
    assert_int_equal(epochs.bytes, BR_EPOCHS_BYTES / 2);
    free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_epochs_failures__names_nics),
        cmocka_unit_test(br_epochs_failures__of_a_link_and_a_switch),
        cmocka_unit_test(br_epochs_assign__counts_unnamed_allreduces_alone),
        cmocka_unit_test(br_epochs_assign__a_round_is_as_old_as_its_cause),
        cmocka_unit_test(br_engine_submit__in_order),
        cmocka_unit_test(br_engine_set_epoch__begins_what_has_waited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
