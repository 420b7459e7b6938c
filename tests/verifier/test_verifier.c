/* SPDX-License-Identifier: BSD-3-Clause */
/* The verifier must catch every planted fault; that it accepts what is right is shown by all other
 * tests. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/verifier/verifier.h"
#include "tests/collectives/schedules.h"
#include "tests/says.h"

#define RANKS 4

/* Schedules whose arrays may be written to. */
struct patient {
    struct schedules schedules;
    struct br_schedule *head; /* of the rank to break */
    struct br_step *steps;
    struct br_source *sources;
    uint32_t *successors, *ready;
};

static void admit(struct patient *p, enum br_algorithm algorithm, enum br_collective collective,
                  uint32_t n, uint32_t rank, enum in_place in_place)
{
    schedules_build(
        &p->schedules,
        (struct br_schedule_request){.collective = collective, .algorithm = algorithm, .n = n},
        in_place);
    assert_int_equal(schedules_verify(&p->schedules, 2), 0);
    p->head = p->schedules.of[rank];
    p->steps = (struct br_step *)(uintptr_t)p->head->steps;
    p->sources = (struct br_source *)(uintptr_t)p->head->sources;
    p->successors = (uint32_t *)(uintptr_t)p->head->successors;
    p->ready = (uint32_t *)(uintptr_t)p->head->ready;
}

/* The fault must be found, with the rank and these words in the message. */
static void caught(struct patient *p, const char *text)
{
    int rc = schedules_verify(&p->schedules, 4);

    if (rc != -EINVAL || !says_all(br_error_message(), text) ||
        !says_all(br_error_message(), "rank "))
        fail_msg("verifier said %d, \"%s\" instead of \"%s\"", rc, rc ? br_error_message() : "",
                 text);
    schedules_free(&p->schedules);
}

/* The blocks that steps name tell nothing. */
static void ignore_names(struct patient *p)
{
    for (uint32_t r = 0; r < p->schedules.n; r++)
        p->schedules.of[r]->by_block = false;
}

/* The first step of a kind, from `from` on. */
static uint32_t find(const struct patient *p, enum br_step_kind kind, uint32_t from)
{
    while (p->steps[from].kind != kind)
        from++;
    return from;
}

/* Cuts the edge number `cut`, as if the builder had never seen it. */
static void cut_edge(struct patient *p, uint32_t cut)
{
    uint32_t owner = 0, to = p->successors[cut], ready = 0;

    while (cut < p->steps[owner].first_successor ||
           cut >= p->steps[owner].first_successor + p->steps[owner].n_successors)
        owner++;
    p->steps[to].n_dependencies--;
    p->successors[cut] =
        p->successors[p->steps[owner].first_successor + --p->steps[owner].n_successors];
    /* The ready list has no room for one more; it gets its own memory, freed by the caller. */
    p->ready = calloc(p->head->n_steps, sizeof *p->ready);
    assert_non_null(p->ready);
    for (uint32_t i = 0; i < p->head->n_steps; i++) {
        if (p->steps[i].n_dependencies == 0)
            p->ready[ready++] = i;
    }
    p->head->n_ready = ready;
    p->head->ready = p->ready;
}

