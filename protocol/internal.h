/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the worker call of each other, in the order of a slice's life. Not for other
 * folders.
 *
 * All of this runs under the lock of the worker's context, in one pass of the progress loop. No
 * function blocks, and none allocates on the data path. An `int` result about which nothing else is
 * said is 0 or a negative errno with a message. Errors of single links are handled where they are
 * found, and a function that finds that the job cannot go on calls br_worker_fail() itself.
 */
#ifndef BR_PROTOCOL_INTERNAL_H
#define BR_PROTOCOL_INTERNAL_H

#include "protocol/worker.h"

/* ---- worker.c -------------------------------------------------------------------------------- */

/* Handles an event of a link of any device. */
void br_worker_event(struct br_worker *w, const struct br_event *event);

/* ---- rail.c: window, rate, credits ----------------------------------------------------------- */

void br_rail_init(struct br_rail *rail, struct br_peer *peer, int index);
/* A new link of the rail is up: everything that is counted by link starts from zero. */
void br_rail_reset(struct br_rail *rail, uint64_t now);
uint64_t br_rail_in_flight(const struct br_rail *rail);
/* Bytes in flight behind which an ACK of ours may come: what ACK tells the peer. */
uint32_t br_rail_ack_backlog(const struct br_rail *rail);
/* Does a frame of this length fit into the window? */
bool br_rail_has_window(const struct br_rail *rail, uint32_t length);
/* Brings what stands in front of the wire up to date, before br_rail_has_window() is asked. */
void br_rail_drain(struct br_rail *rail, uint64_t now);
/* When that has room for a frame, ns; UINT64_MAX: it has now. */
uint64_t br_rail_drained_at(const struct br_rail *rail);
/* Below 0: a delivers what it has in flight before b, as far as their rates are known; 0: at the
 * same time. */
int br_rail_compare(const struct br_rail *a, const struct br_rail *b);
/* May the rail take the next frame, of `length` bytes, of a transfer, when `left` bytes of it and
 * of what goes before it have not left? barred: rails that take no frames of the transfer, a bit
 * each. */
bool br_rail_may_take(const struct br_rail *rail, uint64_t left, uint32_t length, uint32_t barred,
                      uint64_t now);
void br_rail_forget_rate(struct br_rail *rail, uint64_t now);
/* Should a frame of this length ask for an ACK? */
bool br_rail_asks(const struct br_rail *rail, uint32_t length);
void br_rail_posted(struct br_rail *rail, uint32_t length, bool asks, uint64_t now);
/* bytes: of this link that have arrived, in all. */
void br_rail_acknowledged(struct br_rail *rail, uint64_t bytes, uint64_t now);
/* The back end says what the least round trip is (ns). */
void br_rail_set_min_rtt(struct br_rail *rail, uint64_t min_rtt, uint64_t now);
/* And what the path carries (bytes/s; 0: it does not know). */
void br_rail_set_delivery_rate(struct br_rail *rail, uint64_t rate);
void br_rail_ack_received(struct br_rail *rail, const struct br_body_ack *ack, uint64_t now);

/* Bounds of a window. The least, of which a slow path has half, is also the first one: small, so
 * that the first round trip of a slow link is not that of a long queue. LONG is the most of a path
 * that carries more than MOST in two round trips: memory of the kernel or the NIC. */
#define BR_WINDOW_LEAST (64u << 10)
#define BR_WINDOW_MOST  (4u << 20)
#define BR_WINDOW_LONG  (64u << 20)
/* The most for which a window is, of a path that carries so many bytes in two round trips. */
static inline uint64_t br_rail_most_window(double two_round_trips)
{
    if (!(two_round_trips > BR_WINDOW_MOST)) /* not a number, either: no round trip is known */
        return BR_WINDOW_MOST;
    return two_round_trips < BR_WINDOW_LONG ? (uint64_t)two_round_trips : BR_WINDOW_LONG;
}
#define BR_TARGET_DELAY (1 * BR_MS) /* what a window is for, where the round trip is short */
/* Twice the least round trip, or the target if that is longer, ns: the most for which a window that
 * priorities share is. */
static inline uint64_t br_rail_target(const struct br_rail *rail)
{
    return 2 * rail->min_rtt > rail->target_delay ? 2 * rail->min_rtt : rail->target_delay;
}

/* The same, or a turn of the ends if that is longer: what any other window is for. */
static inline uint64_t br_rail_delay(const struct br_rail *rail)
{
    return br_rail_target(rail) > rail->turn ? br_rail_target(rail) : rail->turn;
}

