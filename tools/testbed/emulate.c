/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * braid bcube emulate: a BCube on this machine.
 *
 * 1. SIGINT and its like are looked at between hosts, and what was made so far is undone. SIGKILL
 *    leaves a half-made testbed, which the state folder tells of and `braid bcube down` removes.
 * 2. Without root: no namespaces and no shaping. User namespaces were rejected: a process would
 *    have to stay to keep them, `ip netns` and another shell would not see them, and some machines
 *    forbid them.
 */
#include "base/clock.h"
#include "base/error.h"
#include "tools/common/options.h"
#include "tools/testbed/bcube.h"
#include "tools/testbed/netlink.h"
#include "tools/testbed/network.h"
#include "base/text.h"
#include "tools/testbed/testbed.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RATE_DEFAULT "100mbit"
#define MTU_MIN      576
#define MTU_MAX      9000

static volatile sig_atomic_t stopped;

static void emulate_stop(int number)
{
    stopped = number;
}

static int emulate_refuse(void)
{
    fprintf(stderr, "braid bcube emulate: %s\n", br_error_message());
    return 2;
}

/* ---- the command line ------------------------------------------------------------------------ */

static int emulate_parse_number(const char *text, int64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoll(text, &end, 10);
    return *end || !*text || errno ? br_error(EINVAL, "'%s' is no number", text) : 0;
}

static int set_shape(struct br_testbed *testbed, const struct br_arguments *arguments,
                     int64_t hosts)
{
    int64_t n, k;
    int rc;

    if (arguments->count != 2 || arguments->command)
        return br_error(EINVAL,
                        "which shape? `braid bcube emulate 3 2` is BCube(3,2): 9 hosts of 2 NICs");
    rc = emulate_parse_number(arguments->operands[0], &n);
    if (rc == 0)
        rc = emulate_parse_number(arguments->operands[1], &k);
    if (rc == 0)
        rc = br_bcube_init(&testbed->cube, n, k);
    if (rc < 0)
        return rc;
    testbed->hosts = hosts ? (uint32_t)hosts : testbed->cube.hosts;
    if (testbed->hosts > testbed->cube.hosts)
        return br_error(EINVAL, "--hosts %u: BCube(%u,%u) has %u hosts", testbed->hosts,
                        testbed->cube.n, testbed->cube.k, testbed->cube.hosts);
    if (testbed->hosts > BR_TESTBED_HOSTS_MAX)
        return br_error(EINVAL,
                        "BCube(%u,%u) is too large for one machine, which holds at most %d hosts; "
                        "--hosts takes less",
                        testbed->cube.n, testbed->cube.k, BR_TESTBED_HOSTS_MAX);
    return br_testbed_lay(testbed);
}

static int emulate_set_rate(struct br_testbed *testbed, const char *text)
{
    int rc;

    if (!strcmp(text, "none"))
        return 0;
    rc = br_rate_parse(text, &testbed->rate);
    if (rc == 0 && (testbed->rate < BR_NET_RATE_MIN || testbed->rate > BR_NET_RATE_MAX))
        return br_error(EINVAL, "--rate %s: it must be from 64kbit to 16gbit, or none", text);
    return rc;
}

/* 0: go on; else the exit code + 1. */
static int emulate_parse(struct br_testbed *testbed, int argc, char **argv)
{
    const char *name = BR_TESTBED_DEFAULT, *rate = NULL,
               *usage = "braid bcube emulate N K [options]";
    int64_t hosts = 0, mtu = 1500;
    const struct br_option options[] = {
        {"rate", 0, BR_OPTION_TEXT, &rate, 0, 0,
         "RATE of every NIC, such as 500mbit; none (default: 100mbit)"},
        {"mtu", 0, BR_OPTION_NUMBER, &mtu, MTU_MIN, MTU_MAX, "BYTES of every NIC (default: 1500)"},
        {"hosts", 0, BR_OPTION_NUMBER, &hosts, 1, BR_TESTBED_HOSTS_MAX, "M only the first M hosts"},
        {"name", 0, BR_OPTION_TEXT, &name, 0, 0, "NAME of the testbed (default: bcube)"},
        {"loopback", 0, BR_OPTION_FLAG, &testbed->loopback, 0, 0,
         " addresses of 127/8 instead of namespaces: needs no root, shapes nothing"},
        {0},
    };
    struct br_arguments arguments;
    int rc = br_arguments_parse(&arguments, options, usage, argc, argv);

    if (rc > 0)
        return 1;
    if (rc == 0)
        rc = set_shape(testbed, &arguments, hosts);
    if (rc == 0 && testbed->loopback && rate)
        rc = br_error(EINVAL, "--rate shapes nothing with --loopback; leave one of them out");
    if (rc == 0 && !testbed->loopback)
        rc = emulate_set_rate(testbed, rate ? rate : RATE_DEFAULT);
    if (rc == 0)
        rc = br_testbed_check_name(name);
    if (rc < 0)
        return emulate_refuse() + 1;
    testbed->mtu = (uint32_t)mtu;
    snprintf(testbed->name, sizeof testbed->name, "%s", name);
    return 0;
}

/* ---- making ---------------------------------------------------------------------------------- */

static void catch_signals(void)
{
    const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction action = {.sa_handler = emulate_stop};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
}

