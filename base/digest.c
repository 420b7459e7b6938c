/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/digest.h"

uint64_t br_digest_bytes(const void *bytes, size_t n)
{
    return XXH3_64bits(bytes, n);
}
