/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arithmetic of collectives on the CPU: several arrays combined into one, in one pass over
 * memory.
 *
 * The kernels (avx512, avx2, scalar) are chosen once a process, by what the processor can do. They
 * give the same bits, so ranks on different processors agree. The one exception: when two different
 * NaNs meet in a sum or a product (or an infinity less an infinity meets a NaN), the result is a
 * NaN everywhere but its payload may differ.
 */
#ifndef BR_COLLECTIVES_ENGINE_REDUCE_H
#define BR_COLLECTIVES_ENGINE_REDUCE_H

#include <stddef.h>

#include "braid/types.h"

/*
 * Computes dst[i] = (...((src[0][i] op src[1][i]) op src[2][i]) ...) for i in [0, count), in
 * exactly this order.
 *
 * src: n_src >= 1 arrays of count elements, each of which is read once. They belong to the caller
 *     and are not kept.
 * dst: may be equal to one or more of the sources, but must not overlap one in any other way.
 * divisor: for BRAID_AVG, the number of ranks in the call that completes the value, and 0 in the
 *     calls before. The other reductions ignore it.
 *
 * No pointer needs alignment. With count 0 nothing is touched and pointers may be NULL. float16,
 * bfloat16 and float8 are combined (and divided) in float32 and rounded once to nearest-even, so a
 * value that travels in several hops is rounded at each. Integers wrap; their average truncates
 * toward zero, as NCCL's. min and max: the first NaN among the sources wins, -0 < +0.
 *
 * Called by the engine for every REDUCE step, and by the tools. May be called from any thread; does
 * not block, allocate or take a lock. Returns 0, or -EINVAL when the type, reduction, n_src or
 * divisor is out of range or the type does not have the reduction, or the error of
 * br_reduce_select(NULL) when that was not called before.
 */
int br_reduce(enum braid_type type, enum braid_reduction reduction, void *dst,
              const void *const *src, int n_src, size_t count, int divisor);

/*
 * Chooses the kernels: "auto" (the best this processor can do), "scalar", "avx2" or "avx512"; NULL
 * takes the value of BRAID_SIMD, "auto" when that is unset or empty. Called once at start-up, so
 * that a wrong BRAID_SIMD is reported there, and by tests; otherwise br_reduce() calls it when it
 * is first used. May be called from any thread. Returns 0, or -EINVAL when there is no such name,
 * or -ENOTSUP when the processor or this build has no such kernels; the choice is then unchanged.
 */
int br_reduce_select(const char *name);

/* Returns the name of the kernels in use, such as "avx512", or "none" before any was chosen. A
 * static string, for `braid info`. May be called from any thread. */
const char *br_reduce_description(void);

#endif
