/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One 8-bit float of OCP's specification to float and back, without hardware, on CPUs and GPUs
 * alike. Rounding is to nearest, ties to even; subnormals are kept; nothing saturates: what is too
 * large becomes a NaN in E4M3, which has no infinities, and infinite in E5M2 (as in ml_dtypes and
 * torch). A NaN stays a NaN with its sign. No subnormal float occurs, so a program that flushes
 * them gets the same bits.
 */
#ifndef BR_BASE_FLOAT8_H
#define BR_BASE_FLOAT8_H

#include "base/half.h"

BR_ANYWHERE static inline float br_float_of_e4m3(uint8_t raw)
{
    uint32_t sign = (uint32_t)(raw & 0x80) << 24;
    uint32_t magnitude = raw & 0x7f;

    if (magnitude == 0x7f)
        return br_float_of_bits(sign | 0x7fc00000);
    if (magnitude >= 8) /* the exponent's bias is 7, float's 127 */
        return br_float_of_bits(sign | ((magnitude << 20) + (120u << 23)));
    return br_float_of_bits(sign | br_bits_of_float((float)magnitude * 0x1p-9f));
}

BR_ANYWHERE static inline uint8_t br_e4m3_of_float(float value)
{
    uint32_t bits = br_bits_of_float(value);
    uint32_t sign = bits >> 24 & 0x80;
    uint32_t magnitude = bits & 0x7fffffff;

    if (magnitude > 0x43e80000) /* 464: halfway from 448, which is even, to what would be next */
        return (uint8_t)(sign | 0x7f);
    if (magnitude < 0x3c800000) {
        /* Below 2^-6 the result is a multiple of 2^-9, the unit in the last place of a float in
         * [2^14, 2^15): adding 2^14 rounds to it and leaves the multiple in the low bits. */
        uint32_t rounded = br_bits_of_float(br_float_of_bits(magnitude) + 0x1p14f);

        return (uint8_t)(sign | (rounded - 0x46800000));
    }
    /* A carry out of the fraction raises the exponent, as it should. */
    magnitude += 0x7ffff + (magnitude >> 20 & 1);
    return (uint8_t)(sign | (magnitude - (120u << 23)) >> 20);
}

/* E5M2 is the upper half of a binary16. */
BR_ANYWHERE static inline float br_float_of_e5m2(uint8_t raw)
{
    return br_float_of_half((uint16_t)(raw << 8));
}

BR_ANYWHERE static inline uint8_t br_e5m2_of_float(float value)
{
    uint32_t bits = br_bits_of_float(value);
    uint32_t sign = bits >> 24 & 0x80;
    uint32_t magnitude = bits & 0x7fffffff;

    if (magnitude > 0x7f800000)
        return (uint8_t)(sign | 0x7e | (magnitude >> 21 & 1));
    if (magnitude >= 0x47700000) /* 61,440: halfway from 57,344 to the next power of two */
        return (uint8_t)(sign | 0x7c);
    if (magnitude < 0x38800000) {
        /* A multiple of 2^-16, the unit in the last place of a float in [2^7, 2^8). */
        uint32_t rounded = br_bits_of_float(br_float_of_bits(magnitude) + 0x1p7f);

        return (uint8_t)(sign | (rounded - 0x43000000));
    }
    magnitude += 0xfffff + (magnitude >> 21 & 1);
    return (uint8_t)(sign | (magnitude - 0x38000000) >> 21);
}

#endif
