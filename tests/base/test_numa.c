/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"
#include "base/numa.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

static void numa_nodes__at_least_one(void **state)
{
    (void)state;
    assert_true(br_numa_nodes() >= 1);
}

static void numa_node_of_interface__unknown(void **state)
{
    static const char *const names[] = {"", "lo", "no-such-interface", "..", "../..", "a/b"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(br_numa_node_of_interface(names[i]), -1);
}

static int first_cpu(void)
{
    cpu_set_t set;
    int cpu = 0;

    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    while (!CPU_ISSET((size_t)cpu, &set))
        cpu++;
    return cpu;
}

static void *pin(void *cpu)
{
    *(int *)cpu = br_numa_pin(*(int *)cpu) == 0 ? sched_getcpu() : -1;
    return (void *)(intptr_t)br_numa_cpus();
}

static void numa_pin__moves_only_its_thread(void **state)
{
    int cpu = first_cpu(), before = br_numa_cpus(), where = cpu;
    pthread_t thread;
    void *inside;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, pin, &where), 0);
    assert_int_equal(pthread_join(thread, &inside), 0);
    assert_int_equal(where, cpu);
    assert_int_equal((intptr_t)inside, 1);
    assert_int_equal(br_numa_cpus(), before);
}

static void numa_pin__bad_cpu_is_named(void **state)
{
    static const int bad[] = {-1, CPU_SETSIZE - 1, CPU_SETSIZE, 1 << 30};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        br_error(EIO, "none");
        assert_int_equal(br_numa_pin(bad[i]), -EINVAL);
        assert_non_null(strstr(br_error_message(), "CPU "));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numa_nodes__at_least_one),
        cmocka_unit_test(numa_node_of_interface__unknown),
        cmocka_unit_test(numa_pin__moves_only_its_thread),
        cmocka_unit_test(numa_pin__bad_cpu_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
