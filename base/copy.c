/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/copy.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define LINE ((size_t)64)

#ifdef __x86_64__
static __attribute__((target("avx"))) void copy_by_vectors(uint8_t *to, const uint8_t *from,
                                                           size_t bytes)
{
    size_t head = -(uintptr_t)to % LINE;

    memcpy(to, from, LINE); /* of these, `head` bytes stand before the first whole line */
    to += head;
    from += head;
    for (bytes -= head; bytes >= 2 * LINE; bytes -= 2 * LINE, to += 2 * LINE, from += 2 * LINE) {
        const __m256i *in = (const __m256i *)from;
        __m256i *out = (__m256i *)to;
        __m256i a = _mm256_loadu_si256(in), b = _mm256_loadu_si256(in + 1),
                c = _mm256_loadu_si256(in + 2), d = _mm256_loadu_si256(in + 3);

        _mm256_store_si256(out, a);
        _mm256_store_si256(out + 1, b);
        _mm256_store_si256(out + 2, c);
        _mm256_store_si256(out + 3, d);
    }
    memcpy(to, from, bytes);
}
#endif

void br_copy_behind(void *to, const void *from, size_t bytes)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx")) {
        copy_by_vectors(to, from, bytes);
        return;
    }
#endif
    memcpy(to, from, bytes);
}
