/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What two devices exchange over TCP before they use RDMA: each sends one hello, then the side that
 * has connected sends one byte, BR_VERBS_GO, when its queue pair can receive. Little-endian.
 */
#ifndef BR_TRANSPORT_VERBS_WIRE_H
#define BR_TRANSPORT_VERBS_WIRE_H

#include <assert.h>
#include <stdint.h>

#include "transport/verbs/classes.h"
#include "transport/verbs/gid.h"

#define BR_VERBS_MAGIC 0x62767262u /* "brvb" */
/* Raised with each change here, in rkey.h, and in how frames are sent. */
#define BR_VERBS_VERSION 2u
#define BR_VERBS_GO      0x67u
/* Immediates of SENDs without payload. */
#define BR_VERBS_OPEN    0x6f70656eu /* The receiver may write from now on. */
#define BR_VERBS_NOTHING 0x6e6f6e65u /* Means nothing: only its completion matters. */

struct br_verbs_hello {
    uint32_t magic;
    uint8_t version;
    uint8_t mtu;  /* enum ibv_mtu. */
    uint16_t lid; /* InfiniBand: the port's LID; 0 on Ethernet. */
    /* The number of each lane's queue pair, 24 bits; 0 behind the last lane. */
    uint32_t qps[BR_VERBS_CLASSES];
    uint32_t psn;           /* The number of the first packet of each lane, 24 bits. */
    uint32_t message_bytes; /* The most payload bytes of a message. */
    uint8_t lanes;          /* How many lanes the link has. */
    uint8_t zero[3];
    uint8_t gids[BR_GID_FAMILIES][BR_GID_BYTES]; /* br_gid_set.raw */
    uint8_t gid_types[BR_GID_FAMILIES];          /* br_gid_set.type */
    uint8_t reserved;                            /* 0 */
};
static_assert(sizeof(struct br_verbs_hello) == 88, "the hello is 88 bytes on the wire");

/* Checks what a peer has sent. Returns 0, or -EPROTO with a message. Any thread; does not block. */
int br_verbs_hello_check(const struct br_verbs_hello *hello);

#endif
