/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memlock.h"

/* The limit by a process status that has these capabilities. */
static uint64_t with(const char *capabilities)
{
    char root[] = "/tmp/test_memlock.XXXXXX", path[128];
    const char *const folders[] = {"proc/self", "proc", "."};
    uint64_t bytes;
    FILE *file;

    assert_non_null(mkdtemp(root));
    for (int i = 2; i-- > 0;) {
        snprintf(path, sizeof path, "%s/%s", root, folders[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    snprintf(path, sizeof path, "%s/proc/self/status", root);
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "Name:\tx\nCapInh:\tffffffffffffffff\nCapEff:\t%s\n", capabilities);
    fclose(file);
    bytes = br_memlock(root);
    unlink(path);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", root, folders[i]);
        rmdir(path);
    }
    rmdir(root);
    return bytes;
}

static void memlock__limit_and_capability(void **state)
{
    struct rlimit before, small;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
    small = (struct rlimit){.rlim_cur = 4096, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &small), 0);
    assert_int_equal(with("0000000000000000"), 4096);
    assert_true(with("0000000000004000") == UINT64_MAX);
    assert_int_equal(br_memlock("/nowhere"), 4096);
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memlock__limit_and_capability)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