static void br_verify__an_edge_cut(void **state)
{
    static const struct {
        enum br_algorithm algorithm;
        enum br_collective collective;
        enum in_place in_place;
    } cases[] = {
        {BR_RING, BR_ALLREDUCE, IN_PLACE_ALL},
        {BR_RING, BR_ALLREDUCE, IN_PLACE_NOBODY},
        {BR_HALVING, BR_ALLREDUCE, IN_PLACE_ALL},
        {BR_DIRECT, BR_REDUCE_SCATTER, IN_PLACE_ALL},
        {BR_RING, BR_ALLGATHER, IN_PLACE_NOBODY},
        {BR_FLAT, BR_ALLREDUCE, IN_PLACE_ALL},
        {BR_TREE, BR_BROADCAST, IN_PLACE_NOBODY},
        {BR_DISSEMINATION, BR_BARRIER, IN_PLACE_NOBODY},
        {BR_HALVING, BR_BROADCAST, IN_PLACE_ALL},
        {BR_CHAIN, BR_REDUCE, IN_PLACE_SOME},
        {BR_DIRECT, BR_ALLTOALL, IN_PLACE_ALL},
        {BR_BRUCK, BR_ALLTOALL, IN_PLACE_NOBODY},
        {BR_BRUCK, BR_ALLTOALL, IN_PLACE_ALL},
        {BR_TREE, BR_GATHER, IN_PLACE_SOME},
        {BR_TREE, BR_SCATTER, IN_PLACE_NOBODY},
        {BR_DOUBLE_TREE, BR_ALLREDUCE, IN_PLACE_ALL},
        {BR_DOUBLE_TREE, BR_BROADCAST, IN_PLACE_NOBODY},
        {BR_DOUBLING, BR_ALLREDUCE, IN_PLACE_ALL},
    };
    uint32_t cuts = 0;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            uint32_t edges = 1;

            for (uint32_t cut = 0; cut < edges; cut++) {
                struct patient p;

                admit(&p, cases[i].algorithm, cases[i].collective, RANKS, rank, cases[i].in_place);
                edges = p.head->n_successors;
                if (edges == 0) {
                    schedules_free(&p.schedules);
                    break;
                }
                cut_edge(&p, cut);
                caught(&p, "order");
                free(p.ready);
                cuts++;
            }
        }
    }
    assert_true(cuts > 100);
}

static void br_verify__a_step_doubled(void **state)
{
    struct patient p;
    uint32_t send, recv;

    (void)state;
    /* The RECV takes the place of another: one message is received twice, one never. */
    admit(&p, BR_DIRECT, BR_ALLREDUCE, RANKS, 1, IN_PLACE_NOBODY);
    recv = find(&p, BR_STEP_RECV, 0);
    p.steps[find(&p, BR_STEP_RECV, recv + 1)] = p.steps[recv];
    caught(&p, "order");
    admit(&p, BR_DIRECT, BR_ALLREDUCE, RANKS, 1, IN_PLACE_NOBODY);
    send = find(&p, BR_STEP_SEND, 0);
    p.steps[find(&p, BR_STEP_SEND, send + 1)].peer = p.steps[send].peer;
    caught(&p, "of its own");
    /* One contribution is added twice. */
    admit(&p, BR_FLAT, BR_ALLREDUCE, RANKS, 3, IN_PLACE_NOBODY);
    p.sources[0] = p.sources[1];
    caught(&p, "twice");
}

static void br_verify__a_span_shifted(void **state)
{
    struct patient p;
    uint32_t send;

    (void)state;
    admit(&p, BR_RING, BR_ALLREDUCE, RANKS, 2, IN_PLACE_NOBODY);
    send = find(&p, BR_STEP_SEND, 0);
    p.steps[send].span.first = (p.steps[send].span.first + 1) % RANKS;
    caught(&p, "other pieces");
    /* Consistently wrong: the size agrees with the step, but not with the other end. */
    admit(&p, BR_RING, BR_ALLREDUCE, RANKS, 2, IN_PLACE_NOBODY);
    p.steps[send].span.first = p.steps[send].piece = (p.steps[send].piece + 1) % RANKS;
    caught(&p, "sends pieces");
    /* The wrong block, of the right size: only the values tell. */
    admit(&p, BR_DIRECT, BR_REDUCE_SCATTER, RANKS, 2, IN_PLACE_NOBODY);
    p.steps[send].span.first = (p.steps[send].span.first + 1) % RANKS;
    ignore_names(&p);
    caught(&p, "adds|chunks");
    admit(&p, BR_RING, BR_ALLREDUCE, RANKS, 0, IN_PLACE_NOBODY);
    p.steps[0].span.first = 1000;
    caught(&p, "outside|buffer");
    admit(&p, BR_RING, BR_ALLREDUCE, RANKS, 0, IN_PLACE_NOBODY);
    p.steps[0].span.count = RANKS + 1;
    caught(&p, "outside|buffer");
}

/* The sums of a scan are of the right ranks, but in another order. */
static void br_verify__a_scan_in_another_order(void **state)
{
    struct patient p;
    struct br_source *sources, lower;
    uint32_t step;

    (void)state;
    admit(&p, BR_DOUBLING, BR_SCAN, RANKS, 3, IN_PLACE_NOBODY);
    step = find(&p, BR_STEP_REDUCE, 0);
    sources = &p.sources[p.steps[step].first_source];
    lower = sources[0];
    sources[0] = sources[1];
    sources[1] = lower;
    caught(&p, "higher ranks before lower");
}

