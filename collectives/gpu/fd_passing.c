/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/gpu/fd_passing.h"

#include <errno.h>
#include <unistd.h>

#include "base/error.h"
#include "collectives/comm/context.h"
#include "collectives/engine/group.h"
#include "collectives/shm/executor.h"
#include "transport/shm/shm.h"

/* And what follows; what is handed over besides has the number of a group. */
#define TAG (1u << 31)

/* The slot and, as a slot is used again, the last bits of the serial: what nobody has taken never
 * passes for what comes later. */
static uint32_t tag_of(const struct br_extent *extent)
{
    return TAG | (uint32_t)(extent->serial * BR_EXTENTS_ALL & ~TAG) | extent->slot;
}

static struct br_link *fd_passing_link(const struct br_context *context, int rank)
{
    return context->worker->peers[rank].rails[0].link;
}

bool br_fd_passing_needed(const struct br_context *context, const struct br_shm_executor *shm,
                          const struct br_extent *extents, uint32_t n)
{
    for (uint32_t r = 0; r < shm->n; r++)
        for (uint32_t i = 0; i < n && r != shm->rank; i++)
            if (br_ipc_must_send(context->ipc, br_group_in_job(shm->group, (int)r), &extents[i]))
                return true;
    return false;
}

/* 1: it has been sent; 0: the socket is full. */
static int fd_passing_send_one(struct br_context *context, int rank, int gpu,
                               const struct br_extent *extent)
{
    struct br_link *link = fd_passing_link(context, rank);
    int fd, rc;

    if (!link)
        return br_error(ENOTCONN, "rank %d: no link to hand a descriptor of GPU memory over", rank);
    fd = br_ipc_open(context->ipc, gpu, extent);
    if (fd < 0)
        return fd;
    rc = br_shm_link_send_fd(link, tag_of(extent), fd);
    close(fd);
    if (rc)
        return rc == -EAGAIN ? 0 : rc;
    br_ipc_sent(context->ipc, rank, extent);
    return 1;
}

static int fd_passing_send_to(struct br_context *context, int rank, int gpu,
                              const struct br_extent *extents, uint32_t n)
{
    int rc = 1;

    for (uint32_t i = 0, sent = 0; i < n && sent < BR_FD_PASSING_AT_ONCE && rc > 0; i++) {
        if (!br_ipc_must_send(context->ipc, rank, &extents[i]))
            continue;
        rc = fd_passing_send_one(context, rank, gpu, &extents[i]);
        sent++;
    }
    return rc < 0 ? rc : 0;
}

int br_fd_passing_send(struct br_context *context, const struct br_shm_executor *shm, int gpu,
                       const struct br_extent *extents, uint32_t n)
{
    int rc = 0;

    for (uint32_t r = 0; r < shm->n && !rc; r++)
        if (r != shm->rank)
            rc = fd_passing_send_to(context, br_group_in_job(shm->group, (int)r), gpu, extents, n);
    return rc;
}

int br_fd_passing_receive(struct br_context *context, const struct br_shm_executor *shm, int gpu,
                          uint32_t r, const struct br_extent *extents, uint32_t n)
{
    int rank = br_group_in_job(shm->group, (int)r), rc = 0;
    struct br_link *link = fd_passing_link(context, rank);

    for (uint32_t i = 0; i < n && link; i++) {
        int fd, taken;

        if (!br_ipc_must_receive(context->ipc, rank, &extents[i]))
            continue;
        fd = br_shm_link_take_fd(link, tag_of(&extents[i]));
        if (fd < 0)
            continue; /* it comes later, or was refused here before */
        taken = br_ipc_take(context->ipc, gpu, rank, &extents[i], fd);
        if (taken && !rc)
            rc = taken;
    }
    return rc;
}
