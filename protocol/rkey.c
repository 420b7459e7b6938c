/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remote keys: what a sender has to know where its device writes by itself into the receiver's
 * memory (transport.h, note 8). The receiving half makes them and puts them into READY, the sending
 * half keeps them. doc/design/remote_keys.md says which rails get one, and what happens when a rail
 * is lost or a device makes none.
 */
#include "protocol/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"

/* ---- the receiving half ---------------------------------------------------------------------- */

void br_rkey_release(struct br_worker *w, struct br_slot *slot)
{
    for (uint32_t left = slot->arrived_direct; left; left &= left - 1) {
        struct br_device *device = w->devices[__builtin_ctz(left)];

        device->ops->rkey(device, slot, NULL);
    }
    slot->arrived_direct = 0;
}

void br_rkey_release_all(struct br_worker *w)
{
    for (uint32_t i = 0; i < w->slots.fresh; i++)
        if (w->slots.slots[i].used)
            br_rkey_release(w, &w->slots.slots[i]);
}

static void leave_out(struct br_worker *w, const struct br_rail *rail)
{
    if (!w->counters.skipped_rails++)
        br_log_warn(
            "rank %d: device %s (level %d) cannot receive a transfer from rank %d, which its other "
            "rails carry (said once, counted): %s",
            w->config.rank, rail->device->name, rail->level, rail->peer->rank, br_error_message());
}

/* Can a frame leave now, or as soon as an alternate route is found? */
static bool is_open(const struct br_rail *rail)
{
    return rail->state == BR_RAIL_UP || rail->alternate;
}

static void rkey_give_up(struct br_worker *w, const struct br_rail *rail, int rc)
{
    char text[320];

    snprintf(text, sizeof text,
             "no rail that is up can receive a transfer from rank %d; that of level %d (device %s) "
             "cannot: %s",
             rail->peer->rank, rail->level, rail->device->name, br_error_message());
    br_worker_fail(w, -rc, text);
}

void br_rkey_make(struct br_worker *w, struct br_peer *peer, struct br_slot *slot)
{
    const struct br_rail *unable = NULL;
    bool able = false;
    int error = 0;

    for (int i = 0; i < peer->n_rails; i++) {
        struct br_device *device = peer->rails[i].device;
        int rc = 0;

        if ((peer->rkey_rails >> i & 1) && !(slot->arrived_direct >> device->index & 1)) {
            rc = device->ops->rkey(device, slot, slot->rkeys[device->index]);
            if (!rc)
                slot->arrived_direct |= (uint8_t)(1u << device->index);
        }
        if (rc) {
            error = rc;
            unable = &peer->rails[i];
            leave_out(w, &peer->rails[i]);
        } else {
            able = able || is_open(&peer->rails[i]);
        }
    }
    if (unable && !able)
        rkey_give_up(w, unable, error);
}

uint32_t br_rkey_write(const struct br_peer *peer, const struct br_transfer *t,
                       struct br_message *ready, uint8_t *out)
{
    const struct br_slot *slot = t->slot;
    uint32_t n = 0;

    ready->ready.renews = t->renews;
    if (t->renews)
        ready->ready.have = br_slot_all(t->length, slot->slice_bytes) & ~slot->missing;
    for (uint32_t left = peer->rkey_rails; left; left &= left - 1) {
        const struct br_rail *rail = &peer->rails[__builtin_ctz(left)];

        if (!(slot->arrived_direct >> rail->device->index & 1))
            continue;
        ready->rkeys |= (1u << rail->index);
        memcpy(out + n, slot->rkeys[rail->device->index], BR_RKEY_BYTES);
        n += BR_RKEY_BYTES;
    }
    return n;
}

void br_rkey_renew_requested(struct br_worker *w, struct br_peer *peer,
                             const struct br_body_renew *renew)
{
    struct br_slot *slot = br_slot_find(&w->slots, renew->slot);
    struct br_transfer *t = slot ? slot->owner : NULL;

    if (!slot && !br_slot_was_renewed(&w->slots, renew->slot))
        br_receive_confirm(w, peer, renew->slot);
    /* One that has its new number already gets no other: the READY that says it is on its way. */
    if (!slot || !renew->lost || !peer->rkey_rails || t->peer != peer->rank ||
        t->state != BR_TRANSFER_MATCHING || slot->n_maps)
        return;
    br_rkey_release(w, slot);
    br_slot_renew(&w->slots, slot);
    br_rkey_make(w, peer, slot);
    t->renews = renew->slot;
    t->state = BR_TRANSFER_QUEUED;
    t->expected = true; /* its sender has asked */
    br_send_message_due(w, peer, t);
}

/* ---- the sending half ------------------------------------------------------------------------ */

static uint64_t rkey_slices_of(const struct br_worker *w, uint32_t length)
{
    return br_slot_all(length, br_slot_slice_bytes(length, w->config.slice_bytes));
}

