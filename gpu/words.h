/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 16 bytes of an array as a thread of a kernel holds them, and the cut of an array into such. C and
 * CUDA C++ alike: tests run it on the CPU.
 */
#ifndef BR_GPU_WORDS_H
#define BR_GPU_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/half.h"
#include "gpu/kernels.h"

#define BR_GPU_WORDS 4u
#define BR_GPU_STEP  (BR_GPU_WORDS * 4u) /* bytes */

struct br_gpu_words {
    uint32_t word[BR_GPU_WORDS];
} __attribute__((aligned(16))); /* so that one instruction loads or stores it */

/* The part of an array that goes by words: n of them from byte `first` on, where dst is aligned.
 * The edges before and after it go by elements. */
struct br_gpu_middle {
    uint64_t first, n;
};

/* Words of a source at an odd address are put together from the aligned 32-bit words around them
 * (br_gpu_load()): so that these lie within the array, the edges are then 4 bytes at least. */
BR_ANYWHERE static inline struct br_gpu_middle br_gpu_middle(const struct br_gpu_reduction *r,
                                                             size_t size)
{
    struct br_gpu_middle middle = {-(uintptr_t)r->dst % BR_GPU_STEP, 0};
    uint64_t after = 0;

    for (int s = 0; s < r->n_src; s++)
        if (((uintptr_t)r->src[s] + middle.first) % 4)
            after = 4;
    if (after && middle.first < 4)
        middle.first += BR_GPU_STEP;
    if ((uintptr_t)r->dst % size == 0 && middle.first + after < r->bytes)
        middle.n = (r->bytes - after - middle.first) / BR_GPU_STEP;
    if (!middle.n)
        middle.first = 0;
    return middle;
}

/* 16 bytes at p. */
BR_ANYWHERE static inline struct br_gpu_words br_gpu_load(const char *p)
{
    unsigned odd = (unsigned)((uintptr_t)p % 4) * 8;
    const uint32_t *at = (const uint32_t *)(p - odd / 8);
    struct br_gpu_words words;

    if ((uintptr_t)p % BR_GPU_STEP == 0)
        return *(const struct br_gpu_words *)p;
    for (unsigned i = 0; i < BR_GPU_WORDS; i++)
        words.word[i] = at[i];
    if (odd) {
        for (unsigned i = 0; i < BR_GPU_WORDS - 1; i++)
            words.word[i] = words.word[i] >> odd | words.word[i + 1] << (32 - odd);
        words.word[BR_GPU_WORDS - 1] = words.word[BR_GPU_WORDS - 1] >> odd | at[BR_GPU_WORDS]
                                                                                 << (32 - odd);
    }
    return words;
}

#endif
