/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of memory that memcpy() makes slowly. From any thread. */
#ifndef BR_BASE_COPY_H
#define BR_BASE_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* br_copy()'s, of at least 128 bytes. */
void br_copy_behind(void *to, const void *from, size_t bytes);

/*
 * memcpy(). On many processors glibc's copies more than 2112 bytes by `rep movsb`, which becomes 2
 * to 25 times slower where `to` lies 1 to 31 bytes behind `from` within their pages: each read then
 * waits for the write just before it. That is not rare: malloc() returns large blocks 16 bytes
 * behind the beginning of a page, where segments begin.
 */
static inline void br_copy(void *to, const void *from, size_t bytes)
{
    if (bytes > 2112 && ((uintptr_t)to - (uintptr_t)from - 1) % 4096 < 31)
        br_copy_behind(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

/* The bytes of the second and third cache that one of `processes` processes on this machine has;
 * SIZE_MAX: unknown, or there is no third one. Reads files of /sys. */
size_t br_copy_cache_share(uint32_t processes);

/*
 * memcpy() for what will have left the caches before anybody reads it, or what other cores have in
 * theirs. On x86-64 it writes past them: the lines of `to` are not read before, which a third of
 * the traffic to memory would be, and nothing leaves a cache but what is there of `to`. Other
 * threads see the bytes as they do those of memcpy().
 */
void br_copy_uncached(void *to, const void *from, size_t bytes);

#endif
