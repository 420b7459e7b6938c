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

#define BR_DGRAM_MAGIC   0x6264u /* "db" on the wire. */
#define BR_DGRAM_VERSION 3u      /* Note 8 says what stays the same in the next one. */

#define BR_DGRAM_PARTS     64u    /* The most parts of a frame. */
#define BR_DGRAM_MAX_FRAME 65536u /* The most payload bytes of a frame. */
/* Every path must carry datagrams of this size, of which 64 hold the largest frame. */
#define BR_DGRAM_MIN_PACKET 1080u
#define BR_DGRAM_MAX_PACKET 65507u /* The most that UDP over IPv4 carries. */
#define BR_DGRAM_PATHS      8u     /* The most paths of a link. */
#define BR_DGRAM_RANGES     32u    /* The most ranges of an ACK. */

/* Kinds of packet. The connector is the side that opens a link, the acceptor the other one. */
enum br_dgram_kind {
    BR_DGRAM_OPEN = 1,  /* Connector: asks for a link; padded with zeros to `size`. */
    BR_DGRAM_OPENED,    /* Acceptor: the answer, of the same size, with the acceptor's number. */
    BR_DGRAM_CONFIRM,   /* Connector: from now on packets have at most this `size`. */
    BR_DGRAM_CONFIRMED, /* Acceptor: the answer to CONFIRM. */
    BR_DGRAM_DATA,      /* A part of a frame. */
    BR_DGRAM_PING,      /* Has a number and no content; asks for an ACK. */
    BR_DGRAM_ACK,       /* Which packets have arrived. */
    /* The sender has closed the link; or, with link 0, it knows no link with the number `from`. */
    BR_DGRAM_CLOSE,
};

/* The first 16 bytes of every packet. */
struct br_dgram_header {
    uint16_t magic;
    uint8_t version;
    uint8_t kind;      /* enum br_dgram_kind. */
    uint32_t checksum; /* CRC32C; note 5. */
    uint64_t link;     /* The receiver's number of the link; 0 in OPEN. */
};
static_assert(sizeof(struct br_dgram_header) == 16, "common header");

/* OPEN, OPENED, CONFIRM, CONFIRMED and CLOSE. */
struct br_dgram_open {
    struct br_dgram_header header;
    /* The sender's number of the link; in a CLOSE with link 0, the number that it does not know. */
    uint64_t from;
    /* The bytes of a packet: of this one in OPEN and OPENED, of all to come in CONFIRM and
     * CONFIRMED. */
    uint32_t size;
    uint8_t paths; /* How many paths the sender can use; both sides use the smaller number. */
    uint8_t reserved[3];
};
static_assert(sizeof(struct br_dgram_open) == 32, "set-up packet");

/* In br_dgram_data.flags. */
#define BR_DGRAM_HEADER_ONLY 1u /* The checksum does not cover the payload. */
#define BR_DGRAM_ASKS        2u /* Asks for an ACK at once; note 6. */

/* DATA and PING. */
struct br_dgram_data {
    struct br_dgram_header header;
    uint32_t number; /* Of the packet on its path, from 1, modulo 2^32. */
    uint32_t frame;  /* The number of the frame, from 0, modulo 2^32. */
    /* MESSAGE: the number of the message, from 0; DATA: how many messages were posted before it.
     * Modulo 2^32. */
    uint32_t order;
    uint32_t slot;   /* DATA: the number of the receiver's slot; MESSAGE: 0. */
    uint32_t offset; /* DATA: bytes from the start of the transfer; MESSAGE: 0. */
    /* Bits of one word, the lowest first (note 7). */
    uint32_t length : 17;    /* Payload bytes of the frame. */
    uint32_t part : 6;       /* Which part of the frame this is, from 0. */
    uint32_t frame_kind : 2; /* enum br_frame_kind; 0 in PING. */
    uint32_t path : 3;       /* Which of the sender's source ports it was sent from. */
    uint32_t flags : 4;      /* BR_DGRAM_HEADER_ONLY, BR_DGRAM_ASKS. */
};
static_assert(sizeof(struct br_dgram_data) == 40, "data packet header");
/* So no part and no path that comes can be too large, and a receiver checks the length alone. */
static_assert(BR_DGRAM_PARTS == 1u << 6 && BR_DGRAM_PATHS == 1u << 3, "all that fit are valid");
static_assert(BR_DGRAM_MAX_FRAME < 1u << 17, "the length fits");

