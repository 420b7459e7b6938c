/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/available.h"

#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define PATH_BYTES 1024
#define NAME_BYTES 512

/* *out = the number behind `key` in a file of lines, behind nothing for "". false: there is none
 * ("max" is none). */
static bool available_read_number(const char *path, const char *key, uint64_t *out)
{
    FILE *file = fopen(path, "re");
    size_t n = strlen(key);
    unsigned long long value;
    bool found = false;
    char line[256];

    while (file && !found && fgets(line, sizeof line, file))
        if (!strncmp(line, key, n) && sscanf(line + n, "%llu", &value) == 1) {
            *out = value;
            found = true;
        }
    if (file)
        fclose(file);
    return found;
}

/* The process's memory cgroup, as /proc names it; where there are both versions the first one has
 * the memory. false: none. */
static bool find_cgroup(const char *root, bool *v1, char name[NAME_BYTES])
{
    char path[PATH_BYTES], line[NAME_BYTES];
    FILE *file;

    *v1 = false;
    name[0] = 0;
    snprintf(path, sizeof path, "%.255s/proc/self/cgroup", root);
    file = fopen(path, "re");
    while (file && !*v1 && fgets(line, sizeof line, file)) {
        const char *memory = strstr(line, ":memory:");

        line[strcspn(line, "\n")] = 0;
        *v1 = memory != NULL;
        if (memory || !strncmp(line, "0::", 3))
            snprintf(name, NAME_BYTES, "%s", memory ? memory + strlen(":memory:") : line + 3);
    }
    if (file)
        fclose(file);
    return name[0];
}

/* What a cgroup's folder says. false: no limit is there. */
static bool left_in(const char *folder, bool v1, uint64_t *left)
{
    char path[PATH_BYTES];
    uint64_t most, used, cache = 0;

    snprintf(path, sizeof path, "%.900s/%s", folder, v1 ? "memory.limit_in_bytes" : "memory.max");
    if (!available_read_number(path, "", &most))
        return false;
    snprintf(path, sizeof path, "%.900s/%s", folder,
             v1 ? "memory.usage_in_bytes" : "memory.current");
    if (!available_read_number(path, "", &used))
        return false;
    snprintf(path, sizeof path, "%.900s/memory.stat", folder);
    available_read_number(path, "inactive_file ", &cache); /* shared memory is not in it */
    used -= cache < used ? cache : used;
    *left = used < most ? most - used : 0;
    return true;
}

static uint64_t left_in_cgroup(const char *root)
{
    char folder[PATH_BYTES], name[NAME_BYTES];
    uint64_t left;
    bool v1;

    if (!find_cgroup(root, &v1, name))
        return UINT64_MAX;
    snprintf(folder, sizeof folder, "%.255s/sys/fs/cgroup%s%s", root, v1 ? "/memory" : "", name);
    if (left_in(folder, v1, &left))
        return left;
    /* in a container /proc may name a folder of the host's, while its own is at the root */
    snprintf(folder, sizeof folder, "%.255s/sys/fs/cgroup%s", root, v1 ? "/memory" : "");
    return left_in(folder, v1, &left) ? left : UINT64_MAX;
}

uint64_t br_available_memory(const char *root, const char **limit)
{
    uint64_t kib, least = UINT64_MAX, cgroup = left_in_cgroup(root);
    char path[PATH_BYTES];

    *limit = "MemAvailable";
    snprintf(path, sizeof path, "%.255s/proc/meminfo", root);
    if (available_read_number(path, "MemAvailable:", &kib))
        least = kib << 10;
    if (cgroup < least) {
        least = cgroup;
        *limit = "the limit of the process's cgroup";
    }
    return least;
}

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
