/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The function combines "in op inout" into inout, as MPI's. So for the order from left to right the
 * next source is copied into a block and what there is so far is `in`; then the two blocks change
 * places. The copies stay in the first cache, and they are why sources need no alignment and dst
 * may be one of them. Rejected: from right to left, as MPI's own loops go, which saves the copies:
 * the bits would be others than those of braid's own reductions in the same order.
 */
#include "collectives/engine/user_reduction.h"

#include <string.h>

#include "base/process.h"
#include "collectives/schedule/type.h"

_Thread_local __attribute__((tls_model("initial-exec"))) bool br_user_reduction_runs;

void br_user_reduce(const struct br_user_reduction *user, enum braid_type type, void *dst,
                    const void *const *src, int n_src, size_t count)
{
    BR_DISABLE_CANCELLATION; /* the function may come to a cancellation point, under the lock */
    _Alignas(64) uint8_t blocks[2][BR_USER_REDUCTION_BYTES];
    size_t size = br_type_size(type), most = BR_USER_REDUCTION_BYTES / size;

    br_user_reduction_runs = true;
    for (size_t first = 0; first < count; first += most) {
        size_t n = count - first < most ? count - first : most;
        int so_far = 0;

        memcpy(blocks[so_far], (const uint8_t *)src[0] + first * size, n * size);
        for (int s = 1; s < n_src; s++, so_far = !so_far) {
            memcpy(blocks[!so_far], (const uint8_t *)src[s] + first * size, n * size);
            user->function(user->context, blocks[so_far], blocks[!so_far], n, type);
        }
        memcpy((uint8_t *)dst + first * size, blocks[so_far], n * size);
    }
    br_user_reduction_runs = false;
}
