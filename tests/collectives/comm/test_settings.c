/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <braid/braid.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/numa.h"
#include "collectives/comm/settings.h"
#include "tests/says.h"

static const char *const variables[] = {
    "BRAID_BACKEND",
    "BRAID_DEVICES",
    "BRAID_TOPOLOGY",
    "BRAID_INVENTORY",
    "BRAID_RAILS",
    "BRAID_LINKS",
    "BRAID_LINK_IDLE",
    "BRAID_WORKERS",
    "BRAID_SLICE_BYTES",
    "BRAID_EAGER_BYTES",
    "BRAID_INIT_TIMEOUT",
    "BRAID_TIMEOUT",
    "BRAID_PEER_TIMEOUT",
    "BRAID_SPIN_US",
    "BRAID_STARVATION_MS",
    "BRAID_PIN_CPU",
    "BRAID_MACHINE_RANKS",
    "BRAID_CHUNK_BYTES",
    "BRAID_SHM_COLLECTIVE_BYTES",
    "BRAID_GPU_REDUCE",
    "BRAID_SECRET",
    "BRAID_SECRET_FILE",
    "WORLD_SIZE",
    "RANK",
    "LOCAL_WORLD_SIZE",
    "LOCAL_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "BRAID_TRACE_DETAIL",
};

static int forget_environment(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    return 0;
}

static struct br_settings settings;

static void reads(const struct braid_config *config)
{
    if (br_settings_read(config, &settings))
        fail_msg("%s", br_error_message());
}

static void refuses(const struct braid_config *config, const char *text)
{
    assert_int_equal(br_settings_read(config, &settings), -EINVAL);
    if (!says_all(br_error_message(), text))
        fail_msg("\"%s\" is not in: %s", text, br_error_message());
}

static void settings_read__defaults(void **state)
{
    (void)state;
    reads(NULL);
    assert_int_equal(settings.environment.size, 1);
    assert_string_equal(settings.backend, "auto");
    assert_string_equal(settings.devices, "");
    assert_int_equal(settings.rails, 0);
    assert_int_equal(settings.slice_bytes, 256 << 10);
    assert_int_equal(settings.eager_bytes, 32 << 10);
    assert_int_equal(settings.timeout, 300 * BR_SEC);
    assert_int_equal(settings.peer_timeout, 10 * BR_SEC);
    assert_int_equal(settings.starvation, 100 * BR_MS);
    assert_int_equal(settings.pin_cpu, -1);
}

static void settings_read__environment(void **state)
{
    (void)state;
    setenv("BRAID_BACKEND", "tcp", 1);
    setenv("BRAID_DEVICES", "lo,127.0.0.2", 1);
    setenv("BRAID_RAILS", "3", 1);
    setenv("BRAID_SLICE_BYTES", "1M", 1);
    setenv("BRAID_EAGER_BYTES", "4K", 1);
    setenv("BRAID_TIMEOUT", "7", 1);
    setenv("BRAID_PEER_TIMEOUT", "8", 1);
    setenv("BRAID_STARVATION_MS", "9", 1);
    setenv("BRAID_SPIN_US", "0", 1);
    setenv("BRAID_PIN_CPU", "0", 1);
    reads(NULL);
    assert_string_equal(settings.backend, "tcp");
    assert_string_equal(settings.devices, "lo,127.0.0.2");
    assert_int_equal(settings.rails, 3);
    assert_int_equal(settings.slice_bytes, 1 << 20);
    assert_int_equal(settings.eager_bytes, 4096);
    assert_int_equal(settings.timeout, 7 * BR_SEC);
    assert_int_equal(settings.peer_timeout, 8 * BR_SEC);
    assert_int_equal(settings.starvation, 9 * BR_MS);
    assert_int_equal(settings.spin, 0);
    assert_int_equal(settings.pin_cpu, 0);
}

