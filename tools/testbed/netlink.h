/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links, addresses and shaping of one network namespace, over a netlink socket that stays in it.
 * Every function blocks for the kernel's answer, returns 0 or a negative errno with a message that
 * names the namespace and the link, and changes nothing when what is asked for is there already.
 * Not thread-safe.
 */
#ifndef BR_TOOLS_TESTBED_NETLINK_H
#define BR_TOOLS_TESTBED_NETLINK_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/testbed/namespace.h"

struct nl_sock;

#define BR_NET_RATE_MIN 64000ull       /* bit/s */
#define BR_NET_RATE_MAX 16000000000ull /* bit/s: what tbf's parameters hold */

struct br_net {
    char name[BR_NAMESPACE_NAME]; /* of the namespace */
    struct nl_sock *sock;
};

int br_net_open(struct br_net *net, const char *name);
void br_net_close(struct br_net *net); /* also of a zeroed one */

/* An empty bridge, up: a switch. */
int br_net_add_bridge(struct br_net *net, const char *bridge);

/* A cable: `port` in `net`, up and on `bridge`, its other end `nic` in `host`, down, with this MAC.
 * Both with this MTU. */
int br_net_add_cable(struct br_net *net, const char *port, const char *bridge,
                     const struct br_net *host, const char *nic, const char *mac, uint32_t mtu);

int br_net_set_up(struct br_net *net, const char *link, bool up);
int br_net_set_mtu(struct br_net *net, const char *link, uint32_t mtu);
int br_net_set_bridge(struct br_net *net, const char *port, const char *bridge);

int br_net_set_mac(struct br_net *net, const char *link, const char *mac);

/* Is there such a link? 1, 0, or a negative errno. */
int br_net_has(struct br_net *net, const char *link);

/* Removes a cable by its port. */
int br_net_remove(struct br_net *net, const char *port);

/* Gives the far end of `port`'s cable, which is in `host`, this name. It is down for a moment when
 * it had another. */
int br_net_set_nic_name(struct br_net *net, const char *port, struct br_net *host,
                        const char *name);

/* The only IPv4 address of the link: "10.0.0.1/24"; "": none. Routes of an old one go with it. */
int br_net_set_address(struct br_net *net, const char *link, const char *address);

/* What leaves through the link leaves at this rate in bit/s (BR_NET_RATE_MIN..MAX); 0: unshaped. */
int br_net_set_rate(struct br_net *net, const char *link, uint64_t rate);

/* Loses packets that come in through the link, and that go out through it, at random, each with
 * these probabilities in 1/1,000,000; 0: none. */
int br_net_set_loss(struct br_net *net, const char *link, uint32_t in, uint32_t out);

/* For the files of netlink only. */

/* Puts "bcube-h00: cannot <what> <link>: why" down as the error message, for rc, a negative number
 * of libnl. Returns the errno that fits best, negative. */
int br_net_error(const struct br_net *net, int rc, const char *what, const char *link);

/* The number of a link, or a negative errno with a message. */
int br_net_index(struct br_net *net, const char *link);

#endif
