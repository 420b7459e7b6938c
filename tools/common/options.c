/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/common/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <popt.h>

#include "base/env.h"
#include "base/error.h"

#define VALUE_NAME 32 /* bytes of a value's name in the help */

/* ---- sub-commands ---------------------------------------------------------------------------- */

static void commands_help(const char *who, const struct br_command *commands, size_t count,
                          FILE *out)
{
    fprintf(out, "Usage: %s COMMAND [option...]; %s COMMAND --help says more\n\n", who, who);
    for (size_t i = 0; i < count; i++)
        if (commands[i].help)
            fprintf(out, "  %-16s %s\n", commands[i].name, commands[i].help);
}

int br_dispatch(const char *who, const struct br_command *commands, size_t count, int argc,
                char **argv)
{
    if (argc < 2) {
        commands_help(who, commands, count, stderr);
        return 2;
    }
    if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        commands_help(who, commands, count, stdout);
        return 0;
    }
    for (size_t i = 0; i < count; i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "%s: there is no command '%s'; `%s help` lists them\n", who, argv[1], who);
    return 2;
}

/* ---- options --------------------------------------------------------------------------------- */

/* popt adds a copy of each value and operand here, and a NULL behind the last one. They are not
 * freed, because commands use them as long as the process runs. */
static const char **values;

static const char *last_value(void)
{
    const char **value = values;

    while (value && *value && value[1])
        value++;
    return value ? *value : NULL;
}

/* popt's table of the same options and --help, for free(). Option i has the number i + 1, --help
 * the one after the last. NULL with a message. */
static struct poptOption *options_table(const struct br_option *options, int *count)
{
    struct poptOption *table;
    char(*names)[VALUE_NAME];
    int n = 0;

    while (options[n].name)
        n++;
    table = calloc(1, ((size_t)n + 2) * sizeof *table + (size_t)n * sizeof *names);
    if (!table) {
        br_error(ENOMEM, "no memory for %d options", n);
        return NULL;
    }
    names = (void *)(table + n + 2); /* popt wants the value's name apart from the help */
    for (int i = 0; i < n; i++) {
        const char *help = options[i].help ? options[i].help : "";
        bool flag = options[i].kind == BR_OPTION_FLAG;
        size_t length = flag ? 0 : strcspn(help, " ");

        snprintf(names[i], VALUE_NAME, "%.*s", (int)length, help);
        table[i] = (struct poptOption){
            .longName = options[i].name,
            .shortName = options[i].letter,
            .argInfo = (flag ? POPT_ARG_NONE : POPT_ARG_ARGV) |
                       (options[i].help ? 0 : POPT_ARGFLAG_DOC_HIDDEN),
            .arg = flag ? NULL : (void *)&values,
            .val = i + 1,
            .descrip = help + length + (help[length] == ' '),
            .argDescrip = names[i],
        };
    }
    table[n] =
        (struct poptOption){"help", 'h', POPT_ARG_NONE, NULL, n + 1, "print this help", NULL};
    *count = n;
    return table;
}

static int options_set(const struct br_option *option, const char *text)
{
    uint64_t bytes = 0;
    int64_t number = 0;
    double decimal;
    char *end;
    bool valid;

    switch (option->kind) {
    case BR_OPTION_FLAG:
        *(bool *)option->out = true;
        return 0;
    case BR_OPTION_TEXT:
        *(const char **)option->out = text;
        return 0;
    case BR_OPTION_DECIMAL:
        decimal = strtod(text, &end);
        valid = end != text && !*end && decimal > (double)option->min &&
                decimal <= (double)option->max; /* not so when it is NaN */
        if (!valid)
            return br_error(EINVAL,
                            "--%s %s: must be a number above %" PRId64 " and at most %" PRId64,
                            option->name, text, option->min, option->max);
        *(double *)option->out = decimal;
        return 0;
    case BR_OPTION_BYTES:
        valid = !br_parse_bytes(text, &bytes) && bytes <= INT64_MAX;
        number = (int64_t)bytes;
        break;
    default:
        errno = 0;
        number = strtoll(text, &end, 10);
        valid = !errno && end != text && !*end;
    }
    if (!valid || number < option->min || number > option->max)
        return br_error(
            EINVAL, "--%s %s: must be a %s from %" PRId64 " to %" PRId64, option->name, text,
            option->kind == BR_OPTION_BYTES ? "number of bytes (K, M, G allowed)" : "whole number",
            option->min, option->max);
    *(int64_t *)option->out = number;
    return 0;
}

