/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/list.h"
#include "gpu/extent.h"

struct import {
    uint64_t serial; /* 0: free */
    size_t bytes;
    unsigned long long handle;
};

/* One rank's. */
struct origin {
    struct br_list node;
    int rank;
    struct import slots[BR_EXTENTS_ALL];
};

struct br_imports {
    struct br_list origins;
};

int br_imports_create(struct br_imports **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return br_error(ENOMEM, "no memory for what other processes export of GPUs");
    br_list_init(&(*out)->origins);
    return 0;
}

void br_imports_destroy(struct br_imports *imports, const struct br_cuda *cuda)
{
    if (!imports)
        return;
    while (!br_list_empty(&imports->origins)) {
        struct origin *origin =
            br_container_of(br_list_pop_front(&imports->origins), struct origin, node);

        for (uint32_t i = 0; i < BR_EXTENTS_ALL; i++)
            if (cuda && origin->slots[i].serial)
                cuda->vmm_release(origin->slots[i].handle);
        free(origin);
    }
    free(imports);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static struct origin *find_origin(const struct br_imports *imports, int rank)
{
    br_list_for_each (node, &imports->origins) {
        struct origin *origin = br_container_of(node, struct origin, node);

        if (origin->rank == rank)
            return origin;
    }
    return NULL;
}

static struct origin *get_origin(struct br_imports *imports, int rank)
{
    struct origin *origin = find_origin(imports, rank);

    if (origin)
        return origin;
    origin = calloc(1, sizeof *origin);
    if (!origin)
        return NULL;
    origin->rank = rank;
    br_list_init(&origin->node);
    br_list_push_back(&imports->origins, &origin->node);
    return origin;
}

static struct import *import_find(const struct br_imports *imports, int rank,
                                  const struct br_extent *extent)
{
    struct origin *origin = find_origin(imports, rank);
    struct import *import =
        origin && extent->slot < BR_EXTENTS_ALL ? &origin->slots[extent->slot] : NULL;

    return import && import->serial && import->serial == extent->serial &&
                   import->bytes == extent->bytes
               ? import
               : NULL;
}

bool br_imports_has(const struct br_imports *imports, int rank, const struct br_extent *extent)
{
    return import_find(imports, rank, extent) != NULL;
}

bool br_imports_before(const struct br_imports *imports, int rank, const struct br_extent *extent,
                       struct br_extent *out)
{
    const struct origin *origin = find_origin(imports, rank);
    const struct import *import =
        origin && extent->slot < BR_EXTENTS_ALL ? &origin->slots[extent->slot] : NULL;

    if (!import || !import->serial || import->serial >= extent->serial)
        return false;
    *out =
        (struct br_extent){.serial = import->serial, .bytes = import->bytes, .slot = extent->slot};
    return true;
}

static int import_take(struct br_imports *imports, const struct br_cuda *cuda, int rank,
                       const struct br_extent *extent, int fd)
{
    struct origin *origin = get_origin(imports, rank);
    unsigned long long handle;
    struct import *import;
    br_cuda_result result;

    if (!origin)
        return br_error(ENOMEM, "no memory for what rank %d exports of a GPU", rank);
    if (extent->slot >= BR_EXTENTS_ALL || !extent->serial || origin->slots[extent->slot].serial)
        return br_error(EPROTO, "rank %d: a descriptor of GPU memory in place %u, which is taken",
                        rank, extent->slot);
    if (!cuda->vmm_import)
        return br_error(EOPNOTSUPP, "this CUDA driver imports no memory of other processes");
    result = cuda->vmm_import(&handle, (void *)(intptr_t)fd, BR_CUDA_HANDLE_FD);
    if (result != BR_CUDA_SUCCESS)
        return br_cuda_error(cuda, result, "import of %zu bytes of rank %d's",
                             (size_t)extent->bytes, rank);
    import = &origin->slots[extent->slot];
    *import = (struct import){.serial = extent->serial, .bytes = extent->bytes, .handle = handle};
    return 0;
}

int br_imports_take(struct br_imports *imports, const struct br_cuda *cuda, int rank,
                    const struct br_extent *extent, int fd)
{
    int rc = import_take(imports, cuda, rank, extent, fd);

    close(fd);
    return rc;
}

void br_imports_drop(struct br_imports *imports, const struct br_cuda *cuda, int rank,
                     const struct br_extent *extent)
{
    struct import *import = import_find(imports, rank, extent);

    if (!import)
        return;
    cuda->vmm_release(import->handle);
    import->serial = 0;
}

/* ---- mappings -------------------------------------------------------------------------------- */

static size_t import_sum(const struct br_extent *extents, uint32_t n)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < n; i++)
        bytes += extents[i].bytes;
    return bytes;
}

