/* SPDX-License-Identifier: BSD-3-Clause */
/* From a command's first argument to the function behind it: `braid` and `braid bcube` have a table
 * each. */
#ifndef BR_TOOLS_COMMON_DISPATCH_H
#define BR_TOOLS_COMMON_DISPATCH_H

#include <stddef.h>

struct br_command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the name; returns the exit code */
    const char *help;                  /* one line; NULL: not listed */
};

/* Runs the command that argv[1] names. who: "braid bcube". Returns its exit code; 0 after help; 2
 * with a message: there is none. */
int br_dispatch(const char *who, const struct br_command *commands, size_t count, int argc,
                char **argv);

#endif