/* ---- rail_shared.c: rails with little in flight (doc/design/rails.md, section 7) ------------- */

/* From now on transfers of several priorities share the rails that are UP and those that come up,
 * or no longer. */
void br_peer_set_shared(struct br_peer *peer, bool shared);
/* Of a shared rail: how much of its volume is its window; before a frame is posted; when an
 * acknowledgement has come. */
uint64_t br_rail_shared_part(const struct br_rail *rail);
void br_rail_shared_posted(struct br_rail *rail, uint64_t now);
void br_rail_shared_answer(struct br_rail *rail, const struct br_probe *probe, uint64_t now);

/* Does the rail take one more numbered message? needs_credit: one that may come before its receive
 * (doc/design/rails.md, section 4). */
static inline bool br_rail_takes_message(const struct br_rail *rail, bool needs_credit)
{
    if (rail->sent - rail->peer_arrived >= BR_UNRELEASED)
        return false; /* the copy that would be overwritten may still be needed */
    if (!needs_credit)
        return rail->sent - rail->peer_released < BR_UNRELEASED;
    return rail->sent - rail->peer_released < BR_CREDITS &&
           rail->sent_bytes - rail->peer_released_bytes < rail->credit_bytes;
}
/* Numbered messages of the peer that wait here in the buffers of the link. */
static inline uint32_t br_rail_held(const struct br_rail *rail)
{
    return rail->arrived - rail->released;
}
/* While so many of a peer's messages wait here, or half of what they may have of payload, the peer
 * may lack credits of this link. */
#define BR_CROWDED (BR_CREDITS / 2)
static inline bool br_rail_is_crowded(const struct br_rail *rail)
{
    return br_rail_held(rail) >= BR_CROWDED || rail->held_bytes >= BR_CREDIT_BYTES / 2;
}
/* Payload of messages that were released, of which the peer has not been told. */
static inline uint32_t br_rail_unannounced_bytes(const struct br_rail *rail)
{
    return rail->released_bytes - rail->announced_bytes;
}
/* Of a quarter of the credits that the peer may have, beside the messages that wait here, has it
 * not been told yet? Or is but a quarter left of the bytes that it may have outstanding? */
static inline bool br_rail_owes_credits(const struct br_rail *rail)
{
    uint32_t unannounced = rail->released - rail->announced;

    return unannounced &&
           (4 * unannounced + br_rail_held(rail) >= BR_CREDITS ||
            br_rail_unannounced_bytes(rail) + rail->held_bytes >= BR_CREDIT_BYTES / 4 * 3);
}
/* Then they are announced at once. */
static inline void br_rail_check_credits(struct br_rail *rail)
{
    if (br_rail_owes_credits(rail))
        rail->ack_due = true;
}
/* What so many bytes of payload count as: nothing where the device maps, which has a memory of its
 * own for them. */
static inline uint32_t br_credit_bytes(const struct br_rail *rail, uint32_t payload)
{
    if (rail->device->caps.maps)
        return 0;
    return (payload + BR_CREDIT_UNIT - 1) & ~(BR_CREDIT_UNIT - 1);
}
/* A numbered message of the peer has arrived, with so many bytes of payload. */
static inline void br_rail_message_arrived(struct br_rail *rail, uint32_t payload)
{
    rail->arrived++;
    rail->held_bytes += br_credit_bytes(rail, payload);
}
/* A numbered message of the peer, with so many bytes of payload, was released: ACK will say so.
 * waited: it is a collective's, and a receive that came later has taken it. Then this rank is
 * behind, and those that wait keep it busy: half of all credits, or three quarters of all bytes,
 * are announced together, as each of a few would wake the peer for a few; what is owed at the next
 * look at the timers (rails.md, section 4). */
static inline void br_rail_message_released(struct br_rail *rail, uint32_t payload, bool waited,
                                            uint64_t now)
{
    rail->released++;
    rail->held_bytes -= br_credit_bytes(rail, payload);
    rail->released_bytes += br_credit_bytes(rail, payload);
    if (!rail->unannounced_since)
        rail->unannounced_since = now;
    if (!waited)
        br_rail_check_credits(rail);
    else if (rail->released - rail->announced >= BR_CROWDED ||
             br_rail_unannounced_bytes(rail) >= BR_CREDIT_BYTES / 4 * 3)
        rail->ack_due = true;
}

