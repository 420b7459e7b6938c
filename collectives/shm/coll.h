/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A shared memory segment in which the ranks of one host publish small data to each other, for
 * collectives that are too short for frames. A collective is one or more epochs, numbered 1, 2, ...
 * alike on all ranks. A rank publishes each epoch into the next slot of its ring, and may be up to
 * BR_SHM_COLL_DEPTH - 1 epochs ahead of the slowest rank: whoever needs nothing of the others does
 * not wait for them.
 *
 * The numbered notes, with the proof, are in doc/design/shared_collectives.md.
 */
#ifndef BR_COLLECTIVES_SHM_COLL_H
#define BR_COLLECTIVES_SHM_COLL_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/prefetch.h"
#include "collectives/shm/past.h"

/* Epochs of a rank that others may still have to read: a power of two. */
#define BR_SHM_COLL_DEPTH 128u
/* Bytes of a chunk, what one rank publishes in one epoch. Measured with bench/shm_coll, 2 ranks on
 * 2 cores: 8 B are all-reduced in 0.13 us, 32 KiB in 5.5 us, 128 KiB in 21 us. The rate does not
 * fall with the size, so the caller sets the limit that it wants. */
#define BR_SHM_COLL_BYTES (128u << 10)
#define BR_SHM_COLL_SMALL 120u /* up to so many are beside the epoch's number */
/* Of a half of the ring of what a rank gives, where no ranks share a core and there are more than
 * two: measured with 4 KiB, 2 ranks, before these had places; twice as much is 20 % slower, as it
 * leaves the first-level cache. Where they share cores, all of it is used: the more calls a rank is
 * ahead, the less often the core changes hands. */
#define BR_SHM_COLL_WINDOW (8u << 10)
#define BR_SHM_COLL_RANKS  256u /* at most */
#define BR_SHM_COLL_NOTE   16u  /* bytes about an epoch, for error messages */

#define BR_SHM_COLL_LINE 64u
/* Of the ring of what a rank gives, which has two halves: what it gives in one epoch fits into one.
 * More than a chunk has only what goes in one round all the same (executor.h), so most of its pages
 * never exist. */
#define BR_SHM_COLL_HALF    (2u << 20)
#define BR_SHM_COLL_PAYLOAD (2 * (size_t)BR_SHM_COLL_HALF)
/* The ring of two ranks with a core each, which is one of places (note 8). A place has what is
 * given in one epoch. Those in use are powers of two, and hold twice a second-level cache: with
 * BR_SHM_COLL_PLACES one of 2 MiB, the largest that servers have. */
#define BR_SHM_COLL_PLACE         (32u << 10)
#define BR_SHM_COLL_PLACES        128u
#define BR_SHM_COLL_FEWEST_PLACES 16u
#define BR_SHM_COLL_PAGE          4096u
/* Bytes of all cells of a rank, each of which has BR_SHM_COLL_BYTES at most: a round costs a turn
 * of every rank, so cells are as large as they can be while those of all ranks, of 16 ranks 8 MiB,
 * stay in a third-level cache (note 13). */
#define BR_SHM_COLL_CELLS ((size_t)512 << 10)
static_assert(BR_SHM_COLL_CELLS / (BR_SHM_COLL_RANKS - 1) >= BR_SHM_COLL_LINE,
              "each pair of ranks has a cell");
/* Up to so many cores, each rank gives what all the others read once for the ranks of each core. */
#define BR_SHM_COLL_EACH 4u
/* Places for that, which are used by turns (note 16), and the bytes that each has. */
#define BR_SHM_COLL_COMMONS    2u
#define BR_SHM_COLL_COMMON     BR_SHM_COLL_BYTES
#define BR_SHM_COLL_CHECK_BITS 16
#define BR_SHM_COLL_ASKS       1u  /* beside `start`: the reader is to say what reading takes */
#define BR_SHM_COLL_APART      37u /* from a slot or place to the next; odd, so each has its turn */
/* epochs ahead, of the slot whose line is taken back from its readers (note 6) */
#define BR_SHM_COLL_SOON 3u

