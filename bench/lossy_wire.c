/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A wire that loses packets, for kernels without netem: copies the frames of two interfaces to each other and leaves out a
 * share of them, by chance from a seed.
 *
 *   lossy_wire INTERFACE INTERFACE PERCENT      runs until it is killed; needs CAP_NET_RAW
 *
 * Offloads of the far ends must be off (ethtool -K DEV tx off tso off gso off), so that a frame is a packet on the wire.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/random.h"

#define ROOM (8 << 20) /* bytes that may wait in a socket */

static int open_end(const char *name)
{
    struct sockaddr_ll at = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex(name)};
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL)), room = ROOM, one = 1;

    if (fd < 0 || !at.sll_ifindex || bind(fd, (struct sockaddr *)&at, sizeof at) ||
        setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one)) {
        fprintf(stderr, "lossy_wire: %s: %s\n", name, strerror(errno));
        exit(1);
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
    return fd;
}

int main(int argc, char **argv)
{
    static unsigned char frame[65536];
    struct br_random random;
    struct pollfd ends[2];
    double share;

    if (argc != 4) {
        fputs("usage: lossy_wire INTERFACE INTERFACE PERCENT\n", stderr);
        return 2;
    }
    share = atof(argv[3]) / 100;
    br_random_seed(&random, 1);
    for (int i = 0; i < 2; i++)
        ends[i] = (struct pollfd){.fd = open_end(argv[1 + i]), .events = POLLIN};
    while (poll(ends, 2, -1) > 0 || errno == EINTR)
        for (int i = 0; i < 2; i++)
            for (int burst = 0; burst < 64; burst++) {
                ssize_t n = recv(ends[i].fd, frame, sizeof frame, MSG_DONTWAIT);

                if (n <= 0)
                    break;
                if (br_random_unit(&random) >= share)
                    (void)!send(ends[!i].fd, frame, (size_t)n, 0);
            }
    return 1;
}
