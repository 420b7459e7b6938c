/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/datagram/packet.h"

#include <errno.h>
#include <string.h>

#include "transport/datagram/crc32c.h"

#define RANGES_AT offsetof(struct br_dgram_ack, range)

/* Over head[0..n), whose field for the checksum it leaves zero, and what follows. */
static uint32_t datagram_packet_checksum(struct br_dgram_header *head, size_t n, const void *rest,
                                         size_t rest_bytes)
{
    uint32_t crc;

    head->checksum = 0;
    crc = br_crc32c(0, head, n);
    return rest_bytes ? br_crc32c(crc, rest, rest_bytes) : crc;
}

/* Bytes that the checksum covers of a DATA packet of `size` bytes. */
static size_t datagram_packet_covered(const struct br_dgram_data *data, size_t size)
{
    size_t head = sizeof *data + (data->part ? 0 : BR_FRAME_INLINE);

    return data->flags & BR_DGRAM_HEADER_ONLY && head < size ? head : size;
}

static bool data_sensible(const struct br_dgram_data *data, size_t content)
{
    uint64_t all = (uint64_t)data->length + BR_FRAME_INLINE;

    if (data->frame_kind != BR_FRAME_MESSAGE && data->frame_kind != BR_FRAME_DATA)
        return false;
    return data->length <= BR_DGRAM_MAX_FRAME && content && content <= all &&
           !(data->flags & ~(BR_DGRAM_HEADER_ONLY | BR_DGRAM_ASKS)) &&
           !(data->part == 0 && content < BR_FRAME_INLINE);
}

static bool ack_sensible(const struct br_dgram_ack *ack, size_t size)
{
    uint64_t below = 0; /* numbers spoken for, from the top down */

    if (!ack->ranges || ack->ranges > BR_DGRAM_RANGES || ack->path >= BR_DGRAM_PATHS ||
        size != RANGES_AT + ack->ranges * sizeof ack->range[0])
        return false;
    for (int i = 0; i < ack->ranges; i++) {
        if (!ack->range[i].run || !ack->range[i].gap != !i)
            return false;
        below += (uint64_t)ack->range[i].gap + ack->range[i].run;
    }
    return below <= ack->top && ack->latest && ack->latest <= ack->top;
}

static bool open_sensible(const struct br_dgram_open *open, enum br_dgram_kind kind, size_t size)
{
    bool probe = kind == BR_DGRAM_OPEN || kind == BR_DGRAM_OPENED;

    if (kind == BR_DGRAM_CLOSE)
        return size == sizeof *open && open->from;
    return open->from && open->paths && open->paths <= BR_DGRAM_PATHS &&
           open->size >= BR_DGRAM_MIN_PACKET && open->size <= BR_DGRAM_MAX_PACKET &&
           size == (probe ? open->size : sizeof *open) &&
           !open->header.link == (kind == BR_DGRAM_OPEN);
}

/* The fields of its kind, once the head has been copied. */
static bool datagram_packet_sensible(struct br_dgram_view *view, const uint8_t *bytes, size_t size)
{
    switch (view->kind) {
    case BR_DGRAM_OPEN:
    case BR_DGRAM_OPENED:
    case BR_DGRAM_CONFIRM:
    case BR_DGRAM_CONFIRMED:
    case BR_DGRAM_CLOSE:
        return size >= sizeof view->open && open_sensible(&view->open, view->kind, size);
    case BR_DGRAM_PING:
        return size == sizeof view->data;
    case BR_DGRAM_ACK:
        return size >= RANGES_AT && ack_sensible(&view->ack, size);
    case BR_DGRAM_DATA:
        if (size < sizeof view->data)
            return false;
        view->content = bytes + sizeof view->data;
        view->content_bytes = (uint32_t)(size - sizeof view->data);
        return data_sensible(&view->data, view->content_bytes);
    }
    return false;
}

/* What a packet of another version may be, by what stays the same in all of them. */
static bool other_version_sensible(const struct br_dgram_view *view, size_t size)
{
    if (size < sizeof view->open || !view->open.from)
        return false;
    return view->kind == BR_DGRAM_OPEN ? !view->header.link
                                       : view->kind == BR_DGRAM_CLOSE && view->header.link;
}

int br_dgram_parse(const void *bytes, size_t size, struct br_dgram_view *out)
{
    size_t head = size < sizeof out->ack ? size : sizeof out->ack, check = size;
    uint32_t said;
    bool ours;

    if (size < sizeof out->header || size > BR_DGRAM_MAX_PACKET)
        return -EBADMSG;
    memcpy(&out->header, bytes, sizeof out->header);
    if (out->header.magic != BR_DGRAM_MAGIC)
        return -EBADMSG;
    ours = out->header.version == BR_DGRAM_VERSION;
    out->kind = out->header.kind;
    if (out->kind != BR_DGRAM_ACK && head > sizeof out->data)
        head = sizeof out->data;
    memcpy(&out->ack, bytes, head);
    out->content = NULL;
    out->content_bytes = 0;
    if (!(ours ? datagram_packet_sensible(out, bytes, size) : other_version_sensible(out, size)))
        return -EBADMSG;
    if (out->kind == BR_DGRAM_DATA)
        check = datagram_packet_covered(&out->data, size);
    said = out->header.checksum;
    head = head < check ? head : check;
    if (said !=
        datagram_packet_checksum(&out->header, head, (const uint8_t *)bytes + head, check - head))
        return -EBADMSG;
    return ours ? 0 : -EPROTONOSUPPORT;
}

void br_dgram_seal(void *head, uint32_t head_bytes, const void *payload, uint32_t payload_bytes)
{
    struct br_dgram_header *header = head;
    const struct br_dgram_data *data = head;

    header->magic = BR_DGRAM_MAGIC;
    header->version = BR_DGRAM_VERSION;
    if (header->kind == BR_DGRAM_DATA && data->flags & BR_DGRAM_HEADER_ONLY)
        payload_bytes = 0;
    header->checksum = datagram_packet_checksum(header, head_bytes, payload, payload_bytes);
}

void br_dgram_refuse(const struct br_dgram_view *view, struct br_dgram_open *out)
{
    *out = (struct br_dgram_open){.header.kind = BR_DGRAM_CLOSE, .from = view->header.link};
    br_dgram_seal(out, sizeof *out, NULL, 0);
}
