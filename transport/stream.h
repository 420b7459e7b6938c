/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Framing of a byte stream: which bytes go where. It does no I/O: the code that moves the bytes
 * asks where the next ones belong (want) and reports how many it put there (got). Nothing is read
 * ahead, so nothing is copied.
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

#define BR_STREAM_LITTLE 1024 /* bytes: see br_stream_tx_gather */
#define BR_STREAM_QUEUE  64   /* frames posted and not yet reported as sent, of one link */

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
    /* DATA frames are allowed; the caller keeps it as br_link.authenticated */
    bool authenticated;
    enum { BR_STREAM_HEADER, BR_STREAM_MESSAGE, BR_STREAM_SLOT, BR_STREAM_TRASH } part;
    uint32_t filled; /* bytes of this part that have come */
};

struct br_stream_tx {
    struct br_stream_entry {
        struct br_frame_header header;
        const uint8_t *payload;
        uint64_t cookie;
    } queue[BR_STREAM_QUEUE];
    uint32_t posted, sent, reported; /* free-running: reported <= sent <= posted */
    uint32_t cursor;                 /* bytes of frame `sent`, header included, that are gone */
};

/* `buffers`: messages that the peer may have outstanding. -ENOMEM. */
int br_stream_rx_init(struct br_stream_rx *rx, const struct br_stream_config *config,
                      uint32_t buffers);
void br_stream_rx_destroy(struct br_stream_rx *rx); /* safe on a zeroed rx */

/* Where the next *bytes > 0 bytes of the stream go, at most. -ENOBUFS: all message buffers are held
 * by the protocol; ask again after one is released. The place is valid until slots change. */
int br_stream_rx_want(struct br_stream_rx *rx, void **place, uint32_t *bytes);

/*
 * `bytes` bytes have been written to the place that want() named. 1: *event has kind, slot, offset,
 * length, inline_, payload and buffer (inline_ of a DATA event is valid until the next want(); a
 * stale frame is one, too, with a slot number that nobody has); 0: not yet; -EPROTO with a message:
 * malformed, the stream is lost.
 */
int br_stream_rx_got(struct br_stream_rx *rx, uint32_t bytes, struct br_event *event);
void br_stream_rx_release(struct br_stream_rx *rx, void *buffer);

/* false: full. */
bool br_stream_tx_push(struct br_stream_tx *tx, const struct br_frame *frame);
/*
 * The next bytes to send: number of iovecs (0: nothing), with about max_bytes in *bytes at most.
 * After BR_STREAM_LITTLE bytes or less, ask again: what is large behind them is left for a call of
 * its own. The kernel hands 64 KiB to the peer at a time, and a READY in front of them would arrive
 * 6 us later, when they are copied.
 */
int br_stream_tx_gather(struct br_stream_tx *tx, struct iovec *iov, int max, size_t max_bytes,
                        size_t *bytes);
void br_stream_tx_advance(struct br_stream_tx *tx, size_t bytes); /* these many of them are gone */
/* The oldest frame that is gone and not yet reported; NULL: none. Valid until the next push. */
const struct br_stream_entry *br_stream_tx_report(struct br_stream_tx *tx);

#endif
