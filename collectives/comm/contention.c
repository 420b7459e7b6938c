/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/comm/contention.h"

bool br_contention_sleeps(struct br_contention *contention)
{
    if (!contention->sleeps)
        return false;
    contention->sleeps--;
    return true;
}

void br_contention_yielded(struct br_contention *contention, uint64_t took)
{
    if (contention->next < BR_CONTENTION_LEAST)
        contention->next = BR_CONTENTION_LEAST;
    if (took < BR_CONTENTION_SLOW + contention->ranks * BR_CONTENTION_TURN) {
        contention->next -= contention->next / 8;
        return;
    }
    contention->sleeps = contention->next;
    contention->next *= 4;
    if (contention->next > BR_CONTENTION_MOST)
        contention->next = BR_CONTENTION_MOST;
}
