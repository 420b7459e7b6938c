/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the memory of an all-reduce lies, told and answered (share.h, notes 2, 3 and 17). */
#include <string.h>

#include "base/downgrade.h"
#include "base/error.h"
#include "base/log.h"
#include "collectives/comm.h"
#include "collectives/hand.h"
#include "collectives/share_internal.h"
#include "gpu/offload.h"

static void refuse(struct br_share *share, bool *said)
{
    if (*said)
        return;
    *said = true;
    br_downgrade(gpu_sharing);
    br_log_warn(
        "rank %d: GPU memory is not shared with other processes of this host, all-reduces go through host "
        "memory: %s",
        share->family->rank, br_error_words());
}

static struct br_extent *extents_of_send(struct br_share_note *note)
{
    return note->extents + note->gone;
}

static struct br_extent *extents_of_recv(struct br_share_note *note)
{
    return extents_of_send(note) + note->send.extents;
}

size_t br_share_note_bytes(const struct br_share_note *note)
{
    uint32_t n = note->gone + note->send.extents + note->recv.extents;

    return offsetof(struct br_share_note, extents) + n * sizeof note->extents[0];
}

static void tell_gone(struct br_share *share, const struct br_local *local, struct br_share_note *note)
{
    int ranks[BR_BOARD_RANKS];

    for (uint32_t r = 0; r < local->n; r++)
        ranks[r] = br_group_in_job(local->group, (int)r);
    note->gone = br_ipc_gone(share->family->ipc, ranks, (int)local->n, note->extents);
}

/* Note 17. Negative errno with words. */
static int hand_over(struct br_share *share, const struct br_local *local, int gpu,
                     struct br_share_note *note)
{
    const struct br_extent *extents = extents_of_send(note);
    struct br_family *family = share->family;
    uint32_t n = note->send.extents + note->recv.extents;
    bool lacks = br_hand_lacks(family, local, extents, n);

    if (lacks && share->hands && (!family->hands || family->hands == share)) {
        int rc = br_hand_over(family, local, gpu, extents, n);

        if (rc)
            return rc;
        family->hands = share;
        share->sent = true;
        lacks = br_hand_lacks(family, local, extents, n);
    }
    note->owes = lacks;
    return 0;
}

void br_share_write(struct br_share *share, const struct br_local *local, const struct br_operation *op)
{
    struct br_ipc *ipc = share->family->ipc;
    struct br_share_note *note = &share->mine;
    int gpu = op->send_gpu;
    bool named;

    memset(note, 0, offsetof(struct br_share_note, extents));
    tell_gone(share, local, note);
    if (share->refused || !gpu || gpu != op->recv_gpu || op->foreign ||
        !br_offload_reaches(share->family->offload, gpu, op->send)) /* not any more */
        return;
    named = !br_ipc_note(ipc, gpu, op->send, op->send_bytes, &note->send, extents_of_send(note)) &&
            !br_ipc_note(ipc, gpu, op->recv, op->recv_bytes, &note->recv, extents_of_recv(note));
    note->has = named && !hand_over(share, local, gpu, note);
    if (note->has)
        return;
    note->owes = 0;
    if (!named) /* else some may have been sent: they are named, so that they are taken */
        note->send.extents = note->recv.extents = 0;
    refuse(share, &share->said_handle);
}

/* That of another rank: a copy, as it may write there, and what it says is looked at before it is used. */
static struct br_share_note *read_note(struct br_share *share, const struct br_local *local, uint32_t r)
{
    const struct br_share_note *note = br_board_data(&local->board, r, local->round, sizeof *note);
    struct br_share_note *copy = &share->theirs;

    memcpy(copy, note, offsetof(struct br_share_note, extents));
    if (copy->gone > BR_GONE || copy->send.extents > BR_EXTENTS || copy->recv.extents > BR_EXTENTS)
        memset(copy, 0, offsetof(struct br_share_note, extents));
    memcpy(copy->extents, note->extents, br_share_note_bytes(copy) - offsetof(struct br_share_note, extents));
    return copy;
}

/* Whatever follows: others count on the room. */
bool br_share_take(struct br_share *share, const struct br_local *local, const struct br_operation *op)
{
    struct br_family *family = share->family;
    bool owes = false;

    for (uint32_t r = 0; r < local->n; r++) {
        struct br_share_note *note = read_note(share, local, r);
        int rank = br_group_in_job(local->group, (int)r);

        owes |= note->owes;
        for (uint32_t i = 0; i < note->gone && r != local->rank; i++)
            br_ipc_drop(family->ipc, rank, &note->extents[i]);
        if (r != local->rank && op->send_gpu && /* else nobody has sent us anything */
            br_hand_take(family, local, op->send_gpu, r, extents_of_send(note),
                         note->send.extents + note->recv.extents))
            refuse(share, &share->refused);
    }
    return owes;
}

bool br_share_all_have(const struct br_local *local, size_t bytes)
{
    for (uint32_t r = 0; r < local->n; r++) {
        const struct br_share_note *note = br_board_data(&local->board, r, local->round, bytes);

        if (!note->has)
            return false;
    }
    return true;
}

static int map_rank(struct br_share *share, const struct br_local *local, const struct br_operation *op,
                    uint32_t r)
{
    struct br_share_note *note = read_note(share, local, r);
    struct br_ipc *ipc = share->family->ipc;
    int rank = br_group_in_job(local->group, (int)r), gpu = op->send_gpu, rc;
    void *send;

    rc = br_ipc_map(ipc, gpu, rank, &note->send, extents_of_send(note), op->send_bytes, &send);
    if (rc)
        return rc;
    share->send[r] = send;
    return br_ipc_map(ipc, gpu, rank, &note->recv, extents_of_recv(note), op->recv_bytes, &share->recv[r]);
}

static bool is_known(struct br_share *share, const struct br_local *local, const struct br_operation *op)
{
    const struct br_ipc *ipc = share->family->ipc;

    for (uint32_t r = 0; r < local->n; r++) {
        struct br_share_note *note = read_note(share, local, r);
        int rank = br_group_in_job(local->group, (int)r), gpu = op->send_gpu;

        if (r != local->rank && (!br_ipc_has(ipc, gpu, rank, &note->send, extents_of_send(note)) ||
                                 !br_ipc_has(ipc, gpu, rank, &note->recv, extents_of_recv(note))))
            return false;
    }
    return true;
}

/* What is gone is unmapped when it can be. */
static void clear(const struct br_share *share)
{
    if (!br_ipc_is_stale(share->family->ipc) || !br_streams_bar(share->family)) /* note 9 */
        return;
    br_ipc_clear(share->family->ipc);
    br_streams_admit(share->family);
}

bool br_share_map(struct br_share *share, const struct br_local *local, const struct br_operation *op)
{
    bool known = is_known(share, local, op);
    int rc = 0;

    clear(share);
    share->send[local->rank] = op->send;
    share->recv[local->rank] = op->recv;
    if (!known && !br_streams_bar(share->family)) /* note 9 */
        return false;
    for (uint32_t r = 0; r < local->n && !rc; r++)
        if (r != local->rank)
            rc = map_rank(share, local, op, r);
    if (!known)
        br_streams_admit(share->family);
    if (rc)
        refuse(share, &share->refused);
    return !rc;
}