/* Emulated hosts share the machine, and each knows only its own ranks. */
static void settings_read__ranks_of_other_emulated_hosts_need_cores_too(void **state)
{
    char ranks[32];

    (void)state;
    reads(NULL);
    assert_false(settings.oversubscribed);
    assert_int_equal(settings.spin, BR_MS);
    assert_int_equal(settings.turn_us, 0);
    setenv("BRAID_MACHINE_RANKS", "60000", 1);
    reads(NULL);
    assert_true(settings.oversubscribed);
    assert_int_equal(settings.spin, BR_MS);
    assert_int_equal(settings.turn_us, 25000);
    snprintf(ranks, sizeof ranks, "%ld", 2 * sysconf(_SC_NPROCESSORS_ONLN));
    setenv("BRAID_MACHINE_RANKS", ranks, 1);
    reads(NULL);
    assert_true(settings.oversubscribed);
    assert_int_equal(settings.spin, 200 * BR_US);
    assert_int_equal(settings.turn_us, 2000);
    snprintf(ranks, sizeof ranks, "%ld", 6 * sysconf(_SC_NPROCESSORS_ONLN));
    setenv("BRAID_MACHINE_RANKS", ranks, 1);
    reads(NULL);
    assert_int_equal(settings.spin, 300 * BR_US);
    assert_int_equal(settings.turn_us, 6000);
    setenv("BRAID_MACHINE_RANKS", "0", 1);
    refuses(NULL, "BRAID_MACHINE_RANKS");
}

static void settings_threads__as_the_user_says(void **state)
{
    (void)state;
    reads(NULL);
    assert_true(settings.own_cores >= 1);
    assert_int_equal(br_settings_threads(&settings, 4), 0);
    setenv("BRAID_WORKERS", "1", 1);
    reads(NULL);
    assert_int_equal(br_settings_threads(&settings, 4), 0);
    setenv("BRAID_WORKERS", "3", 1);
    reads(NULL);
    assert_int_equal(br_settings_threads(&settings, 4), 3);
    assert_int_equal(br_settings_threads(&settings, 2), 2);
    assert_int_equal(br_settings_threads(&settings, 1), 1);
    assert_int_equal(br_settings_threads(&settings, 0), 0);
}

static void settings_read__configuration_goes_before_environment(void **state)
{
    struct braid_config config = {
        .backend = "shm",
        .devices = "eth7",
        .rails = 2,
        .slice_bytes = 8192,
        .eager_bytes = 128,
        .timeout_ms = 1500,
        .peer_timeout_ms = 1600,
        .starvation_ms = 17,
        .spin_us = 18,
        .pin_cpu = 1,
    };

    settings_read__environment(state);
    reads(&config);
    assert_string_equal(settings.backend, "shm");
    assert_string_equal(settings.devices, "eth7");
    assert_int_equal(settings.rails, 2);
    assert_int_equal(settings.slice_bytes, 8192);
    assert_int_equal(settings.eager_bytes, 128);
    assert_int_equal(settings.timeout, 1500 * BR_MS);
    assert_int_equal(settings.peer_timeout, 1600 * BR_MS);
    assert_int_equal(settings.starvation, 17 * BR_MS);
    assert_int_equal(settings.spin, 18 * BR_US);
    assert_int_equal(settings.pin_cpu, 0);
}