/* A frame has left that says what has been released. */
static inline void br_rail_announced(struct br_rail *rail)
{
    rail->announced = rail->released;
    rail->announced_bytes = rail->released_bytes;
    rail->unannounced_since = 0;
}
/* An EAGER says that something more has been released. */
void br_rail_eager_released(struct br_rail *rail, const struct br_message *m);
/* What an EAGER says has been released: where messages go one way, mostly nothing new. */
static inline void br_rail_eager_received(struct br_rail *rail, const struct br_message *m)
{
    if (m->released != (uint16_t)rail->peer_released ||
        m->released_units != (uint16_t)(rail->peer_released_bytes / BR_CREDIT_UNIT))
        br_rail_eager_released(rail, m);
}

/* Allocates memory for the copies of the rail's messages, once. -ENOMEM with a message. */
int br_rail_prepare(const struct br_worker *w, struct br_rail *rail);

/* At the end of a pump in which something had to wait, or a rail did before: notes what each rail
 * of the peer waits for. full, stuck: as in struct br_pump. */
void br_stall_note(const struct br_worker *w, struct br_peer *peer, uint32_t full, uint32_t stuck);
void br_stall_set(struct br_rail *rail, enum br_stall stall, uint64_t now);

/* ---- connect.c: links, handshakes, unauthenticated peers ------------------------------------- */

int br_connect_init(struct br_worker *w);
void br_connect_destroy(struct br_worker *w);
/* missed: ns of the last pass's time in which this process could not look at its links. */
void br_connect_timers(struct br_worker *w, uint64_t missed);
/* ns; UINT64_MAX: no timer runs. The other functions br_..._next_timer() return the same. */
uint64_t br_connect_next_timer(const struct br_worker *w);
/* Is it for this rail to connect when its retry_at comes? */
bool br_rail_connects(const struct br_worker *w, const struct br_rail *rail);
/* Ends an attempt to connect that is under way. */
void br_connect_abandon(struct br_worker *w, struct br_rail *rail);
/* An event of a link that is not (yet) the link of a rail in state UP. */
void br_connect_event(struct br_worker *w, const struct br_event *event);

/* ---- send.c ---------------------------------------------------------------------------------- */

/* The peer has something to send: the next pump looks at it. */
void br_peer_activate(struct br_worker *w, struct br_peer *peer);
/* Something has happened that may let a peer go on that is blocked (worker.h); all of them. */
void br_peer_unblock(struct br_worker *w, struct br_peer *peer);
void br_peers_unblock(struct br_worker *w);
/* The READY of a send has come. keys: the remote keys in its payload, which br_rkey_check() has
 * accepted. */
void br_send_ready(struct br_worker *w, struct br_transfer *t, const struct br_message *ready,
                   const uint8_t *keys);
/* The SENT of a DATA frame. */
void br_send_sent(struct br_worker *w, const struct br_event *event);
/* An ACK has come on a rail: frames that last may end. */
void br_send_acknowledged(struct br_worker *w, struct br_rail *rail);
/* DONE has come for a slot of the peer. */
void br_send_confirmed(struct br_worker *w, struct br_peer *peer, uint32_t slot);
/* Ends the send if nothing is missing any more. */
void br_send_check_end(struct br_worker *w, struct br_transfer *t);
/* From now on t waits for DONE, unless there is but one rail. false: the table is full now. */
bool br_send_want_done(struct br_worker *w, struct br_transfer *t, const struct br_peer *peer);
/* Sends what can leave to a peer. Returns how many frames and messages have left. */
int br_pump_peer(struct br_worker *w, struct br_peer *peer);

/* ---- numbered.c: messages with a number ------------------------------------------------------ */

struct br_pump {    /* one pump of a peer */
    uint32_t full;  /* rails whose back end takes nothing more now, a bit each */
    uint32_t stuck; /* queues whose head has to wait, a bit each */
    bool no_window; /* the last look for a rail for data found all windows used up */
    int n;          /* frames and messages that have left */
};
/* Queues the eager message or the READY of a transfer. */
void br_send_message_due(struct br_worker *w, struct br_peer *peer, struct br_transfer *t);
/* Sends one message of the queue in which `t` is the most urgent. false: it has to wait. */
bool br_numbered_send(struct br_worker *w, struct br_peer *peer, struct br_transfer *t,
                      struct br_pump *pump);
/* Sends a small message of a collective or point to point, which is in no queue, at once, if
 * nothing else waits to leave to the peer: then it is the most urgent one. false: it has to be
 * queued. */
