/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef __x86_64__

#include <immintrin.h>
#include <stddef.h>

#define TARGET       __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define BYTES        64
#define KERNELS      br_reduce_avx512
#define KERNELS_NAME "avx512"

static inline TARGET __m256i narrow_float16(__m512 whole)
{
    /* With all elements chosen, because gcc's _mm512_cvtps_ph() warns when it does not optimise. */
    return _mm512_maskz_cvtps_ph((__mmask16)0xffff, whole, _MM_FROUND_TO_NEAREST_INT);
}

/* The ends of arrays: masked bytes are not touched, so they may lie on a page that is not there. */
#define FIRST(n)                 (~0ull >> (64 - (n))) /* 0 < n < 64 */
#define LOAD_WHOLE(p, n)         _mm512_maskz_loadu_epi8((__mmask64)FIRST(n), p)
#define LOAD_HALF(p, n)          _mm256_maskz_loadu_epi8((__mmask32)FIRST(n), p)
#define STORE_WHOLE(p, whole, n) _mm512_mask_storeu_epi8(p, (__mmask64)FIRST(n), (__m512i)(whole))
#define STORE_HALF(p, half, n)   _mm256_mask_storeu_epi8(p, (__mmask32)FIRST(n), (__m256i)(half))
#define WIDEN_FLOAT16(half)      _mm512_cvtph_ps((__m256i)(half))
#define NARROW_FLOAT16(whole)    narrow_float16((__m512)(whole))
#define WIDEN_UINT16(half)       _mm512_cvtepu16_epi32((__m256i)(half))
#define NARROW_UINT32(whole)     _mm512_cvtepi32_epi16((__m512i)(whole))

#include "collectives/engine/reduce_vector.h"

#endif
