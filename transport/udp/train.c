/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/udp/train.h"

#include <errno.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/downgrade.h"
#include "base/log.h"

/* a time stamp after the clocks were read, by more than this, is of a clock that was set */
#define JUMP          BR_MS
#define CONTROL_BYTES CMSG_SPACE(sizeof(uint16_t))

void br_udp_outbox_init(struct br_udp_outbox *outbox, bool cuts)
{
    outbox->cuts = cuts;
    outbox->first = outbox->n = 0;
    outbox->error = 0;
    outbox->news = false;
}

static bool udp_train_fits(const struct br_udp_outbox *outbox, const struct br_udp_train *train,
                           const void *link, int fd, uint32_t bytes)
{
    return outbox->cuts && train->link == link && train->fd == fd && !train->full &&
           bytes <= train->packet_bytes && train->packets < BR_UDP_TRAIN_PACKETS &&
           train->bytes + bytes <= BR_UDP_TRAIN_BYTES;
}

static struct br_udp_train *udp_train_begin(struct br_udp_outbox *outbox, const void *link, int fd,
                                            const union br_inet_address *to, uint32_t bytes)
{
    struct br_udp_train *train = &outbox->trains[outbox->n++];

    train->link = link;
    train->to = to;
    train->fd = fd;
    train->packet_bytes = bytes;
    train->bytes = 0;
    train->packets = 0;
    train->full = false;
    return train;
}

void br_udp_outbox_add(struct br_udp_outbox *outbox, const void *link, int fd,
                       const union br_inet_address *to, const struct br_dgram_packet *packet)
{
    uint32_t bytes = packet->head_bytes + packet->payload_bytes;
    struct br_udp_train *train = outbox->n > outbox->first ? &outbox->trains[outbox->n - 1] : NULL;
    uint8_t *end;

    if (!train || !udp_train_fits(outbox, train, link, fd, bytes))
        train = udp_train_begin(outbox, link, fd, to, bytes);
    end = train->content + train->bytes;
    memcpy(end, packet->head, packet->head_bytes);
    if (packet->payload_bytes)
        memcpy(end + packet->head_bytes, packet->payload, packet->payload_bytes);
    train->packets++;
    train->bytes += bytes;
    train->full = bytes < train->packet_bytes;
}

static void udp_train_prepare(struct br_udp_train *train, uint8_t *control, struct mmsghdr *out)
{
    struct msghdr *msg = &out->msg_hdr;

    memset(out, 0, sizeof *out);
    msg->msg_name = (void *)train->to;
    msg->msg_namelen = br_inet_bytes(train->to);
    train->iov = (struct iovec){train->content, train->bytes};
    msg->msg_iov = &train->iov;
    msg->msg_iovlen = 1;
    if (train->packets > 1) {
        struct cmsghdr *cmsg = (void *)control;
        uint16_t bytes = (uint16_t)train->packet_bytes;

        cmsg->cmsg_level = IPPROTO_UDP;
        cmsg->cmsg_type = UDP_SEGMENT;
        cmsg->cmsg_len = CMSG_LEN(sizeof bytes);
        memcpy(CMSG_DATA(cmsg), &bytes, sizeof bytes);
        msg->msg_control = control;
        msg->msg_controllen = CONTROL_BYTES;
    }
}

/* The trains from `first` on that leave by one socket. Returns how many the kernel took, or
 * -errno. */
