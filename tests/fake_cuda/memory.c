/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the devices and pinned host memory: two mappings of one memfd, of which the device's is
 * PROT_NONE. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fake_cuda/inside.h"

#define PAGE  4096ul
#define SHIFT 512ul /* where in its page memory begins that is no multiple of pages */

static struct fake_memory *all;
static unsigned long long last_id;
static size_t used[64]; /* bytes of each device */

static struct CUctx_st foreign_context;

static bool on_device(const struct fake_memory *memory)
{
    return memory->kind == DEVICE || memory->kind == MANAGED;
}

struct fake_memory *fake_find(br_cuda_pointer address)
{
    const char *at = (const char *)(uintptr_t)address;

    for (struct fake_memory *memory = all; memory; memory = memory->next)
        if (at >= memory->at && at < memory->at + memory->bytes)
            return memory;
    return NULL;
}

static bool map_both(struct fake_memory *memory)
{
    bool seen = memory->kind == HOST || memory->kind == MANAGED;
    int protection = seen || (memory->kind == DEVICE && fake_cuda()->peer_memory)
                         ? PROT_READ | PROT_WRITE
                         : PROT_NONE;

    memory->mapping[0] = mmap(NULL, memory->mapped, protection, MAP_SHARED, memory->fd, 0);
    if (memory->mapping[0] == MAP_FAILED)
        return false;
    memory->mapping[1] = memory->mapping[0];
    if (!seen)
        memory->mapping[1] =
            mmap(NULL, memory->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);
    if (memory->mapping[1] != MAP_FAILED)
        return true;
    munmap(memory->mapping[0], memory->mapped);
    return false;
}

void fake_cuda_hide(void)
{
    pthread_mutex_lock(&fake_lock);
    for (const struct fake_memory *memory = all; memory; memory = memory->next)
        if (memory->kind == DEVICE)
            mprotect(memory->mapping[0], memory->mapped, PROT_NONE);
    pthread_mutex_unlock(&fake_lock);
}

br_cuda_result fake_map(enum fake_kind kind, int device, size_t bytes, int fd,
                        struct fake_memory **out)
{
    size_t shift = bytes % PAGE && kind != HOST ? SHIFT : 0;
    struct fake_memory *memory;

    if (kind != HOST && kind != OPENED &&
        (bytes > fake_cuda()->bytes || used[device] > fake_cuda()->bytes - bytes))
        return BR_CUDA_OUT_OF_MEMORY;
    memory = calloc(1, sizeof *memory);
    if (!memory)
        return BR_CUDA_OUT_OF_MEMORY;
    *memory = (struct fake_memory){.kind = kind, .bytes = bytes, .device = device};
    memory->mapped = (bytes + shift + PAGE - 1) & ~(PAGE - 1);
    memory->fd = fd >= 0 ? fd : memfd_create("fake_cuda", MFD_CLOEXEC);
    if (memory->fd < 0 || (fd < 0 && ftruncate(memory->fd, (off_t)memory->mapped)) ||
        !map_both(memory)) {
        if (memory->fd >= 0)
            close(memory->fd);
        free(memory);
        return BR_CUDA_OUT_OF_MEMORY;
    }
    memory->at = memory->mapping[0] + shift;
    memory->real = memory->mapping[1] + shift;
    fake_add(memory);
    if (on_device(memory))
        used[device] += bytes;
    *out = memory;
    return BR_CUDA_SUCCESS;
}

void fake_add(struct fake_memory *memory)
{
    memory->id = ++last_id;
    memory->next = all;
    all = memory;
    fake_objects++;
}

void fake_remove(struct fake_memory *memory)
{
    struct fake_memory **at = &all;

    while (*at != memory)
        at = &(*at)->next;
    *at = memory->next;
    fake_objects--;
}

void fake_unmap(struct fake_memory *memory)
{
    fake_remove(memory);
    if (on_device(memory))
        used[memory->device] -= memory->bytes;
    if (memory->kind != REGISTERED) {
        munmap(memory->mapping[0], memory->mapped);
        if (memory->mapping[1] != memory->mapping[0])
            munmap(memory->mapping[1], memory->mapped);
    }
    if (memory->fd >= 0)
        close(memory->fd);
    free(memory);
}

