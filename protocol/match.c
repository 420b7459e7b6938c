/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matching: an arrival finds the transfer that expects it, or waits for it.
 *
 * 1. There are two tables, keyed by (tag, peer): `receives` for EAGER, `sends` for READY. An entry
 *    is a posted transfer or an unexpected message; the lowest bit of the pointer tells which.
 * 2. An unexpected EAGER stays in the back end's receive buffer and keeps its credit, which bounds
 *    their number. It is copied out when its rail is lost, when it is one too many on its link
 *    (doc/design/rails.md, section 4), and for a receive that does not know its message
 *    (doc/design/receives.md, section 4). An unexpected READY or ANNOUNCE is small: it gives its
 *    buffer back at once. A peer has at most as many READYs here as it has slots, and beyond so
 *    many of its ANNOUNCEs, or beyond MANY messages of all peers, they keep their credits.
 * 3. A match with another length or digest means that the ranks disagree (agree.c).
 * 4. A large receive, which sends READY and gets its bytes through its slot, is in `receives` too,
 *    for the EAGER of a sender that sends less, and for the ANNOUNCE of a sender that has not had
 *    the READY yet.
 * 5. A receive that does not know its sender, tag or length is no transfer until a message has come
 *    for it: the engine looks for one in `arrivals`, where the unexpected point-to-point messages
 *    stand in the order of their arrival, those of one peer in the order in which they left it
 *    (doc/design/receives.md).
 */
#include "protocol/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/error.h"

/* Times max_transfers: unexpected messages of all peers, up to which an ANNOUNCE keeps no credit.
 */
#define MANY (BR_WORKER_CHUNKS / 2)

/* A numbered message that came before its transfer was posted. */
struct br_unexpected {
    struct br_list node;    /* the rail's `unexpected` */
    struct br_list arrival; /* EAGER and ANNOUNCE of point to point: the worker's `arrivals` */
    uint64_t number;        /* of the arrival in this process */
    uint32_t place;         /* in w->unexpected */
    int peer;               /* rank */
    struct br_message message;
    const uint8_t *payload; /* in `buffer`, `rkeys` or `copy` */
    uint32_t length;        /* of it */
    struct br_rail *rail;   /* NULL: its buffer is given back, or lost with the rail */
    struct br_link *link;
    void *buffer;  /* for release() */
    uint8_t *copy; /* owned, or NULL */
    uint8_t rkeys[BR_MAX_RKEYS];
};

static void *match_tagged(struct br_unexpected *u)
{
    return (void *)((uintptr_t)u | 1);
}

static struct br_unexpected *match_untagged(void *value)
{
    return (uintptr_t)value & 1 ? (struct br_unexpected *)((uintptr_t)value & ~(uintptr_t)1) : NULL;
}

struct br_transfer *br_match_transfer(void *value)
{
    return match_untagged(value) ? NULL : value;
}

size_t br_match_unexpected_bytes(void)
{
    return sizeof(struct br_unexpected);
}

/* The rail has more to announce than before, or more waits there: its ACK leaves in the next pump,
 * or when the timers are looked at. */
static void match_acknowledge(struct br_worker *w, struct br_rail *rail)
{
    if (rail->ack_due)
        br_peer_activate(w, rail->peer);
    else if (br_rail_owes_credits(rail))
        w->owes_credits = true;
}

/* Gives back the buffer of a message that has been dealt with, as br_rail_message_released(). */
static void match_release(struct br_worker *w, struct br_rail *rail, struct br_link *link,
                          void *buffer, uint32_t bytes, bool waited)
{
    link->device->ops->release(link->device, link, buffer);
    br_rail_message_released(rail, bytes, waited, w->now);
    match_acknowledge(w, rail);
}

static void match_release_event(struct br_worker *w, struct br_rail *rail,
                                const struct br_event *event)
{
    match_release(w, rail, event->link, event->buffer, event->length, false);
}

/* How many unexpected messages of this type the peer has here; NULL: credits bound them. */
static uint32_t *match_count(struct br_peer *peer, uint8_t type)
{
    if (type == BR_MESSAGE_READY)
        return &peer->early_readys;
    return type == BR_MESSAGE_ANNOUNCE ? &peer->early_announces : NULL;
}

