/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's network interfaces. Blocks briefly; not thread-safe against changes
 * of the host's configuration. */
#ifndef BR_TRANSPORT_INTERFACE_H
#define BR_TRANSPORT_INTERFACE_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/inet.h"

#define BR_INTERFACES 64 /* of one host that we look at */

struct br_interface {
    char name[IF_NAMESIZE];
    union br_inet_address address; /* family AF_UNSPEC: none that we can use; port 0 */
    bool up, loopback;
    bool local; /* packets stay on this host: loopback or veth */
};

/* Lists the interfaces of this host, one entry each, with the IPv4 address if there is one,
 * otherwise IPv6. Returns how many, at most max, or a negative errno. */
int br_interface_list(struct br_interface *out, int max);

/* Finds the interface that `name` means: the name of an interface, an IP address of this host, or
 * NULL: the first usable one, loopback last. Returns 0, or -ENODEV, -EADDRNOTAVAIL or -ENETDOWN
 * with a message. */
int br_interface_find(const char *name, struct br_interface *out);

/* Writes "" when the interface is usable, otherwise why it is not and what to do about it. */
void br_interface_why_not(const struct br_interface *interface, char *out, size_t bytes);

/* Returns the bits per second of the link; 0: unknown. */
uint64_t br_interface_speed(const struct br_interface *interface);

#endif
