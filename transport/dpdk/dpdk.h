/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The back end dpdk: transport/datagram/ over a port of DPDK. A device is a port with an IPv4
 * address of its own, driven by its worker. The packets are those of transport/udp, to the bit.
 *
 * The numbered notes, about MAC addresses, payload without a copy, checksums and the order of a
 * poll, are in doc/design/dpdk.md.
 */
#ifndef BR_TRANSPORT_DPDK_DPDK_H
#define BR_TRANSPORT_DPDK_DPDK_H

#include "transport/datagram/device.h"
#include "transport/dpdk/library.h"
#include "transport/dpdk/packet.h"
#include "transport/dpdk/ports.h"

/* Headers of the packets that leave on one path of a link: of the latest one. */
struct br_dpdk_template {
    const struct br_dgram_member *member; /* NULL: none */
    uint8_t path, hop[6];
    uint8_t head[BR_DPDK_HEADERS];
};

struct br_dpdk_outbox {
    int first, n; /* packets[first..n) wait for room */
    const struct br_dgram_member *members[BR_DPDK_BURST];
    struct br_dpdk_leaving packets[BR_DPDK_BURST];
    uint8_t heads[BR_DPDK_BURST][BR_DPDK_HEADERS + BR_DGRAM_HEAD];
    uint64_t copied; /* bytes, since the beginning, to payloads */
    /* of packets whose own may not be read any more (note 4); pages that nobody writes cost
     * nothing */
    uint8_t payloads[BR_DPDK_BURST][BR_DGRAM_MAX_PACKET];
};

struct br_dpdk_device {
    struct br_dgram_device dgram;
    const struct br_dpdk_module *module;
    struct br_dpdk_port *port; /* NULL: not open */
    struct br_dpdk_facts facts;
    struct br_dpdk_spec spec;
    uint8_t mac[6]; /* ours */
    bool put_off;   /* the latest poll had events and sent nothing (note 6) */
    uint64_t polled_at;
    struct br_dpdk_template template;
    struct br_dpdk_outbox outbox;
};

extern const struct br_dgram_io br_dpdk_io;

/* poll.c */
int br_dpdk_poll(struct br_device *device, uint64_t now, struct br_event *events, int max);

#endif
