/* SPDX-License-Identifier: BSD-3-Clause */
/* The reductions of the program's own that a communicator knows. Any thread may call these
 * functions; they wait for no operation. */
#ifndef BR_COLLECTIVES_COMM_REDUCTIONS_H
#define BR_COLLECTIVES_COMM_REDUCTIONS_H

#include <braid/braid.h>

struct br_operation;

/* Checks the reduction of a call, whichever kind it is. name: the call, for the message. Returns 0,
 * or -EINVAL with a message: there is none of this number; it was freed, or is another
 * communicator's; the type does not have it. */
int br_reductions_check(const struct braid_comm *comm, const char *name, enum braid_type type,
                        enum braid_reduction reduction);

/* Gives an operation a copy of its reduction, which is the program's own and has been checked. If
 * it was freed meanwhile, there is none, and the executors refuse the operation. */
void br_reductions_apply(const struct braid_comm *comm, struct br_operation *op);

/* Forgets all of them. */
void br_reductions_close(struct braid_comm *comm);

#endif
