/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the memory of an all-reduce lies, told and answered (gpu_local.h, notes 2, 3 and 17). */
#include <string.h>

#include "base/downgrade.h"
#include "base/error.h"
#include "base/log.h"
#include "collectives/comm/context.h"
#include "collectives/engine/group.h"
#include "collectives/gpu/stream_block.h"
#include "collectives/gpu/fd_passing.h"
#include "collectives/gpu/gpu_local_internal.h"
#include "gpu/offload.h"

static void gpu_local_note_refuse(struct br_gpu_local *gpu_local, bool *said)
{
    if (*said)
        return;
    *said = true;
    br_downgrade(gpu_sharing);
    br_log_warn("rank %d: GPU memory is not shared with other processes of this host, all-reduces "
                "go through host "
                "memory: %s",
                gpu_local->context->rank, br_error_message());
}

static struct br_extent *extents_of_send(struct br_gpu_local_note *note)
{
    return note->extents + note->n_gone;
}

static struct br_extent *extents_of_recv(struct br_gpu_local_note *note)
{
    return extents_of_send(note) + note->send.extents;
}

size_t br_gpu_local_note_bytes(const struct br_gpu_local_note *note)
{
    uint32_t n = note->n_gone + note->send.extents + note->recv.extents;

    return offsetof(struct br_gpu_local_note, extents) + n * sizeof note->extents[0];
}

static void tell_gone(struct br_gpu_local *gpu_local, const struct br_shm_executor *shm,
                      struct br_gpu_local_note *note)
{
    int ranks[BR_SHM_COLL_RANKS];

    for (uint32_t r = 0; r < shm->n; r++)
        ranks[r] = br_group_in_job(shm->group, (int)r);
    note->n_gone = br_ipc_freed(gpu_local->context->ipc, ranks, (int)shm->n, note->extents);
}

/* Note 17. Negative errno with a message. */
static int gpu_local_pass_fds(struct br_gpu_local *gpu_local, const struct br_shm_executor *shm,
                              int gpu, struct br_gpu_local_note *note)
{
    const struct br_extent *extents = extents_of_send(note);
    struct br_context *context = gpu_local->context;
    uint32_t n = note->send.extents + note->recv.extents;
    bool lacks = br_fd_passing_needed(context, shm, extents, n);

    if (lacks && gpu_local->passes_fds &&
        (!context->fd_sender || context->fd_sender == gpu_local)) {
        int rc = br_fd_passing_send(context, shm, gpu, extents, n);

        if (rc)
            return rc;
        context->fd_sender = gpu_local;
        gpu_local->sent = true;
        lacks = br_fd_passing_needed(context, shm, extents, n);
    }
    note->lacks_fd = lacks;
    return 0;
}

void br_gpu_local_write_note(struct br_gpu_local *gpu_local, const struct br_shm_executor *shm,
                             const struct br_operation *op)
{
    struct br_ipc *ipc = gpu_local->context->ipc;
    struct br_gpu_local_note *note = &gpu_local->mine;
    int gpu = op->send_gpu;
    bool named;

    memset(note, 0, offsetof(struct br_gpu_local_note, extents));
    tell_gone(gpu_local, shm, note);
    if (gpu_local->refused || !gpu || gpu != op->recv_gpu || op->foreign ||
        !br_offload_reaches(gpu_local->context->offload, gpu, op->send)) /* not any more */
        return;
    named = !br_ipc_note(ipc, gpu, op->send, op->send_bytes, &note->send, extents_of_send(note)) &&
            !br_ipc_note(ipc, gpu, op->recv, op->recv_bytes, &note->recv, extents_of_recv(note));
    note->has = named && !gpu_local_pass_fds(gpu_local, shm, gpu, note);
    if (note->has)
        return;
    note->lacks_fd = 0;
    if (!named) /* else some may have been sent: they are named, so that they are taken */
        note->send.extents = note->recv.extents = 0;
    gpu_local_note_refuse(gpu_local, &gpu_local->warned_handle);
}

/* That of another rank: a copy, as it may write there, and what it says is looked at before it is
 * used. */
