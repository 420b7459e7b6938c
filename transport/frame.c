/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/frame.h"

#include <errno.h>

#include "base/error.h"

int br_frame_refuse(const struct br_frame_header *header, uint32_t limit)
{
    if (header->magic != BR_FRAME_MAGIC)
        return br_error(EPROTO,
                        "not a braid frame (magic 0x%04x): something else speaks on this port",
                        header->magic);
    if (header->version != BR_FRAME_VERSION)
        return br_error(EPROTO,
                        "frame version %u, we speak %u: install the same braid on both hosts",
                        header->version, BR_FRAME_VERSION);
    if (header->kind != BR_FRAME_MESSAGE && header->kind != BR_FRAME_DATA)
        return br_error(EPROTO, "frame of unknown kind %u", header->kind);
    return br_error(EPROTO, "frame of %u bytes, over the limit of %u", header->length, limit);
}