/* Right in all but the block that a step names: its size would be wrong where blocks differ. */
static void br_verify__another_block_named(void **state)
{
    static const struct {
        enum br_algorithm algorithm;
        enum br_collective collective;
        enum br_step_kind kind;
    } cases[] = {
        {BR_DIRECT, BR_ALLTOALL, BR_STEP_SEND},       {BR_DIRECT, BR_ALLTOALL, BR_STEP_RECV},
        {BR_RING, BR_REDUCE_SCATTER, BR_STEP_REDUCE}, {BR_RING, BR_ALLGATHER, BR_STEP_SEND},
        {BR_FLAT, BR_SCATTER, BR_STEP_SEND},
    };
    struct patient p;
    uint32_t step;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        admit(&p, cases[i].algorithm, cases[i].collective, RANKS, 0, IN_PLACE_NOBODY);
        assert_true(p.head->by_block);
        step = find(&p, cases[i].kind, 0);
        p.steps[step].block = (p.steps[step].block + 1) % RANKS;
        caught(&p, "another block");
    }
    admit(&p, BR_BRUCK, BR_ALLTOALL, RANKS, 0, IN_PLACE_NOBODY);
    assert_false(p.head->by_block);
    schedules_free(&p.schedules);
}

/* Blocks of one size: only the values tell whose they are. */
static void br_verify__a_block_of_or_for_another_rank(void **state)
{
    static const struct {
        enum br_algorithm algorithm;
        enum br_collective collective;
        uint32_t rank;
        enum br_step_kind kind;
    } cases[] = {
        {BR_DIRECT, BR_ALLTOALL, 1, BR_STEP_SEND}, {BR_BRUCK, BR_ALLTOALL, 1, BR_STEP_COPY},
        {BR_FLAT, BR_SCATTER, 0, BR_STEP_SEND},    {BR_TREE, BR_SCATTER, 0, BR_STEP_COPY},
        {BR_TREE, BR_GATHER, 0, BR_STEP_COPY},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct patient p;
        uint32_t step;
        struct br_span *span;

        admit(&p, cases[i].algorithm, cases[i].collective, RANKS, cases[i].rank, IN_PLACE_NOBODY);
        step = find(&p, cases[i].kind, 0);
        span = cases[i].kind == BR_STEP_SEND ? &p.steps[step].span
                                             : &p.sources[p.steps[step].first_source].span;
        if (span->buffer == BR_SCRATCH ||
            cases[i].collective == BR_GATHER) { /* the copies of two blocks change places */
            uint32_t other = find(&p, BR_STEP_COPY, step + 1);

            span = &p.steps[step].span;
            span->first ^= p.steps[other].span.first;
            p.steps[other].span.first ^= span->first;
            span->first ^= p.steps[other].span.first;
        } else {
            span->first = (span->first + 1) % RANKS;
        }
        ignore_names(&p);
        caught(&p, "OUTPUT|chunk");
    }
    /* Two messages of a flat gather change places. */
    struct patient p;
    uint32_t first, second;

    admit(&p, BR_FLAT, BR_GATHER, RANKS, 0, IN_PLACE_ALL);
    first = find(&p, BR_STEP_RECV, 0);
    second = find(&p, BR_STEP_RECV, first + 1);
    p.steps[first].span.first = p.steps[second].span.first;
    caught(&p, "order");
}

/* A message that holds other blocks than announced, or more, and a part of scratch that nobody has
 * written. */
static void br_verify__a_packed_message(void **state)
{
    struct patient p;
    uint32_t send;

    (void)state;
    admit(&p, BR_BRUCK, BR_ALLTOALL, RANKS, 1, IN_PLACE_NOBODY);
    send = find(&p, BR_STEP_SEND, 0);
    assert_int_equal(p.steps[send].span.count, 2);
    p.steps[send].span.count = 1;
    caught(&p, "sends pieces");
    admit(&p, BR_BRUCK, BR_ALLTOALL, RANKS, 1, IN_PLACE_NOBODY);
    p.head->packed = 1;
    caught(&p, "collective|rank");
    admit(&p, BR_BRUCK, BR_ALLTOALL, RANKS, 1, IN_PLACE_NOBODY);
    p.steps[send].span.count = p.head->max_span = 3;
    caught(&p, "blocks");
    admit(&p, BR_TREE, BR_GATHER, RANKS, 2, IN_PLACE_NOBODY);
    p.steps[find(&p, BR_STEP_COPY, 0)].span.first = 1;
    caught(&p, "order");
    admit(&p, BR_TREE, BR_SCATTER, RANKS, 2, IN_PLACE_NOBODY);
    p.sources[0].span.first = 1;
    caught(&p, "OUTPUT|chunk");
    admit(&p, BR_TREE, BR_GATHER, RANKS, 1, IN_PLACE_NOBODY);
    p.steps[find(&p, BR_STEP_SEND, 0)].span.buffer = BR_OUTPUT;
    caught(&p, "nobody");
}

