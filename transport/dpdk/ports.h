/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * BRAID_DPDK_PORTS: the ports that DPDK may open, and the addresses they have there, since the
 * kernel knows neither.
 *
 *     0000:03:00.0,address=10.0.0.1/24,mtu=9000; net_af_packet0,iface=eth1,address=10.0.1.1/24
 *
 * Ports stand between semicolons. What comes first, and every key that is not ours, is DPDK's
 * (devargs). Ours: address (IPv4 and the bits of its network), gateway, mtu, port (of UDP),
 * neighbour=IP@MAC, which may come more than once. Pure but for reading the environment and the
 * addresses of the interfaces beneath net_af_packet, net_af_xdp and net_tap.
 */
#ifndef BR_TRANSPORT_DPDK_PORTS_H
#define BR_TRANSPORT_DPDK_PORTS_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/transport.h"

#define BR_DPDK_PORTS      16
#define BR_DPDK_NEIGHBOURS 32
#define BR_DPDK_DEVARGS    256
#define BR_DPDK_UDP_PORT   17716 /* where we receive, unless `port` says otherwise */

struct br_dpdk_neighbour {
    in_addr_t ip; /* network order */
    uint8_t mac[6];
};

struct br_dpdk_spec {
    char name[BR_DEVICE_NAME]; /* what BRAID_DEVICES calls it */
    /* for DPDK; with what net_af_packet needs for the interface's MTU */
    char devargs[BR_DPDK_DEVARGS];
    char interface[IF_NAMESIZE]; /* of the kernel, beneath it; "": none */
    bool pci;
    in_addr_t ip, mask, gateway; /* network order; ip 0: none was given; gateway 0: none */
    uint16_t mtu;                /* 0: as DPDK says */
    uint16_t port;
    /* of its own, beside its interface's; zeros: none was given, or it is the driver's to choose */
    uint8_t mac[6];
    struct br_dpdk_neighbour neighbours[BR_DPDK_NEIGHBOURS];
    int n_neighbours;
};

/* One port's text. -EINVAL with a message that names the port and the key. */
int br_dpdk_spec_parse(const char *text, struct br_dpdk_spec *out);
/* All of BRAID_DPDK_PORTS, up to BR_DPDK_PORTS: how many, or -EINVAL, -E2BIG with a message. */
int br_dpdk_specs_read(struct br_dpdk_spec out[BR_DPDK_PORTS]);
/* The one that `name` means: a port, an IP address, or NULL: the first. -ENODEV with a message. */
int br_dpdk_spec_find(const struct br_dpdk_spec *specs, int n, const char *name);

/* Of a driver whose port and whose interface are the two ends of one cable. */
bool br_dpdk_spec_is_tap(const struct br_dpdk_spec *spec);

/* Of one host: neither zeros nor a group's. */
bool br_dpdk_mac_is_host(const uint8_t mac[6]);
/* The address that we have at the port, whose driver says `port`. */
void br_dpdk_spec_mac(const struct br_dpdk_spec *spec, const uint8_t port[6], uint8_t out[6]);

/* The IP address of the next hop towards `to`; 0: there is no way. Network order. */
in_addr_t br_dpdk_spec_hop(const struct br_dpdk_spec *spec, in_addr_t to);

#endif
