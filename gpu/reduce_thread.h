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
    if (reduction != BRAID_AVG)
        return v;
#ifdef HALF
    return br_gpu_average(v, divisor);
#else
    return DIVIDE(v, divisor);
#endif
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

/*
 * What a thread has combined so far of 16 bytes: elements; of float16, for minimum and maximum, the
 * pairs as they lie in memory. Only one of them is used, the other takes no registers.
 */
struct NAME(partial) {
    VECTOR v[PER_STEP];
    struct br_gpu_words pairs;
};

INLINE bool NAME(in_pairs)(enum braid_reduction reduction)
{
#ifdef PAIRS
    return reduction == BRAID_MIN || reduction == BRAID_MAX;
#else
    (void)reduction;
    return false;
#endif
}

/* Element i of words, for sums and products where the type has PAIRS. */
INLINE VECTOR NAME(take)(const struct br_gpu_words *words, size_t i)
{
    RAW raw;

    memcpy(&raw, (const char *)words->word + i * sizeof raw, sizeof raw);
#ifdef PAIRS
    return br_gpu_float_of_half(raw);
#else
    return WIDEN(raw);
#endif
}

INLINE void NAME(begin)(enum braid_reduction reduction, struct NAME(partial) * partial,
                        const struct br_gpu_words *words)
{
    if (NAME(in_pairs)(reduction)) {
        partial->pairs = *words;
        return;
    }
    for (unsigned i = 0; i < PER_STEP; i++)
        partial->v[i] = NAME(take)(words, i);
}

INLINE void NAME(add)(enum braid_reduction reduction, struct NAME(partial) * partial,
                      const struct br_gpu_words *words)
{
    if (NAME(in_pairs)(reduction)) {
        for (unsigned i = 0; i < BR_GPU_WORDS; i++)
            partial->pairs.word[i] =
                br_gpu_extreme_pair(reduction == BRAID_MAX, partial->pairs.word[i], words->word[i]);
        return;
    }
    for (unsigned i = 0; i < PER_STEP; i++)
        partial->v[i] = NAME(combine)(reduction, partial->v[i], NAME(take)(words, i));
}

INLINE struct br_gpu_words NAME(end)(enum braid_reduction reduction,
                                     const struct NAME(partial) * partial, int divisor)
{
    struct br_gpu_words words;

    if (NAME(in_pairs)(reduction)) {
        for (unsigned i = 0; i < BR_GPU_WORDS; i++)
            words.word[i] = br_gpu_quiet_pair(partial->pairs.word[i]);
        return words;
    }
    for (unsigned i = 0; i < PER_STEP; i++) {
        VECTOR v = NAME(finish)(reduction, partial->v[i], divisor);
#ifdef PAIRS
        RAW raw = br_gpu_half_of_float(v);
#else
        RAW raw = NARROW(v);
#endif

        memcpy((char *)words.word + i * sizeof raw, &raw, sizeof raw);
    }
    return words;
}

/* `unroll` words of each source from byte `at` on, `stride` bytes between them. */
INLINE void NAME(words)(enum braid_reduction reduction, const struct br_gpu_reduction *r,
                        uint64_t at, uint64_t stride, unsigned unroll)
{
    struct br_gpu_words now[UNROLL], next[UNROLL];
    struct NAME(partial) partial[UNROLL];

    NAME(fetch)(now, r->src[0] + at, stride, unroll);
    /* A single source is read a second time and not used, so that `next` always holds something. */
    NAME(fetch)(next, r->src[r->n_src > 1] + at, stride, unroll);
    for (unsigned u = 0; u < unroll; u++)
        NAME(begin)(reduction, &partial[u], &now[u]);
    for (int s = 1; s < r->n_src; s++) {
        for (unsigned u = 0; u < unroll; u++)
            now[u] = next[u];
        if (s + 1 < r->n_src)
            NAME(fetch)(next, r->src[s + 1] + at, stride, unroll);
        for (unsigned u = 0; u < unroll; u++)
            NAME(add)(reduction, &partial[u], &now[u]);
    }
    for (unsigned u = 0; u < unroll; u++)
        *(struct br_gpu_words *)(r->dst + at + u * stride) =
            NAME(end)(reduction, &partial[u], r->divisor);
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
