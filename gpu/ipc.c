/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/ipc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/list.h"
#include "gpu/driver.h"

#define LIMIT 1024 /* mappings, more only while they are held; an operation of 256 ranks uses 510 */

struct mapping {
    struct br_list node; /* the last used first */
    int gpu, rank;
    struct CUipcMemHandle_st handle;
    uint64_t base, bytes; /* in the other process */
    br_cuda_pointer at;
};

struct br_ipc {
    struct br_list mappings;
    int n, holds;
};

/* Its primary context is current until br_cuda_leave(). gpu: as br_gpu_of() names it. */
static int enter(int gpu, const struct br_cuda **cuda)
{
    struct CUctx_st *context;
    int rc = br_cuda_context(gpu - 1, &context);

    if (!rc)
        rc = br_cuda_driver(cuda);
    return rc ? rc : br_cuda_enter(*cuda, context);
}

/* ---- notes ------------------------------------------------------------------------------------- */

static int find_allocation(const struct br_cuda *cuda, br_cuda_pointer memory, size_t bytes,
                           struct br_ipc_note *out)
{
    br_cuda_pointer base;
    size_t size;
    br_cuda_result result = cuda->memory_range(&base, &size, memory);

    if (result != BR_CUDA_SUCCESS)
        return br_cuda_error(cuda, result, "the allocation that holds %zu bytes of a GPU", bytes);
    if (bytes > size - (memory - base))
        return br_error(EINVAL, "%zu bytes of a GPU end behind their allocation of %zu bytes", bytes, size);
    out->base = base;
    out->bytes = size;
    out->offset = memory - base;
    result = cuda->ipc_memory_get(&out->handle, base);
    return result == BR_CUDA_SUCCESS ? 0 : br_cuda_error(cuda, result, "an IPC handle of GPU memory");
}

int br_ipc_note(int gpu, const void *memory, size_t bytes, struct br_ipc_note *out)
{
    const struct br_cuda *cuda;
    int rc = enter(gpu, &cuda);

    if (rc)
        return rc;
    memset(out, 0, sizeof *out);
    if (cuda->memory_range && cuda->ipc_memory_get && cuda->ipc_memory_open && cuda->ipc_memory_close)
        rc = find_allocation(cuda, (uintptr_t)memory, bytes, out);
    else
        rc = br_error(EOPNOTSUPP, "this CUDA driver has no IPC");
    br_cuda_leave(cuda);
    return rc;
}

/* ---- mappings ---------------------------------------------------------------------------------- */

int br_ipc_create(struct br_ipc **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return br_error(ENOMEM, "no memory for what other processes have on GPUs");
    br_list_init(&(*out)->mappings);
    return 0;
}

/* lost: it stays mapped. */
static void drop(struct br_ipc *ipc, struct mapping *mapping, bool lost)
{
    const struct br_cuda *cuda;

    br_list_remove(&mapping->node);
    ipc->n--;
    if (!lost && !enter(mapping->gpu, &cuda)) {
        cuda->ipc_memory_close(mapping->at);
        br_cuda_leave(cuda);
    }
    free(mapping);
}

void br_ipc_destroy(struct br_ipc *ipc, bool lost)
{
    if (!ipc)
        return;
    while (!br_list_empty(&ipc->mappings))
        drop(ipc, br_container_of(ipc->mappings.next, struct mapping, node), lost);
    free(ipc);
}

static struct mapping *find(const struct br_ipc *ipc, int gpu, int rank, const struct br_ipc_note *note)
{
    br_list_for_each (node, &ipc->mappings) {
        struct mapping *mapping = br_container_of(node, struct mapping, node);

        if (mapping->gpu == gpu && mapping->rank == rank &&
            memcmp(&mapping->handle, &note->handle, sizeof note->handle) == 0)
            return mapping;
    }
    return NULL;
}

bool br_ipc_has(const struct br_ipc *ipc, int gpu, int rank, const struct br_ipc_note *note)
{
    return find(ipc, gpu, rank, note) != NULL;
}

/* Note 2. */
static void make_room(struct br_ipc *ipc, int rank, const struct br_ipc_note *note)
{
    br_list_for_each_safe (node, &ipc->mappings) {
        struct mapping *mapping = br_container_of(node, struct mapping, node);

        if (mapping->rank == rank && mapping->base < note->base + note->bytes &&
            note->base < mapping->base + mapping->bytes &&
            memcmp(&mapping->handle, &note->handle, sizeof note->handle) != 0)
            drop(ipc, mapping, false);
    }
    while (ipc->n >= LIMIT && !ipc->holds)
        drop(ipc, br_container_of(ipc->mappings.prev, struct mapping, node), false);
}

static int open_handle(struct mapping *mapping)
{
    const struct br_cuda *cuda;
    br_cuda_result result;
    int rc = enter(mapping->gpu, &cuda);

    if (rc)
        return rc;
    result = cuda->ipc_memory_open(&mapping->at, mapping->handle, BR_CUDA_IPC_PEER_ACCESS);
    br_cuda_leave(cuda);
    return result == BR_CUDA_SUCCESS ? 0
                                     : br_cuda_error(cuda, result, "GPU %d: %zu bytes of rank %d's",
                                                     mapping->gpu - 1, (size_t)mapping->bytes, mapping->rank);
}

static int map(struct br_ipc *ipc, int gpu, int rank, const struct br_ipc_note *note, struct mapping **out)
{
    struct mapping *mapping = malloc(sizeof *mapping);
    int rc;

    if (!mapping)
        return br_error(ENOMEM, "no memory for what rank %d has on a GPU", rank);
    make_room(ipc, rank, note);
    *mapping = (struct mapping){
        .gpu = gpu, .rank = rank, .handle = note->handle, .base = note->base, .bytes = note->bytes};
    rc = open_handle(mapping);
    if (rc) {
        free(mapping);
        return rc;
    }
    br_list_init(&mapping->node);
    br_list_push_front(&ipc->mappings, &mapping->node);
    ipc->n++;
    *out = mapping;
    return 0;
}

void br_ipc_hold(struct br_ipc *ipc)
{
    ipc->holds++;
}

void br_ipc_let_go(struct br_ipc *ipc)
{
    ipc->holds--;
}

int br_ipc_map(struct br_ipc *ipc, int gpu, int rank, const struct br_ipc_note *note, size_t bytes,
               void **out)
{
    struct mapping *mapping = find(ipc, gpu, rank, note);
    int rc = 0;

    if (note->offset > note->bytes || bytes > note->bytes - note->offset)
        return br_error(EPROTO, "rank %d: %zu bytes on a GPU end behind their allocation", rank, bytes);
    if (!mapping)
        rc = map(ipc, gpu, rank, note, &mapping);
    if (rc)
        return rc;
    br_list_remove(&mapping->node);
    br_list_push_front(&ipc->mappings, &mapping->node);
    *out = (void *)(uintptr_t)(mapping->at + note->offset);
    return 0;
}