static int udp_train_send_some(struct br_udp_outbox *outbox)
{
    uint8_t control[BR_UDP_TRAINS][CONTROL_BYTES] __attribute__((aligned(8)));
    struct mmsghdr messages[BR_UDP_TRAINS];
    int fd = outbox->trains[outbox->first].fd, n = 0, rc;

    for (int i = outbox->first;
         i < outbox->n && outbox->trains[i].link && outbox->trains[i].fd == fd; i++, n++)
        udp_train_prepare(&outbox->trains[i], control[n], &messages[n]);
    rc = sendmmsg(fd, messages, (unsigned)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    return rc < 0 ? -errno : rc;
}

unsigned br_udp_outbox_send(struct br_udp_outbox *outbox)
{
    unsigned system_calls = 0, retries = 0;

    while (outbox->first != outbox->n) {
        const struct br_udp_train *train = &outbox->trains[outbox->first];
        int rc = 1; /* trains done with */

        if (train->link) {
            rc = udp_train_send_some(outbox);
            system_calls++;
        }
        if (rc == -EAGAIN || rc == -ENOBUFS)
            return system_calls;
        if (rc == -EINTR)
            continue;
        if (rc == -EIO && train->packets > 1 && outbox->cuts) {
            outbox->cuts = false;
            br_downgrade(gso);
            br_log_warn("the device cannot send several UDP packets as one: slower");
        }
        /* What ICMP says of an earlier packet comes once in place of sending: try again. */
        if (rc == -ECONNREFUSED || rc == -EHOSTUNREACH || rc == -ENETUNREACH)
            outbox->news = true;
        if (outbox->news && rc < 0 && retries++ < BR_UDP_TRAINS)
            continue;
        /* Any other error is this train's, which then is lost like any packet. */
        if (rc < 0) {
            outbox->error = -rc;
            outbox->error_link = train->link;
        }
        outbox->first += rc > 0 ? rc : 1;
    }
    outbox->first = outbox->n = 0;
    return system_calls;
}

void br_udp_outbox_drop(struct br_udp_outbox *outbox, const void *link)
{
    for (int i = outbox->first; i < outbox->n; i++)
        if (outbox->trains[i].link == link)
            outbox->trains[i].link = NULL;
}

void br_udp_inbox_init(struct br_udp_inbox *inbox)
{
    inbox->all = false;
    inbox->ahead = 0;
    inbox->now = inbox->not_before = br_clock_now();
}

/* Time stamps are of the clock that people set, which may jump: so both are read each time. Who was
 * stopped between the two has learned nothing. */
static void read_clocks(struct br_udp_inbox *inbox)
{
    uint64_t before = br_clock_now();
    struct timespec wall;

    clock_gettime(CLOCK_REALTIME, &wall);
    inbox->now = br_clock_now();
    if (inbox->now - before < 5 * BR_US || !inbox->ahead)
        inbox->ahead = (uint64_t)wall.tv_sec * BR_SEC + (uint64_t)wall.tv_nsec - before;
}

int br_udp_inbox_receive(struct br_udp_inbox *inbox, int fd, int max)
{
    int n = max < BR_UDP_TRAINS ? max : BR_UDP_TRAINS, rc;

    for (int i = 0; i < n; i++) {
        inbox->iov[i] = (struct iovec){inbox->bytes[i], sizeof inbox->bytes[i]};
        inbox->messages[i].msg_hdr = (struct msghdr){.msg_name = &inbox->from[i],
                                                     .msg_namelen = sizeof inbox->from[i],
                                                     .msg_iov = &inbox->iov[i],
                                                     .msg_iovlen = 1,
                                                     .msg_control = inbox->control[i],
                                                     .msg_controllen = sizeof inbox->control[i]};
    }
    if (inbox->all && inbox->now > inbox->not_before)
        inbox->not_before = inbox->now;
    read_clocks(inbox);
    rc = recvmmsg(fd, inbox->messages, (unsigned)n, MSG_DONTWAIT, NULL);
    inbox->all = rc < n;
    return rc < 0 ? -errno : rc;
}

/* What the kernel says about the train. */
static void read_control(const struct br_udp_inbox *inbox, const struct cmsghdr *cmsg,
                         struct br_udp_arrival *out)
{
    struct timespec wall;
    int value = 0;

    if (cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_TIMESTAMPNS) {
        memcpy(&wall, CMSG_DATA(cmsg), sizeof wall);
        out->at = (uint64_t)wall.tv_sec * BR_SEC + (uint64_t)wall.tv_nsec - inbox->ahead;
    } else if (cmsg->cmsg_level == IPPROTO_UDP && cmsg->cmsg_type == UDP_GRO) {
        memcpy(&value, CMSG_DATA(cmsg), sizeof value);
        if (value > 0)
            out->packet_bytes = (uint32_t)value;
    } else if (cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_TOS) {
        out->marked = (*CMSG_DATA(cmsg) & IPTOS_ECN_MASK) == IPTOS_ECN_CE;
    } else if (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_TCLASS) {
        memcpy(&value, CMSG_DATA(cmsg), sizeof value);
        out->marked = (value & IPTOS_ECN_MASK) == IPTOS_ECN_CE;
    }
}

struct br_udp_arrival br_udp_inbox_at(struct br_udp_inbox *inbox, int i)
{
    struct msghdr *msg = &inbox->messages[i].msg_hdr;
    struct br_udp_arrival arrival = {.bytes = inbox->bytes[i],
                                     .n = inbox->messages[i].msg_len,
                                     .packet_bytes = inbox->messages[i].msg_len,
                                     .from = &inbox->from[i],
                                     .at = inbox->now};

    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg))
        read_control(inbox, cmsg, &arrival);
    if (arrival.at > inbox->now + JUMP)
        arrival.at = inbox->now;
    if (arrival.at < inbox->not_before)
        arrival.at = inbox->not_before;
    inbox->not_before = arrival.at;
    return arrival;
}
