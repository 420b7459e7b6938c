/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments between processes.
 *
 * 1. The first frame that uses a region on a link sends its memfd through the socket, under a
 *    number that stands for it from then on; cells carry number and id. The descriptor is in the
 *    socket before the cell is in the ring, so a reader that does not know the id finds it there.
 * 2. Release sends UNMAP. Should the socket be full just then, the mapping goes when the number is
 *    used again or the link closes: a peer never keeps more than BR_SHM_SEGMENTS of them.
 * 3. region->keys[] holds an array of the region's number on each link; it counts where
 *    link->announced[] agrees.
 * 4. A mapping outlives its number while the protocol reads from it (references).
 * 5. A region is mapped for reading only, until its owner shares it: then its number and its id
 *    stand in the inbox of the peer, which maps it for writing, too, when it first finds it. What
 *    is not shared no peer can spoil by mistake. Before its owner lets go of the memory it takes
 *    the id out. The peer looks at the id before each access, so it finds no region that was freed
 *    before, as far as it can know. One that is freed meanwhile stays mapped here, and what is
 *    still written to it nobody reads. Finding one takes nothing out of the socket, as it may be
 *    asked for while a thread sleeps there (transport.h, share()).
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/downgrade.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/segment.h"
#include "transport/shm/link.h"

#define NEVER 0xff /* in place of a number: this region goes from memory */
/* Numbers from here on are left to transfers, which need one at once: who cannot share a region now
 * tries again, and the accesses go another way until then. */
#define SHARED (BR_SHM_SEGMENTS / 2)
static_assert(BR_SHM_SEGMENTS <= NEVER, "a number fits beside NEVER");

int br_shm_region_register(struct br_device *base, struct br_region *region)
{
    struct br_shm_device *device = (struct br_shm_device *)base;
    size_t bytes;
    int rc;

    region->keys[base->index] = NULL;
    if (region->segment_fd < 0)
        return 0;
    rc = br_segment_check(region->segment_fd, &bytes);
    if (rc || bytes < region->bytes)
        return br_error(EINVAL, "%s: region %u: its descriptor is no sealed memfd of its size",
                        base->name, region->id);
    region->keys[base->index] = calloc(device->config->max_links, sizeof(uint8_t));
    return region->keys[base->index] ? 0
                                     : br_error(ENOMEM, "%s: no memory for a region", base->name);
}

void br_shm_region_release(struct br_device *base, struct br_region *region)
{
    struct br_shm_device *device = (struct br_shm_device *)base;
    struct br_packet packet = {.kind = BR_PACKET_UNMAP};
    uint8_t *numbers = region->keys[base->index];

    if (!numbers)
        return;
    for (uint32_t i = 0; i < device->top; i++) {
        struct br_shm_link *link = device->links[i];

        if (!link || numbers[i] == NEVER || link->announced[numbers[i]] != (uint64_t)region->id + 1)
            continue;
        br_shm_share_no_more(link, numbers[i]);
        link->announced[numbers[i]] = 0;
        packet.segment.number = numbers[i];
        if (link->state == BR_SHM_OPEN)
            (void)br_shm_packet_send(link->socket, &packet, -1); /* see 2 */
    }
    free(numbers);
    region->keys[base->index] = NULL;
}

/* The number of the region on this link, below `end` if it is a new one. -ENOSPC: none is free. */
static int segment_announce(struct br_shm_link *link, const struct br_region *region, uint32_t end)
{
    struct br_shm_device *device = br_shm_device(&link->base);
    uint8_t *numbers = region->keys[device->base.index];
    struct br_packet packet = {.kind = BR_PACKET_SEGMENT};
    uint32_t number = 0;
    int rc;

    if (!numbers || numbers[link->index] == NEVER)
        return -ENOENT;
    if (link->announced[numbers[link->index]] == (uint64_t)region->id + 1)
        return numbers[link->index];
    while (number < end && link->announced[number])
        number++;
    if (number == end)
        return -ENOSPC;
    packet.segment.number = number;
    packet.segment.id = region->id;
    device->base.counters.system_calls++;
    rc = br_shm_packet_send(link->socket, &packet, region->segment_fd);
    if (rc)
        return rc;
    link->announced[number] = (uint64_t)region->id + 1;
    numbers[link->index] = (uint8_t)number;
    return (int)number;
}

int br_shm_announce(struct br_shm_link *link, const struct br_region *region)
{
    struct br_shm_device *device = br_shm_device(&link->base);
    int number = segment_announce(link, region, BR_SHM_SEGMENTS);

    if (number != -ENOSPC)
        return number;
    br_downgrade(mapping);
    if (!device->logged_full)
        br_log_warn("%s: more than %d regions in use with one peer: further ones are read slower",
                    device->base.name, BR_SHM_SEGMENTS);
    device->logged_full = true;
    /* also when there is room again: a transfer is mapped as a whole or not at all */
    ((uint8_t *)region->keys[device->base.index])[link->index] = NEVER;
    return -ENOENT;
}

void br_shm_mapping_put(struct br_shm_mapping *mapping)
{
    if (--mapping->refs)
        return;
    munmap((void *)mapping->base, mapping->bytes);
    free(mapping);
}

