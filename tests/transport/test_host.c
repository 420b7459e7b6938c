/* SPDX-License-Identifier: BSD-3-Clause */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "transport/host.h"

enum { SAME, OTHER, NOT_ALLOWED };

/* What a child finds that shares this host, in a network name space of its own or not. */
static int in_child(bool apart, uint64_t mine)
{
    struct br_host host;
    int status;
    pid_t pid = fork();

    if (!pid) {
        if (apart && unshare(CLONE_NEWNET))
            _exit(NOT_ALLOWED);
        _exit(!br_host_read(&host) && br_host_number(&host) == mine ? SAME : OTHER);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void host_number__is_that_of_a_name_space(void **state)
{
    struct br_host host;
    uint64_t mine;
    int apart;

    (void)state;
    assert_int_equal(br_host_read(&host), 0);
    mine = br_host_number(&host);
    assert_true(mine);
    assert_int_equal(in_child(false, mine), SAME);
    apart = in_child(true, mine);
    if (apart == NOT_ALLOWED)
        skip();
    assert_int_equal(apart, OTHER);
}

static void host_number__is_that_of_a_boot(void **state)
{
    struct br_host host;
    uint64_t mine;

    (void)state;
    assert_int_equal(br_host_read(&host), 0);
    mine = br_host_number(&host);
    host.boot[0] ^= 1;
    assert_true(br_host_number(&host) && br_host_number(&host) != mine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_number__is_that_of_a_name_space),
        cmocka_unit_test(host_number__is_that_of_a_boot),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
