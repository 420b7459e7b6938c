/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/contention.h"

void br_contention_note(struct br_contention *contention, uint64_t time, uint64_t now)
{
    if (time < BR_CONTENTION_SLICE || br_contention_is(contention, now))
        return;
    /* soon after the last while: it was too short */
    if (contention->period && now - contention->until < contention->period)
        contention->period *= 2;
    else
        contention->period = BR_CONTENTION_LEAST;
    if (contention->period > BR_CONTENTION_MOST)
        contention->period = BR_CONTENTION_MOST;
    contention->until = now + contention->period;
}
