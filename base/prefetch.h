/* SPDX-License-Identifier: BSD-3-Clause */
/* Taking a line of memory from another core ahead of time. */
#ifndef BR_BASE_PREFETCH_H
#define BR_BASE_PREFETCH_H

/* Begins to fetch the line for a write, and waits for nothing. */
static inline void br_prefetch_to_write(const void *line)
{
#ifdef __x86_64__
    /* by its name, as __builtin_prefetch() does not take the line from other cores by default */
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1);
#endif
}

#endif
