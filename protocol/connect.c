/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links come up: connect, accept, handshake. Unauthenticated peers are kept out.
 *
 * 1. Of two ranks the larger one connects, on every rail, and the smaller one accepts.
 * 2. An incoming link belongs to an unauthenticated peer until that peer has proved that it knows
 *    the job's secret. There are few places for unauthenticated peers, as many as ranks but at
 *    least 32 and at most 1,024, and little time; when all are taken the oldest peer goes. So they
 *    can neither stall nor fill anything, and ranks that all turn to one at the same moment (on
 *    demand, note 6) do not push each other out.
 * 3. A link that this rank has made belongs to its rail from the start, but is not UP before the
 *    proof.
 * 4. From the moment our proof leaves, the link may be UP at the other end. If we gave it up, the
 *    other end would have lost a rail, perhaps its last. So from then on the link has the patience
 *    of one that is UP; in a BCube, where other routes take over, that of an attempt.
 * 5. While a job starts, a rank makes few links at a time, first those to the ranks next below its
 *    own. So the links that come in at one rank at a time are few, too, and leave the table of
 *    unauthenticated peers to those who need it.
 * 6. On demand (demand.c) either rank makes the first link of a rail. When both do so at the same
 *    time, the larger one refuses the other's link, because its own attempt is under way, and the
 *    smaller one gives up its own attempt when the other's proof has come. Later ones are made by
 *    the larger rank, as in note 1.
 */
#include "protocol/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random.h"

#define ATTEMPTS_MOST 8  /* attempts to make first links, at a time (note 5) */
#define PLACES_LEAST  32 /* for unauthenticated peers (note 2) */
#define PLACES_MOST   1024
#define BACKOFF_MOST  (1 * BR_SEC)
#define REFUSE_LINGER (100 * BR_MS) /* so that the refused side gets to read why */

struct br_unauthenticated {
    struct br_list node; /* in the worker's unauthenticated_free or unauthenticated_links */
    struct br_link *link;
    struct br_handshake handshake;
    uint64_t deadline;
    bool refused;
    uint8_t reply[BR_HANDSHAKE_BYTES_MAX];
};

int br_connect_init(struct br_worker *w)
{
    int n = w->config.size > PLACES_LEAST ? w->config.size : PLACES_LEAST;

    br_list_init(&w->unauthenticated_links);
    br_list_init(&w->unauthenticated_free);
    w->n_unauthenticated = n < PLACES_MOST ? n : PLACES_MOST;
    w->unauthenticated = calloc((size_t)w->n_unauthenticated, sizeof *w->unauthenticated);
    if (!w->unauthenticated)
        return br_error(ENOMEM, "rank %d: no memory for the handshakes", w->config.rank);
    return 0;
}

void br_connect_destroy(struct br_worker *w)
{
    br_log_limit_end(&w->refusals,
                     "links refused or dropped before they had proved to know the job's secret");
    free(w->unauthenticated);
}

static void fill_self(struct br_worker *w, struct br_handshake_self *self, uint32_t rails)
{
    memset(self, 0, sizeof *self);
    self->rank = (uint32_t)w->config.rank;
    self->size = (uint32_t)w->config.size;
    self->rails = rails;
    self->limits = (struct br_handshake_limits){
        .frame_bytes = BR_FRAME_MAX_PAYLOAD,
        .message_bytes = w->config.eager_bytes,
        .eager_bytes = w->config.eager_bytes,
        .slice_bytes = w->config.slice_bytes,
    };
    memcpy(self->key, w->config.key, sizeof self->key);
    if (w->config.seed)
        for (size_t i = 0; i < sizeof self->nonce; i += 8) {
            uint64_t word = br_random_next(&w->random);

            memcpy(self->nonce + i, &word, 8);
        }
    else
        randombytes_buf(self->nonce, sizeof self->nonce);
}

static bool post_handshake(struct br_link *link, const void *reply, size_t bytes)
{
    struct br_message m = {.type = BR_MESSAGE_HANDSHAKE};
    struct br_frame frame = {.kind = BR_FRAME_MESSAGE,
                             .payload = reply,
                             .length = (uint32_t)bytes,
                             .inline_ = (const uint8_t *)&m};

    return !bytes || link->device->ops->post(link, &frame, 1) == 1;
}

static uint8_t type_of(const struct br_event *event)
{
    struct br_message m;

    memcpy(&m, event->inline_, sizeof m);
    return m.type;
}

/* ---- our own links --------------------------------------------------------------------------- */

