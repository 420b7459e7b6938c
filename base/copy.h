/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of memory that memcpy() makes slowly. From any thread. */
#ifndef BR_BASE_COPY_H
#define BR_BASE_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* br_copy()'s, of at least 128 bytes. */
void br_copy_by_vectors(void *to, const void *from, size_t bytes);

/* From more bytes on glibc's memcpy() is `rep movsb` on many processors, 2 to 25 times as slow
 * where `to` lies 1 to 31 bytes behind `from` within their pages: each read then waits for the
 * write just before it. That is not rare: malloc() returns large blocks 16 bytes behind the
 * beginning of a page, where segments begin. */
#define BR_COPY_REP 2112u
/* Up to so many bytes copies by vectors are faster wherever the two lie. Of more, `rep movsb`
 * writes lines that another core has without reading them first. */
#define BR_COPY_VECTORS (8u << 10)

/* memcpy(). */
static inline void br_copy(void *to, const void *from, size_t bytes)
{
    if (bytes > BR_COPY_REP &&
        (bytes <= BR_COPY_VECTORS || ((uintptr_t)to - (uintptr_t)from - 1) % 4096 < 31))
        br_copy_by_vectors(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

/* The bytes of the second and third cache that one of `processes` processes on this machine has;
 * SIZE_MAX: unknown, or there is no third one. Reads files of /sys. */
size_t br_copy_cache_share(uint32_t processes);

/* The bytes of a core's second cache; 0: unknown. Reads files of /sys. */
size_t br_copy_second_cache(void);

/*
 * memcpy() for what will have left the caches before anybody reads it, or what other cores have in
 * theirs. On x86-64 it writes past them: the lines of `to` are not read before, which a third of
 * the traffic to memory would be, and nothing leaves a cache but what is there of `to`. Other
 * threads see the bytes as they do those of memcpy().
 */
void br_copy_uncached(void *to, const void *from, size_t bytes);

#endif
