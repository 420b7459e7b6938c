/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Has the process of a neighbour that is cut off ended?
 *
 * A broken NIC or switch answers nothing; a host whose process is gone refuses connections at the
 * address where that process listened. So a rank whose connection over the direct rail is refused,
 * after no other route has been found for a while, need not wait for the peer timeout. The larger
 * rank is refused when it connects. The smaller one never connects, and its connect requests reach
 * nobody, so it makes a connection only to see whether it is refused, and closes it at once.
 */
#include "protocol/relay/relay.h"

#include <errno.h>
#include <stdio.h>

#define PART 16 /* of the peer timeout: a while */

static uint64_t a_while(const struct br_worker *w)
{
    return w->config.peer_timeout / PART;
}

static void end_probe(struct br_worker *w, struct br_rail *rail)
{
    br_link_defer_close(w, rail->probe);
    rail->probe = NULL;
    rail->probe_at = w->now + a_while(w);
}

void br_relay_refused(struct br_worker *w, struct br_rail *rail)
{
    const struct br_peer *peer = rail->peer;
    char text[160];

    if (!w->relay || rail->alternate || !rail->was_up || !peer->cut_at ||
        w->now - peer->cut_at < a_while(w) || peer->state != BR_PEER_UP)
        return;
    snprintf(text, sizeof text, "%.110s: its process has ended", rail->message);
    br_peer_lost(w, rail, ECONNRESET, text);
}

void br_relay_probe(struct br_worker *w, struct br_peer *peer)
{
    struct br_rail *rail = &peer->rails[0];

    if (rail->probe && w->now > rail->probe_at)
        end_probe(w, rail);
    if (rail->probe || rail->alternate || rail->connector || w->now < rail->probe_at ||
        w->now - peer->cut_at < a_while(w))
        return;
    if (rail->device->ops->link_connect(rail->device, &rail->address, &rail->probe)) {
        rail->probe = NULL; /* for want of a descriptor: later */
        rail->probe_at = w->now + a_while(w);
        return;
    }
    rail->probe->owner = rail;
    rail->probe_at = w->now + 4 * a_while(w);
}

void br_relay_probed(struct br_worker *w, struct br_rail *rail, const struct br_event *event)
{
    bool refused = event->kind == BR_EVENT_CLOSED && event->error == -ECONNREFUSED;

    if (refused && rail->state != BR_RAIL_UP)
        snprintf(rail->message, sizeof rail->message, "%.110s", rail->probe->message);
    end_probe(w, rail);
    if (refused)
        br_relay_refused(w, rail);
}
