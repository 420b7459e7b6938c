/* SPDX-License-Identifier: BSD-3-Clause */
/* The kinds of elements and the reductions that collectives work with. */
#ifndef BRAID_TYPES_H
#define BRAID_TYPES_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The type of one element, in the host's byte order. All ranks of a job have the same byte order
 * (the handshake refuses others). Buffers need no alignment. The numbers are part of the ABI and of
 * the wire format: new ones are appended.
 */
enum braid_type {
    BRAID_FLOAT32 = 0,  /* IEEE 754 binary32, C's float */
    BRAID_FLOAT64 = 1,  /* IEEE 754 binary64, C's double */
    BRAID_FLOAT16 = 2,  /* IEEE 754 binary16, 2 bytes */
    BRAID_BFLOAT16 = 3, /* the upper half of a binary32, 2 bytes */
    BRAID_INT8 = 4,
    BRAID_UINT8 = 5,
    BRAID_INT32 = 6,
    BRAID_UINT32 = 7,
    BRAID_INT64 = 8,
    BRAID_UINT64 = 9
};

#define BRAID_TYPES 10 /* how many there are */

/*
 * How the ranks' elements become one. Sources are combined in an order that depends only on the
 * algorithm, the rank count and the size, so the same inputs give the same bits.
 *
 * - Integers: SUM and PROD wrap around (two's complement). AVG is the wrapped sum divided by the
 *   number of
 * ranks, truncated toward zero.
 * - float16 and bfloat16 are combined in float32 within one step of an algorithm and rounded to the
 *   nearest
 * (ties to even) once at the end of the step; an algorithm of several hops rounds at every hop.
 * - MIN and MAX: a NaN from any rank makes the result a NaN (which one is not specified, nor is its
 *   sign); -0 is less than +0.
 * - AVG of floating-point types: the sum is divided once, at the last step, before that step's
 *   rounding.
 */
enum braid_reduction {
    BRAID_SUM = 0,
    BRAID_PROD = 1,
    BRAID_MIN = 2,
    BRAID_MAX = 3,
    BRAID_AVG = 4 /* the sum divided by the number of ranks */
};

#define BRAID_REDUCTIONS 5 /* how many there are */

#ifdef __cplusplus
}
#endif

#endif
