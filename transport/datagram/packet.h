/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packets of a datagram link: the content of one UDP datagram. doc/wire.md specifies them with
 * test vectors; the numbered design notes are in doc/design/datagram.md.
 */
#ifndef BR_TRANSPORT_DATAGRAM_PACKET_H
#define BR_TRANSPORT_DATAGRAM_PACKET_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/frame.h"

#define BR_DGRAM_MAGIC   0x6264u /* "db" on the wire */
#define BR_DGRAM_VERSION 1u

#define BR_DGRAM_PARTS     64u    /* of a frame, at most */
#define BR_DGRAM_MAX_FRAME 65536u /* payload bytes of a frame, at most */
/* every path must carry datagrams of this size: 64 parts make the largest frame */
#define BR_DGRAM_MIN_PACKET 1080u
#define BR_DGRAM_MAX_PACKET 65507u /* what UDP over IPv4 carries */
#define BR_DGRAM_PATHS      8u     /* of a link, at most */
#define BR_DGRAM_RANGES     32u    /* of an ACK, at most */

enum br_dgram_kind {
    BR_DGRAM_OPEN = 1, /* connector: a link please; as many zeros behind it as make up `size` */
    BR_DGRAM_OPENED,   /* acceptor: the same size back, with its number */
    BR_DGRAM_CONFIRM,  /* connector: packets have this `size` at most */
    BR_DGRAM_CONFIRMED,
    BR_DGRAM_DATA,  /* a part of a frame */
    BR_DGRAM_PING,  /* numbered, asks for ACK; nothing else */
    BR_DGRAM_ACK,   /* what has arrived */
    BR_DGRAM_CLOSE, /* the sender has closed the link, or knows none with the number `from` (then
                       link is 0) */
};

/* The first 16 bytes of all. */
struct br_dgram_header {
    uint16_t magic;
    uint8_t version;
    uint8_t kind;      /* enum br_dgram_kind */
    uint32_t checksum; /* note 5 */
    uint64_t link;     /* the receiver's number of the link; 0 in OPEN */
};
static_assert(sizeof(struct br_dgram_header) == 16, "common header");

/* OPEN, OPENED, CONFIRM, CONFIRMED, CLOSE. */
struct br_dgram_open {
    struct br_dgram_header header;
    /* the sender's number of the link; in a CLOSE with link 0: the number that nobody has here */
    uint64_t from;
    /* bytes of a packet that the path must carry: of this one in OPEN, OPENED; agreed in
     * CONFIRM* */
    uint32_t size;
    uint8_t paths; /* that the sender can use and take; both use the smaller number */
    uint8_t reserved[3];
};
static_assert(sizeof(struct br_dgram_open) == 32, "set-up packet");

#define BR_DGRAM_HEADER_ONLY 1u /* flag: the checksum does not cover the payload */

struct br_dgram_data {
    struct br_dgram_header header;
    uint64_t number; /* of the packet, from 1 */
    uint32_t frame;  /* number of the frame, from 0, modulo 2^32 */
    /* MESSAGE: number of the message, from 0; DATA: messages posted before it. Modulo 2^32 */
    uint32_t order;
    uint32_t slot;      /* DATA: the receiver's slot; MESSAGE: 0 */
    uint32_t offset;    /* DATA: of the frame in its transfer; MESSAGE: 0 */
    uint32_t length;    /* payload bytes of the frame */
    uint8_t part;       /* which part of the content this is, from 0 */
    uint8_t frame_kind; /* enum br_frame_kind; 0 in PING */
    uint8_t path;       /* which of the sender's ports */
    uint8_t flags;
};
static_assert(sizeof(struct br_dgram_data) == 48, "data packet header");

/* From the top down: `gap` numbers that have not arrived (0 in front of the first range), then
 * `run` that have. */
struct br_dgram_range {
    uint16_t gap, run; /* run > 0; gap > 0 but in the first */
};

struct br_dgram_ack {
    struct br_dgram_header header;
    uint64_t top;    /* the largest number that has arrived */
    uint64_t latest; /* the number that arrived last: its round trip may be measured */
    uint32_t delay;  /* ns since it arrived */
    /* packets with a congestion mark on the path of `latest` so far, modulo 2^32 */
    uint32_t marked;
    uint32_t messages; /* messages with numbers before this one may be sent, modulo 2^32 */
    uint8_t path;      /* of `latest` */
    uint8_t ranges;    /* that follow, 1 to 32 */
    uint16_t reserved; /* 0 */
    struct br_dgram_range range[BR_DGRAM_RANGES];
};
static_assert(offsetof(struct br_dgram_ack, range) == 48, "ACK header");

/* A packet looked into: its header is copied (any alignment will do), its content is not. */
struct br_dgram_view {
    enum br_dgram_kind kind;
    union {
        /* header.link: which link of ours; 0: OPEN, or CLOSE: `from` says which */
        struct br_dgram_header header;
        struct br_dgram_open open; /* OPEN, OPENED, CONFIRM, CONFIRMED, CLOSE */
        struct br_dgram_data data; /* DATA, PING */
        struct br_dgram_ack ack;
    };
    const uint8_t *content; /* DATA: the part, in the bytes that were parsed */
    uint32_t content_bytes;
};

/* Checks and opens any bytes. 0, or -EBADMSG without a message: not a packet of ours, or damaged:
 * drop and count it. A link checks what it says (slot, numbers). */
int br_dgram_parse(const void *bytes, size_t size, struct br_dgram_view *out);

/* Fills in magic, version and checksum of a packet that consists of head[0..head_bytes) and
 * payload. */
void br_dgram_seal(void *head, uint32_t head_bytes, const void *payload, uint32_t payload_bytes);

/* The answer to a packet for a link that nobody has here: a CLOSE, to be sent to where that packet
 * came from. The receiver finds its link by br_dgram_link_peer(). Never send one in answer to a
 * CLOSE or an OPEN. */
void br_dgram_refuse(const struct br_dgram_view *view, struct br_dgram_open *out);

#endif
