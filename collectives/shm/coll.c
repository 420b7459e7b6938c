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

struct area {
    _Alignas(64) _Atomic uint64_t epoch; /* with the check in the lowest CHECK_BITS bits */
    uint8_t small[BR_SHM_COLL_SMALL];
    uint8_t large[BR_SHM_COLL_BYTES];
    _Alignas(64) uint8_t note[BR_SHM_COLL_NOTE];
};
static_assert(offsetof(struct area, large) == 64,
              "an epoch's number and its small data share one cache line");

struct header {
    _Alignas(64) _Atomic uint64_t said[BR_SHM_COLL_NUMBERS];
};

static size_t shm_coll_bytes(uint32_t ranks)
{
    return sizeof(struct header) + (size_t)ranks * 2 * sizeof(struct area);
}

static struct area *area_of(const struct br_shm_coll *coll, uint32_t rank, uint64_t epoch)
{
    return (struct area *)(coll->base + sizeof(struct header)) + (size_t)rank * 2 + epoch % 2;
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

bool br_shm_coll_ready(const struct br_shm_coll *coll, uint32_t rank, uint64_t epoch)
{
    return atomic_load_explicit(&area_of(coll, rank, epoch)->epoch, memory_order_acquire) >>
               CHECK_BITS ==
           epoch;
}

uint16_t br_shm_coll_check(const struct br_shm_coll *coll, uint32_t rank, uint64_t epoch)
{
    return (uint16_t)atomic_load_explicit(&area_of(coll, rank, epoch)->epoch, memory_order_relaxed);
}

bool br_shm_coll_may_publish(const struct br_shm_coll *coll, uint64_t epoch)
{
    for (uint32_t rank = 0; epoch > 1 && rank < coll->ranks; rank++)
        if (!br_shm_coll_ready(coll, rank, epoch - 1))
            return false;
    return true;
}

void br_shm_coll_publish(struct br_shm_coll *coll, uint64_t epoch, uint16_t check, const void *data,
                         size_t bytes)
{
    struct area *area = area_of(coll, coll->rank, epoch);

    if (bytes)
        memcpy(bytes <= BR_SHM_COLL_SMALL ? area->small : area->large, data, bytes);
    atomic_store_explicit(&area->epoch, epoch << CHECK_BITS | check, memory_order_release);
}

void *br_shm_coll_space(struct br_shm_coll *coll, uint64_t epoch)
{
    return area_of(coll, coll->rank, epoch)->large;
}

const void *br_shm_coll_data(const struct br_shm_coll *coll, uint32_t rank, uint64_t epoch,
                             size_t bytes)
{
    const struct area *area = area_of(coll, rank, epoch);

    return bytes <= BR_SHM_COLL_SMALL ? area->small : area->large;
}

void br_shm_coll_describe(struct br_shm_coll *coll, uint64_t epoch, const void *note)
{
    memcpy(area_of(coll, coll->rank, epoch)->note, note, BR_SHM_COLL_NOTE);
}

const void *br_shm_coll_description(const struct br_shm_coll *coll, uint32_t rank, uint64_t epoch)
{
    return area_of(coll, rank, epoch)->note;
}
