/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/bootstrap/store_socket.h"

#include "base/clock.h"
#include "base/error.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BACKLOG 1024
/* For one address; the next may answer where this one is filtered. */
#define CONNECT_TIME (3 * BR_SEC)

static void store_socket_set(int fd, int level, int option, int value)
{
    setsockopt(fd, level, option, &value, sizeof value);
}

void br_socket_tune(int fd)
{
    store_socket_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    store_socket_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    store_socket_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
    store_socket_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
    store_socket_set(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

void br_socket_name(const struct sockaddr *address, socklen_t bytes, char name[BR_SOCKET_NAME])
{
    char host[INET6_ADDRSTRLEN + 20], port[8];

    if (getnameinfo(address, bytes, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV))
        snprintf(name, BR_SOCKET_NAME, "an unknown address");
    else if (!strncmp(host, "::ffff:", 7)) /* IPv4 that came to a socket for both */
        snprintf(name, BR_SOCKET_NAME, "%.48s:%s", host + 7, port);
    else
        snprintf(name, BR_SOCKET_NAME, strchr(host, ':') ? "[%.48s]:%s" : "%.48s:%s", host, port);
}

static int store_socket_resolve(const char *address, uint16_t port, struct addrinfo **list)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    char service[8];
    int rc;

    snprintf(service, sizeof service, "%u", port);
    rc = getaddrinfo(address, service, &hints, list);
    if (rc)
        return br_error(ENXIO, "%.100s: %s", address,
                        rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
    return 0;
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 ==
               127;
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static int bind_at(const struct sockaddr *address, socklen_t bytes, int *fd)
{
    int rc, s = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (s < 0)
        return -errno;
    /* connections of an earlier job may linger in TIME_WAIT */
    store_socket_set(s, SOL_SOCKET, SO_REUSEADDR, 1);
    if (address->sa_family == AF_INET6)
        store_socket_set(s, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (bind(s, address, bytes) < 0) {
        rc = -errno;
        close(s);
        return rc;
    }
    *fd = s;
    return 0;
}

static int bind_everywhere(uint16_t port, int *fd)
{
    struct sockaddr_in6 any6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_any};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    int rc = bind_at((struct sockaddr *)&any6, sizeof any6, fd);

    if (rc == -EAFNOSUPPORT || rc == -EADDRNOTAVAIL) /* a host without IPv6 */
        rc = bind_at((struct sockaddr *)&any4, sizeof any4, fd);
    return rc;
}

int br_socket_listen(const char *address, uint16_t port, bool local, int *fd)
{
    struct addrinfo *list = NULL;
    int rc;

    if (local && store_socket_resolve(address, port, &list) == 0 && is_loopback(list->ai_addr))
        rc = bind_at(list->ai_addr, list->ai_addrlen, fd);
    else
        rc = bind_everywhere(port, fd);
    if (list)
        freeaddrinfo(list);
    if (rc == 0 && listen(*fd, BACKLOG) < 0) {
        rc = -errno;
        close(*fd);
        *fd = -1;
    }
    if (rc < 0)
        return br_error(
            -rc, "rank 0 cannot listen on port %u: %s%s", port, strerror(-rc),
            rc == -EADDRINUSE
                ? ": another program uses it, choose another MASTER_PORT (or BRAID_PORT)"
                : "");
    return 0;
}

static int store_socket_port(int *fd, uint16_t *port)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } own = {0};
    socklen_t bytes = sizeof own;
    int rc;

    if (getsockname(*fd, &own.any, &bytes) < 0) {
        rc = br_error(errno, "getsockname: %s", strerror(errno));
        close(*fd);
        *fd = -1;
        return rc;
    }
    *port = ntohs(own.any.sa_family == AF_INET6 ? own.six.sin6_port : own.four.sin_port);
    return 0;
}

/* As the address family that the kernel wants: a host may have no IPv6. */
static socklen_t store_socket_address(const struct in6_addr *address, uint16_t port,
                                      struct sockaddr_storage *out)
{
    struct sockaddr_in6 six = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = *address};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};

    if (!IN6_IS_ADDR_V4MAPPED(address)) {
        memcpy(out, &six, sizeof six);
        return sizeof six;
    }
    memcpy(&four.sin_addr, &address->s6_addr[12], sizeof four.sin_addr);
    memcpy(out, &four, sizeof four);
    return sizeof four;
}

int br_socket_listen_anywhere(const struct in6_addr *loopback, uint16_t *port, int *fd)
{
    struct sockaddr_storage address;
    socklen_t bytes = loopback ? store_socket_address(loopback, *port, &address) : 0;
    int rc =
        loopback ? bind_at((struct sockaddr *)&address, bytes, fd) : bind_everywhere(*port, fd);

    if (rc == 0 && listen(*fd, BACKLOG) < 0) {
        rc = -errno;
        close(*fd);
        *fd = -1;
    }
    if (rc < 0 && *port)
        return br_error(-rc, "rank 0 cannot listen on port %u: %s%s", *port, strerror(-rc),
                        rc == -EADDRINUSE ? ": another program uses it, choose another BRAID_PORT "
                                            "(or master_port of braid_config)"
                                          : "");
    if (rc < 0)
        return br_error(-rc, "no free port on this host: %s", strerror(-rc));
    return store_socket_port(fd, port);
}

