/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One float16 or bfloat16 to float and back, without hardware: the reference of the vector kernels,
 * which must give the same bits. On a GPU its own conversions serve, but for NaNs, whose payload
 * they would drop. Rounding is to nearest, ties to even; what is too large becomes infinite;
 * subnormals are kept; a NaN stays a NaN with sign and the payload bits that fit, and becomes
 * quiet.
 */
#ifndef BR_BASE_HALF_H
#define BR_BASE_HALF_H

#include <stdint.h>
#include <string.h>

/* Before a function that GPU code calls too. */
#ifdef __CUDACC__
#include <cuda_fp16.h>
#define BR_ANYWHERE __host__ __device__
#else
#define BR_ANYWHERE
#endif

BR_ANYWHERE static inline float br_float_of_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

BR_ANYWHERE static inline uint32_t br_bits_of_float(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

BR_ANYWHERE static inline float br_float_of_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = (half >> 10) & 0x1f;
    uint32_t fraction = half & 0x3ff;

    if (exponent == 0x1f) /* infinite, or a NaN to be made quiet */
        return br_float_of_bits(sign | 0x7f800000 | fraction << 13 | (fraction ? 0x400000 : 0));
#ifdef __CUDA_ARCH__
    return __half2float(__ushort_as_half(half));
#else
    if (exponent)
        return br_float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    /* Subnormal: fraction * 2^-24, exact in float. */
    return br_float_of_bits(sign | br_bits_of_float((float)fraction * 0x1p-24f));
#endif
}

BR_ANYWHERE static inline uint16_t br_half_of_float(float value)
{
    uint32_t bits = br_bits_of_float(value);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;

    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
#ifdef __CUDA_ARCH__
    return __half_as_ushort(__float2half_rn(value));
#else
    if (magnitude >= 0x477ff000) /* 65520: halfway from the largest half to the next power of two */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) {
        /* Below 2^-14 the result is a multiple of 2^-24, which is the unit in the last place of a
         * float in [0.5, 1): adding 0.5 rounds to it, ties to even, and leaves the multiple in the
         * low bits. */
        uint32_t rounded = br_bits_of_float(br_float_of_bits(magnitude) + 0.5f);

        return (uint16_t)(sign | (rounded - 0x3f000000));
    }
    /* A carry out of the fraction raises the exponent, as it should. */
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (magnitude - 0x38000000) >> 13);
#endif
}

BR_ANYWHERE static inline float br_float_of_bfloat(uint16_t bfloat)
{
    return br_float_of_bits((uint32_t)bfloat << 16);
}

BR_ANYWHERE static inline uint16_t br_bfloat_of_float(float value)
{
    uint32_t bits = br_bits_of_float(value);

    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