const char *br_rkey_check(const struct br_worker *w, const struct br_peer *peer,
                          const struct br_message *m, uint32_t length)
{
    uint64_t have = m->ready.have;

    if (m->rkeys & ~peer->rkey_rails)
        return "a READY has a remote key for a rail that takes none";
    if (length != (uint32_t)__builtin_popcount(m->rkeys) * BR_RKEY_BYTES)
        return "a READY is not as long as its remote keys";
    if (m->ready.renews
            ? (have & ~rkey_slices_of(w, m->bytes)) || have == rkey_slices_of(w, m->bytes)
            : have != 0)
        return "a READY says that slices are complete that cannot be";
    return NULL;
}

static void rkey_ask(struct br_worker *w, struct br_peer *peer, struct br_transfer *t)
{
    t->renew_due = peer->renew_due = true;
    br_peer_activate(w, peer);
}

void br_rkey_check_quiet(struct br_worker *w, struct br_transfer *t)
{
    if (t->state == BR_TRANSFER_RENEWING && !t->flights && !t->lost_rails)
        rkey_ask(w, &w->peers[t->peer], t);
}

static void rkey_renew(struct br_worker *w, struct br_peer *peer, struct br_transfer *t)
{
    if (!br_send_want_done(w, t, peer)) /* the answer finds t by what waits for DONE */
        return;
    br_queue_remove(&t->queued);
    t->state = BR_TRANSFER_RENEWING;
}

static bool is_stuck(const struct br_peer *peer, const struct br_transfer *t)
{
    for (int i = 0; i < peer->n_rails; i++)
        if (!(t->barred >> i & 1) && is_open(&peer->rails[i]))
            return false;
    return t->barred != 0;
}

void br_rkey_take(struct br_worker *w, struct br_transfer *t, const struct br_message *ready,
                  const uint8_t *keys)
{
    struct br_peer *peer = &w->peers[t->peer];

    t->barred = peer->rkey_rails & (uint8_t)~ready->rkeys;
    for (uint32_t left = ready->rkeys; left; left &= left - 1, keys += BR_RKEY_BYTES)
        memcpy(t->rkeys[__builtin_ctz(left)], keys, BR_RKEY_BYTES);
    if (is_stuck(peer, t))
        rkey_renew(w, peer, t);
    br_rkey_check_quiet(w, t);
}

/* What goes again counts for each lost rail that carried a part of it. */
static void count_resent(struct br_peer *peer, const struct br_transfer *t)
{
    for (uint64_t slices = t->resend; slices; slices &= slices - 1) {
        uint32_t rails = t->slice_rails[__builtin_ctzll(slices)] & t->fenced_rails;

        for (; rails; rails &= rails - 1)
            peer->rails[__builtin_ctz(rails)].resent_slices++;
    }
}

void br_rkey_renewed(struct br_worker *w, struct br_rail *rail, const struct br_message *m,
                     const uint8_t *keys)
{
    struct br_peer *peer = rail->peer;
    struct br_transfer *t = br_table_find(&w->confirms, m->ready.renews, (uint32_t)peer->rank);

    if (!t || t->state != BR_TRANSFER_RENEWING) {
        w->counters.dropped_messages++;
        return;
    }
    if (t->tag != m->tag || t->length != m->bytes || t->check != m->check) {
        br_rail_lost(w, rail, EPROTO, "a READY gives a new number to another transfer");
        return;
    }
    br_table_remove(&w->confirms, m->ready.renews, (uint32_t)peer->rank);
    t->wants_done = t->renew_due = false;
    t->remote_slot = m->ready.slot;
    t->cursor = t->length;
    t->resend = rkey_slices_of(w, t->length) & ~m->ready.have;
    t->resend_at = 0;
    count_resent(peer, t);
    t->fenced_rails = 0;
    memset(t->slice_rails, 0, sizeof t->slice_rails);
    t->state = BR_TRANSFER_MOVING;
    br_queue_insert(&peer->queues[BR_QUEUE_DATA], &t->queued, w->now);
    br_peer_activate(w, peer);
    br_rkey_take(w, t, m, keys);
}

void br_rkey_fenced(struct br_worker *w, struct br_peer *peer, struct br_transfer *t, uint8_t bit)
{
    bool lost = false;

    t->lost_rails &= (uint8_t)~bit;
    t->fenced_rails |= bit;
    for (uint32_t at = 0; at < t->length; at += t->slice_bytes)
        lost = lost || (t->slice_rails[at / t->slice_bytes] & bit);
    if ((lost && t->wants_done) || (t->state == BR_TRANSFER_MOVING && is_stuck(peer, t)))
        rkey_renew(w, peer, t); /* without wants_done its DONE has come already */
    if (t->state == BR_TRANSFER_CONFIRMING && t->wants_done)
        rkey_ask(w, peer, t); /* its DONE may be lost */
    br_rkey_check_quiet(w, t);
    br_send_check_end(w, t);
}

bool br_rkey_post_renews(struct br_peer *peer, struct br_rail *rail)
{
    br_list_for_each (node, &peer->moving) {
        struct br_transfer *t = br_container_of(node, struct br_transfer, node);
        struct br_message m = {
            .type = BR_MESSAGE_RENEW,
            .renew = {.slot = t->remote_slot, .lost = t->state == BR_TRANSFER_RENEWING},
        };

        if (!t->renew_due)
            continue;
        if (br_control_post(rail, &m, NULL, 0) != 1)
            return false;
        t->renew_due = false;
    }
    peer->renew_due = false;
    return true;
}