/* A range of an ACK, below the range before it, or at `top`: `gap` numbers that have not arrived,
 * then, below them, `run` numbers that have. */
struct br_dgram_range {
    uint16_t gap, run; /* run > 0. gap > 0, but 0 in the first range. */
};

struct br_dgram_ack {
    struct br_dgram_header header;
    uint64_t top;      /* The largest number that has arrived. */
    uint64_t latest;   /* The number that has arrived last, whose round trip can be measured. */
    uint32_t delay;    /* How long ago `latest` has arrived, ns. */
    uint32_t marked;   /* Packets received with a congestion mark on this path, modulo 2^32. */
    uint32_t messages; /* Messages with numbers before this one may be sent, modulo 2^32. */
    uint8_t path;      /* The path that this ACK is about. */
    uint8_t ranges;    /* How many ranges follow, 1 to 32. */
    uint16_t reserved; /* 0 */
    struct br_dgram_range range[BR_DGRAM_RANGES];
};
static_assert(offsetof(struct br_dgram_ack, range) == 48, "ACK header");

/* What br_dgram_parse() has read: a copy of the header, so that the packet need not be aligned. */
struct br_dgram_view {
    enum br_dgram_kind kind;
    union {
        /* header.link is the receiver's link. It is 0 in an OPEN, and in a CLOSE that names the
         * link in `from`. */
        struct br_dgram_header header;
        struct br_dgram_open open; /* OPEN, OPENED, CONFIRM, CONFIRMED, CLOSE. */
        struct br_dgram_data data; /* DATA, PING. */
        struct br_dgram_ack ack;   /* ACK. */
    };
    const uint8_t *content; /* DATA: the part of the frame, in the bytes that were parsed. */
    uint32_t content_bytes;
};

/* The functions may be called from any thread. */

/* Reads a packet, which may be any bytes, into *out. Returns 0, or without a message:
 * -EPROTONOSUPPORT when it is an OPEN of another version, or another version's CLOSE for a link of
 * ours: then header and open.from are valid (note 8). -EBADMSG when it is damaged or not a packet
 * of braid's; the caller drops and counts it. Slots and numbers are checked by the link. */
int br_dgram_parse(const void *bytes, size_t size, struct br_dgram_view *out);

/* Writes magic, version and checksum of a packet that consists of head[0..head_bytes) and the
 * payload. */
void br_dgram_seal(void *head, uint32_t head_bytes, const void *payload, uint32_t payload_bytes);

/* Returns the number of a packet of which the wire has the lower half: the one next to `near`. 0:
 * the sender has none like it. */
static inline uint64_t br_dgram_number(uint32_t lower, uint64_t near)
{
    int64_t number = (int64_t)near + (int32_t)(lower - (uint32_t)near);

    return number > 0 ? (uint64_t)number : 0;
}

/* Returns where braid is to be updated when a peer has another version: "there" or "here". */
static inline const char *br_dgram_outdated(uint8_t version)
{
    return version < BR_DGRAM_VERSION ? "there" : "here";
}

/* Writes to *out the CLOSE that answers a packet for a link that is not known here. The caller
 * sends it to where that packet came from, whose side finds its link by br_dgram_link_peer(). Not
 * for answering a CLOSE or an OPEN. */
void br_dgram_refuse(const struct br_dgram_view *view, struct br_dgram_open *out);

#endif
