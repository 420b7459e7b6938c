/* SPDX-License-Identifier: BSD-3-Clause */
/* What a device does with packets that arrive. */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "transport/datagram/device.h"

static bool input_same_ip(const union br_inet_address *a, const union br_inet_address *b)
{
    if (a->any.sa_family != b->any.sa_family)
        return false;
    if (a->any.sa_family == AF_INET)
        return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
    return !memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof a->v6.sin6_addr);
}

/* By the number that the peer has of it. For what happens once in a link's life. */
static struct br_dgram_member *find_by_peer(struct br_dgram_device *device, uint64_t number)
{
    for (int i = 0; number && i < device->n_open; i++)
        if (device->open[i]->dgram && br_dgram_link_peer(device->open[i]->dgram) == number)
            return device->open[i];
    return NULL;
}

/* Sends what belongs to no link; if it does not leave, it is lost like any packet. `zeros` bytes
 * follow. */
static void arrive_reply(struct br_dgram_device *device, struct br_dgram_open *packet,
                         uint32_t zeros, const struct br_dgram_address *to)
{
    static const uint8_t nothing[BR_DGRAM_MAX_PACKET];

    br_dgram_seal(packet, sizeof *packet, nothing, zeros);
    device->base.counters.tx_packets++;
    device->io->reply(device, to, packet, sizeof *packet, zeros);
}

/* Keeps no trace of it (cookie.h). */
static void arrive_answer_open(struct br_dgram_device *device, const struct br_dgram_open *open,
                               const struct br_dgram_address *from)
{
    uint8_t paths = (uint8_t)device->paths;
    struct br_dgram_open answer = {
        .header = {.kind = BR_DGRAM_OPENED, .link = open->from},
        .from = br_dgram_cookie_answer(&device->cookies, &from->address, open->from, device->now),
        .size = open->size,
        .paths = open->paths < paths ? open->paths : paths,
    };

    if (open->size > device->max_packet)
        return; /* the connector tries a smaller one */
    if (device->links.n_free) {
        arrive_reply(device, &answer, open->size - (uint32_t)sizeof answer, from);
        return;
    }
    /* OPENs come in volleys */
    device->base.counters.refused_links += open->from != device->refused;
    device->refused = open->from;
    answer.header.kind = BR_DGRAM_CLOSE;
    answer.size = 0;
    arrive_reply(device, &answer, 0, from);
}

/* An OPEN of another version is answered in ours, so that the connector learns of it (packet.h note
 * 8): by no more than it has sent. */
static void arrive_answer_version(struct br_dgram_device *device, const struct br_dgram_open *open,
                                  const struct br_dgram_address *from)
{
    struct br_dgram_open answer = {
        .header = {.kind = BR_DGRAM_CLOSE, .link = open->from},
        .from = br_dgram_cookie_answer(&device->cookies, &from->address, open->from, device->now),
    };
    char name[64];

    arrive_reply(device, &answer, 0, from);
    if (open->from == device->refused)
        return;
    device->base.counters.refused_links++;
    device->refused = open->from;
    br_inet_text(&from->address, true, name, sizeof name);
    br_log_limited(&device->base.peer_lines, device->now, BR_LOG_WARN,
                   "device %s: refused a link from %s: its datagram version is %u, ours %u: update "
                   "braid %s",
                   device->base.name, name, open->header.version, BR_DGRAM_VERSION,
                   br_dgram_outdated(open->header.version));
}

static struct br_dgram_member *arrive_find(struct br_dgram_device *device,
                                           const struct br_dgram_view *view,
                                           const struct br_dgram_address *from)
{
    struct br_dgram_member *member;

    if (!view->header.link)
        member = view->kind == BR_DGRAM_CLOSE ? find_by_peer(device, view->open.from) : NULL;
    else
        member = br_table_find(&device->ids, view->header.link, 0);
    if (!member && view->kind == BR_DGRAM_CONFIRM &&
        br_dgram_cookie_good(&device->cookies, view->header.link, &from->address, view->open.from,
                             device->now))
        member = br_dgram_member_accept(device, view, from);
    return member;
}

struct br_dgram_member *br_dgram_device_take(struct br_dgram_device *device, const uint8_t *bytes,
                                             uint32_t n, bool marked,
                                             const struct br_dgram_address *from)
{
    struct br_dgram_member *member;
    struct br_dgram_view view;
    struct br_dgram_open refusal;
    int rc = br_dgram_parse(bytes, n, &view);

    device->base.counters.rx_packets++;
    if (rc && rc != -EPROTONOSUPPORT) {
        device->base.counters.invalid_packets++;
        return NULL;
    }
    if (view.kind == BR_DGRAM_OPEN) {
        if (rc)
            arrive_answer_version(device, &view.open, from);
        else
            arrive_answer_open(device, &view.open, from);
        return NULL;
    }
    member = arrive_find(device, &view, from);
    if (member && member->dgram && member->state != BR_DGRAM_FAILED &&
        input_same_ip(&member->peer.address, &from->address)) {
        br_dgram_link_input(member->dgram, &view, marked, device->arrived);
        member->dirty = member->eventful = true;
        return member;
    }
    device->base.counters.invalid_packets++;
    if (member || view.kind == BR_DGRAM_CLOSE)
        return NULL;
    br_dgram_refuse(&view, &refusal);
    arrive_reply(device, &refusal, 0, from);
    return NULL;
}

struct br_dgram_member *br_dgram_device_quoted(struct br_dgram_device *device, const void *quote,
                                               uint32_t bytes)
{
    struct br_dgram_open packet;

    if (bytes < sizeof packet)
        return NULL;
    memcpy(&packet, quote, sizeof packet);
    if (packet.header.magic != BR_DGRAM_MAGIC)
        return NULL;
    if (packet.header.kind == BR_DGRAM_OPEN)
        return br_table_find(&device->ids, packet.from, 0);
    return find_by_peer(device, packet.header.link);
}
