/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes and names of the public types and reductions. Pure functions, callable from any thread. */
#ifndef BR_COLLECTIVES_SCHEDULE_TYPE_H
#define BR_COLLECTIVES_SCHEDULE_TYPE_H

#include <stdbool.h>
#include <stddef.h>

#include "braid/types.h"

/* Bytes of one element; 0 when the value is none of the enum's (it may come from a user or the
 * network). */
static inline size_t br_type_size(enum braid_type type)
{
    static const unsigned char sizes[BRAID_TYPES] = {
        [BRAID_FLOAT32] = 4, [BRAID_FLOAT64] = 8, [BRAID_FLOAT16] = 2, [BRAID_BFLOAT16] = 2,
        [BRAID_INT8] = 1,    [BRAID_UINT8] = 1,   [BRAID_INT32] = 4,   [BRAID_UINT32] = 4,
        [BRAID_INT64] = 8,   [BRAID_UINT64] = 8,
    };

    return (unsigned)type < BRAID_TYPES ? sizes[type] : 0;
}

/* Is it an integer type? type: a value of the enum. */
static inline bool br_type_is_integer(enum braid_type type)
{
    return type >= BRAID_INT8;
}

/* "float32", "int8", ... and "sum", "prod", ...; "?" for a value outside the enum. Static
 * strings. */
const char *br_type_name(enum braid_type type);
const char *br_reduction_name(enum braid_reduction reduction);

/*
 * Find the value of a name, for tools and bindings. The names of nccl-tests and C are understood
 * too
 * ("float", "double", "half"). Return 0, or -EINVAL with a message that lists the names; *out is
 * then untouched.
 */
int br_type_parse(const char *name, enum braid_type *out);
int br_reduction_parse(const char *name, enum braid_reduction *out);

#endif
