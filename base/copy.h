/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of memory where memcpy() is slow. From any thread. */
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

#endif