bool br_rail_connects(const struct br_worker *w, const struct br_rail *rail)
{
    bool first = rail->peer->on_demand && !rail->was_up; /* note 6 */

    if (first ? !rail->peer->wanted : !rail->connector)
        return false;
    if (rail->alternate && !br_relay_wants(w, rail))
        return false;
    if (rail->state == BR_RAIL_IDLE)
        return true;
    /* Nobody can confirm the fence: connecting anew does (connect_welcome()). */
    return rail->state == BR_RAIL_FENCING && w->relay && rail->peer->cut_at;
}

/* Later, and later each time. A peer that is cut has only its timeout to be found again. */
static void connect_pause(struct br_worker *w, struct br_rail *rail)
{
    uint64_t most = w->relay && w->config.peer_timeout / 16 < BACKOFF_MOST
                        ? w->config.peer_timeout / 16
                        : BACKOFF_MOST;

    rail->retry_at = w->now + rail->backoff;
    rail->backoff = rail->backoff * 2 < most ? rail->backoff * 2 : most;
}

/* The time for one attempt, which is short where there are other routes. An answer over an
 * alternate route waits for all processes on its path, so the next attempt has twice as long after
 * an answer that came too late: 1/8, 1/4 and 1/2 of the time until a peer that is cut off is lost.
 */
static uint64_t connect_patience(const struct br_worker *w, const struct br_rail *rail)
{
    uint64_t most = w->config.peer_timeout / (rail->alternate ? 8u >> rail->timeouts : 4u);

    return w->relay && rail->peer->state == BR_PEER_UP && most < w->config.connect_timeout
               ? most
               : w->config.connect_timeout;
}

static void connect_start(struct br_worker *w, struct br_rail *rail)
{
    int rc = rail->alternate ? br_relay_choose(w, rail) : 0;

    if (rail->peer->on_demand && !rail->peer->wanted_since)
        rail->peer->wanted_since = w->now;
    if (!rc)
        rc = br_rail_prepare(w, rail);
    if (!rc)
        rc = rail->device->ops->link_connect(rail->device, &rail->address, &rail->link);
    if (rc) {
        rail->link = NULL;
        snprintf(rail->message, sizeof rail->message, "%.110s", br_error_message());
        connect_pause(w, rail);
        br_demand_failed(w, rail, rc);
        return;
    }
    rail->link->owner = rail;
    rail->state = BR_RAIL_CONNECTING;
    rail->deadline = w->now + connect_patience(w, rail);
}

/* An attempt has failed: again later, or, when trying again cannot help, the job fails at once. */
static void attempt_failed(struct br_worker *w, struct br_rail *rail, int error, const char *why)
{
    snprintf(rail->message, sizeof rail->message, "%.110s", why);
    if (rail->link)
        br_link_defer_close(w, rail->link);
    rail->link = NULL;
    rail->doubtful = rail->doubtful || (rail->state == BR_RAIL_HANDSHAKE &&
                                        rail->handshake.state == BR_HANDSHAKE_AWAIT_WELCOME);
    rail->state = rail->unfenced ? BR_RAIL_FENCING : BR_RAIL_IDLE;
    connect_pause(w, rail);
    if (error == -EPERM || error == -EPROTONOSUPPORT || error == -EEXIST) {
        char text[320];

        snprintf(text, sizeof text, "cannot connect to rank %d on level %d (device %s): %s",
                 rail->peer->rank, rail->level, rail->device->name, rail->message);
        br_worker_fail(w, -error, text);
    }
    if (error == -ECONNREFUSED)
        br_relay_refused(w, rail);
    br_demand_failed(w, rail, error);
}

void br_connect_abandon(struct br_worker *w, struct br_rail *rail)
{
    attempt_failed(w, rail, -ECANCELED, "given up");
}

static void connect_connected(struct br_worker *w, struct br_rail *rail)
{
    struct br_handshake_self self;
    size_t bytes;

    fill_self(w, &self, (uint32_t)rail->peer->n_rails);
    br_handshake_init_connector(&rail->handshake, &self, (uint32_t)rail->peer->rank, rail->index,
                                ++rail->incarnation, rail->reply, &bytes);
    rail->state = BR_RAIL_HANDSHAKE;
    if (!post_handshake(rail->link, rail->reply, bytes))
        attempt_failed(w, rail, -ECONNRESET, rail->link->message);
}

