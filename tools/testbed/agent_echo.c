/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The passive side of the measurements: echoes UDP datagrams and measures what arrives over TCP.
 *
 * 1. The receiver measures the rate: what a sender has handed to its kernel says nothing about the
 *    link.
 * 2. A measurement skips `warm_ms` first, in which the burst of a shaper and TCP's slow start pass,
 *    and goes from one arrival to another, so that large segments on a slow link do not distort it.
 * 3. It ends by the receiver's clock; its result is the only thing sent back, and makes the sender
 *    stop.
 */
#include "tools/testbed/agent_echo.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "tools/testbed/agent.h"

#define CONNECTIONS 256
#define TICK_MS     10

struct stream {
    int fd; /* -1: free */
    size_t greeted;
    struct br_echo_hello hello;
    uint64_t begun, mark, last; /* ns; 0: not yet */
    uint64_t bytes;             /* that arrived after the mark; of the present trip */
    bool answered;
};

struct br_agent_echo {
    int stop, udp, tcp;
    bool started;
    pthread_t thread;
    struct stream streams[CONNECTIONS];
};

static void agent_echo_echo(int fd)
{
    static _Thread_local uint8_t buffer[65536];
    union {
        char bytes[CMSG_SPACE(sizeof(struct in_pktinfo))];
        struct cmsghdr align;
    } control;
    for (;;) {
        struct sockaddr_in from;
        struct iovec iov = {.iov_base = buffer, .iov_len = sizeof buffer};
        struct msghdr message = {.msg_name = &from,
                                 .msg_namelen = sizeof from,
                                 .msg_iov = &iov,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof control.bytes};
        ssize_t bytes = recvmsg(fd, &message, MSG_DONTWAIT);
        if (bytes < 0)
            return;
        /* Back through the NIC it came in by, from the address it was sent to: the control message
         * says both. */
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
            struct in_pktinfo info;
            if (c->cmsg_level != IPPROTO_IP || c->cmsg_type != IP_PKTINFO)
                continue;
            memcpy(&info, CMSG_DATA(c), sizeof info);
            info.ipi_spec_dst = info.ipi_addr;
            memcpy(CMSG_DATA(c), &info, sizeof info);
        }
        iov.iov_len = (size_t)bytes;
        (void)!sendmsg(fd, &message, MSG_DONTWAIT); /* a lost echo is what the asker counts */
    }
}

static void agent_echo_finish(struct stream *stream)
{
    close(stream->fd);
    *stream = (struct stream){.fd = -1};
}

