/* SPDX-License-Identifier: BSD-3-Clause */
/* What the dpdk back end does in a poll: receive, report, send. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "transport/dpdk/dpdk.h"

/* of receives in one poll, at most: with more the peer would wait for acknowledgements meanwhile */
#define ROUNDS    4
#define ARP_AGAIN (50 * BR_MS) /* between two questions for one address */
/* for the caller to come back; later, packets may have come that are to be looked at first */
#define SOON     (50 * BR_US)
#define PATIENCE (3 * BR_SEC) /* where the caller has no wish */

static struct br_dpdk_device *dpdk_poll_device_of(struct br_dgram_device *device)
{
    return (struct br_dpdk_device *)device;
}

static struct br_dpdk_flow flow_to(const struct br_dpdk_device *device,
                                   const struct br_dgram_address *to, unsigned path)
{
    struct br_dpdk_flow flow = {.from = device->spec.ip,
                                .to = to->address.v4.sin_addr.s_addr,
                                .from_port = htons((uint16_t)(device->spec.port + path)),
                                .to_port = to->address.v4.sin_port};

    memcpy(flow.from_mac, device->mac, sizeof flow.from_mac);
    memcpy(flow.to_mac, to->hop, sizeof flow.to_mac);
    return flow;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* false: the port has no room. */
static bool dpdk_poll_flush(struct br_dpdk_device *device)
{
    struct br_dpdk_outbox *outbox = &device->outbox;

    if (!outbox->n)
        return true;
    while (outbox->first < outbox->n) {
        int sent = device->module->send(device->port, &outbox->packets[outbox->first],
                                        outbox->n - outbox->first);

        if (sent <= 0)
            return false;
        outbox->first += sent;
    }
    outbox->first = outbox->n = 0;
    device->dgram.base.counters.tx_copied_bytes =
        device->module->copied(device->port) + outbox->copied;
    return true;
}

static void dpdk_poll_send_one(struct br_dpdk_device *device, const uint8_t *head, uint32_t bytes,
                               uint32_t zeros, bool sums)
{
    static const uint8_t nothing[BR_DGRAM_MAX_PACKET];
    struct br_dpdk_leaving packet = {.head = head,
                                     .head_bytes = bytes,
                                     .payload = nothing,
                                     .payload_bytes = zeros,
                                     .sums = sums};

    (void)!device->module->send(device->port, &packet, 1);
}

static void dpdk_poll_reply(struct br_dgram_device *base, const struct br_dgram_address *to,
                            const void *head, uint32_t bytes, uint32_t zeros)
{
    struct br_dpdk_device *device = dpdk_poll_device_of(base);
    struct br_dpdk_flow flow = flow_to(device, to, 0);
    uint8_t frame[BR_DPDK_HEADERS + BR_DGRAM_HEAD];

    br_dpdk_packet_head(&flow, bytes + zeros, device->facts.sums, frame);
    memcpy(frame + BR_DPDK_HEADERS, head, bytes);
    dpdk_poll_send_one(device, frame, BR_DPDK_HEADERS + bytes, zeros, device->facts.sums);
}

static bool dpdk_poll_can_send(struct br_dgram_device *base, struct br_dgram_member *member)
{
    struct br_dpdk_device *device = dpdk_poll_device_of(base);

    (void)member;
    return device->outbox.n < BR_DPDK_BURST || dpdk_poll_flush(device);
}

static const uint8_t *template_for(struct br_dpdk_device *device,
                                   const struct br_dgram_member *member, uint8_t path)
{
    struct br_dpdk_template *template = &device->template;
    struct br_dpdk_flow flow;

    if (template->member == member && template->path == path &&
        !memcmp(template->hop, member->peer.hop, sizeof template->hop))
        return template->head;
    flow = flow_to(device, &member->peer, path);
    br_dpdk_packet_head(&flow, 0, device->facts.sums, template->head);
    template->member = member;
    template->path = path;
    memcpy(template->hop, member->peer.hop, sizeof template->hop);
    return template->head;
}

static void dpdk_poll_add(struct br_dgram_device *base, struct br_dgram_member *member,
                          const struct br_dgram_packet *packet)
{
    struct br_dpdk_device *device = dpdk_poll_device_of(base);
    struct br_dpdk_outbox *outbox = &device->outbox;
    uint8_t *head = outbox->heads[outbox->n];

    memcpy(head, template_for(device, member, packet->path), BR_DPDK_HEADERS);
    br_dpdk_packet_resize(head, packet->head_bytes + packet->payload_bytes, device->facts.sums);
    memcpy(head + BR_DPDK_HEADERS, packet->head, packet->head_bytes);
    outbox->packets[outbox->n] =
        (struct br_dpdk_leaving){.head = head,
                                 .head_bytes = BR_DPDK_HEADERS + packet->head_bytes,
                                 .payload = packet->payload,
                                 .payload_bytes = packet->payload_bytes,
                                 .sums = device->facts.sums};
    outbox->members[outbox->n++] = member;
}

/* To our own memory at this place. */
static void move_payload(struct br_dpdk_outbox *outbox, int place)
{
    struct br_dpdk_leaving *packet = &outbox->packets[place];

    memmove(outbox->payloads[place], packet->payload, packet->payload_bytes);
    packet->payload = outbox->payloads[place];
}

static void dpdk_poll_drop(struct br_dgram_device *base, struct br_dgram_member *member)
{
    struct br_dpdk_outbox *outbox = &dpdk_poll_device_of(base)->outbox;
    int kept = outbox->first;

    if (dpdk_poll_device_of(base)->template.member == member)
        dpdk_poll_device_of(base)->template.member = NULL; /* another one may stand at its place */
    for (int i = outbox->first; i < outbox->n; i++) {
        if (outbox->members[i] == member)
            continue;
        outbox->members[kept] = outbox->members[i];
        memmove(outbox->heads[kept], outbox->heads[i], sizeof outbox->heads[i]);
        outbox->packets[kept] = outbox->packets[i];
        outbox->packets[kept].head = outbox->heads[kept];
        if (outbox->packets[i].payload == outbox->payloads[i])
            move_payload(outbox, kept);
        kept++;
    }
    outbox->n = kept;
}

static void keep_payload(struct br_dpdk_outbox *outbox, const struct br_link *link)
{
    for (int i = outbox->first; i < outbox->n; i++) {
        if (&outbox->members[i]->base != link || !outbox->packets[i].payload_bytes ||
            outbox->packets[i].payload == outbox->payloads[i])
            continue;
        move_payload(outbox, i);
        outbox->copied += outbox->packets[i].payload_bytes;
    }
}

/* Once the caller hears that a frame is SENT its memory is not ours to read. Whose packets wait is
 * known by link only. */
static int hand_out(struct br_dpdk_device *device, const struct br_dgram_report *report)
{
    for (int i = 0; i < report->n && device->outbox.first < device->outbox.n; i++)
        if (report->events[i].kind == BR_EVENT_SENT)
            keep_payload(&device->outbox, report->events[i].link);
    return report->n;
}

/* ---- who is where ---------------------------------------------------------------------------- */

static bool is_known(const struct br_dpdk_device *device, in_addr_t hop,
                     struct br_dgram_member *member)
{
    for (int i = 0; i < device->spec.n_neighbours && !br_dpdk_mac_is_host(member->peer.hop); i++)
        if (device->spec.neighbours[i].ip == hop)
            memcpy(member->peer.hop, device->spec.neighbours[i].mac, sizeof member->peer.hop);
    return br_dpdk_mac_is_host(member->peer.hop);
}

static int dpdk_poll_resolve(struct br_dgram_device *base, struct br_dgram_member *member)
{
    struct br_dpdk_device *device = dpdk_poll_device_of(base);
    struct br_dpdk_flow flow = {
        .from = device->spec.ip,
        .to = br_dpdk_spec_hop(&device->spec, member->peer.address.v4.sin_addr.s_addr)};
    uint64_t patience = base->base.config->patience ? base->base.config->patience : PATIENCE;
    uint8_t question[BR_DPDK_ARP];
    char text[INET_ADDRSTRLEN];

    if (!flow.to)
        return br_error(ENETUNREACH,
                        "it is in another network, and BRAID_DPDK_PORTS has no gateway=");
    if (is_known(device, flow.to, member))
        return 1;
    inet_ntop(AF_INET, &flow.to, text, sizeof text);
    if (base->now >= member->resolve_began + patience)
        return br_error(EHOSTUNREACH, "nobody answers ARP for %s", text);
    if (base->now < member->timer)
        return 0;
    member->timer = base->now + ARP_AGAIN;
    memcpy(flow.from_mac, device->mac, sizeof flow.from_mac);
    br_dpdk_packet_arp(&flow, BR_DPDK_ARP_REQUEST, question);
    dpdk_poll_send_one(device, question, sizeof question, 0, false);
    return 0;
}

static void receive_arp(struct br_dpdk_device *device, const struct br_dpdk_packet *packet)
{
    struct br_dpdk_flow back = {.from = device->spec.ip, .to = packet->flow.from};
    uint8_t answer[BR_DPDK_ARP];

    if (packet->flow.to != device->spec.ip || !br_dpdk_mac_is_host(packet->flow.from_mac))
        return;
    if (packet->kind == BR_DPDK_ARP_REQUEST) {
        memcpy(back.from_mac, device->mac, sizeof back.from_mac);
        memcpy(back.to_mac, packet->flow.from_mac, sizeof back.to_mac);
        br_dpdk_packet_arp(&back, BR_DPDK_ARP_REPLY, answer);
        dpdk_poll_send_one(device, answer, sizeof answer, 0, false);
    }
    for (int i = 0; i < device->dgram.n_open; i++) {
        struct br_dgram_member *member = device->dgram.open[i];

        if (!member->dgram &&
            br_dpdk_spec_hop(&device->spec, member->peer.address.v4.sin_addr.s_addr) ==
                packet->flow.from)
            memcpy(member->peer.hop, packet->flow.from_mac, sizeof member->peer.hop);
    }
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void dpdk_poll_take(struct br_dpdk_device *device, const struct br_dpdk_packet *packet)
{
    struct br_dgram_address from = {.address.v4 = {.sin_family = AF_INET,
                                                   .sin_port = packet->flow.from_port,
                                                   .sin_addr.s_addr = packet->flow.from}};
    struct br_dgram_member *member;

    if (packet->flow.to != device->spec.ip || packet->flow.to_port != htons(device->spec.port) ||
        memcmp(packet->flow.to_mac, device->mac, sizeof device->mac) != 0 ||
        !br_dpdk_mac_is_host(packet->flow.from_mac))
        return; /* a switch that does not know yet where we are sends us everything */
    memcpy(from.hop, packet->flow.from_mac, sizeof from.hop);
    member =
        br_dgram_device_take(&device->dgram, packet->payload, packet->n, packet->marked, &from);
    if (member)
        memcpy(member->peer.hop, from.hop, sizeof from.hop);
}

static void dpdk_poll_receive(struct br_dpdk_device *device, struct br_dgram_report *report)
{
    struct br_dpdk_arrival arrivals[BR_DPDK_BURST];
    struct br_dpdk_packet packet;

    for (int round = 0; round < ROUNDS && report->n < report->max; round++) {
        int n = device->module->receive(device->port, arrivals);

        for (int i = 0; i < n; i++) {
            if (arrivals[i].damaged) {
                device->dgram.base.counters.invalid_packets++;
                continue;
            }
            br_dpdk_packet_parse(arrivals[i].bytes, arrivals[i].n,
                                 arrivals[i].checked || device->facts.memory, &packet);
            if (packet.kind == BR_DPDK_DATAGRAM)
                dpdk_poll_take(device, &packet);
            else if (packet.kind != BR_DPDK_OTHER)
                receive_arp(device, &packet);
        }
        if (n <= 0)
            return;
        br_dgram_device_report(&device->dgram, report);
        if (n < BR_DPDK_BURST)
            return;
    }
}

static void dpdk_poll_send_all(struct br_dpdk_device *device)
{
    if (!dpdk_poll_flush(device)) {
        br_dgram_device_expire(&device->dgram);
        return;
    }
    if (!br_dgram_device_wants(&device->dgram))
        return;
    if (br_dgram_device_send(&device->dgram))
        dpdk_poll_flush(device);
    br_dgram_device_drain(&device->dgram); /* what leaves does not wait for it */
}

int br_dpdk_poll(struct br_device *base, uint64_t now, struct br_event *events, int max)
{
    struct br_dpdk_device *device = (struct br_dpdk_device *)base;
    struct br_dgram_report report = {events, 0, max};

    base->unsent = false;
    if (device->put_off && now < device->polled_at + SOON) {
        device->put_off = false;
        dpdk_poll_send_all(device); /* note 6 */
    }
    br_dgram_device_begin(&device->dgram, now);
    br_dgram_device_report(&device->dgram, &report);
    dpdk_poll_receive(device, &report);
    device->polled_at = now;
    if (report.n && !device->put_off) {
        device->put_off = true;
        return hand_out(device, &report);
    }
    device->put_off = false;
    dpdk_poll_send_all(device);
    br_dgram_device_report(&device->dgram, &report);
    return hand_out(device, &report);
}

const struct br_dgram_io br_dpdk_io = {.reply = dpdk_poll_reply,
                                       .can_send = dpdk_poll_can_send,
                                       .send = dpdk_poll_add,
                                       .drop = dpdk_poll_drop,
                                       .resolve = dpdk_poll_resolve};
