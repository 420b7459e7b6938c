/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The floor of a library over TCP: the collectives of two ranks by send() and recv() on one socket,
 * which both ranks poll. Nothing is framed, matched or checked. usage: RANK, WORLD_SIZE of 2,
 * MASTER_ADDR, MASTER_PORT.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop.h"

/* A sum is computed as soon as so much has come, while it is in the cache. */
#define PIECE (256u << 10)

static int fd, rank;

/* Sends and receives at once, each as far as the socket takes it. Where `add` is there, what has
 * come is added to it. */
static int exchange(const void *from, size_t from_bytes, void *into, size_t into_bytes,
                    const float *add)
{
    size_t sent = 0, came = 0, summed = 0;

    while (sent < from_bytes || came < into_bytes) {
        if (sent < from_bytes) {
            ssize_t n =
                send(fd, (const char *)from + sent, from_bytes - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (n < 0 && errno != EAGAIN)
                return perror("tcp driver: send"), 1;
            sent += n > 0 ? (size_t)n : 0;
        }
        if (came < into_bytes) {
            size_t want = into_bytes - came < PIECE ? into_bytes - came : PIECE;
            ssize_t n = recv(fd, (char *)into + came, want, MSG_DONTWAIT);
            if (!n || (n < 0 && errno != EAGAIN))
                return perror("tcp driver: recv"), 1;
            came += n > 0 ? (size_t)n : 0;
        }
        for (; add && (summed + 1) * sizeof(float) <= came; summed++)
            ((float *)into)[summed] += add[summed];
    }
    return 0;
}

static int collective(enum peer_collective which, const float *in, float *out, size_t count)
{
    size_t bytes = count * sizeof(float), half = count / 2, rest = count - half;
    size_t mine = rank ? count : 0, theirs = rank ? 0 : count;
    char byte = 0;

    switch (which) {
    case PEER_BROADCAST:
        return rank ? exchange(NULL, 0, out, bytes, NULL) : exchange(in, bytes, NULL, 0, NULL);
    case PEER_REDUCE:
        return rank ? exchange(in, bytes, NULL, 0, NULL) : exchange(NULL, 0, out, bytes, in);
    case PEER_ALLREDUCE:
        if (bytes <= PIECE / 4)
            return exchange(in, bytes, out, bytes, in);
        return rank
                   ? exchange(in, half * sizeof(float), out + half, rest * sizeof(float),
                              in + half) ||
                         exchange(out + half, rest * sizeof(float), out, half * sizeof(float), NULL)
                   : exchange(in + half, rest * sizeof(float), out, half * sizeof(float), in) ||
                         exchange(out, half * sizeof(float), out + half, rest * sizeof(float),
                                  NULL);
    case PEER_ALLGATHER:
        memcpy(out + mine, in, bytes);
        return exchange(in, bytes, out + theirs, bytes, NULL);
    case PEER_ALLTOALL:
        memcpy(out + mine, in + mine, bytes);
        return exchange(in + theirs, bytes, out + theirs, bytes, NULL);
    case PEER_REDUCE_SCATTER:
        return exchange(in + theirs, bytes, out, bytes, in + mine);
    case PEER_SCATTER:
        if (rank)
            return exchange(NULL, 0, out, bytes, NULL);
        memcpy(out, in, bytes);
        return exchange(in + count, bytes, NULL, 0, NULL);
    case PEER_GATHER:
        if (rank)
            return exchange(in, bytes, NULL, 0, NULL);
        memcpy(out, in, bytes);
        return exchange(NULL, 0, out + count, bytes, NULL);
    default:
        return exchange(&byte, 1, &byte, 1, NULL);
    }
}

static int maximum(double *values, int count)
{
    double *theirs = malloc((size_t)count * sizeof *theirs);
    size_t bytes = (size_t)count * sizeof *values;
    int rc = theirs ? exchange(values, bytes, theirs, bytes, NULL) : 1;

    for (int i = 0; !rc && i < count; i++)
        if (theirs[i] > values[i])
            values[i] = theirs[i];
    free(theirs);
    return rc;
}

/* Rank 0 listens; rank 1 tries until it does. Returns a socket, or -1. */
static int join(const char *address, const char *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int one = 1, s;

    if (inet_pton(AF_INET, address, &at.sin_addr) != 1) {
        errno = EINVAL;
        return -1;
    }
    for (int tries = 0; rank && tries < 1000; tries++) {
        s = socket(AF_INET, SOCK_STREAM, 0);
        if (s < 0 || !connect(s, (struct sockaddr *)&at, sizeof at))
            return s;
        close(s);
        usleep(10000);
    }
    s = rank ? -1 : socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0 || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
        bind(s, (struct sockaddr *)&at, sizeof at) || listen(s, 1))
        return -1;
    return accept(s, NULL, NULL);
}

int main(int argc, char **argv)
{
    const char *names[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}, *values[4];
    struct peer peer = {.size = 2, .collective = collective, .maximum = maximum};
    int one = 1;

    for (int i = 0; i < 4; i++)
        if (!(values[i] = getenv(names[i])))
            return fprintf(stderr, "tcp driver: set %s\n", names[i]), 2;
    if (atoi(values[1]) != 2)
        return fprintf(stderr, "tcp driver: two ranks only\n"), 2;
    peer.rank = rank = atoi(values[0]);
    fd = join(values[2], values[3]);
    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one))
        return perror("tcp driver"), 1;
    return peer_measure(&peer, argc, argv);
}