/* A schedule that is uncut: spans of several blocks. */
static void br_verify__a_span_of_several_blocks(void **state)
{
    struct br_schedule_request request = {
        .collective = BR_REDUCE_SCATTER, .algorithm = BR_HALVING, .n = 8, .packed = true};
    struct schedules schedules;
    struct br_schedule *head;

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct br_step *step;

        schedules_build(&schedules, request, IN_PLACE_ALL);
        assert_int_equal(schedules_verify(&schedules, 1), 0);
        head = schedules.of[1];
        step = (struct br_step *)(uintptr_t)&head->steps[0];
        assert_int_equal(step->span.count, 4);
        if (i == 0)
            step->span.first--; /* the block before */
        else if (i == 1)
            head->uncut = false;
        else
            step->span.count = 5;
        assert_int_equal(schedules_verify(&schedules, 1), -EINVAL);
        assert_says(br_error_message(), i == 0   ? "rank"
                                        : i == 1 ? "head"
                                                 : "more blocks|rank 1 step 0");
        schedules_free(&schedules);
    }
}

static void br_verify__a_recv_from_the_wrong_peer(void **state)
{
    struct patient p;
    uint32_t recv;

    (void)state;
    admit(&p, BR_RING, BR_ALLREDUCE, RANKS, 2, IN_PLACE_ALL);
    recv = find(&p, BR_STEP_RECV, 0);
    p.steps[recv].peer =
        (p.steps[recv].peer + 2) % RANKS == 2 ? 3 : (p.steps[recv].peer + 2) % RANKS;
    caught(&p, "of its own");
    admit(&p, BR_RING, BR_ALLREDUCE, RANKS, 2, IN_PLACE_ALL);
    p.steps[recv].peer = 2;
    caught(&p, "peer");
    /* Two receives from one peer in the wrong order. */
    admit(&p, BR_RING, BR_ALLGATHER, RANKS, 2, IN_PLACE_ALL);
    recv = find(&p, BR_STEP_RECV, 0);
    p.steps[recv].match = 1;
    p.steps[find(&p, BR_STEP_RECV, recv + 1)].match = 0;
    ignore_names(&p);
    caught(&p, "another chunk");
}

static void br_verify__a_source_missing(void **state)
{
    struct patient p;
    uint32_t reduce;

    (void)state;
    admit(&p, BR_DIRECT, BR_ALLREDUCE, RANKS, 1, IN_PLACE_NOBODY);
    reduce = find(&p, BR_STEP_REDUCE, 0);
    p.steps[reduce].n_sources--;
    p.head->max_sources--;
    caught(&p, "final|ranks");
    admit(&p, BR_HALVING, BR_ALLREDUCE, RANKS, 1, IN_PLACE_ALL);
    p.steps[find(&p, BR_STEP_REDUCE, 0)].n_sources--;
    caught(&p, "rank");
}

static void br_verify__a_division_too_few_or_too_many(void **state)
{
    struct patient p;
    uint32_t reduce;

    (void)state;
    admit(&p, BR_RING, BR_ALLREDUCE, RANKS, 1, IN_PLACE_NOBODY);
    reduce = find(&p, BR_STEP_REDUCE, 0);
    p.steps[reduce].flags |= BR_STEP_FINAL;
    caught(&p, "final|ranks");
    admit(&p, BR_FLAT, BR_ALLREDUCE, RANKS, 1, IN_PLACE_NOBODY);
    p.steps[find(&p, BR_STEP_REDUCE, 0)].flags &= (uint8_t)~BR_STEP_FINAL;
    caught(&p, "not final");
}

