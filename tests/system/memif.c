/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/system/memif.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[32], path[64];

bool memif_ports(void)
{
    const char *build = getenv("BRAID_BUILD");
    char module[512], ports[512];

    snprintf(module, sizeof module, "%s/braid_dpdk.so", build ? build : ".");
    snprintf(folder, sizeof folder, "/tmp/braid_memif_XXXXXX");
    if (access(module, R_OK) || !mkdtemp(folder))
        return false;
    snprintf(path, sizeof path, "%s/memif", folder);
    snprintf(ports, sizeof ports,
             "net_memif0,role=server,socket=%s,mac=02:00:00:00:00:01,address=10.99.0.1/24; "
             "net_memif1,role=client,socket=%s,mac=02:00:00:00:00:02,address=10.99.0.2/24",
             path, path);
    return !setenv("BRAID_DPDK_PORTS", ports, 1);
}

void memif_remove(void)
{
    unlink(path);
    rmdir(folder);
    unsetenv("BRAID_DPDK_PORTS");
}
