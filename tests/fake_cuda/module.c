/* SPDX-License-Identifier: BSD-3-Clause */
/* Modules and kernels: functions of the test, by name. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/fake_cuda/inside.h"
#include "tests/fake_cuda/stream.h"

#define KERNELS 512

/* One for all images (note 4): who gives a GPU up leaves its modules, and they are no leaks. */
static struct CUmod_st {
    char unused;
} module_of_all;

struct CUfunc_st {
    char name[128];
    fake_cuda_kernel_fn *fn;
    size_t sizes[FAKE_ARGUMENTS];
    int n;
};

static struct CUfunc_st kernels[KERNELS];

static struct CUfunc_st *find(const char *name)
{
    for (int i = 0; i < KERNELS; i++)
        if (kernels[i].fn && strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    return NULL;
}

void fake_cuda_kernel(const char *name, fake_cuda_kernel_fn *fn, const size_t *sizes, int n)
{
    struct CUfunc_st *kernel = find(name);

    for (int i = 0; i < KERNELS && !kernel; i++)
        if (!kernels[i].fn)
            kernel = &kernels[i];
    if (!kernel || n > FAKE_ARGUMENTS || strlen(name) >= sizeof kernel->name) {
        fprintf(stderr, "fake_cuda_kernel: no room for %s\n", name);
        return;
    }
    snprintf(kernel->name, sizeof kernel->name, "%s", name);
    kernel->fn = fn;
    kernel->n = n;
    memcpy(kernel->sizes, sizes, (size_t)n * sizeof *sizes);
}

br_cuda_result cuModuleLoadData(struct CUmod_st **out, const void *image)
{
    ENTER(cuModuleLoadData, CONTEXT);
    if (!image)
        return BR_CUDA_INVALID_IMAGE;
    usleep(1000 * fake_cuda()->load_ms);
    fake_wait_for_all("cuModuleLoadData");
    *out = &module_of_all;
    pthread_mutex_lock(&fake_lock);
    fake_objects++;
    pthread_mutex_unlock(&fake_lock);
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuModuleUnload(struct CUmod_st *module)
{
    ENTER(cuModuleUnload, CONTEXT);
    if (module != &module_of_all)
        return BR_CUDA_INVALID_HANDLE;
    fake_wait_for_all("cuModuleUnload");
    pthread_mutex_lock(&fake_lock);
    fake_objects--;
    pthread_mutex_unlock(&fake_lock);
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuModuleGetFunction(struct CUfunc_st **out, struct CUmod_st *module,
                                   const char *name)
{
    ENTER(cuModuleGetFunction, CONTEXT);
    if (!module)
        return BR_CUDA_INVALID_HANDLE;
    *out = find(name);
    return *out ? BR_CUDA_SUCCESS : BR_CUDA_NOT_FOUND;
}

br_cuda_result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, struct CUfunc_st *function,
                                                           int block, size_t shared_bytes)
{
    (void)shared_bytes;
    ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor, CONTEXT);
    *blocks = block > 0 && block <= 1024 ? 2048 / block : 0;
    return function ? BR_CUDA_SUCCESS : BR_CUDA_INVALID_HANDLE;
}

br_cuda_result cuLaunchKernel(struct CUfunc_st *function, unsigned int grid_x, unsigned int grid_y,
                              unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                              unsigned int block_z, unsigned int shared_bytes,
                              struct CUstream_st *stream, void **parameters, void **extra)
{
    struct fake_work work = {
        .kind = LAUNCH,
        .launch = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, NULL}};
    unsigned long long threads = (unsigned long long)block_x * block_y * block_z;
    size_t used = 0;

    ENTER(cuLaunchKernel, CONTEXT);
    if (!function || extra)
        return BR_CUDA_INVALID_HANDLE;
    if (!grid_x || !grid_y || !grid_z || !threads || threads > 1024 || grid_y > 65535 ||
        grid_z > 65535)
        return BR_CUDA_INVALID_VALUE;
    for (int i = 0; i < function->n; i++) {
        if (function->sizes[i] > FAKE_ARGUMENT_BYTES - used)
            return BR_CUDA_INVALID_VALUE;
        memcpy(work.arguments + used, parameters[i], function->sizes[i]);
        work.offsets[i] = used;
        used += (function->sizes[i] + 15) & ~(size_t)15;
        if (used > FAKE_ARGUMENT_BYTES)
            used = FAKE_ARGUMENT_BYTES;
    }
    work.kernel = function->fn;
    return fake_submit(stream, &work);
}
