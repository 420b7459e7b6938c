/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/guest/nics.h"

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
