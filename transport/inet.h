/* SPDX-License-Identifier: BSD-3-Clause */
/* IP addresses with a port, of the back ends that use sockets. Pure: asks nobody, never blocks. */
#ifndef BR_TRANSPORT_INET_H
#define BR_TRANSPORT_INET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/transport.h"

union br_inet_address {
    struct sockaddr any; /* its family says which; AF_UNSPEC: none */
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Writes "10.0.0.1" or "fd00::1" into out; with the port "10.0.0.1:77" or "[fd00::1]:77". */
void br_inet_text(const union br_inet_address *address, bool port, char *out, size_t bytes);
/* Returns the size of the address, as bind() and connect() want it. */
socklen_t br_inet_bytes(const union br_inet_address *address);
/* port: in host byte order. */
void br_inet_set_port(union br_inet_address *address, uint16_t port);

/* Writes the form that travels through the bootstrap store. */
void br_inet_pack(const union br_inet_address *address, struct br_address *out);
/* Reads that form. Returns 0, or -EINVAL with a message. */
int br_inet_unpack(const struct br_address *in, union br_inet_address *out);
/* Reads a peer's address, which is to be reached from `ours`. Also -EAFNOSUPPORT with a message:
 * one is IPv4, the other IPv6. */
int br_inet_unpack_peer(const struct br_address *in, const union br_inet_address *ours,
                        union br_inet_address *out);

#endif
