/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/common/dispatch.h"

#include <stdio.h>
#include <string.h>

static void dispatch_help(const char *who, const struct br_command *commands, size_t count,
                          FILE *out)
{
    fprintf(out, "usage: %s COMMAND [option...]; %s COMMAND --help says more\n\n", who, who);
    for (size_t i = 0; i < count; i++)
        if (commands[i].help)
            fprintf(out, "  %-16s %s\n", commands[i].name, commands[i].help);
}

int br_dispatch(const char *who, const struct br_command *commands, size_t count, int argc,
                char **argv)
{
    if (argc < 2) {
        dispatch_help(who, commands, count, stderr);
        return 2;
    }
    if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        dispatch_help(who, commands, count, stdout);
        return 0;
    }
    for (size_t i = 0; i < count; i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "%s: there is no command '%s'; `%s help` lists them\n", who, argv[1], who);
    return 2;
}
