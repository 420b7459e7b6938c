/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's network interfaces, and IP addresses in words. Blocks briefly; not thread-safe against changes
 * of the host's configuration. */
#ifndef BR_TRANSPORT_URING_INTERFACE_H
#define BR_TRANSPORT_URING_INTERFACE_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/transport.h"

#define BR_URING_INTERFACES 64 /* of one host that we look at */

union br_uring_socket_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct br_uring_interface {
    char name[IF_NAMESIZE];
    union br_uring_socket_address address; /* family AF_UNSPEC: none that we can use; port 0 */
    bool up, loopback;
    bool local; /* packets stay on this host: loopback or veth */
};

/* All interfaces that out[0..max) has room for, one entry each, IPv4 before IPv6. Returns how many, or
 * -errno. */
int br_uring_interface_list(struct br_uring_interface *out, int max);

/* The one that `name` means: an interface, an IP address of this host, or NULL: the first usable one,
 * loopback last. -ENODEV, -EADDRNOTAVAIL or -ENETDOWN with words. */
int br_uring_interface_find(const char *name, struct br_uring_interface *out);

/* "" when usable; else why not and what mends it. */
void br_uring_interface_why_not(const struct br_uring_interface *interface, char *out, size_t bytes);
uint64_t
br_uring_interface_speed(const struct br_uring_interface *interface); /* bits per second; 0 unknown */

/* "10.0.0.1" or "fd00::1"; with port "10.0.0.1:77" or "[fd00::1]:77". */
void br_uring_address_words(const union br_uring_socket_address *address, bool port, char *out, size_t bytes);
socklen_t br_uring_address_bytes(const union br_uring_socket_address *address);

/* What travels through the bootstrap store. */
void br_uring_address_pack(const union br_uring_socket_address *address, struct br_address *out);
int br_uring_address_unpack(const struct br_address *in, union br_uring_socket_address *out); /* -EINVAL */

#endif
