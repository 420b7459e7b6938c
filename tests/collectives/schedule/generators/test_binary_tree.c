/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule/generators/binary_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/collectives/schedules.h"
#include "tools/plan/timing.h"

#define MOST_RANKS 129

static struct br_schedule head(enum br_collective collective, uint32_t n, uint32_t rank)
{
    return (struct br_schedule){.collective = collective, .n = n, .rank = rank, .root = n / 3};
}

static bool is_child(const struct br_tree_node *place, uint32_t rank)
{
    for (uint32_t i = 0; i < place->n_children; i++) {
        if (place->children[i] == rank)
            return true;
    }
    return false;
}

/* Parents and children agree, one rank is on top, and from every rank a way of at most lg n + 1
 * edges leads there. */
static void check_tree(enum br_collective collective, uint32_t n, uint32_t tree)
{
    uint32_t tops = 0, most = br_collective_rooted(collective), children = 0;

    for (uint32_t m = n; m > 1; m /= 2)
        most++;
    for (uint32_t rank = 0; rank < n; rank++) {
        const struct br_schedule of = head(collective, n, rank);
        struct br_tree_node place = br_tree_node(&of, tree);
        uint32_t depth = 0;

        tops += place.is_root;
        children += place.n_children;
        if (place.is_root && br_collective_rooted(collective))
            assert_int_equal(rank, of.root);
        for (; !place.is_root; depth++) {
            const struct br_schedule above = head(collective, n, place.parent);
            uint32_t below = depth == 0 ? rank : UINT32_MAX;

            place = br_tree_node(&above, tree);
            assert_true(below == UINT32_MAX || is_child(&place, below));
            assert_true(depth < most);
        }
    }
    assert_int_equal(tops, 1);
    assert_int_equal(children, n - 1);
}

static void br_tree_node__makes_trees(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= MOST_RANKS; n++) {
        for (uint32_t tree = 0; tree < 2; tree++) {
            check_tree(BR_ALLREDUCE, n, tree);
            check_tree(BR_BROADCAST, n, tree);
        }
    }
}

static void br_tree_node__makes_every_rank_a_leaf_once(void **state)
{
    static const enum br_collective collectives[] = {BR_ALLREDUCE, BR_BROADCAST};

    (void)state;
    for (uint32_t n = 2; n <= MOST_RANKS; n++) {
        for (uint32_t i = 0; i < 2 * n; i++) {
            const struct br_schedule of = head(collectives[i % 2], n, i / 2);
            bool root = i % 2 == 1 && of.rank == of.root;

            if (!root)
                assert_true(br_tree_node(&of, 0).n_children == 0 ||
                            br_tree_node(&of, 1).n_children == 0);
        }
    }
}

static double seconds(enum br_algorithm algorithm, enum br_collective collective, uint32_t n)
{
    const struct br_cost_model model = {.n_levels = 1, .levels = {{.beta = 1e-9}}};
    struct br_schedule_request request = {.collective = collective, .algorithm = algorithm, .n = n};
    struct schedules schedules;
    double got;

    schedules_build(&schedules, request, IN_PLACE_ALL);
    assert_int_equal(
        br_timing_run(&model, (const struct br_schedule *const *)schedules.of, 1e9, 64, &got), 0);
    schedules_free(&schedules);
    return got;
}

/* With many fragments, in units of the time to send all once: one tree takes 2 for a broadcast, as
 * an inner rank sends to two children, and two trees between 1 and 2; in an allreduce a rank of two
 * trees has 2, of one 3. */
static void br_generate_binary_tree__two_trees_fill_the_ports(void **state)
{
    (void)state;
    for (uint32_t n = 8; n <= 24; n += 8) {
        double one = seconds(BR_BINARY_TREE, BR_BROADCAST, n),
               two = seconds(BR_DOUBLE_TREE, BR_BROADCAST, n);
        double all_one = seconds(BR_BINARY_TREE, BR_ALLREDUCE, n);
        double all_two = seconds(BR_DOUBLE_TREE, BR_ALLREDUCE, n);

        print_message("%u ranks: broadcast %.2f and %.2f, allreduce %.2f and %.2f\n", n, one, two,
                      all_one, all_two);
        assert_true(one > 1.99 && one < 2.2);
        assert_true(two > 0.99 && two < 0.75 * one);
        assert_true(all_one > 2.99 && all_two > 1.99 && all_two < 0.85 * all_one);
    }
}

static struct br_schedule_request request_of(uint32_t hosts, uint32_t per_host)
{
    return (struct br_schedule_request){
        .algorithm = BR_HOST_TREE,
        .n = hosts * per_host,
        .shape = {
            .threads = 1, .n_dimensions = 2, .dimensions = {{.size = per_host}, {.size = hosts}}}};
}

static void br_generate_host_tree__is_proved(void **state)
{
    uint32_t most = schedules_most_ranks(), count = 0;

    (void)state;
    for (uint32_t hosts = 1; hosts <= most / 2; hosts++)
        for (uint32_t per_host = 1; per_host * hosts <= most; per_host++) {
            struct br_schedule_request request = request_of(hosts, per_host);
            uint32_t proved = schedules_prove(BR_HOST_TREE, &request.shape, request.n);

            assert_int_equal(proved, hosts > 1 && per_host > 1 ? 3 : 0);
            count += proved;
        }
    assert_true(count > 2 * most);
}

/* Messages of one rank of each host to other hosts, one in each round; the others speak to their
 * own host alone. */
static void br_generate_host_tree__crosses_once_a_round(void **state)
{
    (void)state;
    for (uint32_t hosts = 2; hosts <= 9; hosts++)
        for (uint32_t per_host = 2; per_host <= 5; per_host++) {
            struct br_schedule_request request = request_of(hosts, per_host);
            uint32_t rounds = 0, core = 1, crossing = 0;

            for (; core * 2 <= hosts; core *= 2)
                rounds++;
            for (request.rank = 0; request.rank < request.n; request.rank++) {
                struct br_schedule *schedule;
                uint32_t sent = 0;

                assert_int_equal(br_algorithm_build(&request, &schedule), 0);
                for (uint32_t i = 0; i < schedule->n_steps; i++)
                    sent += schedule->steps[i].kind == BR_STEP_SEND &&
                            schedule->steps[i].peer / per_host != request.rank / per_host;
                if (!br_host_tree_node(request.rank, per_host).is_root)
                    assert_int_equal(sent, 0);
                crossing += sent;
                br_schedule_free(schedule);
            }
            assert_int_equal(crossing, core * rounds + 2 * (hosts - core));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_tree_node__makes_trees),
        cmocka_unit_test(br_tree_node__makes_every_rank_a_leaf_once),
        cmocka_unit_test(br_generate_binary_tree__two_trees_fill_the_ports),
        cmocka_unit_test(br_generate_host_tree__is_proved),
        cmocka_unit_test(br_generate_host_tree__crosses_once_a_round),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
