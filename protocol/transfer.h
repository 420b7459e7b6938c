/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transfer: one send or one receive of a span of memory.
 *
 * The caller (engine, point to point, one-sided) fills the first block, calls br_transfer_send() or
 * br_transfer_receive(), and gets the transfer back from br_worker_done() when it has ended. In
 * between the transfer and its memory belong to the worker. All functions run under the worker's
 * lock; none blocks. A transfer of at most the eager limit (br_transfer_is_eager()) travels in one
 * message; a larger one waits for the receiver's READY.
 */
#ifndef BR_PROTOCOL_TRANSFER_H
#define BR_PROTOCOL_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clear.h"
#include "base/list.h"
#include "protocol/message.h"
#include "protocol/queue.h"
#include "transport/transport.h"

struct br_worker;
struct br_peer;

enum br_transfer_state {
    BR_TRANSFER_IDLE,     /* the caller's */
    BR_TRANSFER_QUEUED,   /* send: waits to leave as a message; receive: its READY waits to leave */
    BR_TRANSFER_MATCHING, /* waits for READY (send) or for the bytes (receive) */
    BR_TRANSFER_MOVING,   /* send: frames leave */
    BR_TRANSFER_RENEWING, /* send: a rail is lost; asks for another READY when no frame is on its
                             way (rkey.c) */
    BR_TRANSFER_CONFIRMING, /* send: every byte has left; waits for SENT and, where a retry is
                               possible, DONE */
    BR_TRANSFER_ENDED,      /* in the worker's done list, or already the caller's again */
};

struct br_transfer {
    /* filled by the caller */
    uint64_t tag;    /* message.h */
    int peer;        /* rank */
    uint32_t length; /* bytes, <= BR_MAX_TRANSFER */
    /* send: read only. Belongs to the worker until the transfer has ended */
    void *memory;
    struct br_region *region; /* that memory lies in, or NULL */
    int32_t priority;
    uint64_t order;  /* submission order of its operation */
    uint64_t within; /* of transfers of one operation, the one with less goes first */
    uint16_t check;  /* digest of what both sides must agree on */
    /* bytes of the message that this is a part of; 0: length. For error messages; and of a
     * collective whose ranks know the size of their own messages only, both sides must agree */
    uint64_t total;
    bool may_map;    /* receive: `mapped` instead of the bytes in memory is welcome */
    bool uncached;   /* receive: the caches cannot hold it until it is read (br_slot.uncached) */
    bool traced;     /* its frames are to be in the timeline */
    bool rendezvous; /* READY even for a small one (put, get) */
    /* send: not data but this one-sided request, with `memory` as its payload. NULL: data */
    const struct br_message *request;
    /* send, with `request`: stands before `memory` in the payload; NULL: nothing does */
    const struct br_notify *notify;
    /* send, point to point: if it has to wait for READY it says so by ANNOUNCE. The first part of a
     * message */
    bool announces;
    /* send: its owner has nothing else to send with it, so that a small one leaves at once and does
     * not wait for the next poll, which sends all that is posted by one system call */
    bool alone;
    /* send: it may have more, but what it sends may be one of a stream (br_link.streamed) */
    bool streamed;
    /* send: 0, or the status with which it ends instead of moving when its READY has come */
    int refuse;
    void *owner; /* the caller's */

    /* result */
    int status; /* 0 or negative errno */
    /* receive: read the bytes here, then br_transfer_release(); NULL: they are in memory */
    const uint8_t *mapped;
    bool reduced; /* receive: its reducer has had all bytes, memory holds nothing of use */

