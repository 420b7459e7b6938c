/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The frame header: the 64 bytes in front of everything that travels.
 *
 * 1. The first 16 bytes belong to the transport: enough for a byte-stream back end to cut the
 *    stream into frames and to find the place of a payload by one array look-up. The other 48 bytes
 *    belong to the protocol: a MESSAGE carries its first 48 bytes there (so an 8-byte all-reduce is
 *    one frame of 64 bytes), a DATA frame carries the route (protocol/message.h).
 * 2. One fixed size, so that a receiver always knows how many bytes to ask for: one header, then
 *    one payload, the latter straight into its place. Rejected: a variable header (two reads to
 *    learn the length).
 * 3. Little-endian, naturally aligned; the structs are the wire format on every machine we build
 *    for (checked below). doc/wire.md specifies it with test vectors.
 *
 * This is the part of the wire format that back ends must know; everything else is in
 * protocol/message.h.
 */
#ifndef BR_TRANSPORT_FRAME_H
#define BR_TRANSPORT_FRAME_H

#include <assert.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error                                                                                             \
    "wire structs are little-endian; a big-endian port needs conversions in frame.h and message.h"
#endif

#define BR_FRAME_MAGIC   0x6272u /* "rb" on the wire */
#define BR_FRAME_VERSION 1u      /* changes when the 16 bytes below change */

enum br_frame_kind {
    /* inline_[] and `length` further bytes into a receive buffer of the back end */
    BR_FRAME_MESSAGE = 1,
    BR_FRAME_DATA =
        2, /* `length` bytes, one at least, of a transfer at `offset` of the place behind `slot` */
};

/* Flag of a MESSAGE on a TCP connection: acknowledge it as soon as it has been read. */
#define BR_FRAME_ACK_NOW 1u

#define BR_FRAME_INLINE 48 /* bytes of a message that ride in the header */
/* No back end offers larger frames; a longer length is malformed. */
#define BR_FRAME_MAX_PAYLOAD (16u << 20)

struct br_frame_header {
    uint16_t magic;
    uint8_t version;
    uint8_t kind;    /* enum br_frame_kind */
    uint32_t length; /* payload bytes behind this header */
    uint32_t slot;   /* DATA: the receiver's slot number; MESSAGE: 0 */
    uint32_t offset; /* DATA: bytes from the start of the transfer; MESSAGE: flags */
    uint8_t inline_[BR_FRAME_INLINE];
};
static_assert(sizeof(struct br_frame_header) == 64, "frame header is 64 bytes on the wire");

/* What is wrong with a header that br_frame_check() refuses. limit: of its length. */
int br_frame_refuse(const struct br_frame_header *header, uint32_t limit);

/* 0, or -EPROTO with a message: bad magic, unknown version or kind, length over `max_message` or
 * `max_frame`. */
static inline int br_frame_check(const struct br_frame_header *header, uint32_t max_message,
                                 uint32_t max_frame)
{
    uint32_t limit = header->kind == BR_FRAME_MESSAGE ? max_message : max_frame;

    if (header->magic == BR_FRAME_MAGIC && header->version == BR_FRAME_VERSION &&
        (header->kind == BR_FRAME_MESSAGE || header->kind == BR_FRAME_DATA) &&
        header->length <= limit)
        return 0;
    return br_frame_refuse(header, limit);
}

#endif