static void br_verify__a_step_missing(void **state)
{
    struct patient p;

    (void)state;
    /* The last step of the ring, a RECV, is cut off together with the edges to it. */
    admit(&p, BR_RING, BR_ALLGATHER, RANKS, 3, IN_PLACE_ALL);
    assert_int_equal(p.steps[p.head->n_steps - 1].kind, BR_STEP_RECV);
    assert_int_equal(p.steps[p.head->n_steps - 1].n_dependencies, 0);
    p.head->n_steps--;
    p.head->n_recvs--;
    p.head->n_ready--;
    caught(&p, "RECV");
}

/* In place a rank's REDUCE waits for its SEND to end; mapped, that SEND waits for the other's
 * REDUCE. */
static void br_verify__a_mapping_that_deadlocks(void **state)
{
    struct patient p;

    (void)state;
    admit(&p, BR_FLAT, BR_ALLREDUCE, 2, 0, IN_PLACE_ALL);
    for (uint32_t rank = 0; rank < 2; rank++) {
        const struct br_schedule *schedule = p.schedules.of[rank];
        struct br_step *steps = (struct br_step *)(uintptr_t)schedule->steps;
        struct br_source *sources = (struct br_source *)(uintptr_t)schedule->sources;

        for (uint32_t i = 0; i < schedule->n_steps; i++) {
            if (steps[i].kind != BR_STEP_RECV)
                continue;
            assert_false(steps[i].flags & BR_STEP_MAY_MAP);
            steps[i].flags |= BR_STEP_MAY_MAP;
            for (uint32_t j = 0; j < schedule->n_sources; j++) {
                if (sources[j].span.buffer == BR_SCRATCH)
                    sources[j].recv = (int32_t)i;
            }
        }
    }
    caught(&p, "deadlock");
}

static void br_verify__a_mapping_nobody_knows_of(void **state)
{
    struct patient p;

    (void)state;
    admit(&p, BR_RING, BR_ALLREDUCE, RANKS, 0, IN_PLACE_ALL);
    assert_true(p.sources[0].recv >= 0);
    p.sources[0].recv = -1;
    caught(&p, "mapped");
}

static void br_verify__a_head_that_lies(void **state)
{
    struct patient p;

    (void)state;
    admit(&p, BR_RING, BR_ALLREDUCE, RANKS, 0, IN_PLACE_ALL);
    p.head->n_scratch = 1;
    caught(&p, "outside|buffer");
    admit(&p, BR_RING, BR_ALLREDUCE, RANKS, 1, IN_PLACE_ALL);
    p.head->max_span++;
    caught(&p, "counts");
    admit(&p, BR_RING, BR_ALLREDUCE, RANKS, 1, IN_PLACE_ALL);
    p.head->rank = 2;
    caught(&p, "collective|rank");
    admit(&p, BR_RING, BR_ALLREDUCE, RANKS, 1, IN_PLACE_ALL);
    p.head->n_ready--;
    caught(&p, "ready");
}

static void br_verify__input_is_not_written(void **state)
{
    struct patient p;

    (void)state;
    admit(&p, BR_RING, BR_ALLREDUCE, RANKS, 0, IN_PLACE_NOBODY);
    p.steps[find(&p, BR_STEP_REDUCE, 0)].span.buffer = BR_INPUT;
    caught(&p, "INPUT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_verify__an_edge_cut),
        cmocka_unit_test(br_verify__a_step_doubled),
        cmocka_unit_test(br_verify__a_span_shifted),
        cmocka_unit_test(br_verify__a_scan_in_another_order),
        cmocka_unit_test(br_verify__another_block_named),
        cmocka_unit_test(br_verify__a_block_of_or_for_another_rank),
        cmocka_unit_test(br_verify__a_packed_message),
        cmocka_unit_test(br_verify__a_span_of_several_blocks),
        cmocka_unit_test(br_verify__a_recv_from_the_wrong_peer),
        cmocka_unit_test(br_verify__a_source_missing),
        cmocka_unit_test(br_verify__a_division_too_few_or_too_many),
        cmocka_unit_test(br_verify__a_step_missing),
        cmocka_unit_test(br_verify__a_mapping_that_deadlocks),
        cmocka_unit_test(br_verify__a_mapping_nobody_knows_of),
        cmocka_unit_test(br_verify__a_head_that_lies),
        cmocka_unit_test(br_verify__input_is_not_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
