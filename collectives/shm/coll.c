/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/shm/coll.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/available.h"
#include "base/clock.h"
#include "base/copy.h"
#include "base/error.h"
#include "transport/segment.h"

#define HALF    BR_SHM_COLL_HALF
#define PAYLOAD BR_SHM_COLL_PAYLOAD
#define LAYOUT  11u /* of the segment: another number with each change */
/* Pages are made ahead for at most this part of the memory that is available, so that a program
 * with many communicators keeps most of it. */
#define POPULATED_PART 256

/* What BR_SHM_COLL_LAYOUT says. */
static uint64_t shm_coll_layout(bool in_places)
{
    return 2 * LAYOUT + in_places;
}

static size_t shm_coll_ring(bool in_places)
{
    return in_places ? (size_t)BR_SHM_COLL_PLACES * BR_SHM_COLL_PLACE : PAYLOAD;
}

/* As few as hold twice a second-level cache. One that is not known counts as the largest. */
static uint32_t shm_coll_places(void)
{
    size_t cache = br_copy_second_cache(), half = BR_SHM_COLL_PLACES / 2;

    while (cache && half >= BR_SHM_COLL_FEWEST_PLACES && half * BR_SHM_COLL_PLACE >= 2 * cache)
        half /= 2;
    return (uint32_t)(2 * half);
}

static size_t shm_coll_bytes(uint32_t ranks, size_t ring)
{
    return sizeof(struct br_shm_coll_header) + ranks * (sizeof(struct br_shm_area) + ring);
}

static int shm_coll_map(struct br_shm_coll *coll, uint32_t ranks, uint32_t rank, bool in_places,
                        int fd)
{
    size_t bytes, least = shm_coll_bytes(ranks, shm_coll_ring(in_places));
    int rc;

    memset(coll, 0, sizeof *coll);
    if (!ranks || ranks > BR_SHM_COLL_RANKS || rank >= ranks)
        return br_error(EINVAL, "shared memory of collectives for rank %u of %u: at most %u", rank,
                        ranks, BR_SHM_COLL_RANKS);
    rc = br_segment_check(fd, &bytes);
    if (rc)
        return rc;
    if (bytes < least)
        return br_error(EPROTO,
                        "shared memory of collectives for %u ranks has %zu bytes, not %zu: does "
                        "another rank of this host run another version of braid?",
                        ranks, bytes, least);
    coll->base = br_segment_map(fd, bytes, PROT_READ | PROT_WRITE);
    if (!coll->base)
        return -ENOMEM;
    coll->bytes = bytes;
    coll->ranks = ranks;
    coll->rank = rank;
    coll->window = BR_SHM_COLL_BYTES;
    coll->ring = shm_coll_ring(in_places);
    coll->places = in_places ? shm_coll_places() : 0;
    if (ranks > 1)
        coll->cell_bytes = BR_SHM_COLL_CELLS / (ranks - 1) / BR_SHM_COLL_LINE * BR_SHM_COLL_LINE;
    if (coll->cell_bytes > BR_SHM_COLL_BYTES)
        coll->cell_bytes = BR_SHM_COLL_BYTES;
    br_shm_coll_set_beside(coll, 1);
    return 0;
}

void br_shm_coll_set_beside(struct br_shm_coll *coll, uint64_t beside)
{
    coll->beside =
        beside && beside <= coll->ranks && !(coll->ranks % beside) ? (uint32_t)beside : 1;
}

int br_shm_coll_attach(struct br_shm_coll *coll, uint32_t ranks, uint32_t rank, bool in_places,
                       int fd)
{
    int rc = shm_coll_map(coll, ranks, rank, in_places, fd);

    if (rc || br_shm_coll_said(coll, BR_SHM_COLL_LAYOUT) == shm_coll_layout(in_places))
        return rc;
    br_shm_coll_close(coll);
    return br_error(EPROTO, "another rank of this host runs another version of braid, with other "
                            "shared memory of collectives: run the same one everywhere");
}

int br_shm_coll_create(struct br_shm_coll *coll, uint32_t ranks, uint32_t rank, bool in_places,
                       int *fd)
{
    int rc;

    memset(coll, 0, sizeof *coll);
    *fd = br_segment_create("braid-coll",
                            shm_coll_bytes(ranks < BR_SHM_COLL_RANKS ? ranks : BR_SHM_COLL_RANKS,
                                           shm_coll_ring(in_places)));
    if (*fd < 0)
        return *fd;
    rc = shm_coll_map(coll, ranks, rank, in_places, *fd);
    if (rc)
        close(*fd);
    else
        br_shm_coll_say(coll, BR_SHM_COLL_LAYOUT, shm_coll_layout(in_places));
    return rc;
}

