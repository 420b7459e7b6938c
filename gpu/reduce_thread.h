/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one thread of a kernel does: the ELEMENT_LOOP of base/elements.h for GPUs. Who includes it
 * defines INLINE, and
 *
 *   KERNEL(TYPE, suffix, reduction)  makes the kernel TYPE_suffix of TYPE_thread(reduction, ...)
 *
 * 1. All sources are read in one pass, in their order, whatever their number: as on the CPU
 *    (collectives/engine/reduce.c, note 2), so results are the same bits. Rejected: a tree over the
 *    sources, whose sums would differ from the CPU's.
 * 2. A thread takes 16 bytes of each array at a time, its neighbours the next 16 bytes, and UNROLL
 *    of these with the whole grid between them: that many loads are under way at once. The next
 *    source is loaded before this one is combined.
 * 3. A float at an odd address cannot be loaded. Where dst is aligned to its elements, everything
 *    but the edges is stored whole; sources have any alignment (words.h). Otherwise each element
 *    goes by bytes: correct, and slow; no allocator gives such memory.
 */
#define PASTE_(a, b) a##_##b
#define PASTE(a, b)  PASTE_(a, b)
#define NAME(suffix) PASTE(TYPE, suffix)

#define PER_STEP (BR_GPU_STEP / sizeof(RAW)) /* elements */
#define UNROLL   (sizeof(RAW) == 1 ? 2 : 4)  /* registers: that many times PER_STEP VECTORs */

INLINE VECTOR NAME(combine)(enum braid_reduction reduction, VECTOR a, VECTOR b)
{
    switch (reduction) {
    case BRAID_PROD:
        return MULTIPLY(a, b);
    case BRAID_MIN:
        return MIN(a, b);
    case BRAID_MAX:
        return MAX(a, b);
    default:
        return ADD(a, b);
    }
}

INLINE VECTOR NAME(finish)(enum braid_reduction reduction, VECTOR v, int divisor)
{
    if (reduction == BRAID_AVG)
        return DIVIDE(v, divisor);
    return v;
}

INLINE VECTOR NAME(load)(const char *p)
{
    RAW raw;

    memcpy(&raw, p, sizeof raw);
    return WIDEN(raw);
}

/* One element, by bytes. */
INLINE void NAME(element)(enum braid_reduction reduction, const struct br_gpu_reduction *r,
                          uint64_t at)
{
    VECTOR v = NAME(load)(r->src[0] + at);
    RAW raw;

    for (int s = 1; s < r->n_src; s++)
        v = NAME(combine)(reduction, v, NAME(load)(r->src[s] + at));
    raw = NARROW(NAME(finish)(reduction, v, r->divisor));
    memcpy(r->dst + at, &raw, sizeof raw);
}

INLINE void NAME(fetch)(struct br_gpu_words *out, const char *p, uint64_t stride, unsigned unroll)
{
    for (unsigned u = 0; u < unroll; u++)
        out[u] = br_gpu_load(p + u * stride);
}

/* Element i of words. */
INLINE VECTOR NAME(take)(const struct br_gpu_words *words, size_t i)
{
    return NAME(load)((const char *)words->word + i * sizeof(RAW));
}

/* `unroll` words of each source from byte `at` on, `stride` bytes between them. */
INLINE void NAME(words)(enum braid_reduction reduction, const struct br_gpu_reduction *r,
                        uint64_t at, uint64_t stride, unsigned unroll)
{
    struct br_gpu_words now[UNROLL], next[UNROLL];
    VECTOR v[UNROLL][PER_STEP];

    NAME(fetch)(now, r->src[0] + at, stride, unroll);
    /* A single source is read a second time and not used, so that `next` always holds something. */
    NAME(fetch)(next, r->src[r->n_src > 1] + at, stride, unroll);
    for (unsigned u = 0; u < unroll; u++)
        for (unsigned i = 0; i < PER_STEP; i++)
            v[u][i] = NAME(take)(&now[u], i);
    for (int s = 1; s < r->n_src; s++) {
        for (unsigned u = 0; u < unroll; u++)
            now[u] = next[u];
        if (s + 1 < r->n_src)
            NAME(fetch)(next, r->src[s + 1] + at, stride, unroll);
        for (unsigned u = 0; u < unroll; u++)
            for (unsigned i = 0; i < PER_STEP; i++)
                v[u][i] = NAME(combine)(reduction, v[u][i], NAME(take)(&now[u], i));
    }
    for (unsigned u = 0; u < unroll; u++) {
        for (unsigned i = 0; i < PER_STEP; i++) {
            RAW raw = NARROW(NAME(finish)(reduction, v[u][i], r->divisor));

            memcpy((char *)now[u].word + i * sizeof raw, &raw, sizeof raw);
        }
        *(struct br_gpu_words *)(r->dst + at + u * stride) = now[u];
    }
}

INLINE void NAME(thread)(enum braid_reduction reduction, const struct br_gpu_reduction *r,
                         uint64_t thread, uint64_t threads)
{
    const struct br_gpu_middle middle = br_gpu_middle(r, sizeof(RAW));
    const uint64_t stride = threads * BR_GPU_STEP, head = middle.first / sizeof(RAW);
    const uint64_t edges = r->bytes / sizeof(RAW) - middle.n * PER_STEP;
    uint64_t i = thread;

    for (; i + (UNROLL - 1) * threads < middle.n; i += UNROLL * threads)
        NAME(words)(reduction, r, middle.first + i * BR_GPU_STEP, stride, UNROLL);
    for (; i < middle.n; i += threads)
        NAME(words)(reduction, r, middle.first + i * BR_GPU_STEP, stride, 1);
    for (i = thread; i < edges; i += threads)
        NAME(element)
    (reduction, r, i < head ? i * sizeof(RAW) : (i + middle.n * PER_STEP) * sizeof(RAW));
}

KERNEL(TYPE, sum, BRAID_SUM)
KERNEL(TYPE, prod, BRAID_PROD)
KERNEL(TYPE, min, BRAID_MIN)
KERNEL(TYPE, max, BRAID_MAX)
KERNEL(TYPE, avg, BRAID_AVG)

#undef PER_STEP
#undef UNROLL
#undef NAME
#undef PASTE
#undef PASTE_
#undef TYPE
#undef RAW
#undef VECTOR
