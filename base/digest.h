/* SPDX-License-Identifier: BSD-3-Clause */
/* Short numbers for what must be equal on several ranks: XXH3 (xxhash.h). Words of the host's byte
 * order, so all ranks must have the same. No secret is kept and no forger is kept out by them.
 * Thread-safe. */
#ifndef BR_BASE_DIGEST_H
#define BR_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/* Of n words. One after another: the first digest is one of the next words. */
uint64_t br_digest(const uint64_t *words, size_t n);

/* Of n bytes. */
uint64_t br_digest_bytes(const void *bytes, size_t n);

/* 16 bits of br_digest(), for messages. */
static inline uint16_t br_digest_short(const uint64_t *words, size_t n)
{
    return (uint16_t)br_digest(words, n);
}

#endif