static void rail_up(struct br_worker *w, struct br_rail *rail)
{
    struct br_peer *peer = rail->peer;
    bool all = true;

    rail->link->owner = rail;
    rail->incarnation = rail->handshake.incarnation;
    rail->state = BR_RAIL_UP;
    rail->link->authenticated = true;
    br_rail_reset(rail, w->now);
    rail->reconnects += rail->was_up;
    br_log_debug("rank %d: rail to rank %d on level %d is up (%s, %s)", w->config.rank, peer->rank,
                 rail->level, rail->device->name, rail->link->peer_name);
    rail->was_up = true;
    peer->idle_since = w->now;
    peer->heard = peer->heard || rail->handshake.connector;
    rail->quiet = peer->on_demand && !rail->handshake.connector;
    rail->ack_due = peer->on_demand && rail->handshake.connector; /* so that it hears of us */
    rail->timeouts = 0;
    rail->up = rail->incarnation;
    peer->cut_at = 0;
    if (rail->unfenced)
        br_rail_fenced(w, rail);
    for (int i = 0; i < peer->n_rails; i++) {
        all = all && (peer->rails[i].was_up || peer->rails[i].alternate);
        if (peer->rails[i].unfenced) /* what was said of it on a rail that is lost, too, is lost */
            peer->down_due |= (uint8_t)(1u << i);
    }
    if (all && peer->state == BR_PEER_WAITED) {
        peer->state = BR_PEER_UP;
        w->n_waited--;
    }
    if (w->relay && peer->state == BR_PEER_LEFT && !peer->bye_received) {
        peer->state = BR_PEER_UP; /* we leave and had no route to it: it may still want something */
        peer->bye_sent = false;   /* there was no way to say it */
    }
    if (rail->doubtful)
        br_peer_ask_again(w, peer);
    if (peer->bye_due || (peer->on_demand ? w->leaving : peer->state == BR_PEER_LEFT)) {
        peer->bye_due = true; /* who connects to us has not heard it */
        peer->bye_sent = false;
    } else if (peer->on_demand) {
        peer->bye_sent = false; /* it has left, and wants to hear when we do */
    }
    rail->doubtful = false;
    br_peer_activate(w, peer);
}

static void rail_handshake(struct br_worker *w, struct br_rail *rail, const struct br_event *event)
{
    size_t bytes = 0;
    int rc;

    if (type_of(event) != BR_MESSAGE_HANDSHAKE) {
        attempt_failed(w, rail, -EPROTO, "the peer sent something else than a handshake");
        return;
    }
    rc = br_handshake_receive(&rail->handshake, event->payload, event->length, rail->reply, &bytes);
    if (rc < 0) {
        attempt_failed(w, rail, rc, br_error_message());
        return;
    }
    if (!post_handshake(rail->link, rail->reply, bytes)) {
        attempt_failed(w, rail, -ECONNRESET, "the link takes no frame");
        return;
    }
    if (rc == 1)
        rail_up(w, rail);
    else if (rail->alternate)
        rail->deadline = w->now + connect_patience(w, rail); /* for each answer */
    else if (!w->relay && rail->deadline < w->now + rail->patience)
        rail->deadline = w->now + rail->patience; /* note 4 */
}

/* ---- unauthenticated peers ------------------------------------------------------------------- */

static bool is_unauthenticated(const struct br_worker *w, const struct br_link *link)
{
    const struct br_unauthenticated *s = link->owner;

    return s >= w->unauthenticated && s < w->unauthenticated + w->n_unauthenticated;
}

/* Gives the place back, and closes the link if it is still there. */
static void connect_dismiss(struct br_worker *w, struct br_unauthenticated *s)
{
    if (s->link)
        br_link_defer_close(w, s->link);
    s->link = NULL;
    br_list_remove(&s->node);
    br_list_push_front(&w->unauthenticated_free, &s->node);
}

static void connect_refuse(struct br_worker *w, struct br_unauthenticated *s, const char *text)
{
    w->counters.failed_handshakes++;
    s->refused = true;
    s->deadline = w->now + REFUSE_LINGER;
    br_log_limited(&w->refusals, w->now, BR_LOG_WARN, "rank %d: refused a link from %s: %s",
                   w->config.rank, s->link->peer_name, text);
}

/* A place for an unauthenticated peer, if need be that of the oldest one. Those that nobody has
 * taken yet come last, so that their memory is not touched. */