static void match_forget(struct br_worker *w, struct br_unexpected *u)
{
    uint32_t *count = match_count(&w->peers[u->peer], u->message.type);

    if (count)
        --*count;
    br_list_remove(&u->arrival);
    if (u->rail) {
        br_list_remove(&u->node);
        match_release(w, u->rail, u->link, u->buffer, u->length,
                      br_tag_class(u->message.tag) == BR_TAG_COLLECTIVE);
    }
    free(u->copy);
    u->copy = NULL;
    br_growing_pool_put(&w->unexpected, u->place);
}

static void match_copy(struct br_worker *w, void *memory, const struct br_message *m,
                       const uint8_t *payload)
{
    if (m->bytes)
        br_copy(memory, m->bytes <= BR_EAGER_INLINE ? m->data : payload, m->bytes);
    w->counters.copied_bytes += m->bytes;
}

static void match_deliver(struct br_worker *w, struct br_transfer *t, const struct br_message *m,
                          const uint8_t *payload)
{
    match_copy(w, t->memory, m, payload);
    br_transfer_end(w, t, 0);
}

/* The unexpected EAGER or ANNOUNCE with this tag, or NULL. */
static struct br_unexpected *match_early(const struct br_worker *w, uint64_t tag, int rank)
{
    void *value = br_table_find(&w->receives, tag, (uint32_t)rank);

    return match_untagged(value);
}

/* Adds an entry. Tables grow: a program may post any number of messages. */
static int match_add(struct br_worker *w, struct br_table *table, uint64_t tag, int rank,
                     void *value)
{
    int rc = br_table_insert(table, tag, (uint32_t)rank, value);

    if (rc != -ENOSPC)
        return rc;
    rc = br_table_grow(table);
    if (rc)
        return rc;
    w->late_allocations++;
    return br_table_insert(table, tag, (uint32_t)rank, value);
}

/* Posts t in a table; *early is the message that was there first, else NULL. */
static int match_expect(struct br_worker *w, struct br_table *table, struct br_transfer *t,
                        struct br_unexpected **early)
{
    int rc = match_add(w, table, t->tag, t->peer, t);
    void *there;

    *early = NULL;
    if (rc != -EEXIST)
        return rc;
    there = br_table_remove(table, t->tag, (uint32_t)t->peer);
    *early = match_untagged(there);
    if (*early)
        return 0;
    br_table_insert(table, t->tag, (uint32_t)t->peer, there);
    return br_error(EINVAL, "rank %d: two transfers to rank %d with one tag (%llx)", w->config.rank,
                    t->peer, (unsigned long long)t->tag);
}

int br_match_send(struct br_worker *w, struct br_transfer *t)
{
    struct br_unexpected *early;
    int rc = match_expect(w, &w->sends, t, &early);

    if (!rc && !early)
        br_waiting_begin(w, t);
    if (rc || !early)
        return rc;
    if (br_agree_transfer(w, t, &early->message))
        br_send_ready(w, t, &early->message, early->payload);
    match_forget(w, early);
    return 0;
}

int br_match_receive(struct br_worker *w, struct br_transfer *t)
{
    struct br_unexpected *early;
    int rc = match_expect(w, &w->receives, t, &early);

    if (!rc && !early)
        br_waiting_begin(w, t);
    if (rc || !early)
        return rc;
    if (br_agree_transfer(w, t, &early->message))
        match_deliver(w, t, &early->message, early->payload);
    match_forget(w, early);
    return 0;
}

int br_match_large(struct br_worker *w, struct br_transfer *t)
{
    struct br_unexpected *early;
    int rc = match_expect(w, &w->receives, t, &early);

    if (rc || !early)
        return rc;
    /* an EAGER has another length: none is so long */
    br_agree_transfer(w, t, &early->message);
    match_forget(w, early);
    return match_expect(w, &w->receives, t, &early);
}

static enum br_received match_take_early(struct br_worker *w, const struct br_awaited *awaited,
                                         struct br_unexpected *early)
{
    if (early->message.type != BR_MESSAGE_EAGER || early->message.bytes != awaited->length ||
        early->message.check != awaited->check)
        return BR_RECEIVED_NOT;
    br_table_remove(&w->receives, awaited->tag, (uint32_t)awaited->rank);
    match_copy(w, awaited->memory, &early->message, early->payload);
    match_forget(w, early);
    return BR_RECEIVED;
}

