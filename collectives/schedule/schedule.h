/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A schedule: the immutable list of steps of one collective for one rank. Steps name chunks of
 * buffers, never bytes; doc/design/schedule.md says what chunks, spans and edges mean. A schedule
 * may be shared by any number of operations and threads.
 */
#ifndef BR_COLLECTIVES_SCHEDULE_SCHEDULE_H
#define BR_COLLECTIVES_SCHEDULE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum br_collective {
    BR_ALLREDUCE,
    BR_REDUCE_SCATTER, /* INPUT: n blocks; OUTPUT: block `rank` */
    BR_ALLGATHER,      /* INPUT: 1 block; OUTPUT: n blocks */
    BR_BROADCAST,      /* INPUT counts on the root only */
    BR_REDUCE,         /* OUTPUT counts on the root only */
    BR_BARRIER,        /* an allreduce of no elements: every message is empty */
    BR_ALLTOALL, /* INPUT: n blocks, block r for rank r; OUTPUT: n blocks, block r from rank r */
    BR_GATHER,   /* INPUT: 1 block; OUTPUT: n blocks, counts on the root only */
    BR_SCATTER,  /* INPUT: n blocks, counts on the root only; OUTPUT: block `rank` */
    BR_SCAN,     /* OUTPUT: the reduction of the INPUTs of ranks 0 to `rank`, in this order */
    BR_EXSCAN,   /* of ranks 0 to `rank` - 1; rank 0 has no OUTPUT */
    BR_COLLECTIVES,
};

enum br_buffer { BR_INPUT, BR_OUTPUT, BR_SCRATCH, BR_BUFFERS };

enum br_step_kind { BR_STEP_SEND, BR_STEP_RECV, BR_STEP_REDUCE, BR_STEP_COPY };

enum br_step_flag {
    /* REDUCE: completes the value; BRAID_AVG divides by n here and only here */
    BR_STEP_FINAL = 1,
    BR_STEP_MAY_MAP = 2, /* RECV: section 6 of doc/design/schedule.md */
};

#define BR_LEVEL_ANY 255 /* the message may use every rail of the peer */

struct br_span {
    uint32_t buffer; /* enum br_buffer */
    uint32_t first;  /* chunk */
    uint32_t count;  /* chunks, at least 1 */
};

struct br_source {
    struct br_span span;
    /* the RECV step with BR_STEP_MAY_MAP whose bytes these are; -1: they are in `span` */
    int32_t recv;
    bool given; /* the bytes are those that the caller gave: no step before has written there */
};

struct br_step {
    uint8_t kind;  /* enum br_step_kind */
    uint8_t flags; /* enum br_step_flag, or-ed */
    /* SEND, RECV: the level of the network that the generator meant, or BR_LEVEL_ANY */
    uint8_t level;
    uint8_t sized_by; /* BR_INPUT or BR_OUTPUT */
    uint32_t peer;    /* SEND, RECV: rank */
    /* SEND, RECV: number of the message among those of this pair and direction, from 0 */
    uint32_t match;
    struct br_span span; /* SEND: what is read; else what is written */
    /* bytes of every span of the step = those of pieces piece .. piece + span.count - 1 ... */
    uint32_t piece;
    /* ... of this block of user buffer `sized_by`, where blocks differ in size (engine/blocks.h) */
    uint32_t block;
    uint32_t first_source; /* REDUCE, COPY: index into sources[] */
    /* REDUCE: at least 1, combined in this order; one may be exactly `span`. COPY: 1 */
    uint32_t n_sources;
    uint32_t n_dependencies; /* steps that must end before this one may start */
    /* index into successors[]: the steps that wait for the end of this one */
    uint32_t first_successor;
    uint32_t n_successors;
};

struct br_schedule {
    enum br_collective collective;
    uint32_t n, rank, root;
    bool in_place;
    /* fragments go one behind the other: transfers of an earlier one first (engine/fragment.c, note
     * 3) */
    bool follows;
    uint32_t pieces; /* of each block */
    /* every step of this rank moves pieces of one block and names it (br_step.block): so blocks may
     * differ in size */
    bool by_block;
    /* blocks, where they are cut pieces of them, that a message of any rank holds at most; more
     * than 1 only where pieces is 1 or the schedule is uncut */
    uint32_t packed;
    /* runs in one fragment, of blocks that `pieces` divides evenly: so a span of a user buffer may
     * hold several blocks, and all pieces have one size */
    bool uncut;
    uint32_t n_steps, n_sources, n_successors, n_ready;
    const struct br_step *steps;
    const struct br_source *sources;
    const uint32_t *successors; /* step indexes */
    const uint32_t *ready;      /* steps without dependencies, ascending */
    uint32_t n_scratch;         /* chunks, each with room for the largest piece */
    uint32_t n_sends, n_recvs;
    uint32_t max_span;    /* chunks of the longest span */
    uint32_t max_sources; /* of one step */
};

/* Do the chunks of scratch follow each other without gaps? Then a span may be read in other parts
 * than those in which it was written. */