void br_shm_segment_gone(struct br_shm_link *link, uint32_t number)
{
    if (!link->segments[number])
        return;
    link->base.device->unshared++;
    br_shm_mapping_put(link->segments[number]);
    link->segments[number] = NULL;
}

int br_shm_segment_arrived(struct br_shm_link *link, uint32_t number, uint32_t id, int fd)
{
    struct br_shm_mapping *mapping;
    size_t bytes;
    int rc;

    if (number >= BR_SHM_SEGMENTS)
        return br_error(EPROTO, "segment number %u", number);
    rc = br_segment_check(fd, &bytes);
    if (rc)
        return rc;
    mapping = calloc(1, sizeof *mapping);
    if (!mapping)
        return br_error(ENOMEM, "no memory for a mapping");
    mapping->base = br_segment_map(fd, bytes, PROT_READ);
    if (!mapping->base) {
        free(mapping);
        return -ENOMEM;
    }
    mapping->bytes = bytes;
    mapping->refs = 1;
    br_shm_segment_gone(link, number);
    link->segments[number] = mapping;
    link->segment_ids[number] = id;
    return 0;
}

struct br_shm_mapping *br_shm_segment(struct br_shm_link *link, uint32_t number, uint32_t id)
{
    if (number >= BR_SHM_SEGMENTS)
        return NULL;
    if (!link->segments[number] || link->segment_ids[number] != id)
        br_shm_link_listen(link);
    return link->segments[number] && link->segment_ids[number] == id ? link->segments[number]
                                                                     : NULL;
}

/* ---- regions that both ends read and write --------------------------------------------------- */

void br_shm_share_no_more(struct br_shm_link *link, uint32_t number)
{
    struct br_inbox_header *header = link->out.header;
    uint32_t first = number < BR_SHM_SEGMENTS ? number : 0,
             end = number < BR_SHM_SEGMENTS ? number + 1 : BR_SHM_SEGMENTS;

    /* before whatever tells the peer that the memory is gone */
    for (uint32_t i = first; header && i < end; i++)
        if (atomic_load_explicit(&header->shared[i].id, memory_order_relaxed))
            atomic_store_explicit(&header->shared[i].id, 0, memory_order_release);
}

static int share_own(struct br_shm_link *link, const struct br_region *own)
{
    struct br_inbox_header *header = link->out.header;
    uint32_t n = atomic_load_explicit(&header->n_shared, memory_order_relaxed);
    struct br_inbox_shared *shared;
    int number = segment_announce(link, own, SHARED);

    if (number < 0)
        return number;
    shared = &header->shared[number];
    if (atomic_load_explicit(&shared->id, memory_order_relaxed) == (uint64_t)own->id + 1)
        return 0;
    shared->bytes = own->bytes;
    atomic_store_explicit(&shared->id, (uint64_t)own->id + 1, memory_order_release);
    if ((uint32_t)number >= n)
        atomic_store_explicit(&header->n_shared, (uint32_t)number + 1, memory_order_release);
    return 0;
}

/* Does the peer share the region with this id as this number? */
static bool is_shared(const struct br_shm_link *link, uint32_t number, uint32_t id)
{
    return atomic_load_explicit(&link->in.header->shared[number].id, memory_order_acquire) ==
           (uint64_t)id + 1;
}

/* The number under which the peer shares it; -ENOENT: it does not. */
static int find_shared(struct br_shm_link *link, uint32_t id)
{
    uint32_t n = atomic_load_explicit(&link->in.header->n_shared, memory_order_acquire);

    if (is_shared(link, link->found, id))
        return (int)link->found;
    for (uint32_t i = 0; i < n && i < BR_SHM_SEGMENTS; i++) {
        if (is_shared(link, i, id)) {
            link->found = i;
            return (int)i;
        }
    }
    return -ENOENT;
}

int br_shm_share(struct br_link *base, const struct br_region *own, uint32_t id,
                 struct br_shared *theirs)
{
    struct br_shm_link *link = (struct br_shm_link *)base;
    struct br_shm_mapping *mapping;
    uint64_t bytes;
    int number;

    if (link->state != BR_SHM_OPEN || link->peer_left)
        return -ENOTCONN;
    if (own)
        return share_own(link, own);
    number = find_shared(link, id);
    if (number < 0)
        return number;
    bytes = *(volatile const uint64_t *)&link->in.header->shared[number].bytes;
    mapping = link->segments[number];
    if (!mapping || link->segment_ids[number] != id)
        return -EAGAIN; /* it comes by the next poll() that looks at the sockets */
    if (!mapping->writable) {
        if (mprotect((void *)mapping->base, mapping->bytes, PROT_READ | PROT_WRITE))
            return -errno;
        mapping->writable = true;
    }
    *theirs = (struct br_shared){.base = (uint8_t *)mapping->base,
                                 .bytes = bytes < mapping->bytes ? bytes : mapping->bytes,
                                 .place = &link->in.header->shared[number].id,
                                 .id = (uint64_t)id + 1};
    return 0;
}
