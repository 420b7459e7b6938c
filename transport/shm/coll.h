/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A shared segment: one segment on which the ranks of one host publish small data to each other,
 * for collectives that are too short for frames. Each rank owns two areas, used in turn.
 *
 * 1. A collective is one or more rounds, numbered 1, 2, ... alike on all ranks. In round s a rank
 *    publishes into its area s % 2 and reads the areas s % 2 of others.
 * 2. A rank may publish round s when every rank has published s - 1 (br_shm_coll_may_publish()).
 *    Proof: the area was last used in round s - 2. Whoever has published s - 1 has finished its
 *    reads of s - 2, by the program order of a rank. So nobody reads what is overwritten. In a
 *    collective where every rank reads from all, that has been waited for anyway.
 * 3. A round is read when its number is there (acquire, against the release of the writer). The
 *    number cannot run ahead by two rounds while somebody still reads, by 2.
 * 4. Up to BR_SHM_COLL_SMALL bytes stand in the cache line of the number: publishing and reading
 *    them is one transfer of one line, about 0.1 us. Rejected: number and data apart, which costs a
 *    second transfer of a line; a counter that all ranks increment, which makes them wait for each
 *    other's line.
 * 5. Rejected: one area a rank, which needs a second round trip ("all have read") before the next
 *    round.
 * 6. Lengths are not on the shared segment: every rank knows them from the collective. With the
 *    number stand 16 bits of the caller's, by which ranks that make different calls notice; it
 *    costs nothing, as they are read in one go with the number.
 */
#ifndef BR_TRANSPORT_SHM_COLL_H
#define BR_TRANSPORT_SHM_COLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Published by one rank in one round, at most. Measured with bench/shared segment, 2 ranks on 2
 * cores: 8 B all-reduced in 0.13 us, 32 KiB in 5.5 us, 128 KiB in 21 us: it loses nothing with the
 * size, so the caller sets the limit that it wants. */
#define BR_SHM_COLL_BYTES (128u << 10)
#define BR_SHM_COLL_SMALL 56u
#define BR_SHM_COLL_RANKS 256u /* at most */
#define BR_SHM_COLL_NOTE  16u  /* bytes about a round, for error messages */

struct br_shm_coll {
    uint8_t *base; /* NULL: not open */
    size_t bytes;
    uint32_t ranks, rank;
};

/* One rank makes the shared segment and hands *fd (then its to close) to the others
 * (br_shm_link_send_fd()), which attach. -EINVAL, -ENOMEM, -EMFILE, -EPROTO (no shared segment of
 * so many ranks) with a message. attach leaves fd to the caller. */
int br_shm_coll_create(struct br_shm_coll *board, uint32_t ranks, uint32_t rank, int *fd);
int br_shm_coll_attach(struct br_shm_coll *board, uint32_t ranks, uint32_t rank, int fd);
/* safe on a zeroed one; the others keep theirs */
void br_shm_coll_close(struct br_shm_coll *board);

/* None of these blocks or fails; round >= 1, bytes <= BR_SHM_COLL_BYTES. One thread a rank at a
 * time. */
bool br_shm_coll_may_publish(const struct br_shm_coll *board, uint64_t round);
void br_shm_coll_publish(struct br_shm_coll *board, uint64_t round, uint16_t check,
                         const void *data, size_t bytes);
/* The same without a copy: the caller writes `bytes` at br_shm_coll_slot() and then commits. */
void *br_shm_coll_slot(struct br_shm_coll *board, uint64_t round, size_t bytes);
void br_shm_coll_commit(struct br_shm_coll *board, uint64_t round, uint16_t check);
/* A note beside the round, which no rank reads while all goes well: before the round is published,
 * and when it is ready. */
void br_shm_coll_describe(struct br_shm_coll *board, uint64_t round, const void *note);
const void *br_shm_coll_description(const struct br_shm_coll *board, uint32_t rank, uint64_t round);
/* Has `rank` published this round? Then its data, valid until this rank publishes round + 1. */
bool br_shm_coll_ready(const struct br_shm_coll *board, uint32_t rank, uint64_t round);
uint16_t br_shm_coll_check(const struct br_shm_coll *board, uint32_t rank,
                           uint64_t round); /* what it published with; when ready */
const void *br_shm_coll_data(const struct br_shm_coll *board, uint32_t rank, uint64_t round,
                             size_t bytes);

/* A rank that gives up says why (any number but 0), once and for all; the others look where they
 * wait. */
void br_shm_coll_abort(struct br_shm_coll *board, uint32_t why);
uint32_t br_shm_coll_aborted(const struct br_shm_coll *board); /* 0: nobody has */

#endif
