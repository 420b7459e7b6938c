/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dpdk back end: transport/datagram/ over a port of DPDK.
 *
 * 1. A device is a port with an IPv4 address of its own, one receive and one send queue, driven by
 *    its worker. There is one worker a process and communicator, so a port needs no second queue
 *    pair; a second device on it is refused with a message.
 * 2. Packets are those of transport/udp, to the bit: Ethernet, IPv4, UDP, ours. Switches forward
 *    and spread them as any other, and marks for congestion (ECN) work.
 * 3. The MAC address of the next hop is the neighbour's of BRAID_DPDK_PORTS, or is asked for (ARP)
 *    when a link begins; afterwards it is the one that the peer's latest good packet came from. So
 *    there is no table that ages, and who connects to us need not be asked for. We answer ARP for
 *    our address.
 * 4. Payload is sent from where it lies if the driver reads it before its send function returns
 *    (facts.direct): then nothing can be on its way when SENT is reported or the link is closed.
 *    Else it is copied once into DPDK's buffers. What waits for room when a frame of its link is
 *    SENT may be of that frame, on its way again: its payload is copied, too, as the user may free
 *    it. Rejected: dropping such packets, most of which leave for the first time and would count as
 *    lost. Rejected for now: leaving the user's memory with a NIC that reads it later, as the fence
 *    then has to wait until the NIC has done so.
 * 5. Checksums: if the port fills in and checks those of UDP, our own covers headers only. Over
 *    shared memory (memif) neither is needed. A checksum of UDP that comes without the port having
 *    looked at it is looked at in software.
 * 6. A poll that has events sends nothing: the caller gets them sooner. The next one sends before
 *    it looks for packets, so what the caller answers leaves at once, and acknowledgements in the
 *    first poll that has no data (br_dgram_config.acks_behind). It sends at the time of the poll
 *    before, which had taken in all that had arrived: nothing later is lost yet.
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
