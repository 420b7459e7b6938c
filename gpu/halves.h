/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the kernels of float16 and bfloat16 do in fewer instructions than base/half.h and
 * base/elements.h, and with the same bits. C and CUDA C++ alike: tests run it on the CPU.
 */
#ifndef BR_GPU_HALVES_H
#define BR_GPU_HALVES_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/half.h"

/* ---- conversions of float16 in which one NaN is as good as another --------------------------- */

BR_ANYWHERE static inline float br_gpu_float_of_half(uint16_t half)
{
#ifdef __CUDA_ARCH__
    return __half2float(__ushort_as_half(half));
#else
    return br_float_of_half(half);
#endif
}

BR_ANYWHERE static inline uint16_t br_gpu_half_of_float(float value)
{
#ifdef __CUDA_ARCH__
    return __half_as_ushort(__float2half_rn(value));
#else
    return br_half_of_float(value);
#endif
}

/* ---- two float16 in a 32-bit word ------------------------------------------------------------ */

/* All bits of each that is a NaN. */
BR_ANYWHERE static inline uint32_t br_gpu_nan_pair(uint32_t pair)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint32_t mask;

    asm("set.neu.u32.f16x2 %0, %1, %1;" : "=r"(mask) : "r"(pair)); /* not equal to itself */
    return mask;
#else
    /* Above 0x7c00, which is infinity, a magnitude grows into the sign's bit. */
    return (((pair & 0x7fff7fff) + 0x03ff03ff) >> 15 & 0x00010001) * 0xffff;
#endif
}

/* Integers in the order of the numbers: the magnitude of a negative one is inverted. */
BR_ANYWHERE static inline uint16_t br_gpu_number_extreme(bool larger, uint16_t a, uint16_t b)
{
    uint16_t rank_a = (uint16_t)(a & 0x8000 ? ~a : a | 0x8000);
    uint16_t rank_b = (uint16_t)(b & 0x8000 ? ~b : b | 0x8000);

    return larger == (rank_a > rank_b) ? a : b;
}

/* The smaller or the larger of each two: -0 < +0. If one is a NaN, anything. */
BR_ANYWHERE static inline uint32_t br_gpu_number_pair(bool larger, uint32_t a, uint32_t b)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    __half2 x, y;

    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    x = larger ? __hmax2(x, y) : __hmin2(x, y);
    memcpy(&a, &x, sizeof a);
    return a;
#else
    uint32_t low = br_gpu_number_extreme(larger, (uint16_t)a, (uint16_t)b);
    uint32_t high = br_gpu_number_extreme(larger, (uint16_t)(a >> 16), (uint16_t)(b >> 16));

    return high << 16 | low;
#endif
}

/* The smaller or the larger of each two; a NaN wins (the first one) and stays as it is. */
BR_ANYWHERE static inline uint32_t br_gpu_extreme_pair(bool larger, uint32_t a, uint32_t b)
{
    uint32_t nan_a = br_gpu_nan_pair(a), nan_b = br_gpu_nan_pair(b);
    uint32_t not_a = (nan_b & b) | (~nan_b & br_gpu_number_pair(larger, a, b));

    return (nan_a & a) | (~nan_a & not_a);
}

/* NaNs made quiet. */
BR_ANYWHERE static inline uint32_t br_gpu_quiet_pair(uint32_t pair)
{
    return pair | (br_gpu_nan_pair(pair) & 0x02000200);
}

/* ---- averages -------------------------------------------------------------------------------- */

/*
 * v / divisor, correctly rounded as a float, without the GPU's division, which takes more than
 * twice the instructions and a branch. v is a sum of float16 or bfloat16, so a multiple of 2^-133;
 * the divisor is at most BR_GPU_DIVISOR.
 *
 * Let u be the unit in the last place of the quotient. y = 1 / d has a relative error of at most
 * 2^-24, so q = v * y is within 1.5 u of v / d. The remainder r = v - d * q is exact: it is a
 * multiple of u, and fewer than 2^24 of them. So q + r * y, before it is rounded, is within
 * 1.5 * 2^-24 u of v / d. If v / d is no float, it is at least u / (2 d) away from every middle
 * between two floats, which is more: both round to the same float. (In such a middle it is never:
 * among normal floats that would take 25 bits of v, and among subnormal ones a divisor of 2^17.)
 *
 * r is 0 where q is exact, and then adding it could only lose the sign of a zero; it is a NaN where
 * q is infinite or a NaN.
 */
BR_ANYWHERE static inline float br_gpu_average(float v, int32_t divisor)
{
    float d = (float)divisor, y = 1 / d, q = v * y, r = fmaf(-d, q, v);

    return fabsf(r) > 0 ? fmaf(r, y, q) : q;
}

#endif
