/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the worker call of each other, in the order of a slice's life. Not for other
 * folders. */
#ifndef BR_PROTOCOL_INTERNAL_H
#define BR_PROTOCOL_INTERNAL_H

#include "protocol/worker.h"

/* worker.c */
/* of a link of any device */
void br_worker_event(struct br_worker *w, const struct br_event *event);

/* rail.c: window, rate, credits */
void br_rail_init(struct br_rail *rail, struct br_peer *peer, int index);
void br_rail_reset(struct br_rail *rail, uint64_t now); /* a new link is up */
uint64_t br_rail_in_flight(const struct br_rail *rail);
/* bytes that an ACK of ours may come behind */
uint32_t br_rail_ack_backlog(const struct br_rail *rail);
/* for a frame of this length */
bool br_rail_has_window(const struct br_rail *rail, uint32_t length);
/* barred: rails that do not take frames of the transfer, a bit each */
bool br_rail_may_take(const struct br_rail *rail, uint64_t left, uint32_t length, uint32_t barred);
void br_rail_forget_rate(struct br_rail *rail, uint64_t now);
/* should this frame ask for an ACK? */
bool br_rail_asks(const struct br_rail *rail, uint32_t length);
void br_rail_posted(struct br_rail *rail, uint32_t length, bool asks, uint64_t now);
void br_rail_acknowledged(struct br_rail *rail, uint64_t bytes, uint64_t now);
/* by the back end */
void br_rail_set_min_rtt(struct br_rail *rail, uint64_t min_rtt, uint64_t now);
void br_rail_ack_received(struct br_rail *rail, const struct br_body_ack *ack, uint64_t now);
/* Who may use a credit (peer.h, note 4). */
enum br_credit {
    BR_CREDIT_ORDINARY, /* collectives */
    BR_CREDIT_OLDEST,   /* the oldest of them */
    BR_CREDIT_ONESIDED, /* put and get: what they send finds its match at once */
    BR_CREDIT_EXPECTED, /* so does a point-to-point message for which the peer says that it waits */
    BR_CREDIT_P2P,      /* all others of these */
};
bool br_rail_has_credit(const struct br_rail *rail, enum br_credit kind);
void br_rail_message_released(struct br_rail *rail, bool p2p, uint64_t now);

/* rail.c, too: memory for the copies of its messages, when it is first used. -ENOMEM with a
 * message */
int br_rail_prepare(const struct br_worker *w, struct br_rail *rail);

/* connect.c: links, handshakes, unauthenticated peers */
int br_connect_init(struct br_worker *w);
void br_connect_destroy(struct br_worker *w);
void br_connect_timers(struct br_worker *w);
uint64_t br_connect_next_timer(const struct br_worker *w);
bool br_rail_connects(const struct br_worker *w, const struct br_rail *rail); /* at retry_at */
/* an attempt that is under way */
void br_connect_abandon(struct br_worker *w, struct br_rail *rail);
bool br_connect_owns(const struct br_worker *w,
                     /* an unauthenticated peer's, or of a rail not yet UP */
                     const struct br_link *link);
/* Any event of a link that is not (yet) the link of a rail in state UP. */
void br_connect_event(struct br_worker *w, const struct br_event *event);

/* send.c */
void br_peer_activate(struct br_worker *w, struct br_peer *peer);
void br_send_ready(struct br_worker *w, struct br_transfer *t, const struct br_message *ready,
                   const uint8_t *tokens);
void br_send_sent(struct br_worker *w, const struct br_event *event);
void br_send_confirmed(struct br_worker *w, struct br_peer *peer, uint32_t slot);
void br_send_check_end(struct br_worker *w, struct br_transfer *t);
/* From now on t waits for DONE, unless there is but one rail. false: no room for that now. */
bool br_send_want_done(struct br_worker *w, struct br_transfer *t, const struct br_peer *peer);
int br_pump_peer(struct br_worker *w, struct br_peer *peer);

/* rail.c: what rails wait for. note: at the end of a pump; full: rails that took no more, a bit
 * each; stuck: by queue, its head has to wait. */
void br_stall_note(const struct br_worker *w, struct br_peer *peer, uint32_t full,
                   const bool *stuck);
void br_stall_set(struct br_rail *rail, enum br_stall stall, uint64_t now);

/* credited.c */
struct br_pump {   /* one turn of the pump for a peer */
    uint32_t full; /* rails whose back end takes nothing more now, a bit each */
    int n;         /* frames and messages that have left */
};
void br_send_message_due(struct br_worker *w, struct br_peer *peer,
                         struct br_transfer *t); /* its eager message or READY */
/* One message of a queue with this head. false: it has to wait. */
bool br_credited_message(struct br_worker *w, struct br_peer *peer, struct br_transfer *t,
                         struct br_pump *pump);
/* Those of lost rails. They go before the other messages of their stream that need the same
 * credits. */
void br_credited_unacked(struct br_worker *w, struct br_peer *peer, struct br_pump *pump);

/* control.c: everything without a credit */
bool br_control_pump(struct br_worker *w, struct br_peer *peer,
                     struct br_rail *rail); /* false: the link is full */