void br_shm_coll_populate(struct br_shm_coll *coll)
{
    size_t bytes = (size_t)coll->places * BR_SHM_COLL_PLACE;
    volatile uint8_t *ring = br_shm_coll_area(coll, coll->rank)->payload;
    const char *limit;

    if (bytes > br_available_memory("", &limit) / POPULATED_PART)
        return;
    for (size_t at = 0; at < bytes; at += BR_SHM_COLL_PAGE)
        ring[at] = 0;
}

void br_shm_coll_close(struct br_shm_coll *coll)
{
    if (coll->base)
        munmap(coll->base, coll->bytes);
    memset(coll, 0, sizeof *coll);
}

uint64_t br_shm_coll_said(const struct br_shm_coll *coll, enum br_shm_coll_number which)
{
    return atomic_load_explicit(&((struct br_shm_coll_header *)coll->base)->said[which],
                                memory_order_relaxed);
}

void br_shm_coll_say(struct br_shm_coll *coll, enum br_shm_coll_number which, uint64_t number)
{
    atomic_store_explicit(&((struct br_shm_coll_header *)coll->base)->said[which], number,
                          memory_order_relaxed);
}

uint64_t br_shm_coll_missing(const struct br_shm_coll *coll, uint32_t rank, uint64_t end)
{
    uint64_t epoch = coll->floor + 1;

    while (epoch < end && br_shm_coll_ready(coll, rank, epoch))
        epoch++;
    return epoch < end ? epoch : end;
}

static uint64_t up_to(uint64_t position, size_t unit)
{
    return (position + unit - 1) / unit * unit;
}

/* Up to so many bytes, the lines where the next epoch's bytes may lie are taken back from their
 * readers ahead (note 6). Of more, the processor's own fetching ahead does as well. */
#define AHEAD 1024u

/* The unit of positions where what is used again at once begins: a half of the ring, or one of four
 * places. */
static size_t part_unit(const struct br_shm_coll *coll)
{
    return coll->places ? coll->places / 4 * (size_t)BR_SHM_COLL_PLACE : HALF;
}

/* Where `bytes` bytes of payload of the next epoch begin: at the next place, or behind the last
 * ones in the same half, within the window if they fit there. If nobody reads more than the epoch
 * before, they begin a half instead, or one of four places, as what is used again at once is in the
 * cache (note 8). */
static uint64_t payload_start(const struct br_shm_coll *coll, uint64_t epoch, size_t bytes)
{
    uint64_t start = up_to(coll->end, BR_SHM_COLL_LINE);
    bool again = epoch - coll->floor <= 1;

    if (coll->places)
        return up_to(start, again && bytes <= AHEAD ? part_unit(coll) : BR_SHM_COLL_PLACE);
    return start % HALF + bytes <= (bytes < coll->window ? coll->window : bytes) && !again
               ? start
               : up_to(start, HALF);
}

/* Where `bytes` bytes are in the ring that begin there. Places that follow each other lie apart, as
 * slots do. What fits into a half, a quarter or an eighth of its place has another one in each lap
 * of the ring, so that it finds lines that have left the caches (note 8), but for what is taken
 * back ahead. */
static size_t payload_offset(const struct br_shm_coll *coll, uint64_t start, size_t bytes)
{
    uint64_t number = start / BR_SHM_COLL_PLACE;
    size_t place, part = BR_SHM_COLL_PAGE;

    if (!coll->places)
        return start % PAYLOAD;
    place = number * BR_SHM_COLL_APART % coll->places * (size_t)BR_SHM_COLL_PLACE;
    if (bytes <= AHEAD)
        return place;
    while (part < bytes)
        part *= 2;
    return place + (number / 4 + number / coll->places) % (BR_SHM_COLL_PLACE / part) * part;
}

/* As far as this rank knows (note 2; of places, note 8). */
static bool has_room(const struct br_shm_coll *coll, uint64_t epoch, size_t bytes)
{
    if (epoch - coll->floor >= BR_SHM_COLL_DEPTH)
        return false;
    return bytes <= BR_SHM_COLL_SMALL ||
           payload_start(coll, epoch, bytes) + bytes -
                   coll->starts[coll->floor % BR_SHM_COLL_DEPTH] <=
               (coll->places ? coll->places / 2 * (size_t)BR_SHM_COLL_PLACE : PAYLOAD);
}

static bool all_published(const struct br_shm_coll *coll, uint64_t epoch)
{
    for (uint32_t rank = 0; rank < coll->ranks; rank++)
        if (!br_shm_coll_ready(coll, rank, epoch))
            return false;
    return true;
}

