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
    BRAID_UINT64 = 9,
    BRAID_INT16 = 10,
    BRAID_UINT16 = 11,
    /* 1 byte, C's _Bool, numpy's and torch's bool: 0 is false, every other value true. What is
     * combined of several ranks' values is 0 or 1 */
    BRAID_BOOL = 12,
    BRAID_COMPLEX64 = 13,  /* two binary32, real part first: C's float complex, numpy's complex64 */
    BRAID_COMPLEX128 = 14, /* two binary64: C's double complex, numpy's complex128 */
    /* 1 byte: 4 bits of exponent, 3 of fraction, the E4M3 of OCP's 8-bit floating point
     * specification 1.0, float8_e4m3fn of ml_dtypes and torch: largest value 448, no infinities;
     * what is rounded beyond 448 becomes a NaN, as theirs do */
    BRAID_FLOAT8_E4M3 = 15,
    /* 1 byte: 5 bits of exponent, 2 of fraction, OCP's E5M2, float8_e5m2 of ml_dtypes and torch:
     * largest finite value 57,344; what is rounded beyond becomes an infinity */
    BRAID_FLOAT8_E5M2 = 16
};

#define BRAID_TYPES 17 /* how many there are */

/*
 * How the ranks' elements become one. Sources are combined in an order that depends only on the
 * algorithm, the rank count and the size, so the same inputs give the same bits.
 *
 *              SUM PROD AVG   MIN MAX   BAND BOR BXOR   LAND LOR LXOR
 *     intN     yes yes  yes   yes yes   yes  yes yes    yes  yes yes
 *     floatN   yes yes  yes   yes yes   -    -   -      -    -   -      all floating-point types
 *     complexN yes yes  yes   -   -     -    -   -      -    -   -      there is no order
 *     bool     or  and  -     and or    and  or  xor    and  or  xor    as torch and numpy have it
 *
 * A call with one of the others ("-") ends with -EINVAL on every rank.
 *
 * - Integers: SUM and PROD wrap around (two's complement). AVG is the wrapped sum divided by the
 *   number of ranks, truncated toward zero.
 * - float16, bfloat16 and the two float8 are combined in float32 within one step of an algorithm
 *   and rounded to the nearest (ties to even) once at the end of the step; an algorithm of several
 *   hops rounds at every hop.
 * - MIN and MAX: a NaN from any rank makes the result a NaN (which one is not specified, nor is its
 *   sign); -0 is less than +0.
 * - AVG of floating-point and complex types: the sum is divided once, at the last step, before that
 *   step's rounding.
 * - PROD of complex types: (a + bi)(c + di) = (ac - bd) + (ad + bc)i, each of the operations
 *   rounded, without C's Annex G for infinities.
 * - BAND, BOR, BXOR: of the bits. LAND, LOR, LXOR: of the truth of the values, as MPI_LAND: every
 *   value but 0 is true, and the result is 0 or 1. In a communicator of one rank nothing is
 *   combined: the result of every reduction but AVG is what was given, bit by bit.
 *
 * MPI's MINLOC and MAXLOC are not here: each pair of value and index would be a type of its own,
 * which no other collective needs, and NCCL and torch have none. A function of the
 * program's own does it, over elements as long as the pair (braid/reduction.h).
 */
enum braid_reduction {
    BRAID_SUM = 0,
    BRAID_PROD = 1,
    BRAID_MIN = 2,
    BRAID_MAX = 3,
    BRAID_AVG = 4,                 /* the sum divided by the number of ranks */
    BRAID_BAND = 5,                /* bitwise and */
    BRAID_BOR = 6,                 /* bitwise or */
    BRAID_BXOR = 7,                /* bitwise exclusive or */
    BRAID_LAND = 8,                /* are all true? */
    BRAID_LOR = 9,                 /* is any true? */
    BRAID_LXOR = 10,               /* is an odd number of them true? */
    BRAID_REDUCTION_USER = 0x10000 /* from here on: those of braid_reduction_create() */
};

#define BRAID_REDUCTIONS 11 /* how many there are, without the program's own */

/* In which order the values of the ranks are combined (braid_options.order, BRAID_ORDER). */
enum braid_order {
    /* The order of the algorithm: fastest. The default, unless BRAID_ORDER=ranks. */
    BRAID_ORDER_ANY = 0,
    /*
     * Every element is ((r0 + r1) + r2) + ..., r0 being the element of rank 0, with one rounding at
     * the end where types of 16 and 8 bits are combined in float32. So the same values on the same
     * ranks give the same bits, whatever the size of the buffer, how it is split into calls or
     * fused by a session, where in it the element lies, on which back end, on the CPU or a GPU;
     * with the exception of a NaN's payload. Algorithms that do so are chosen: an all-reduce sends
     * each piece straight to the rank that combines it, then back (doc/collectives.md has the
     * cost); naming another one is -EINVAL. Counts
     * for all-reduce, reduce, reduce-scatter and scans, of which the latter go from rank to rank
     * and round at each; other collectives combine nothing and ignore it. All ranks must ask for
     * the same order.
     */
    BRAID_ORDER_RANKS = 1
};

#ifdef __cplusplus
}
#endif

#endif
