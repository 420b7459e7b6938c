/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/digest.h"

#define XXH_INLINE_ALL /* nothing to link */
#include <xxhash.h>

uint64_t br_digest(const uint64_t *words, size_t n)
{
    return br_digest_bytes(words, n * sizeof *words);
}

uint64_t br_digest_bytes(const void *bytes, size_t n)
{
    return XXH3_64bits(bytes, n);
}