bool br_numbered_at_once(struct br_worker *w, struct br_peer *peer, struct br_transfer *t);
/* Are there messages of lost rails that go again? */
static inline bool br_numbered_again(const struct br_peer *peer)
{
    return !br_list_empty(&peer->streams[0].resend) || !br_list_empty(&peer->streams[1].resend);
}
/* Sends peer->put_done. */
void br_numbered_put_done(struct br_peer *peer, struct br_pump *pump);
/* Sends the messages of lost rails again. They need no credit. */
void br_numbered_resend(struct br_worker *w, struct br_peer *peer, struct br_pump *pump);

/* ---- control.c: everything without a number -------------------------------------------------- */

/* Is such a message due to the peer? */
bool br_control_is_due(const struct br_peer *peer);
/* Sends what is due on the rail. false: the link is full. */
bool br_control_pump(struct br_worker *w, struct br_peer *peer, struct br_rail *rail);
/* Is anything due to the peer, with or without a number, or data? */
bool br_peer_has_work(const struct br_peer *peer);
/* Posts a message; its payload must stay until SENT, or, with a `spare` (br_frame), is copied
 * there. Returns what post() of the back end returns: 1, 0 (full) or a negative errno. */
static inline int br_control_post_spared(struct br_rail *rail, const struct br_message *message,
                                         const void *payload, uint32_t length, void *spare)
{
    struct br_frame frame = {
        .kind = BR_FRAME_MESSAGE,
        .payload = payload,
        .length = length,
        .inline_ = (const uint8_t *)message,
        .spare = spare,
    };
    int rc = rail->device->ops->post(rail->link, &frame, 1);

    rail->tx_messages += rc == 1;
    return rc;
}

/* The same without a spare. */
static inline int br_control_post(struct br_rail *rail, const struct br_message *message,
                                  const void *payload, uint32_t length)
{
    return br_control_post_spared(rail, message, payload, length, NULL);
}

/* Is the peer lost with this rail, whatever has happened before? Links that are made on demand may
 * be made anew, as long as nothing has come through them. */
static inline bool br_rail_ends_peer(const struct br_rail *rail)
{
    return rail->peer->n_rails == 1 && (!rail->peer->on_demand || rail->peer->heard);
}

/* ---- match.c --------------------------------------------------------------------------------- */

size_t br_match_unexpected_bytes(void); /* size of an entry of w->unexpected */
void br_match_destroy(struct br_worker *w);
int br_match_send(struct br_worker *w, struct br_transfer *t);
int br_match_receive(struct br_worker *w, struct br_transfer *t);
/* The same for a receive that will send READY (match.c, note 4). */
int br_match_large(struct br_worker *w, struct br_transfer *t);
/* The transfer that a value of w->receives or w->sends is; NULL: it is an unexpected message. */
struct br_transfer *br_match_transfer(void *value);
/* Has the message of this receive arrived? */
bool br_match_is_here(const struct br_worker *w, const struct br_transfer *t);
/* The posted receive with this tag from this rank, or NULL. */
struct br_transfer *br_match_posted(const struct br_worker *w, uint64_t tag, int rank);
/* Have all messages of the stream before this sequence arrived? */
bool br_match_all_seen(struct br_stream *stream, uint32_t sequence);
/* An EAGER or READY has arrived. */
void br_match_message(struct br_worker *w, struct br_rail *rail, const struct br_event *event);
/* The rail's link is about to close: unexpected messages that lie in its buffers are copied out. */
void br_match_forget_link(struct br_worker *w, struct br_rail *rail);

/* ---- awaited.c: messages that go to their place without a transfer --------------------------- */

/* The message of the peer with this tag that is awaited; NULL: none is. They come in the order in
 * which they are awaited, but for those of other tags. */
struct br_awaited *br_awaited_find(const struct br_peer *peer, uint64_t tag);
/* A well-formed message has come for the first time. Copies it to its place if it is awaited;
 * false: it is not, or not as it should be; then its transfer will say so. */
bool br_awaited_deliver(struct br_worker *w, const struct br_peer *peer, const struct br_message *m,
                        const uint8_t *payload);
/* A MESSAGE event of a rail that is UP: deals with all of it if it is an awaited message, and the
 * next one of its peer. false: nothing has happened. */