/* The first n of them are mapped; the addresses are of `bytes`. */
static void import_give_up(const struct br_cuda *cuda, br_cuda_pointer at,
                           const struct br_extent *extents, uint32_t n, size_t bytes)
{
    br_cuda_pointer next = at;

    for (uint32_t i = 0; i < n; i++) {
        cuda->vmm_unmap(next, extents[i].bytes);
        next += extents[i].bytes;
    }
    cuda->vmm_unreserve(at, bytes);
}

void br_imports_unmap(const struct br_cuda *cuda, br_cuda_pointer at,
                      const struct br_extent *extents, uint32_t n)
{
    import_give_up(cuda, at, extents, n, import_sum(extents, n));
}

/* Where addresses must begin that a GPU maps memory to. */
static br_cuda_result import_reserve(const struct br_cuda *cuda,
                                     const struct CUmemLocation_st *location, size_t bytes,
                                     br_cuda_pointer *out)
{
    const struct CUmemAllocationProp_st properties = {.type = BR_CUDA_ALLOCATION_PINNED,
                                                      .requestedHandleTypes = BR_CUDA_HANDLE_FD,
                                                      .location = *location};
    size_t granularity;
    br_cuda_result result =
        cuda->vmm_granularity(&granularity, &properties, BR_CUDA_GRANULARITY_MINIMUM);

    return result == BR_CUDA_SUCCESS ? cuda->vmm_reserve(out, bytes, granularity, 0, 0) : result;
}

/* *n: how many are, also where one cannot be. */
static br_cuda_result map_each(const struct br_imports *imports, const struct br_cuda *cuda,
                               int rank, const struct br_extent *extents, uint32_t count,
                               br_cuda_pointer at, uint32_t *n)
{
    br_cuda_result result = BR_CUDA_SUCCESS;

    for (*n = 0; *n < count; (*n)++) {
        result = cuda->vmm_map(at, extents[*n].bytes, 0,
                               import_find(imports, rank, &extents[*n])->handle, 0);
        if (result != BR_CUDA_SUCCESS)
            break;
        at += extents[*n].bytes;
    }
    return result;
}

int br_imports_map(const struct br_imports *imports, const struct br_cuda *cuda, int device,
                   int rank, const struct br_extent *extents, uint32_t n, br_cuda_pointer *out)
{
    const struct CUmemLocation_st location = {BR_CUDA_LOCATION_DEVICE, device};
    const struct CUmemAccessDesc_st access = {location, BR_CUDA_ACCESS_READ_WRITE};
    size_t bytes = import_sum(extents, n);
    br_cuda_result result;
    uint32_t mapped;

    for (uint32_t i = 0; i < n; i++)
        if (!br_imports_has(imports, rank, &extents[i]))
            return br_error(EPROTO,
                            "rank %d: a descriptor of GPU memory is missing, or was refused before",
                            rank);
    result = import_reserve(cuda, &location, bytes, out);
    if (result == BR_CUDA_SUCCESS) {
        result = map_each(imports, cuda, rank, extents, n, *out, &mapped);
        if (result == BR_CUDA_SUCCESS)
            result = cuda->vmm_access(*out, bytes, &access, 1);
        if (result != BR_CUDA_SUCCESS)
            import_give_up(cuda, *out, extents, mapped, bytes);
    }
    return result == BR_CUDA_SUCCESS
               ? 0
               : br_cuda_error(cuda, result, "GPU %d: %zu bytes of rank %d's, of cuMemCreate()",
                               device, bytes, rank);
}
