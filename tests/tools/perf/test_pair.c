/* SPDX-License-Identifier: BSD-3-Clause */
/* What two sides do together is in tests/system/test_perf.sh. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/says.h"
#include "tools/perf/pair.h"

static void br_pair_validate__sees_what_did_not_arrive(void **state)
{
    uint8_t memory[4096] = {0};
    struct br_pair pair = {.other = 1, .in = {.memory = memory, .host = memory, .gpu = -1}};

    (void)state;
    assert_int_equal(br_pair_validate(&pair, sizeof memory), -EIO);
    assert_says(br_error_message(), "4096 bytes|offset 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_pair_validate__sees_what_did_not_arrive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