bool br_awaited_arrives(struct br_worker *w, struct br_rail *rail, const struct br_event *event);
/* The next number of the stream has come, which is mostly so. */
static inline void br_stream_saw_next(struct br_stream *stream)
{
    stream->seen[stream->seen_top % BR_SEEN / 64] |= UINT64_C(1) << (stream->seen_top % 64);
    stream->seen_top++;
}

/* ---- agree.c: do both ends of a transfer, all ranks of an operation, want the same? ---------- */

/* A transfer and a message that has its tag differ: fails the worker. */
void br_agree_refuse(struct br_worker *w, const struct br_transfer *t, const struct br_message *m);
/* Compares the two. false: they differ, and the worker fails. */
static inline bool br_agree_transfer(struct br_worker *w, const struct br_transfer *t,
                                     const struct br_message *m)
{
    bool whole = br_tag_class(t->tag) == BR_TAG_COLLECTIVE && m->type == BR_MESSAGE_READY;

    if (t->length == m->bytes && t->check == m->check && (!whole || t->total == m->ready.total))
        return true;
    br_agree_refuse(w, t, m);
    return false;
}
/* The arguments with which this rank has begun the operation of the tag, or NULL. */
const struct br_call *br_agree_call(struct br_worker *w, uint64_t tag);
/* Compares what this rank knows of an operation with a message of `rank` that has found no
 * transfer. Tags of any class are allowed. false: they differ, and the worker fails. */
bool br_agree_operation(struct br_worker *w, int rank, const struct br_message *m);
/* Fails the worker for a disagreement that nobody else has reported in time. */
void br_agree_timer(struct br_worker *w);

/* ---- waiting.c: WAITING, said and heard ------------------------------------------------------ */

#define BR_WAITING_PATIENCE (100 * BR_MS) /* a transfer that has waited so long says so */
/* Writes a call into a message WAITING, and reads it: `by` is UNKNOWN when none is described. */
void br_waiting_describe(struct br_message *m, const struct br_call *call);
struct br_call br_waiting_described(const struct br_message *m);
/* The transfer waits for its other end until its `node` is removed. */
void br_waiting_begin(struct br_worker *w, struct br_transfer *t);
/* Posts one WAITING. false: the link is full. */
bool br_waiting_post(struct br_worker *w, struct br_peer *peer, struct br_rail *rail);
void br_waiting_timer(struct br_worker *w, struct br_peer *peer);
uint64_t br_waiting_next_timer(const struct br_peer *peer);
void br_waiting_received(struct br_worker *w, struct br_rail *rail, const struct br_message *m);
/* Before peer->asked_until: has the peer asked for the message of this tag before it was there? It
 * is told once. */
bool br_waiting_was_asked(struct br_peer *peer, uint64_t tag);

/* ---- receive.c ------------------------------------------------------------------------------- */

/* A MESSAGE or DATA event of a rail that is UP. */
void br_receive_event(struct br_worker *w, struct br_rail *rail, const struct br_event *event);
/* Gives free slots to the large receives that wait for one. */
void br_receive_serve_slotless(struct br_worker *w);
static inline void br_receive_slotless(struct br_worker *w)
{
    if (!br_list_empty(&w->slotless[BR_SLOTLESS_OTHERS]) ||
        !br_list_empty(&w->slotless[BR_SLOTLESS_EXPECTED]) ||
        !br_list_empty(&w->slotless[BR_SLOTLESS_P2P]))
        br_receive_serve_slotless(w);
}
/* A large receive that is posted is one for which the sender waits now. */
void br_receive_expected(struct br_worker *w, struct br_transfer *t);
/* Tells the sender that it needs to keep nothing of this transfer for a retry. */
void br_receive_confirm(struct br_worker *w, struct br_peer *peer, uint32_t slot);
/* The transfer has ended with this status: br_worker_done() returns it. */
static inline void br_transfer_end(struct br_worker *w, struct br_transfer *t, int status)
{
    t->status = status;
    t->state = BR_TRANSFER_ENDED;
    br_list_remove(&t->node);
    br_list_push_back(&w->done, &t->node);
}

/* ---- demand.c: links on demand; none are without config.on_demand ---------------------------- */

int br_demand_init(struct br_worker *w);
/* Have these two ranks a link from the start? They are parent and child in a binary tree. */
bool br_demand_in_tree(int a, int b);
/* Is it on demand, and has no link to it ever been up? */
bool br_peer_is_unlinked(const struct br_peer *peer);
/* From now on the worker looks at the peer in every pass. */
static inline void br_demand_use(struct br_worker *w, struct br_peer *peer)
{
    if (peer->on_demand && br_list_empty(&peer->known))
        br_list_push_back(&w->known, &peer->known);
}
/* The peer's rail where it has one only, and that is UP; NULL else, and when the worker has failed.
 */