/* Numbers that all ranks read. */
enum br_shm_coll_number {
    BR_SHM_COLL_SPLIT_BYTES, /* all-reduces from this size on are split (split.h) */
    BR_SHM_COLL_LAYOUT, /* of which version of braid the segment is; in all of them at this place */
    BR_SHM_COLL_DIRECT, /* 1: ranks may try to read each other's memory (direct.h) */
    BR_SHM_COLL_BESIDE, /* how many ranks share a core; 0: nobody knows */
    BR_SHM_COLL_NUMBERS
};

/* Where what a rank gives in an epoch lies, if it has more than BR_SHM_COLL_SMALL bytes. */
enum br_shm_place {
    BR_SHM_IN_RING,   /* of its own: any number of ranks may read it */
    BR_SHM_IN_CELLS,  /* every rank gives every other one bytes that nobody else reads (note 13) */
    BR_SHM_IN_COMMON, /* every rank gives all others the same bytes (note 16) */
};

/* The segment is a header, and an area of each rank behind it, with the rank's ring. */
struct br_shm_coll_header {
    _Alignas(BR_SHM_COLL_PAGE) _Atomic uint64_t said[BR_SHM_COLL_NUMBERS];
};

/* By which ranks agree on what comes after an epoch (round.h). Numbers of operations, counted
 * from 1. */
struct br_shm_agenda {
    uint64_t submitted; /* of the last one that has been submitted to this rank */
    uint64_t next;      /* of the one that comes next; 0: the order stays as it is */
};

/* Of one epoch of one rank. */
struct br_shm_slot {
    /* with the check in the lowest BR_SHM_COLL_CHECK_BITS bits */
    _Alignas(2 * BR_SHM_COLL_LINE) _Atomic uint64_t epoch;
    union {
        uint8_t small[BR_SHM_COLL_SMALL];
        struct { /* of none or more than BR_SHM_COLL_SMALL bytes */
            /* in the rank's payload; and perhaps BR_SHM_COLL_ASKS */
            uint64_t start;
            struct br_shm_agenda agenda;
        };
    };
};
static_assert(sizeof(struct br_shm_slot) == 2 * BR_SHM_COLL_LINE, "a slot has no padding");

struct br_shm_area {
    struct br_shm_slot slots[BR_SHM_COLL_DEPTH];
    /* 1: an operation of this rank has ended with an error, so its buffers are its program's again;
     * nothing that another rank reads in them from now on counts (direct.h, mapped.h). For good, as
     * the communicator has failed. */
    _Alignas(BR_SHM_COLL_LINE) _Atomic uint32_t withdrawn;
    uint8_t notes[BR_SHM_COLL_DEPTH][BR_SHM_COLL_NOTE];
    /* ns that this rank took to read the data that it was last asked about, with the lowest 32 bits
     * of their epoch above them (past.h) */
    _Alignas(BR_SHM_COLL_LINE) _Atomic uint64_t took;
    /* one for each other rank, in the order of the ranks (note 13) */
    _Alignas(BR_SHM_COLL_LINE) uint8_t cells[BR_SHM_COLL_CELLS];
    _Alignas(
        BR_SHM_COLL_PAGE) uint8_t common[BR_SHM_COLL_COMMONS][BR_SHM_COLL_EACH][BR_SHM_COLL_COMMON];
    _Alignas(BR_SHM_COLL_PAGE) uint8_t payload[]; /* the ring, of br_shm_coll.ring bytes */
};

struct br_shm_coll {
    uint8_t *base; /* NULL: not open */
    size_t bytes;
    uint32_t ranks, rank;
    /* every rank is known to have published this epoch: what was published before it has been read
     */
    uint64_t floor;
    /* of this rank's payload, which is a ring: where the last part begins that this rank had put
     * there by each of the last epochs, and where the last one of all begins and ends */
    uint64_t starts[BR_SHM_COLL_DEPTH], last, end;
    size_t ring;        /* bytes of a rank's payload */
    size_t window;      /* how much of each half of it is used by what fits there */
    uint32_t places;    /* of it that are in use, from its start; 0: it has halves (note 8) */
    size_t cell_bytes;  /* of a cell */
    uint32_t beside;    /* ranks that share a core */
    uint64_t exchanges; /* begun so far, on all ranks the same */
    uint64_t commons;   /* the same of what ranks give all others */
    uint64_t asked;     /* epoch whose reader is asked (past.h) and has not answered; 0: none */
    struct br_shm_past past; /* how this rank copies into its payload */
};

