/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/coll.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "transport/shm/segment.h"

#define CHECK_BITS 16

struct area {
    _Alignas(64) _Atomic uint64_t round; /* and the check in the lowest CHECK_BITS */
    uint8_t small[BR_SHM_COLL_SMALL];
    uint8_t large[BR_SHM_COLL_BYTES];
    _Alignas(64) uint8_t note[BR_SHM_COLL_NOTE];
};
static_assert(offsetof(struct area, large) == 64,
              "a round and its small data share one cache line");

struct header {
    _Alignas(64) _Atomic uint32_t aborted;
};

static size_t shm_coll_bytes(uint32_t ranks)
{
    return sizeof(struct header) + (size_t)ranks * 2 * sizeof(struct area);
}

static struct area *area_of(const struct br_shm_coll *board, uint32_t rank, uint64_t round)
{
    return (struct area *)(board->base + sizeof(struct header)) + (size_t)rank * 2 + round % 2;
}

static struct header *shm_coll_header_of(const struct br_shm_coll *board)
{
    return (struct header *)board->base;
}

int br_shm_coll_attach(struct br_shm_coll *board, uint32_t ranks, uint32_t rank, int fd)
{
    size_t bytes;
    int rc;

    memset(board, 0, sizeof *board);
    if (!ranks || ranks > BR_SHM_COLL_RANKS || rank >= ranks)
        return br_error(EINVAL, "shared memory of collectives for rank %u of %u: at most %u", rank,
                        ranks, BR_SHM_COLL_RANKS);
    rc = br_segment_check(fd, &bytes);
    if (rc)
        return rc;
    if (bytes < shm_coll_bytes(ranks))
        return br_error(EPROTO, "shared memory of collectives for %u ranks has %zu bytes, not %zu",
                        ranks, shm_coll_bytes(ranks), bytes);
    board->base = br_segment_map(fd, bytes, PROT_READ | PROT_WRITE);
    if (!board->base)
        return -ENOMEM;
    board->bytes = bytes;
    board->ranks = ranks;
    board->rank = rank;
    return 0;
}

int br_shm_coll_create(struct br_shm_coll *board, uint32_t ranks, uint32_t rank, int *fd)
{
    int rc;

    memset(board, 0, sizeof *board);
    *fd = br_segment_create("braid-coll",
                            shm_coll_bytes(ranks < BR_SHM_COLL_RANKS ? ranks : BR_SHM_COLL_RANKS));
    if (*fd < 0)
        return *fd;
    rc = br_shm_coll_attach(board, ranks, rank, *fd);
    if (rc)
        close(*fd);
    return rc;
}

void br_shm_coll_close(struct br_shm_coll *board)
{
    if (board->base)
        munmap(board->base, board->bytes);
    memset(board, 0, sizeof *board);
}

bool br_shm_coll_ready(const struct br_shm_coll *board, uint32_t rank, uint64_t round)
{
    return atomic_load_explicit(&area_of(board, rank, round)->round, memory_order_acquire) >>
               CHECK_BITS ==
           round;
}

uint16_t br_shm_coll_check(const struct br_shm_coll *board, uint32_t rank, uint64_t round)
{
    return (uint16_t)atomic_load_explicit(&area_of(board, rank, round)->round,
                                          memory_order_relaxed);
}

bool br_shm_coll_may_publish(const struct br_shm_coll *board, uint64_t round)
{
    for (uint32_t rank = 0; round > 1 && rank < board->ranks; rank++)
        if (!br_shm_coll_ready(board, rank, round - 1))
            return false;
    return true;
}

void *br_shm_coll_slot(struct br_shm_coll *board, uint64_t round, size_t bytes)
{
    struct area *area = area_of(board, board->rank, round);

    return bytes <= BR_SHM_COLL_SMALL ? area->small : area->large;
}

void br_shm_coll_commit(struct br_shm_coll *board, uint64_t round, uint16_t check)
{
    atomic_store_explicit(&area_of(board, board->rank, round)->round, round << CHECK_BITS | check,
                          memory_order_release);
}

void br_shm_coll_publish(struct br_shm_coll *board, uint64_t round, uint16_t check,
                         const void *data, size_t bytes)
{
    if (bytes)
        memcpy(br_shm_coll_slot(board, round, bytes), data, bytes);
    br_shm_coll_commit(board, round, check);
}

const void *br_shm_coll_data(const struct br_shm_coll *board, uint32_t rank, uint64_t round,
                             size_t bytes)
{
    const struct area *area = area_of(board, rank, round);

    return bytes <= BR_SHM_COLL_SMALL ? area->small : area->large;
}

void br_shm_coll_describe(struct br_shm_coll *board, uint64_t round, const void *note)
{
    memcpy(area_of(board, board->rank, round)->note, note, BR_SHM_COLL_NOTE);
}

const void *br_shm_coll_description(const struct br_shm_coll *board, uint32_t rank, uint64_t round)
{
    return area_of(board, rank, round)->note;
}

void br_shm_coll_abort(struct br_shm_coll *board, uint32_t why)
{
    uint32_t nobody = 0;

    atomic_compare_exchange_strong(&shm_coll_header_of(board)->aborted, &nobody, why);
}

uint32_t br_shm_coll_aborted(const struct br_shm_coll *board)
{
    return atomic_load_explicit(&shm_coll_header_of(board)->aborted, memory_order_acquire);
}
