/* SPDX-License-Identifier: BSD-3-Clause */
/* braid run: starts the ranks of a job on this host. */
#include "tools/run/launch.h"
#include "tools/common/tool.h"

#include "base/error.h"
#include "protocol/bootstrap/store_socket.h"
#include "tools/common/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 1024
#define RAILS_MAX 8
#define ADDRESS   "127.0.0.1"

struct job {
    int64_t size, rails, timeout;
    const char *backend, *secret_file, *bind;
    bool no_prefix;
    char **command;
    struct br_launch_resources resources;
};

static void __attribute__((format(printf, 1, 2))) run_log_address(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("braid run: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

/* ---- the command line ------------------------------------------------------------------------ */

/* 0: go on; else the exit code + 1. */
static int run_parse(struct job *job, int argc, char **argv)
{
    const struct br_option options[] = {
        {"ranks", 'n', BR_OPTION_NUMBER, &job->size, 1, RANKS_MAX,
         "N processes to start (default: 1)"},
        {"rails", 0, BR_OPTION_NUMBER, &job->rails, 1, RAILS_MAX,
         "R connections to each peer (BRAID_RAILS; default: one a device)"},
        {"backend", 0, BR_OPTION_TEXT, &job->backend, 0, 0,
         "NAME auto, shm, tcp, udp, dpdk or verbs (BRAID_BACKEND; default: auto)"},
        {"bind", 0, BR_OPTION_TEXT, &job->bind, 0, 0,
         "share|none each rank keeps to its share of the cores (default when there is one for "
         "each)"},
        {"secret-file", 0, BR_OPTION_TEXT, &job->secret_file, 0, 0,
         "FILE the job's secret; default: a new random one"},
        {"no-prefix", 0, BR_OPTION_FLAG, &job->no_prefix, 0, 0,
         " output as it comes, without the rank in front"},
        {"timeout", 0, BR_OPTION_NUMBER, &job->timeout, 1, 1000000,
         "SECONDS end the job after this time (code 124); default: never"},
        {0},
    };
    const char *usage = "braid run [-n N] [options] -- COMMAND [ARGUMENT...]";
    struct br_arguments arguments;
    int rc = br_arguments_parse(&arguments, options, usage, argc, argv);

    if (rc > 0)
        return 1;
    if (!rc && arguments.count)
        rc = br_error(EINVAL, "'%s' is not an option; --help lists them", arguments.operands[0]);
    if (rc < 0 && !arguments.command)
        run_log_address("%s; does '--' miss in front of the command?", br_error_message());
    else if (rc < 0)
        run_log_address("%s", br_error_message());
    else if (!arguments.command)
        run_log_address("no command to run: %s", usage);
    else if (job->bind && strcmp(job->bind, "share") != 0 && strcmp(job->bind, "none") != 0)
        run_log_address("--bind is '%s': it must be share or none", job->bind);
    else
        job->command = arguments.command;
    return job->command ? 0 : 3;
}

/* ---- what the ranks need --------------------------------------------------------------------- */

static int run_prepare(void *with)
{
    struct job *job = with;
    uint16_t port = 0;
    int rc = br_launch_secret(job->secret_file, (uint32_t)job->size, job->resources.secret);

    if (rc < 0)
        return rc;
    rc = br_socket_reserve(ADDRESS, &port, &job->resources.port_fd);
    if (rc < 0)
        return rc;
    br_launch_unset_outer();
    br_launch_set_number("WORLD_SIZE", job->size);
    br_launch_set_number("LOCAL_WORLD_SIZE", job->size);
    setenv("MASTER_ADDR", ADDRESS, 1);
    br_launch_set_number("MASTER_PORT", port);
    if (job->rails)
        br_launch_set_number("BRAID_RAILS", job->rails);
    if (job->backend)
        setenv("BRAID_BACKEND", job->backend, 1);
    return 0;
}

static void run_set_environment(void *with, int i)
{
    (void)with;
    br_launch_set_number("RANK", i);
    br_launch_set_number("LOCAL_RANK", i);
}

static void run_name(void *with, int i, char out[BR_LAUNCH_NAME])
{
    (void)with;
    snprintf(out, BR_LAUNCH_NAME, "rank %d", i);
}

static void run_label(void *with, int i, char out[BR_LAUNCH_LABEL])
{
    const struct job *job = with;
    int width = snprintf(NULL, 0, "%d", (int)job->size - 1);

    snprintf(out, BR_LAUNCH_LABEL, "%*d", width, i);
}

int br_tool_run(int argc, char **argv)
{
    struct job job = {.size = 1, .resources.port_fd = -1};
    struct br_launch launch = {.who = "braid run",
                               .with = &job,
                               .resources = &job.resources,
                               .prepare = run_prepare,
                               .environment = run_set_environment,
                               .name = run_name,
                               .label = run_label};
    int rc = run_parse(&job, argc, argv);

    if (rc)
        return rc - 1;
    launch.count = (int)job.size;
    launch.command = job.command;
    launch.no_prefix = job.no_prefix;
    launch.timeout = job.timeout;
    launch.bind_cores = !(job.bind && !strcmp(job.bind, "none"));
    return br_launch(&launch);
}
