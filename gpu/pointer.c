/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/pointer.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "gpu/driver.h"

static const struct br_cuda *_Atomic driver; /* NULL: all memory is the host's */

int br_gpu_look(void)
{
    const char *library = getenv("BRAID_CUDA_LIBRARY");
    bool chosen = library && *library, none = chosen && strcmp(library, "none") == 0;
    const struct br_cuda *cuda = NULL;
    int rc = 0;

    if (!none && (chosen || access("/dev/nvidiactl", F_OK) == 0))
        rc = br_cuda_library(&cuda);
    if (rc)
        br_log_warn("GPUs are not used, give no memory of theirs to braid: %s", br_error_message());
    atomic_store(&driver, cuda);
    return rc;
}

bool br_gpu_found(void)
{
    return atomic_load_explicit(&driver, memory_order_acquire);
}

int br_gpu_check(void)
{
    const struct br_cuda *cuda;
    int rc;

    if (br_gpu_found())
        return 0;
    rc = br_cuda_library(&cuda);
    return rc ? rc
              : br_error(
                    ENODEV,
                    "braid_init() has found no GPU (no /dev/nvidiactl), so all memory counts as "
                    "the "
                    "host's: load the nvidia module before the job, or set BRAID_CUDA_LIBRARY to "
                    "the driver's library");
}

static int ask_driver(const struct br_cuda *cuda, const void *memory)
{
    unsigned int attributes[] = {BR_CUDA_POINTER_KIND, BR_CUDA_POINTER_MANAGED,
                                 BR_CUDA_POINTER_DEVICE};
    unsigned int kind = 0, managed = 0;
    int device = -1;
    void *out[] = {&kind, &managed, &device};

    if (cuda->pointer_attributes(3, attributes, out, (uintptr_t)memory) != BR_CUDA_SUCCESS)
        return 0;
    return kind == BR_CUDA_KIND_DEVICE && !managed && device >= 0 ? device + 1 : 0;
}

int br_gpu_of(const void *memory)
{
    const struct br_cuda *cuda = atomic_load_explicit(&driver, memory_order_acquire);

    return cuda && memory ? ask_driver(cuda, memory) : 0;
}

void br_gpu_settle(const void *memory)
{
    const struct br_cuda *cuda = atomic_load_explicit(&driver, memory_order_acquire);
    unsigned int attributes[] = {BR_CUDA_POINTER_SYNC_MEMOPS, BR_CUDA_POINTER_CONTEXT},
                 synchronous = 0, on = 1;
    struct CUctx_st *context = NULL;
    void *out[] = {&synchronous, &context};

    if (!cuda || !cuda->pointer_set ||
        cuda->pointer_attributes(2, attributes, out, (uintptr_t)memory) != BR_CUDA_SUCCESS ||
        synchronous || !context || br_cuda_enter(cuda, context))
        return;
    cuda->pointer_set(&on, BR_CUDA_POINTER_SYNC_MEMOPS, (uintptr_t)memory);
    br_cuda_leave(cuda);
}

bool br_gpu_is_in(const void *memory, const struct CUctx_st *context)
{
    const struct br_cuda *cuda = atomic_load_explicit(&driver, memory_order_acquire);
    unsigned int attribute = BR_CUDA_POINTER_CONTEXT;
    struct CUctx_st *owner = NULL;
    void *out = &owner;

    return cuda &&
           cuda->pointer_attributes(1, &attribute, &out, (uintptr_t)memory) == BR_CUDA_SUCCESS &&
           (!owner || owner == context);
}
