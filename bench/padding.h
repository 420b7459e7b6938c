/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Instructions that do nothing, for bench/verbs_floor.c: what a round trip pays for code that runs
 * once in it. Functions, as it is calls and returns, not loops, that an emulator and a cold cache
 * pay for.
 */
#ifndef BR_BENCH_PADDING_H
#define BR_BENCH_PADDING_H

#include <stdint.h>

/* clang-format off */
#define PADDING_EACH(X)                                                                            \
    X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17)   \
    X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31) X(32)
/* clang-format on */
#define PADDING_FUNCTION(n)                                                                        \
    static __attribute__((noinline)) uint64_t padding_##n(uint64_t x)                              \
    {                                                                                              \
        return (x ^ n##u * 7) * 2654435761u + (x >> n);                                            \
    }
#define PADDING_CALL(n) x = padding_##n(x);

PADDING_EACH(PADDING_FUNCTION)

/* 32 calls, 290 instructions on x86-64. */
static __attribute__((noinline)) void padding(void)
{
    static volatile uint64_t kept;
    uint64_t x = kept;

    PADDING_EACH(PADDING_CALL)
    kept = x;
}

#endif
