/* SPDX-License-Identifier: BSD-3-Clause */
/* braid bcube run: a command on all hosts of an emulated testbed at once, as the ranks of one job;
 * braid bcube exec: a command on one host. */
#include "base/error.h"
#include "protocol/bootstrap/store_socket.h"
#include "tools/common/options.h"
#include "tools/testbed/bcube.h"
#include "tools/testbed/testbed.h"
#include "tools/run/launch.h"
#include "transport/transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PER_HOST_MAX  64
#define RANKS_MAX     1024
#define DEVICES_BYTES (BR_BCUBE_LEVELS_MAX * BR_TESTBED_ADDRESS)

struct job {
    struct br_testbed testbed;
    int64_t per_host, timeout;
    const char *backend;
    bool no_prefix;
    char **command;
    char master[BR_TESTBED_ADDRESS];
    uint16_t port;
    struct br_launch_resources resources;
};

static uint32_t host_of(const struct job *job, int rank)
{
    return (uint32_t)(rank / job->per_host);
}

/* ---- the command line ------------------------------------------------------------------------ */

/* 0: go on; else the exit code + 1. */
static int testbed_run_parse(struct job *job, int argc, char **argv)
{
    const char *name = NULL, *usage = "braid bcube run [options] -- COMMAND [ARGUMENT...]";
    const struct br_option options[] = {
        {"name", 0, BR_OPTION_TEXT, &name, 0, 0, "NAME of the testbed (default: the only one)"},
        {"ranks-per-host", 0, BR_OPTION_NUMBER, &job->per_host, 1, PER_HOST_MAX, "P (default: 1)"},
        {"backend", 0, BR_OPTION_TEXT, &job->backend, 0, 0, "NAME of BRAID_BACKEND"},
        {"no-prefix", 0, BR_OPTION_FLAG, &job->no_prefix, 0, 0,
         " output as it comes, without the host in front"},
        {"timeout", 0, BR_OPTION_NUMBER, &job->timeout, 1, 1000000,
         "SECONDS end the job after this time (code 124)"},
        {0},
    };
    struct br_arguments arguments;
    int rc = br_arguments_parse(&arguments, options, usage, argc, argv), code = 3;

    if (rc > 0)
        return 1;
    if (rc == 0 && (arguments.count || !arguments.command))
        rc = br_error(EINVAL, "write it as: %s", usage);
    job->command = arguments.command;
    if (rc == 0) {
        code = 2;
        rc = br_testbed_open(&job->testbed, name, false);
    }
    if (rc == 0)
        rc = br_testbed_check_ready(&job->testbed);
    if (rc == 0 && job->testbed.hosts * job->per_host > RANKS_MAX)
        rc = br_error(EINVAL, "%u hosts with %d ranks each: more than %d processes",
                      job->testbed.hosts, (int)job->per_host, RANKS_MAX);
    if (rc == 0)
        return 0;
    fprintf(stderr, "braid bcube run: %s\n", br_error_message());
    return code;
}

/* ---- what the ranks need --------------------------------------------------------------------- */

/* The command may be anything, so it is not refused: but ranks of braid would look for each other
 * in vain until they give up. */
static void print_reachable(const struct job *job)
{
    const struct br_testbed *testbed = &job->testbed;

    if (job->per_host > 1 && testbed->cube.k > 1 && !testbed->loopback)
        fprintf(stderr,
                "braid bcube run: with %d ranks on a host none is a host of the cube, so nothing "
                "is relayed, and "
                "hosts that share no switch do not reach each other; for ranks of braid use a "
                "testbed of one "
                "level: braid bcube emulate %u 1\n",
                (int)job->per_host, testbed->hosts);
}

/* In host 0. */
static int reserve_port(void *with)
{
    struct job *job = with;

    return br_socket_reserve(job->master, &job->port, &job->resources.port_fd);
}

/* One rank a host is what makes a rank a host of the cube; otherwise all ranks of a switch see each
 * other. */
static void set_topology(const struct job *job)
{
    const struct br_testbed *testbed = &job->testbed;
    char path[BR_TESTBED_FOLDER + 32], shape[32];

    unsetenv("BRAID_TOPOLOGY");
    unsetenv("BRAID_INVENTORY");
    if (job->per_host > 1)
        return;
    snprintf(shape, sizeof shape, "bcube:%u,%u", testbed->cube.n, testbed->cube.k);
    setenv("BRAID_TOPOLOGY", shape, 1);
    setenv("BRAID_INVENTORY", br_testbed_path(testbed, BR_TESTBED_INVENTORY, path), 1);
}

static int testbed_run_prepare(void *with)
{
    struct job *job = with;
    const struct br_testbed *testbed = &job->testbed;
    uint32_t size = testbed->hosts * (uint32_t)job->per_host;
    char space[BR_NAMESPACE_NAME];
    int rc = br_launch_secret(NULL, size, job->resources.secret);

    br_testbed_management_ip(testbed, 0, job->master);
    if (rc == 0)
        rc = testbed->loopback
                 ? reserve_port(job)
                 : br_namespace_visit(br_testbed_host_space(testbed, 0, space), reserve_port, job);
    if (rc < 0)
        return rc;
    br_launch_unset_outer();
    br_launch_set_number("WORLD_SIZE", size);
    br_launch_set_number("LOCAL_WORLD_SIZE", job->per_host);
    br_launch_set_number("BRAID_MACHINE_RANKS", size);
    setenv("MASTER_ADDR", job->master, 1);
    br_launch_set_number("MASTER_PORT", job->port);
    set_topology(job);
    if (job->backend || testbed->loopback) /* there all ranks would meet in shared memory */
        setenv("BRAID_BACKEND", job->backend ? job->backend : br_transport_default(false)->name, 1);
    return 0;
}

