/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule/type.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

struct type {
    const char *name;
    const char *alias; /* another name users know it by; NULL: none */
};

static const struct type types[BRAID_TYPES] = {
    [BRAID_FLOAT32] = {"float32", "float"},
    [BRAID_FLOAT64] = {"float64", "double"},
    [BRAID_FLOAT16] = {"float16", "half"},
    [BRAID_BFLOAT16] = {"bfloat16", NULL},
    [BRAID_INT8] = {"int8", NULL},
    [BRAID_UINT8] = {"uint8", NULL},
    [BRAID_INT32] = {"int32", NULL},
    [BRAID_UINT32] = {"uint32", NULL},
    [BRAID_INT64] = {"int64", NULL},
    [BRAID_UINT64] = {"uint64", NULL},
    [BRAID_INT16] = {"int16", NULL},
    [BRAID_UINT16] = {"uint16", NULL},
    [BRAID_BOOL] = {"bool", NULL},
    [BRAID_COMPLEX64] = {"complex64", NULL},
    [BRAID_COMPLEX128] = {"complex128", "complex"},
    [BRAID_FLOAT8_E4M3] = {"float8_e4m3", "float8_e4m3fn"},
    [BRAID_FLOAT8_E5M2] = {"float8_e5m2", NULL},
};

static const char *const reductions[BRAID_REDUCTIONS] = {
    [BRAID_SUM] = "sum",   [BRAID_PROD] = "prod", [BRAID_MIN] = "min",   [BRAID_MAX] = "max",
    [BRAID_AVG] = "avg",   [BRAID_BAND] = "band", [BRAID_BOR] = "bor",   [BRAID_BXOR] = "bxor",
    [BRAID_LAND] = "land", [BRAID_LOR] = "lor",   [BRAID_LXOR] = "lxor",
};

const char *br_type_name(enum braid_type type)
{
    return (unsigned)type < BRAID_TYPES ? types[type].name : "?";
}

const char *br_reduction_name(enum braid_reduction reduction)
{
    return (unsigned)reduction < BRAID_REDUCTIONS ? reductions[reduction] : "?";
}

/* The names of a list, behind each other: "float32 (float), float64 (double), ...". */
static void type_list(char *text, size_t bytes)
{
    size_t used = 0;

    for (unsigned i = 0; i < BRAID_TYPES && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s%s%s%s", i ? ", " : "",
                                 types[i].name, types[i].alias ? " (" : "",
                                 types[i].alias ? types[i].alias : "", types[i].alias ? ")" : "");
}

static void reduction_list(uint32_t which, char *text, size_t bytes)
{
    size_t used = 0;

    for (unsigned i = 0; i < BRAID_REDUCTIONS && used < bytes; i++)
        if (which >> i & 1)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "",
                                     reductions[i]);
}

int br_type_parse(const char *name, enum braid_type *out)
{
    char names[320];

    for (unsigned i = 0; i < BRAID_TYPES; i++)
        if (!strcmp(name, types[i].name) || (types[i].alias && !strcmp(name, types[i].alias))) {
            *out = (enum braid_type)i;
            return 0;
        }
    type_list(names, sizeof names);
    return br_error(EINVAL, "no data type is called '%s'; there are %s", name, names);
}

int br_reduction_parse(const char *name, enum braid_reduction *out)
{
    char names[120];

    for (unsigned i = 0; i < BRAID_REDUCTIONS; i++)
        if (!strcmp(name, reductions[i])) {
            *out = (enum braid_reduction)i;
            return 0;
        }
    reduction_list(UINT32_MAX, names, sizeof names);
    return br_error(EINVAL, "no reduction is called '%s'; there are %s", name, names);
}

int br_reduction_check(const char *call, enum braid_type type, enum braid_reduction reduction)
{
    char names[120];

    if ((unsigned)type >= BRAID_TYPES)
        return br_error(EINVAL, "%s: there is no data type %d", call, (int)type);
    if ((unsigned)reduction >= BRAID_REDUCTIONS)
        return br_error(EINVAL, "%s: there is no reduction %d", call, (int)reduction);
    if (br_type_has_reduction(type, reduction))
        return 0;
    reduction_list(br_type_reductions(type), names, sizeof names);
    return br_error(EINVAL, "%s: %s does not combine %s; what does: %s", call,
                    reductions[reduction], types[type].name, names);
}
