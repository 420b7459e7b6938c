/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An inbox: the shared memory through which one end of a link receives. Each end makes its own and
 * gives it to the other, so that its sizes are those of the receiver's configuration. The reader is
 * the end that made it, the writer is the peer. Nothing that is read from here is trusted.
 *
 *     header | cells | returns | message area | pipe
 *
 * The numbered notes are in doc/design/shared_memory.md.
 */
#ifndef BR_TRANSPORT_SHM_INBOX_H
#define BR_TRANSPORT_SHM_INBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/frame.h"

#define BR_INBOX_DATA        128u /* DATA frames in flight in one direction, at most */
#define BR_PIPE_BITS         6
#define BR_PIPE_BUFFERS      (1u << BR_PIPE_BITS) /* of the pipe, in one inbox */
#define BR_PIPE_BUFFER       (16u << 10)          /* bytes of one */
#define BR_INBOX_MAX_BUFFERS 4096u
#define BR_INBOX_TURNS       16u /* buffers of a message ticket, used in turn (note 8) */
#define BR_INBOX_STRIDE      37u /* of cells, which must be odd */
#define BR_INBOX_MAX_MESSAGE (1u << 20)
#define BR_SHM_SEGMENTS      128 /* announced on one link in one direction, at most */

/* Where the payload of a frame is. */
enum br_inbox_source {
    BR_SOURCE_NONE,    /* MESSAGE: in buffer `slot` of its ticket */
    BR_SOURCE_SEGMENT, /* at `address` of the writer's segment `segment_id`, announced as number
                          `segment` */
    BR_SOURCE_PIPE,    /* comes through the pipe, in full buffers but for the last */
    BR_SOURCE_DIRECT,  /* at `address` of the writer's process, whom `token` identifies */
    BR_SOURCE_KEPT,    /* MESSAGE: in the writer's own inbox, in the buffer of ticket `slot` of the
                          reader's, which goes back to the reader with the message (note 7) */
};

/* One frame, as it stands in the ring. */
struct br_inbox_cell {
    _Atomic uint32_t sequence; /* position + 1 once written */
    uint32_t length;
    uint32_t slot;   /* DATA; MESSAGE: which buffer, or the ticket of BR_SOURCE_KEPT */
    uint32_t offset; /* DATA; MESSAGE: the ticket, so that one line is enough */
    uint8_t inline_[BR_FRAME_INLINE];
    /* The second line is read for DATA frames only. */
    uint64_t address;
    uint32_t segment_id;
    uint16_t segment;
    uint16_t ticket;
    uint64_t token_address, token; /* BR_SOURCE_DIRECT */
    uint8_t measured;              /* 1: the writer asks what it takes (br_inbox_header.took) */
    uint8_t unused[31];
};
static_assert(sizeof(struct br_inbox_cell) == 128, "a cell is two cache lines");

/* of `length`; above: 3 bits enum br_frame_kind, 4 bits enum br_inbox_source */
#define BR_CELL_LENGTH_BITS 25
static_assert(BR_FRAME_MAX_PAYLOAD < 1u << BR_CELL_LENGTH_BITS,
              "a length fits beside kind and source");

enum br_inbox_sleep {
    BR_AWAKE,
    BR_ASLEEP,  /* the reader of this inbox sleeps: wake it for frames and returned DATA tickets */
    BR_STARVED, /* and it had no message ticket left: wake it for returned message tickets, too */
};

/* What the reader says of a DATA frame when it returns the ticket (br_inbox_header.took). */
#define BR_TOOK_UNKNOWN 0u         /* it was not wanted, or is none of those that are measured */
#define BR_TOOK_REFUSED UINT32_MAX /* the kernel does not let it read that: post it otherwise */

/* A region of the writer's that the reader reads and writes in place. */
struct br_inbox_shared {
    _Atomic uint64_t id; /* br_region.id + 1; 0: none, or not any more */
    uint64_t bytes;      /* of the region; written before `id` */
};

struct br_inbox_header {
    /* enum br_inbox_sleep; the reader sets it, who wakes the reader clears it */
    _Alignas(64) _Atomic uint32_t sleep;
    /* the writer has closed its link: what it posted may change from now on */
    _Alignas(64) _Atomic uint32_t closed;
    /* Rings of numbers of the pipe's buffers (pipe.h), as br_inbox_put_entry() makes them: what the
     * writer hands over, and what the reader gives back. */
    _Alignas(64) _Atomic uint32_t filled[2 * BR_PIPE_BUFFERS];
    _Alignas(64) _Atomic uint32_t given[2 * BR_PIPE_BUFFERS];
    /* ns for which the reader was busy with a frame through the pipe or read directly, or
     * BR_TOOK_*; by DATA ticket, written before the ticket is returned */
    _Alignas(64) _Atomic uint32_t took[BR_INBOX_DATA];
    /* entries of `shared` that have ever been used are below; the writer sets it */
    _Alignas(64) _Atomic uint32_t n_shared;
    _Alignas(64) struct br_inbox_shared shared[BR_SHM_SEGMENTS]; /* by number of the segment */
};

