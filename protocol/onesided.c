/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target's side of put and get. A request names a span of a registered region; what follows are ordinary
 * transfers: the data with the request's tag (part DATA), then four bytes of status (part STATUS). The target's
 * program does nothing. The requester's side is in collectives/p2p.c.
 */
#include "protocol/internal.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"

struct br_service {
    struct br_transfer data, status;
    int32_t result; /* what the status transfer carries */
};

size_t br_onesided_service_bytes(void)
{
    return sizeof(struct br_service);
}

static void send_status(struct br_worker *w, struct br_service *s, int32_t result)
{
    s->result = result;
    s->status = (struct br_transfer){
        .tag = br_tag_with_part(s->data.tag, BR_PART_STATUS),
        .peer = s->data.peer,
        .length = sizeof s->result,
        .memory = &s->result,
        .priority = s->data.priority,
        .order = UINT64_MAX,
        .owner = &w->services,
    };
    if (br_transfer_send(w, &s->status))
        br_pool_put(&w->services, s);
}

static void let_go(struct br_worker *w, struct br_service *s)
{
    if (s->data.region)
        w->config.region_done(w->config.region_context, s->data.region);
    s->data.region = NULL;
}

void br_onesided_forget(struct br_worker *w)
{
    for (uint32_t i = 0; i < w->services.count; i++) /* free ones are zeroed, or have let go */
        let_go(w, br_pool_at(&w->services, i));
}

void br_onesided_request(struct br_worker *w, struct br_peer *peer, const struct br_message *m)
{
    struct br_service *s = br_pool_get(&w->services);
    bool put = m->type == BR_MESSAGE_PUT;
    int rc = -EACCES;

    if (!s) {
        br_worker_fail(w, EPROTO, "a peer has more one-sided requests outstanding than its credits allow");
        return;
    }
    memset(s, 0, sizeof *s);
    s->data.tag = br_tag_with_part(m->tag, BR_PART_DATA);
    s->data.peer = peer->rank;
    s->data.length = m->bytes;
    s->data.order = UINT64_MAX;
    s->data.rendezvous = true;
    s->data.owner = &w->services;
    if (m->onesided.check == w->config.check && m->bytes && m->bytes <= BR_MAX_TRANSFER &&
        w->config.region_find)
        rc = w->config.region_find(w->config.region_context, m->onesided.region, m->onesided.offset, m->bytes,
                                   &s->data.memory, &s->data.region);
    if (rc &&
        !put) /* the requester's READY is on its way: take it in, that it does not hold a credit for ever */
        s->data.refuse = rc;
    if (!rc || s->data.refuse)
        rc = put ? br_transfer_receive(w, &s->data) : br_transfer_send(w, &s->data);
    if (rc) {
        let_go(w, s);
        send_status(w, s, rc);
    }
}

bool br_onesided_ended(struct br_worker *w, struct br_transfer *t)
{
    struct br_service *s;

    if (t->owner != &w->services)
        return false;
    if (br_tag_with_part(t->tag, BR_PART_STATUS) == t->tag) {
        s = br_container_of(t, struct br_service, status);
        br_pool_put(&w->services, s);
    } else {
        s = br_container_of(t, struct br_service, data);
        let_go(w, s);
        send_status(w, s, t->status);
    }
    return true;
}
