/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long wires, for kernels without netem: each copies the frames of its two interfaces to each
 * other, a delay after they came.
 *
 *   link_delay --delay US INTERFACE INTERFACE [INTERFACE INTERFACE]...
 *
 * It runs until it is killed, and needs CAP_NET_RAW.
 *
 * 1. Offloads of the far ends must be off (ethtool -K DEV tx off tso off gso off), so that a frame
 *    is a packet on the wire.
 * 2. The delay counts from the time at which the kernel took the frame in, so that a reader who
 *    comes late does not make the wire longer. A wire is not held up by the programs at its ends
 *    either: it runs in real time where it may, and in front of a frame's time it does not sleep,
 *    since waking up takes longer than a wire may be off. So it takes a core for itself, and all
 *    wires of a testbed are one process: a process each would leave no core to those who are
 *    measured.
 * 3. The kernel stops who takes more than 95 % of a core in real time for the rest of the second
 *    (sched_rt_runtime_us): all that is on its way would come 50 ms late and at once. So it naps
 *    after each millisecond without sleep, and frames of that moment are late by it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "tools/common/options.h"

#define ROOM      (8 << 20) /* bytes that may wait in a socket */
#define LONG      9216      /* bytes of a frame, at most */
#define WIRES     16
#define FLYING    1024    /* frames on their way in one direction; more wait in the socket */
#define AWAKE     150000  /* ns in front of a frame's time */
#define AT_A_TIME 1000000 /* ns without sleep */
#define NAP       60000   /* ns */

struct frame {
    int64_t due; /* ns, real time */
    uint32_t bytes;
    unsigned char data[LONG];
};

/* One direction. */
struct way {
    int from, to;
    uint64_t first, last; /* frames on their way, by number */
    struct frame *frames; /* [FLYING] */
};

static int open_end(const char *name)
{
    struct sockaddr_ll at = {.sll_family = AF_PACKET,
                             .sll_protocol = htons(ETH_P_ALL),
                             .sll_ifindex = (int)if_nametoindex(name)};
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL)), room = ROOM, one = 1;

    if (fd < 0 || !at.sll_ifindex || bind(fd, (struct sockaddr *)&at, sizeof at) ||
        setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) ||
        setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one)) {
        fprintf(stderr, "link_delay: %s: %s\n", name, strerror(errno));
        exit(1);
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
    return fd;
}

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* When the kernel took it in. */
static int64_t stamp(struct msghdr *message)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec t;

            memcpy(&t, CMSG_DATA(c), sizeof t);
            return t.tv_sec * 1000000000ll + t.tv_nsec;
        }
    return now();
}

/* Takes a frame in; false: there is none, or no room. */
static bool take(struct way *way, int64_t delay)
{
    struct frame *frame = &way->frames[way->last % FLYING];
    char control[128];
    struct iovec bytes = {.iov_base = frame->data, .iov_len = LONG};
    struct msghdr message = {.msg_iov = &bytes,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    ssize_t n;

    if (way->last - way->first == FLYING)
        return false;
    n = recvmsg(way->from, &message, MSG_DONTWAIT);
    if (n <= 0)
        return false;
    frame->bytes = (uint32_t)n;
    frame->due = stamp(&message) + delay;
    way->last++;
    return true;
}

static void deliver(struct way *way)
{
    while (way->first < way->last && way->frames[way->first % FLYING].due <= now()) {
        struct frame *frame = &way->frames[way->first++ % FLYING];

        (void)!send(way->to, frame->data, frame->bytes, 0);
    }
}

/* Sleeps until a frame comes or is due soon, or for a nap when the last sleep is long ago. */
static void rest(struct pollfd *ends, const struct way *ways, int n)
{
    static int64_t slept;
    struct timespec nap = {.tv_nsec = NAP};
    int64_t due = INT64_MAX, at = now();

    for (int i = 0; i < n; i++)
        if (ways[i].first < ways[i].last && ways[i].frames[ways[i].first % FLYING].due < due)
            due = ways[i].frames[ways[i].first % FLYING].due;
    if (due == INT64_MAX) {
        poll(ends, (nfds_t)n, -1);
    } else if (due > at + AWAKE) {
        struct timespec t = {(due - at - AWAKE) / 1000000000, (due - at - AWAKE) % 1000000000};

        ppoll(ends, (nfds_t)n, &t, NULL);
    } else if (at > slept + AT_A_TIME) {
        nanosleep(&nap, NULL);
    } else {
        return;
    }
    slept = now();
}

/* Two ways a wire, one from each of its ends. */
static void open_ways(struct pollfd *ends, struct way *ways, int n, char **names)
{
    for (int i = 0; i < n; i++) {
        ends[i] = (struct pollfd){.fd = open_end(names[i]), .events = POLLIN};
        ways[i].frames = calloc(FLYING, sizeof *ways[i].frames);
        if (!ways[i].frames)
            exit(1);
    }
    for (int i = 0; i < n; i++) {
        ways[i].from = ends[i].fd;
        ways[i].to = ends[i ^ 1].fd;
    }
}

int main(int argc, char **argv)
{
    struct sched_param first = {.sched_priority = 1};
    struct pollfd ends[2 * WIRES];
    struct way ways[2 * WIRES] = {0};
    int64_t delay = 0;
    const struct br_option options[] = {
        {"delay", 0, BR_OPTION_NUMBER, &delay, 0, 10000000, "US of a frame; default 0"},
        {0},
    };
    const char *usage = "link_delay [--delay US] INTERFACE INTERFACE [INTERFACE INTERFACE]...";
    struct br_arguments arguments;
    int rc = br_arguments_parse(&arguments, options, usage, argc, argv), n = arguments.count;

    if (!rc && (n < 2 || n % 2 || n > 2 * WIRES || arguments.command))
        rc = br_error(EINVAL, "write it as: %s, %d wires at most", usage, WIRES);
    if (rc < 0)
        fprintf(stderr, "link_delay: %s\n", br_error_message());
    if (rc)
        return rc < 0 ? 2 : 0;
    delay *= 1000;
    prctl(PR_SET_TIMERSLACK, 1);
    sched_setscheduler(0, SCHED_RR, &first);
    open_ways(ends, ways, n, arguments.operands);
    for (;;) {
        rest(ends, ways, n);
        for (int i = 0; i < n; i++) {
            for (int burst = 0; burst < 64 && take(&ways[i], delay); burst++)
                ;
            deliver(&ways[i]);
        }
    }
}
