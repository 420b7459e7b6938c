/* SPDX-License-Identifier: BSD-3-Clause */
/* The command `braid`: finds the sub-command. */
#include "tools/tool.h"

#include <braid/braid.h>
#include <stdio.h>
#include <string.h>

static int version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("braid %d.%d.%d\n", BRAID_VERSION_MAJOR, BRAID_VERSION_MINOR, BRAID_VERSION_PATCH);
    return 0;
}

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"run", br_tool_run, "start the ranks of a job on this host: braid run -n 4 -- COMMAND"},
    {"info", br_tool_info, "devices, limits, algorithms; what is missing and how to get it"},
    {"allreduce", br_tool_collective, "collectives, with the options and columns of nccl-tests"},
    {"reduce_scatter", br_tool_collective, "likewise"},
    {"allgather", br_tool_collective, "likewise"},
    {"broadcast", br_tool_collective, "likewise"},
    {"reduce", br_tool_collective, "likewise"},
    {"alltoall", br_tool_collective, "likewise"},
    {"gather", br_tool_collective, "likewise"},
    {"scatter", br_tool_collective, "likewise"},
    {"barrier", br_tool_collective, "likewise"},
    {"sendrecv", br_tool_collective, "likewise, from each rank to the next"},
    {"plan", br_tool_plan, "what each algorithm should take, and which is chosen why; --run: and does take"},
    {"bcube", br_tool_bcube, "plan, emulate and check a BCube; braid bcube help says more"},
    {"demo", br_tool_demo,
     "gradients over an emulated BCube: BML, a ring and parameter servers beside the formulas"},
    {"version", version, "the version"},
};
#define N_COMMANDS (sizeof commands / sizeof *commands)

static void help(FILE *out)
{
    fputs("usage: braid COMMAND [option...]; braid COMMAND --help says more\n\n", out);
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-16s %s\n", commands[i].name, commands[i].help);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        help(stderr);
        return 2;
    }
    if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        help(stdout);
        return 0;
    }
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "braid: there is no command '%s'; `braid help` lists them\n", argv[1]);
    return 2;
}
