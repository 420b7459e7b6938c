/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which kernel runs, and what is no kernel's business.
 *
 * 1. The kernels differ in their instructions only: one loop (reduce_loop.h) is compiled for one
 *    element at a time (reduce_scalar.c) and for the vectors of each instruction set
 *    (reduce_vector.h, reduce_avx2.c, reduce_avx512.c). Functions carry the instruction set as an
 *    attribute, so no file needs flags of its own.
 * 2. All sources are read in one pass, however many there are: a block of four vectors stays in
 *    registers while the sources are added to it in their order. No temporary array, so the order
 *    and the rounding do not depend on count.
 * 3. Rejected: summing pairwise (dst += src, again and again): 3(n-1) instead of n+1 passes over
 *    memory, and a rounding of float16 each time. Rejected: the processor's own bfloat16
 *    instructions: they flush subnormals, so results would differ between processors.
 * 4. Rejected after measuring (Zen 4): streaming stores gain 20 % when dst is far larger than the
 *    cache and none of the sources, but make a sum in place 2 to 5 times slower, and the engine
 *    sends dst next, from the cache. A block of many vectors per source, kept on the stack, and
 *    software prefetch: no faster, neither with 4 nor with 16 sources.
 * 5. A complex sum is that of its parts. Products of complex numbers and 8-bit floats have scalar
 *    kernels only: the former are rare, and a float8 is read and rounded by a dozen operations on
 *    integers, which cost more than the memory that it saves.
 */
#include "collectives/engine/reduce.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "base/error.h"
#include "collectives/engine/reduce_kernels.h"
#include "collectives/schedule/type.h"

/* Bytes of integers that stay in the first cache between their sum and its division. */
#define AVERAGE_BLOCK 16384

static const struct br_reduce_kernels *_Atomic chosen;

#ifdef __x86_64__
static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static bool has_avx2(void)
{
    unsigned a, b, c, d; /* F16C by hand: not every compiler knows its name */

    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

static bool has_scalar(void)
{
    return true;
}

/* Best first. */
static const struct {
    const struct br_reduce_kernels *kernels;
    bool (*usable)(void); /* on this processor */
} candidates[] = {
#ifdef __x86_64__
    {&br_reduce_avx512, has_avx512},
    {&br_reduce_avx2, has_avx2},
#endif
    {&br_reduce_scalar, has_scalar},
};
#define CANDIDATES (sizeof candidates / sizeof candidates[0])

/* Words for a name that no usable kernels have. from: what to blame, "" or "BRAID_SIMD: ". */
static int engine_reduce_refuse(const char *from, const char *name)
{
    static const char *const names[] = {"avx512", "avx2"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(name, names[i]))
            return br_error(ENOTSUP,
                            "%sthis processor has no %s kernels; auto takes the best it has", from,
                            name);
    return br_error(EINVAL,
                    "%sno reduction kernels are called '%s'; choose auto, scalar, avx2 or avx512",
                    from, name);
}

int br_reduce_select(const char *name)
{
    const char *from = "";

    if (!name) {
        name = getenv("BRAID_SIMD");
        from = "BRAID_SIMD: ";
    }
    if (!name || !*name)
        name = "auto";
    for (size_t i = 0; i < CANDIDATES; i++)
        if ((!strcmp(name, "auto") || !strcmp(name, candidates[i].kernels->name)) &&
            candidates[i].usable()) {
            atomic_store_explicit(&chosen, candidates[i].kernels, memory_order_relaxed);
            return 0;
        }
    return engine_reduce_refuse(from, name);
}

const char *br_reduce_description(void)
{
    const struct br_reduce_kernels *kernels = atomic_load_explicit(&chosen, memory_order_relaxed);

    return kernels ? kernels->name : "none";
}

/* The kernels in use; the first caller chooses them. */
static int engine_reduce_selected(const struct br_reduce_kernels **out)
{
    *out = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!*out) {
        int rc = br_reduce_select(NULL);

        if (rc)
            return rc;
        *out = atomic_load_explicit(&chosen, memory_order_relaxed);
    }
    return 0;
}

static int engine_reduce_check(enum braid_type type, enum braid_reduction reduction, int n_src,
                               int divisor)
{
    if (!br_type_has_reduction(type, reduction))
        return br_reduction_check("reduce", type, reduction);
    if (n_src < 1)
        return br_error(EINVAL, "reduce: %d sources; at least one is needed", n_src);
    if (divisor < 0)
        return br_error(EINVAL, "reduce: the divisor %d is negative", divisor);
    return 0;
}

/* A sum of integers, a block at a time, each divided while it is in the cache. */
static void average_integers(const struct br_reduce_kernels *kernels, enum braid_type type,
                             char *dst, const char *const *src, int n_src, size_t bytes,
                             int divisor)
{
    const char *sum = dst;

    for (size_t begin = 0; begin < bytes; begin += AVERAGE_BLOCK) {
        size_t end = bytes - begin < AVERAGE_BLOCK ? bytes : begin + AVERAGE_BLOCK;

        kernels->run[type][BRAID_SUM](dst, src, n_src, begin, end, 0);
        br_reduce_scalar.run[type][BRAID_AVG](dst, &sum, 1, begin, end, divisor);
    }
}

int br_reduce(enum braid_type type, enum braid_reduction reduction, void *dst,
              const void *const *src, int n_src, size_t count, int divisor)
{
    const struct br_reduce_kernels *kernels;
    const char *const *from = (const char *const *)src;
    size_t bytes = count * br_type_size(type);
    int rc = engine_reduce_check(type, reduction, n_src, divisor);

    if (!rc)
        rc = engine_reduce_selected(&kernels);
    if (rc || !count)
        return rc;
    if (reduction == BRAID_AVG && !divisor)
        reduction = BRAID_SUM;
    if (n_src == 1 && reduction != BRAID_AVG) {
        if (dst != src[0])
            memcpy(dst, src[0], bytes);
    } else if (kernels->run[type][reduction]) {
        kernels->run[type][reduction](dst, from, n_src, 0, bytes, divisor);
    } else if (reduction == BRAID_AVG && br_type_is_integer(type)) {
        average_integers(kernels, type, dst, from, n_src, bytes, divisor);
    } else {
        br_reduce_scalar.run[type][reduction](dst, from, n_src, 0, bytes, divisor);
    }
    return 0;
}
