/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/guest/nics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/system/ranks.h"

int nics_setup(void **state)
{
    (void)state;
    memset(fake_cuda(), 0, sizeof *fake_cuda());
    *fake_cuda() = (struct fake_cuda_control){.devices = 1, .bytes = 1u << 30, .peer_memory = true};
    unsetenv("BRAID_GPU_DIRECT");
    return setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
}

int nics_since(struct braid_comm *comm, const struct braid_stats *before, struct braid_stats *now)
{
    RETURNS(0, braid_stats(comm, now));
    now->nic_from_gpu_bytes -= before->nic_from_gpu_bytes;
    now->nic_to_gpu_bytes -= before->nic_to_gpu_bytes;
    now->gpu_to_host_bytes -= before->gpu_to_host_bytes;
    now->host_to_gpu_bytes -= before->host_to_gpu_bytes;
    now->gpu_reduced_bytes -= before->gpu_reduced_bytes;
    return 0;
}

int nics_cable(const char *way)
{
    char command[512];

    snprintf(command, sizeof command, "bash '%s/tests/guest/net.sh' port 0 1 %s",
             getenv("BRAID_SOURCE"), way);
    return system(command);
}

bool nics_port_comes_up(void)
{
    char state[32] = "";

    for (int i = 0; i < 200 && !strstr(state, "ACTIVE"); i++) {
        FILE *file = fopen("/sys/class/infiniband/h0r1/ports/1/state", "re");

        ranks_sleep_ms(50);
        if (!file || !fgets(state, sizeof state, file))
            state[0] = 0;
        if (file)
            fclose(file);
    }
    return strstr(state, "ACTIVE");
}