enum br_received br_worker_receive(struct br_worker *w, struct br_awaited *awaited, bool waits)
{
    struct br_peer *peer = &w->peers[awaited->rank];
    const struct br_rail *rail = br_peer_only_rail(w, peer);
    struct br_unexpected *early =
        w->failed || !w->unexpected.n_used ? NULL : match_early(w, awaited->tag, awaited->rank);

    if (early)
        return match_take_early(w, awaited, early);
    if (!waits || !rail || !rail->device->caps.maps || awaited->length > peer->eager_p2p ||
        (w->unexpected.n_used && br_rail_is_crowded(rail)))
        return BR_RECEIVED_NOT;
    awaited->came = false;
    br_list_push_back(&peer->awaited, &awaited->node);
    return BR_RECEIVED_LATER;
}

struct br_transfer *br_match_posted(const struct br_worker *w, uint64_t tag, int rank)
{
    void *value = br_table_find(&w->receives, tag, (uint32_t)rank);

    return value && !match_untagged(value) ? value : NULL;
}

bool br_match_is_here(const struct br_worker *w, const struct br_transfer *t)
{
    return match_early(w, t->tag, t->peer) != NULL;
}

/* ---- what has arrived and nobody has asked for ----------------------------------------------- */

/* Messages of one peer that came over several rails: in the order in which they left it. What has
 * been overtaken belongs near the end, however many wait in front. */
static void match_arrived(struct br_worker *w, struct br_unexpected *u)
{
    struct br_list *before = &w->arrivals;
    bool overtaken = (int32_t)(u->message.sequence + 1 - w->peers[u->peer].streams[1].seen_top) < 0;

    u->number = w->next_arrival++;
    for (struct br_list *node = before->prev; overtaken && node != &w->arrivals;
         node = node->prev) {
        const struct br_unexpected *other = br_container_of(node, struct br_unexpected, arrival);

        if (other->peer != u->peer)
            continue;
        if ((int32_t)(other->message.sequence - u->message.sequence) < 0)
            break;
        before = node;
    }
    br_list_insert_before(before, &u->arrival);
}

static struct br_arrival match_arrival(const struct br_unexpected *u)
{
    const struct br_message *m = &u->message;

    return (struct br_arrival){
        .peer = u->peer,
        .tag = m->tag,
        .bytes = m->type == BR_MESSAGE_ANNOUNCE ? m->waiting.total : m->bytes,
        .sequence = m->sequence,
        .number = u->number,
    };
}

bool br_worker_next_arrival(const struct br_worker *w, const struct br_list **at,
                            struct br_arrival *arrival)
{
    *at = *at ? (*at)->next : w->arrivals.next;
    if (*at == &w->arrivals)
        return false;
    *arrival = match_arrival(br_container_of(*at, struct br_unexpected, arrival));
    return true;
}

bool br_worker_find_arrival(const struct br_worker *w, uint64_t tag, int rank,
                            struct br_arrival *arrival)
{
    const struct br_unexpected *u = match_early(w, tag, rank);

    if (u)
        *arrival = match_arrival(u);
    return u != NULL;
}

bool br_match_all_seen(struct br_stream *stream, uint32_t sequence)
{
    if (stream->seen_top - stream->seen_all > BR_SEEN)
        stream->seen_all = stream->seen_top - BR_SEEN; /* what is older has arrived (section 5) */
    while (stream->seen_all != stream->seen_top &&
           stream->seen[stream->seen_all % BR_SEEN / 64] >> (stream->seen_all % 64) & 1)
        stream->seen_all++;
    return (int32_t)(sequence - stream->seen_all) <= 0;
}

bool br_worker_arrived_before(struct br_worker *w, int rank, uint32_t sequence)
{
    return br_match_all_seen(&w->peers[rank].streams[1], sequence);
}

/* Copies the payload out of the receive buffer. false: the worker has failed. */
static bool match_copy_out(struct br_worker *w, struct br_unexpected *u)
{
    if (!u->length)
        return true;
    if (u->message.type != BR_MESSAGE_READY && !(u->copy = malloc(u->length))) {
        br_worker_fail(w, ENOMEM, "no memory to keep messages that nobody has received");
        return false;
    }
    u->payload = memcpy(u->copy ? u->copy : u->rkeys, u->payload, u->length);
    return true;
}