static void settings_read__bad_configuration(void **state)
{
    char devices[600];

    (void)state;
    memset(devices, 'x', sizeof devices);
    devices[sizeof devices - 1] = 0;
    refuses(&(struct braid_config){.backend = "quic"}, "quic");
    refuses(&(struct braid_config){.backend = "a name much longer than any back end"},
            "BRAID_BACKEND");
    refuses(&(struct braid_config){.devices = devices}, "BRAID_DEVICES");
    refuses(&(struct braid_config){.rails = -1}, "BRAID_RAILS");
    refuses(&(struct braid_config){.rails = 1000}, "BRAID_RAILS");
    refuses(&(struct braid_config){.slice_bytes = 4095}, "BRAID_SLICE_BYTES");
    refuses(&(struct braid_config){.slice_bytes = (2 << 20) + 1}, "BRAID_SLICE_BYTES");
    refuses(&(struct braid_config){.eager_bytes = 63}, "BRAID_EAGER_BYTES");
    refuses(&(struct braid_config){.eager_bytes = 1u << 30}, "BRAID_EAGER_BYTES");
    refuses(&(struct braid_config){.timeout_ms = -1}, "BRAID_TIMEOUT");
    refuses(&(struct braid_config){.peer_timeout_ms = -1}, "BRAID_PEER_TIMEOUT");
    refuses(&(struct braid_config){.starvation_ms = -1}, "BRAID_STARVATION_MS");
    refuses(&(struct braid_config){.init_timeout_ms = -1}, "init_timeout_ms");
    refuses(&(struct braid_config){.spin_us = -1}, "BRAID_SPIN_US");
    refuses(&(struct braid_config){.pin_cpu = -1}, "BRAID_PIN_CPU");
    refuses(&(struct braid_config){.pin_cpu = 5000}, "BRAID_PIN_CPU");
    refuses(&(struct braid_config){.size = -1}, "size");
    refuses(&(struct braid_config){.size = 2, .rank = 2}, "rank");
}

static void settings_read__bad_environment(void **state)
{
    static const char *const bad[][2] = {
        {"BRAID_BACKEND", "ib"},        {"BRAID_RAILS", "two"},
        {"BRAID_LINKS", "always"},      {"BRAID_LINK_IDLE", "-1"},
        {"BRAID_WORKERS", "0"},         {"BRAID_WORKERS", "9"},
        {"BRAID_RAILS", "-1"},          {"BRAID_SLICE_BYTES", "1"},
        {"BRAID_SLICE_BYTES", "1X"},    {"BRAID_EAGER_BYTES", "9G"},
        {"BRAID_TIMEOUT", "0"},         {"BRAID_TIMEOUT", "1.5"},
        {"BRAID_PEER_TIMEOUT", ""},     {"BRAID_SPIN_US", "99999999999"},
        {"BRAID_STARVATION_MS", "0"},   {"BRAID_PIN_CPU", "-2"},
        {"BRAID_CHUNK_BYTES", "12"},    {"BRAID_SHM_COLLECTIVE_BYTES", "1G"},
        {"BRAID_INIT_TIMEOUT", "soon"}, {"BRAID_GPU_REDUCE", "yes"},
        {"BRAID_TRACE_DETAIL", "2X"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv(bad[i][0], bad[i][1], 1);
        if (*bad[i][1])
            refuses(NULL, bad[i][0]);
        else
            reads(NULL); /* empty is as good as unset */
        unsetenv(bad[i][0]);
    }
    setenv("BRAID_TRACE_DETAIL", "abc", 1); /* steps a second, and no bytes */
    refuses(NULL, "BRAID_TRACE_DETAIL|abc");
    unsetenv("BRAID_TRACE_DETAIL");
}

/* A job of `size` ranks whose variables are all there. */
static void job(const char *topology, const char *size)
{
    forget_environment(NULL);
    setenv("BRAID_TOPOLOGY", topology, 1);
    setenv("WORLD_SIZE", size, 1);
    setenv("RANK", "0", 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", "7777", 1);
    setenv("BRAID_SECRET", "0123456789abcdef", 1);
}

/* Among the ranks of emulated hosts, of which each takes itself for the first on its host. */
static void settings_read__ranks_of_a_machine_have_different_seats(void **state)
{
    int first;

    (void)state;
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2 || br_numa_cpus() != sysconf(_SC_NPROCESSORS_ONLN))
        skip();
    job("mesh", "4096");
    setenv("BRAID_MACHINE_RANKS", "4096", 1);
    reads(NULL);
    first = settings.cpu_affinity.cpu;
    assert_true(first >= 0);
    setenv("RANK", "4095", 1);
    reads(NULL);
    assert_true(settings.cpu_affinity.cpu > first);
    setenv("BRAID_MACHINE_RANKS", "4000", 1); /* nobody knows which of them this is */
    reads(NULL);
    assert_int_equal(settings.cpu_affinity.cpu, -1);
}

/* A control group, or a launcher, may have left the job some of the machine's cores. */
static void settings_read__contention_is_for_cores_that_may_be_used(void **state)
{
    cpu_set_t all, one;

    (void)state;
    if (sched_getaffinity(0, sizeof all, &all) || CPU_COUNT(&all) < 2)
        skip();
    job("mesh", "8");
    reads(NULL);
    assert_int_equal(settings.contention.cores, CPU_COUNT(&all));
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    reads(NULL);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_int_equal(settings.contention.cores, 1);
}

/* The least window for a job of so many ranks, `here` of them on this host. */
static uint32_t least_window_of(long size, long here)
{
    char text[32];

    snprintf(text, sizeof text, "%ld", size);
    job("mesh", text);
    snprintf(text, sizeof text, "%ld", here);
    setenv("LOCAL_WORLD_SIZE", text, 1);
    setenv("LOCAL_RANK", "0", 1);
    reads(NULL);
    return settings.least_window;
}

/* Only where ranks share cores and no message leaves the host; the more links there are, the less.
 */
static void settings_read__least_window_of_ranks_that_share_cores(void **state)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN), crowd = cores + 1;
    uint64_t links = (uint64_t)crowd * (uint64_t)cores;

    (void)state;
    assert_int_equal(least_window_of(cores, cores), 0);
    assert_int_equal(least_window_of(2 * crowd, crowd), 0);
    assert_in_range(least_window_of(crowd, crowd), 1, 256 << 10);
    assert_true(links * settings.least_window <= 512 << 20);
    assert_int_equal(least_window_of(60000, 60000), 0);
}

