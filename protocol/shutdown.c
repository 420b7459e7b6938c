/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a worker that has failed.
 *
 * It tells its peers why and keeps their links, on which it sends nothing more, until each peer has
 * answered by its own ABORT or by closing, or BR_ABORT_LINGER has passed. If the worker closed its
 * links at once, a peer that is slow to read would lose the message and would blame this process,
 * which is alive, instead of the one that has died. Operations end after the links are closed:
 * until then bytes may still arrive in their memory.
 *
 * br_worker_fail() does nothing of that: it may be called anywhere in a pass, and only notes why.
 * Links stay open and transfers and messages stay where they are, so what called it goes on and
 * returns as if nothing had happened. It asks nobody whether the worker has failed; only what it
 * could not do itself it leaves undone, and says so to its caller if that builds on it. The loops
 * over events and the passes (br_worker_poll(), br_engine_progress()) then find the failure and do
 * what this file says in place of their work.
 */
#include "protocol/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

static uint32_t reason_of(int error)
{
    switch (error) {
    case ECONNRESET:
        return BR_ABORT_LOST;
    case ETIMEDOUT:
        return BR_ABORT_DEADLINE;
    case EPROTO:
        return BR_ABORT_DISAGREE;
    default:
        return BR_ABORT_CANCELED;
    }
}

/* Tells those who do not know yet. true: somebody has still to answer. */
static bool send_abort(struct br_worker *w)
{
    struct br_message m = {.type = BR_MESSAGE_ABORT, .abort.reason = reason_of(-w->failed)};
    uint32_t length = (uint32_t)strnlen(w->message, BR_MAX_TEXT);
    bool open = false;

    br_list_for_each (node, &w->known) {
        struct br_peer *peer = br_container_of(node, struct br_peer, known);

        for (int i = 0; i < peer->n_rails; i++) {
            open = open || peer->rails[i].link;
            if (!peer->abort_sent && peer->rails[i].link)
                peer->abort_sent = br_control_post(&peer->rails[i], &m, w->message, length) == 1;
        }
    }
    return open;
}

static void close_rail(struct br_worker *w, struct br_rail *rail)
{
    if (rail->link)
        br_link_defer_close(w, rail->link);
    if (rail->probe)
        br_link_defer_close(w, rail->probe);
    rail->link = rail->probe = NULL;
    rail->state = BR_RAIL_IDLE;
    rail->retry_at = UINT64_MAX;
}

/* Closes the rails to all peers; those that are not UP only, unless `all`. Alternate routes too:
 * a worker that has failed relays nothing, and the message reaches everybody from neighbour to
 * neighbour. */
static void close_rails(struct br_worker *w, bool all)
{
    br_list_for_each (node, &w->known) {
        struct br_peer *peer = br_container_of(node, struct br_peer, known);

        for (int i = 0; i < peer->n_rails; i++)
            if (all || peer->rails[i].state != BR_RAIL_UP || peer->rails[i].alternate)
                close_rail(w, &peer->rails[i]);
    }
}

void br_worker_fail(struct br_worker *w, int error, const char *text)
{
    if (w->failed)
        return;
    w->failed = -error;
    snprintf(w->message, sizeof w->message, "%s", text);
    br_log_info("rank %d: the communicator has failed: %s", w->config.rank, w->message);
    w->fail_due = true;
}

/* A peer that says so itself, or has closed a link, knows. */
void br_worker_last_event(struct br_worker *w, const struct br_event *event)
{
    struct br_link *link = event->link;
    struct br_rail *rail = link->owner;
    struct br_message m;

    if (event->kind == BR_EVENT_DATA && event->mapped)
        link->device->ops->release(link->device, NULL, event->buffer);
    if (event->kind == BR_EVENT_MESSAGE && rail) {
        memcpy(&m, event->inline_, sizeof m);
        link->device->ops->release(link->device, link, event->buffer);
    }
    if (event->kind == BR_EVENT_ACCEPTED) {
        br_link_defer_close(w, link);
        return;
    }
    if (!rail || !link->authenticated)
        return; /* lost already, or an unauthenticated peer's: the device closes it at its end */
    if (event->kind == BR_EVENT_CLOSED ||
        (event->kind == BR_EVENT_MESSAGE && m.type == BR_MESSAGE_ABORT))
        for (int i = 0; i < rail->peer->n_rails; i++)
            close_rail(w, &rail->peer->rails[i]);
}

/* What waits for a slot is the caller's again. */
static void forget_slotless(struct br_worker *w)
{
    for (int k = 0; k < BR_SLOTLESS; k++)
        while (br_list_pop_front(&w->slotless[k]))
            ;
}

int br_worker_shut_down(struct br_worker *w)
{
    struct br_event events[16];
    int n = 0;

    if (!w->fail_due)
        return 0;
    if (!w->fail_at) {
        w->fail_at = w->now + BR_ABORT_LINGER;
        close_rails(w, false);
    }
    w->in_batch = true;
    for (int d = 0; d < w->n_devices; d++) {
        int k = w->devices[d]->ops->poll(w->devices[d], w->now, events, 16);

        for (int i = 0; i < k; i++)
            br_worker_last_event(w, &events[i]);
        br_links_close_deferred(w);
        n += k;
    }
    w->in_batch = false;
    if (send_abort(w) && w->now < w->fail_at)
        return n;
    close_rails(w, true);
    forget_slotless(w);
    br_rkey_release_all(w);
    br_onesided_forget(w);
    w->fail_due = false;
    return n + 1;
}
