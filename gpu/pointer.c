/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/pointer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "gpu/driver.h"

static const struct br_cuda *_Atomic driver; /* NULL: all memory is the host's */

void br_gpu_look(void)
{
    const char *library = getenv("BRAID_CUDA_LIBRARY");
    const struct br_cuda *cuda = NULL;

    if ((library && *library) || access("/dev/nvidiactl", F_OK) == 0)
        br_cuda_library(&cuda); /* that it fails is for who has memory of a GPU, and `braid info` */
    atomic_store(&driver, cuda);
}

int br_gpu_of(const void *memory)
{
    const struct br_cuda *cuda = atomic_load_explicit(&driver, memory_order_acquire);
    unsigned int attributes[] = {BR_CUDA_POINTER_KIND, BR_CUDA_POINTER_MANAGED, BR_CUDA_POINTER_DEVICE};
    unsigned int kind = 0, managed = 0;
    int device = -1;
    void *out[] = {&kind, &managed, &device};

    if (!cuda || !memory)
        return 0;
    if (cuda->pointer_attributes(3, attributes, out, (uintptr_t)memory) != BR_CUDA_SUCCESS)
        return 0;
    return kind == BR_CUDA_KIND_DEVICE && !managed && device >= 0 ? device + 1 : 0;
}
