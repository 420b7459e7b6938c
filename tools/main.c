/* SPDX-License-Identifier: BSD-3-Clause */
/* The command `braid`: finds the sub-command. */
#include "base/error.h"
#include "tools/common/options.h"
#include "tools/common/output.h"
#include "tools/common/tool.h"

#include <braid/braid.h>
#include <fcntl.h>
#include <stdio.h>

static int main_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("braid %d.%d.%d\n", BRAID_VERSION_MAJOR, BRAID_VERSION_MINOR, BRAID_VERSION_PATCH);
    return 0;
}

static const struct br_command commands[] = {
    {"run", br_tool_run, "start the ranks of a job on this host: braid run -n 4 -- COMMAND"},
    {"info", br_tool_info, "devices, limits, algorithms; what is missing and how to get it"},
    {"allreduce", br_tool_collective, "collectives, with the options and columns of nccl-tests"},
    {"reduce_scatter", br_tool_collective, "the same for reduce_scatter"},
    {"allgather", br_tool_collective, "the same for allgather"},
    {"broadcast", br_tool_collective, "the same for broadcast"},
    {"reduce", br_tool_collective, "the same for reduce"},
    {"alltoall", br_tool_collective, "the same for alltoall"},
    {"gather", br_tool_collective, "the same for gather"},
    {"scatter", br_tool_collective, "the same for scatter"},
    {"scan", br_tool_collective, "the same for scan, over the ranks up to each"},
    {"exscan", br_tool_collective, "the same for exscan, over the ranks before each"},
    {"barrier", br_tool_collective, "the same for barrier"},
    {"sendrecv", br_tool_collective, "the same for messages from each rank to the next"},
    {"perf", br_tool_perf,
     "bandwidth and latency of a link between two hosts, with the options of perftest"},
    {"calibrate", br_tool_calibrate,
     "measures links, reductions and algorithms of a job, and saves the figures"},
    {"plan", br_tool_plan,
     "what each algorithm should take, and which is chosen why; --run: and does take"},
    {"sim", br_tool_plan, "training of a network in virtual time: engine and protocol as they are"},
    {"train", br_tool_train,
     "trains a small network over all ranks, with every policy and optimiser"},
    {"top", br_tool_top,
     "a running job, live: rates, stalls, queues and losses of every rail; for Prometheus, too"},
    {"bcube", br_tool_bcube, "plan, emulate and check a BCube; braid bcube help says more"},
    {"demo", br_tool_demo,
     "gradients over an emulated BCube: BML, a ring and parameter servers beside the formulas"},
    {"version", main_version, "the version, as --version does"},
    {"--version", main_version, NULL},
};

/* Of the descriptors 0 to 2 those that are closed would be the numbers of the next files and
 * sockets, and what is printed would go there. Reading and writing what is opened here fails as
 * before. */
static void hold_descriptors(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", fd ? O_RDONLY : O_WRONLY);
}

int main(int argc, char **argv)
{
    int rc;

    hold_descriptors();
    rc = br_dispatch("braid", commands, sizeof commands / sizeof *commands, argc, argv);
    if (rc || !br_output_close(stdout, "to standard output", 0))
        return rc;
    fprintf(stderr, "braid: %s\n", br_error_message());
    return 1;
}
