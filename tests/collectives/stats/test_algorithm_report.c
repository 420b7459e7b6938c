/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collectives/stats/algorithm_report.h"

static struct br_algorithm_report usages;

static void add(const char *asked, const struct br_algorithm_config *config, size_t count,
                uint64_t ns)
{
    struct br_operation op = {.collective = BR_ALLREDUCE,
                              .count = count,
                              .type = BRAID_FLOAT32,
                              .algorithm_config = config,
                              .predicted = 1e-3};

    op.fragments.count = 2;
    strcpy(op.algorithm, asked);
    br_algorithm_report_add(&usages, &op, 4, 1000, 1000 + ns);
}

static void br_algorithm_report_print__one_line_for_each_kind_and_size(void **state)
{
    const struct br_algorithm_config ring = {.algorithm = BR_RING}, flat = {.algorithm = BR_FLAT};
    struct br_topology topology;
    struct br_cost_model model;
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);

    (void)state;
    memset(&usages, 0, sizeof usages);
    br_topology_flat(&topology, 4);
    br_cost_model_on(&model, &topology, BR_COST_NETWORK, 1);
    add("", &ring, 250000, 2000000);
    add("auto", &ring, 250000, 4000000);
    add("ring", &ring, 250000, 5000000);
    add("", &flat, 2, 10000);
    assert_int_equal(usages.n, 3);
    br_algorithm_report_print(&usages, &model, stream);
    fclose(stream);
    assert_non_null(strstr(text, "1000000      4  ring                            2        1000.0  "
                                 "     3000.0  cheapest; bandwidth"));
    assert_non_null(strstr(text, "1        1000.0       5000.0  as asked for; "));
    assert_non_null(strstr(text, "8      4  flat                            1        1000.0        "
                                 " 10.0  cheapest; latency"));
    free(text);
}

static void br_algorithm_report_add__counts_what_finds_no_place(void **state)
{
    const struct br_algorithm_config ring = {.algorithm = BR_RING};

    (void)state;
    memset(&usages, 0, sizeof usages);
    for (size_t i = 0; i < BR_ALGORITHM_REPORT_ENTRIES + 5; i++)
        add("", &ring, i, 1);
    assert_int_equal(usages.n, BR_ALGORITHM_REPORT_ENTRIES);
    assert_int_equal(usages.overflowed, 5);
    add("", &ring, 3, 1);
    assert_int_equal(usages.entries[3].count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_algorithm_report_print__one_line_for_each_kind_and_size),
        cmocka_unit_test(br_algorithm_report_add__counts_what_finds_no_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