/* One rank creates the segment and sends *fd to the other ranks (br_shm_link_send_fd()), which
 * attach. in_places, on all ranks the same: rings are of places, so nobody gives more than
 * BR_SHM_COLL_PLACE bytes in an epoch. fd stays the caller's, who closes it, in both functions;
 * when create fails there is none. Return 0, or with a message -EINVAL, -ENOMEM, -EMFILE, or
 * -EPROTO: no segment for so many ranks. */
int br_shm_coll_create(struct br_shm_coll *coll, uint32_t ranks, uint32_t rank, bool in_places,
                       int *fd);
int br_shm_coll_attach(struct br_shm_coll *coll, uint32_t ranks, uint32_t rank, bool in_places,
                       int fd);

/* Makes the pages of this rank's places, if it has any, so that the first calls need not wait for
 * the kernel: 2 MiB take some 1 ms. Before the first epoch. Where memory is scarce each page is
 * made when it is first written, as others are. */
void br_shm_coll_populate(struct br_shm_coll *coll);

/* Unmaps the segment; the other ranks keep their mappings. An all-zero structure is allowed. */
void br_shm_coll_close(struct br_shm_coll *coll);

/* The one that creates the segment says the numbers before it sends the descriptor. 0 at first. */
uint64_t br_shm_coll_said(const struct br_shm_coll *coll, enum br_shm_coll_number which);
void br_shm_coll_say(struct br_shm_coll *coll, enum br_shm_coll_number which, uint64_t number);

static inline struct br_shm_area *br_shm_coll_area(const struct br_shm_coll *coll, uint32_t rank)
{
    return (struct br_shm_area *)(coll->base + sizeof(struct br_shm_coll_header) +
                                  rank * (sizeof(struct br_shm_area) + coll->ring));
}

static inline struct br_shm_slot *br_shm_coll_slot(const struct br_shm_coll *coll, uint32_t rank,
                                                   uint64_t epoch)
{
    /* note 6: slots of epochs that follow each other are apart */
    return &br_shm_coll_area(coll, rank)->slots[epoch * BR_SHM_COLL_APART % BR_SHM_COLL_DEPTH];
}

/* None of the functions below blocks or fails. epoch >= 1, bytes <= BR_SHM_COLL_HALF, in a ring of
 * places <= BR_SHM_COLL_PLACE. One thread at a time for one rank. */

/* What br_shm_coll_space() has room for. */
static inline size_t br_shm_coll_most(const struct br_shm_coll *coll)
{
    return coll->places ? BR_SHM_COLL_PLACE : BR_SHM_COLL_BYTES;
}

/* Returns whether this rank may publish its next epoch, with so many bytes (note 2): always when
 * every rank has published the one before. */
/* find_room: looks at the other ranks if what this rank knows of them does not do. */
bool br_shm_coll_find_room(struct br_shm_coll *coll, uint64_t epoch, size_t bytes);
static inline bool br_shm_coll_may_publish(struct br_shm_coll *coll, uint64_t epoch, size_t bytes)
{
    return (bytes <= BR_SHM_COLL_SMALL && epoch - coll->floor < BR_SHM_COLL_DEPTH) ||
           br_shm_coll_find_room(coll, epoch, bytes);
}

/* Every rank has published the epoch, as this rank has seen: saves it a look. */
static inline void br_shm_coll_learn(struct br_shm_coll *coll, uint64_t epoch)
{
    coll->floor = epoch;
}

/* Publishes this rank's data of an epoch, with the check of its call (note 10). data NULL: they are
 * where br_shm_coll_space() says, of br_shm_coll_most() bytes. */
void br_shm_coll_publish(struct br_shm_coll *coll, uint64_t epoch, uint16_t check, const void *data,
                         size_t bytes);

/* The same for up to BR_SHM_COLL_SMALL bytes. */
static inline void br_shm_coll_publish_small(struct br_shm_coll *coll, uint64_t epoch,
                                             uint16_t check, const void *data, size_t bytes)
{
    struct br_shm_slot *slot = br_shm_coll_slot(coll, coll->rank, epoch);

    if (bytes)
        memcpy(slot->small, data, bytes);
    coll->starts[epoch % BR_SHM_COLL_DEPTH] = coll->last;
    atomic_store_explicit(&slot->epoch, epoch << BR_SHM_COLL_CHECK_BITS | check,
                          memory_order_release);
    slot = br_shm_coll_slot(coll, coll->rank, epoch + BR_SHM_COLL_SOON);
    br_prefetch_to_write(slot);
    if (bytes > BR_SHM_COLL_LINE - sizeof slot->epoch)
        br_prefetch_to_write((uint8_t *)slot + BR_SHM_COLL_LINE);
}

