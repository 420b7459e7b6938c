/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What UDP carries without any protocol: trains of packets (UDP_SEGMENT, sendmmsg) and the reader
 * (UDP_GRO, recvmmsg), which says how much came.
 *
 *   udp_bare [options] receive IP    until nothing has come for 0.3 s; prints Gbit/s of payload
 *   udp_bare [options] send IP       --help lists the options
 *
 * A sender that sends as fast as the kernel takes it overruns the reader, and what is dropped costs
 * both: it is no upper limit. So the reader tells after each call how many bytes have come, and the
 * sender has at most WINDOW bytes under way.
 *
 * With --head each packet is a head and a piece of MEMORY bytes, as who puts headers in front of a
 * user's memory has it. Without, all that is sent is 1 MiB in large pieces, which stays in the
 * cache.
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
#include "base/error.h"
#include "tools/common/options.h"

#define TRAINS 16
#define ROOM   (8 << 20)
#define QUIET  (300 * BR_MS)
#define WINDOW (2u << 20)
#define MEMORY (4u << 20)
#define PIECES 128          /* of a train: of at most 64 packets */
#define LOST   (10 * BR_MS) /* without news: what was under way is lost */

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

/* Trains of packets that consist of two pieces. */
static void cut(int packets, size_t packet, size_t head)
{
    static unsigned char heads[TRAINS][PIECES / 2][64], memory[MEMORY];
    static struct iovec pieces[TRAINS][PIECES];
    size_t at = 0;

    memset(memory, 1, sizeof memory);
    for (int i = 0; i < TRAINS; i++) {
        for (int k = 0; k < packets; k++) {
            pieces[i][2 * k] = (struct iovec){heads[i][k], head};
            pieces[i][2 * k + 1] = (struct iovec){memory + at, packet - head};
            at = at + 2 * packet > MEMORY ? 0 : at + packet - head;
        }
        messages[i].msg_hdr.msg_iov = pieces[i];
        messages[i].msg_hdr.msg_iovlen = 2 * (size_t)packets;
    }
}

/* Tells where the last train came from. */
static void tell(int fd, const struct sockaddr_in *to, uint64_t total)
{
    (void)!sendto(fd, &total, sizeof total, MSG_DONTWAIT, (const struct sockaddr *)to, sizeof *to);
}

static int receive(const struct sockaddr_in *at)
{
    int fd = open_socket(SO_RCVBUFFORCE), one = 1;
    uint64_t first = 0, last = 0, total = 0, begun = 0;
    struct sockaddr_in from;

    must(setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof one), "UDP_GRO");
    must(bind(fd, (const struct sockaddr *)at, sizeof *at), "bind");
    fill(sizeof bytes[0]);
    while (!last || br_clock_now() - last < QUIET) {
        int n;

        messages[0].msg_hdr.msg_name = &from;
        messages[0].msg_hdr.msg_namelen = sizeof from;
        n = recvmmsg(fd, messages, TRAINS, MSG_DONTWAIT, NULL);
        if (n <= 0)
            continue;
        last = br_clock_now();
        for (int i = 0; i < n; i++)
            total += messages[i].msg_len;
        tell(fd, &from, total);
        if (!first) {
            first = last;
            begun = total;
        }
    }
    printf("%.2f\n", (double)(total - begun) * 8 / (double)(last - first));
    return 0;
}

/* Bytes that have arrived, as far as is known. */
static uint64_t hear(int fd, uint64_t arrived)
{
    uint64_t told;

    while (recv(fd, &told, sizeof told, MSG_DONTWAIT) == sizeof told)
        arrived = told;
    return arrived;
}

static int send_all(const struct sockaddr_in *to, int packet, double seconds, int head)
{
    int fd = open_socket(SO_SNDBUFFORCE), train = 65000 / packet, n;
    uint64_t now = br_clock_now(), end = now + (uint64_t)(seconds * 1e9), heard_at = now, sent = 0,
             arrived = 0;

    if (train > 64)
        train = 64;
    must(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &packet, sizeof packet), "UDP_SEGMENT");
    must(connect(fd, (const struct sockaddr *)to, sizeof *to), "connect");
    fill((size_t)train * (size_t)packet);
    if (head)
        cut(train, (size_t)packet, (size_t)head);
    for (; now < end; now = br_clock_now()) {
        uint64_t before = arrived;

        arrived = hear(fd, arrived);
        if (arrived != before)
            heard_at = now;
        if (sent - arrived + (uint64_t)train * (uint64_t)packet * TRAINS > WINDOW) {
            if (now - heard_at > LOST)
                sent = arrived;
            continue;
        }
        n = sendmmsg(fd, messages, TRAINS, 0);
        if (n < 0 && errno != ENOBUFS && errno != ECONNREFUSED)
            must(-1, "sendmmsg");
        if (n > 0)
            sent += (uint64_t)n * (uint64_t)train * (uint64_t)packet;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    const char *usage = "udp_bare [options] send|receive IP", *mode;
    int64_t packet = 1400, head = 0, udp_port = 9999;
    double seconds = 1;
    const struct br_option options[] = {
        {"port", 'p', BR_OPTION_NUMBER, &udp_port, 1, 65535, "N default 9999"},
        {"size", 's', BR_OPTION_BYTES, &packet, 65, 65000, "SIZE of a packet; default 1400"},
        {"head", 0, BR_OPTION_NUMBER, &head, 0, 64, "BYTES of it that are a head; default 0"},
        {"duration", 'D', BR_OPTION_DECIMAL, &seconds, 0, 3600, "SECONDS default 1"},
        {0},
    };
    struct br_arguments arguments;
    int rc = br_arguments_parse(&arguments, options, usage, argc, argv);

    mode = arguments.count == 2 && !arguments.command ? arguments.operands[0] : "";
    if (!rc && strcmp(mode, "send") != 0 && strcmp(mode, "receive") != 0)
        rc = br_error(EINVAL, "write it as: %s", usage);
    if (!rc && inet_pton(AF_INET, arguments.operands[1], &address.sin_addr) != 1)
        rc = br_error(EINVAL, "'%s' is not an IPv4 address", arguments.operands[1]);
    if (rc < 0)
        fprintf(stderr, "udp_bare: %s\n", br_error_message());
    if (rc)
        return rc < 0 ? 2 : 0;
    address.sin_port = htons((uint16_t)udp_port);
    return !strcmp(mode, "send") ? send_all(&address, (int)packet, seconds, (int)head)
                                 : receive(&address);
}
