/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for a few nanoseconds without a look at a clock. */
#ifndef BR_BASE_PAUSE_H
#define BR_BASE_PAUSE_H

/* Lets some ns pass (5 on a Zen 4, 10 on many ARM), before which no read behind it begins. */
static inline void br_pause(void)
{
#if defined __x86_64__
    __asm__ volatile("lfence" : : : "memory"); /* `pause` takes 25 to 45 ns */
#elif defined __aarch64__
    __asm__ volatile("isb" : : : "memory");
#else
    __asm__ volatile("" : : : "memory");
#endif
}

#endif
