/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A shared memory segment in which the ranks of one host publish small data to each other, for
 * collectives that are too short for frames. A collective is one or more epochs, numbered 1, 2, ...
 * alike on all ranks. A rank publishes epoch e when every rank has published e - 1, into one of its
 * two areas, which it uses alternately.
 *
 * The numbered notes, with the proof, are in doc/design/shared_memory.md.
 */
#ifndef BR_COLLECTIVES_SHM_COLL_H
#define BR_COLLECTIVES_SHM_COLL_H

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

/* Numbers that all ranks read: the one that creates the segment writes them before it sends the
 * descriptor. 0 at first. */
enum br_shm_coll_number {
    BR_SHM_COLL_SPLIT_BYTES, /* all-reduces from this size on are split (split.h) */
    BR_SHM_COLL_DIRECT,      /* 1: ranks may try to read each other's memory (direct.h) */
    BR_SHM_COLL_NUMBERS
};
uint64_t br_shm_coll_said(const struct br_shm_coll *coll, enum br_shm_coll_number which);
void br_shm_coll_say(struct br_shm_coll *coll, enum br_shm_coll_number which, uint64_t number);

/* None of the functions below blocks or fails. epoch >= 1, bytes <= BR_SHM_COLL_BYTES. One thread
 * at a time for one rank. */

/* Returns whether this rank may publish an epoch (note 2). */
bool br_shm_coll_may_publish(const struct br_shm_coll *coll, uint64_t epoch);

/* Publishes this rank's data of an epoch, with the check of its call (note 6). */
void br_shm_coll_publish(struct br_shm_coll *coll, uint64_t epoch, uint16_t check, const void *data,
                         size_t bytes);

/* Where this rank's data of an epoch that it may publish go, when they are more than
 * BR_SHM_COLL_SMALL bytes: who writes them there publishes no data besides. */
void *br_shm_coll_space(struct br_shm_coll *coll, uint64_t epoch);

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
