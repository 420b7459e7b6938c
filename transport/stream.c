/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/stream.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"

#define BULK_BYTES (64u << 10)

int br_stream_rx_init(struct br_stream_rx *rx, const struct br_stream_config *config,
                      uint32_t buffers)
{
    memset(rx, 0, sizeof *rx);
    rx->config = config;
    return br_pool_init(&rx->messages, sizeof(struct br_stream_message) + config->max_message,
                        buffers + 1);
}

void br_stream_rx_destroy(struct br_stream_rx *rx)
{
    br_pool_destroy(&rx->messages);
    rx->message = NULL;
}

bool br_stream_rx_want(struct br_stream_rx *rx, void **place, uint32_t *bytes)
{
    const struct br_frame_header *header;
    struct br_slot *slot;

    if (!rx->message && !(rx->message = br_pool_get(&rx->messages)))
        return false;
    header = &rx->message->header;
    if (rx->part == BR_STREAM_SLOT &&
        br_slot_expect(rx->config->slots, header->slot, header->offset, header->length, &slot))
        rx->part = BR_STREAM_TRASH;
    *bytes =
        (rx->part == BR_STREAM_HEADER ? (uint32_t)sizeof *header : header->length) - rx->filled;
    switch (rx->part) {
    case BR_STREAM_HEADER:
        *place = (uint8_t *)&rx->message->header + rx->filled;
        break;
    case BR_STREAM_MESSAGE:
        *place = rx->message->payload + rx->filled;
        break;
    case BR_STREAM_SLOT:
        *place = slot->base + header->offset + rx->filled;
        break;
    case BR_STREAM_TRASH:
        *place = rx->config->trash;
        if (*bytes > rx->config->trash_bytes)
            *bytes = rx->config->trash_bytes;
        break;
    }
    return true;
}

/* The header is whole: what kind of payload follows? */
static int begin_payload(struct br_stream_rx *rx, bool authenticated)
{
    const struct br_frame_header *header = &rx->message->header;
    struct br_slot *slot;
    int rc = br_frame_check(header, rx->config->max_message, rx->config->max_frame);

    if (rc)
        return rc;
    rx->filled = 0;
    rx->part = BR_STREAM_MESSAGE;
    if (header->kind == BR_FRAME_MESSAGE)
        return 0;
    if (!authenticated)
        return br_error(
            EPROTO, "a frame for a transfer from somebody who has not proved to belong to the job");
    rc = br_slot_expect(rx->config->slots, header->slot, header->offset, header->length, &slot);
    rx->part = rc ? BR_STREAM_TRASH : BR_STREAM_SLOT;
    if (rc == -ESTALE)
        return 0;
    if (!rc && !slot->base)
        return br_error(EPROTO, "bytes for a transfer that takes only mappings");
    return rc;
}

int br_stream_rx_got(struct br_stream_rx *rx, uint32_t bytes, bool authenticated,
                     struct br_event *event)
{
    struct br_stream_message *message = rx->message;
    const struct br_frame_header *header = &message->header;
    bool dropped;

    rx->filled += bytes;
    if (rx->part == BR_STREAM_HEADER) {
        int rc = rx->filled < sizeof *header ? 0 : begin_payload(rx, authenticated);

        if (rc || rx->part == BR_STREAM_HEADER)
            return rc;
    }
    if (rx->filled < header->length)
        return 0;
    dropped = rx->part == BR_STREAM_TRASH;
    rx->part = BR_STREAM_HEADER;
    rx->filled = 0;
    *event = (struct br_event){.length = header->length, .inline_ = header->inline_};
    if (header->kind == BR_FRAME_DATA) {
        event->kind = BR_EVENT_DATA;
        event->slot = header->slot;
        event->stale = dropped;
        event->offset = header->offset;
    } else {
        event->kind = BR_EVENT_MESSAGE;
        rx->asks = header->offset & BR_FRAME_ACK_NOW;
        rx->ack_now = rx->ack_now || rx->asks;
        event->payload = message->payload;
        event->buffer = message;
        rx->message = NULL;
    }
    return 1;
}

