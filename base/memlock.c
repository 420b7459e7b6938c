/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/memlock.h"

#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>

static bool may_lock_all(const char *root)
{
    char line[256], path[512];
    unsigned long long effective = 0;
    FILE *file;

    snprintf(path, sizeof path, "%.255s/proc/self/status", root);
    file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file) && sscanf(line, "CapEff: %llx", &effective) != 1)
        continue;
    if (file)
        fclose(file);
    return effective >> CAP_IPC_LOCK & 1;
}

uint64_t br_memlock(const char *root)
{
    struct rlimit limit;

    if (may_lock_all(root) || getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_cur;
}