/* Everything, or nothing. */
static int emulate_make(struct br_testbed *testbed)
{
    int rc = br_testbed_create(testbed), ended;

    if (rc < 0)
        return rc;
    rc = br_network_check(testbed);
    if (rc < 0) { /* nothing of it is ours */
        br_testbed_forget(testbed);
        return rc;
    }
    rc = br_testbed_save(testbed);
    if (rc == 0)
        rc = br_testbed_write_inventory(testbed);
    if (rc == 0)
        rc = br_network_make(testbed, &stopped);
    if (rc == 0) {
        testbed->ready = true;
        rc = br_testbed_save(testbed);
    }
    if (rc < 0) {
        fprintf(stderr, "braid bcube emulate: %s; removing what was made\n", br_error_message());
        if (br_network_remove(testbed, &ended) < 0 || br_testbed_forget(testbed) < 0)
            fprintf(stderr, "braid bcube emulate: %s\n", br_error_message());
        br_error(-rc, "nothing was made");
    }
    br_testbed_close(testbed);
    return rc;
}

static uint32_t count_switches(const struct br_testbed *testbed)
{
    uint32_t per_level = br_bcube_power(&testbed->cube, testbed->cube.k - 1), n = 0;

    for (uint32_t level = 0; level < testbed->cube.k; level++)
        for (uint32_t index = 0; index < per_level; index++)
            n += br_cabling_switch_used(&testbed->cabling, level, index);
    return n;
}

static void emulate_print(const struct br_testbed *testbed, double seconds)
{
    const struct br_bcube *cube = &testbed->cube;
    uint32_t switches = count_switches(testbed);
    char rate[BR_RATE_TEXT], host[BR_TESTBED_HOST], address[BR_TESTBED_ADDRESS],
        path[BR_TESTBED_FOLDER + 32], name[48] = "";

    if (strcmp(testbed->name, BR_TESTBED_DEFAULT) != 0)
        snprintf(name, sizeof name, " --name %s", testbed->name);
    br_testbed_host_name(testbed, 0, host);
    br_testbed_address(testbed, testbed->hosts > 1 ? 1 : 0, 0, address);
    printf("testbed %s: BCube(%u,%u), %u host%s of %u NIC%s, %u switch%s, ", testbed->name, cube->n,
           cube->k, testbed->hosts, testbed->hosts > 1 ? "s" : "", cube->k, cube->k > 1 ? "s" : "",
           switches, switches > 1 ? "es" : "");
    if (testbed->loopback)
        printf("addresses of 127/8, nothing shaped and levels not kept apart (that needs root)\n");
    else
        printf("%s, MTU %u, made in %.1f s\n",
               testbed->rate ? br_rate_print(testbed->rate, rate) : "unshaped", testbed->mtu,
               seconds);
    printf("inventory: %s\n\n", br_testbed_path(testbed, BR_TESTBED_INVENTORY, path));
    if (!testbed->loopback)
        printf("  braid bcube exec%s %s -- ping -c 1 %.*s\n", name, host,
               (int)strcspn(address, "/"), address);
    printf("  braid bcube run%s -- braid allreduce -b 1M -e 16M\n", name);
    if (!testbed->loopback)
        printf("  braid bcube fault%s nic %s 0 down\n  braid bcube check%s%s\n", name, host,
               *name ? " --inventory " : "", *name ? path : "");
    printf("  braid bcube down %s\n", testbed->name);
}

/* The first line of a file that begins with a number of this base; 0: there is none. */
static uint64_t read_number(const char *path, int base)
{
    char line[256], *end;
    FILE *file = fopen(path, "re");
    uint64_t number = 0;

    if (!file)
        return 0;
    while (!number && fgets(line, sizeof line, file)) {
        number = strtoull(line, &end, base);
        if (!isspace((unsigned char)*end))
            number = 0; /* a name that begins like a hexadecimal number */
    }
    fclose(file);
    return number;
}

/* The kernel's table of neighbours is one for all namespaces. When it is full, hosts do not find
 * each other's MACs. */
static void warn_of_full_table(const struct br_testbed *testbed)
{
    uint64_t most = read_number("/proc/sys/net/ipv4/neigh/default/gc_thresh3", 10),
             present = read_number("/proc/net/stat/arp_cache", 16),
             needed = br_testbed_neighbours(testbed);

    if (testbed->loopback || !most || present + needed <= most)
        return;
    fprintf(stderr,
            "braid bcube emulate: a job of all hosts needs %" PRIu64 " entries of the kernel's "
            "neighbour table, where %" PRIu64 " of %" PRIu64
            " are taken; when it is full, hosts do "
            "not reach each other. Make it larger: sysctl -w "
            "net.ipv4.neigh.default.gc_thresh3=%" PRIu64 "\n",
            needed, present, most, 2 * (present + needed));
}

int br_bcube_emulate(int argc, char **argv)
{
    struct br_testbed testbed = {.lock = -1};
    int rc = emulate_parse(&testbed, argc, argv);
    uint64_t begin = br_clock_now();

    if (rc)
        return rc - 1;
    if (!testbed.loopback && geteuid() != 0) {
        fprintf(stderr, "braid bcube emulate: namespaces, switches and shaping need root; without, "
                        "--loopback emulates "
                        "addresses only\n");
        return 1;
    }
    warn_of_full_table(&testbed);
    catch_signals();
    if (emulate_make(&testbed) < 0) {
        fprintf(stderr, "braid bcube emulate: %s\n", br_error_message());
        return stopped ? 128 + stopped : 1;
    }
    emulate_print(&testbed, (double)(br_clock_now() - begin) / (double)BR_SEC);
    return 0;
}