/* One end's private view of an inbox. */
struct br_inbox {
    struct br_inbox_header *header; /* NULL: not mapped */
    struct br_inbox_cell *cells;
    _Atomic uint32_t *returns;
    uint8_t *messages;
    uint8_t *pipe; /* BR_PIPE_BUFFERS buffers */
    size_t bytes;  /* of the segment */
    uint32_t message_bytes, message_stride;
    uint32_t message_buffers;
    uint32_t n_tickets;
    uint32_t mask;  /* of cells and of returns: their number, a power of two, less one */
    uint32_t shift; /* log2 of that number */
};

/* Makes and maps an inbox; *fd is the caller's, to pass on and close. -EINVAL, -ENOMEM, -EMFILE
 * with a message. */
int br_inbox_create(struct br_inbox *inbox, uint32_t message_bytes, uint32_t message_buffers,
                    int *fd);
/* Maps the inbox that the peer made, sizes as it told; fd stays the caller's. -EPROTO with a
 * message when it lies. */
int br_inbox_attach(struct br_inbox *inbox, uint32_t message_bytes, uint32_t message_buffers,
                    int fd);
void br_inbox_unmap(struct br_inbox *inbox); /* safe on a zeroed one */

/* The writer: fills in everything but the turn, then publishes. Cells that follow each other lie so
 * far apart (an odd number, so each has its turn) that the reader's core does not fetch the next
 * ones while they are written (note 6). */
static inline struct br_inbox_cell *br_inbox_cell(const struct br_inbox *inbox, uint32_t position)
{
    return &inbox->cells[position * BR_INBOX_STRIDE & inbox->mask];
}

static inline void br_inbox_publish(struct br_inbox_cell *cell, uint32_t position)
{
    atomic_store_explicit(&cell->sequence, position + 1, memory_order_release);
}

/* The reader: has the cell at this position been written? */
static inline bool br_inbox_ready(const struct br_inbox *inbox, uint32_t position)
{
    struct br_inbox_cell *cell = br_inbox_cell(inbox, position);

    return atomic_load_explicit(&cell->sequence, memory_order_acquire) == position + 1;
}

/* Lap of a position in a ring of entries, never the value that its place holds before it is
 * written. */
static inline uint32_t br_inbox_lap(uint32_t shift, uint32_t position)
{
    return ((position >> shift) + 1) & 0xffff;
}

/* A ring of 1 << shift entries of 16 bits, with one writer, who never overtakes the reader. */
static inline void br_inbox_put_entry(_Atomic uint32_t *ring, uint32_t shift, uint32_t position,
                                      uint32_t entry)
{
    atomic_store_explicit(&ring[position & ((1u << shift) - 1)],
                          br_inbox_lap(shift, position) << 16 | entry, memory_order_release);
}

/* The entry at this position (not checked), or -1: none yet. */
static inline int br_inbox_entry(const _Atomic uint32_t *ring, uint32_t shift, uint32_t position)
{
    uint32_t entry =
        atomic_load_explicit(&ring[position & ((1u << shift) - 1)], memory_order_acquire);

    return entry >> 16 == br_inbox_lap(shift, position) ? (int)(entry & 0xffff) : -1;
}

/* The reader gives a ticket back. */
static inline void br_inbox_return(const struct br_inbox *inbox, uint32_t position, uint32_t ticket)
{
    br_inbox_put_entry(inbox->returns, inbox->shift, position, ticket);
}

/* The writer: the ticket at this position of `returns` (not checked), or -1: none yet. */
static inline int br_inbox_returned(const struct br_inbox *inbox, uint32_t position)
{
    return br_inbox_entry(inbox->returns, inbox->shift, position);
}

/* Buffer `turn` of a message ticket. */
static inline uint8_t *br_inbox_message(const struct br_inbox *inbox, uint32_t ticket,
                                        uint32_t turn)
{
    uint8_t *first = inbox->messages + (size_t)ticket * inbox->message_stride;

    if (__builtin_expect(!turn, 1)) /* a small message does not wait for the product */
        return first;
    return first + (size_t)turn * inbox->message_buffers * inbox->message_stride;
}

#endif
