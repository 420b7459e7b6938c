/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short numbers for what must be equal on several ranks (XXH3 of xxhash.h). Words are read in the
 * host's byte order, so all ranks must have the same one. A digest keeps no secret and keeps no
 * forger out. From any thread.
 */
#ifndef BR_BASE_DIGEST_H
#define BR_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define XXH_INLINE_ALL /* nothing to link, and little to execute where the length is known */
#include <xxhash.h>

/* Returns the digest of n words. To chain digests, put the first one among the next words. */
static inline uint64_t br_digest(const uint64_t *words, size_t n)
{
    return XXH3_64bits(words, n * sizeof *words);
}

/* Returns the digest of n bytes. */
uint64_t br_digest_bytes(const void *bytes, size_t n);

/* Returns 16 bits of br_digest(), for messages. */
static inline uint16_t br_digest_short(const uint64_t *words, size_t n)
{
    return (uint16_t)br_digest(words, n);
}

#endif
