/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "collectives/tuning/port_load.h"
#include "collectives/schedule/schedule.h"
#include "protocol/message.h"

static uint32_t next(const void *n, uint32_t rank, uint32_t i)
{
    return (rank + 1 + i) % *(const uint32_t *)n;
}

/* Seconds of the busiest port when every rank sends a message, that costs a second, to the next
 * `peers` ranks. It is more than one relayed frame. */
static double busiest(const char *text, uint32_t peers, uint8_t *level)
{
    struct br_cost_model model = {.n_levels = 1, .relay = 5};
    struct br_exchange exchange = {.peer = next,
                                   .sender = BR_PORT_LOAD_ALL,
                                   .level = BR_LEVEL_ANY,
                                   .messages = 1,
                                   .bytes = 2 * BR_RELAY_PAYLOAD};
    struct br_topology t;
    struct br_port_load load;

    assert_int_equal(br_topology_parse(&t, text), 0);
    if (br_topology_levels(&t))
        model.n_levels = br_topology_levels(&t);
    for (uint32_t i = 0; i < model.n_levels; i++)
        model.levels[i] = (struct br_cost_level){.beta = 1 / exchange.bytes};
    exchange.context = &t.n;
    exchange.ranks = t.n;
    exchange.peers = peers;
    br_port_load_init(&load, &model, &t);
    br_port_load_add(&load, &model, &t, &exchange, 1);
    br_topology_destroy(&t);
    return br_port_load_busiest(&load, level);
}

static void br_port_load_add__counts_shared_and_relayed_links(void **state)
{
    uint8_t level = 7;

    (void)state;
    assert_true(busiest("9", 1, NULL) == 1);
    assert_true(busiest("9", 8, NULL) == 8);
    assert_true(busiest("hosts:2x4", 1, &level) ==
                3); /* three of four stay in the memory of a host, one leaves it */
    assert_int_equal(level, 0);
    /* each of four to four others, over one link */
    assert_true(busiest("hosts:2x4", 7, &level) == 16);
    assert_int_equal(level, 1);
    /* to each of 3 groups of 3, all but one on this level */
    assert_true(busiest("bcube:3,2", 8, NULL) == 6);
    /* More ranks than are counted one by one. To 9 over 1 link, to 27 over 2, 2 or 4, a third each,
     * to 27 over 3. */
    assert_true(fabs(busiest("bcube:4,3", 63, NULL) - 54) < 1e-9);
}

/* What all ranks do to the machine they share, in networks that are counted port by port and in
 * those of which a part is asked. */
static void br_port_load_add__counts_every_rank_for_the_machine(void **state)
{
    static const struct {
        const char *text;
        double seconds;
    } networks[] = {{"9", 9},
                    {"64", 64},
                    {"hosts:2x4", 8},
                    {"hosts:4x16", 64},
                    {"bcube:4,2", 16 + 4},
                    {"bcube:8,2", 64 + 8}};

    (void)state;
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        struct br_cost_model model = {
            .n_levels = 2,
            .machine = {
                .overhead = 0.5, .beta = 0.5, .relayed_overhead = 0.5, .relayed_beta = 0.5}};
        struct br_exchange exchange = {.peer = next,
                                       .peers = 1,
                                       .ranks = 0,
                                       .sender = BR_PORT_LOAD_ALL,
                                       .level = BR_LEVEL_ANY,
                                       .messages = 1,
                                       .bytes = 1};
        struct br_topology t;
        struct br_port_load load;
        uint8_t level;

        assert_int_equal(br_topology_parse(&t, networks[i].text), 0);
        exchange.context = &t.n;
        exchange.ranks = t.n;
        br_port_load_init(&load, &model, &t);
        br_port_load_add(&load, &model, &t, &exchange, 1);
        assert_true(fabs(br_port_load_busiest(&load, &level) - networks[i].seconds) < 1e-9);
        assert_int_equal(level, BR_COST_MACHINE_LEVEL);
        br_topology_destroy(&t);
    }
}

