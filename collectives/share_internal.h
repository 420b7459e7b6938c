/* SPDX-License-Identifier: BSD-3-Clause */
/* What share.c and share_note.c share. Not for others. */
#ifndef BR_COLLECTIVES_SHARE_INTERNAL_H
#define BR_COLLECTIVES_SHARE_INTERNAL_H

#include "collectives/local.h"
#include "collectives/share.h"
#include "gpu/ipc.h"

/* What a rank publishes in the first round, as much of it as there is; in the second, `has` alone. */
struct br_share_note {
    uint64_t has;        /* 1: send and recv are there */
    uint32_t owes, gone; /* another rank lacks a descriptor; extents that come first */
    struct br_ipc_note send, recv;
    struct br_extent extents[BR_GONE + 2 * BR_EXTENTS]; /* those that are gone, of send, of recv */
};
_Static_assert(offsetof(struct br_share_note, extents) > BR_BOARD_SMALL &&
                   sizeof(struct br_share_note) <= BR_BOARD_BYTES,
               "however much of it there is, it stands in one place of the board");

struct br_share {
    struct br_family *family;
    struct br_across *across; /* NULL: all ranks are of this host */
    int stage;                /* enum stage (share.c) */
    bool refused;             /* a mapping was, before */
    bool holds;               /* what the operation has mapped */
    bool said_handle;         /* that there is none */
    bool hands, sent;         /* descriptors are handed over, in rounds more; some of ours before this one */
    struct br_share_note mine, theirs;
    const void *send[BR_BOARD_RANKS];
    void *recv[BR_BOARD_RANKS];
};

/* share_note.c: notes 2, 3 and 17. Writes what this rank tells of the head of the queue into share->mine; br_share_note_bytes() of it are published. */
void br_share_write(struct br_share *share, const struct br_local *local, const struct br_operation *op);
size_t br_share_note_bytes(const struct br_share_note *note);

/* All have told. Takes what has been handed over to us: does anybody lack a descriptor yet? */
bool br_share_take(struct br_share *share, const struct br_local *local, const struct br_operation *op);
/* Have all said yes in this round, in which `bytes` were published? */
bool br_share_all_have(const struct br_local *local, size_t bytes);
/* Maps the memory of all. false: some of it cannot be mapped, or not now. */
bool br_share_map(struct br_share *share, const struct br_local *local, const struct br_operation *op);

#endif