bool br_peer_has_work(const struct br_peer *peer);
int br_control_post(struct br_rail *rail, const struct br_message *message, const void *payload,
                    uint32_t length);

/* match.c */
size_t br_match_unexpected_bytes(void);
void br_match_destroy(struct br_worker *w);
int br_match_send(struct br_worker *w, struct br_transfer *t);
int br_match_receive(struct br_worker *w, struct br_transfer *t);
/* a receive that will send READY: note 4 */
int br_match_large(struct br_worker *w, struct br_transfer *t);
/* of a table; NULL: it is an unexpected message */
struct br_transfer *br_match_transfer(void *value);
/* the message of a receive */
bool br_match_is_here(const struct br_worker *w, const struct br_transfer *t);
struct br_transfer *br_match_posted(const struct br_worker *w, uint64_t tag,
                                    int rank); /* the receive that waits for it, or NULL */
void br_match_message(struct br_worker *w, struct br_rail *rail, const struct br_event *event);
void br_match_forget_link(struct br_worker *w, struct br_rail *rail);

/* agree.c: do both ends of a transfer, all ranks of an operation, want the same? If not the worker
 * fails. */
bool br_agree_transfer(struct br_worker *w, const struct br_transfer *t,
                       const struct br_message *m); /* m has its tag */
/* ours of the operation, or NULL */
const struct br_call *br_agree_call(struct br_worker *w, uint64_t tag);
bool br_agree_operation(struct br_worker *w, int rank,
                        /* m has found no transfer; also of other families */
                        const struct br_message *m);

void br_agree_timer(struct br_worker *w); /* a disagreement that nobody else has reported */

/* waiting.c: WAITING, said and heard */
#define BR_WAITING_PATIENCE (100 * BR_MS) /* then who waits says so */
void br_waiting_describe(struct br_message *m, const struct br_call *call);
/* UNKNOWN: it says nothing of a call */
struct br_call br_waiting_described(const struct br_message *m);
void br_waiting_begin(struct br_worker *w, struct br_transfer *t); /* until its node is removed */
bool br_waiting_post(struct br_worker *w, struct br_peer *peer,
                     struct br_rail *rail); /* false: link is full */
void br_waiting_timer(struct br_worker *w, struct br_peer *peer);
uint64_t br_waiting_next_timer(const struct br_peer *peer);
void br_waiting_received(struct br_worker *w, struct br_peer *peer, const struct br_message *m);

/* receive.c */
void br_receive_event(struct br_worker *w, struct br_rail *rail,
                      const struct br_event *event); /* MESSAGE, DATA; rail is UP */
void br_receive_slotless(struct br_worker *w);
/* Tells the sender that it needs to keep nothing of this transfer for a retry. */
void br_receive_confirm(struct br_worker *w, struct br_peer *peer, uint32_t slot);
void br_transfer_end(struct br_worker *w, struct br_transfer *t, int status);

/* left.c: a peer that has left in good order, and what still waits for it */
void br_left_check(struct br_worker *w,
                   struct br_peer *peer); /* after its BYE, or a message that came later */
/* after a poll that has taken all there was */
void br_left_timer(struct br_worker *w, struct br_peer *peer);
void br_left_unreachable(struct br_worker *w,
                         struct br_peer *peer); /* it is LEFT, and its last rail is lost */

/* place.c: remote keys. Receiving half */
/* for all its rails */
void br_rkey_make(struct br_worker *w, struct br_peer *peer, struct br_slot *slot);
void br_rkey_release(struct br_worker *w, struct br_slot *slot);
void br_rkey_release_all(struct br_worker *w); /* of a worker that has failed */
/* What READY says of places, and its payload, into out[BR_MAX_RKEYS]. Returns the length of
 * that. */
uint32_t br_rkey_write(const struct br_peer *peer, const struct br_transfer *t,
                       struct br_message *ready, uint8_t *out);
void br_rkey_renew_requested(struct br_worker *w, struct br_peer *peer,
                             const struct br_body_renew *renew);
/* Sending half */
const char *br_rkey_check(const struct br_worker *w, const struct br_peer *peer,
                          const struct br_message *ready,
                          uint32_t length); /* NULL: well-formed; length: of the payload */
void br_rkey_take(struct br_worker *w, struct br_transfer *t, const struct br_message *ready,
                  const uint8_t *tokens); /* of a transfer that is MOVING */
void br_rkey_renewed(struct br_worker *w, struct br_rail *rail, const struct br_message *ready,
                     /* a READY that renews a slot */
                     const uint8_t *tokens);
/* it has a frame less on its way */
void br_rkey_check_quiet(struct br_worker *w, struct br_transfer *t);
/* A rail of the peer is fenced (0: one that was never UP here) that may have carried frames of t,
 * or its DONE. */
void br_rkey_fenced(struct br_worker *w, struct br_peer *peer, struct br_transfer *t, uint8_t bit);
bool br_rkey_post_renews(struct br_peer *peer, struct br_rail *rail); /* false: the link is full */

