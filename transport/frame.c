/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/frame.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "transport/transport.h"

void br_frame_header_fill(struct br_frame_header *header, const struct br_frame *frame)
{
    header->magic = BR_FRAME_MAGIC;
    header->version = BR_FRAME_VERSION;
    header->kind = (uint8_t)frame->kind;
    header->length = frame->length;
    header->slot = frame->slot;
    header->offset = frame->offset;
    if (frame->inline_)
        memcpy(header->inline_, frame->inline_, BR_FRAME_INLINE);
    else
        memset(header->inline_, 0, BR_FRAME_INLINE);
}

int br_frame_check(const struct br_frame_header *header, uint32_t max_message, uint32_t max_frame)
{
    uint32_t limit;

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
    limit = header->kind == BR_FRAME_MESSAGE ? max_message : max_frame;
    if (header->length > limit)
        return br_error(EPROTO, "frame of %u bytes, over the limit of %u", header->length, limit);
    return 0;
}
