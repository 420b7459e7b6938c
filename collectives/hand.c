/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/hand.h"

#include <errno.h>
#include <unistd.h>

#include "base/error.h"
#include "collectives/comm.h"
#include "collectives/local.h"
#include "transport/shm/shm.h"

#define TAG (1u << 31) /* and what follows; what is handed over besides has the number of a group */

/* The slot and, as a slot is used again, the last bits of the serial: what nobody has taken never passes for what comes later. */
static uint32_t tag_of(const struct br_extent *extent)
{
    return TAG | (uint32_t)(extent->serial * BR_EXTENTS_ALL & ~TAG) | extent->slot;
}

static struct br_link *link_to(const struct br_family *family, int rank)
{
    return family->worker->peers[rank].rails[0].link;
}

bool br_hand_lacks(const struct br_family *family, const struct br_local *local,
                   const struct br_extent *extents, uint32_t n)
{
    for (uint32_t r = 0; r < local->n; r++)
        for (uint32_t i = 0; i < n && r != local->rank; i++)
            if (br_ipc_lacks(family->ipc, br_group_in_job(local->group, (int)r), &extents[i]))
                return true;
    return false;
}

/* 1: it has been sent; 0: the socket is full. */
static int send_one(struct br_family *family, int rank, int gpu, const struct br_extent *extent)
{
    struct br_link *link = link_to(family, rank);
    int fd, rc;

    if (!link)
        return br_error(ENOTCONN, "rank %d: no link to hand a descriptor of GPU memory over", rank);
    fd = br_ipc_open(family->ipc, gpu, extent);
    if (fd < 0)
        return fd;
    rc = br_shm_link_send_fd(link, tag_of(extent), fd);
    close(fd);
    if (rc)
        return rc == -EAGAIN ? 0 : rc;
    br_ipc_given(family->ipc, rank, extent);
    return 1;
}

static int send_to(struct br_family *family, int rank, int gpu, const struct br_extent *extents, uint32_t n)
{
    int rc = 1;

    for (uint32_t i = 0, sent = 0; i < n && sent < BR_HAND_AT_ONCE && rc > 0; i++) {
        if (!br_ipc_lacks(family->ipc, rank, &extents[i]))
            continue;
        rc = send_one(family, rank, gpu, &extents[i]);
        sent++;
    }
    return rc < 0 ? rc : 0;
}

int br_hand_over(struct br_family *family, const struct br_local *local, int gpu,
                 const struct br_extent *extents, uint32_t n)
{
    int rc = 0;

    for (uint32_t r = 0; r < local->n && !rc; r++)
        if (r != local->rank)
            rc = send_to(family, br_group_in_job(local->group, (int)r), gpu, extents, n);
    return rc;
}

int br_hand_take(struct br_family *family, const struct br_local *local, int gpu, uint32_t r,
                 const struct br_extent *extents, uint32_t n)
{
    int rank = br_group_in_job(local->group, (int)r), rc = 0;
    struct br_link *link = link_to(family, rank);

    for (uint32_t i = 0; i < n && link; i++) {
        int fd, taken;

        if (!br_ipc_wants(family->ipc, rank, &extents[i]))
            continue;
        fd = br_shm_link_take_fd(link, tag_of(&extents[i]));
        if (fd < 0)
            continue; /* it comes later, or was refused here before */
        taken = br_ipc_take(family->ipc, gpu, rank, &extents[i], fd);
        if (taken && !rc)
            rc = taken;
    }
    return rc;
}