static struct br_unauthenticated *connect_place(struct br_worker *w)
{
    if (br_list_empty(&w->unauthenticated_free) && w->fresh_unauthenticated < w->n_unauthenticated)
        return &w->unauthenticated[w->fresh_unauthenticated++];
    if (br_list_empty(&w->unauthenticated_free)) {
        w->counters.failed_handshakes++;
        connect_dismiss(
            w, br_container_of(w->unauthenticated_links.next, struct br_unauthenticated, node));
    }
    return br_container_of(br_list_pop_front(&w->unauthenticated_free), struct br_unauthenticated,
                           node);
}

static void connect_accepted(struct br_worker *w, struct br_link *link)
{
    struct br_unauthenticated *s;
    struct br_handshake_self self;

    s = connect_place(w);
    br_list_push_back(&w->unauthenticated_links, &s->node);
    fill_self(w, &self, BR_MAX_RAILS);
    br_handshake_init_acceptor(&s->handshake, &self);
    s->link = link;
    s->refused = false;
    s->deadline = w->now + w->config.connect_timeout;
    link->owner = s;
}

/* With relaying a peer may connect anew that had no rail left to say so. It has closed its end of
 * the old link; here is ours. The same where both have agreed to shut their links. */
static void connect_supersede(struct br_worker *w, struct br_rail *rail, uint32_t incarnation)
{
    if ((int32_t)(incarnation - rail->incarnation) <= 0)
        return;
    if (rail->peer->idle_agreed)
        br_idle_shut(w, rail->peer);
    if (!w->relay)
        return;
    br_rail_lost(w, rail, ECONNRESET, "the other end connects anew");
    if (rail->unfenced)
        br_rail_fenced(w, rail);
}

static bool is_attempted(const struct br_rail *rail)
{
    return rail->state == BR_RAIL_CONNECTING || rail->state == BR_RAIL_HANDSHAKE;
}

/* May a link that comes in on this device become the rail's? Of two first links that both ends have
 * begun at the same time, that of the larger rank stays (note 6). */
static bool connect_may_welcome(struct br_worker *w, struct br_rail *rail,
                                const struct br_device *device)
{
    bool first = rail->peer->on_demand && !rail->was_up;

    if (rail->device != device || (rail->connector && !first))
        return false;
    br_demand_use(w, rail->peer);
    if (first && !rail->connector && is_attempted(rail))
        br_connect_abandon(w, rail);
    return rail->state == BR_RAIL_IDLE;
}

/* The unauthenticated peer has proved who it is: its link becomes the rail's. */
static void connect_welcome(struct br_worker *w, struct br_unauthenticated *s, size_t bytes)
{
    struct br_peer *peer = &w->peers[s->handshake.peer];
    bool reached = !br_relay_reach(w, (int)s->handshake.peer);
    struct br_rail *rail = reached && s->handshake.rail < (uint32_t)peer->n_rails
                               ? &peer->rails[s->handshake.rail]
                               : NULL;
    bool welcome;

    if (rail && !rail->connector && rail->device == s->link->device)
        connect_supersede(w, rail, s->handshake.incarnation);
    welcome = rail && connect_may_welcome(w, rail, s->link->device);
    if (welcome && br_rail_prepare(w, rail)) {
        br_log_warn("rank %d: rank %d has to connect once more: %s", w->config.rank, peer->rank,
                    br_error_message());
        welcome = false;
    }
    if (!welcome) {
        br_handshake_refuse_stale(&s->handshake, rail ? rail->incarnation : 0, s->reply, &bytes);
        post_handshake(s->link, s->reply, bytes);
        /* no unauthenticated peer: it may try again when the old link is fenced */
        s->refused = true;
        s->deadline = w->now + REFUSE_LINGER;
        return;
    }
    rail->handshake = s->handshake;
    memcpy(rail->reply, s->reply, bytes);
    rail->link = s->link;
    s->link = NULL;
    connect_dismiss(w, s);
    if (!post_handshake(rail->link, rail->reply, bytes))
        attempt_failed(w, rail, -ECONNRESET, "the link takes no frame");
    else
        rail_up(w, rail);
}

static void unauthenticated_message(struct br_worker *w, struct br_unauthenticated *s,
                                    const struct br_event *event)
{
    size_t bytes = 0;
    int rc;

    if (s->refused)
        return; /* not heard any more; its time is running out */
    if (type_of(event) != BR_MESSAGE_HANDSHAKE) {
        connect_refuse(w, s, "it sent something else before it had proved who it is");
        return;
    }
    rc = br_handshake_receive(&s->handshake, event->payload, event->length, s->reply, &bytes);
    if (rc == 1) {
        connect_welcome(w, s, bytes);
        return;
    }
    post_handshake(s->link, s->reply, bytes);
    if (rc < 0)
        connect_refuse(w, s, br_error_message());
}

