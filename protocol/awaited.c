/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small messages that go from the receive buffer to their place, where no transfer waits for them
 * but a struct br_awaited. Mostly such a message is the next one of its peer, and nothing else is
 * to be known of it: then one function does what br_receive_event() and br_match_message() do, in
 * two thirds of the instructions. What is out of order, or not as it should be, goes there as any
 * other.
 */
#include "protocol/internal.h"

#include <string.h>

#include "base/copy.h"

struct br_awaited *br_awaited_find(const struct br_peer *peer, uint64_t tag)
{
    br_list_for_each (node, &peer->awaited) {
        struct br_awaited *awaited = br_container_of(node, struct br_awaited, node);

        if (awaited->tag == tag)
            return awaited;
    }
    return NULL;
}

/* Here, as most such messages are the next ones of their peer, which go no other way. */
static inline bool awaited_deliver(struct br_worker *w, const struct br_peer *peer,
                                   const struct br_message *m, const uint8_t *payload)
{
    struct br_awaited *awaited = m->type == BR_MESSAGE_EAGER ? br_awaited_find(peer, m->tag) : NULL;

    if (!awaited || m->bytes != awaited->length || m->check != awaited->check)
        return false;
    if (m->bytes)
        br_copy(awaited->memory, m->bytes <= BR_EAGER_INLINE ? m->data : payload, m->bytes);
    w->counters.copied_bytes += m->bytes;
    awaited->came = true;
    br_list_remove(&awaited->node);
    if (awaited->ended)
        br_list_push_back(awaited->ended, &awaited->node);
    return true;
}

bool br_awaited_deliver(struct br_worker *w, const struct br_peer *peer, const struct br_message *m,
                        const uint8_t *payload)
{
    return awaited_deliver(w, peer, m, payload);
}

bool br_awaited_arrives(struct br_worker *w, struct br_rail *rail, const struct br_event *event)
{
    struct br_peer *peer = rail->peer;
    struct br_stream *stream = &peer->streams[1];
    struct br_message m;

    if (br_list_empty(&peer->awaited) || rail->quiet || peer->bye_received)
        return false;
    memcpy(&m, event->inline_, sizeof m);
    if (m.sequence != stream->seen_top || (m.bytes > BR_EAGER_INLINE && m.bytes != event->length) ||
        !awaited_deliver(w, peer, &m, event->payload))
        return false;
    br_stream_saw_next(stream);
    rail->last_rx = w->now;
    rail->rx_messages++;
    br_rail_message_arrived(rail, event->length);
    br_rail_eager_received(rail, &m);
    rail->total_rx += m.bytes;
    peer->messages++;
    w->p2p_messages++;
    rail->device->ops->release(rail->device, event->link, event->buffer);
    br_rail_message_released(rail, event->length, false, w->now);
    if (rail->ack_due)
        br_peer_activate(w, peer);
    return true;
}
