/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/shm/coll.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "transport/segment.h"

#define CHECK_BITS 16

#define LINE    64u
#define HALF    BR_SHM_COLL_BYTES
#define PAYLOAD (2 * (size_t)HALF)

/* Of one epoch. */
struct slot {
    _Alignas(2 * LINE) _Atomic uint64_t epoch; /* with the check in the lowest CHECK_BITS bits */
    union {
        uint8_t small[BR_SHM_COLL_SMALL];
        uint64_t start; /* in the payload, of more than BR_SHM_COLL_SMALL bytes */
    };
};
static_assert(sizeof(struct slot) == 2 * LINE, "a slot has no padding");

/* Of one rank. */
struct area {
    struct slot slots[BR_SHM_COLL_DEPTH];
    uint8_t notes[BR_SHM_COLL_DEPTH][BR_SHM_COLL_NOTE];
    _Alignas(LINE) uint8_t payload[PAYLOAD];
};

struct header {
    _Alignas(2 * LINE) _Atomic uint64_t said[BR_SHM_COLL_NUMBERS]; /* slots follow, so aligned */
};

static size_t shm_coll_bytes(uint32_t ranks)
{
    return sizeof(struct header) + (size_t)ranks * sizeof(struct area);
}

static struct area *area_of(const struct br_shm_coll *coll, uint32_t rank)
{
    return (struct area *)(coll->base + sizeof(struct header)) + rank;
}

static struct slot *slot_of(const struct br_shm_coll *coll, uint32_t rank, uint64_t epoch)
{
    return &area_of(coll, rank)->slots[epoch % BR_SHM_COLL_DEPTH];
}

int br_shm_coll_attach(struct br_shm_coll *coll, uint32_t ranks, uint32_t rank, int fd)
{
    size_t bytes;
    int rc;

    memset(coll, 0, sizeof *coll);
    if (!ranks || ranks > BR_SHM_COLL_RANKS || rank >= ranks)
        return br_error(EINVAL, "shared memory of collectives for rank %u of %u: at most %u", rank,
                        ranks, BR_SHM_COLL_RANKS);
    rc = br_segment_check(fd, &bytes);
    if (rc)
        return rc;
    if (bytes < shm_coll_bytes(ranks))
        return br_error(EPROTO, "shared memory of collectives for %u ranks has %zu bytes, not %zu",
                        ranks, shm_coll_bytes(ranks), bytes);
    coll->base = br_segment_map(fd, bytes, PROT_READ | PROT_WRITE);
    if (!coll->base)
        return -ENOMEM;
    coll->bytes = bytes;
    coll->ranks = ranks;
    coll->rank = rank;
    coll->window = HALF;
    return 0;
}

int br_shm_coll_create(struct br_shm_coll *coll, uint32_t ranks, uint32_t rank, int *fd)
{
    int rc;

    memset(coll, 0, sizeof *coll);
    *fd = br_segment_create("braid-coll",
                            shm_coll_bytes(ranks < BR_SHM_COLL_RANKS ? ranks : BR_SHM_COLL_RANKS));
    if (*fd < 0)
        return *fd;
    rc = br_shm_coll_attach(coll, ranks, rank, *fd);
    if (rc)
        close(*fd);
    return rc;
}

void br_shm_coll_close(struct br_shm_coll *coll)
{
    if (coll->base)
        munmap(coll->base, coll->bytes);
    memset(coll, 0, sizeof *coll);
}

uint64_t br_shm_coll_said(const struct br_shm_coll *coll, enum br_shm_coll_number which)
{
    return atomic_load_explicit(&((struct header *)coll->base)->said[which], memory_order_relaxed);
}

void br_shm_coll_say(struct br_shm_coll *coll, enum br_shm_coll_number which, uint64_t number)
{
    atomic_store_explicit(&((struct header *)coll->base)->said[which], number,
                          memory_order_relaxed);
}

/* What `rank` has published last into the slot of an epoch: that one, or one a whole ring later. */
static uint64_t published(const struct br_shm_coll *coll, uint32_t rank, uint64_t epoch)
{
    return atomic_load_explicit(&slot_of(coll, rank, epoch)->epoch, memory_order_acquire) >>
           CHECK_BITS;
}

bool br_shm_coll_ready(const struct br_shm_coll *coll, uint32_t rank, uint64_t epoch)
{
    return published(coll, rank, epoch) >= epoch;
}

