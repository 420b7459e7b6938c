/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/tcp_socket.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/downgrade.h"
#include "base/error.h"
#include "base/log.h"

#define NOTSENT_BYTES (128 << 10)
/* Unacknowledged, or not taken by a peer that is stopped, for so long: the kernel gives the
 * connection up. */
#define USER_TIMEOUT_LEAST (10 * BR_SEC)
#define USER_TIMEOUT_MOST  (86400 * BR_SEC)

/* Does the kernel know (and let us use) this congestion control? */
static bool congestion_known(const char *name)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool known =
        fd >= 0 && !setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name));

    if (fd >= 0)
        close(fd);
    return known;
}

static int read_congestion(const struct br_interface *interface, char *out)
{
    const char *wanted = getenv("BRAID_TCP_CONGESTION");

    *out = '\0';
    if (!wanted || !*wanted) {
        if (interface->local && congestion_known("cubic"))
            snprintf(out, BR_TCP_SOCKET_CONGESTION, "cubic");
        return 0;
    }
    if (!strcmp(wanted, "system"))
        return 0;
    if (strlen(wanted) >= BR_TCP_SOCKET_CONGESTION || !congestion_known(wanted))
        return br_error(ENOENT,
                        "BRAID_TCP_CONGESTION=%s: this kernel has no such congestion control; see "
                        "/proc/sys/net/ipv4/tcp_allowed_congestion_control, or say `system`",
                        wanted);
    memcpy(out, wanted, strlen(wanted) + 1);
    return 0;
}

static int tcp_socket_read_ports(struct br_tcp_socket_options *out)
{
    const char *text = getenv("BRAID_PORT_RANGE");
    unsigned first, last;
    char rest;

    out->first_port = out->last_port = 0;
    if (!text || !*text)
        return 0;
    if (sscanf(text, "%u-%u%c", &first, &last, &rest) != 2 || !first || first > last ||
        last > 65535)
        return br_error(EINVAL, "BRAID_PORT_RANGE=%s: write FIRST-LAST, both within 1 to 65535",
                        text);
    out->first_port = (uint16_t)first;
    out->last_port = (uint16_t)last;
    return 0;
}

int br_tcp_socket_options_read(const struct br_interface *interface,
                               const struct br_device_config *config,
                               struct br_tcp_socket_options *out)
{
    int rc = read_congestion(interface, out->congestion);
    uint64_t patience = config->patience;

    *out->nic = '\0';
    if (patience < USER_TIMEOUT_LEAST)
        patience = USER_TIMEOUT_LEAST;
    out->user_timeout_ms =
        (int)((patience < USER_TIMEOUT_MOST ? patience : USER_TIMEOUT_MOST) / BR_MS);
    if (!rc)
        rc = tcp_socket_read_ports(out);
    if (config->any_port)
        out->first_port = out->last_port = 0;
    return rc;
}

static int tcp_socket_set(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value);
}

static int bind_nic(int fd, const char *nic)
{
    return *nic ? setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, nic, (socklen_t)strlen(nic)) : 0;
}

int br_tcp_socket_options_bind(const struct br_interface *interface,
                               struct br_tcp_socket_options *options)
{
    int fd, rc;

    if (interface->loopback)
        return 0;
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return br_error(errno, "no socket: %s", strerror(errno));
    rc = bind_nic(fd, interface->name) ? -errno : 0;
    close(fd);
    if (rc)
        return br_error(
            -rc, "sockets cannot be kept on %s (%s): before Linux 5.7 this needs CAP_NET_RAW",
            interface->name, strerror(-rc));
    snprintf(options->nic, sizeof options->nic, "%s", interface->name);
    return 0;
}

int br_tcp_socket_options_of(const struct br_device *device, const struct br_interface *interface,
                             struct br_tcp_socket_options *out)
{
    int rc = br_tcp_socket_options_read(interface, device->config, out);

    if (!rc && device->config->own_nic_only && br_tcp_socket_options_bind(interface, out)) {
        br_downgrade(device_binding);
        br_log_warn("device %s: %s; packets go where the routes lead", device->name,
                    br_error_message());
    }
    return rc;
}

/* A TCP socket with our options. */
static int tcp_socket_open_socket(int family, const struct br_tcp_socket_options *options)
{
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return br_error(errno, "no socket: %s%s", strerror(errno),
                        errno == EMFILE ? "; raise `ulimit -n`" : "");
    if (bind_nic(fd, options->nic) || tcp_socket_set(fd, SOL_SOCKET, SO_REUSEADDR, 1) ||
        tcp_socket_set(fd, IPPROTO_TCP, TCP_NODELAY, 1) ||
        tcp_socket_set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, NOTSENT_BYTES) ||
        tcp_socket_set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, options->user_timeout_ms) ||
        (*options->congestion && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, options->congestion,
                                            (socklen_t)strlen(options->congestion)))) {
        int err = errno;

        close(fd);
        return br_error(err, "cannot set up a TCP socket: %s", strerror(err));
    }
    return fd;
}

/* A socket of its own for each port that is tried: where another socket has bound the same port
 * (SO_REUSEADDR lets both) and listens first, ours is refused only when it is to listen, and stays
 * bound to that port. Returns it, or a negative errno. */
static int listen_at(const union br_inet_address *address,
                     const struct br_tcp_socket_options *options)
{
    int fd = tcp_socket_open_socket(address->any.sa_family, options), err;
    char text[64];

    if (fd < 0)
        return fd;
    if (!bind(fd, &address->any, br_inet_bytes(address)) && !listen(fd, SOMAXCONN))
        return fd;
    err = errno;
    close(fd);
    br_inet_text(address, true, text, sizeof text);
    return br_error(err, "cannot listen at %s: %s", text, strerror(err));
}

/* On the first free port of the range. */
static int listen_in_range(const struct br_tcp_socket_options *options,
                           union br_inet_address *address)
{
    char text[64];

    for (unsigned port = options->first_port; port <= options->last_port; port++) {
        int fd;

        br_inet_set_port(address, (uint16_t)port);
        fd = listen_at(address, options);
        if (fd != -EADDRINUSE)
            return fd;
    }
    br_inet_text(address, true, text, sizeof text);
    return br_error(EADDRINUSE, "no free port in %u-%u at %s; widen BRAID_PORT_RANGE",
                    options->first_port, options->last_port, text);
}

int br_tcp_socket_listen(const struct br_interface *interface,
                         const struct br_tcp_socket_options *options,
                         union br_inet_address *address)
{
    socklen_t bytes = sizeof *address;
    int fd;

    *address = interface->address;
    fd = listen_in_range(options, address);
    if (fd >= 0 && getsockname(fd, &address->any, &bytes)) {
        int err = errno;

        close(fd);
        return br_error(err, "getsockname: %s", strerror(err));
    }
    return fd;
}

int br_tcp_socket_connect(const union br_inet_address *from,
                          const struct br_tcp_socket_options *options,
                          const union br_inet_address *to)
{
    union br_inet_address source = *from;
    int fd = tcp_socket_open_socket(from->any.sa_family, options);
    int rc;

    if (fd < 0)
        return fd;
    br_inet_set_port(&source, 0);
    /* The kernel then chooses the port in connect(), where it knows the other end: more of them are
     * free. */
    rc = tcp_socket_set(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    if (!rc)
        rc = bind(fd, &source.any, br_inet_bytes(&source));
    if (!rc)
        rc = connect(fd, &to->any, br_inet_bytes(to));
    if (rc && errno != EINPROGRESS) {
        int err = errno;

        close(fd);
        return br_error(err, "%s", strerror(err));
    }
    return fd;
}
