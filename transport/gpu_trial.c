/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/gpu_trial.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "gpu/direct.h"
#include "gpu/driver.h"

#define BYTES 65536u /* a power of two: more than one packet of a NIC, and whole pages */

struct br_gpu_trial {
    struct br_copier *copier;
    struct br_direct_memory memory; /* read in the first half, written in the second */
    unsigned runs;
    uint8_t host[BYTES];
};

int br_gpu_trial_create(struct br_copier *copier, int gpu, struct br_gpu_trial **out)
{
    struct br_gpu_trial *trial = calloc(1, sizeof *trial);
    int rc;

    if (!trial)
        return br_error(ENOMEM, "no memory for a trial of NICs");
    trial->copier = copier;
    rc = br_direct_allocate(gpu, (size_t)2 * BYTES, &trial->memory);
    if (rc)
        br_gpu_trial_destroy(trial);
    else
        *out = trial;
    return rc;
}

void br_gpu_trial_destroy(struct br_gpu_trial *trial)
{
    if (trial && trial->memory.base && !br_copier_is_lost(trial->copier, trial->memory.gpu))
        br_direct_free(&trial->memory);
    free(trial);
}

/* ---- a run ----------------------------------------------------------------------------------- */

/* Of each run another one, so that what an earlier one left does not pass. */
static uint8_t gpu_trial_pattern(const struct br_gpu_trial *trial, size_t i)
{
    return (uint8_t)(i * 7 + i / 256 + trial->runs);
}

/* On a stream whose copies do not count: they are no payload. Waits. */
static int gpu_trial_copy(const struct br_gpu_trial *trial, void *to, const void *from)
{
    struct CUstream_st *stream = br_copier_reductions(trial->copier, trial->memory.gpu);
    const struct br_cuda *cuda;
    br_cuda_result result;
    int rc = br_cuda_driver(&cuda);

    if (!rc)
        rc = br_copier_enter(trial->copier, trial->memory.gpu);
    if (rc)
        return rc;
    result = cuda->copy_async((uintptr_t)to, (uintptr_t)from, BYTES, stream);
    if (result == BR_CUDA_SUCCESS)
        result = cuda->stream_synchronize(stream);
    br_cuda_leave(cuda);
    return result == BR_CUDA_SUCCESS ? 0
                                     : br_cuda_error(cuda, result, "a copy for the trial of NICs");
}

static int gpu_trial_fill(struct br_gpu_trial *trial)
{
    int rc;

    memset(trial->host, 0, sizeof trial->host);
    rc = gpu_trial_copy(trial, (uint8_t *)trial->memory.base + BYTES, trial->host);
    trial->runs++;
    for (size_t i = 0; i < BYTES; i++)
        trial->host[i] = gpu_trial_pattern(trial, i);
    return rc ? rc : gpu_trial_copy(trial, trial->memory.base, trial->host);
}

static int gpu_trial_compare(struct br_gpu_trial *trial)
{
    int rc = br_direct_can_flush(trial->memory.gpu) ? 0 : br_direct_flush(trial->memory.gpu);

    memset(trial->host, 0, sizeof trial->host);
    if (!rc)
        rc = gpu_trial_copy(trial, trial->host, (uint8_t *)trial->memory.base + BYTES);
    for (size_t i = 0; i < BYTES && !rc; i++)
        if (trial->host[i] != gpu_trial_pattern(trial, i))
            rc = br_error(
                EIO,
                "what the NIC has written to the GPU is not what is read there, from byte %zu on: "
                "the IOMMU or ACS may lead it astray (`braid info`)",
                i);
    return rc;
}

static int gpu_trial_move(const struct br_gpu_trial *trial, const struct br_transport_ops *ops,
                          const struct br_device_config *config)
{
    struct br_region_gpu gpu = {.dmabuf = -1};
    struct br_region region = {
        .base = trial->memory.base, .bytes = trial->memory.bytes, .segment_fd = -1, .gpu = &gpu};
    int rc = br_direct_export(&trial->memory, &gpu.dmabuf, &gpu.dmabuf_offset);

    if (rc)
        return rc;
    rc = ops->gpu_trial(config, &region, 0, BYTES, BYTES);
    if (gpu.dmabuf >= 0)
        close(gpu.dmabuf);
    return rc;
}

int br_gpu_trial_run(struct br_gpu_trial *trial, const struct br_transport_ops *ops,
                     const struct br_device_config *config)
{
    int way = gpu_trial_fill(trial), rc;

    if (way)
        return way;
    way = gpu_trial_move(trial, ops, config);
    if (way < 0)
        return way;
    rc = gpu_trial_compare(trial);
    return rc ? rc : way;
}