/* The message stays in its table and gives its buffer back. false: the worker has failed. */
static bool match_set_aside(struct br_worker *w, struct br_unexpected *u)
{
    struct br_rail *rail = u->rail;

    if (!match_copy_out(w, u))
        return false;
    br_list_remove(&u->node);
    u->rail = NULL;
    match_release(w, rail, u->link, u->buffer, u->length, false);
    return true;
}

int br_worker_set_aside(struct br_worker *w, int rank)
{
    struct br_peer *peer = &w->peers[rank];
    int n = 0;

    for (int i = 0; i < peer->n_rails; i++) {
        struct br_rail *rail = &peer->rails[i];

        if (!br_rail_is_crowded(rail))
            continue;
        br_list_for_each_safe (node, &rail->unexpected) {
            if (!match_set_aside(w, br_container_of(node, struct br_unexpected, node)))
                return n;
            n++;
        }
    }
    return n;
}

/* ---- arrivals -------------------------------------------------------------------------------- */

/* Does it leave its buffer at once (note 2)? */
static bool match_gives_back(const struct br_worker *w, const struct br_unexpected *u)
{
    if (br_rail_held(u->rail) > BR_CREDITS || u->message.type == BR_MESSAGE_READY)
        return true;
    return u->message.type == BR_MESSAGE_ANNOUNCE &&
           w->peers[u->peer].early_announces <= BR_SLOTS_MAX &&
           w->unexpected.n_used <= (uint64_t)MANY * w->config.max_transfers;
}

/* Does a transfer or a receive without one wait for something of the peer? */
static bool match_waits(const struct br_peer *peer)
{
    return !br_list_empty(&peer->expecting) || !br_list_empty(&peer->waiting) ||
           !br_list_empty(&peer->awaited);
}

static void match_keep(struct br_worker *w, struct br_rail *rail, struct br_table *table,
                       const struct br_event *event, const struct br_message *m)
{
    uint32_t *count = match_count(rail->peer, m->type), place;
    struct br_unexpected *u;

    if (m->type == BR_MESSAGE_READY && *count == BR_SLOTS_MAX) {
        br_rail_lost(w, rail, EPROTO, "the peer has more large receives than it has slots");
        return;
    }
    u = br_growing_pool_get(&w->unexpected, &place);
    if (!u || match_add(w, table, m->tag, rail->peer->rank, match_tagged(u))) {
        /* The peer breaks the protocol, or there is no memory. */
        if (u)
            br_growing_pool_put(&w->unexpected, place);
        br_rail_lost(w, rail, EPROTO,
                     "the peer sent a message twice, or more than there is memory for");
        return;
    }
    u->place = place;
    u->message = *m;
    u->peer = rail->peer->rank;
    u->payload = event->payload;
    u->length = event->length;
    u->rail = rail;
    u->link = event->link;
    u->buffer = event->buffer;
    u->copy = NULL;
    br_list_init(&u->node);
    br_list_push_back(&rail->unexpected, &u->node);
    br_list_init(&u->arrival);
    if (br_tag_class(m->tag) == BR_TAG_P2P && table == &w->receives)
        match_arrived(w, u);
    if (count)
        ++*count;
    if (br_rail_is_crowded(rail)) {
        w->crowded++;
        if (match_waits(rail->peer)) /* for another one, which may lack a credit */
            br_rail_check_credits(rail);
        match_acknowledge(w, rail);
    }
    if (match_gives_back(w, u))
        match_set_aside(w, u);
}

/* 1: this sequence was not seen before, 0: it was; -EPROTO: no peer can be so far ahead. */
static int first_time(struct br_stream *stream, uint32_t sequence)
{
    int32_t ahead = (int32_t)(sequence - stream->seen_top);
    uint64_t bit = 1ull << (sequence % 64);
    uint64_t *word = &stream->seen[sequence % BR_SEEN / 64];

    if (ahead >= (int32_t)BR_SEEN)
        return -EPROTO;
    if (ahead < -(int32_t)BR_SEEN)
        return 0;
    if (!ahead) { /* mostly */
        br_stream_saw_next(stream);
        return 1;
    }
    for (; ahead >= 0; ahead--, stream->seen_top++)
        stream->seen[stream->seen_top % BR_SEEN / 64] &= ~(1ull << (stream->seen_top % 64));
    if (*word & bit)
        return 0;
    *word |= bit;
    return 1;
}

