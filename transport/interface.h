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

/* All interfaces that out[0..max) has room for, one entry each, IPv4 before IPv6. Returns how many,
 * or -errno. */
int br_interface_list(struct br_interface *out, int max);

/* The one that `name` means: an interface, an IP address of this host, or NULL: the first usable
 * one, loopback last. -ENODEV, -EADDRNOTAVAIL or -ENETDOWN with a message. */
int br_interface_find(const char *name, struct br_interface *out);

/* "" when usable; else why not and what mends it. */
void br_interface_why_not(const struct br_interface *interface, char *out, size_t bytes);
uint64_t br_interface_speed(const struct br_interface *interface); /* bits per second; 0 unknown */

#endif
