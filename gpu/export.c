/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "gpu/extent.h"

struct export
{
    br_cuda_pointer at; /* where it is mapped */
    size_t bytes;
    unsigned long long handle; /* retained; not any more when it is gone */
    bool gone;
    struct br_extent extent;
    uint32_t given; /* ranks that have it */
    uint64_t to[];  /* which: a bit for each */
};

struct br_exports {
    size_t words; /* of `to` */
    uint64_t serial;
    uint32_t n, n_gone, look; /* in by_address; in slots alone; the next that is looked at in passing */
    struct export *by_address[BR_EXTENTS_ALL];
    struct export *slots[BR_EXTENTS_ALL];
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

/* ---- the table --------------------------------------------------------------------------------- */

static void free_slot(struct br_exports *exports, struct export *export)
{
    exports->slots[export->extent.slot] = NULL;
    exports->n_gone -= export->gone;
    free(export);
}

/* Note 3. */
static void forget(struct br_exports *exports, const struct br_cuda *cuda, uint32_t i)
{
    struct export *export = exports->by_address[i];

    cuda->vmm_release(export->handle);
    exports->n--;
    memmove(&exports->by_address[i], &exports->by_address[i + 1],
            (exports->n - i) * sizeof exports->by_address[0]);
    export->gone = true;
    exports->n_gone++;
    if (!export->given)
        free_slot(exports, export);
}

/* Is it mapped there yet? */
static bool is_there(const struct br_cuda *cuda, const struct export *export)
{
    unsigned long long handle;

    if (cuda->vmm_retain(&handle, (void *)(uintptr_t) export->at) != BR_CUDA_SUCCESS)
        return false;
    cuda->vmm_release(handle);
    return handle == export->handle;
}

static void look_in_passing(struct br_exports *exports, const struct br_cuda *cuda)
{
    if (!exports->n)
        return;
    exports->look = (exports->look + 1) % exports->n;
    if (!is_there(cuda, exports->by_address[exports->look]))
        forget(exports, cuda, exports->look);
}

/* The first that ends behind an address. */
static uint32_t position(const struct br_exports *exports, br_cuda_pointer at)
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
static int insert(struct br_exports *exports, uint32_t i, br_cuda_pointer at, size_t bytes,
                  unsigned long long handle)
{
    uint32_t slot = free_place(exports);
    struct export *export;

    if (slot == BR_EXTENTS_ALL)
        return br_error(ENOSPC, "other processes have %u allocations of cuMemCreate() of this one already",
                        BR_EXTENTS_ALL);
    export = calloc(1, sizeof *export + exports->words * sizeof export->to[0]);
    if (!export)
        return br_error(ENOMEM, "no memory for what is exported of GPUs");
    export->at = at;
    export->bytes = bytes;
    export->handle = handle;
    export->extent = (struct br_extent){.serial = ++exports->serial, .bytes = bytes, .slot = slot};
    exports->slots[slot] = export;
    memmove(&exports->by_address[i + 1], &exports->by_address[i],
            (exports->n - i) * sizeof exports->by_address[0]);
    exports->by_address[i] = export;
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
static int add(struct br_exports *exports, const struct br_cuda *cuda, br_cuda_pointer at, size_t bytes,
               unsigned long long handle, struct export **out)
{
    uint32_t i = position(exports, at);
    int rc;

    while (i < exports->n && exports->by_address[i]->at < at + bytes)
        forget(exports, cuda, i);
    rc = open_handle(cuda, handle);
    if (rc < 0)
        return rc;
    close(rc);
    rc = insert(exports, i, at, bytes, handle);
    *out = rc ? NULL : exports->by_address[i];
    return rc;
}

/* What is mapped at an address. */
static int find(struct br_exports *exports, const struct br_cuda *cuda, br_cuda_pointer at,
                struct export **out)
{
    unsigned long long handle;
    br_cuda_pointer base;
    br_cuda_result result;
    uint32_t i;
    size_t bytes;
    int rc;

    result = cuda->memory_range(&base, &bytes, at);
    if (result == BR_CUDA_SUCCESS)
        result = cuda->vmm_retain(&handle, (void *)(uintptr_t)at);
    if (result != BR_CUDA_SUCCESS)
        return br_cuda_error(cuda, result,
                             "memory of a GPU that has no IPC handle and is not cuMemCreate()'s");
    i = position(exports, base);
    *out = i < exports->n ? exports->by_address[i] : NULL;
    if (*out && (*out)->at == base && (*out)->bytes == bytes && (*out)->handle == handle) {
        cuda->vmm_release(handle);
        return 0;
    }
    rc = add(exports, cuda, base, bytes, handle, out);
    if (rc)
        cuda->vmm_release(handle);
    return rc;
}

int br_exports_find(struct br_exports *exports, const struct br_cuda *cuda, br_cuda_pointer memory,
                    size_t bytes, struct br_extent *out, uint32_t *n, br_cuda_pointer *first)
{
    br_cuda_pointer at = memory;
    struct export *export = NULL;
    int rc;

    if (!cuda->vmm_retain || !cuda->vmm_export || !cuda->vmm_release)
        return br_error(EOPNOTSUPP, "this memory of a GPU has no IPC handle, and this CUDA driver no other");
    look_in_passing(exports, cuda);
    *n = 0;
    do {
        rc = *n < BR_EXTENTS
                 ? find(exports, cuda, at, &export)
                 : br_error(E2BIG, "%zu bytes of a GPU lie in more than %u allocations", bytes, BR_EXTENTS);
        if (rc)
            return rc;
        if (!*n)
            *first = export->at;
        out[(*n)++] = export->extent;
        at = export->at + export->bytes;
    } while (at < memory + bytes);
    return 0;
}

/* ---- who has it -------------------------------------------------------------------------------- */

static struct export *of(const struct br_exports *exports, const struct br_extent *extent)
{
    struct export *export = exports->slots[extent->slot];

    return export && export->extent.serial == extent->serial ? export : NULL;
}

static bool has(const struct export *export, int rank)
{
    return export->to[rank / 64] >> rank % 64 & 1;
}

bool br_exports_has(const struct br_exports *exports, int rank, const struct br_extent *extent)
{
    const struct export *export = of(exports, extent);

    return export && has(export, rank);
}

int br_exports_open(const struct br_exports *exports, const struct br_cuda *cuda,
                    const struct br_extent *extent)
{
    const struct export *export = of(exports, extent);

    return export && !export->gone ? open_handle(cuda, export->handle)
                                   : br_error(ENOENT, "memory of cuMemCreate() that was unmapped meanwhile");
}

void br_exports_given(struct br_exports *exports, int rank, const struct br_extent *extent)
{
    struct export *export = of(exports, extent);

    if (!export || has(export, rank))
        return;
    export->to[rank / 64] |= 1ull << rank % 64;
    export->given++;
}

static bool tell(struct export *export, const int *ranks, int n)
{
    uint32_t before = export->given;

    for (int i = 0; i < n; i++) {
        if (!has(export, ranks[i]))
            continue;
        export->to[ranks[i] / 64] &= ~(1ull << ranks[i] % 64);
        export->given--;
    }
    return export->given < before;
}

uint32_t br_exports_gone(struct br_exports *exports, const int *ranks, int n, struct br_extent *out)
{
    uint32_t told = 0;

    for (uint32_t slot = 0; slot < BR_EXTENTS_ALL && told < BR_GONE && exports->n_gone; slot++) {
        struct export *export = exports->slots[slot];

        if (!export || !export->gone || !tell(export, ranks, n))
            continue;
        out[told++] = export->extent;
        if (!export->given)
            free_slot(exports, export);
    }
    return told;
}