static br_cuda_result allocate(enum fake_kind kind, size_t bytes, void *out)
{
    struct fake_memory *memory;
    br_cuda_result result;

    if (!bytes)
        return BR_CUDA_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    result = fake_map(kind, fake_current()->device, bytes, -1, &memory);
    fake_counted.host_allocations += kind == HOST;
    pthread_mutex_unlock(&fake_lock);
    if (result == BR_CUDA_SUCCESS)
        *(char **)out = memory->at;
    return result;
}

/* Frees what begins at `at` and is of one of two kinds. */
static br_cuda_result release(const void *at, enum fake_kind kind, enum fake_kind other)
{
    br_cuda_result result = BR_CUDA_INVALID_VALUE;
    struct fake_memory *memory;

    pthread_mutex_lock(&fake_lock);
    memory = fake_find((uintptr_t)at);
    if (memory && memory->at == at && (memory->kind == kind || memory->kind == other)) {
        fake_unmap(memory);
        result = BR_CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

br_cuda_result cuMemAlloc_v2(br_cuda_pointer *out, size_t bytes)
{
    ENTER(cuMemAlloc_v2, CONTEXT);
    return allocate(DEVICE, bytes, out);
}

br_cuda_result fake_cuda_managed(br_cuda_pointer *out, size_t bytes)
{
    ENTER(cuMemAllocManaged, CONTEXT);
    return allocate(MANAGED, bytes, out);
}

br_cuda_result cuMemFree_v2(br_cuda_pointer memory)
{
    ENTER(cuMemFree_v2, CONTEXT);
    fake_finish_late_copy();
    while (fake_pump()) /* freeing waits for the device */
        ;
    return release((const void *)(uintptr_t)memory, DEVICE, MANAGED);
}

br_cuda_result cuMemHostAlloc(void **out, size_t bytes, unsigned int flags)
{
    (void)flags;
    ENTER(cuMemHostAlloc, CONTEXT);
    return allocate(HOST, bytes, out);
}

br_cuda_result cuMemFreeHost(void *memory)
{
    ENTER(cuMemFreeHost, CONTEXT);
    fake_wait_for_all("cuMemFreeHost");
    return release(memory, HOST, HOST);
}

br_cuda_result cuMemHostRegister_v2(void *at, size_t bytes, unsigned int flags)
{
    struct fake_memory *memory;
    bool overlaps;

    (void)flags;
    ENTER(cuMemHostRegister_v2, CONTEXT);
    memory = calloc(1, sizeof *memory);
    if (!memory)
        return BR_CUDA_OUT_OF_MEMORY;
    pthread_mutex_lock(&fake_lock);
    overlaps = fake_find((uintptr_t)at) || fake_find((uintptr_t)at + bytes - 1);
    if (!overlaps) {
        *memory = (struct fake_memory){.kind = REGISTERED,
                                       .at = at,
                                       .real = at,
                                       .bytes = bytes,
                                       .fd = -1,
                                       .device = fake_current()->device};
        fake_add(memory);
        fake_counted.host_allocations++;
    }
    pthread_mutex_unlock(&fake_lock);
    if (overlaps)
        free(memory);
    return overlaps ? BR_CUDA_HOST_MEMORY_ALREADY_REGISTERED : BR_CUDA_SUCCESS;
}

br_cuda_result cuMemHostUnregister(void *memory)
{
    ENTER(cuMemHostUnregister, CONTEXT);
    fake_wait_for_all("cuMemHostUnregister");
    return release(memory, REGISTERED, REGISTERED) ? BR_CUDA_HOST_MEMORY_NOT_REGISTERED
                                                   : BR_CUDA_SUCCESS;
}

br_cuda_result cuMemHostGetDevicePointer_v2(br_cuda_pointer *out, void *at, unsigned int flags)
{
    struct fake_memory *memory;

    (void)flags;
    ENTER(cuMemHostGetDevicePointer_v2, CONTEXT);
    pthread_mutex_lock(&fake_lock);
    memory = fake_find((uintptr_t)at);
    pthread_mutex_unlock(&fake_lock);
    *out = (uintptr_t)at;
    return memory && (memory->kind == HOST || memory->kind == REGISTERED) ? BR_CUDA_SUCCESS
                                                                          : BR_CUDA_INVALID_VALUE;
}

br_cuda_result cuMemGetInfo_v2(size_t *unused, size_t *total)
{
    ENTER(cuMemGetInfo_v2, CONTEXT);
    *total = fake_cuda()->bytes;
    *unused = *total - used[fake_current()->device];
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuMemGetAddressRange_v2(br_cuda_pointer *base, size_t *bytes, br_cuda_pointer at)
{
    struct fake_memory *memory;

    ENTER(cuMemGetAddressRange_v2, CONTEXT);
    pthread_mutex_lock(&fake_lock);
    memory = fake_find(at);
    if (memory && base)
        *base = (uintptr_t)memory->at;
    if (memory && bytes)
        *bytes = memory->bytes;
    pthread_mutex_unlock(&fake_lock);
    return memory ? BR_CUDA_SUCCESS : BR_CUDA_NOT_FOUND;
}

static br_cuda_result attribute_of(const struct fake_memory *memory, unsigned int attribute,
                                   void *out)
{
    bool host = memory->kind == HOST || memory->kind == REGISTERED;

    switch (attribute) {
    case BR_CUDA_POINTER_CONTEXT:
        *(struct CUctx_st **)out = memory->foreign   ? &foreign_context
                                   : memory->created ? NULL
                                                     : fake_context_of(memory->device);
        return BR_CUDA_SUCCESS;
    case BR_CUDA_POINTER_KIND:
        *(unsigned *)out = host ? BR_CUDA_KIND_HOST : BR_CUDA_KIND_DEVICE;
        return BR_CUDA_SUCCESS;
    case BR_CUDA_POINTER_SYNC_MEMOPS:
        *(unsigned *)out = memory->synchronous;
        return BR_CUDA_SUCCESS;
    case BR_CUDA_POINTER_BUFFER:
        *(unsigned long long *)out = memory->id;
        return BR_CUDA_SUCCESS;
    case BR_CUDA_POINTER_MANAGED:
        *(unsigned *)out = memory->kind == MANAGED;
        return BR_CUDA_SUCCESS;
    case BR_CUDA_POINTER_DEVICE:
        *(int *)out = memory->device;
        return BR_CUDA_SUCCESS;
    case BR_CUDA_POINTER_LEGACY_IPC:
        *(unsigned *)out = memory->kind == DEVICE && !memory->created;
        return BR_CUDA_SUCCESS;
    case BR_CUDA_POINTER_START:
        *(br_cuda_pointer *)out = (uintptr_t)memory->at;
        return BR_CUDA_SUCCESS;
    case BR_CUDA_POINTER_BYTES:
        *(size_t *)out = memory->bytes;
        return BR_CUDA_SUCCESS;
    default:
        return BR_CUDA_INVALID_VALUE;
    }
}

br_cuda_result cuPointerGetAttribute(void *out, unsigned int attribute, br_cuda_pointer pointer)
{
    br_cuda_result result = BR_CUDA_INVALID_VALUE;
    struct fake_memory *memory;

    ENTER(cuPointerGetAttribute, DRIVER);
    pthread_mutex_lock(&fake_lock);
    memory = fake_find(pointer);
    if (memory)
        result = attribute_of(memory, attribute, out);
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* Of an unknown address: success, and zeros. */
br_cuda_result cuPointerGetAttributes(unsigned int n, unsigned int *attributes, void **out,
                                      br_cuda_pointer pointer)
{
    struct fake_memory nothing = {.kind = HOST};
    struct fake_memory *memory;

    ENTER(cuPointerGetAttributes, DRIVER);
    pthread_mutex_lock(&fake_lock);
    memory = fake_find(pointer);
    for (unsigned int i = 0; i < n; i++) {
        attribute_of(memory ? memory : &nothing, attributes[i], out[i]);
        if (!memory && attributes[i] == BR_CUDA_POINTER_KIND)
            *(unsigned *)out[i] = 0;
        if (!memory && attributes[i] == BR_CUDA_POINTER_DEVICE)
            *(int *)out[i] = -2;
        if (!memory && attributes[i] == BR_CUDA_POINTER_CONTEXT)
            *(struct CUctx_st **)out[i] = NULL;
    }
    pthread_mutex_unlock(&fake_lock);
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuPointerSetAttribute(const void *value, unsigned int attribute,
                                     br_cuda_pointer pointer)
{
    struct fake_memory *memory;
    bool takes;

    ENTER(cuPointerSetAttribute, CONTEXT);
    fake_finish_late_copy();
    pthread_mutex_lock(&fake_lock);
    memory = fake_find(pointer);
    takes = memory && memory->kind == DEVICE && !memory->created && value &&
            attribute == BR_CUDA_POINTER_SYNC_MEMOPS;
    if (takes)
        memory->synchronous = *(const unsigned int *)value;
    pthread_mutex_unlock(&fake_lock);
    return takes ? BR_CUDA_SUCCESS : BR_CUDA_INVALID_VALUE;
}

unsigned fake_cuda_left(void)
{
    unsigned left;

    pthread_mutex_lock(&fake_lock);
    left = fake_objects;
    pthread_mutex_unlock(&fake_lock);
    return left;
}

void fake_cuda_make_foreign(br_cuda_pointer address)
{
    struct fake_memory *memory;

    pthread_mutex_lock(&fake_lock);
    memory = fake_find(address);
    if (memory)
        memory->foreign = true;
    pthread_mutex_unlock(&fake_lock);
}

bool fake_is_foreign(br_cuda_pointer address)
{
    const struct fake_memory *memory;
    bool foreign;

    pthread_mutex_lock(&fake_lock);
    memory = fake_find(address);
    foreign = memory && memory->foreign;
    pthread_mutex_unlock(&fake_lock);
    return foreign;
}

static char *bytes_of(br_cuda_pointer address, bool *device)
{
    struct fake_memory *memory = fake_find(address);
    char *at = (char *)(uintptr_t)address;

    *device = memory && memory->kind != HOST && memory->kind != REGISTERED;
    return memory && memory->real ? memory->real + (at - memory->at) : at;
}

void *fake_cuda_bytes(br_cuda_pointer address)
{
    bool device;
    void *bytes;

    pthread_mutex_lock(&fake_lock);
    bytes = bytes_of(address, &device);
    pthread_mutex_unlock(&fake_lock);
    return bytes;
}

void fake_copy(br_cuda_pointer to, br_cuda_pointer from, size_t bytes)
{
    bool to_device, from_device;
    char *target, *source;

    pthread_mutex_lock(&fake_lock);
    target = bytes_of(to, &to_device);
    source = bytes_of(from, &from_device);
    *(to_device     ? from_device ? &fake_counted.on_device : &fake_counted.to_device
      : from_device ? &fake_counted.to_host
                    : &fake_counted.host_host) += bytes;
    pthread_mutex_unlock(&fake_lock);
    memmove(target, source, bytes);
}

/* A copy that has returned and not happened (fake_cuda.h, note 8). Under late_lock. */
static struct {
    br_cuda_pointer to;
    size_t bytes;
    char staged[64 << 10];
} late;
static pthread_mutex_t late_lock = PTHREAD_MUTEX_INITIALIZER;

static void finish_late_copy(void)
{
    if (late.bytes)
        fake_copy(late.to, (uintptr_t)late.staged, late.bytes);
    late.bytes = 0;
}

void fake_finish_late_copy(void)
{
    pthread_mutex_lock(&late_lock);
    finish_late_copy();
    pthread_mutex_unlock(&late_lock);
}

static bool may_be_late(br_cuda_pointer to, br_cuda_pointer from, size_t bytes)
{
    const struct fake_memory *memory;
    bool may;

    pthread_mutex_lock(&fake_lock);
    memory = fake_find(to);
    may = bytes <= sizeof late.staged && memory && memory->kind == DEVICE && !memory->synchronous &&
          !fake_find(from);
    pthread_mutex_unlock(&fake_lock);
    return may;
}

br_cuda_result cuMemcpy(br_cuda_pointer to, br_cuda_pointer from, size_t bytes)
{
    ENTER(cuMemcpy, CONTEXT);
    pthread_mutex_lock(&late_lock);
    finish_late_copy();
    if (may_be_late(to, from, bytes)) {
        late.to = to;
        late.bytes = bytes;
        memcpy(late.staged, (const void *)(uintptr_t)from, bytes);
    } else {
        fake_copy(to, from, bytes);
    }
    pthread_mutex_unlock(&late_lock);
    return BR_CUDA_SUCCESS;
}