/* failover.c */
void br_rail_lost(struct br_worker *w, struct br_rail *rail, int error, const char *text);
void br_rail_confirmed_fenced(struct br_worker *w, struct br_peer *peer, uint32_t rail,
                              uint32_t incarnation);
/* What the peer has said on a connection that was never UP here is lost: asks again for answers it
 * may have given there. */
void br_peer_ask_again(struct br_worker *w, struct br_peer *peer);
void br_rail_reported_down(struct br_worker *w, struct br_peer *peer, uint32_t rail,
                           uint32_t incarnation);

bool br_peer_is_up(const struct br_peer *peer); /* any rail */
void br_rail_give_up(struct br_worker *w, struct br_rail *rail,
                     const char *text); /* lost, or its attempt ends */
void br_peer_lost(struct br_worker *w, struct br_rail *rail, int error, const char *text);
/* Nothing more will be written through the connection that was lost: what it carried goes again. */
void br_rail_fenced(struct br_worker *w, struct br_rail *rail);

/* hop.c, peer.c: relaying (relay.h); w->relay is set where not said otherwise */
void br_relay_arrived(struct br_worker *w, struct br_rail *rail, const struct br_event *event);
void br_relay_credits_received(struct br_rail *rail, const struct br_body_relay_credit *back);
void br_relay_rail_lost(struct br_worker *w, struct br_rail *rail); /* a direct one */
/* false: the link is full */
bool br_relay_post_credits(struct br_rail *rail);
void br_relay_sent(struct br_worker *w, struct br_flight *flight);    /* of a relayed frame */
void br_relay_dropped(struct br_worker *w, struct br_flight *flight); /* its rail is lost */
bool br_relay_send(struct br_worker *w, struct br_peer *peer,
                   struct br_queued *head); /* false: it has to wait */
/* has it rails? Also without relay. -EHOSTUNREACH */
int br_relay_reach(struct br_worker *w, int rank);
bool br_relay_may_reach(const struct br_worker *w,
                        const struct br_peer *peer); /* now that no rail is up; also without */
void br_relay_cut(struct br_worker *w, struct br_peer *peer, uint64_t since);
/* this alternate route now */
bool br_relay_wants(const struct br_worker *w, const struct br_rail *rail);
/* an attempt; also without relay */
void br_relay_refused(struct br_worker *w, struct br_rail *rail);
/* which is cut; again and again */
void br_relay_probe(struct br_worker *w, struct br_peer *peer);
void br_relay_probed(struct br_worker *w, struct br_rail *rail, const struct br_event *event);
/* its next route. -EHOSTUNREACH with a message */
int br_relay_choose(struct br_worker *w, struct br_rail *rail);
void br_relay_timers(struct br_worker *w, bool stopped);
uint64_t br_relay_next_timer(const struct br_worker *w);
void br_relay_leave(struct br_worker *w);

/* shutdown.c: the turns of a worker that has failed but whose links are not yet closed
 * (fail_due) */
int br_worker_send_aborts(struct br_worker *w);
void br_worker_last_event(struct br_worker *w, const struct br_event *event);

void br_link_defer_close(struct br_worker *w, struct br_link *link);
void br_links_close_deferred(struct br_worker *w);

/* onesided.c */
size_t br_onesided_service_bytes(void);
void br_onesided_request(struct br_worker *w, struct br_peer *peer,
                         const struct br_message *message, const uint8_t *payload, uint32_t length);
void br_onesided_forget(
    struct br_worker *w); /* it has failed, its links are closed: lets go of all regions */
bool br_onesided_ended(struct br_worker *w, struct br_transfer *t); /* true: it was a service's */

/* Without READY. */
static inline bool br_peer_takes_eagerly(const struct br_worker *w, int peer, uint32_t length)
{
    return length <= (w->peers[peer].n_rails ? w->peers[peer].eager_bytes : w->config.eager_bytes);
}

/* Bytes of users' data in a credited message with so much payload. */
static inline uint32_t br_message_data(const struct br_message *m, uint32_t payload)
{
    return m->type == BR_MESSAGE_EAGER ? m->bytes : m->type == BR_MESSAGE_PUT ? payload : 0;
}

/* Does a message of a collective go before another (peer.h, note 4)? */
static inline bool br_age_before(const struct br_age *a, const struct br_age *b)
{
    if (a->order != b->order)
        return a->order < b->order;
    return a->fragment != b->fragment ? a->fragment < b->fragment : a->within < b->within;
}

/* Gives a transfer its place among those that have been submitted. */
static inline void br_transfer_queued(struct br_worker *w, struct br_transfer *t)
{
    br_queued_init(&t->queued, t->priority, t->order, t->within);
    if (t->order > w->newest)
        w->newest = t->order;
}

static inline bool br_transfer_is_oldest(const struct br_worker *w, const struct br_transfer *t)
{
    return t->order == w->oldest.order && t->within == w->oldest.within;
}

/* tracing.c; only with config.trace */
void br_tracing_sent(struct br_worker *w, const struct br_flight *flight);
void br_tracing_arrived(struct br_worker *w, const struct br_rail *rail,
                        const struct br_transfer *t, const struct br_event *arrival);

#endif
