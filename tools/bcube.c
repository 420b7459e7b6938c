/* SPDX-License-Identifier: BSD-3-Clause */
/* `braid bcube`: finds the sub-command. */
#include <stdio.h>
#include <string.h>

#include "tools/bcube/bcube.h"
#include "tools/tool.h"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help; /* NULL: not for people */
} commands[] = {
    {"plan", br_bcube_plan, "cabling, addresses, switch configurations, a drawing: braid bcube plan 3 2"},
    {"emulate", br_bcube_emulate,
     "the whole testbed on this machine: braid bcube emulate 3 2 --rate 500mbit"},
    {"list", br_bcube_list, "the emulated testbeds that there are"},
    {"exec", br_bcube_exec, "a command on one host: braid bcube exec h00 -- ip addr"},
    {"run", br_bcube_run, "a command on all hosts at once: braid bcube run -- braid allreduce"},
    {"fault", br_bcube_fault, "plant and mend faults: braid bcube fault nic h00 1 down"},
    {"down", br_bcube_down, "remove an emulated testbed"},
    {"check", br_bcube_check, "what is wrong with a testbed, and how to mend it"},
    {"matrix", br_bcube_matrix, "latency and bandwidth of every link, as a heat map"},
    {"agent", br_bcube_agent, NULL},
};
#define N_COMMANDS (sizeof commands / sizeof *commands)

static void help(FILE *out)
{
    fputs("usage: braid bcube COMMAND [option...]; braid bcube COMMAND --help says more\n\n", out);
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (commands[i].help)
            fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
}

int br_tool_bcube(int argc, char **argv)
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
    fprintf(stderr, "braid bcube: there is no command '%s'; `braid bcube help` lists them\n", argv[1]);
    return 2;
}
