/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "gpu/extent.h"

struct offer {
    br_cuda_pointer at; /* where it is mapped */
    size_t bytes;
    unsigned long long handle; /* retained; not any more when it is gone */
    bool freed;
    struct br_extent extent;
    uint32_t sent; /* ranks that have it */
    uint64_t to[]; /* which: a bit for each */
};

struct br_exports {
    size_t words; /* of `to` */
    uint64_t serial;
    /* in by_address; in slots alone; the next that is looked at in passing */
    uint32_t n, n_freed, next_check;
    struct offer *by_address[BR_EXTENTS_ALL];
    struct offer *slots[BR_EXTENTS_ALL];
};

int br_exports_create(int ranks, struct br_exports **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return br_error(ENOMEM, "no memory for what is exported of GPUs");
    (*out)->words = ((size_t)ranks + 63) / 64;
    return 0;
}

void br_exports_destroy(struct br_exports *exports, const struct br_cuda *cuda)
{
    if (!exports)
        return;
    for (uint32_t i = 0; cuda && i < exports->n; i++)
        cuda->vmm_release(exports->by_address[i]->handle);
    for (uint32_t i = 0; i < BR_EXTENTS_ALL; i++)
        free(exports->slots[i]);
    free(exports);
}

/* ---- the table ------------------------------------------------------------------------------- */

static void free_slot(struct br_exports *exports, struct offer *offer)
{
    exports->slots[offer->extent.slot] = NULL;
    exports->n_freed -= offer->freed;
    free(offer);
}

/* Note 3. */
static void export_forget(struct br_exports *exports, const struct br_cuda *cuda, uint32_t i)
{
    struct offer *offer = exports->by_address[i];

    cuda->vmm_release(offer->handle);
    exports->n--;
    memmove(&exports->by_address[i], &exports->by_address[i + 1],
            (exports->n - i) * sizeof exports->by_address[0]);
    offer->freed = true;
    exports->n_freed++;
    if (!offer->sent)
        free_slot(exports, offer);
}

/* Is it mapped there yet? */
static bool is_there(const struct br_cuda *cuda, const struct offer *offer)
{
    unsigned long long handle;

    if (cuda->vmm_retain(&handle, (void *)(uintptr_t)offer->at) != BR_CUDA_SUCCESS)
        return false;
    cuda->vmm_release(handle);
    return handle == offer->handle;
}

static void check_one_extent(struct br_exports *exports, const struct br_cuda *cuda)
{
    if (!exports->n)
        return;
    exports->next_check = (exports->next_check + 1) % exports->n;
    if (!is_there(cuda, exports->by_address[exports->next_check]))
        export_forget(exports, cuda, exports->next_check);
}

/* The first that ends behind an address. */
static uint32_t export_position(const struct br_exports *exports, br_cuda_pointer at)
{
    uint32_t low = 0, high = exports->n;

    while (low < high) {
        uint32_t i = (low + high) / 2;

        if (exports->by_address[i]->at + exports->by_address[i]->bytes <= at)
            low = i + 1;
        else
            high = i;
    }
    return low;
}

static uint32_t free_place(const struct br_exports *exports)
{
    uint32_t slot = 0;

    while (slot < BR_EXTENTS_ALL && exports->slots[slot])
        slot++;
    return slot;
}

/* handle: retained, and the table's from now on. */
static int export_insert(struct br_exports *exports, uint32_t i, br_cuda_pointer at, size_t bytes,
                         unsigned long long handle)
{
    uint32_t slot = free_place(exports);
    struct offer *offer;

    if (slot == BR_EXTENTS_ALL)
        return br_error(ENOSPC,
                        "other processes have %u allocations of cuMemCreate() of this one already",
                        BR_EXTENTS_ALL);
    offer = calloc(1, sizeof *offer + exports->words * sizeof offer->to[0]);
    if (!offer)
        return br_error(ENOMEM, "no memory for what is exported of GPUs");
    offer->at = at;
    offer->bytes = bytes;
    offer->handle = handle;
    offer->extent = (struct br_extent){.serial = ++exports->serial, .bytes = bytes, .slot = slot};
    exports->slots[slot] = offer;
    memmove(&exports->by_address[i + 1], &exports->by_address[i],
            (exports->n - i) * sizeof exports->by_address[0]);
    exports->by_address[i] = offer;
    exports->n++;
    return 0;
}

static int open_handle(const struct br_cuda *cuda, unsigned long long handle)
{
    int fd;
    br_cuda_result result = cuda->vmm_export(&fd, handle, BR_CUDA_HANDLE_FD, 0);

    return result == BR_CUDA_SUCCESS
               ? fd
               : br_cuda_error(cuda, result,
                               "a descriptor of memory of cuMemCreate() (was it made with "
                               "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR?)");
}