static void settings_read__topology(void **state)
{
    (void)state;
    job("mesh", "4");
    reads(NULL);
    assert_int_equal(settings.cube.n, 0);
    job("bcube:3,2", "9");
    reads(NULL);
    assert_int_equal(settings.cube.n, 3);
    assert_int_equal(settings.cube.k, 2);
    job("bcube:3,2", "7"); /* the last two hosts are missing */
    reads(NULL);
    assert_int_equal(settings.cube.hosts, 9);
    reads(&(struct braid_config){.topology = "mesh"});
    assert_int_equal(settings.cube.n, 0);
}

static void settings_read__bad_topology(void **state)
{
    (void)state;
    job("torus:3,2", "9");
    refuses(NULL, "BRAID_TOPOLOGY|\"torus:3,2\"|mesh|bcube:N,K");
    job("bcube:3", "9");
    refuses(NULL, "BRAID_TOPOLOGY=bcube:3: ");
    job("bcube:1,2", "1");
    refuses(NULL, "BRAID_TOPOLOGY=bcube:1,2: ");
    job("bcube:3,2", "10");
    refuses(NULL, "BCube(3,2)|9 hosts|10 ranks");
    job("bcube:2,8", "9");
    refuses(NULL, "has 8 levels");
    job("bcube:3,2", "9");
    refuses(&(struct braid_config){.backend = "shm"}, "BRAID_BACKEND=shm|BCube");
    refuses(&(struct braid_config){.rails = 2}, "BRAID_RAILS=2|BCube");
}

/* Writes an inventory and says so in the environment. */
static void inventory(const char *text)
{
    static char file[64];
    FILE *out;

    snprintf(file, sizeof file, "/tmp/braid-inventory.%d", (int)getpid());
    out = fopen(file, "we");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
    setenv("BRAID_INVENTORY", file, 1);
}

static int remove_inventory(void **state)
{
    const char *file = getenv("BRAID_INVENTORY");

    if (file)
        unlink(file);
    return forget_environment(state);
}

