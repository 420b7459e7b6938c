/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef __x86_64__

#include <immintrin.h>
#include <stddef.h>
#include <string.h>

#define TARGET       __attribute__((target("avx2,f16c")))
#define BYTES        32
#define KERNELS      br_reduce_avx2
#define KERNELS_NAME "avx2"

/* AVX2 has no masks for bytes: the ends of arrays go through memcpy. */
static inline TARGET __m256i load_whole(const char *p, size_t n)
{
    __m256i whole = _mm256_setzero_si256();

    memcpy(&whole, p, n);
    return whole;
}

static inline TARGET __m128i load_half(const char *p, size_t n)
{
    __m128i half = _mm_setzero_si128();

    memcpy(&half, p, n);
    return half;
}

static inline TARGET void store_whole(char *p, __m256i whole, size_t n)
{
    memcpy(p, &whole, n);
}

static inline TARGET void store_half(char *p, __m128i half, size_t n)
{
    memcpy(p, &half, n);
}

/* The lower halves of the elements, which must be below 65536. */
static inline TARGET __m128i narrow_uint32(__m256i whole)
{
    return _mm_packus_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
}

#define LOAD_WHOLE(p, n)         load_whole(p, n)
#define LOAD_HALF(p, n)          load_half(p, n)
#define STORE_WHOLE(p, whole, n) store_whole(p, (__m256i)(whole), n)
#define STORE_HALF(p, half, n)   store_half(p, (__m128i)(half), n)
#define WIDEN_FLOAT16(half)      _mm256_cvtph_ps((__m128i)(half))
#define NARROW_FLOAT16(whole)    _mm256_cvtps_ph((__m256)(whole), _MM_FROUND_TO_NEAREST_INT)
#define WIDEN_UINT16(half)       _mm256_cvtepu16_epi32((__m128i)(half))
#define NARROW_UINT32(whole)     narrow_uint32((__m256i)(whole))

#include "collectives/engine/reduce_vector.h"

#endif