static void agent_echo_answer(struct stream *stream, uint64_t now)
{
    struct br_echo_result result = {
        .bytes = stream->bytes, .ns = br_echo_time(stream->begun, stream->mark, stream->last, now)};
    stream->answered = true;
    if (send(stream->fd, &result, sizeof result, MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof result)
        agent_echo_finish(stream);
}

static void agent_echo_greet(struct stream *stream)
{
    ssize_t bytes = recv(stream->fd, (char *)&stream->hello + stream->greeted,
                         sizeof stream->hello - stream->greeted, MSG_DONTWAIT);
    if (bytes > 0)
        stream->greeted += (size_t)bytes;
    if (bytes == 0 || (bytes < 0 && errno != EAGAIN) ||
        (stream->greeted == sizeof stream->hello &&
         (stream->hello.magic != BR_ECHO_MAGIC || stream->hello.warm_ms > 60000 ||
          stream->hello.measure_ms > 60000)))
        agent_echo_finish(stream);
}

static void tell_trips(struct stream *stream, uint64_t bytes)
{
    stream->bytes += bytes;
    while (stream->bytes >= stream->hello.trip_bytes) {
        stream->bytes -= stream->hello.trip_bytes;
        if (send(stream->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1) {
            agent_echo_finish(stream);
            return;
        }
    }
}

static void agent_echo_take(struct stream *stream, uint64_t now)
{
    /* MSG_TRUNC: the kernel throws the bytes away and only counts them. */
    ssize_t bytes = recv(stream->fd, NULL, 1 << 20, MSG_DONTWAIT | MSG_TRUNC);
    if (bytes == 0 || (bytes < 0 && errno != EAGAIN)) {
        agent_echo_finish(stream);
        return;
    }
    if (bytes < 0 || stream->answered)
        return;
    if (stream->hello.trip_bytes) {
        tell_trips(stream, (uint64_t)bytes);
        return;
    }
    if (!stream->begun)
        stream->begun = now;
    if (stream->mark) {
        stream->bytes += (uint64_t)bytes;
        stream->last = now;
    } else if (now - stream->begun >= stream->hello.warm_ms * BR_MS) {
        stream->mark = now;
    }
}

static void serve_stream(struct stream *stream, bool readable)
{
    if (readable && stream->greeted < sizeof stream->hello)
        agent_echo_greet(stream);
    else if (readable)
        agent_echo_take(stream, br_clock_now());
    uint64_t now = br_clock_now();
    if (stream->fd >= 0 && stream->begun && !stream->answered &&
        now - stream->begun >= (stream->hello.warm_ms + (uint64_t)stream->hello.measure_ms) * BR_MS)
        agent_echo_answer(stream, now);
}

static void take_in(struct br_agent_echo *server)
{
    int fd;
    while ((fd = accept4(server->tcp, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        int i = 0, one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        while (i < CONNECTIONS && server->streams[i].fd >= 0)
            i++;
        if (i == CONNECTIONS)
            close(fd);
        else
            server->streams[i] = (struct stream){.fd = fd};
    }
}

static void *echo_thread(void *argument)
{
    struct br_agent_echo *server = argument;
    struct pollfd fds[3 + CONNECTIONS];
    for (;;) {
        fds[0] = (struct pollfd){.fd = server->stop, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = server->udp, .events = POLLIN};
        fds[2] = (struct pollfd){.fd = server->tcp, .events = POLLIN};
        bool measuring = false;
        for (int i = 0; i < CONNECTIONS; i++) {
            fds[3 + i] = (struct pollfd){.fd = server->streams[i].fd, .events = POLLIN};
            measuring |= server->streams[i].fd >= 0;
        }
        if (poll(fds, sizeof fds / sizeof *fds, measuring ? TICK_MS : -1) < 0 && errno != EINTR)
            break;
        if (fds[0].revents)
            break;
        if (fds[1].revents)
            agent_echo_echo(server->udp);
        for (int i = 0; i < CONNECTIONS; i++)
            if (server->streams[i].fd >= 0)
                serve_stream(&server->streams[i], fds[3 + i].revents);
        if (fds[2].revents)
            take_in(server);
    }
    return NULL;
}

void br_agent_echo_close(struct br_agent_echo *server)
{
    uint64_t one = 1;
    if (!server)
        return;
    if (server->started && write(server->stop, &one, sizeof one) == sizeof one)
        pthread_join(server->thread, NULL);
    for (int i = 0; i < CONNECTIONS; i++)
        if (server->streams[i].fd >= 0)
            close(server->streams[i].fd);
    const int fds[] = {server->stop, server->udp, server->tcp};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(server);
}

/* Both sockets on one port that the kernel chooses. The port; -errno with a message. */
static int agent_echo_open_sockets(struct br_agent_echo *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int one = 1;
    server->stop = eventfd(0, EFD_CLOEXEC);
    server->tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    server->udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (server->stop < 0 || server->tcp < 0 || server->udp < 0)
        return br_error(errno, "no sockets for the measurements: %s", strerror(errno));
    setsockopt(server->udp, IPPROTO_IP, IP_PKTINFO, &one, sizeof one);
    if (bind(server->tcp, (struct sockaddr *)&address, sizeof address) ||
        listen(server->tcp, 128) || getsockname(server->tcp, (struct sockaddr *)&address, &size) ||
        bind(server->udp, (struct sockaddr *)&address, sizeof address))
        return br_error(errno, "cannot listen for the measurements: %s", strerror(errno));
    return ntohs(address.sin_port);
}

int br_agent_serve(struct br_agent *agent, const cJSON *request, cJSON *reply)
{
    (void)request;
    struct br_agent_echo *server = calloc(1, sizeof *server);
    if (!server)
        return br_error(ENOMEM, "no memory to serve");
    br_agent_echo_close(agent->echo);
    agent->echo = NULL;
    server->stop = server->udp = server->tcp = -1;
    for (int i = 0; i < CONNECTIONS; i++)
        server->streams[i].fd = -1;
    int port = agent_echo_open_sockets(server);
    if (port > 0) {
        int err = br_thread_start(&server->thread, echo_thread, server);
        server->started = !err;
        if (err)
            port = br_error(err, "no thread to serve: %s", strerror(err));
    }
    if (port < 0) {
        br_agent_echo_close(server);
        return port;
    }
    agent->echo = server;
    cJSON_AddNumberToObject(reply, "port", port);
    return 0;
}
