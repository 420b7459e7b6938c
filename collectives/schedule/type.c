/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule/type.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"

struct type {
    const char *name;
    const char *alias; /* another name users know it by; NULL: none */
};

static const struct type types[BRAID_TYPES] = {
    [BRAID_FLOAT32] = {"float32", "float"}, [BRAID_FLOAT64] = {"float64", "double"},
    [BRAID_FLOAT16] = {"float16", "half"},  [BRAID_BFLOAT16] = {"bfloat16", NULL},
    [BRAID_INT8] = {"int8", NULL},          [BRAID_UINT8] = {"uint8", NULL},
    [BRAID_INT32] = {"int32", NULL},        [BRAID_UINT32] = {"uint32", NULL},
    [BRAID_INT64] = {"int64", NULL},        [BRAID_UINT64] = {"uint64", NULL},
};

static const char *const reductions[BRAID_REDUCTIONS] = {
    [BRAID_SUM] = "sum", [BRAID_PROD] = "prod", [BRAID_MIN] = "min",
    [BRAID_MAX] = "max", [BRAID_AVG] = "avg",
};

const char *br_type_name(enum braid_type type)
{
    return (unsigned)type < BRAID_TYPES ? types[type].name : "?";
}

const char *br_reduction_name(enum braid_reduction reduction)
{
    return (unsigned)reduction < BRAID_REDUCTIONS ? reductions[reduction] : "?";
}

int br_type_parse(const char *name, enum braid_type *out)
{
    for (unsigned i = 0; i < BRAID_TYPES; i++)
        if (!strcmp(name, types[i].name) || (types[i].alias && !strcmp(name, types[i].alias))) {
            *out = (enum braid_type)i;
            return 0;
        }
    return br_error(
        EINVAL,
        "no data type is called '%s'; there are float32 (float), float64 (double), float16 (half), "
        "bfloat16, int8, uint8, int32, uint32, int64, uint64",
        name);
}

int br_reduction_parse(const char *name, enum braid_reduction *out)
{
    for (unsigned i = 0; i < BRAID_REDUCTIONS; i++)
        if (!strcmp(name, reductions[i])) {
            *out = (enum braid_reduction)i;
            return 0;
        }
    return br_error(EINVAL, "no reduction is called '%s'; there are sum, prod, min, max, avg",
                    name);
}
