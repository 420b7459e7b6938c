/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages without a number: they go ahead of everything, hold nothing, and are built at the moment
 * they leave. */
#include "protocol/internal.h"

#include <string.h>

static bool post_plain(struct br_rail *rail, enum br_message_type type)
{
    struct br_message message = {.type = (uint8_t)type};

    return br_control_post(rail, &message, NULL, 0) == 1;
}

static bool post_ack(struct br_rail *rail)
{
    struct br_message message = {
        .type = BR_MESSAGE_ACK,
        .ack = {.bytes = rail->rx_bytes,
                .arrived = rail->arrived,
                .released = rail->released,
                .released_bytes = rail->released_bytes,
                .ack_backlog = br_rail_ack_backlog(rail)},
    };

    if (br_control_post(rail, &message, NULL, 0) != 1)
        return false;
    br_rail_announced(rail);
    return true;
}

static bool post_dones(struct br_peer *peer, struct br_rail *rail)
{
    while (peer->done_tail != peer->done_head) {
        struct br_message message = {.type = BR_MESSAGE_DONE};
        uint32_t n = 0;

        while (n < 6 && peer->done_tail + n != peer->done_head) {
            message.done.slots[n] = peer->dones[(peer->done_tail + n) % peer->n_dones];
            n++;
        }
        if (br_control_post(rail, &message, NULL, 0) != 1)
            return false;
        peer->done_tail += n;
    }
    return true;
}

/* One RAIL_DOWN or RAIL_FENCED a set bit; bits of messages that have left are cleared. */
static bool post_rails(struct br_peer *peer, struct br_rail *rail, enum br_message_type type,
                       uint8_t *due)
{
    for (uint32_t i = 0; i < (uint32_t)peer->n_rails; i++) {
        const struct br_rail *about = &peer->rails[i];
        uint32_t incarnation = type == BR_MESSAGE_RAIL_DOWN ? about->lost : about->fenced;
        struct br_message message = {.type = (uint8_t)type, .rail = {i, incarnation, {0}}};

        if (!(*due >> i & 1))
            continue;
        if (br_control_post(rail, &message, NULL, 0) != 1)
            return false;
        *due &= (uint8_t) ~(1u << i);
    }
    return true;
}

static bool post_bye(struct br_peer *peer, struct br_rail *rail)
{
    struct br_message message = {.type = BR_MESSAGE_BYE};

    for (int i = 0; i < BR_STREAMS; i++)
        message.bye.next[i] = peer->streams[i].sequence;
    peer->bye_sent = br_control_post(rail, &message, NULL, 0) == 1;
    return peer->bye_sent;
}

/* What concerns the rail itself. false: the link is full, try later. */
static bool pump_rail(struct br_rail *rail)
{
    if (rail->ack_due) {
        if (!post_ack(rail))
            return false;
        rail->ack_due = false;
    }
    if (rail->pong_due) {
        if (!post_plain(rail, BR_MESSAGE_PONG))
            return false;
        rail->pong_due = false;
    }
    if (rail->ping_due) {
        if (!post_plain(rail, BR_MESSAGE_PING))
            return false;
        rail->ping_due = false;
    }
    return !rail->relay_due || br_relay_post_credits(rail);
}

bool br_control_pump(struct br_worker *w, struct br_peer *peer, struct br_rail *rail)
{
    if (!pump_rail(rail))
        return false;
    if (peer->idle_due && !br_idle_post(w, peer, rail))
        return false;
    if (peer->idle_agreed)
        return true; /* the rest goes when the links stay, or on the next ones */
    if (peer->done_tail != peer->done_head && !post_dones(peer, rail))
        return false;
    if (peer->down_due && !post_rails(peer, rail, BR_MESSAGE_RAIL_DOWN, &peer->down_due))
        return false;
    if (peer->fenced_due && !post_rails(peer, rail, BR_MESSAGE_RAIL_FENCED, &peer->fenced_due))
        return false;
    if (peer->waiting_due && !br_waiting_post(w, peer, rail))
        return false;
    if (peer->renew_due && !br_rkey_post_renews(peer, rail))
        return false;
    if (peer->left_due && !br_demand_post_left(w, peer, rail))
        return false;
    return !peer->bye_due || peer->bye_sent || post_bye(peer, rail);
}

bool br_control_is_due(const struct br_peer *peer)
{
    for (int i = 0; i < peer->n_rails; i++)
        if (peer->rails[i].ack_due || peer->rails[i].pong_due || peer->rails[i].ping_due ||
            peer->rails[i].relay_due)
            return true;
    return peer->done_tail != peer->done_head || peer->down_due || peer->fenced_due ||
           peer->waiting_due || peer->renew_due || peer->left_due || peer->idle_due ||
           (peer->bye_due && !peer->bye_sent);
}

bool br_peer_has_work(const struct br_peer *peer)
{
    for (int k = 0; k < BR_QUEUES; k++)
        if (!br_list_empty(&peer->queues[k].entries))
            return true;
    return peer->put_done.type || br_numbered_again(peer) || br_control_is_due(peer);
}
