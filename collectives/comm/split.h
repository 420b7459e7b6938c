/* SPDX-License-Identifier: BSD-3-Clause */
/* The making and the end of communicators of some ranks: what braid_comm_split() and
 * braid_comm_group() have in common. */
#ifndef BR_COLLECTIVES_COMM_SPLIT_H
#define BR_COLLECTIVES_COMM_SPLIT_H

#include <stdint.h>

#include "protocol/message.h"

/* Numbers from here on are those of braid_comm_group(), those below of braid_comm_split(), so that
 * neither has to ask the other (doc/design/split.md, 5). */
#define BR_SPLIT_NUMBERS 768u
/* Of what the members of a group say to each other before they have a communicator. */
#define BR_MEETING_GROUP (BR_MAX_GROUPS - 2)

struct braid_comm;
struct br_context;
struct br_group;

/* Makes the communicator of these n ranks of the job, of which we are the one at `own`. number: it
 * has been taken in context->group_numbers. Collective over them; blocks. Returns 0, or a negative
 * errno with a message; that fails the worker, because the others count on this rank. */
int br_split_make(struct br_context *context, const int *ranks, int n, int own, int number,
                  struct braid_comm **out);

/* Gives up a number that nothing was sent with. Under the lock. */
static inline void br_split_untake(uint64_t *numbers, uint32_t number)
{
    numbers[number / 64] &= ~(1ull << number % 64);
}

/* braid_finalize() of such a communicator: collective over its ranks. Returns 0, or a negative
 * errno with a message. */
int br_comm_leave(struct braid_comm *comm);

/* Frees the group of such a communicator, after br_comm_destroy(). */
void br_split_free(struct br_group *group);

#endif