static inline struct br_rail *br_peer_only_rail(const struct br_worker *w,
                                                const struct br_peer *peer)
{
    return !w->failed && peer->n_rails == 1 && peer->state == BR_PEER_UP &&
                   peer->rails->state == BR_RAIL_UP
               ? peer->rails
               : NULL;
}
/* There is something to say to the peer: its links are made. */
void br_peer_want(struct br_worker *w, struct br_peer *peer);
/* An attempt to make a link has failed with this negative errno: perhaps the peer is lost. */
void br_demand_failed(struct br_worker *w, struct br_rail *rail, int error);
/* A rail of the peer is lost. true: it was the last one, and that does not mean that the peer is
 * dead: it is without a link as before the first one. Either both ends have agreed to shut their
 * links (idle.c); or all were accepted here, and nothing has ever come on them: for the other end
 * they may have been attempts, which it gave up when it failed. If the tree has said meanwhile that
 * it has left, that is all that will be heard of it. */
bool br_demand_unlinked(struct br_worker *w, struct br_peer *peer);
/* The rank, perhaps our own, has left: those who have no link to it will hear of it. false: that
 * was known. */
bool br_demand_left(struct br_worker *w, int rank);
/* A neighbour in the tree has left and is gone: what those beyond it say does not come here any
 * more, so this rank links itself with all who have not left. */
void br_demand_tree_broken(struct br_worker *w);
/* Posts LEFT to a peer of the tree. false: the link is full. */
bool br_demand_post_left(struct br_worker *w, struct br_peer *peer, struct br_rail *rail);
void br_demand_received_left(struct br_worker *w, const struct br_message *m);

/* ---- idle.c: links on demand that are long unused -------------------------------------------- */

void br_idle_timer(struct br_worker *w, struct br_peer *peer);
uint64_t br_idle_next_timer(const struct br_worker *w, const struct br_peer *peer);
/* Posts the IDLE that is due. false: the link is full. */
bool br_idle_post(struct br_worker *w, struct br_peer *peer, struct br_rail *rail);
void br_idle_received(struct br_worker *w, struct br_peer *peer, const struct br_body_idle *idle);
/* A rail of the peer is lost, and perhaps what was said on it; another one is UP. */
void br_idle_rail_lost(const struct br_worker *w, struct br_peer *peer);
/* Both ends have agreed, and the other one has shut its links, or is about to: shuts ours. */
void br_idle_shut(struct br_worker *w, struct br_peer *peer);

/* ---- left.c: a peer that has left in good order, and what still waits for it ----------------- */

/* The peer's BYE has come, or a numbered message and its BYE before. */
void br_left_check(struct br_worker *w, struct br_peer *peer);
/* Everything that the peer has sent is here, and nothing more will come. */
void br_peer_has_left(struct br_worker *w, struct br_peer *peer);
/* After a poll that has taken everything that the devices had. */
void br_left_timer(struct br_worker *w, struct br_peer *peer);
/* `rail` was the last one to a peer that has left; why: what is wrong with it. */
void br_left_unreachable(struct br_worker *w, const struct br_rail *rail, const char *why);

/* ---- rkey.c: remote keys, the receiving half ------------------------------------------------- */

/* Makes the slot's remote keys for all rails of the peer that need one. */
void br_rkey_make(struct br_worker *w, struct br_peer *peer, struct br_slot *slot);
void br_rkey_release(struct br_worker *w, struct br_slot *slot);
void br_rkey_release_all(struct br_worker *w); /* of a worker that has failed */
/* Writes the remote keys of a READY: `ready` says which there are, out[BR_MAX_RKEYS] is the
 * payload. Returns the length of the payload. */
uint32_t br_rkey_write(const struct br_peer *peer, const struct br_transfer *t,
                       struct br_message *ready, uint8_t *out);
/* RENEW has come. */
void br_rkey_renew_requested(struct br_worker *w, struct br_peer *peer,
                             const struct br_body_renew *renew);

/* ---- rkey.c: remote keys, the sending half --------------------------------------------------- */

/* Returns what is wrong with a READY whose payload has this length; NULL: it is well-formed. */
const char *br_rkey_check(const struct br_worker *w, const struct br_peer *peer,
                          const struct br_message *ready, uint32_t length);
