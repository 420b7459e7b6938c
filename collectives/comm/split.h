/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of communicators that braid_comm_split() has made. */
#ifndef BR_COLLECTIVES_COMM_SPLIT_H
#define BR_COLLECTIVES_COMM_SPLIT_H

struct braid_comm;
struct br_group;

/* braid_finalize() of such a communicator: collective over its ranks. Returns 0, or a negative
 * errno with a message. */
int br_comm_leave(struct braid_comm *comm);

/* Frees the group of such a communicator, after br_comm_destroy(). */
void br_split_free(struct br_group *group);

#endif
