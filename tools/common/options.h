/* SPDX-License-Identifier: BSD-3-Clause */
/* Command-line options of a sub-command from one table: parsing, ranges, words for what is wrong,
 * and the help. */
#ifndef BR_TOOLS_COMMON_OPTIONS_H
#define BR_TOOLS_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum br_option_kind {
    BR_OPTION_FLAG,   /* bool *out; no value */
    BR_OPTION_NUMBER, /* int64_t *out; whole, in [min, max] */
    BR_OPTION_BYTES,  /* int64_t *out; with K, M, G (powers of 1024); in [min, max] */
    BR_OPTION_TEXT,   /* const char **out; points into argv */
};

struct br_option {
    const char *name; /* long form without the dashes; NULL ends the table */
    char letter;      /* short form, 0: none */
    enum br_option_kind kind;
    void *out; /* keeps its value when the option is not given */
    int64_t min, max;
    const char *help; /* "VALUE what it does": the first word is the value's name, "" for a flag */
};

/*
 * Fills the outs from argv[1..argc). Understands --name VALUE, --name=VALUE, -x VALUE, -xVALUE, and
 * flags in one word, before another letter too: -aF, -aFs 64; the last one given counts. 0; 1:
 * --help or -h was given; -EINVAL with a message, also for an argument that is no option.
 */
int br_options_parse(const struct br_option *options, int argc, char **argv);

/* How many flags a word of short options begins with: 2 for "-aFs64". */
size_t br_options_flags(const struct br_option *options, const char *argument);

/* "usage" line, then one line an option. */
void br_options_help(const struct br_option *options, const char *usage, FILE *out);

#endif