/* Where br_shm_coll_most() bytes of the next epoch go, which this rank may publish with as many. */
void *br_shm_coll_space(struct br_shm_coll *coll, uint64_t epoch);

/* A note of BR_SHM_COLL_NOTE bytes beside the epoch, which no rank reads while all goes well. It is
 * written before the epoch is published and may be read when the epoch is ready. */
static inline void br_shm_coll_describe(struct br_shm_coll *coll, uint64_t epoch, const void *note)
{
    memcpy(br_shm_coll_area(coll, coll->rank)->notes[epoch % BR_SHM_COLL_DEPTH], note,
           BR_SHM_COLL_NOTE);
}

/* Says the agenda with an epoch of none or more than BR_SHM_COLL_SMALL bytes; as the note, before
 * it is published. Only epochs with which it was said have one. */
static inline void br_shm_coll_set_agenda(struct br_shm_coll *coll, uint64_t epoch,
                                          struct br_shm_agenda agenda)
{
    br_shm_coll_slot(coll, coll->rank, epoch)->agenda = agenda;
}

static inline struct br_shm_agenda br_shm_coll_agenda(const struct br_shm_coll *coll, uint32_t rank,
                                                      uint64_t epoch)
{
    return br_shm_coll_slot(coll, rank, epoch)->agenda;
}

static inline const void *br_shm_coll_description(const struct br_shm_coll *coll, uint32_t rank,
                                                  uint64_t epoch)
{
    return br_shm_coll_area(coll, rank)->notes[epoch % BR_SHM_COLL_DEPTH];
}

/* Returns whether `rank` has published this epoch, which this rank has not left behind: the slot
 * has this one, or one a whole ring later. */
static inline bool br_shm_coll_ready(const struct br_shm_coll *coll, uint32_t rank, uint64_t epoch)
{
    return atomic_load_explicit(&br_shm_coll_slot(coll, rank, epoch)->epoch,
                                memory_order_acquire) >>
           BR_SHM_COLL_CHECK_BITS >= epoch;
}

/* The same, and with this check. false: not yet, or with another one. */
static inline bool br_shm_coll_published(const struct br_shm_coll *coll, uint32_t rank,
                                         uint64_t epoch, uint16_t check)
{
    return atomic_load_explicit(&br_shm_coll_slot(coll, rank, epoch)->epoch,
                                memory_order_acquire) == (epoch << BR_SHM_COLL_CHECK_BITS | check);
}

/* Returns the first epoch that `rank` has not published, or `end` if it has published all before
 * it. end: at most the one after this rank's last. */
uint64_t br_shm_coll_missing(const struct br_shm_coll *coll, uint32_t rank, uint64_t end);

/* Of an epoch that is ready: the check that `rank` published, and its data. The data are valid
 * until this rank publishes epoch + 1. bytes: as published. */
static inline uint16_t br_shm_coll_check(const struct br_shm_coll *coll, uint32_t rank,
                                         uint64_t epoch)
{
    return (uint16_t)atomic_load_explicit(&br_shm_coll_slot(coll, rank, epoch)->epoch,
                                          memory_order_relaxed);
}

static inline const void *br_shm_coll_data(const struct br_shm_coll *coll, uint32_t rank,
                                           uint64_t epoch, size_t bytes)
{
    const struct br_shm_slot *slot = br_shm_coll_slot(coll, rank, epoch);
    uint64_t start;

    if (bytes <= BR_SHM_COLL_SMALL)
        return slot->small;
    /* read once: whatever another rank writes there, nothing outside of the payload is accessed */
    start = __atomic_load_n(&slot->start, __ATOMIC_RELAXED) & ~(uint64_t)BR_SHM_COLL_ASKS;
    return br_shm_coll_area(coll, rank)->payload + (start <= coll->ring - bytes ? start : 0);
}

/* Does the writer of these data, of a ring of places, ask what reading them takes (past.h)? Then
 * the reader says it: before it reads and behind it. */
