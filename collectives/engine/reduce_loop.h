/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop of every kernel: included once for each element type by the file of one instruction set,
 * which defines
 *
 *   TYPE                  name of the element type: the functions are TYPE_sum, TYPE_prod, ...
 *   RAW                   one or more elements as they lie in memory
 *   VECTOR                the same elements as they are computed with
 *   WIDEN(raw), NARROW(v) from RAW to VECTOR and back
 *   LOAD_PART(p, n)       a RAW of which only the first n < sizeof(RAW) bytes are read, the rest is
 *                         zero; and STORE_PART(p, raw, n) its first n bytes stored. Both absent
 *                         when a RAW is one element
 *   ADD(a, b), MULTIPLY(a, b), MIN(a, b), MAX(a, b), DIVIDE(v, divisor)
 *                         the functions of those that are absent are not made
 *   BITS, TRUTH           defined where bits, or the truth of elements, are combined: VECTOR is an
 *                         unsigned integer, or a vector of them
 *   TARGET, INLINE        attributes of a function that uses the instructions; and of one that is
 *                         inlined too
 *
 * TYPE, RAW and VECTOR are undefined at the end.
 *
 * Four vectors of a source are taken at a time: they hide the latency of the operation and of the
 * look-up of src[s]. Every source is read before dst is written, so dst may be one of them.
 */
#define PASTE_(a, b) a##_##b
#define PASTE(a, b)  PASTE_(a, b)
#define NAME(suffix) PASTE(TYPE, suffix)

struct NAME(raw) {
    RAW value;
} __attribute__((packed, may_alias)); /* so that p needs no alignment and may point to anything */

INLINE VECTOR NAME(load)(const char *p)
{
    return WIDEN(((const struct NAME(raw) *)p)->value);
}

INLINE void NAME(store)(char *p, VECTOR v)
{
    ((struct NAME(raw) *)p)->value = NARROW(v);
}

INLINE VECTOR NAME(combine)(enum braid_reduction reduction, VECTOR a, VECTOR b)
{
    switch (reduction) {
#ifdef ADD
    case BRAID_SUM:
    case BRAID_AVG:
        return ADD(a, b);
#endif
    case BRAID_PROD:
        return MULTIPLY(a, b);
#ifdef MIN
    case BRAID_MIN:
        return MIN(a, b);
    case BRAID_MAX:
        return MAX(a, b);
#endif
#ifdef BITS
    case BRAID_BAND:
        return (VECTOR)(a & b);
    case BRAID_BOR:
        return (VECTOR)(a | b);
    case BRAID_BXOR:
        return (VECTOR)(a ^ b);
#endif
#ifdef TRUTH
    /* Comparisons yield 1, or of a vector -1 in each element. */
    case BRAID_LAND:
        return (VECTOR)(((a != 0) & (b != 0)) & 1);
    case BRAID_LOR:
        return (VECTOR)(((a != 0) | (b != 0)) & 1);
    case BRAID_LXOR:
        return (VECTOR)(((a != 0) ^ (b != 0)) & 1);
#endif
    default:
        return a;
    }
}

INLINE VECTOR NAME(finish)(enum braid_reduction reduction, VECTOR v, int divisor)
{
#ifdef DIVIDE
    if (reduction == BRAID_AVG)
        return DIVIDE(v, divisor);
#endif
    (void)reduction;
    (void)divisor;
    return v;
}

INLINE void NAME(run)(enum braid_reduction reduction, char *dst, const char *const *src, int n_src,
                      size_t begin, size_t end, int divisor)
{
    const size_t step = sizeof(RAW);
    size_t at = begin;

    for (; at + 4 * step <= end; at += 4 * step) {
        const char *p = src[0] + at;
        VECTOR v[4] = {NAME(load)(p), NAME(load)(p + step), NAME(load)(p + 2 * step),
                       NAME(load)(p + 3 * step)};

        for (int s = 1; s < n_src; s++) {
            p = src[s] + at;
            v[0] = NAME(combine)(reduction, v[0], NAME(load)(p));
            v[1] = NAME(combine)(reduction, v[1], NAME(load)(p + step));
            v[2] = NAME(combine)(reduction, v[2], NAME(load)(p + 2 * step));
            v[3] = NAME(combine)(reduction, v[3], NAME(load)(p + 3 * step));
        }
        NAME(store)(dst + at, NAME(finish)(reduction, v[0], divisor));
        NAME(store)(dst + at + step, NAME(finish)(reduction, v[1], divisor));
        NAME(store)(dst + at + 2 * step, NAME(finish)(reduction, v[2], divisor));
        NAME(store)(dst + at + 3 * step, NAME(finish)(reduction, v[3], divisor));
    }
    for (; at + step <= end; at += step) {
        VECTOR v = NAME(load)(src[0] + at);

        for (int s = 1; s < n_src; s++)
            v = NAME(combine)(reduction, v, NAME(load)(src[s] + at));
        NAME(store)(dst + at, NAME(finish)(reduction, v, divisor));
    }
#ifdef LOAD_PART
    if (at < end) {
        const size_t rest = end - at;
        VECTOR v = WIDEN(LOAD_PART(src[0] + at, rest));

        for (int s = 1; s < n_src; s++)
            v = NAME(combine)(reduction, v, WIDEN(LOAD_PART(src[s] + at, rest)));
        STORE_PART(dst + at, NARROW(NAME(finish)(reduction, v, divisor)), rest);
    }
#endif
}

#define KERNEL(suffix, reduction)                                                                  \
    static TARGET void NAME(suffix)(char *dst, const char *const *src, int n_src, size_t begin,    \
                                    size_t end, int divisor)                                       \
    {                                                                                              \
        NAME(run)(reduction, dst, src, n_src, begin, end, divisor);                                \
    }

#ifdef ADD
KERNEL(sum, BRAID_SUM)
#endif
KERNEL(prod, BRAID_PROD)
#ifdef MIN
KERNEL(min, BRAID_MIN)
KERNEL(max, BRAID_MAX)
#endif
#ifdef DIVIDE
KERNEL(avg, BRAID_AVG)
#endif
#ifdef BITS
KERNEL(band, BRAID_BAND)
KERNEL(bor, BRAID_BOR)
KERNEL(bxor, BRAID_BXOR)
#endif
#ifdef TRUTH
KERNEL(land, BRAID_LAND)
KERNEL(lor, BRAID_LOR)
KERNEL(lxor, BRAID_LXOR)
#endif

#undef KERNEL
#undef NAME
#undef PASTE
#undef PASTE_
#undef TYPE
#undef RAW
#undef VECTOR
