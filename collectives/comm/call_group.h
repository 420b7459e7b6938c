/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls between braid_group_start() and braid_group_end(), which are recorded by their thread and
 * submitted together. All functions are about the calling thread. */
#ifndef BR_COLLECTIVES_COMM_CALL_GROUP_H
#define BR_COLLECTIVES_COMM_CALL_GROUP_H

#include <stdbool.h>
#include <stdint.h>

struct braid_op;
struct br_operation;
struct br_recorded;

/* How many groups of this thread are open, one in the other; use br_call_group_is_open(). */
extern _Thread_local __attribute__((tls_model("initial-exec"))) int br_call_group_depth;

/* Does this thread record calls? */
static inline bool br_call_group_is_open(void)
{
    return br_call_group_depth > 0;
}

/* Records a filled-in operation. out: where the program wants its handle, which is set here; NULL:
 * the end of the group waits for it, unless it has a `done`. 0, or -ENOMEM with a message, and the
 * operation has been put back. */
int br_call_group_add(struct br_operation *op, struct braid_op **out);

/* What a thread has recorded and has not submitted or waited for. */
struct br_call_group {
    struct br_recorded *calls;
    uint32_t n, room;
    int depth;
};

/* Around a `done` (completion.h), which this thread may be in the middle of a group for: what is
 * called there is no part of that group. restore() ends what the `done` has left open. */
void br_call_group_set_aside(struct br_call_group *group);
void br_call_group_restore(const struct br_call_group *group);

/* 0; or -EINVAL with a message that begins with `name`: a call that acts at once must not be made
 * in a group. */
int br_call_group_refuse(const char *name);

#endif