int br_socket_reserve(const char *address, uint16_t *port, int *fd)
{
    struct sockaddr_in one = {.sin_family = AF_INET};
    int rc;

    if (address && inet_pton(AF_INET, address, &one.sin_addr) != 1)
        return br_error(EINVAL, "%s is no IPv4 address", address);
    rc = address ? bind_at((struct sockaddr *)&one, sizeof one, fd) : bind_everywhere(0, fd);
    if (rc < 0)
        return br_error(-rc, "no free port on %s: %s", address ? address : "this host",
                        strerror(-rc));
    return store_socket_port(fd, port);
}

/* Waits until the socket is ready for `events`, or -ETIMEDOUT. */
static int store_socket_wait_for(int fd, short events, uint64_t deadline)
{
    struct pollfd pollfd = {.fd = fd, .events = events};

    for (;;) {
        uint64_t now = br_clock_now(),
                 ms = now < deadline ? (deadline - now + BR_MS - 1) / BR_MS : 0;
        int n = poll(&pollfd, 1, ms > INT_MAX ? INT_MAX : (int)ms);

        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
        if (br_clock_now() >= deadline)
            return -ETIMEDOUT;
    }
}

/* Where nobody listens on a port of the range for outgoing connections, TCP may connect the socket
 * to itself. */
static bool is_itself(int fd)
{
    struct sockaddr_storage ours = {0}, theirs = {0};
    socklen_t ours_bytes = sizeof ours, theirs_bytes = sizeof theirs;

    return getsockname(fd, (struct sockaddr *)&ours, &ours_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&theirs, &theirs_bytes) == 0 &&
           ours_bytes == theirs_bytes && memcmp(&ours, &theirs, ours_bytes) == 0;
}

static int connect_to(const struct sockaddr *to, socklen_t to_bytes, uint64_t limit,
                      uint64_t deadline, int *fd)
{
    int err = 0, s = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    socklen_t bytes = sizeof err;

    if (s < 0)
        return -errno;
    limit += br_clock_now();
    if (connect(s, to, to_bytes) < 0)
        err = errno;
    if (err == EINPROGRESS) {
        err = -store_socket_wait_for(s, POLLOUT, deadline < limit ? deadline : limit);
        if (!err)
            getsockopt(s, SOL_SOCKET, SO_ERROR, &err, &bytes);
    }
    if (!err && is_itself(s))
        err = ECONNREFUSED;
    if (err) {
        close(s);
        return -err;
    }
    br_socket_tune(s);
    *fd = s;
    return 0;
}

int br_socket_connect(const char *address, uint16_t port, uint64_t deadline, int *fd)
{
    char name[BR_SOCKET_NAME];
    struct addrinfo *list;
    int rc = store_socket_resolve(address, port, &list);

    if (rc < 0)
        return rc;
    for (const struct addrinfo *to = list; to; to = to->ai_next) {
        rc = connect_to(to->ai_addr, to->ai_addrlen, CONNECT_TIME, deadline, fd);
        if (rc == 0)
            break;
        br_socket_name(to->ai_addr, to->ai_addrlen, name);
        br_error(-rc, "%s: %s", name, strerror(-rc));
    }
    freeaddrinfo(list);
    return rc;
}

int br_socket_connect_address(const struct in6_addr *address, uint16_t port, uint64_t limit,
                              uint64_t deadline, int *fd)
{
    struct sockaddr_storage to;
    socklen_t bytes = store_socket_address(address, port, &to);
    int rc = connect_to((struct sockaddr *)&to, bytes, limit, deadline, fd);
    char name[BR_SOCKET_NAME];

    if (rc < 0) {
        br_socket_name((struct sockaddr *)&to, bytes, name);
        br_error(-rc, "%s: %s", name, strerror(-rc));
    }
    return rc;
}

int br_socket_send(int fd, const void *bytes, size_t n, uint64_t deadline)
{
    const char *at = bytes;

    while (n) {
        ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);
        int rc = 0;

        if (sent >= 0) {
            at += sent;
            n -= (size_t)sent;
        } else if (errno == EAGAIN) {
            rc = store_socket_wait_for(fd, POLLOUT, deadline);
        } else if (errno != EINTR) {
            rc = errno == EPIPE ? -ECONNRESET : -errno;
        }
        if (rc < 0)
            return br_error(-rc, "sending: %s", strerror(-rc));
    }
    return 0;
}

int br_socket_receive(int fd, void *bytes, size_t n, uint64_t deadline)
{
    char *at = bytes;

    while (n) {
        ssize_t got = recv(fd, at, n, 0);
        int rc = 0;

        if (got > 0) {
            at += got;
            n -= (size_t)got;
        } else if (got == 0) {
            rc = -ECONNRESET;
        } else if (errno == EAGAIN) {
            rc = store_socket_wait_for(fd, POLLIN, deadline);
        } else if (errno != EINTR) {
            rc = -errno;
        }
        if (rc < 0)
            return br_error(-rc, "receiving: %s",
                            got == 0 ? "the other end closed the connection" : strerror(-rc));
    }
    return 0;
}
