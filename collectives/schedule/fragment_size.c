/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule/fragment_size.h"

#include "protocol/message.h"

#define MOST_FRAGMENTS 65536u /* 16 bits in the tag */
#define DEPTH          4u /* fragments that are enough to keep network and memory busy at once */

static size_t divide_up(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

uint32_t br_fragment_count(size_t elements, size_t element_bytes, uint32_t pieces,
                           size_t chunk_bytes, bool serial)
{
    size_t most = BR_MAX_TRANSFER / element_bytes; /* elements of a block of a fragment */
    size_t least_count = divide_up(elements, most), bytes = elements * element_bytes;
    size_t count = divide_up(bytes, chunk_bytes * pieces);

    if (least_count > MOST_FRAGMENTS)
        return 0;
    if (count < DEPTH && !serial)
        count = bytes / pieces / BR_CHUNK_MIN_BYTES < DEPTH ? bytes / pieces / BR_CHUNK_MIN_BYTES
                                                            : DEPTH;
    if (count > MOST_FRAGMENTS)
        count = MOST_FRAGMENTS;
    if (count < least_count)
        count = least_count;
    return count ? (uint32_t)count : 1;
}
