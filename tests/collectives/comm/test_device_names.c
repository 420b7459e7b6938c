/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "collectives/comm/device_names.h"
#include "tests/says.h"
#include "transport/interface.h"

static struct br_interface host[] = {
    {.name = "lo", .up = true, .loopback = true},
    {.name = "eth0", .up = true},
    {.name = "eth1", .up = true},
    {.name = "eth10", .up = true},
    {.name = "eth2", .up = false},
    {.name = "docker0", .up = true},
    {.name = "ib0", .up = true},
};
#define N (int)(sizeof host / sizeof *host)

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++)
        host[i].address.any.sa_family = AF_INET;
    return 0;
}

/* What the words mean; whether they were replaced in *expanded. */
static const char *meaning(const char *words, bool *expanded)
{
    static char names[512];

    snprintf(names, sizeof names, "%s", words);
    assert_int_equal(br_device_names_expand(host, N, names, sizeof names, expanded), 0);
    return names;
}

static void device_names_expand__what_stays(void **state)
{
    static const char *const words[] = {
        "", "eth0", "eth1,eth0", "lo,127.0.0.2", "lo,lo", "fd00::1", "mlx5_0", "nowhere9", "eth2",
    };
    bool expanded;

    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        assert_string_equal(meaning(words[i], &expanded), words[i]);
        assert_false(expanded);
    }
}

static void device_names_expand__as_nccl_does(void **state)
{
    static const char *const words[][2] = {
        {"eth", "eth0,eth1,eth10"},
        {"ib,eth1", "ib0,eth1"},
        {"^docker,lo", "eth0,eth1,eth10,ib0"},
        {"^docker", "eth0,eth1,eth10,ib0"},
        {"^=eth1,docker0", "eth0,eth10,ib0"},
        {"^eth,docker,ib", "lo"},
    };
    bool expanded;

    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        assert_string_equal(meaning(words[i][0], &expanded), words[i][1]);
        assert_true(expanded);
    }
    assert_string_equal(meaning("=eth1,eth0", &expanded), "eth1,eth0");
    assert_false(expanded);
    assert_string_equal(meaning("=eth", &expanded), "eth"); /* which there is not: said later */
}

static void device_names_expand__what_means_nothing(void **state)
{
    char names[512] = "^eth,docker,ib,lo", few[12] = "eth";
    bool expanded;

    (void)state;
    assert_int_equal(br_device_names_expand(host, N, names, sizeof names, &expanded), -ENODEV);
    assert_says(br_error_message(), "BRAID_DEVICES|eth10|lo");
    assert_int_equal(br_device_names_expand(host, N, few, sizeof few, &expanded), -EINVAL);
    for (int i = 0; i < 4; i++) {
        snprintf(names, sizeof names, "%s", (const char *const[]){"^", "=", "^=", ", ,"}[i]);
        assert_int_equal(br_device_names_expand(host, N, names, sizeof names, &expanded), -EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(device_names_expand__what_stays, setup),
        cmocka_unit_test_setup(device_names_expand__as_nccl_does, setup),
        cmocka_unit_test_setup(device_names_expand__what_means_nothing, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
