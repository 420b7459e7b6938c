/* SPDX-License-Identifier: BSD-3-Clause */
/* Command lines of all sub-commands and bench programs, in one dialect: the table of sub-commands,
 * the tables of their options, operands, and a command behind "--". popt reads the options. */
#ifndef BR_TOOLS_COMMON_OPTIONS_H
#define BR_TOOLS_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct br_command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the name; returns the exit code */
    const char *help;                  /* one line; NULL: not listed */
};

/* Runs the command that argv[1] names. who: "braid bcube". Returns its exit code; 0 after help; 2
 * with a message on stderr when argv[1] is missing or names no command. */
int br_dispatch(const char *who, const struct br_command *commands, size_t count, int argc,
                char **argv);

enum br_option_kind {
    BR_OPTION_FLAG,    /* bool *out; no value */
    BR_OPTION_NUMBER,  /* int64_t *out; whole, in [min, max] */
    BR_OPTION_BYTES,   /* int64_t *out; with K, M, G (powers of 1024); in [min, max] */
    BR_OPTION_DECIMAL, /* double *out; in (min, max] */
    BR_OPTION_TEXT,    /* const char **out; lives until the process ends */
};

struct br_option {
    const char *name; /* long form without the dashes; NULL ends the table */
    char letter;      /* short form, 0: none */
    enum br_option_kind kind;
    void *out; /* keeps its value when the option is not given */
    int64_t min, max;
    /* "VALUE what it does": the first word is the value's name, "" for a flag. NULL: --help does
     * not list the option. */
    const char *help;
};

#define BR_OPERANDS 32

struct br_arguments {
    int count;
    char *operands[BR_OPERANDS + 1]; /* the arguments that are no options, NULL behind them */
    char **command; /* what follows the first "--"; NULL: there is no "--", or nothing follows */
};

/*
 * Fills the outs from argv[1..argc). Understands --name VALUE, --name=VALUE, -x VALUE, -xVALUE, and
 * flags in one word, before another letter too: -aF, -aFs 64; the last one given counts. Names are
 * not abbreviated. 0; 1: --help or -h was given, and "Usage: ", `usage` and the options are printed
 * to stdout; -EINVAL with a message that names the option, also for an argument that is no option.
 */
int br_options_parse(const struct br_option *options, const char *usage, int argc, char **argv);

/* The same for a command with operands, in any order with the options, and with a command behind
 * "--". arguments->command is valid on an error, too. */
int br_arguments_parse(struct br_arguments *arguments, const struct br_option *options,
                       const char *usage, int argc, char **argv);

#endif