static void testbed_run_set_environment(void *with, int i)
{
    const struct job *job = with;
    char devices[DEVICES_BYTES] = "", nic[BR_TESTBED_ADDRESS];
    size_t used = 0;

    for (uint32_t level = 0; level < job->testbed.cube.k; level++)
        used += (size_t)snprintf(devices + used, sizeof devices - used, "%s%s", level ? "," : "",
                                 br_testbed_nic(&job->testbed, host_of(job, i), level, nic));
    setenv("BRAID_DEVICES", devices, 1);
    br_launch_set_number("RANK", i);
    br_launch_set_number("LOCAL_RANK", i % job->per_host);
}

static int testbed_run_enter(void *with, int i)
{
    const struct job *job = with;
    char space[BR_NAMESPACE_NAME], host[BR_TESTBED_HOST];

    return br_namespace_enter(br_testbed_host_space(&job->testbed, host_of(job, i), space),
                              br_testbed_host_name(&job->testbed, host_of(job, i), host));
}

static void testbed_run_name(void *with, int i, char out[BR_LAUNCH_NAME])
{
    const struct job *job = with;
    char host[BR_TESTBED_HOST];

    snprintf(out, BR_LAUNCH_NAME, "host %s: rank %d",
             br_testbed_host_name(&job->testbed, host_of(job, i), host), i);
}

/* "h01", and "h01.0" with several ranks on it. */
static void testbed_run_label(void *with, int i, char out[BR_LAUNCH_LABEL])
{
    const struct job *job = with;
    char host[BR_TESTBED_HOST];

    br_testbed_host_name(&job->testbed, host_of(job, i), host);
    if (job->per_host == 1)
        snprintf(out, BR_LAUNCH_LABEL, "%.20s", host);
    else
        snprintf(out, BR_LAUNCH_LABEL, "%.20s.%d", host, (int)(i % job->per_host));
}

int br_bcube_run(int argc, char **argv)
{
    struct job job = {.per_host = 1, .resources.port_fd = -1};
    struct br_launch launch = {.who = "braid bcube run",
                               .bind_cores = true,
                               .with = &job,
                               .resources = &job.resources,
                               .prepare = testbed_run_prepare,
                               .environment = testbed_run_set_environment,
                               .name = testbed_run_name,
                               .label = testbed_run_label};
    int rc = testbed_run_parse(&job, argc, argv);

    if (rc)
        return rc - 1;
    print_reachable(&job);
    launch.count = (int)(job.testbed.hosts * (uint32_t)job.per_host);
    launch.command = job.command;
    launch.no_prefix = job.no_prefix;
    launch.timeout = job.timeout;
    launch.enter = job.testbed.loopback ? NULL : testbed_run_enter;
    return br_launch(&launch);
}

/* ---- exec ------------------------------------------------------------------------------------ */

static int exec_enter(struct br_testbed *testbed, const char *text)
{
    char space[BR_NAMESPACE_NAME], name[BR_TESTBED_HOST];
    uint32_t host = 0;
    int rc = br_testbed_check_ready(testbed);

    if (rc == 0)
        rc = br_testbed_parse_host(testbed, text, &host);
    if (rc < 0 || testbed->loopback)
        return rc;
    return br_namespace_enter(br_testbed_host_space(testbed, host, space),
                              br_testbed_host_name(testbed, host, name));
}

/* Becomes the command, so that terminal, signals and exit code are the command's. */
int br_bcube_exec(int argc, char **argv)
{
    const char *name = NULL,
               *usage = "braid bcube exec [--name NAME] HOST -- COMMAND [ARGUMENT...]";
    const struct br_option options[] = {
        {"name", 0, BR_OPTION_TEXT, &name, 0, 0, "NAME of the testbed (default: the only one)"},
        {0}};
    struct br_arguments arguments;
    struct br_testbed testbed;
    int rc = br_arguments_parse(&arguments, options, usage, argc, argv);

    if (rc > 0)
        return 0;
    if (rc == 0 && (arguments.count != 1 || !arguments.command))
        rc = br_error(EINVAL, "write it as: %s", usage);
    if (rc < 0 || !arguments.command) {
        fprintf(stderr, "braid bcube exec: %s\n", br_error_message());
        return 2;
    }
    rc = br_testbed_open(&testbed, name, false);
    if (rc == 0)
        rc = exec_enter(&testbed, arguments.operands[0]);
    if (rc < 0) {
        fprintf(stderr, "braid bcube exec: %s\n", br_error_message());
        return 1;
    }
    execvp(arguments.command[0], arguments.command);
    rc = errno == ENOENT ? 127 : 126;
    fprintf(stderr, "braid bcube exec: cannot run '%s': %s\n", arguments.command[0],
            strerror(errno));
    return rc;
}
