/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/ipc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/list.h"
#include "gpu/driver.h"

/* Mappings, more only while they are held; an operation of 256 ranks uses 510. */
#define LIMIT 1024

struct mapping {
    struct br_list node; /* the last used first */
    int gpu, rank;
    struct CUipcMemHandle_st handle;
    uint64_t base, bytes; /* in the other process */
    br_cuda_pointer at;
    bool stale;     /* one of the extents is gone */
    uint32_t count; /* of extents; 0: it was opened by its handle */
    struct br_extent extents[];
};

struct br_ipc {
    struct br_list mappings;
    int refs, n_stale;
    const struct br_cuda *cuda; /* of what is exported and imported; NULL: nothing was yet */
    struct br_exports *exports;
    struct br_imports *imports;
};

/* Its primary context is current until br_cuda_leave(). gpu: as br_gpu_of() names it. */
static int ipc_enter(int gpu, const struct br_cuda **cuda)
{
    struct CUctx_st *context;
    int rc = br_cuda_context(gpu - 1, &context);

    if (!rc)
        rc = br_cuda_driver(cuda);
    return rc ? rc : br_cuda_enter(*cuda, context);
}

/* ---- notes ----------------------------------------------------------------------------------- */

static int find_allocation(const struct br_cuda *cuda, br_cuda_pointer memory, size_t bytes,
                           struct br_ipc_note *out)
{
    br_cuda_pointer base;
    size_t size;
    br_cuda_result result = cuda->memory_range(&base, &size, memory);

    if (result != BR_CUDA_SUCCESS)
        return br_cuda_error(cuda, result, "the allocation that holds %zu bytes of a GPU", bytes);
    if (bytes > size - (memory - base))
        return br_error(EINVAL, "%zu bytes of a GPU end behind their allocation of %zu bytes",
                        bytes, size);
    out->base = base;
    out->bytes = size;
    out->offset = memory - base;
    result = cuda->ipc_memory_get(&out->handle, base);
    return result == BR_CUDA_SUCCESS ? 0
                                     : br_cuda_error(cuda, result, "an IPC handle of GPU memory");
}

static int find_extents(struct br_ipc *ipc, const struct br_cuda *cuda, br_cuda_pointer memory,
                        size_t bytes, struct br_ipc_note *out, struct br_extent *extents)
{
    br_cuda_pointer base = 0;
    int rc;

    ipc->cuda = cuda;
    rc = br_exports_find(ipc->exports, cuda, memory, bytes, extents, &out->extents, &base);

    if (rc)
        return rc;
    out->base = base;
    out->offset = memory - base;
    for (uint32_t i = 0; i < out->extents; i++)
        out->bytes += extents[i].bytes;
    return 0;
}

static bool has_handle(const struct br_cuda *cuda, br_cuda_pointer memory)
{
    unsigned int has = 1;

    return cuda->pointer_attribute(&has, BR_CUDA_POINTER_LEGACY_IPC, memory) != BR_CUDA_SUCCESS ||
           has;
}

int br_ipc_note(struct br_ipc *ipc, int gpu, const void *memory, size_t bytes,
                struct br_ipc_note *out, struct br_extent *extents)
{
    const struct br_cuda *cuda;
    int rc = ipc_enter(gpu, &cuda);

    if (rc)
        return rc;
    memset(out, 0, sizeof *out);
    if (!cuda->memory_range || !cuda->ipc_memory_get || !cuda->ipc_memory_open ||
        !cuda->ipc_memory_close)
        rc = br_error(EOPNOTSUPP, "this CUDA driver has no IPC");
    else if (!ipc || has_handle(cuda, (uintptr_t)memory))
        rc = find_allocation(cuda, (uintptr_t)memory, bytes, out);
    else
        rc = find_extents(ipc, cuda, (uintptr_t)memory, bytes, out, extents);
    br_cuda_leave(cuda);
    return rc;
}

/* ---- create and destroy ---------------------------------------------------------------------- */

int br_ipc_create(int ranks, struct br_ipc **out)
{
    struct br_ipc *ipc = calloc(1, sizeof *ipc);
    int rc;

    if (!ipc)
        return br_error(ENOMEM, "no memory for what other processes have on GPUs");
    br_list_init(&ipc->mappings);
    rc = br_exports_create(ranks, &ipc->exports);
    if (!rc)
        rc = br_imports_create(&ipc->imports);
    if (rc) {
        br_exports_destroy(ipc->exports, NULL);
        free(ipc);
        return rc;
    }
    *out = ipc;
    return 0;
}

