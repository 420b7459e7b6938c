/* SPDX-License-Identifier: BSD-3-Clause */
/* What the udp back end does with packets that arrive. */
#include <errno.h>
#include <string.h>

#include "transport/udp/udp.h"

static bool same_ip(const union br_inet_address *a, const union br_inet_address *b)
{
    if (a->any.sa_family != b->any.sa_family)
        return false;
    if (a->any.sa_family == AF_INET)
        return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
    return !memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof a->v6.sin6_addr);
}

/* By the number that the peer has of it. For what happens once in a link's life. */
static struct br_udp_link *find_by_peer(struct br_udp_device *device, uint64_t number)
{
    for (int i = 0; number && i < device->n_open; i++)
        if (device->open[i]->dgram && br_dgram_link_peer(device->open[i]->dgram) == number)
            return device->open[i];
    return NULL;
}

/* Sends what belongs to no link; if it does not leave, it is lost like any packet. `zeros` bytes follow. */
static void reply(struct br_udp_device *device, struct br_dgram_open *packet, uint32_t zeros,
                  const union br_inet_address *to)
{
    static const uint8_t nothing[BR_DGRAM_MAX_PACKET];
    struct iovec iov[2] = {{packet, sizeof *packet}, {(void *)nothing, zeros}};
    struct msghdr msg = {.msg_name = (void *)to,
                         .msg_namelen = br_inet_bytes(to),
                         .msg_iov = iov,
                         .msg_iovlen = zeros ? 2 : 1};

    br_dgram_seal(packet, sizeof *packet, nothing, zeros);
    (void)!sendmsg(device->fds[0], &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    device->base.counters.system_calls++;
}

/* Keeps no trace of it (cookie.h). */
static void answer_open(struct br_udp_device *device, const struct br_dgram_open *open,
                        const union br_inet_address *from)
{
    uint8_t paths = (uint8_t)device->paths;
    struct br_dgram_open answer = {
        .header = {.kind = BR_DGRAM_OPENED, .link = open->from},
        .from = br_udp_cookie_answer(&device->cookies, from, open->from, device->now),
        .size = open->size,
        .paths = open->paths < paths ? open->paths : paths,
    };

    if (open->size > device->max_packet)
        return; /* the connector tries a smaller one */
    if (device->links.n_free) {
        reply(device, &answer, open->size - (uint32_t)sizeof answer, from);
        return;
    }
    device->base.counters.refused_links += open->from != device->refused; /* OPENs come in volleys */
    device->refused = open->from;
    answer.header.kind = BR_DGRAM_CLOSE;
    answer.size = 0;
    reply(device, &answer, 0, from);
}

static struct br_udp_link *find(struct br_udp_device *device, const struct br_dgram_view *view,
                                const union br_inet_address *from)
{
    struct br_udp_link *link;

    if (!view->header.link)
        link = view->kind == BR_DGRAM_CLOSE ? find_by_peer(device, view->open.from) : NULL;
    else
        link = br_table_find(&device->ids, view->header.link, 0);
    if (!link && view->kind == BR_DGRAM_CONFIRM &&
        br_udp_cookie_good(&device->cookies, view->header.link, from, view->open.from, device->now))
        link = br_udp_link_accept(device, view, from);
    return link;
}

static void take(struct br_udp_device *device, const uint8_t *bytes, uint32_t n,
                 const struct br_udp_arrival *arrival)
{
    struct br_udp_link *link;
    struct br_dgram_view view;
    struct br_dgram_open refusal;

    if (br_dgram_parse(bytes, n, &view)) {
        device->base.counters.stray_packets++;
        return;
    }
    if (view.kind == BR_DGRAM_OPEN) {
        answer_open(device, &view.open, arrival->from);
        return;
    }
    link = find(device, &view, arrival->from);
    if (link && link->state != BR_UDP_FAILED && same_ip(&link->peer, arrival->from)) {
        br_dgram_link_input(link->dgram, &view, arrival->marked, device->now);
        link->dirty = link->eventful = true;
        return;
    }
    device->base.counters.stray_packets++;
    if (link || view.kind == BR_DGRAM_CLOSE)
        return;
    br_dgram_refuse(&view, &refusal);
    reply(device, &refusal, 0, arrival->from);
}

void br_udp_arrive(struct br_udp_device *device, const struct br_udp_arrival *arrival)
{
    for (uint32_t at = 0; at < arrival->n; at += arrival->packet_bytes) {
        uint32_t left = arrival->n - at;

        take(device, arrival->bytes + at, left < arrival->packet_bytes ? left : arrival->packet_bytes,
             arrival);
    }
}

/* The link that the quoted packet belongs to. */
static struct br_udp_link *find_quoted(struct br_udp_device *device, const struct br_udp_trouble *trouble)
{
    struct br_dgram_open packet;

    if (trouble->quote_bytes < sizeof packet)
        return NULL;
    memcpy(&packet, trouble->quote, sizeof packet);
    if (packet.header.magic != BR_DGRAM_MAGIC)
        return NULL;
    if (packet.header.kind == BR_DGRAM_OPEN)
        return br_table_find(&device->ids, packet.from, 0);
    return find_by_peer(device, packet.header.link);
}

static void take_trouble(struct br_udp_link *link, int error)
{
    if (error == ECONNREFUSED)
        br_udp_link_fail(link, -ECONNREFUSED, "nobody listens there (any more)");
    else if (error == EMSGSIZE && link->state == BR_UDP_UP)
        br_udp_link_fail(link, -EMSGSIZE, "the path carries shorter packets than when the link was set up");
    else if ((error == EHOSTUNREACH || error == ENETUNREACH) && link->state == BR_UDP_OPENING)
        br_udp_link_fail(link, -error, strerror(error));
}

void br_udp_troubles(struct br_udp_device *device, int fd)
{
    struct br_udp_trouble trouble;

    while (br_udp_socket_trouble(fd, &trouble)) {
        struct br_udp_link *link = find_quoted(device, &trouble);

        device->base.counters.system_calls++;
        if (link)
            take_trouble(link, trouble.error);
    }
}
