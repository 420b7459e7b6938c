/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the bytes of a DATA frame come to their place: one copy out of the peer's segment, mapped
 * here, out of the pipe, or by the kernel from where they lie in the peer's process. Or none: a
 * slot that takes maps gets the address in the segment, and one with a reducer has it applied to
 * the bytes in the pipe. Not to those in a segment: when its owner has closed the link, they may be
 * others already. What is read directly may be others, too, until `closed` says that it is not.
 *
 * Every continuation asks br_slot_expect() again: the slot may be gone, or its slice complete from
 * another rail.
 */
#include <errno.h>

#include "base/copy.h"
#include "base/error.h"
#include "base/process_read.h"
#include "transport/shm/link.h"

static uint32_t receive_data_min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Of so many bytes of what is left of a frame that is read directly, as many as may be moved. */
static uint32_t receive_data_whole(const struct br_shm_arriving *arriving, uint32_t bytes)
{
    uint32_t left = arriving->length - arriving->done;

    return bytes < left ? bytes - bytes % arriving->unit : left;
}

/* The next n bytes of the frame stand at `from`. slot NULL: nobody wants them. */
static void receive_data_copy(struct br_shm_link *link, struct br_slot *slot, const uint8_t *from,
                              uint32_t n)
{
    struct br_shm_arriving *arriving = &link->arriving;
    uint32_t offset = arriving->offset + arriving->done;

    arriving->done += n;
    if (!slot)
        return;
    if (arriving->unit == 1) {
        if (slot->uncached)
            br_copy_uncached(slot->base + offset, from, n);
        else
            br_copy(slot->base + offset, from, n);
        return;
    }
    br_slot_reduce(slot, offset, from, n);
    link->base.device->counters.rx_reduced_bytes += n;
}

/* Up to want bytes, or a buffer more. Returns how many. */
static int from_pipe(struct br_shm_link *link, struct br_slot *slot, uint32_t want)
{
    struct br_shm_arriving *arriving = &link->arriving;
    uint32_t moved = 0;

    while (moved < want && arriving->done < arriving->length) {
        uint32_t n = receive_data_min(arriving->length - arriving->done, BR_PIPE_BUFFER);
        int number = br_pipe_arrived(&link->pipe);

        if (number == -EAGAIN)
            break;
        if (number < 0)
            return number;
        receive_data_copy(link, slot, br_pipe_buffer(&link->pipe, (uint32_t)number), n);
        if (br_pipe_keep(&link->pipe, (uint32_t)number))
            link->wake_due = BR_ASLEEP;
        moved += n;
    }
    return (int)moved;
}

static bool receive_data_read(const struct br_shm_link *link, void *to, uint32_t bytes)
{
    const struct br_shm_arriving *arriving = &link->arriving;

    link->base.device->counters.system_calls++;
    return br_process_read(link->pid, arriving->address + arriving->done, to, bytes,
                           arriving->token_address, arriving->token);
}

/* Up to want bytes. Returns how many. */
static int receive_data_direct(struct br_shm_link *link, struct br_slot *slot, uint32_t want)
{
    struct br_shm_arriving *arriving = &link->arriving;
    uint8_t *piece = br_shm_device(&link->base)->piece;
    uint32_t n, moved = 0;

    if (arriving->unit == 1) {
        n = receive_data_whole(arriving, want);
        if (!receive_data_read(link, slot->base + arriving->offset + arriving->done, n))
            return -EACCES;
        arriving->done += n;
        return (int)n;
    }
    while ((n = receive_data_whole(arriving, receive_data_min(want - moved, BR_SHM_PIECE)))) {
        if (!receive_data_read(link, piece, n))
            return -EACCES;
        atomic_thread_fence(memory_order_acquire); /* the copy, then the flag: see link.c, note 3 */
        if (atomic_load_explicit(&link->in.header->closed, memory_order_relaxed))
            return br_error(ECONNRESET, "the peer closed the link");
        receive_data_copy(link, slot, piece, n);
        moved += n;
    }
    return (int)moved;
}

/* The peer's bytes when they lie in a segment; NULL: forged. */
static const uint8_t *in_segment(struct br_shm_link *link, struct br_shm_mapping **mapping)
{
    const struct br_shm_arriving *arriving = &link->arriving;

    *mapping = br_shm_segment(link, arriving->segment, arriving->segment_id);
    if (*mapping && arriving->address <= (*mapping)->bytes &&
        arriving->length <= (*mapping)->bytes - arriving->address)
        return (*mapping)->base + arriving->address;
    br_error(EPROTO, "frame outside of segment %u", arriving->segment_id);
    return NULL;
}

