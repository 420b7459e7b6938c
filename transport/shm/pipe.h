/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pipe of a link: buffers through which payload goes that lies in no segment. Each belongs to
 * one end at a time. That end writes into it and hands it over, and whoever has read it owns it: it
 * writes there what it sends next, into lines that its own core has in its cache. An end that reads
 * more than it sends gives buffers back.
 *
 * A buffer has a number: from 0 in the inbox `out`, from BR_PIPE_BUFFERS in the inbox `in`.
 *
 * The numbered notes are in doc/design/shared_memory.md.
 */
#ifndef BR_TRANSPORT_SHM_PIPE_H
#define BR_TRANSPORT_SHM_PIPE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/shm/inbox.h"

/* One end's private part. */
struct br_pipe {
    struct br_inbox *in, *out;
    bool owned[2 * BR_PIPE_BUFFERS];
    /* Ring of the owned ones that have been written before, from `coldest` up to `warmest`: in the
     * end those that this end has read, the latest last. */
    uint8_t warm[2 * BR_PIPE_BUFFERS];
    uint32_t coldest, warmest;
    uint32_t fresh; /* The first so many of `out` have never been written. */
    uint32_t grown; /* `filled` when the last one of those was taken */
    /* Positions in the rings of the inboxes: of the next buffer to hand over and to be handed, to
     * give back and to get back. */
    uint32_t filled, arrived, given, returned;
};

void br_pipe_init(struct br_pipe *pipe, struct br_inbox *in, struct br_inbox *out);

/* The writer. Is there a buffer to write into? */
bool br_pipe_has_room(const struct br_pipe *pipe);
/* The number of a buffer to write into, which is handed over next, or -EAGAIN. *fresh becomes true
 * where its pages may not exist yet, which the kernel makes as they are written. avoid_fresh: the
 * caller measures what it writes, and wants such a one only where there is no other. */
int br_pipe_take(struct br_pipe *pipe, bool avoid_fresh, bool *fresh);
void br_pipe_hand_over(struct br_pipe *pipe, uint32_t number);

/* The reader. The number of the buffer that the peer has handed over next, -EAGAIN: none yet, or
 * -EPROTO with a message. */
int br_pipe_arrived(const struct br_pipe *pipe);
/* That buffer has been read. Returns whether one went back to the peer, who may wait for it. */
bool br_pipe_keep(struct br_pipe *pipe, uint32_t number);

static inline uint8_t *br_pipe_buffer(const struct br_pipe *pipe, uint32_t number)
{
    return number < BR_PIPE_BUFFERS ? pipe->out->pipe + number * BR_PIPE_BUFFER
                                    : pipe->in->pipe + (number - BR_PIPE_BUFFERS) * BR_PIPE_BUFFER;
}

#endif
