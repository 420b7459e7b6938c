/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/inet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

void br_inet_text(const union br_inet_address *address, bool port, char *out, size_t bytes)
{
    bool v6 = address->any.sa_family == AF_INET6;
    char ip[INET6_ADDRSTRLEN] = "?";
    const void *from =
        v6 ? (const void *)&address->v6.sin6_addr : (const void *)&address->v4.sin_addr;

    inet_ntop(address->any.sa_family, from, ip, sizeof ip);
    if (port)
        snprintf(out, bytes, v6 ? "[%s]:%u" : "%s:%u", ip,
                 ntohs(v6 ? address->v6.sin6_port : address->v4.sin_port));
    else
        snprintf(out, bytes, "%s", ip);
}

void br_inet_set_port(union br_inet_address *address, uint16_t port)
{
    if (address->any.sa_family == AF_INET6)
        address->v6.sin6_port = htons(port);
    else
        address->v4.sin_port = htons(port);
}

socklen_t br_inet_bytes(const union br_inet_address *address)
{
    return address->any.sa_family == AF_INET6 ? sizeof address->v6 : sizeof address->v4;
}

#define PACKED_BYTES 19 /* family (4 or 6), port, IP, the latter two in network order */

void br_inet_pack(const union br_inet_address *address, struct br_address *out)
{
    bool v6 = address->any.sa_family == AF_INET6;

    memset(out, 0, sizeof *out);
    out->bytes = PACKED_BYTES;
    out->data[0] = v6 ? 6 : 4;
    memcpy(out->data + 1, v6 ? &address->v6.sin6_port : &address->v4.sin_port, 2);
    memcpy(out->data + 3, v6 ? (const void *)&address->v6.sin6_addr : &address->v4.sin_addr,
           v6 ? 16 : 4);
}

int br_inet_unpack(const struct br_address *in, union br_inet_address *out)
{
    memset(out, 0, sizeof *out);
    if (in->bytes != PACKED_BYTES || (in->data[0] != 4 && in->data[0] != 6))
        return br_error(EINVAL, "the peer's address is no IP address with a port");
    if (in->data[0] == 6) {
        out->any.sa_family = AF_INET6;
        memcpy(&out->v6.sin6_port, in->data + 1, 2);
        memcpy(&out->v6.sin6_addr, in->data + 3, 16);
    } else {
        out->any.sa_family = AF_INET;
        memcpy(&out->v4.sin_port, in->data + 1, 2);
        memcpy(&out->v4.sin_addr, in->data + 3, 4);
    }
    return 0;
}

int br_inet_unpack_peer(const struct br_address *in, const union br_inet_address *ours,
                        union br_inet_address *out)
{
    int rc = br_inet_unpack(in, out);

    if (!rc && out->any.sa_family != ours->any.sa_family)
        rc = br_error(EAFNOSUPPORT,
                      "the peer's address is %s, ours is not; name the devices of both by address",
                      out->any.sa_family == AF_INET6 ? "IPv6" : "IPv4");
    return rc;
}
