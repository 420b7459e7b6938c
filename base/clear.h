/* SPDX-License-Identifier: BSD-3-Clause */
/* memset() to zero of large structs on the data path. Where the size is known, the compiler takes
 * an instruction in its place (`rep stos`) that is slower than the function. */
#ifndef BR_BASE_CLEAR_H
#define BR_BASE_CLEAR_H

#include <stddef.h>
#include <string.h>

static inline void br_clear(void *at, size_t bytes)
{
    __asm__("" : "+r"(bytes)); /* not known any more */
    memset(at, 0, bytes);
}

#endif