uint64_t br_shm_coll_missing(const struct br_shm_coll *coll, uint32_t rank, uint64_t end)
{
    uint64_t epoch = coll->floor + 1;

    while (epoch < end && br_shm_coll_ready(coll, rank, epoch))
        epoch++;
    return epoch < end ? epoch : end;
}

uint16_t br_shm_coll_check(const struct br_shm_coll *coll, uint32_t rank, uint64_t epoch)
{
    return (uint16_t)atomic_load_explicit(&slot_of(coll, rank, epoch)->epoch, memory_order_relaxed);
}

/* Where `bytes` bytes of payload of the next epoch begin. They lie in one half of it, within the
 * window if they fit there: the next one if nobody reads more than the epoch before, as what is
 * used again at once is in the cache. */
static uint64_t payload_start(const struct br_shm_coll *coll, uint64_t epoch, size_t bytes)
{
    uint64_t start = (coll->end + LINE - 1) / LINE * LINE;

    return start % HALF + bytes <= (bytes < coll->window ? coll->window : bytes) &&
                   epoch - coll->floor > 1
               ? start
               : (start + HALF - 1) / HALF * HALF;
}

/* As far as this rank knows (note 2). */
static bool has_room(const struct br_shm_coll *coll, uint64_t epoch, size_t bytes)
{
    if (epoch - coll->floor >= BR_SHM_COLL_DEPTH)
        return false;
    return bytes <= BR_SHM_COLL_SMALL || payload_start(coll, epoch, bytes) + bytes -
                                                 coll->starts[coll->floor % BR_SHM_COLL_DEPTH] <=
                                             PAYLOAD;
}

static bool all_published(const struct br_shm_coll *coll, uint64_t epoch)
{
    for (uint32_t rank = 0; rank < coll->ranks; rank++)
        if (!br_shm_coll_ready(coll, rank, epoch))
            return false;
    return true;
}

bool br_shm_coll_may_publish(struct br_shm_coll *coll, uint64_t epoch, size_t bytes)
{
    while (!has_room(coll, epoch, bytes)) {
        uint64_t ahead = (epoch - coll->floor) / 2, enough = epoch - (ahead ? ahead : 1);

        if (!all_published(coll, enough))
            return false;
        coll->floor = enough;
    }
    return true;
}

void br_shm_coll_publish(struct br_shm_coll *coll, uint64_t epoch, uint16_t check, const void *data,
                         size_t bytes)
{
    struct slot *slot = slot_of(coll, coll->rank, epoch);
    uint64_t start = coll->end;

    if (bytes > BR_SHM_COLL_SMALL) {
        start = payload_start(coll, epoch, bytes);
        if (data)
            memcpy(area_of(coll, coll->rank)->payload + start % PAYLOAD, data, bytes);
        slot->start = start % PAYLOAD;
        coll->end = start + bytes;
    } else if (bytes) {
        memcpy(slot->small, data, bytes);
    }
    coll->starts[epoch % BR_SHM_COLL_DEPTH] = start;
    atomic_store_explicit(&slot->epoch, epoch << CHECK_BITS | check, memory_order_release);
}

void *br_shm_coll_space(struct br_shm_coll *coll, uint64_t epoch)
{
    return area_of(coll, coll->rank)->payload +
           payload_start(coll, epoch, BR_SHM_COLL_BYTES) % PAYLOAD;
}

const void *br_shm_coll_data(const struct br_shm_coll *coll, uint32_t rank, uint64_t epoch,
                             size_t bytes)
{
    const struct slot *slot = slot_of(coll, rank, epoch);

    if (bytes <= BR_SHM_COLL_SMALL)
        return slot->small;
    /* whatever another rank writes there, nothing outside of the payload is read */
    return area_of(coll, rank)->payload + (slot->start <= PAYLOAD - bytes ? slot->start : 0);
}

void br_shm_coll_describe(struct br_shm_coll *coll, uint64_t epoch, const void *note)
{
    memcpy(area_of(coll, coll->rank)->notes[epoch % BR_SHM_COLL_DEPTH], note, BR_SHM_COLL_NOTE);
}

const void *br_shm_coll_description(const struct br_shm_coll *coll, uint32_t rank, uint64_t epoch)
{
    return area_of(coll, rank)->notes[epoch % BR_SHM_COLL_DEPTH];
}
