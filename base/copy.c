/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/copy.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define LINE ((size_t)64)

#ifdef __x86_64__
#define VECTOR sizeof(__m256i)
#define BLOCK  (4 * VECTOR)

static inline __attribute__((target("avx"), always_inline)) void copy_block(uint8_t *to,
                                                                            const uint8_t *from)
{
    const __m256i *in = (const __m256i *)from;
    __m256i *out = (__m256i *)to;
    __m256i a = _mm256_loadu_si256(in), b = _mm256_loadu_si256(in + 1),
            c = _mm256_loadu_si256(in + 2), d = _mm256_loadu_si256(in + 3);

    _mm256_store_si256(out, a);
    _mm256_store_si256(out + 1, b);
    _mm256_store_si256(out + 2, c);
    _mm256_store_si256(out + 3, d);
}

/* Where `to` lies behind `from` within their pages from the end to the beginning, else the other
 * way, so that no read comes just behind a write which the processor takes for one of the same
 * bytes. What stands before and behind the whole vectors of `to` is therefore read before anything
 * is written. Not so of more bytes, as lines that another core has are fetched ahead of who reads
 * them forward. */
static __attribute__((target("avx"))) void copy_by_vectors(uint8_t *to, const uint8_t *from,
                                                           size_t bytes)
{
    bool backward = bytes <= BR_COPY_VECTORS && ((uintptr_t)to - (uintptr_t)from) % 4096 < 2048;
    size_t far = backward ? 0 : bytes - BLOCK, near = backward ? bytes - VECTOR : 0, at;
    const __m256i *rest = (const __m256i *)(from + far);
    __m256i first = _mm256_loadu_si256((const __m256i *)(from + near)),
            a = _mm256_loadu_si256(rest), b = _mm256_loadu_si256(rest + 1),
            c = _mm256_loadu_si256(rest + 2), d = _mm256_loadu_si256(rest + 3);
    __m256i *out = (__m256i *)(to + far);

    if (backward)
        for (at = bytes - (uintptr_t)(to + bytes) % VECTOR; at > BLOCK;) {
            at -= BLOCK;
            copy_block(to + at, from + at);
        }
    else
        for (at = -(uintptr_t)to % VECTOR; at < far; at += BLOCK)
            copy_block(to + at, from + at);
    _mm256_storeu_si256((__m256i *)(to + near), first);
    _mm256_storeu_si256(out, a);
    _mm256_storeu_si256(out + 1, b);
    _mm256_storeu_si256(out + 2, c);
    _mm256_storeu_si256(out + 3, d);
}
#endif

void br_copy_by_vectors(void *to, const void *from, size_t bytes)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx")) {
        copy_by_vectors(to, from, bytes);
        return;
    }
#endif
    memcpy(to, from, bytes);
}

/* Of cache `index` of CPU 0, of which all processes have the same: those that share CPUs share what
 * these have. 0: there is none. sysconf() would name the size that the processor has, which on a
 * virtual machine is several times that of the CPUs that it has got. */
static size_t cache_read_share(int index, uint32_t processes)
{
    char path[96];
    FILE *file;
    unsigned long kibibytes = 0, sharers;
    long online;
    unsigned first, last, cpus = 0;

    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
    file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%luK", &kibibytes) != 1)
        kibibytes = 0;
    fclose(file);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/shared_cpu_list",
             index);
    file = fopen(path, "re");
    if (!file)
        return 0;
    for (int read; (read = fscanf(file, "%u-%u", &first, &last)) > 0;) {
        cpus += read == 2 && last >= first ? last - first + 1 : 1;
        if (fgetc(file) != ',')
            break;
    }
    fclose(file);
    if (!cpus)
        return 0;
    /* not those that this process may use: a launcher may have given each of them its own */
    online = sysconf(_SC_NPROCESSORS_ONLN);
    if (online > 0 && processes > (unsigned long)online)
        sharers = (unsigned long)processes * cpus / (unsigned long)online;
    else
        sharers = cpus < processes ? cpus : processes;
    return kibibytes * 1024 / (sharers ? sharers : 1);
}

size_t br_copy_cache_share(uint32_t processes)
{
    /* 0 and 1 are the first cache, of data and of instructions */
    size_t second = cache_read_share(2, processes), third = cache_read_share(3, processes);

    return third ? second + third : SIZE_MAX;
}

size_t br_copy_second_cache(void)
{
    return cache_read_share(2, 1);
}

void br_copy_uncached(void *to, const void *from, size_t bytes)
{
#ifdef __x86_64__
    uint8_t *out = to;
    const uint8_t *in = from;
    size_t head = -(uintptr_t)out % LINE, left;

    head = head < bytes ? head : bytes;
    memcpy(out, in, head);
    out += head;
    in += head;
    for (left = bytes - head; left >= LINE; left -= LINE, out += LINE, in += LINE) {
        __m128i a = _mm_loadu_si128((const __m128i *)in),
                b = _mm_loadu_si128((const __m128i *)in + 1),
                c = _mm_loadu_si128((const __m128i *)in + 2),
                d = _mm_loadu_si128((const __m128i *)in + 3);

        _mm_stream_si128((__m128i *)out, a);
        _mm_stream_si128((__m128i *)out + 1, b);
        _mm_stream_si128((__m128i *)out + 2, c);
        _mm_stream_si128((__m128i *)out + 3, d);
    }
    memcpy(out, in, left);
    _mm_sfence(); /* before what the caller tells others */
#else
    memcpy(to, from, bytes);
#endif
}