static const char two_hosts[] = "shape: {n: 2, k: 2, hosts: 2}\n"
                                "hosts:\n"
                                "  - name: anna\n"
                                "    nics: [{name: eth0}, {name: eth1}]\n"
                                "  - name: bert\n"
                                "    nics: [{name: ib3}, {name: ib1}]\n";

static void settings_read__inventory(void **state)
{
    (void)state;
    job("", "2");
    setenv("RANK", "1", 1);
    inventory(two_hosts);
    reads(NULL);
    assert_int_equal(settings.cube.n, 2);
    assert_int_equal(settings.cube.k, 2);
    assert_string_equal(settings.host, "bert");
    assert_string_equal(settings.nics[0], "ib3");
    assert_string_equal(settings.nics[1], "ib1");
    setenv("BRAID_TOPOLOGY", "bcube:2,2", 1); /* the same once more */
    reads(NULL);
    assert_string_equal(settings.host, "bert");
    setenv("BRAID_TOPOLOGY", "mesh", 1); /* whoever says so wants no cube */
    reads(NULL);
    assert_int_equal(settings.cube.n, 0);
    assert_false(settings.has_inventory);
}

static void settings_read__bad_inventory(void **state)
{
    (void)state;
    job("", "2");
    inventory(two_hosts);
    setenv("BRAID_TOPOLOGY", "bcube:3,2", 1);
    refuses(NULL, "BRAID_TOPOLOGY=bcube:3,2, but");
    job("", "5");
    inventory(two_hosts);
    refuses(NULL, "5 ranks");
    inventory("shape: {n: 2");
    refuses(NULL, "BRAID_INVENTORY: ");
    inventory("shape: {n: 2, k: 9}\n");
    refuses(NULL, "has 9 levels");
}

static void settings_read__devices_as_nccl_names_them(void **state)
{
    (void)state;
    setenv("BRAID_DEVICES", "=lo", 1);
    assert_int_equal(br_settings_read(NULL, &settings), 0);
    assert_string_equal(settings.devices, "lo");
    assert_false(settings.devices_expanded);
    setenv("BRAID_DEVICES", "^", 1);
    assert_int_equal(br_settings_read(NULL, &settings), -EINVAL);
    assert_says(br_error_message(), "BRAID_DEVICES");
    setenv("BRAID_BACKEND", "dpdk", 1); /* whose ports have names of their own */
    assert_int_equal(br_settings_read(NULL, &settings), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(settings_read__defaults, forget_environment),
        cmocka_unit_test_setup(settings_read__environment, forget_environment),
        cmocka_unit_test_setup(settings_read__devices_as_nccl_names_them, forget_environment),
        cmocka_unit_test_setup(settings_read__ranks_of_other_emulated_hosts_need_cores_too,
                               forget_environment),
        cmocka_unit_test_setup(settings_threads__as_the_user_says, forget_environment),
        cmocka_unit_test_setup(settings_read__configuration_goes_before_environment,
                               forget_environment),
        cmocka_unit_test_setup(settings_read__bad_configuration, forget_environment),
        cmocka_unit_test_setup(settings_read__ranks_of_a_machine_have_different_seats,
                               forget_environment),
        cmocka_unit_test_setup(settings_read__contention_is_for_cores_that_may_be_used,
                               forget_environment),
        cmocka_unit_test_setup(settings_read__least_window_of_ranks_that_share_cores,
                               forget_environment),
        cmocka_unit_test_setup(settings_read__topology, forget_environment),
        cmocka_unit_test_setup(settings_read__bad_topology, forget_environment),
        cmocka_unit_test_setup_teardown(settings_read__inventory, forget_environment,
                                        remove_inventory),
        cmocka_unit_test_setup_teardown(settings_read__bad_inventory, forget_environment,
                                        remove_inventory),
        cmocka_unit_test_setup(settings_read__bad_environment, forget_environment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
