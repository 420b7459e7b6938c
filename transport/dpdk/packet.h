/* SPDX-License-Identifier: BSD-3-Clause */
/* What stands around a datagram on the wire, Ethernet, IPv4 and UDP, and ARP. Pure. Any bytes may
 * come in. */
#ifndef BR_TRANSPORT_DPDK_PACKET_H
#define BR_TRANSPORT_DPDK_PACKET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#define BR_DPDK_ETHERNET 14u
#define BR_DPDK_IP       28u                             /* IPv4 without options, and UDP */
#define BR_DPDK_HEADERS  (BR_DPDK_ETHERNET + BR_DPDK_IP) /* in front of a datagram */
#define BR_DPDK_ARP      60u /* bytes of an ARP packet: the least of Ethernet */

/* One direction between two hosts. Addresses and ports in network order. */
struct br_dpdk_flow {
    uint8_t from_mac[6], to_mac[6];
    in_addr_t from, to;
    in_port_t from_port, to_port;
};

enum br_dpdk_kind {
    BR_DPDK_OTHER, /* nothing for us */
    BR_DPDK_DATAGRAM,
    BR_DPDK_ARP_REQUEST, /* flow: who asks (from, from_mac), for whom (to) */
    BR_DPDK_ARP_REPLY,
};

struct br_dpdk_packet {
    enum br_dpdk_kind kind;
    struct br_dpdk_flow flow;
    const uint8_t *payload; /* DATAGRAM: in the bytes that were parsed */
    uint32_t n;
    bool marked; /* congestion experienced (ECN) */
};

/* `checked`: the port has found the checksums right; else they are looked at here, UDP's where
 * there is one. Packets whose checksum is wrong, fragments and packets that are cut short are
 * OTHER. */
void br_dpdk_packet_parse(const uint8_t *bytes, uint32_t n, bool checked,
                          struct br_dpdk_packet *out);

/* The headers of a datagram of n bytes, which may be marked on its way (ECN) and not cut up. sums:
 * the port fills in the checksums, for which UDP's field has that of the pseudo header; else IPv4's
 * is filled in, and UDP's is 0: none. */
void br_dpdk_packet_head(const struct br_dpdk_flow *flow, uint32_t n, bool sums,
                         uint8_t out[BR_DPDK_HEADERS]);

/* Makes them those of a datagram of n bytes; `sums` as they were made with. */
void br_dpdk_packet_resize(uint8_t head[BR_DPDK_HEADERS], uint32_t n, bool sums);

/* flow as in struct br_dpdk_packet; a request goes to everybody. */
void br_dpdk_packet_arp(const struct br_dpdk_flow *flow, enum br_dpdk_kind kind,
                        uint8_t out[BR_DPDK_ARP]);

#endif
