/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What two devices say to each other over TCP before they speak RDMA: each one hello, then the side
 * that has connected one byte when its queue pair can receive. Little-endian.
 */
#ifndef BR_TRANSPORT_VERBS_WIRE_H
#define BR_TRANSPORT_VERBS_WIRE_H

#include <assert.h>
#include <stdint.h>

#include "transport/verbs/classes.h"
#include "transport/verbs/gid.h"

#define BR_VERBS_MAGIC   0x62767262u /* "brvb" */
#define BR_VERBS_VERSION 2u /* changes with anything here, in rkey.h, and in how frames travel */
#define BR_VERBS_GO      0x67u
/* Immediates of empty SENDs. */
#define BR_VERBS_OPEN    0x6f70656eu /* you may write now */
#define BR_VERBS_NOTHING 0x6e6f6e65u

struct br_verbs_hello {
    uint32_t magic;
    uint8_t version;
    uint8_t mtu;                    /* enum ibv_mtu */
    uint16_t lid;                   /* InfiniBand; 0 on Ethernet */
    uint32_t qps[BR_VERBS_CLASSES]; /* numbers, 24 bits; a lane each, 0 behind the last */
    uint32_t psn;                   /* of the first packet of each lane, 24 bits */
    uint32_t message_bytes;         /* payload of a message, at most */
    uint8_t lanes;
    uint8_t zero[3];
    uint8_t gids[BR_GID_FAMILIES][BR_GID_BYTES]; /* struct br_gid_set */
    uint8_t gid_types[BR_GID_FAMILIES];
    uint8_t reserved; /* zero */
};
static_assert(sizeof(struct br_verbs_hello) == 88, "the hello is 88 bytes on the wire");

/* 0, or -EPROTO with a message. */
int br_verbs_hello_check(const struct br_verbs_hello *hello);

#endif
