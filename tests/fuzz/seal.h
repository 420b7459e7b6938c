/* SPDX-License-Identifier: BSD-3-Clause */
/* A right checksum for a datagram that a fuzzer has made or changed, as a hostile peer would give
 * it. */
#ifndef TESTS_FUZZ_SEAL_H
#define TESTS_FUZZ_SEAL_H

#include <string.h>

#include "transport/datagram/crc32c.h"
#include "transport/datagram/packet.h"

/* size: at least that of the kind's head. */
static inline void fuzz_seal(uint8_t *packet, size_t size)
{
    const struct br_dgram_data *data = (const struct br_dgram_data *)packet;
    size_t head = size;

    if (data->header.kind == BR_DGRAM_DATA && data->flags & BR_DGRAM_HEADER_ONLY)
        head = sizeof *data + (data->part ? 0 : BR_FRAME_INLINE); /* what the checksum covers */
    if (head > size)
        head = size;
    br_dgram_seal(packet, (uint32_t)head, packet + head, (uint32_t)(size - head));
}

/* The same for a packet of any version, whose checksum covers all of it. size: at least that of a
 * header. */
static inline void fuzz_seal_version(uint8_t *packet, size_t size, uint8_t version)
{
    struct br_dgram_header header;

    memcpy(&header, packet, sizeof header);
    header.version = version;
    header.checksum = 0;
    memcpy(packet, &header, sizeof header);
    header.checksum = br_crc32c(0, packet, size);
    memcpy(packet, &header, sizeof header);
}

#endif
