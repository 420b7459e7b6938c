/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/comm/contention.h"

bool br_contention_yielded(const struct br_contention *contention, uint64_t began, uint64_t now)
{
    uint64_t turns = contention->cores ? contention->ranks / contention->cores : 0;

    if (!contention->contended && now - began < BR_CONTENTION_SLOW + turns * BR_CONTENTION_TURN)
        return false;
    return contention->cores &&
           (!contention->open || now - contention->since >= BR_CONTENTION_WINDOW);
}

/* Less than a quarter of the share: others have the rest, as ranks that wait for each other have
 * equal turns. From seven eighths on there are none. */
void br_contention_judge(struct br_contention *contention, uint64_t began, uint64_t now,
                         uint64_t cpu)
{
    uint32_t cores = contention->cores < contention->ranks ? contention->cores : contention->ranks;
    uint64_t share = (now - contention->since) / contention->ranks * cores;
    uint64_t used = cpu - contention->cpu;

    if (contention->open && began > contention->since &&
        began - contention->since > 10 * BR_CONTENTION_WINDOW)
        contention->contended = false;
    else if (contention->open)
        contention->contended = used < (contention->contended ? share / 8 * 7 : share / 4);
    contention->open = true;
    contention->since = now;
    contention->cpu = cpu;
}

void br_contention_slept(struct br_contention *contention, uint64_t began, uint64_t now)
{
    if (contention->since < began)
        contention->since += now - began;
    else /* another thread has opened the window meanwhile */
        contention->since = now;
}
