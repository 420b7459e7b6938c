/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the bytes of a PLACED frame come to their place: one copy out of the peer's segment, mapped here, or out of the pipe. Or none: a
 * slot that takes maps gets the address in the segment.
 *
 * Every continuation asks br_slot_expect() again: the slot may be gone, or its slice complete from another rail.
 */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "transport/shm/link.h"

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Bytes of the pipe to be read now; -EPROTO when the writer's count is forged. */
static int pipe_fill(const struct br_shm_link *link, uint32_t *fill)
{
    uint64_t written = atomic_load_explicit(&link->in.header->pipe_written, memory_order_acquire);

    if (written - link->pipe_read > BR_INBOX_PIPE)
        return br_error(EPROTO, "the pipe claims %llu bytes",
                        (unsigned long long)(written - link->pipe_read));
    *fill = (uint32_t)(written - link->pipe_read);
    return 0;
}

/* Up to want bytes into to (NULL: away). Returns how many. */
static int from_pipe(struct br_shm_link *link, uint8_t *to, uint32_t want)
{
    uint32_t fill = 0, at, n, moved = 0;
    int rc = pipe_fill(link, &fill);

    if (rc)
        return rc;
    want = least(want, fill);
    while (moved < want) {
        at = (uint32_t)link->pipe_read % BR_INBOX_PIPE;
        n = least(least(want - moved, BR_INBOX_PIPE - at), BR_INBOX_PIECE);
        if (to)
            memcpy(to + moved, link->in.pipe + at, n);
        link->pipe_read += n;
        atomic_store_explicit(&link->in.header->pipe_read, link->pipe_read, memory_order_release);
        moved += n;
    }
    if (moved)
        link->owes = BR_ASLEEP;
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
static int hand_over(struct br_shm_link *link, struct br_shm_mapping *mapping, const uint8_t *bytes,
                     struct br_event *event)
{
    struct br_shm_device *device = br_shm_device(&link->base);
    struct br_shm_map *map;

    if (link->n_maps >= BR_INBOX_PLACED)
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
    event->map_handle = (uint64_t)br_pool_index(&device->maps, map) + 1;
    return 1;
}

static int copy_some(struct br_shm_link *link, uint8_t *to, uint32_t want)
{
    struct br_shm_mapping *mapping;
    const uint8_t *from;

    if (link->arriving.source == BR_SOURCE_PIPE)
        return from_pipe(link, to, want);
    from = in_segment(link, &mapping);
    if (!from)
        return -EPROTO;
    memcpy(to, from + link->arriving.done, want);
    return (int)want;
}

/* Nobody wants the frame any more; it is reported all the same. Only what is in the pipe must go. */
static int drop(struct br_shm_link *link, struct br_event *event)
{
    struct br_shm_arriving *arriving = &link->arriving;
    int n;

    event->stale = true;
    arriving->dropping = true;
    if (arriving->source != BR_SOURCE_PIPE)
        return 1;
    n = from_pipe(link, NULL, arriving->length - arriving->done);
    if (n < 0)
        return n;
    arriving->done += (uint32_t)n;
    return arriving->done == arriving->length;
}

int br_shm_place(struct br_shm_link *link, uint32_t *budget, struct br_event *event)
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
        return drop(link, event);
    if (n)
        return n;
    if (slot->may_map && arriving->source == BR_SOURCE_SEGMENT && !arriving->done) {
        bytes = in_segment(link, &mapping);
        return bytes ? hand_over(link, mapping, bytes, event) : -EPROTO;
    }
    if (!slot->base)
        return br_error(EPROTO, "slot 0x%x takes only maps, the frame is not in a segment", arriving->slot);
    n = copy_some(link, slot->base + arriving->offset + arriving->done,
                  least(arriving->length - arriving->done, *budget));
    if (n < 0)
        return n;
    arriving->done += (uint32_t)n;
    *budget -= (uint32_t)n;
    return arriving->done == arriving->length;
}

bool br_shm_place_pending(const struct br_shm_link *link)
{
    uint32_t fill = 0;

    return link->arriving.source != BR_SOURCE_PIPE || link->peer_left || pipe_fill(link, &fill) || fill;
}
