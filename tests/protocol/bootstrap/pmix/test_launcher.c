/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/bootstrap/launcher.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "protocol/bootstrap/environment.h"
#include "protocol/bootstrap/pmix/pmix.h"
#include "tests/says.h"

static uint64_t time_left; /* what the module was given */

static int place(uint64_t timeout, struct br_pmix_place *out, char *text)
{
    time_left = timeout;
    (void)text;
    *out = (struct br_pmix_place){
        .rank = 3, .size = 8, .local_rank = 1, .local_size = 2, .local_known = true};
    return 0;
}

static int place_fails(uint64_t timeout, struct br_pmix_place *out, char *text)
{
    (void)timeout;
    (void)out;
    snprintf(text, BR_PMIX_MESSAGE, "no server");
    return -ECONNREFUSED;
}

static int share(void *bytes, size_t n, uint64_t timeout, char *text)
{
    time_left = timeout;
    (void)text;
    memset(bytes, 0x77, n);
    return 0;
}

static int share_fails(void *bytes, size_t n, uint64_t timeout, char *text)
{
    (void)bytes;
    (void)n;
    (void)timeout;
    snprintf(text, BR_PMIX_MESSAGE, "nobody came");
    return -ETIMEDOUT;
}

static const struct br_pmix_module works = {BR_PMIX_VERSION, place, share},
                                   fails = {BR_PMIX_VERSION, place_fails, share_fails};

static int setup(void **state)
{
    (void)state;
    setenv("PMIX_NAMESPACE", "job", 1);
    setenv("PMIX_RANK", "3", 1);
    setenv("PMIX_SERVER_URI41", "server.0;tcp4://127.0.0.1:1", 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unsetenv("PMIX_NAMESPACE");
    unsetenv("PMIX_RANK");
    unsetenv("PMIX_SERVER_URI41");
    br_pmix_library_replace(NULL);
    return 0;
}

static void detect__needs_name_rank_and_server(void **state)
{
    static const char *const names[] = {"PMIX_NAMESPACE", "PMIX_RANK", "PMIX_SERVER_URI41"};

    (void)state;
    assert_string_equal(br_launcher_pmix.detect(), "PMIX_NAMESPACE");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        setup(NULL);
        unsetenv(names[i]);
        assert_null(br_launcher_pmix.detect());
    }
}

static void fill__takes_the_place(void **state)
{
    struct br_environment environment = {0};

    (void)state;
    br_pmix_library_replace(&works);
    assert_int_equal(br_launcher_pmix.fill(&environment, br_clock_now() + BR_SEC), 0);
    assert_int_equal(environment.rank, 3);
    assert_int_equal(environment.size, 8);
    assert_int_equal(environment.local_rank, 1);
    assert_int_equal(environment.local_size, 2);
    assert_true(environment.local_known);
    assert_true(time_left <= BR_SEC);
}

static void fill__error_is_the_module_s(void **state)
{
    struct br_environment environment = {0};

    (void)state;
    br_pmix_library_replace(&fails);
    assert_int_equal(br_launcher_pmix.fill(&environment, br_clock_now() + BR_SEC), -ECONNREFUSED);
    assert_says(br_error_message(), "no server");
}

static void share__carries_within_the_deadline(void **state)
{
    const struct br_environment environment = {.rank = 3, .size = 8};
    unsigned char bytes[16] = {0};

    (void)state;
    br_pmix_library_replace(&works);
    /* the deadline has passed: no time is left, and not 2^64 ns */
    assert_int_equal(br_launcher_pmix.share(&environment, bytes, sizeof bytes, 1), 0);
    assert_int_equal(time_left, 0);
    assert_int_equal(bytes[15], 0x77);
    br_pmix_library_replace(&fails);
    assert_int_equal(br_launcher_pmix.share(&environment, bytes, sizeof bytes, 1), -ETIMEDOUT);
    assert_says(br_error_message(), "rank 3 of 8|nobody came");
}

/* Last: a process looks for the module once. */
static void library__missing_module_says_what_to_install(void **state)
{
    struct br_environment environment = {0};

    (void)state;
    setenv("BRAID_PMIX_MODULE", "/nonexistent/braid_pmix.so", 1);
    assert_int_equal(br_launcher_pmix.fill(&environment, br_clock_now() + BR_SEC), -ENOENT);
    assert_says(br_error_message(), "PMIX_NAMESPACE|apt-get install libpmix2|/nonexistent");
    unsetenv("BRAID_PMIX_MODULE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(detect__needs_name_rank_and_server, setup, teardown),
        cmocka_unit_test_setup_teardown(fill__takes_the_place, setup, teardown),
        cmocka_unit_test_setup_teardown(fill__error_is_the_module_s, setup, teardown),
        cmocka_unit_test_setup_teardown(share__carries_within_the_deadline, setup, teardown),
        cmocka_unit_test_setup_teardown(library__missing_module_says_what_to_install, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
