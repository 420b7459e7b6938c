/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions that are functions of the program's (braid_reduction_create()), and the one place
 * where an operation's values are combined on the CPU, whichever kind its reduction is. */
#ifndef BR_COLLECTIVES_ENGINE_USER_REDUCTION_H
#define BR_COLLECTIVES_ENGINE_USER_REDUCTION_H

#include "collectives/engine/operation.h"
#include "collectives/engine/reduce.h"

/* Is this thread inside such a function? Then it holds the context's lock, and no function of braid
 * may be called. */
extern _Thread_local __attribute__((tls_model("initial-exec"))) bool br_user_reduction_runs;

/*
 * br_reduce() by a function of the program's: dst[i] = ((src[0][i] op src[1][i]) op src[2][i]) ...
 * The same rules hold for the arrays. The function sees blocks of at most BR_USER_REDUCTION_BYTES
 * on the stack, aligned to 64 bytes, whatever the alignment of the arrays.
 */
#define BR_USER_REDUCTION_BYTES 4096
void br_user_reduce(const struct br_user_reduction *user, enum braid_type type, void *dst,
                    const void *const *src, int n_src, size_t count);

/* Combines values of an operation: br_reduce() or br_user_reduce(). As these. */
static inline int br_reduce_operation(const struct br_operation *op, void *dst,
                                      const void *const *src, int n_src, size_t count, int divisor)
{
    if (!op->user.function)
        return br_reduce(op->type, op->reduction, dst, src, n_src, count, divisor);
    br_user_reduce(&op->user, op->type, dst, src, n_src, count);
    return 0;
}

#endif
