/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Framing of a byte stream: which bytes go where. It does no I/O: the code that moves the bytes
 * asks where the next ones belong (want) and reports how many it put there (got). So a payload is
 * received into its place, without a copy.
 *
 * The numbered notes are in doc/design/tcp.md.
 */
#ifndef BR_TRANSPORT_STREAM_H
#define BR_TRANSPORT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/pool.h"
#include "transport/transport.h"

#define BR_STREAM_QUEUE  64   /* frames posted and not yet reported as sent, of one link */
#define BR_STREAM_LITTLE 4096 /* bytes, a queue of headers: see br_stream_tx_gather */

/* What the links of a device have in common; the device owns it. */
struct br_stream_config {
    struct br_slot_table *slots;
    uint32_t max_message, max_frame; /* longer ones are malformed */
    uint8_t *trash;                  /* where unwanted payload goes */
    uint32_t trash_bytes;
};

/* A message buffer: one object of the link's pool. */
struct br_stream_message {
    struct br_frame_header header;
    uint8_t payload[];
};

struct br_stream_rx {
    const struct br_stream_config *config;
    struct br_pool messages;
    struct br_stream_message *message; /* being filled; NULL: none taken yet */
    enum { BR_STREAM_HEADER, BR_STREAM_MESSAGE, BR_STREAM_SLOT, BR_STREAM_TRASH } part;
    uint32_t filled; /* bytes of this part that have come */
    bool ack_now;    /* a MESSAGE with BR_FRAME_ACK_NOW has come; the caller clears it */
    bool asks;       /* so was the last MESSAGE */
};

struct br_stream_tx {
    uint32_t posted, sent, reported; /* free-running: reported <= sent <= posted */
    bool lends;      /* large frames that last leave one by one, perhaps without a copy (note 5) */
    uint32_t cursor; /* bytes of frame `sent`, header included, that are gone */
    struct br_stream_entry {
        struct br_frame_header header;
        const uint8_t *payload;
        uint64_t cookie;
        bool lent; /* it is one of these */
    } queue[BR_STREAM_QUEUE];
};

/* buffers: messages that the peer may have outstanding. config is borrowed. Returns 0, or -ENOMEM
 * with a message. */
int br_stream_rx_init(struct br_stream_rx *rx, const struct br_stream_config *config,
                      uint32_t buffers);

/* Frees the message buffers. An all-zero rx is allowed. */
void br_stream_rx_destroy(struct br_stream_rx *rx);

/* Says where the next bytes of the stream go: at most *bytes > 0 of them, at *place, which is valid
 * until slots change. Returns false when the protocol holds all message buffers: ask again after
 * one is released. */
bool br_stream_rx_want(struct br_stream_rx *rx, void **place, uint32_t *bytes);

/*
 * Reports that `bytes` bytes have been written to the place that br_stream_rx_want() named.
 * authenticated: that of the link; before it, DATA frames are malformed. Returns
 * 1 when a frame is complete: *event has kind, slot, offset, length, inline_, payload and buffer
 * (inline_ of a DATA event is valid until the next want; a stale frame is an event, too, with a
 * slot number that nobody has). Returns 0 when it is not complete yet, or -EPROTO with a message
 * when the stream is malformed, and lost.
 */
int br_stream_rx_got(struct br_stream_rx *rx, uint32_t bytes, bool authenticated,
                     struct br_event *event);

/* Gives back the buffer of a MESSAGE event. */
static inline void br_stream_rx_release(struct br_stream_rx *rx, void *buffer)
{
    br_pool_put(&rx->messages, buffer);
}

/* Adds a frame to the queue: its header is copied, its payload stays the caller's until the frame
 * is reported. Returns false when the queue is full. */
bool br_stream_tx_push(struct br_stream_tx *tx, const struct br_frame *frame);
/* Copies what has not been sent of the payload of the frame that was pushed last to `spare`, from
 * where it will be sent. */
void br_stream_tx_spare(struct br_stream_tx *tx, void *spare);
/* Sets BR_FRAME_ACK_NOW of the next frame to send. Returns false when it is no MESSAGE, some of it
 * is sent, or others stand behind it. */
bool br_stream_tx_ask(struct br_stream_tx *tx);
/*
 * Fills iov[0..max) with the next bytes to send, of which at most `most` are payload: headers do
 * not count, else frames that fill it would leave a little behind for a call and a segment of its
 * own. Returns the number of entries, 0 when there is nothing; *bytes is their sum. After a result
 * of at most BR_STREAM_LITTLE bytes ask again: a large payload behind them is left for a call of
 * its own, because the kernel passes 64 KiB to the peer at a time, and a READY in front of them
 * would arrive 6 us later. A frame that br_stream_tx_lends() is gathered alone: its payload is the
 * last entry.
 */
int br_stream_tx_gather(struct br_stream_tx *tx, struct iovec *iov, int max, size_t most,
                        size_t *bytes);

/* Reports that so many of these bytes were sent. */
void br_stream_tx_advance(struct br_stream_tx *tx, size_t bytes);
/* May the next frame to send, which there is, leave without a copy? */
static inline bool br_stream_tx_lends(const struct br_stream_tx *tx)
{
    return tx->queue[tx->sent % BR_STREAM_QUEUE].lent;
}
/* Takes the oldest frame that was sent and has to be reported, as its cookie is not 0: sets
 * *cookie. Returns false when there is none, which is so exactly when tx->reported is tx->sent. */
bool br_stream_tx_report(struct br_stream_tx *tx, uint64_t *cookie);

#endif