static struct br_gpu_local_note *read_note(struct br_gpu_local *gpu_local,
                                           const struct br_shm_executor *shm, uint32_t r)
{
    const struct br_gpu_local_note *note =
        br_shm_coll_data(&shm->coll, r, shm->epoch, offsetof(struct br_gpu_local_note, extents));
    struct br_gpu_local_note *copy = &gpu_local->theirs;

    memcpy(copy, note, offsetof(struct br_gpu_local_note, extents));
    if (copy->n_gone > BR_EXTENTS_FREED || copy->send.extents > BR_EXTENTS ||
        copy->recv.extents > BR_EXTENTS)
        memset(copy, 0, offsetof(struct br_gpu_local_note, extents));
    note = br_shm_coll_data(&shm->coll, r, shm->epoch, br_gpu_local_note_bytes(copy));
    memcpy(copy->extents, note->extents,
           br_gpu_local_note_bytes(copy) - offsetof(struct br_gpu_local_note, extents));
    return copy;
}

/* Whatever follows: others count on the room. */
bool br_gpu_local_take_fds(struct br_gpu_local *gpu_local, const struct br_shm_executor *shm,
                           const struct br_operation *op)
{
    struct br_context *context = gpu_local->context;
    bool owes = false;

    for (uint32_t r = 0; r < shm->n; r++) {
        struct br_gpu_local_note *note = read_note(gpu_local, shm, r);
        int rank = br_group_in_job(shm->group, (int)r);

        owes |= note->lacks_fd;
        for (uint32_t i = 0; i < note->n_gone && r != shm->rank; i++)
            br_ipc_drop(context->ipc, rank, &note->extents[i]);
        if (r != shm->rank && op->send_gpu && /* else nobody has sent us anything */
            br_fd_passing_receive(context, shm, op->send_gpu, r, extents_of_send(note),
                                  note->send.extents + note->recv.extents))
            gpu_local_note_refuse(gpu_local, &gpu_local->refused);
    }
    return owes;
}

bool br_gpu_local_all_agree(const struct br_shm_executor *shm, size_t bytes)
{
    for (uint32_t r = 0; r < shm->n; r++) {
        const struct br_gpu_local_note *note = br_shm_coll_data(&shm->coll, r, shm->epoch, bytes);

        if (!note->has)
            return false;
    }
    return true;
}

static int map_rank(struct br_gpu_local *gpu_local, const struct br_shm_executor *shm,
                    const struct br_operation *op, uint32_t r)
{
    struct br_gpu_local_note *note = read_note(gpu_local, shm, r);
    struct br_ipc *ipc = gpu_local->context->ipc;
    int rank = br_group_in_job(shm->group, (int)r), gpu = op->send_gpu, rc;
    void *send;

    rc = br_ipc_map(ipc, gpu, rank, &note->send, extents_of_send(note), op->send_bytes, &send);
    if (rc)
        return rc;
    gpu_local->send[r] = send;
    return br_ipc_map(ipc, gpu, rank, &note->recv, extents_of_recv(note), op->recv_bytes,
                      &gpu_local->recv[r]);
}

static bool gpu_local_note_is_known(struct br_gpu_local *gpu_local,
                                    const struct br_shm_executor *shm,
                                    const struct br_operation *op)
{
    const struct br_ipc *ipc = gpu_local->context->ipc;

    for (uint32_t r = 0; r < shm->n; r++) {
        struct br_gpu_local_note *note = read_note(gpu_local, shm, r);
        int rank = br_group_in_job(shm->group, (int)r), gpu = op->send_gpu;

        if (r != shm->rank && (!br_ipc_has(ipc, gpu, rank, &note->send, extents_of_send(note)) ||
                               !br_ipc_has(ipc, gpu, rank, &note->recv, extents_of_recv(note))))
            return false;
    }
    return true;
}

/* What is gone is unmapped when it can be. */
static void gpu_local_note_clear(const struct br_gpu_local *gpu_local)
{
    /* note 9 */
    if (!br_ipc_is_stale(gpu_local->context->ipc) || !br_streams_block(gpu_local->context))
        return;
    br_ipc_clear(gpu_local->context->ipc);
    br_streams_unblock(gpu_local->context);
}

bool br_gpu_local_map(struct br_gpu_local *gpu_local, const struct br_shm_executor *shm,
                      const struct br_operation *op)
{
    bool known = gpu_local_note_is_known(gpu_local, shm, op);
    int rc = 0;

    gpu_local_note_clear(gpu_local);
    gpu_local->send[shm->rank] = op->send;
    gpu_local->recv[shm->rank] = op->recv;
    if (!known && !br_streams_block(gpu_local->context)) /* note 9 */
        return false;
    for (uint32_t r = 0; r < shm->n && !rc; r++)
        if (r != shm->rank)
            rc = map_rank(gpu_local, shm, op, r);
    if (!known)
        br_streams_unblock(gpu_local->context);
    if (rc)
        gpu_local_note_refuse(gpu_local, &gpu_local->refused);
    return !rc;
}