    /* the worker's */
    enum br_transfer_state state;
    bool is_send;
    uint64_t submitted; /* ns */
    bool wants_done;    /* send: a frame left, and another rail could have to send it again */
    struct br_queued queued;
    /* in one of these lists: `moving`, `waiting`, `expecting` of the peer, `slotless`, `done` of
     * the worker */
    struct br_list node;
    /* ns; in `waiting` and `expecting`: since then, or since it was last said */
    uint64_t waits_since;
    bool expected;        /* the other end is there and waits for it (waiting.c) */
    bool asked;           /* in `waiting` and `expecting`: it was said at least once */
    struct br_slot *slot; /* receive */
    uint32_t remote_slot; /* send */
    uint32_t slice_bytes; /* send: grid of the receiver's slot */
    uint32_t cursor;      /* send: first byte that has not left yet */
    uint32_t flights;     /* send: frames that wait for SENT, or for their ACK if they last */
    bool lasts;           /* send: some of them do (br_frame) */
    uint64_t resend;      /* send: slices to send again, after a lost rail */
    uint32_t resend_at;   /* send: offset within the first slice of `resend` */
    /* send: rails that took frames with them and are not fenced yet, a bit each */
    uint8_t lost_rails;
    uint8_t fenced_rails; /* send, with remote keys: those that were lost since the last READY */
    /* receive: the slot's number before the READY that is queued; 0: it is the first */
    uint32_t renews;
    bool renew_due; /* send: RENEW has to leave */
    uint8_t barred; /* send: rails that need a remote key for it and have none, a bit each */
    /* What follows is set when READY has come, and not cleared before (br_transfer_clear()). */
    uint8_t slice_rails[BR_SLOT_SLICES]; /* send: rails that carried bytes of slice i, a bit each */
    uint8_t rkeys[BR_MAX_RAILS][BR_RKEY_BYTES]; /* send: the remote keys, by rail */
};

_Static_assert(offsetof(struct br_transfer, rkeys) + BR_MAX_RAILS * BR_RKEY_BYTES +
                       _Alignof(struct br_transfer) >
                   sizeof(struct br_transfer),
               "nothing stands behind what br_transfer_clear() leaves");

/* Zero, for the caller to fill in. Not all of it: it is done for each small put and each answer. */
static inline void br_transfer_clear(struct br_transfer *t)
{
    br_clear(t, offsetof(struct br_transfer, slice_rails));
}

/* Both return 0, or a negative errno with a message when the worker has failed or the peer is gone;
 * then the transfer stays the caller's. */
int br_transfer_send(struct br_worker *worker, struct br_transfer *transfer);
int br_transfer_receive(struct br_worker *worker, struct br_transfer *transfer);

/* Transfers with that rank are about to come: gives it rails if it is reached through other hosts
 * and has none yet, so that its end is noticed. 0; -EHOSTUNREACH with a message. */
int br_transfer_reach(struct br_worker *worker, int peer);

/* Does a transfer of that length between us and the peer travel in one message? */
bool br_transfer_is_eager(const struct br_worker *worker, int peer, enum br_tag_class class,
                          uint32_t length);

/* Of a send that has its READY: bytes that have not left yet, those to be sent again included. */
uint64_t br_transfer_left(const struct br_transfer *transfer);

/* The bytes of a receive that is under way go through the reducer, which must live as long as the
 * transfer is the worker's. false: they arrive in `memory`, because no rail to the peer reduces or
 * because some bytes have arrived already. */
bool br_transfer_reduce(struct br_worker *worker, struct br_transfer *transfer,
                        const struct br_slot_reducer *reducer);

/* After a mapped receive, once: the caller reads the bytes no longer. false: what was read may be
 * wrong, because the peer was lost meanwhile, and the worker has failed. */
bool br_transfer_release(struct br_worker *worker, struct br_transfer *transfer);

/* Does what an atomic asks for to 8 bytes of this process; any thread. *before: what stood there.
 * Returns 0; -EINVAL: memory is not on a multiple of 8; -EOPNOTSUPP: there is no such operation. No
 * message. */
int br_onesided_change(void *memory, enum br_atomic operation, const struct br_operands *operands,
                       uint64_t *before);

/* Takes back a transfer that can no longer be matched (refused one-sided access). Only in state
 * QUEUED or MATCHING. */
void br_transfer_withdraw(struct br_worker *worker, struct br_transfer *transfer);

#endif