/* Sets the outs of all options that popt finds. 0; 1: help is wanted; -EINVAL with a message. */
static int options_set_all(const struct br_option *options, int count, poptContext context)
{
    int rc = 0;

    while (!rc) {
        int number = poptGetNextOpt(context);
        const char *bad = poptBadOption(context, POPT_BADOPTION_NOALIAS);

        if (number == -1) /* that was the last one */
            return 0;
        if (number > count)
            rc = 1;
        else if (number > 0)
            rc = options_set(&options[number - 1], last_value());
        else if (number == POPT_ERROR_BADOPT)
            rc = br_error(EINVAL, "there is no option %s; --help lists them", bad);
        else if (number == POPT_ERROR_NOARG)
            rc = br_error(EINVAL, "%s needs a value", bad);
        else if (number == POPT_ERROR_UNWANTEDARG)
            rc = br_error(EINVAL, "%s: this option takes no value", bad);
        else
            rc = br_error(EINVAL, "%s: %s", bad, poptStrerror(number));
    }
    return rc;
}

/* "Usage: " and `usage`, then the options, in lines as long as the terminal has columns. */
static void options_help(const struct br_option *options, const char *usage)
{
    const char *nothing[] = {NULL};
    int count;
    struct poptOption *table = options_table(options, &count);
    poptContext context =
        table ? poptGetContext(NULL, 0, nothing, table, POPT_CONTEXT_KEEP_FIRST) : NULL;

    if (context) {
        poptSetOtherOptionHelp(context, usage);
        poptPrintHelp(context, stdout, 0);
    }
    poptFreeContext(context);
    free(table);
}

int br_arguments_parse(struct br_arguments *arguments, const struct br_option *options,
                       const char *usage, int argc, char **argv)
{
    int own = 1, count, rc;
    struct poptOption *table = options_table(options, &count);
    poptContext context;

    *arguments = (struct br_arguments){0};
    if (!table)
        return -ENOMEM;
    while (own < argc && strcmp(argv[own], "--") != 0)
        own++;
    if (own + 1 < argc)
        arguments->command = argv + own + 1;
    context = poptGetContext(NULL, own, (const char **)argv, table, 0);
    rc = context ? options_set_all(options, count, context) : br_error(ENOMEM, "no memory");
    for (const char **operand = rc ? NULL : poptGetArgs(context); operand && *operand; operand++)
        if (arguments->count == BR_OPERANDS)
            rc = br_error(EINVAL, "'%s' is one word too many", *operand);
        else if (poptSaveString(&values, POPT_ARG_ARGV, *operand))
            rc = br_error(ENOMEM, "no memory for '%s'", *operand);
        else
            arguments->operands[arguments->count++] = (char *)last_value();
    poptFreeContext(context);
    free(table);
    if (rc > 0)
        options_help(options, usage);
    return rc;
}

int br_options_parse(const struct br_option *options, const char *usage, int argc, char **argv)
{
    struct br_arguments arguments;
    int rc = br_arguments_parse(&arguments, options, usage, argc, argv);

    if (!rc && (arguments.count || arguments.command))
        rc = br_error(EINVAL, "'%s' is not an option; --help lists them",
                      arguments.count ? arguments.operands[0] : "--");
    return rc;
}
