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