/* lost: it stays mapped. */
static void ipc_drop(struct br_ipc *ipc, struct mapping *mapping, bool lost)
{
    const struct br_cuda *cuda;

    br_list_remove(&mapping->node);
    ipc->n_stale -= mapping->stale;
    if (!lost && !ipc_enter(mapping->gpu, &cuda)) {
        if (mapping->count)
            br_imports_unmap(cuda, mapping->at, mapping->extents, mapping->count);
        else
            cuda->ipc_memory_close(mapping->at);
        br_cuda_leave(cuda);
    }
    free(mapping);
}

void br_ipc_destroy(struct br_ipc *ipc, bool lost)
{
    if (!ipc)
        return;
    br_list_for_each_safe (node, &ipc->mappings)
        ipc_drop(ipc, br_container_of(node, struct mapping, node), lost);
    br_imports_destroy(ipc->imports, lost ? NULL : ipc->cuda);
    br_exports_destroy(ipc->exports, lost ? NULL : ipc->cuda);
    free(ipc);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

bool br_ipc_must_send(const struct br_ipc *ipc, int rank, const struct br_extent *extent)
{
    return !br_exports_has(ipc->exports, rank, extent);
}

int br_ipc_open(const struct br_ipc *ipc, int gpu, const struct br_extent *extent)
{
    const struct br_cuda *cuda;
    int rc = ipc_enter(gpu, &cuda);

    if (rc)
        return rc;
    rc = br_exports_open(ipc->exports, cuda, extent);
    br_cuda_leave(cuda);
    return rc;
}

void br_ipc_sent(struct br_ipc *ipc, int rank, const struct br_extent *extent)
{
    br_exports_sent(ipc->exports, rank, extent);
}

uint32_t br_ipc_freed(struct br_ipc *ipc, const int *ranks, int n, struct br_extent *out)
{
    return br_exports_freed(ipc->exports, ranks, n, out);
}

bool br_ipc_must_receive(const struct br_ipc *ipc, int rank, const struct br_extent *extent)
{
    return !br_imports_has(ipc->imports, rank, extent);
}

static bool ipc_contains(const struct mapping *mapping, const struct br_extent *extent)
{
    for (uint32_t i = 0; i < mapping->count; i++)
        if (mapping->extents[i].serial == extent->serial)
            return true;
    return false;
}

void br_ipc_drop(struct br_ipc *ipc, int rank, const struct br_extent *extent)
{
    if (!br_imports_has(ipc->imports, rank, extent))
        return;
    br_imports_drop(ipc->imports, ipc->cuda, rank, extent);
    br_list_for_each (node, &ipc->mappings) {
        struct mapping *mapping = br_container_of(node, struct mapping, node);

        if (mapping->rank != rank || mapping->stale || !ipc_contains(mapping, extent))
            continue;
        mapping->stale = true;
        ipc->n_stale++;
    }
}

int br_ipc_take(struct br_ipc *ipc, int gpu, int rank, const struct br_extent *extent, int fd)
{
    const struct br_cuda *cuda;
    struct br_extent before;
    int rc = ipc_enter(gpu, &cuda);

    if (rc) {
        close(fd);
        return rc;
    }
    ipc->cuda = cuda;
    if (br_imports_before(ipc->imports, rank, extent, &before))
        br_ipc_drop(ipc, rank, &before);
    rc = br_imports_take(ipc->imports, cuda, rank, extent, fd);
    br_cuda_leave(cuda);
    return rc;
}

/* ---- mappings -------------------------------------------------------------------------------- */

/* Its extents are some of the mapping's, one after the other. */
static bool holds_extents(const struct mapping *mapping, const struct br_ipc_note *note,
                          const struct br_extent *extents)
{
    uint32_t first = 0;

    if (mapping->stale || note->base < mapping->base ||
        note->base + note->bytes > mapping->base + mapping->bytes)
        return false;
    while (first < mapping->count && mapping->extents[first].serial != extents[0].serial)
        first++;
    return note->extents <= mapping->count - first &&
           memcmp(&mapping->extents[first], extents, note->extents * sizeof *extents) == 0;
}

static bool is_named(const struct mapping *mapping, const struct br_ipc_note *note,
                     const struct br_extent *extents)
{
    if (!note->extents != !mapping->count)
        return false;
    return note->extents ? holds_extents(mapping, note, extents)
                         : memcmp(&mapping->handle, &note->handle, sizeof note->handle) == 0;
}

static struct mapping *ipc_find(const struct br_ipc *ipc, int gpu, int rank,
                                const struct br_ipc_note *note, const struct br_extent *extents)
{
    br_list_for_each (node, &ipc->mappings) {
        struct mapping *mapping = br_container_of(node, struct mapping, node);

        if (mapping->gpu == gpu && mapping->rank == rank && is_named(mapping, note, extents))
            return mapping;
    }
    return NULL;
}

bool br_ipc_has(const struct br_ipc *ipc, int gpu, int rank, const struct br_ipc_note *note,
                const struct br_extent *extents)
{
    return ipc_find(ipc, gpu, rank, note, extents) != NULL;
}

bool br_ipc_is_stale(const struct br_ipc *ipc)
{
    return ipc->n_stale > 0;
}

void br_ipc_clear(struct br_ipc *ipc)
{
    if (ipc->refs) /* note 2: that may be other extents of the same mapping */
        return;
    br_list_for_each_safe (node, &ipc->mappings) {
        struct mapping *mapping = br_container_of(node, struct mapping, node);

        if (mapping->stale)
            ipc_drop(ipc, mapping, false);
    }
}

/* Note 2. Extents are told to be gone. */
static bool is_freed(const struct mapping *mapping, int rank, const struct br_ipc_note *note)
{
    return mapping->rank == rank && mapping->base < note->base + note->bytes &&
           note->base < mapping->base + mapping->bytes && !(mapping->count && note->extents) &&
           memcmp(&mapping->handle, &note->handle, sizeof note->handle) != 0;
}

static void ipc_make_room(struct br_ipc *ipc, int rank, const struct br_ipc_note *note)
{
    uint32_t kept = 0;

    if (ipc->refs)
        return;
    br_list_for_each_safe (node, &ipc->mappings) { /* the last used first */
        struct mapping *mapping = br_container_of(node, struct mapping, node);

        if (is_freed(mapping, rank, note) || kept >= LIMIT - 1)
            ipc_drop(ipc, mapping, false);
        else
            kept++;
    }
}

static int open_mapping(const struct br_ipc *ipc, struct mapping *mapping)
{
    const struct br_cuda *cuda;
    br_cuda_result result;
    int rc = ipc_enter(mapping->gpu, &cuda);

    if (rc)
        return rc;
    if (mapping->count) {
        rc = br_imports_map(ipc->imports, cuda, mapping->gpu - 1, mapping->rank, mapping->extents,
                            mapping->count, &mapping->at);
    } else {
        result = cuda->ipc_memory_open(&mapping->at, mapping->handle, BR_CUDA_IPC_PEER_ACCESS);
        if (result != BR_CUDA_SUCCESS)
            rc = br_cuda_error(cuda, result, "GPU %d: %zu bytes of rank %d's", mapping->gpu - 1,
                               (size_t)mapping->bytes, mapping->rank);
    }
    br_cuda_leave(cuda);
    return rc;
}

static int ipc_map(struct br_ipc *ipc, int gpu, int rank, const struct br_ipc_note *note,
                   const struct br_extent *extents, struct mapping **out)
{
    size_t names = note->extents * sizeof *extents;
    struct mapping *mapping = malloc(sizeof *mapping + names);
    int rc;

    if (!mapping)
        return br_error(ENOMEM, "no memory for what rank %d has on a GPU", rank);
    ipc_make_room(ipc, rank, note);
    *mapping = (struct mapping){.gpu = gpu,
                                .rank = rank,
                                .handle = note->handle,
                                .base = note->base,
                                .bytes = note->bytes,
                                .count = note->extents};
    if (names)
        memcpy(mapping->extents, extents, names);
    rc = open_mapping(ipc, mapping);
    if (rc) {
        free(mapping);
        return rc;
    }
    br_list_init(&mapping->node);
    br_list_push_front(&ipc->mappings, &mapping->node);
    *out = mapping;
    return 0;
}

void br_ipc_retain(struct br_ipc *ipc)
{
    ipc->refs++;
}

void br_ipc_release(struct br_ipc *ipc)
{
    ipc->refs--;
}

int br_ipc_map(struct br_ipc *ipc, int gpu, int rank, const struct br_ipc_note *note,
               const struct br_extent *extents, size_t bytes, void **out)
{
    struct mapping *mapping = ipc_find(ipc, gpu, rank, note, extents);
    int rc = 0;

    if (note->offset > note->bytes || bytes > note->bytes - note->offset)
        return br_error(EPROTO, "rank %d: %zu bytes on a GPU end behind their allocation", rank,
                        bytes);
    if (!mapping)
        rc = ipc_map(ipc, gpu, rank, note, extents, &mapping);
    if (rc)
        return rc;
    br_list_remove(&mapping->node);
    br_list_push_front(&ipc->mappings, &mapping->node);
    *out = (void *)(uintptr_t)(mapping->at + (note->base - mapping->base) + note->offset);
    return 0;
}
