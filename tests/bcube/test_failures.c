/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"
#include "base/random.h"
#include "bcube/failures.h"

#include <errno.h>
#include <string.h>

/* Against a plain array of flags, through many additions, some of them twice. */
static void failures_add__keeps_all_others(void **state)
{
    enum { KINDS = 3, LEVELS = 3, NUMBERS = 20 };
    bool present[KINDS][LEVELS][NUMBERS] = {0};
    struct br_failures failures = {0};
    struct br_random random;

    (void)state;
    br_random_seed(&random, 1);
    for (int i = 0; i < 1000; i++) {
        uint32_t kind = (uint32_t)br_random_below(&random, KINDS),
                 level = (uint32_t)br_random_below(&random, LEVELS);
        uint32_t number = (uint32_t)br_random_below(&random, NUMBERS);
        uint32_t count = 0;

        assert_int_equal(br_failures_add(&failures, (enum br_failure)kind, number, level), 0);
        present[kind][level][number] = true;
        for (uint32_t a = 0; a < KINDS; a++)
            for (uint32_t b = 0; b < LEVELS; b++)
                for (uint32_t c = 0; c < NUMBERS; c++) {
                    count += present[a][b][c];
                    if (br_failures_has(&failures, (enum br_failure)a, c, b) != present[a][b][c])
                        fail_msg("step %d: kind %u level %u number %u", i, a, b, c);
                }
        assert_int_equal(failures.count, count);
    }
    br_failures_destroy(&failures);
    assert_int_equal(failures.count, 0);
}

static void failures_add__bad(void **state)
{
    struct br_failures failures = {0};

    (void)state;
    assert_int_equal(br_failures_add(&failures, BR_FAILURE_NIC, 65536, 0), -EINVAL);
    assert_non_null(strstr(br_error_message(), "65535"));
    assert_int_equal(br_failures_add(&failures, BR_FAILURE_NIC, 0, 16), -EINVAL);
    assert_int_equal(failures.count, 0);
    br_failures_destroy(&failures);
}

/* BCube(3,2): what each kind of failure takes away from host 5 = [1,2]. */
static void link_works__by_kind(void **state)
{
    struct br_failures failures = {0};
    struct br_bcube cube;

    (void)state;
    assert_int_equal(br_bcube_init(&cube, 3, 2), 0);
    assert_true(br_link_works(&cube, NULL, 5, 4, 0));
    assert_true(br_link_works(&cube, &failures, 5, 4, 0));

    assert_int_equal(br_failures_add(&failures, BR_FAILURE_NIC, 4, 0), 0);
    assert_false(br_link_works(&cube, &failures, 5, 4, 0));
    assert_false(br_link_works(&cube, &failures, 4, 5, 0));
    assert_true(br_link_works(&cube, &failures, 5, 3, 0));
    assert_true(br_link_works(&cube, &failures, 4, 7, 1));
    br_failures_destroy(&failures);

    assert_int_equal(br_failures_add(&failures, BR_FAILURE_SWITCH, 1, 0), 0);
    assert_false(br_link_works(&cube, &failures, 5, 4, 0));
    assert_false(br_link_works(&cube, &failures, 5, 3, 0));
    assert_true(br_link_works(&cube, &failures, 1, 2, 0));
    assert_true(br_link_works(&cube, &failures, 5, 8, 1));
    br_failures_destroy(&failures);

    assert_int_equal(br_failures_add(&failures, BR_FAILURE_HOST, 5, 0), 0);
    assert_false(br_host_works(&failures, 5));
    assert_false(br_link_works(&cube, &failures, 5, 4, 0));
    assert_false(br_link_works(&cube, &failures, 8, 5, 1));
    br_failures_destroy(&failures);

    failures.missing_from = 5;
    assert_false(br_link_works(&cube, &failures, 5, 4, 0));
    assert_true(br_link_works(&cube, &failures, 4, 3, 0));
    assert_false(br_nic_works(&cube, &failures, 8, 1));
    br_failures_destroy(&failures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_add__keeps_all_others),
        cmocka_unit_test(failures_add__bad),
        cmocka_unit_test(link_works__by_kind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