static struct br_stream_entry *transport_stream_entry(struct br_stream_tx *tx, uint32_t i)
{
    return &tx->queue[i % BR_STREAM_QUEUE];
}

bool br_stream_tx_push(struct br_stream_tx *tx, const struct br_frame *frame)
{
    struct br_stream_entry *e = transport_stream_entry(tx, tx->posted);

    if (tx->posted - tx->reported == BR_STREAM_QUEUE)
        return false;
    br_frame_header_fill(&e->header, frame);
    e->payload = frame->payload;
    e->cookie = frame->cookie;
    e->lent = tx->lends && frame->lasts && frame->length >= BR_LASTING_BYTES;
    tx->posted++;
    return true;
}

void br_stream_tx_spare(struct br_stream_tx *tx, void *spare)
{
    struct br_stream_entry *e = transport_stream_entry(tx, tx->posted - 1);
    const uint32_t header_bytes = sizeof(struct br_frame_header);
    uint32_t gone =
        tx->sent == tx->posted - 1 && tx->cursor > header_bytes ? tx->cursor - header_bytes : 0;

    if (tx->sent == tx->posted || !e->header.length)
        return;
    memcpy((uint8_t *)spare + gone, e->payload + gone, e->header.length - gone);
    e->payload = spare;
}

bool br_stream_tx_ask(struct br_stream_tx *tx)
{
    struct br_frame_header *header = &transport_stream_entry(tx, tx->sent)->header;

    if (tx->posted - tx->sent != 1 || tx->cursor || header->kind != BR_FRAME_MESSAGE)
        return false;
    header->offset = BR_FRAME_ACK_NOW;
    return true;
}

/* Is it bulk, with little before it in the call? */
static bool goes_apart(const struct br_stream_entry *e, size_t before)
{
    return before && before <= BR_STREAM_LITTLE && e->header.length >= BULK_BYTES;
}

int br_stream_tx_gather(struct br_stream_tx *tx, struct iovec *iov, int max, size_t most,
                        size_t *bytes)
{
    const uint32_t header_bytes = sizeof(struct br_frame_header);
    uint32_t skip = tx->cursor;
    size_t payload = 0;
    int n = 0;

    *bytes = 0;
    for (uint32_t i = tx->sent; i != tx->posted && n + 2 <= max && payload < most; i++, skip = 0) {
        struct br_stream_entry *e = transport_stream_entry(tx, i);
        uint32_t gone = skip > header_bytes ? skip - header_bytes : 0; /* of the payload */
        size_t room;

        if (goes_apart(e, *bytes) || (n && e->lent))
            break;
        if (skip < header_bytes) {
            iov[n++] = (struct iovec){(uint8_t *)&e->header + skip, header_bytes - skip};
            *bytes += header_bytes - skip;
        }
        if (gone == e->header.length)
            continue;
        room = most - payload;
        if (room > e->header.length - gone)
            room = e->header.length - gone;
        iov[n++] = (struct iovec){(void *)(uintptr_t)(e->payload + gone), room};
        *bytes += room;
        payload += room;
        if (e->lent)
            break;
    }
    return n;
}

/* Nobody waits for frames without a cookie. */
static void transport_stream_skip(struct br_stream_tx *tx)
{
    while (tx->reported != tx->sent && !transport_stream_entry(tx, tx->reported)->cookie)
        tx->reported++;
}

void br_stream_tx_advance(struct br_stream_tx *tx, size_t bytes)
{
    while (bytes) {
        uint32_t left = (uint32_t)sizeof(struct br_frame_header) +
                        transport_stream_entry(tx, tx->sent)->header.length - tx->cursor;

        if (bytes < left) {
            tx->cursor += (uint32_t)bytes;
            break;
        }
        bytes -= left;
        tx->sent++;
        tx->cursor = 0;
    }
    transport_stream_skip(tx);
}

bool br_stream_tx_report(struct br_stream_tx *tx, uint64_t *cookie)
{
    if (tx->reported == tx->sent)
        return false;
    *cookie = transport_stream_entry(tx, tx->reported++)->cookie;
    transport_stream_skip(tx);
    return true;
}
