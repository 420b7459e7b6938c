/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/gpudirect_check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "gpu/direct.h"
#include "gpu/driver.h"
#include "transport/self_copy.h"

#define BYTES 65536u /* a power of two: more than one packet of a NIC, and whole pages */

struct br_gpudirect_check {
    struct br_copier *copier;
    struct br_direct_memory memory; /* read in the first half, written in the second */
    unsigned runs;
    uint8_t host[BYTES];
};

int br_gpudirect_check_create(struct br_copier *copier, int gpu, struct br_gpudirect_check **out)
{
    struct br_gpudirect_check *check = calloc(1, sizeof *check);
    int rc;

    if (!check)
        return br_error(ENOMEM, "no memory for a trial of NICs");
    check->copier = copier;
    rc = br_direct_allocate(gpu, (size_t)2 * BYTES, &check->memory);
    if (rc)
        br_gpudirect_check_destroy(check);
    else
        *out = check;
    return rc;
}

void br_gpudirect_check_destroy(struct br_gpudirect_check *check)
{
    if (check && check->memory.base && !br_copier_is_lost(check->copier, check->memory.gpu))
        br_direct_free(&check->memory);
    free(check);
}

/* ---- a run ----------------------------------------------------------------------------------- */

/* Of each run another one, so that what an earlier one left does not pass. */
static uint8_t gpu_check_pattern(const struct br_gpudirect_check *check, size_t i)
{
    return (uint8_t)(i * 7 + i / 256 + check->runs);
}

/* On a stream whose copies do not count: they are no payload. Waits. */
static int gpu_check_copy(const struct br_gpudirect_check *check, void *to, const void *from)
{
    struct CUstream_st *stream = br_copier_reductions(check->copier, check->memory.gpu);
    const struct br_cuda *cuda;
    br_cuda_result result;
    int rc = br_cuda_driver(&cuda);

    if (!rc)
        rc = br_copier_enter(check->copier, check->memory.gpu);
    if (rc)
        return rc;
    result = cuda->copy_async((uintptr_t)to, (uintptr_t)from, BYTES, stream);
    if (result == BR_CUDA_SUCCESS)
        result = cuda->stream_synchronize(stream);
    br_cuda_leave(cuda);
    return result == BR_CUDA_SUCCESS ? 0
                                     : br_cuda_error(cuda, result, "a copy for the trial of NICs");
}

static int gpu_check_fill(struct br_gpudirect_check *check)
{
    int rc;

    memset(check->host, 0, sizeof check->host);
    rc = gpu_check_copy(check, (uint8_t *)check->memory.base + BYTES, check->host);
    check->runs++;
    for (size_t i = 0; i < BYTES; i++)
        check->host[i] = gpu_check_pattern(check, i);
    return rc ? rc : gpu_check_copy(check, check->memory.base, check->host);
}

static int gpu_check_compare(struct br_gpudirect_check *check)
{
    int rc = br_direct_can_flush(check->memory.gpu) ? 0 : br_direct_flush(check->memory.gpu);

    memset(check->host, 0, sizeof check->host);
    if (!rc)
        rc = gpu_check_copy(check, check->host, (uint8_t *)check->memory.base + BYTES);
    for (size_t i = 0; i < BYTES && !rc; i++)
        if (check->host[i] != gpu_check_pattern(check, i))
            rc = br_error(
                EIO,
                "what the NIC has written to the GPU is not what is read there, from byte %zu on: "
                "the IOMMU or ACS may lead it astray (`braid info`)",
                i);
    return rc;
}

static int gpu_check_move(const struct br_gpudirect_check *check,
                          const struct br_transport_ops *ops, const struct br_device_config *config)
{
    struct br_region_gpu gpu = {.dmabuf = -1};
    struct br_region region = {
        .base = check->memory.base, .bytes = check->memory.bytes, .segment_fd = -1, .gpu = &gpu};
    int rc = br_direct_export(&check->memory, &gpu.dmabuf, &gpu.dmabuf_offset);

    if (rc)
        return rc;
    rc = br_self_copy(ops, config, &region, 0, BYTES, BYTES);
    if (gpu.dmabuf >= 0)
        close(gpu.dmabuf);
    return rc ? rc : gpu.no_dmabuf != NULL;
}

int br_gpudirect_check_run(struct br_gpudirect_check *check, const struct br_transport_ops *ops,
                           const struct br_device_config *config)
{
    int way = gpu_check_fill(check), rc;

    if (way)
        return way;
    way = gpu_check_move(check, ops, config);
    if (way < 0)
        return way;
    rc = gpu_check_compare(check);
    return rc ? rc : way;
}
