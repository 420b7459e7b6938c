/* SPDX-License-Identifier: BSD-3-Clause */
/* Command lines of `braid bcube`: words and options in any order, and after "--" a command. */
#ifndef BR_TOOLS_TESTBED_ARGUMENTS_H
#define BR_TOOLS_TESTBED_ARGUMENTS_H

#include "tools/common/options.h"

#define BR_ARGUMENT_OPERANDS 8

struct br_arguments {
    int count;
    char *operands[BR_ARGUMENT_OPERANDS + 1]; /* what is no option, NULL behind */
    /* what follows "--"; NULL: there was no "--", or nothing followed */
    char **command;
};

/*
 * Options and their values are taken out by br_options_parse(), the rest are the words. 0; 1:
 * --help was given, the help is printed to stdout; -EINVAL with a message.
 */
int br_arguments_parse(struct br_arguments *arguments, const struct br_option *options,
                       const char *usage, int argc, char **argv);

#endif
