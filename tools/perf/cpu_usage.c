/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/cpu_usage.h"

#include <stdio.h>

#define FIELDS  8 /* user nice system idle iowait irq softirq steal */
#define IDLE    3
#define WAITING 4

struct br_cpu_usage br_cpu_usage_read(void)
{
    unsigned long long ticks[FIELDS] = {0};
    struct br_cpu_usage p = {0};
    FILE *file = fopen("/proc/stat", "r");

    if (!file)
        return p;
    if (fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &ticks[0], &ticks[1], &ticks[2],
               &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7]) > IDLE)
        p.idle = ticks[IDLE] + ticks[WAITING];
    for (int i = 0; i < FIELDS; i++)
        p.all += ticks[i];
    fclose(file);
    return p;
}

double br_cpu_usage_busy(struct br_cpu_usage before, struct br_cpu_usage after)
{
    if (after.all <= before.all || after.idle < before.idle)
        return -1;
    return 100 - 100.0 * (double)(after.idle - before.idle) / (double)(after.all - before.all);
}
