/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/udp/socket.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "transport/datagram/packet.h"

#define WANTED_BYTES (8 << 20) /* of a socket's queues */
#define HEADERS_V4   28u       /* IP and UDP */
#define HEADERS_V6   48u
#define USUAL_MTU    1500u

static int udp_socket_set(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value);
}

/* Root may go beyond the system's limit. */
static void set_room(int fd, int option, int force)
{
    if (udp_socket_set(fd, SOL_SOCKET, force, WANTED_BYTES))
        udp_socket_set(fd, SOL_SOCKET, option, WANTED_BYTES);
}

static int set_v4(int fd)
{
    return udp_socket_set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE) ||
           udp_socket_set(fd, IPPROTO_IP, IP_RECVERR, 1) ||
           udp_socket_set(fd, IPPROTO_IP, IP_TOS, IPTOS_ECN_ECT0) ||
           udp_socket_set(fd, IPPROTO_IP, IP_RECVTOS, 1);
}

static int set_v6(int fd)
{
    return udp_socket_set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE) ||
           udp_socket_set(fd, IPPROTO_IPV6, IPV6_RECVERR, 1) ||
           udp_socket_set(fd, IPPROTO_IPV6, IPV6_TCLASS, IPTOS_ECN_ECT0) ||
           udp_socket_set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1) ||
           udp_socket_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
}

/* The first free port of the range. */
static int bind_in_range(int fd, unsigned first, unsigned last, union br_inet_address *address)
{
    socklen_t bytes = sizeof *address;
    char text[64];

    for (unsigned port = first; port <= last; port++) {
        br_inet_set_port(address, (uint16_t)port);
        if (!bind(fd, &address->any, br_inet_bytes(address)))
            return getsockname(fd, &address->any, &bytes)
                       ? br_error(errno, "getsockname: %s", strerror(errno))
                       : 0;
        if (errno != EADDRINUSE)
            break;
    }
    br_inet_text(address, true, text, sizeof text);
    if (errno == EADDRINUSE)
        return br_error(EADDRINUSE, "no free UDP port in %u-%u at %s; widen BRAID_PORT_RANGE",
                        first, last, text);
    return br_error(errno, "cannot bind a UDP socket to %s: %s", text, strerror(errno));
}

int br_udp_socket_open(const struct br_tcp_socket_options *options, bool receives,
                       union br_inet_address *address)
{
    int family = address->any.sa_family, rc = 0;
    int fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return br_error(errno, "no UDP socket: %s%s", strerror(errno),
                        errno == EMFILE ? "; raise `ulimit -n`" : "");
    if ((*options->nic && setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, options->nic,
                                     (socklen_t)strlen(options->nic))) ||
        (family == AF_INET6 ? set_v6(fd) : set_v4(fd)))
        rc = br_error(errno, "cannot set up a UDP socket: %s", strerror(errno));
    set_room(fd, SO_SNDBUF, SO_SNDBUFFORCE);
    if (receives) {
        set_room(fd, SO_RCVBUF, SO_RCVBUFFORCE);
        udp_socket_set(fd, SOL_SOCKET, SO_TIMESTAMPNS,
                       1); /* without: when it was looked at, which makes round trips long */
        udp_socket_set(
            fd, IPPROTO_UDP, UDP_GRO,
            1); /* without: packets come one by one, which is as good but for the speed */
    }
    if (!rc)
        rc = receives ? bind_in_range(fd, options->first_port, options->last_port, address)
                      : bind_in_range(fd, 0, 0, address);
    if (rc) {
        close(fd);
        return rc;
    }
    return fd;
}

uint32_t br_udp_socket_packet_bytes(const struct br_interface *interface)
{
    uint32_t headers = interface->address.any.sa_family == AF_INET6 ? HEADERS_V6 : HEADERS_V4,
             bytes;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {.ifr_mtu = 0};
    uint32_t mtu = USUAL_MTU;

    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface->name);
    if (fd >= 0 && !ioctl(fd, SIOCGIFMTU, &request) && request.ifr_mtu > 0)
        mtu = (uint32_t)request.ifr_mtu;
    if (fd >= 0)
        close(fd);
    bytes = mtu > headers ? mtu - headers : 0;
    return bytes < BR_DGRAM_MAX_PACKET ? bytes : BR_DGRAM_MAX_PACKET;
}

uint32_t br_udp_socket_room(int fd)
{
    int bytes = 0;
    socklen_t n = sizeof bytes;

    if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &n) || bytes < 0)
        return 0;
    return (uint32_t)bytes / 2; /* the kernel doubles it for its own needs */
}

static int udp_socket_error_of(const struct cmsghdr *cmsg)
{
    struct sock_extended_err err;

    if (!(cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_RECVERR) &&
        !(cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_RECVERR))
        return 0;
    memcpy(&err, CMSG_DATA(cmsg), sizeof err);
    return (int)err.ee_errno;
}

bool br_udp_socket_diagnosis(int fd, struct br_udp_diagnosis *out)
{
    uint8_t control[256] __attribute__((aligned(8)));
    struct iovec iov = {out->quote, sizeof out->quote};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT);

    if (n < 0)
        return false;
    out->error = 0;
    out->quote_bytes = (uint32_t)n;
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg); cmsg; cmsg = CMSG_NXTHDR(&msg, cmsg))
        if (udp_socket_error_of(cmsg))
            out->error = udp_socket_error_of(cmsg);
    return true;
}
