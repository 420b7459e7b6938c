/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/collectives/schedules.h"

#define MOST_RANKS 33

static void br_algorithm_build__is_proved_for_all_ranks(void **state)
{
    (void)state;
    for (int a = 0; a < BR_ALGORITHMS; a++) {
        uint32_t count = 0;

        for (uint32_t n = 1; n <= MOST_RANKS && a != BR_DIMENSIONAL; n++)
            count += schedules_prove((enum br_algorithm)a, NULL, n);
        assert_true(a == BR_DIMENSIONAL || count >= 3 * MOST_RANKS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_algorithm_build__is_proved_for_all_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