static inline bool br_shm_coll_asks(const struct br_shm_coll *coll, uint32_t rank, uint64_t epoch,
                                    size_t bytes)
{
    return bytes >= BR_SHM_PAST_LEAST &&
           __atomic_load_n(&br_shm_coll_slot(coll, rank, epoch)->start, __ATOMIC_RELAXED) &
               BR_SHM_COLL_ASKS;
}
uint64_t br_shm_coll_begin_answer(void);
void br_shm_coll_answer(const struct br_shm_coll *coll, uint64_t epoch, uint64_t began);

/* Exchanges: in an epoch every rank gives every other one up to coll->cell_bytes bytes, which lie
 * in a cell that nobody else reads (note 13). This begins one. By then this rank has read what the
 * one before gave it; or, where it will not, it has seen that all ranks have published that epoch.
 */
static inline void br_shm_coll_exchange(struct br_shm_coll *coll)
{
    coll->exchanges++;
}

/* Where the bytes are that `from` gives `to` in the exchange that was begun last. One of the two is
 * this rank, which writes before it publishes the epoch, and reads when the other one has. */
static inline uint8_t *br_shm_coll_cell(const struct br_shm_coll *coll, uint32_t from, uint32_t to)
{
    bool swapped = coll->exchanges % 2;
    uint32_t at = swapped ? to : from, other = swapped ? from : to;

    return br_shm_coll_area(coll, at)->cells + (other - (other > at)) * coll->cell_bytes;
}

/* Ranks [0, beside), [beside, 2 beside), ... share a core each, as rank 0 says; 1 where that is no
 * divisor of the number of ranks, as of ranks that do not share their cores evenly. */
void br_shm_coll_set_beside(struct br_shm_coll *coll, uint64_t beside);

/* May ranks give all others the same in common? Else it lies in the ring. */
static inline bool br_shm_coll_has_common(const struct br_shm_coll *coll)
{
    return coll->ranks <= BR_SHM_COLL_EACH * coll->beside;
}

/* In an epoch every rank gives all others the same up to BR_SHM_COLL_COMMON bytes, once for the
 * ranks of each core, and publishes no epoch before it has seen that of all (note 16). This begins
 * it. */
static inline void br_shm_coll_begin_common(struct br_shm_coll *coll)
{
    coll->commons++;
}

/* Where the bytes are that `from` gives `to`, one of which is this rank, in the one that was begun
 * last. Two ranks of two cores write by turns where they give the other core's ranks. */
static inline uint8_t *br_shm_coll_common(const struct br_shm_coll *coll, uint32_t from,
                                          uint32_t to)
{
    uint64_t which = coll->commons % BR_SHM_COLL_COMMONS;
    bool swapped = coll->commons / BR_SHM_COLL_COMMONS % 2;
    uint32_t of = from / coll->beside, core = to / coll->beside;
    uint32_t at = swapped ? core * coll->beside + from % coll->beside : from;

    return br_shm_coll_area(coll, at)->common[which][swapped ? of : core];
}

/* Begins an exchange or what is common, and writes what this rank gives before it publishes the
 * epoch: each other rank's bytes are `stride` behind those of the rank before it, or the same (0),
 * as they are for BR_SHM_IN_COMMON. */
void br_shm_coll_give(struct br_shm_coll *coll, enum br_shm_place place, const void *from,
                      size_t stride, size_t bytes);

/* Where in cells or in common `rank`, which has published the epoch, has given this one bytes. */
static inline const uint8_t *br_shm_coll_given(const struct br_shm_coll *coll,
                                               enum br_shm_place place, uint32_t rank)
{
    return place == BR_SHM_IN_CELLS ? br_shm_coll_cell(coll, rank, coll->rank)
                                    : br_shm_coll_common(coll, rank, coll->rank);
}

/* Before the error is told. */
static inline void br_shm_coll_withdraw(struct br_shm_coll *coll)
{
    atomic_store_explicit(&br_shm_coll_area(coll, coll->rank)->withdrawn, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst); /* before what the program writes there next */
}

/* Behind the reads that are not to count then. */
static inline bool br_shm_coll_has_withdrawn(const struct br_shm_coll *coll, uint32_t rank)
{
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&br_shm_coll_area(coll, rank)->withdrawn, memory_order_relaxed);
}

#endif