/* What was there before is gone; can this be exported? */
static int export_add(struct br_exports *exports, const struct br_cuda *cuda, br_cuda_pointer at,
                      size_t bytes, unsigned long long handle, struct offer **out)
{
    uint32_t i = export_position(exports, at);
    int rc;

    while (i < exports->n && exports->by_address[i]->at < at + bytes)
        export_forget(exports, cuda, i);
    rc = open_handle(cuda, handle);
    if (rc < 0)
        return rc;
    close(rc);
    rc = export_insert(exports, i, at, bytes, handle);
    *out = rc ? NULL : exports->by_address[i];
    return rc;
}

static bool is_mapping(const struct offer *offer, br_cuda_pointer at, size_t bytes,
                       unsigned long long handle)
{
    return offer->at == at && offer->bytes == bytes && offer->handle == handle;
}

/* What is mapped at an address; NULL: an error, which is returned. */
static int export_find(struct br_exports *exports, const struct br_cuda *cuda, br_cuda_pointer at,
                       struct offer **out)
{
    unsigned long long handle;
    br_cuda_pointer base;
    br_cuda_result result;
    uint32_t i;
    size_t bytes;
    int rc;

    *out = NULL;
    result = cuda->memory_range(&base, &bytes, at);
    if (result == BR_CUDA_SUCCESS)
        result = cuda->vmm_retain(&handle, (void *)(uintptr_t)at);
    if (result != BR_CUDA_SUCCESS)
        return br_cuda_error(cuda, result,
                             "memory of a GPU that has no IPC handle and is not cuMemCreate()'s");
    i = export_position(exports, base);
    if (i < exports->n && is_mapping(exports->by_address[i], base, bytes, handle)) {
        *out = exports->by_address[i];
        cuda->vmm_release(handle);
        return 0;
    }
    rc = export_add(exports, cuda, base, bytes, handle, out);
    if (rc)
        cuda->vmm_release(handle);
    return rc;
}

int br_exports_find(struct br_exports *exports, const struct br_cuda *cuda, br_cuda_pointer memory,
                    size_t bytes, struct br_extent *out, uint32_t *n, br_cuda_pointer *first)
{
    br_cuda_pointer at = memory;
    struct offer *offer;
    int rc;

    if (!cuda->vmm_retain || !cuda->vmm_export || !cuda->vmm_release)
        return br_error(EOPNOTSUPP,
                        "this memory of a GPU has no IPC handle, and this CUDA driver no other");
    check_one_extent(exports, cuda);
    *n = 0;
    do {
        if (*n == BR_EXTENTS)
            return br_error(E2BIG, "%zu bytes of a GPU lie in more than %u allocations", bytes,
                            BR_EXTENTS);
        rc = export_find(exports, cuda, at, &offer);
        if (!offer)
            return rc;
        if (!*n)
            *first = offer->at;
        out[(*n)++] = offer->extent;
        at = offer->at + offer->bytes;
    } while (at < memory + bytes);
    return 0;
}

/* ---- who has it ------------------------------------------------------------------------------ */

static struct offer *export_of(const struct br_exports *exports, const struct br_extent *extent)
{
    struct offer *offer = exports->slots[extent->slot];

    return offer && offer->extent.serial == extent->serial ? offer : NULL;
}

static bool export_has(const struct offer *offer, int rank)
{
    return offer->to[rank / 64] >> rank % 64 & 1;
}

bool br_exports_has(const struct br_exports *exports, int rank, const struct br_extent *extent)
{
    const struct offer *offer = export_of(exports, extent);

    return offer && export_has(offer, rank);
}

int br_exports_open(const struct br_exports *exports, const struct br_cuda *cuda,
                    const struct br_extent *extent)
{
    const struct offer *offer = export_of(exports, extent);

    return offer && !offer->freed
               ? open_handle(cuda, offer->handle)
               : br_error(ENOENT, "memory of cuMemCreate() that was unmapped meanwhile");
}

void br_exports_sent(struct br_exports *exports, int rank, const struct br_extent *extent)
{
    struct offer *offer = export_of(exports, extent);

    if (!offer || export_has(offer, rank))
        return;
    offer->to[rank / 64] |= 1ull << rank % 64;
    offer->sent++;
}

static bool export_report_freed(struct offer *offer, const int *ranks, int n)
{
    uint32_t before = offer->sent;

    for (int i = 0; i < n; i++) {
        if (!export_has(offer, ranks[i]))
            continue;
        offer->to[ranks[i] / 64] &= ~(1ull << ranks[i] % 64);
        offer->sent--;
    }
    return offer->sent < before;
}

uint32_t br_exports_freed(struct br_exports *exports, const int *ranks, int n,
                          struct br_extent *out)
{
    uint32_t told = 0;

    for (uint32_t slot = 0; slot < BR_EXTENTS_ALL && told < BR_EXTENTS_FREED && exports->n_freed;
         slot++) {
        struct offer *offer = exports->slots[slot];

        if (!offer || !offer->freed || !export_report_freed(offer, ranks, n))
            continue;
        out[told++] = offer->extent;
        if (!offer->sent)
            free_slot(exports, offer);
    }
    return told;
}