static inline bool br_schedule_even(const struct br_schedule *schedule)
{
    return schedule->pieces == 1 || schedule->uncut;
}

/* Does the collective have a root? */
static inline bool br_collective_rooted(enum br_collective collective)
{
    return collective == BR_BROADCAST || collective == BR_REDUCE || collective == BR_GATHER ||
           collective == BR_SCATTER;
}

/* Does INPUT, or OUTPUT, count on the root only? */
static inline bool br_collective_from_root(enum br_collective collective)
{
    return collective == BR_BROADCAST || collective == BR_SCATTER;
}

static inline bool br_collective_to_root(enum br_collective collective)
{
    return collective == BR_REDUCE || collective == BR_GATHER;
}

/* Are values of different ranks reduced? */
static inline bool br_collective_reduces(enum br_collective collective)
{
    return collective == BR_ALLREDUCE || collective == BR_REDUCE ||
           collective == BR_REDUCE_SCATTER || collective == BR_SCAN || collective == BR_EXSCAN;
}

/* Do the blocks of all ranks, each of which ends with one, make up the other buffer? */
static inline bool br_collective_by_blocks(enum br_collective collective)
{
    return collective == BR_REDUCE_SCATTER || collective == BR_ALLGATHER;
}

/* Does a rank have a result? */
static inline bool br_collective_writes(enum br_collective collective, uint32_t rank, uint32_t root)
{
    return br_collective_to_root(collective) ? rank == root : collective != BR_EXSCAN || rank > 0;
}

/* Blocks of a user buffer: 1, or n where the buffer holds a block of each rank. */
static inline uint32_t br_collective_blocks(enum br_collective collective, uint32_t n,
                                            enum br_buffer buffer)
{
    switch (collective) {
    case BR_REDUCE_SCATTER:
    case BR_SCATTER:
        return buffer == BR_INPUT ? n : 1;
    case BR_ALLGATHER:
    case BR_GATHER:
        return buffer == BR_OUTPUT ? n : 1;
    case BR_ALLTOALL:
        return n;
    default:
        return 1;
    }
}

/* The name of a collective, "allreduce", ...; and back: find returns 0, or -EINVAL with a message.
 */
const char *br_collective_name(enum br_collective collective);
/* The name of its form with blocks of different sizes, "allgatherv"; NULL: there is none. */
const char *br_collective_uneven_name(enum br_collective collective);
int br_collective_find(const char *name, enum br_collective *collective);

/* First element of a piece when `elements` of one block are cut into `pieces`; piece == pieces
 * gives elements. */
static inline size_t br_piece_offset(size_t elements, uint32_t pieces, uint32_t piece)
{
    size_t longer = elements % pieces; /* the first pieces are one element longer */

    return elements / pieces * piece + (piece < longer ? piece : longer);
}

/* Elements of the largest piece: the room of one scratch chunk. */
static inline size_t br_piece_max(size_t elements, uint32_t pieces)
{
    return (elements + pieces - 1) / pieces;
}

/*
 * Fragments: a collective is cut into ranges of elements, the same range of every block, each of
 * which runs the schedule once. Several fragments under way pipeline the steps: one is reduced
 * while the next one travels. All ranks must cut alike, so the cut depends only on what they agree
 * about.
 */

/* Smaller pieces cost more in messages than pipelining gains. */
#define BR_CHUNK_MIN_BYTES (64u << 10)

/*
 * Returns the number of fragments; 0: the block is larger than 65,536 fragments can carry.
 * elements: of one block; element_bytes: bytes of one element (of all the blocks that a message
 * holds); pieces: of the schedule; chunk_bytes: target size of a piece of a fragment. serial: no
 * fragment travels while another is reduced, so none is made for that (2 ranks, 1 MiB in one
 * fragment instead of four: over loopback 275 instead of 300 us, in shared memory 197 instead of
 * 220). A message is at most one such block of one fragment, thus at most BR_MAX_TRANSFER.
 */
uint32_t br_fragment_count(size_t elements, size_t element_bytes, uint32_t pieces,
                           size_t chunk_bytes, bool serial);

/*
 * The in-place rule: gives the name under which the steps of a rank know a span. Allreduce,
 * broadcast, reduce, alltoall: INPUT is OUTPUT (reduce: on the root only). Allgather, gather: INPUT
 * is block `rank` of OUTPUT (gather: on the root only). Reduce-scatter, scatter: block `rank` of
 * INPUT is OUTPUT (scatter: on the root only); a span that holds other blocks, too, stays INPUT,
 * and is asked about chunk by chunk. Barrier: nothing, its buffers have no bytes.
 */
struct br_span br_span_alias(const struct br_schedule *schedule, struct br_span span);

/* What is wrong with a span for reading or writing in this schedule, as text, or NULL. */
const char *br_span_fault(const struct br_schedule *schedule, struct br_span span, bool write);

bool br_span_overlap(struct br_span a, struct br_span b);

/* Frees a schedule; NULL is fine. */
void br_schedule_free(struct br_schedule *schedule);

#endif