/* A byte that a port sends and one that it receives cost 3 together; one way a byte costs 2. */
static void br_port_load_add__counts_what_both_directions_share(void **state)
{
    static const struct {
        const char *text;
        uint32_t sender;
        double active;
        bool one_way;
        double seconds;
    } loads[] = {{"2", BR_PORT_LOAD_ALL, 0, false, 3},         {"2", 0, 0, false, 2},
                 {"2", BR_PORT_LOAD_ALL, 1, true, 2},          {"9", BR_PORT_LOAD_ALL, 8, false, 3},
                 {"9", BR_PORT_LOAD_ALL, 4, true, 2},          {"9", BR_PORT_LOAD_ALL, 4, false, 3},
                 {"bcube:2,1", BR_PORT_LOAD_ALL, 0, false, 3}, {"bcube:2,1", 1, 0, false, 2},
                 {"bcube:2,1", BR_PORT_LOAD_ALL, 1, true, 2}};
    const struct br_cost_model model = {.n_levels = 1, .levels = {{.beta = 3, .one_way = 2}}};

    (void)state;
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        struct br_exchange exchange = {.peer = next,
                                       .peers = 1,
                                       .sender = loads[i].sender,
                                       .active = loads[i].active,
                                       .one_way = loads[i].one_way,
                                       .level = BR_LEVEL_ANY,
                                       .messages = 1,
                                       .bytes = 1};
        struct br_topology t;
        struct br_port_load load;

        assert_int_equal(br_topology_parse(&t, loads[i].text), 0);
        exchange.context = &t.n;
        exchange.ranks = t.n;
        br_port_load_init(&load, &model, &t);
        br_port_load_add(&load, &model, &t, &exchange, 1);
        br_topology_destroy(&t);
        assert_true(fabs(br_port_load_busiest(&load, NULL) - loads[i].seconds) < 1e-9);
    }
}

static void br_port_load_add__takes_the_longest_way(void **state)
{
    const uint32_t n = 9;
    struct br_exchange exchange = {.peer = next,
                                   .context = &n,
                                   .peers = 8,
                                   .ranks = 9,
                                   .sender = BR_PORT_LOAD_ALL,
                                   .level = BR_LEVEL_ANY,
                                   .messages = 1,
                                   .bytes = 0};
    struct br_cost_model model = {
        .n_levels = 2, .levels = {{.alpha = 1, .beta = 1}, {.alpha = 2, .beta = 1}}, .relay = 5};
    struct br_topology t;
    struct br_port_load load;

    (void)state;
    assert_int_equal(br_topology_parse(&t, "bcube:3,2"), 0);
    br_port_load_init(&load, &model, &t);
    br_port_load_add(&load, &model, &t, &exchange, 2);
    assert_true(load.alpha == 2 * (1 + 2 + 5));
    assert_true(br_port_load_busiest(&load, NULL) == 0);
}

/* Seconds of the machine when each of n ranks on 2 cores sends to the `peers` next ones. */
static double of_cores(uint32_t n, uint32_t peers, bool by_core, bool in_memory)
{
    struct br_cost_model model = {
        .n_levels = 1, .levels = {{.overhead = 1, .beta = 1}}, .in_memory = in_memory};
    struct br_topology t;
    struct br_exchange exchange = {.peer = next,
                                   .context = &t.n,
                                   .peers = peers,
                                   .ranks = n,
                                   .sender = BR_PORT_LOAD_ALL,
                                   .level = BR_LEVEL_ANY,
                                   .messages = 1,
                                   .bytes = 9,
                                   .by_core = by_core};
    struct br_port_load load;

    br_topology_flat(&t, n);
    t.cores = 2;
    br_port_load_init(&load, &model, &t);
    br_port_load_add(&load, &model, &t, &exchange, 1);
    return load.machine;
}

/* To the next rank 6 of 8 bytes stay on a core, to all others 3 of 7: that is the mean. */
static void br_port_load_add__bytes_that_stay_on_a_core_cost_less(void **state)
{
    (void)state;
    assert_true(fabs(of_cores(8, 1, false, false) - 80) < 1e-9);
    assert_true(of_cores(8, 1, true, false) < 0.95 * 80);
    assert_true(of_cores(8, 1, true, false) > 0.8 * 80);
    assert_true(fabs(of_cores(8, 7, true, false) - 7 * 80) < 1e-6);
    assert_true(fabs(of_cores(8, 1, true, true) - 80) < 1e-9);
    /* one rank stands for all, and the next one of it is always on its core */
    assert_true(fabs(of_cores(64, 1, true, false) - 640) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_port_load_add__counts_shared_and_relayed_links),
        cmocka_unit_test(br_port_load_add__counts_every_rank_for_the_machine),
        cmocka_unit_test(br_port_load_add__counts_what_both_directions_share),
        cmocka_unit_test(br_port_load_add__takes_the_longest_way),
        cmocka_unit_test(br_port_load_add__bytes_that_stay_on_a_core_cost_less),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
