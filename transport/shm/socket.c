/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/socket.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"

#define BACKLOG 128
#define MAX_FDS 4 /* room for more than the one we expect, so that extra ones can be closed */

static socklen_t shm_socket_abstract(struct sockaddr_un *address, const char *name)
{
    size_t length = strnlen(name, BR_SHM_SOCKET_NAME);

    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path + 1, name, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static int make_socket(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    return fd < 0 ? br_error(errno, "socket: %s", strerror(errno)) : fd;
}

int br_shm_socket_listen(char name[BR_SHM_SOCKET_NAME])
{
    struct sockaddr_un address;
    uint64_t random;
    socklen_t length;
    int fd, rc;

    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return br_error(EIO, "getrandom: %s", strerror(errno));
    snprintf(name, BR_SHM_SOCKET_NAME, "braid-%d-%016" PRIx64, (int)getpid(), random);
    fd = make_socket();
    if (fd < 0)
        return fd;
    length = shm_socket_abstract(&address, name);
    if (bind(fd, (struct sockaddr *)&address, length) < 0 || listen(fd, BACKLOG) < 0) {
        rc = br_error(errno, "cannot listen on the abstract socket %s: %s", name, strerror(errno));
        close(fd);
        return rc;
    }
    return fd;
}

int br_shm_socket_connect(const char *name)
{
    struct sockaddr_un address;
    socklen_t length = shm_socket_abstract(&address, name);
    int fd = make_socket();
    int rc;

    if (fd < 0)
        return fd;
    if (connect(fd, (struct sockaddr *)&address, length) < 0) {
        rc = br_error(errno, "cannot connect to the abstract socket %.*s: %s", BR_SHM_SOCKET_NAME,
                      name, strerror(errno));
        close(fd);
        return rc;
    }
    return fd;
}

int br_shm_socket_accept(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

int br_shm_socket_peer(int fd, pid_t *pid)
{
    struct ucred peer;
    socklen_t length = sizeof peer;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
        return br_error(errno, "SO_PEERCRED: %s", strerror(errno));
    if (peer.uid != geteuid())
        return br_error(
            EPERM,
            "pid %d runs under uid %u, we under %u: shared memory is for one user's processes",
            (int)peer.pid, peer.uid, geteuid());
    *pid = peer.pid;
    return 0;
}

int br_shm_packet_send(int fd, struct br_packet *packet, int passed)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec iov = {.iov_base = packet, .iov_len = sizeof *packet};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    packet->version = BR_PACKET_VERSION;
    if (passed >= 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = sizeof control.bytes;
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.header), &passed, sizeof passed);
    }
    if (sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
        return 0;
    if (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS)
        return -EAGAIN;
    return br_error(errno, "send: %s", strerror(errno));
}

/* The first descriptor of a message; closes the others. */
static int first_fd(struct msghdr *msg)
{
    int fds[MAX_FDS], first = -1;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        if (n > MAX_FDS)
            n = MAX_FDS; /* cannot be: the buffer has no room for more */
        memcpy(fds, CMSG_DATA(c), n * sizeof(int));
        for (size_t i = 0; i < n; i++) {
            if (first < 0)
                first = fds[i];
            else
                close(fds[i]);
        }
    }
    return first;
}

static bool carries_fd(uint32_t kind)
{
    return kind == BR_PACKET_HELLO || kind == BR_PACKET_SEGMENT || kind == BR_PACKET_FD;
}

int br_shm_packet_receive(int fd, struct br_packet *packet, int *passed)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = packet, .iov_len = sizeof *packet};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof control.bytes};
    ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    *passed = -1;
    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n <= 0)
        return -ECONNRESET;
    *passed = first_fd(&msg);
    if (n == (ssize_t)sizeof *packet && !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
        packet->version == BR_PACKET_VERSION && carries_fd(packet->kind) == (*passed >= 0))
        return 1;
    if (*passed >= 0)
        close(*passed);
    *passed = -1;
    return br_error(
        EPROTO, "malformed packet of %zd bytes: other braid version?%s", n,
        msg.msg_flags & MSG_CTRUNC ? " (or no free file descriptor here: raise `ulimit -n`)" : "");
}
