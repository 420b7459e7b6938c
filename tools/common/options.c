/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/common/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/error.h"

static const struct br_option *options_find(const struct br_option *options, const char *argument,
                                            const char **value)
{
    bool is_long = argument[1] == '-';
    size_t length = is_long ? strcspn(argument + 2, "=") : 1;
    for (const struct br_option *o = options; o->name; o++) {
        if (is_long ? strlen(o->name) == length && !strncmp(o->name, argument + 2, length)
                    : o->letter && o->letter == argument[1]) {
            const char *rest = argument + (is_long ? 2 : 1) + length;
            *value = is_long && *rest == '=' ? rest + 1 : *rest ? rest : NULL;
            return o;
        }
    }
    return NULL;
}

static const struct br_option *flag_of(const struct br_option *options, char letter)
{
    for (const struct br_option *o = options; o->name && letter; o++)
        if (o->kind == BR_OPTION_FLAG && o->letter == letter)
            return o;
    return NULL;
}

size_t br_options_flags(const struct br_option *options, const char *argument)
{
    size_t n = 0;

    if (argument[0] != '-' || argument[1] == '-')
        return 0;
    while (flag_of(options, argument[1 + n]))
        n++;
    return n;
}

static int options_set_number(const struct br_option *option, const char *text)
{
    int64_t number;
    uint64_t bytes;
    char *end;
    bool valid;
    if (option->kind == BR_OPTION_BYTES) {
        valid = !br_parse_bytes(text, &bytes) && bytes <= INT64_MAX;
        number = (int64_t)bytes;
    } else {
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

static int options_set(const struct br_option *option, const char *value)
{
    switch (option->kind) {
    case BR_OPTION_FLAG:
        if (value)
            return br_error(EINVAL, "--%s takes no value", option->name);
        *(bool *)option->out = true;
        return 0;
    case BR_OPTION_TEXT:
        *(const char **)option->out = value;
        return 0;
    default:
        return options_set_number(option, value);
    }
}

static int parse_one(const struct br_option *options, int argc, char **argv, int *i)
{
    size_t flags = br_options_flags(options, argv[*i]);
    const struct br_option *option;
    const char *value = NULL;

    for (size_t k = 0; k < flags; k++)
        *(bool *)flag_of(options, argv[*i][1 + k])->out = true;
    if (flags && !argv[*i][1 + flags])
        return 0;
    option = flags && argv[*i][1 + flags] == '-' ? NULL
                                                 : options_find(options, argv[*i] + flags, &value);
    if (!option)
        return br_error(EINVAL, "there is no option %s; --help lists them", argv[*i]);
    if (option->kind != BR_OPTION_FLAG && !value) {
        if (++*i == argc)
            return br_error(EINVAL, "--%s needs a value", option->name);
        value = argv[*i];
    }
    return options_set(option, value);
}

int br_options_parse(const struct br_option *options, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int rc;

        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return 1;
        if (argv[i][0] != '-' || !argv[i][1])
            return br_error(EINVAL, "'%s' is not an option; --help lists them", argv[i]);
        rc = parse_one(options, argc, argv, &i);
        if (rc)
            return rc;
    }
    return 0;
}

void br_options_help(const struct br_option *options, const char *usage, FILE *out)
{
    fprintf(out, "usage: %s\n", usage);
    for (const struct br_option *o = options; o->name; o++) {
        char left[64];
        int word = o->kind == BR_OPTION_FLAG ? 0 : (int)strcspn(o->help, " ");
        snprintf(left, sizeof left, "%c%c%c --%s %.*s", o->letter ? '-' : ' ',
                 o->letter ? o->letter : ' ', o->letter ? ',' : ' ', o->name, word, o->help);
        fprintf(out, "  %-32s %s\n", left, o->help + word + (o->help[word] == ' '));
    }
}
