/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What UDP carries without any protocol: trains of packets (UDP_SEGMENT, sendmmsg) as fast as the kernel takes them, and
 * the reader (UDP_GRO, recvmmsg), which says how much came.
 *
 *   udp_bare receive IP PORT                      until nothing has come for 0.3 s; prints Gbit/s of payload
 *   udp_bare send IP PORT PACKET_BYTES SECONDS
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

#define TRAINS 16
#define ROOM   (8 << 20)
#define QUIET  (300 * BR_MS)

static unsigned char bytes[TRAINS][65536];
static struct iovec iov[TRAINS];
static struct mmsghdr messages[TRAINS];

static void must(int rc, const char *what)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "udp_bare: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int open_socket(int force)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), room = ROOM;

    must(fd, "socket");
    must(setsockopt(fd, SOL_SOCKET, force, &room, sizeof room), "queue");
    return fd;
}

static void fill(size_t train_bytes)
{
    for (int i = 0; i < TRAINS; i++) {
        iov[i] = (struct iovec){bytes[i], train_bytes};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &iov[i], .msg_iovlen = 1};
    }
}

static int receive(const struct sockaddr_in *at)
{
    int fd = open_socket(SO_RCVBUFFORCE), one = 1;
    uint64_t first = 0, last = 0, total = 0, begun = 0;

    must(setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof one), "UDP_GRO");
    must(bind(fd, (const struct sockaddr *)at, sizeof *at), "bind");
    fill(sizeof bytes[0]);
    while (!last || br_clock_now() - last < QUIET) {
        int n = recvmmsg(fd, messages, TRAINS, MSG_DONTWAIT, NULL);

        if (n <= 0)
            continue;
        last = br_clock_now();
        for (int i = 0; i < n; i++)
            total += messages[i].msg_len;
        if (!first) {
            first = last;
            begun = total;
        }
    }
    printf("%.2f\n", (double)(total - begun) * 8 / (double)(last - first));
    return 0;
}

static int send_all(const struct sockaddr_in *to, int packet, double seconds)
{
    int fd = open_socket(SO_SNDBUFFORCE), train = 65000 / packet;
    uint64_t end = br_clock_now() + (uint64_t)(seconds * 1e9);

    if (train > 64)
        train = 64;
    must(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &packet, sizeof packet), "UDP_SEGMENT");
    must(connect(fd, (const struct sockaddr *)to, sizeof *to), "connect");
    fill((size_t)train * (size_t)packet);
    while (br_clock_now() < end)
        if (sendmmsg(fd, messages, TRAINS, 0) < 0 && errno != ENOBUFS && errno != ECONNREFUSED)
            must(-1, "sendmmsg");
    return 0;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};

    if (argc < 4 || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1)
        argc = 0;
    else
        address.sin_port = htons((uint16_t)atoi(argv[3]));
    if (argc == 4 && !strcmp(argv[1], "receive"))
        return receive(&address);
    if (argc == 6 && !strcmp(argv[1], "send") && atoi(argv[4]) > 0 && atoi(argv[4]) <= 65000)
        return send_all(&address, atoi(argv[4]), atof(argv[5]));
    fputs("usage: udp_bare receive IP PORT | send IP PORT PACKET_BYTES SECONDS\n", stderr);
    return 2;
}
