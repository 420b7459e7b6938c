/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes and names of the public types and reductions. Pure functions, callable from any thread. */
#ifndef BR_COLLECTIVES_SCHEDULE_TYPE_H
#define BR_COLLECTIVES_SCHEDULE_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "braid/types.h"

/* Bytes of one element; 0 when the value is none of the enum's (it may come from a user or the
 * network). */
static inline size_t br_type_size(enum braid_type type)
{
    static const unsigned char sizes[BRAID_TYPES] = {
        [BRAID_FLOAT32] = 4,     [BRAID_FLOAT64] = 8,     [BRAID_FLOAT16] = 2,
        [BRAID_BFLOAT16] = 2,    [BRAID_INT8] = 1,        [BRAID_UINT8] = 1,
        [BRAID_INT32] = 4,       [BRAID_UINT32] = 4,      [BRAID_INT64] = 8,
        [BRAID_UINT64] = 8,      [BRAID_INT16] = 2,       [BRAID_UINT16] = 2,
        [BRAID_BOOL] = 1,        [BRAID_COMPLEX64] = 8,   [BRAID_COMPLEX128] = 16,
        [BRAID_FLOAT8_E4M3] = 1, [BRAID_FLOAT8_E5M2] = 1,
    };

    return (unsigned)type < BRAID_TYPES ? sizes[type] : 0;
}

#define BR_TYPE_BYTES_MAX 16 /* of an element of any type */

/* Is it an integer type? type: a value of the enum. bool is none. */
static inline bool br_type_is_integer(enum braid_type type)
{
    return type >= BRAID_INT8 && type <= BRAID_UINT16;
}

/* The reductions of a type (the table in braid/types.h); bit i: enum braid_reduction i. 0 when the
 * value is none of the enum's. */
static inline uint32_t br_type_reductions(enum braid_type type)
{
    enum {
        SUMS = 1 << BRAID_SUM | 1 << BRAID_PROD | 1 << BRAID_AVG,
        ORDER = 1 << BRAID_MIN | 1 << BRAID_MAX,
        BITS = 1 << BRAID_BAND | 1 << BRAID_BOR | 1 << BRAID_BXOR | 1 << BRAID_LAND |
               1 << BRAID_LOR | 1 << BRAID_LXOR,
        FLOAT = SUMS | ORDER,
        INTEGER = FLOAT | BITS,
    };
    static const uint16_t reductions[BRAID_TYPES] = {
        [BRAID_FLOAT32] = FLOAT,
        [BRAID_FLOAT64] = FLOAT,
        [BRAID_FLOAT16] = FLOAT,
        [BRAID_BFLOAT16] = FLOAT,
        [BRAID_INT8] = INTEGER,
        [BRAID_UINT8] = INTEGER,
        [BRAID_INT32] = INTEGER,
        [BRAID_UINT32] = INTEGER,
        [BRAID_INT64] = INTEGER,
        [BRAID_UINT64] = INTEGER,
        [BRAID_INT16] = INTEGER,
        [BRAID_UINT16] = INTEGER,
        [BRAID_BOOL] = INTEGER & ~(1 << BRAID_AVG),
        [BRAID_COMPLEX64] = SUMS,
        [BRAID_COMPLEX128] = SUMS,
        [BRAID_FLOAT8_E4M3] = FLOAT,
        [BRAID_FLOAT8_E5M2] = FLOAT,
    };

    return (unsigned)type < BRAID_TYPES ? reductions[type] : 0;
}

/* Does the reduction combine elements of the type? Both may be outside of their enums. */
static inline bool br_type_has_reduction(enum braid_type type, enum braid_reduction reduction)
{
    return (unsigned)reduction < BRAID_REDUCTIONS && br_type_reductions(type) >> reduction & 1;
}

/* The same with words: 0, or -EINVAL with a message that names `call` and what to use instead. */
int br_reduction_check(const char *call, enum braid_type type, enum braid_reduction reduction);

/* "float32", "int8", ... and "sum", "prod", ...; "?" for a value outside the enum. Static
 * strings. */
const char *br_type_name(enum braid_type type);
const char *br_reduction_name(enum braid_reduction reduction);

/*
 * Find the value of a name, for tools and bindings. The names of nccl-tests, C, numpy
 * and torch are understood, too ("float", "half", "complex", "float8_e4m3fn", ...). Return 0, or
 * -EINVAL with a message that lists the names; *out is then untouched.
 */
int br_type_parse(const char *name, enum braid_type *out);
int br_reduction_parse(const char *name, enum braid_reduction *out);

#endif
