/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/common/host.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

uint64_t br_host_memory_available(void)
{
    char line[128];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file) &&
           sscanf(line, "MemAvailable: %llu kB", &kib) != 1)
        ;
    if (file)
        fclose(file);
    return kib << 10;
}

int br_host_data_file(const char *name, char *path, size_t bytes)
{
    static const char *const places[] = {"../share/braid", "../../data", "../data"};
    char here[512];
    ssize_t length = readlink("/proc/self/exe", here, sizeof here - 1);
    if (length <= 0)
        return br_error(errno, "cannot tell where this program lies: /proc is not mounted");
    here[length] = 0;
    *strrchr(here, '/') = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int n = snprintf(path, bytes, "%s/%s/%s", here, places[i], name);
        if (n > 0 && (size_t)n < bytes && !access(path, R_OK))
            return 0;
    }
    return br_error(ENOENT, "%s is neither in %s/%s (installed) nor in %s/%s (source tree)", name,
                    here, places[0], here, places[1]);
}
