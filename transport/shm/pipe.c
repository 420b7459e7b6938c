/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/pipe.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"

#define ALL        (2 * BR_PIPE_BUFFERS)
#define RING_SHIFT (BR_PIPE_BITS + 1)
/* An end that owns more gives back the coldest (note 3). */
#define MOST (BR_PIPE_BUFFERS + BR_PIPE_BUFFERS / 4)
/* As long as there are fresh ones, so many are taken before the next one of those (note 4). */
#define FRESH 8u

void br_pipe_init(struct br_pipe *pipe, struct br_inbox *in, struct br_inbox *out)
{
    memset(pipe, 0, sizeof *pipe);
    pipe->in = in;
    pipe->out = out;
    pipe->fresh = BR_PIPE_BUFFERS;
    memset(pipe->owned, true, BR_PIPE_BUFFERS);
}

/* The other end's number of a buffer: what is `out` for one is `in` for the other. The rings of an
 * inbox have those of its writer. */
static uint32_t pipe_theirs(uint32_t number)
{
    return number ^ BR_PIPE_BUFFERS;
}

/* Takes what the peer has given back, behind what is warmer. No more than there are, though a
 * hostile peer may go on writing. */
static void pipe_take_back(struct br_pipe *pipe)
{
    for (uint32_t i = 0; i < ALL; i++) {
        int number = br_inbox_entry(pipe->out->header->given, RING_SHIFT, pipe->returned);

        if (number < 0)
            return;
        pipe->returned++;
        if ((uint32_t)number >= ALL || pipe->owned[number])
            continue; /* forged, which harms its author only */
        pipe->owned[number] = true;
        pipe->warm[--pipe->coldest % ALL] = (uint8_t)number;
    }
}

bool br_pipe_has_room(const struct br_pipe *pipe)
{
    return pipe->coldest != pipe->warmest || pipe->fresh ||
           br_inbox_entry(pipe->out->header->given, RING_SHIFT, pipe->returned) >= 0;
}

int br_pipe_take(struct br_pipe *pipe, bool avoid_fresh, bool *fresh)
{
    bool grow = pipe->fresh && pipe->filled - pipe->grown >= FRESH && !avoid_fresh;

    if (pipe->coldest == pipe->warmest)
        pipe_take_back(pipe);
    if (pipe->coldest != pipe->warmest && !grow)
        return pipe->warm[--pipe->warmest % ALL];
    if (!pipe->fresh)
        return -EAGAIN;
    *fresh = true;
    pipe->grown = pipe->filled;
    return (int)--pipe->fresh;
}

void br_pipe_hand_over(struct br_pipe *pipe, uint32_t number)
{
    pipe->owned[number] = false;
    br_inbox_put_entry(pipe->out->header->filled, RING_SHIFT, pipe->filled++, number);
}

int br_pipe_arrived(const struct br_pipe *pipe)
{
    int entry = br_inbox_entry(pipe->in->header->filled, RING_SHIFT, pipe->arrived);

    if (entry < 0)
        return -EAGAIN;
    if ((uint32_t)entry >= ALL || pipe->owned[pipe_theirs((uint32_t)entry)])
        return br_error(EPROTO, "the peer hands over buffer %d of the pipe, which is not its",
                        entry);
    return (int)pipe_theirs((uint32_t)entry);
}

bool br_pipe_keep(struct br_pipe *pipe, uint32_t number)
{
    bool gave = false;

    pipe->arrived++;
    pipe->owned[number] = true;
    pipe->warm[pipe->warmest++ % ALL] = (uint8_t)number;
    pipe_take_back(pipe);
    while (pipe->warmest - pipe->coldest + pipe->fresh > MOST) {
        uint32_t coldest = pipe->warm[pipe->coldest++ % ALL];

        pipe->owned[coldest] = false;
        br_inbox_put_entry(pipe->in->header->given, RING_SHIFT, pipe->given++,
                           pipe_theirs(coldest));
        gave = true;
    }
    return gave;
}