/* Stores the keys of the READY in a transfer that is MOVING. */
void br_rkey_take(struct br_worker *w, struct br_transfer *t, const struct br_message *ready,
                  const uint8_t *keys);
/* A READY that renews a slot has come. */
void br_rkey_renewed(struct br_worker *w, struct br_rail *rail, const struct br_message *ready,
                     const uint8_t *keys);
/* The transfer has one frame less on its way: if it waits to ask and no frame is left, it asks. */
void br_rkey_check_quiet(struct br_worker *w, struct br_transfer *t);
/* A rail of the peer is fenced that may have carried frames of t, or its DONE. bit: of the rail; 0:
 * of one that was never UP here. */
void br_rkey_fenced(struct br_worker *w, struct br_peer *peer, struct br_transfer *t, uint8_t bit);
/* Posts the RENEWs that are due. false: the link is full. */
bool br_rkey_post_renews(struct br_peer *peer, struct br_rail *rail);

/* ---- failover.c ------------------------------------------------------------------------------ */

void br_rail_lost(struct br_worker *w, struct br_rail *rail, int error, const char *text);
/* RAIL_FENCED has come. */
void br_rail_confirmed_fenced(struct br_worker *w, struct br_peer *peer, uint32_t rail,
                              uint32_t incarnation);
/* What the peer has said on a connection that was never UP here is lost: asks again for answers
 * that it may have given there. */
void br_peer_ask_again(struct br_worker *w, struct br_peer *peer);
/* RAIL_DOWN has come. */
void br_rail_reported_down(struct br_worker *w, struct br_peer *peer, uint32_t rail,
                           uint32_t incarnation);
/* Is any rail of the peer UP? */
bool br_peer_is_up(const struct br_peer *peer);
/* The rail is lost, or its attempt to connect ends. */
void br_rail_give_up(struct br_worker *w, struct br_rail *rail, const char *text);
void br_peer_lost(struct br_worker *w, struct br_rail *rail, int error, const char *text);
/* Nothing more will be written through the connection that was lost: what it carried goes again. */
void br_rail_fenced(struct br_worker *w, struct br_rail *rail);
/* The link is closed at the end of the batch of events, at once outside one (worker.h, note 2). */
void br_link_defer_close(struct br_worker *w, struct br_link *link);
void br_links_close(struct br_worker *w);
static inline void br_links_close_deferred(struct br_worker *w)
{
    if (w->n_deferred)
        br_links_close(w);
}

/* ---- relay/: relaying (relay.h); w->relay is set where nothing else is said ------------------ */

/* A RELAY has arrived. */
void br_relay_arrived(struct br_worker *w, struct br_rail *rail, const struct br_event *event);
void br_relay_credits_received(struct br_rail *rail, const struct br_body_relay_credit *back);
void br_relay_rail_lost(struct br_worker *w, struct br_rail *rail); /* a direct one */
/* false: the link is full. */
bool br_relay_post_credits(struct br_rail *rail);
void br_relay_sent(struct br_worker *w, struct br_flight *flight);    /* of a relayed frame */
void br_relay_dropped(struct br_worker *w, struct br_flight *flight); /* its rail is lost */
/* Sends the head of BR_QUEUE_RELAY. false: it has to wait. */
bool br_relay_send(struct br_worker *w, struct br_peer *peer, struct br_queued *head);
/* Gives a rank that has no rails alternate routes. 0: it has rails now. -EHOSTUNREACH with a
 * message. Also without relaying. */
int br_relay_reach(struct br_worker *w, int rank);
/* May a peer without a rail that is UP be reached again? Also without relaying. */
bool br_relay_may_reach(const struct br_worker *w, const struct br_peer *peer);
/* The peer is cut off since then (ns). */
void br_relay_cut(struct br_worker *w, struct br_peer *peer, uint64_t since);
/* Should this alternate route connect now? */
bool br_relay_wants(const struct br_worker *w, const struct br_rail *rail);
/* An attempt of the rail to connect was refused. Also without relaying. */
void br_relay_refused(struct br_worker *w, struct br_rail *rail);
/* Checks, again and again, whether the process of a peer that is cut off has ended (probe.c). */
void br_relay_probe(struct br_worker *w, struct br_peer *peer);
void br_relay_probed(struct br_worker *w, struct br_rail *rail, const struct br_event *event);
/* Chooses the next route of an alternate route's rail. -EHOSTUNREACH with a message. */
int br_relay_choose(struct br_worker *w, struct br_rail *rail);
/* missed: as in br_connect_timers() */
void br_relay_timers(struct br_worker *w, uint64_t missed);
uint64_t br_relay_next_timer(const struct br_worker *w);
void br_relay_leave(struct br_worker *w);

