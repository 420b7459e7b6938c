/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/dpdk/packet.h"

#include <assert.h>
#include <net/ethernet.h>
#include <net/if_arp.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stddef.h>
#include <string.h>

struct arp {
    uint16_t hardware, protocol;
    uint8_t hardware_bytes, protocol_bytes;
    uint16_t operation;
    uint8_t from_mac[6], from[4], to_mac[6], to[4];
} __attribute__((packed));
static_assert(sizeof(struct arp) == 28, "ARP of IPv4 over Ethernet");
static_assert(sizeof(struct ether_header) == BR_DPDK_ETHERNET, "Ethernet");
static_assert(sizeof(struct iphdr) + sizeof(struct udphdr) == BR_DPDK_IP, "IPv4 and UDP");

/* Of RFC 1071, not yet folded: of bytes that begin at an even place. */
static uint64_t dpdk_packet_add_up(uint64_t sum, const uint8_t *bytes, uint32_t n)
{
    for (; n >= 4; bytes += 4, n -= 4) {
        uint32_t word;

        memcpy(&word, bytes, sizeof word);
        sum += word;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint16_t byte = bytes[i];

        sum += i & 1 ? (uint64_t)byte << 8 : byte;
    }
    return sum;
}

static uint16_t dpdk_packet_fold(uint64_t sum)
{
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

static uint64_t dpdk_packet_pseudo(const struct iphdr *ip, uint16_t udp_bytes)
{
    return (uint64_t)ip->saddr + ip->daddr + htons(IPPROTO_UDP) + udp_bytes;
}

static void parse_arp(const uint8_t *bytes, uint32_t n, struct br_dpdk_packet *out)
{
    struct arp arp;

    if (n < sizeof arp)
        return;
    memcpy(&arp, bytes, sizeof arp);
    if (arp.hardware != htons(ARPHRD_ETHER) || arp.protocol != htons(ETHERTYPE_IP) ||
        arp.hardware_bytes != 6 || arp.protocol_bytes != 4)
        return;
    memcpy(out->flow.from_mac, arp.from_mac, 6);
    memcpy(&out->flow.from, arp.from, 4);
    memcpy(&out->flow.to, arp.to, 4);
    if (arp.operation == htons(ARPOP_REQUEST))
        out->kind = BR_DPDK_ARP_REQUEST;
    else if (arp.operation == htons(ARPOP_REPLY))
        out->kind = BR_DPDK_ARP_REPLY;
}

static bool sums_are_right(const struct iphdr *ip, const struct udphdr *udp, const uint8_t *bytes)
{
    uint16_t n = ntohs(udp->uh_ulen);

    return dpdk_packet_fold(dpdk_packet_add_up(0, (const uint8_t *)ip, sizeof *ip)) == 0xffff &&
           (!udp->uh_sum || dpdk_packet_fold(dpdk_packet_add_up(
                                dpdk_packet_pseudo(ip, udp->uh_ulen), bytes, n)) == 0xffff);
}

static void parse_ip(const uint8_t *bytes, uint32_t n, bool checked, struct br_dpdk_packet *out)
{
    struct iphdr ip;
    struct udphdr udp;
    uint32_t total, length;

    if (n < BR_DPDK_IP)
        return;
    memcpy(&ip, bytes, sizeof ip);
    memcpy(&udp, bytes + sizeof ip, sizeof udp);
    total = ntohs(ip.tot_len);
    length = ntohs(udp.uh_ulen);
    if (ip.version != 4 || ip.ihl != 5 || ip.protocol != IPPROTO_UDP ||
        (ip.frag_off & htons(0x3fff)) || total > n || length < sizeof udp ||
        length + sizeof ip != total || (!checked && !sums_are_right(&ip, &udp, bytes + sizeof ip)))
        return;
    out->kind = BR_DPDK_DATAGRAM;
    out->flow.from = ip.saddr;
    out->flow.to = ip.daddr;
    out->flow.from_port = udp.uh_sport;
    out->flow.to_port = udp.uh_dport;
    out->marked = (ip.tos & IPTOS_ECN_MASK) == IPTOS_ECN_CE;
    out->payload = bytes + BR_DPDK_IP;
    out->n = length - (uint32_t)sizeof udp;
}

void br_dpdk_packet_parse(const uint8_t *bytes, uint32_t n, bool checked,
                          struct br_dpdk_packet *out)
{
    struct ether_header ethernet;

    memset(out, 0, sizeof *out);
    if (n < sizeof ethernet)
        return;
    memcpy(&ethernet, bytes, sizeof ethernet);
    memcpy(out->flow.from_mac, ethernet.ether_shost, 6);
    memcpy(out->flow.to_mac, ethernet.ether_dhost, 6);
    if (ethernet.ether_type == htons(ETHERTYPE_IP))
        parse_ip(bytes + sizeof ethernet, n - (uint32_t)sizeof ethernet, checked, out);
    else if (ethernet.ether_type == htons(ETHERTYPE_ARP))
        parse_arp(bytes + sizeof ethernet, n - (uint32_t)sizeof ethernet, out);
}

static uint8_t *put_ethernet(const uint8_t from[6], const uint8_t to[6], uint16_t type,
                             uint8_t *out)
{
    struct ether_header ethernet = {.ether_type = htons(type)};

    memcpy(ethernet.ether_shost, from, 6);
    memcpy(ethernet.ether_dhost, to, 6);
    memcpy(out, &ethernet, sizeof ethernet);
    return out + sizeof ethernet;
}

void br_dpdk_packet_head(const struct br_dpdk_flow *flow, uint32_t n, bool sums,
                         uint8_t out[BR_DPDK_HEADERS])
{
    struct iphdr ip = {.version = 4,
                       .ihl = 5,
                       .tos = IPTOS_ECN_ECT0,
                       .tot_len = htons((uint16_t)(n + BR_DPDK_IP)),
                       .frag_off = htons(IP_DF),
                       .ttl = 64,
                       .protocol = IPPROTO_UDP,
                       .saddr = flow->from,
                       .daddr = flow->to};
    struct udphdr udp = {.uh_sport = flow->from_port,
                         .uh_dport = flow->to_port,
                         .uh_ulen = htons((uint16_t)(n + sizeof udp))};
    uint8_t *at = put_ethernet(flow->from_mac, flow->to_mac, ETHERTYPE_IP, out);

    if (sums)
        udp.uh_sum = dpdk_packet_fold(dpdk_packet_pseudo(&ip, udp.uh_ulen));
    else
        ip.check =
            (uint16_t)~dpdk_packet_fold(dpdk_packet_add_up(0, (const uint8_t *)&ip, sizeof ip));
    memcpy(at, &ip, sizeof ip);
    memcpy(at + sizeof ip, &udp, sizeof udp);
}

static uint16_t dpdk_packet_load(const uint8_t *at)
{
    uint16_t value;

    memcpy(&value, at, sizeof value);
    return value;
}

static void dpdk_packet_store(uint8_t *at, uint16_t value)
{
    memcpy(at, &value, sizeof value);
}

void br_dpdk_packet_resize(uint8_t head[BR_DPDK_HEADERS], uint32_t n, bool sums)
{
    uint8_t *ip = head + BR_DPDK_ETHERNET, *udp = ip + sizeof(struct iphdr);
    uint8_t *length = ip + offsetof(struct iphdr, tot_len),
            *check = ip + offsetof(struct iphdr, check);
    uint8_t *udp_length = udp + offsetof(struct udphdr, uh_ulen),
            *udp_sum = udp + offsetof(struct udphdr, uh_sum);
    uint16_t total = htons((uint16_t)(n + BR_DPDK_IP)),
             behind = htons((uint16_t)(n + sizeof(struct udphdr)));

    /* RFC 1624: out goes the old length, in comes the new one. */
    if (sums)
        dpdk_packet_store(udp_sum,
                          dpdk_packet_fold((uint64_t)dpdk_packet_load(udp_sum) +
                                           (uint16_t)~dpdk_packet_load(udp_length) + behind));
    else
        dpdk_packet_store(check,
                          (uint16_t)~dpdk_packet_fold((uint64_t)(uint16_t)~dpdk_packet_load(check) +
                                                      (uint16_t)~dpdk_packet_load(length) + total));
    dpdk_packet_store(length, total);
    dpdk_packet_store(udp_length, behind);
}

void br_dpdk_packet_arp(const struct br_dpdk_flow *flow, enum br_dpdk_kind kind,
                        uint8_t out[BR_DPDK_ARP])
{
    static const uint8_t everybody[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    bool request = kind == BR_DPDK_ARP_REQUEST;
    struct arp arp = {.hardware = htons(ARPHRD_ETHER),
                      .protocol = htons(ETHERTYPE_IP),
                      .hardware_bytes = 6,
                      .protocol_bytes = 4,
                      .operation = htons(request ? ARPOP_REQUEST : ARPOP_REPLY)};

    memset(out, 0, BR_DPDK_ARP);
    memcpy(arp.from_mac, flow->from_mac, 6);
    memcpy(arp.from, &flow->from, 4);
    if (!request)
        memcpy(arp.to_mac, flow->to_mac, 6);
    memcpy(arp.to, &flow->to, 4);
    memcpy(put_ethernet(flow->from_mac, request ? everybody : flow->to_mac, ETHERTYPE_ARP, out),
           &arp, sizeof arp);
}