static bool is_probe(const struct br_worker *w, const struct br_event *event)
{
    return event->kind != BR_EVENT_ACCEPTED && !is_unauthenticated(w, event->link) &&
           ((const struct br_rail *)event->link->owner)->probe == event->link;
}

void br_connect_event(struct br_worker *w, const struct br_event *event)
{
    struct br_link *link = event->link;

    if (is_probe(w, event)) {
        br_relay_probed(w, link->owner, event);
        return;
    }
    switch (event->kind) {
    case BR_EVENT_ACCEPTED:
        connect_accepted(w, link);
        break;
    case BR_EVENT_CONNECTED:
        connect_connected(w, link->owner);
        break;
    case BR_EVENT_CLOSED:
        if (is_unauthenticated(w, link)) {
            struct br_unauthenticated *s = link->owner;

            w->counters.failed_handshakes += !s->refused;
            connect_dismiss(w, s);
        } else {
            attempt_failed(w, link->owner, event->error, link->message);
        }
        break;
    case BR_EVENT_MESSAGE:
        if (is_unauthenticated(w, link))
            unauthenticated_message(w, link->owner, event);
        else
            rail_handshake(w, link->owner, event);
        if (link->owner) /* else it is to be closed */
            link->device->ops->release(link->device, link, event->buffer);
        break;
    case BR_EVENT_SENT:
    case BR_EVENT_DATA: /* no slot is known to a link that is not UP */
        break;
    }
}

/* ---- timers ---------------------------------------------------------------------------------- */

/* Attempts to make the first link of a rail that are under way: those that note 5 bounds. */
static int first_attempts(const struct br_worker *w)
{
    int n = 0;

    if (!w->n_waited && !w->left)
        return 0;
    br_list_for_each (node, &w->known) {
        const struct br_peer *peer = br_container_of(node, const struct br_peer, known);

        for (int i = 0; i < peer->n_rails; i++)
            n += !peer->rails[i].was_up && !peer->rails[i].alternate &&
                 is_attempted(&peer->rails[i]);
    }
    return n;
}

/* attempts: what first_attempts() counts. */
static void rail_timer(struct br_worker *w, struct br_rail *rail, uint64_t missed, int *attempts)
{
    bool first = !rail->was_up && !rail->alternate;

    if (w->now >= rail->retry_at && br_rail_connects(w, rail)) {
        if (first && *attempts >= ATTEMPTS_MOST)
            return;
        connect_start(w, rail);
        *attempts += first;
    } else if (is_attempted(rail) && w->now >= (rail->deadline += missed)) {
        if (rail->timeouts < BR_RAIL_TIMEOUTS_MAX)
            rail->timeouts++;
        attempt_failed(w, rail, -ETIMEDOUT,
                       rail->state == BR_RAIL_CONNECTING ? "no answer to the connection"
                                                         : "the handshake took too long");
    }
}

void br_connect_timers(struct br_worker *w, uint64_t missed)
{
    int attempts = first_attempts(w);

    for (struct br_list *node = w->known.prev; node != &w->known; node = node->prev) {
        struct br_peer *peer = br_container_of(node, struct br_peer, known);

        if (peer->state == BR_PEER_LEFT && !br_peer_is_unlinked(peer))
            continue;
        if (peer->wanted_since)
            peer->wanted_since += missed;
        for (int i = 0; i < peer->n_rails; i++)
            rail_timer(w, &peer->rails[i], missed, &attempts);
    }
    br_list_for_each_safe (node, &w->unauthenticated_links) {
        struct br_unauthenticated *s = br_container_of(node, struct br_unauthenticated, node);

        if (!s->refused)
            s->deadline += missed;
        if (w->now < s->deadline)
            continue;
        if (!s->refused) {
            w->counters.failed_handshakes++;
            br_log_limited(&w->refusals, w->now, BR_LOG_WARN,
                           "rank %d: dropped a link from %s: no proof in time", w->config.rank,
                           s->link->peer_name);
        }
        connect_dismiss(w, s);
    }
}

uint64_t br_connect_next_timer(const struct br_worker *w)
{
    uint64_t next = UINT64_MAX;

    br_list_for_each (node, &w->unauthenticated_links) {
        struct br_unauthenticated *s = br_container_of(node, struct br_unauthenticated, node);

        if (s->deadline < next)
            next = s->deadline;
    }
    return next;
}