/* Hands the bytes over where they are. */
static int receive_data_map(struct br_shm_link *link, struct br_shm_mapping *mapping,
                            const uint8_t *bytes, struct br_event *event)
{
    struct br_shm_device *device = br_shm_device(&link->base);
    struct br_shm_map *map;

    if (link->n_maps >= BR_INBOX_DATA)
        return br_error(EPROTO, "more maps than frames may be in flight");
    map = br_pool_get(&device->maps);
    if (!map)
        return br_error(ENOMEM, "no map handle left: maps of closed links are still held");
    map->link = link;
    map->mapping = mapping;
    map->ticket = link->arriving.ticket;
    br_list_init(&map->node);
    br_list_push_back(&link->maps, &map->node);
    link->n_maps++;
    mapping->refs++;
    event->mapped = bytes;
    event->buffer = map;
    return 1;
}

static int copy_some(struct br_shm_link *link, struct br_slot *slot, uint32_t want)
{
    struct br_shm_mapping *mapping;
    const uint8_t *from;

    if (link->arriving.source == BR_SOURCE_PIPE)
        return from_pipe(link, slot, want);
    if (link->arriving.source == BR_SOURCE_DIRECT)
        return receive_data_direct(link, slot, want);
    from = in_segment(link, &mapping);
    if (!from)
        return -EPROTO;
    want = receive_data_min(want, link->arriving.length - link->arriving.done);
    receive_data_copy(link, slot, from + link->arriving.done, want);
    return (int)want;
}

/* Nobody wants the frame any more; it is reported all the same. Only what is in the pipe must
 * go. */
static int receive_data_drop(struct br_shm_link *link, struct br_event *event)
{
    struct br_shm_arriving *arriving = &link->arriving;
    int n;

    event->stale = true;
    arriving->dropping = true;
    if (arriving->source != BR_SOURCE_PIPE)
        return 1;
    arriving->unit = 1;
    n = from_pipe(link, NULL, arriving->length - arriving->done);
    if (n < 0)
        return n;
    return arriving->done == arriving->length;
}

/* A reducer takes whole granules: where a buffer of the pipe does not hold such, the bytes are
 * copied, and the protocol has them reduced. */
static uint32_t unit_of(const struct br_shm_arriving *arriving, const struct br_slot *slot)
{
    bool whole = arriving->source == BR_SOURCE_PIPE ? BR_PIPE_BUFFER % slot->granule_bytes == 0
                                                    : slot->granule_bytes <= BR_SHM_PIECE;

    return slot->reducer && arriving->source != BR_SOURCE_SEGMENT && whole ? slot->granule_bytes
                                                                           : 1;
}

int br_shm_receive_data(struct br_shm_link *link, uint32_t *budget, struct br_event *event)
{
    struct br_shm_arriving *arriving = &link->arriving;
    struct br_shm_mapping *mapping;
    const uint8_t *bytes;
    struct br_slot *slot;
    int n;

    n = arriving->dropping ? -ESTALE
                           : br_slot_expect(link->base.device->config->slots, arriving->slot,
                                            arriving->offset, arriving->length, &slot);
    if (n == -ESTALE)
        return receive_data_drop(link, event);
    if (n)
        return n;
    if (slot->may_map && arriving->source == BR_SOURCE_SEGMENT && !arriving->done) {
        bytes = in_segment(link, &mapping);
        return bytes ? receive_data_map(link, mapping, bytes, event) : -EPROTO;
    }
    if (!slot->base)
        return br_error(EPROTO, "slot 0x%x takes only maps, the frame is not in a segment",
                        arriving->slot);
    if (!arriving->done)
        arriving->unit = unit_of(arriving, slot);
    n = copy_some(link, slot, *budget);
    if (n < 0)
        return n;
    *budget -= receive_data_min((uint32_t)n, *budget);
    return arriving->done == arriving->length;
}

bool br_shm_receive_data_pending(const struct br_shm_link *link)
{
    return link->arriving.source != BR_SOURCE_PIPE || link->peer_left ||
           br_pipe_arrived(&link->pipe) != -EAGAIN;
}
