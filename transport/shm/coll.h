/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A shared memory segment in which the ranks of one host publish small data to each other, for
 * collectives that are too short for frames. Each rank owns two areas and uses them alternately.
 *
 * 1. A collective is one or more epochs, numbered 1, 2, ... alike on all ranks. In epoch e a rank
 *    publishes into its area e % 2 and reads the areas e % 2 of other ranks.
 * 2. A rank may publish epoch e when every rank has published e - 1 (br_shm_coll_may_publish()).
 *    Proof: the area was last used in epoch e - 2. A rank that has published e - 1 has finished its
 *    reads of e - 2 before, so nobody reads what is overwritten. In a collective where every rank
 *    reads from all ranks, this has been waited for anyway.
 * 3. An epoch is readable when its number is in the area (acquire, against the writer's release).
 *    By 2 the number cannot advance by two epochs while somebody still reads.
 * 4. Up to BR_SHM_COLL_SMALL bytes share the cache line of the number: publishing and reading them
 *    is one transfer of one line, about 0.1 us. Rejected: number and data apart, which costs a
 *    second transfer; a counter that all ranks increment, which makes them wait for its line.
 * 5. Rejected: one area for each rank, which needs a second round trip ("all have read") before the
 *    next epoch.
 * 6. Lengths are not in the segment: every rank knows them from the collective. With the number go
 *    16 bits of the caller's, the check, by which ranks notice that they make different calls. It
 *    costs nothing, as it is read together with the number.
 */
#ifndef BR_TRANSPORT_SHM_COLL_H
#define BR_TRANSPORT_SHM_COLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that one rank can publish in one epoch. Measured with bench/shm_coll, 2 ranks on 2 cores: 8
 * B are all-reduced in 0.13 us, 32 KiB in 5.5 us, 128 KiB in 21 us. The rate does not fall with the
 * size, so the caller sets the limit that it wants. */
#define BR_SHM_COLL_BYTES (128u << 10)
#define BR_SHM_COLL_SMALL 56u
#define BR_SHM_COLL_RANKS 256u /* at most */
#define BR_SHM_COLL_NOTE  16u  /* bytes about an epoch, for error messages */

struct br_shm_coll {
    uint8_t *base; /* NULL: not open */
    size_t bytes;
    uint32_t ranks, rank;
};

/* One rank creates the segment and sends *fd to the other ranks (br_shm_link_send_fd()), which
 * attach. fd stays the caller's, who closes it, in both functions; when create fails there is none.
 * Return 0, or with a message -EINVAL, -ENOMEM, -EMFILE, or -EPROTO: no segment for so many
 * ranks. */
int br_shm_coll_create(struct br_shm_coll *coll, uint32_t ranks, uint32_t rank, int *fd);
int br_shm_coll_attach(struct br_shm_coll *coll, uint32_t ranks, uint32_t rank, int fd);

/* Unmaps the segment; the other ranks keep their mappings. An all-zero structure is allowed. */
void br_shm_coll_close(struct br_shm_coll *coll);

/* None of the functions below blocks or fails. epoch >= 1, bytes <= BR_SHM_COLL_BYTES. One thread
 * at a time for one rank. */

/* Returns whether this rank may publish an epoch (note 2). */
bool br_shm_coll_may_publish(const struct br_shm_coll *coll, uint64_t epoch);

/* Publishes this rank's data of an epoch, with the check of its call (note 6). */
void br_shm_coll_publish(struct br_shm_coll *coll, uint64_t epoch, uint16_t check, const void *data,
                         size_t bytes);

/* A note of BR_SHM_COLL_NOTE bytes beside the epoch, which no rank reads while all goes well. It is
 * written before the epoch is published and may be read when the epoch is ready. */
void br_shm_coll_describe(struct br_shm_coll *coll, uint64_t epoch, const void *note);
const void *br_shm_coll_description(const struct br_shm_coll *coll, uint32_t rank, uint64_t epoch);

/* Returns whether `rank` has published this epoch. */
bool br_shm_coll_ready(const struct br_shm_coll *coll, uint32_t rank, uint64_t epoch);

/* Of an epoch that is ready: the check that `rank` published, and its data. The data are valid
 * until this rank publishes epoch + 1. bytes: as published. */
uint16_t br_shm_coll_check(const struct br_shm_coll *coll, uint32_t rank, uint64_t epoch);
const void *br_shm_coll_data(const struct br_shm_coll *coll, uint32_t rank, uint64_t epoch,
                             size_t bytes);

#endif