/* What stands in the table for a message, or NULL. A transfer is taken out, but for its
 * announcement. */
static void *match_take(struct br_table *table, const struct br_message *m, int rank)
{
    void *value;

    if (m->type == BR_MESSAGE_ANNOUNCE)
        return br_table_find(table, m->tag, (uint32_t)rank);
    value = br_table_remove(table, m->tag, (uint32_t)rank);
    if (match_untagged(value)) /* a message that came before: there is room, as it was there */
        (void)br_table_insert(table, m->tag, (uint32_t)rank, value);
    return value;
}

static void match(struct br_worker *w, struct br_rail *rail, const struct br_event *event,
                  const struct br_message *m)
{
    bool ready = m->type == BR_MESSAGE_READY;
    struct br_table *table = ready ? &w->sends : &w->receives;
    struct br_transfer *t;
    void *value;

    if (!br_list_empty(&rail->peer->awaited) &&
        br_awaited_deliver(w, rail->peer, m, event->payload)) {
        match_release_event(w, rail, event);
        return;
    }
    /* status 0, the answer to a put that PUT_DONE had no place for; a refusal waits there */
    if (br_tag_class(m->tag) == BR_TAG_ONESIDED && m->type == BR_MESSAGE_EAGER &&
        m->bytes == BR_ANSWER_BYTES && !m->data[0] && !m->data[1] && !m->data[2] && !m->data[3] &&
        br_put_batch_done(w, rail->peer->rank, m->tag)) {
        match_release_event(w, rail, event);
        return;
    }
    t = value = match_take(table, m, rail->peer->rank);
    if (!value && m->type == BR_MESSAGE_ANNOUNCE && w->p2p.is_taken &&
        !br_awaited_find(rail->peer, m->tag) &&
        w->p2p.is_taken(w->p2p.context, rail->peer->rank, m->tag)) {
        /* its receive was posted before it came, and may have ended */
        match_release_event(w, rail, event);
        return;
    }
    if (!value || match_untagged(value)) {
        if (br_agree_operation(w, rail->peer->rank, m))
            match_keep(w, rail, table, event, m);
        else
            match_release_event(w, rail, event);
        return;
    }
    if (m->type == BR_MESSAGE_ANNOUNCE) { /* its READY is on the way */
        br_agree_transfer(w, t, m);
        match_release_event(w, rail, event);
        return;
    }
    if (br_agree_transfer(w, t, m)) {
        if (ready)
            br_send_ready(w, t, m, event->payload);
        else
            match_deliver(w, t, m, event->payload);
    }
    match_release_event(w, rail, event);
}

/* Are the puts of a request what its payload holds, and nothing else? */
static bool match_are_puts(const struct br_message *m, const uint8_t *payload, uint32_t length)
{
    struct br_put_entry entry;
    uint32_t at = 0, n;

    for (n = 0; n < m->puts.count && length - at >= sizeof entry; n++) {
        memcpy(&entry, payload + at, sizeof entry);
        at += (uint32_t)sizeof entry;
        if (!entry.bytes || entry.bytes > length - at)
            return false;
        at += entry.bytes;
    }
    return n && n <= BR_PUTS_OF_REQUEST && n == m->puts.count && at == length;
}

