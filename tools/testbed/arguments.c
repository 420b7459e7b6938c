/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/arguments.h"

#include "base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Is the next argument this one's value? */
static bool takes_next(const struct br_option *options, const char *argument)
{
    const char *letter = argument + 1 + br_options_flags(options, argument);

    for (const struct br_option *option = options; option->name; option++) {
        if (option->kind == BR_OPTION_FLAG)
            continue;
        if (!strncmp(argument, "--", 2) && !strcmp(argument + 2, option->name))
            return true;
        if (option->letter && *letter == option->letter && !letter[1])
            return true;
    }
    return false;
}

/* Sorts argv into options, which *taken counts, and words. */
static int arguments_sort(struct br_arguments *arguments, const struct br_option *options, int argc,
                          char **argv, char **taken)
{
    int n = 0;

    taken[n++] = argv[0];
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--")) {
            arguments->command = i + 1 < argc ? argv + i + 1 : NULL;
            break;
        }
        if (argv[i][0] == '-') {
            taken[n++] = argv[i];
            if (takes_next(options, argv[i]) && i + 1 < argc)
                taken[n++] = argv[++i];
        } else if (arguments->count == BR_ARGUMENT_OPERANDS) {
            return br_error(EINVAL, "'%s' is one word too many", argv[i]);
        } else {
            arguments->operands[arguments->count++] = argv[i];
        }
    }
    return n;
}

int br_arguments_parse(struct br_arguments *arguments, const struct br_option *options,
                       const char *usage, int argc, char **argv)
{
    char **taken = calloc((size_t)argc + 1, sizeof *taken);
    int n, rc;

    *arguments = (struct br_arguments){0};
    if (!taken)
        return br_error(ENOMEM, "no memory");
    n = arguments_sort(arguments, options, argc, argv, taken);
    rc = n < 0 ? n : br_options_parse(options, n, taken);
    if (rc > 0)
        br_options_help(options, usage, stdout);
    free(taken);
    return rc;
}