/* ---- timers.c -------------------------------------------------------------------------------- */

/* Once a BR_TIMER_PERIOD, after a poll. drained: that poll has taken everything that the devices
 * had. */
void br_worker_timers(struct br_worker *w, bool drained);

/* ---- shutdown.c: the end of a worker that has failed ----------------------------------------- */

/* A poll of a worker that has failed: tells the peers, and closes the links when they have answered
 * (fail_due). Returns how much was done. */
int br_worker_shut_down(struct br_worker *w);
/* An event of the batch in which the worker has failed, or of a later one. */
void br_worker_last_event(struct br_worker *w, const struct br_event *event);

/* ---- onesided.c ------------------------------------------------------------------------------ */

size_t br_onesided_service_bytes(void); /* size of an entry of w->services */
/* A PUT, GET or ATOMIC has come. */
void br_onesided_request(struct br_worker *w, struct br_peer *peer,
                         const struct br_message *message, const uint8_t *payload, uint32_t length);
/* A PUTS has come, which is well formed. */
void br_onesided_puts(struct br_worker *w, struct br_peer *peer, const struct br_message *message,
                      const uint8_t *payload);
/* A PUT_DONE has come. */
void br_onesided_put_done(struct br_worker *w, struct br_rail *rail,
                          const struct br_message *message);
/* The worker has failed and its links are closed: gives all regions back. */
void br_onesided_forget(struct br_worker *w);

/* ---- put_batch.c ------------------------------------------------------------------------------
 */

/* A put of ours has been carried out. false: it is none of a shared request that waits. */
bool br_put_batch_done(struct br_worker *w, int rank, uint64_t tag);

/* ---- small things ---------------------------------------------------------------------------- */

/* Does a transfer of this length go without READY? */
static inline bool br_peer_takes_eagerly(const struct br_worker *w, int rank,
                                         enum br_tag_class class, uint32_t length)
{
    const struct br_peer *peer = &w->peers[rank];

    return length <= (!peer->n_rails        ? w->config.eager_bytes
                      : class == BR_TAG_P2P ? peer->eager_p2p
                                            : peer->eager_bytes);
}

/* Bytes of users' data in a numbered message with so much payload. */
static inline uint32_t br_message_data(const struct br_message *m, uint32_t payload)
{
    if (m->type == BR_MESSAGE_PUTS)
        return payload - m->puts.count * (uint32_t)sizeof(struct br_put_entry);
    if (m->type != BR_MESSAGE_PUT)
        return m->type == BR_MESSAGE_EAGER ? m->bytes : 0;
    return m->flags & BR_PUT_NOTIFIES ? payload - (uint32_t)sizeof(struct br_notify) : payload;
}

/* So long rails are shared after two transfers of different priorities, ns. */
#define BR_SHARED_PERIOD (10 * BR_SEC)

/* A transfer of that priority is submitted (doc/design/rails.md, section 7). INT32_MAX is that of
 * the library's own rounds, which are among the operations of every job. */
static inline void br_priority_seen(struct br_worker *w, int32_t priority)
{
    if (priority == INT32_MAX)
        return;
    if (priority != w->priority && w->priority_at && w->now - w->priority_at < BR_SHARED_PERIOD)
        w->shared_until = w->now + BR_SHARED_PERIOD;
    w->priority = priority;
    w->priority_at = w->now;
}

/* Prepares a transfer for a queue: its order among those that have been submitted. What serves a
 * one-sided request of a peer has the priority 0, which no program has chosen. */
static inline void br_transfer_queued(struct br_worker *w, struct br_transfer *t)
{
    if (t->owner != &w->services)
        br_priority_seen(w, t->priority);
    br_queued_init(&t->queued, t->priority, t->order, t->within);
    if (t->order > w->newest)
        w->newest = t->order;
}

/* ---- tracing.c; only with config.trace ------------------------------------------------------- */

void br_tracing_sent(struct br_worker *w, const struct br_flight *flight);
void br_tracing_arrived(struct br_worker *w, const struct br_rail *rail,
                        const struct br_transfer *t, const struct br_event *arrival);

#endif
