/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/available.h"

static char root[] = "/tmp/test_available.XXXXXX";

/* A file below root, with the folders that it needs. */
static void put(const char *name, const char *text)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = path + strlen(root); (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int setup(void **state)
{
    (void)state;
    strcpy(root + strlen(root) - 6, "XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static void expect(uint64_t bytes, const char *word)
{
    const char *limit;

    assert_int_equal(br_available_memory(root, &limit), bytes);
    assert_non_null(strstr(limit, word));
}

static void available_memory__nothing_is_known(void **state)
{
    (void)state;
    expect(UINT64_MAX, "MemAvailable");
}

static void available_memory__of_the_machine(void **state)
{
    (void)state;
    put("proc/meminfo",
        "MemTotal:       4000 kB\nMemFree:         10 kB\nMemAvailable:    1000 kB\n");
    expect(1000 << 10, "MemAvailable");
    put("proc/self/cgroup", "0::/user/job\n"); /* without a limit */
    put("sys/fs/cgroup/user/job/memory.max", "max\n");
    put("sys/fs/cgroup/user/job/memory.current", "4096\n");
    expect(1000 << 10, "MemAvailable");
}

static void available_memory__limit_of_a_cgroup(void **state)
{
    (void)state;
    put("proc/meminfo", "MemAvailable:    1000 kB\n");
    put("proc/self/cgroup", "0::/user/job\n");
    put("sys/fs/cgroup/user/job/memory.max", "500000\n");
    put("sys/fs/cgroup/user/job/memory.current", "200000\n");
    put("sys/fs/cgroup/user/job/memory.stat", "anon 1\nshmem 70000\ninactive_file 50000\n");
    expect(350000, "cgroup");
    put("sys/fs/cgroup/user/job/memory.current", "600000\n");
    expect(0, "cgroup");
}

static void available_memory__limit_of_an_old_cgroup(void **state)
{
    (void)state;
    put("proc/meminfo", "MemAvailable:    1000 kB\n");
    put("proc/self/cgroup", "8:pids:/\n4:memory:/hidden/by/the/container\n0::/\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "90000\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "20000\n");
    expect(70000, "cgroup");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    expect(1000 << 10, "MemAvailable");
}

/* The limit of a process whose status has these capabilities. */
static uint64_t memlock_with(const char *capabilities)
{
    char status[128];

    snprintf(status, sizeof status, "Name:\tx\nCapInh:\tffffffffffffffff\nCapEff:\t%s\n",
             capabilities);
    put("proc/self/status", status);
    return br_memlock(root);
}

static void memlock__limit_and_capability(void **state)
{
    struct rlimit before, small;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
    small = (struct rlimit){.rlim_cur = 4096, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &small), 0);
    assert_int_equal(memlock_with("0000000000000000"), 4096);
    assert_true(memlock_with("0000000000004000") == UINT64_MAX);
    assert_int_equal(br_memlock("/nowhere"), 4096);
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(available_memory__nothing_is_known, setup, teardown),
        cmocka_unit_test_setup_teardown(available_memory__of_the_machine, setup, teardown),
        cmocka_unit_test_setup_teardown(available_memory__limit_of_a_cgroup, setup, teardown),
        cmocka_unit_test_setup_teardown(available_memory__limit_of_an_old_cgroup, setup, teardown),
        cmocka_unit_test_setup_teardown(memlock__limit_and_capability, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