/* NULL, or what is wrong with a message as such. */
static const char *match_malformed(const struct br_worker *w, const struct br_rail *rail,
                                   const struct br_message *m, const uint8_t *payload,
                                   uint32_t length)
{
    if (m->type == BR_MESSAGE_EAGER && m->bytes > BR_EAGER_INLINE && m->bytes != length)
        return "an eager message says another length than it has";
    if (m->type == BR_MESSAGE_EAGER &&
        !br_peer_takes_eagerly(w, rail->peer->rank, br_tag_class(m->tag), m->bytes))
        return "an eager message is longer than was agreed";
    if (m->type == BR_MESSAGE_EAGER)
        return NULL; /* mostly */
    if (m->type == BR_MESSAGE_READY)
        return br_rkey_check(w, rail->peer, m, length);
    if (m->type == BR_MESSAGE_ANNOUNCE &&
        (br_tag_class(m->tag) != BR_TAG_P2P || length || m->bytes <= rail->peer->eager_p2p ||
         m->bytes !=
             (m->waiting.total < BR_MAX_TRANSFER ? m->waiting.total : (uint64_t)BR_MAX_TRANSFER)))
        return "an announcement is not of a large point-to-point message";
    if (m->type == BR_MESSAGE_PUT && m->flags & BR_PUT_NOTIFIES) {
        if (length < sizeof(struct br_notify))
            return "a put is to notify and does not say of what";
        length -= (uint32_t)sizeof(struct br_notify);
    }
    if (m->type == BR_MESSAGE_PUT && length &&
        (length != m->bytes || length > rail->peer->eager_bytes))
        return "a put brings another length than it says, or more than was agreed";
    if (m->type == BR_MESSAGE_PUTS &&
        (length > rail->peer->eager_bytes || !match_are_puts(m, payload, length)))
        return "several puts are not what they say, or more than was agreed";
    if (m->type == BR_MESSAGE_ATOMIC &&
        (length != sizeof(struct br_operands) || m->bytes != sizeof(uint64_t)))
        return "an atomic is not of 8 bytes and two operands";
    if (m->type == BR_MESSAGE_PUT_DONE &&
        (br_tag_with_part(br_tag_of_later(m->tag, 0), BR_PART_STATUS) != m->tag || length))
        return "the tag of puts that are done is not that of an answer";
    return NULL;
}

/* A message that was not here before. */
static void deal_with(struct br_worker *w, struct br_rail *rail, const struct br_event *event,
                      const struct br_message *m)
{
    if (m->type == BR_MESSAGE_PUT || m->type == BR_MESSAGE_GET || m->type == BR_MESSAGE_ATOMIC) {
        br_onesided_request(w, rail->peer, m, event->payload, event->length);
    } else if (m->type == BR_MESSAGE_READY && m->ready.renews) {
        br_rkey_renewed(w, rail, m, event->payload);
    } else if (m->type == BR_MESSAGE_PUTS) {
        br_onesided_puts(w, rail->peer, m, event->payload);
    } else if (m->type == BR_MESSAGE_PUT_DONE) {
        br_onesided_put_done(w, rail, m);
    } else {
        match(w, rail, event, m);
        return;
    }
    if (rail->link == event->link) /* else it is closed, and the buffer with it */
        match_release_event(w, rail, event);
}

void br_match_message(struct br_worker *w, struct br_rail *rail, const struct br_event *event)
{
    struct br_message m;
    const char *wrong;
    int first;

    memcpy(&m, event->inline_, sizeof m);
    wrong = match_malformed(w, rail, &m, event->payload, event->length);
    if (wrong) {
        br_rail_lost(w, rail, EPROTO, wrong);
        return;
    }
    first = first_time(&rail->peer->streams[br_stream_of(m.tag)], m.sequence);
    if (first < 0) {
        br_rail_lost(w, rail, EPROTO, "the sequence of a message is far ahead of all others");
        return;
    }
    br_rail_message_arrived(rail, event->length);
    if (m.type == BR_MESSAGE_EAGER)
        br_rail_eager_received(rail, &m);
    w->p2p_messages += br_tag_class(m.tag) == BR_TAG_P2P;
    rail->total_rx += br_message_data(&m, event->length);
    if (!first) {
        w->counters.dropped_messages++;
        match_release_event(w, rail, event);
        return;
    }
    rail->peer->messages++;
    if (rail->peer->bye_received)
        br_left_check(w, rail->peer);
    deal_with(w, rail, event, &m);
}

void br_match_forget_link(struct br_worker *w, struct br_rail *rail)
{
    struct br_list *node;

    while ((node = br_list_pop_front(&rail->unexpected))) {
        struct br_unexpected *u = br_container_of(node, struct br_unexpected, node);

        u->rail = NULL; /* it stays in its table, and in `arrivals` */
        if (!match_copy_out(w, u))
            return;
    }
}

/* Of a free place, which is zeroed or has been in use: copy is NULL there. */
static void match_free_copy(void *unexpected, void *context)
{
    (void)context;
    free(((struct br_unexpected *)unexpected)->copy);
}

void br_match_destroy(struct br_worker *w)
{
    br_growing_pool_visit(&w->unexpected, match_free_copy, NULL);
}
