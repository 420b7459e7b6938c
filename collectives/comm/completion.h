/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the program learns that operations have ended without a thread that waits for them:
 * braid_comm_fd(), and braid_options.done. Operations with that pass from the executors to the list
 * `untold` of their context, and from there, one at a time and in the order of their ends, to the
 * program.
 */
#ifndef BR_COLLECTIVES_COMM_COMPLETION_H
#define BR_COLLECTIVES_COMM_COMPLETION_H

#include <stdbool.h>

#include "collectives/engine/user_reduction.h"

struct br_context;
struct br_operation;

/* The operation has ended and has a `done`, which br_completion_tell() will call. Under the lock.
 */
void br_completion_add(struct br_operation *op);

/* From here on the program is told of the end of an operation under way by `done`. false: it has
 * ended, and the caller, who alone has its handle, takes the result. */
bool br_completion_ask(struct br_operation *op, void (*done)(void *context, int result));

/*
 * Calls `done` of all operations in context->untold, and lets a caller take their results then.
 * Under the lock, which is free while `done` runs. Returns whether it called any. Does nothing in a
 * thread that drives inside a `done`, or while another thread calls them: that one goes on.
 * caller: this thread counts in context->callers, and does not while it is the program's.
 */
bool br_completion_tell(struct br_context *context, bool caller);

/* Operations have ended: makes the descriptor of braid_comm_fd() readable, once for all of them.
 * Under the lock. */
void br_completion_show(struct br_context *context);

/* The same of one that has ended within its call, once the program has its handle, and where there
 * is a descriptor. Without the lock. */
void br_completion_show_one(struct br_context *context);

/* Is this thread inside the `done` of op? Then op counts as ended for it. */
bool br_completion_is_own(const struct br_operation *op);

/* whose `done` this thread is in; NULL: it is in none */
extern _Thread_local __attribute__((tls_model("initial-exec")))
const struct br_operation *br_completion_own;

/* -EDEADLK with a message that begins with `name` and says what must not wait. */
int br_completion_refuse(const char *name);

/* Is this thread inside a `done`, or inside the function of a reduction? Then it must not wait for
 * anything: br_completion_refuse(); else 0. */
static inline int br_completion_may_block(const char *name)
{
    return br_completion_own || br_user_reduction_runs ? br_completion_refuse(name) : 0;
}

#endif