bool br_shm_coll_find_room(struct br_shm_coll *coll, uint64_t epoch, size_t bytes)
{
    while (!has_room(coll, epoch, bytes)) {
        uint64_t ahead = (epoch - coll->floor) / 2, enough = epoch - (ahead ? ahead : 1);

        if (!all_published(coll, enough))
            return false;
        coll->floor = enough;
    }
    return true;
}

/* Where a part is that the next epoch's slot says. */
static uint8_t *next_place(const struct br_shm_coll *coll, uint64_t epoch, size_t bytes)
{
    return br_shm_coll_area(coll, coll->rank)->payload +
           payload_offset(coll, payload_start(coll, epoch, bytes), bytes);
}

/* The next epoch is likely to give as much as this one did: behind it, or where what is used again
 * at once begins if all ranks have read this one by then. In a ring of places only one of the two
 * is fetched, that of the kind used this time: lines that have left the caches are dear. */
static void prefetch_next(const struct br_shm_coll *coll, uint64_t epoch, size_t bytes)
{
    const uint8_t *payload = br_shm_coll_area(coll, coll->rank)->payload;
    size_t behind = payload_offset(coll, payload_start(coll, epoch + 1, bytes), bytes),
           again = payload_offset(coll, up_to(coll->end, part_unit(coll)), bytes);
    bool streams = coll->places && coll->last % part_unit(coll);

    for (size_t at = 0; at < bytes; at += BR_SHM_COLL_LINE) {
        if (!coll->places || streams)
            br_prefetch_to_write(payload + behind + at);
        if (!streams)
            br_prefetch_to_write(payload + again + at);
    }
}

/* Whose data have just been written: returns BR_SHM_COLL_ASKS if their reader, the other one of two
 * ranks, is to say what reading them takes. Or the answer to an earlier question has come. */
static uint64_t ask_reader(struct br_shm_coll *coll, uint64_t epoch)
{
    uint64_t took;

    if (!coll->past.asked.bytes)
        return 0;
    if (!coll->asked) {
        coll->asked = epoch;
        return BR_SHM_COLL_ASKS;
    }
    took = atomic_load_explicit(&br_shm_coll_area(coll, !coll->rank)->took, memory_order_relaxed);
    if (took >> 32 == (uint32_t)coll->asked) {
        br_shm_past_hear(&coll->past, (uint32_t)took);
        coll->asked = 0;
    }
    return 0;
}

uint64_t br_shm_coll_begin_answer(void)
{
    return br_clock_now();
}

void br_shm_coll_answer(const struct br_shm_coll *coll, uint64_t epoch, uint64_t began)
{
    atomic_store_explicit(&br_shm_coll_area(coll, coll->rank)->took,
                          epoch << 32 | (uint32_t)(br_clock_now() - began), memory_order_relaxed);
}

void br_shm_coll_publish(struct br_shm_coll *coll, uint64_t epoch, uint16_t check, const void *data,
                         size_t bytes)
{
    if (bytes > BR_SHM_COLL_SMALL) {
        if (data)
            br_shm_past_copy(&coll->past, next_place(coll, epoch, bytes), data, bytes);
        coll->last = payload_start(coll, epoch, bytes);
        coll->end = coll->last + bytes;
        br_shm_coll_slot(coll, coll->rank, epoch)->start =
            payload_offset(coll, coll->last, bytes) | ask_reader(coll, epoch);
        br_shm_coll_publish_small(coll, epoch, check, data, 0); /* beside the number */
        if (bytes <= AHEAD)
            prefetch_next(coll, epoch, bytes);
        return;
    }
    br_shm_coll_publish_small(coll, epoch, check, data, bytes);
}

void *br_shm_coll_space(struct br_shm_coll *coll, uint64_t epoch)
{
    return next_place(coll, epoch, br_shm_coll_most(coll));
}

void br_shm_coll_give(struct br_shm_coll *coll, enum br_shm_place place, const void *from,
                      size_t stride, size_t bytes)
{
    if (place == BR_SHM_IN_COMMON) {
        br_shm_coll_begin_common(coll);
        for (uint32_t r = 0; r < coll->ranks; r += coll->beside)
            br_copy(br_shm_coll_common(coll, coll->rank, r), from, bytes);
        return;
    }
    br_shm_coll_exchange(coll);
    for (uint32_t r = 0; r < coll->ranks; r++)
        if (r != coll->rank)
            br_copy(br_shm_coll_cell(coll, coll->rank, r), (const uint8_t *)from + r * stride,
                    bytes);
}
