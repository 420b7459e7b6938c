/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/reduce.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "gpu/driver.h"
#include "gpu/kernels.h"
#include "gpu/words.h"

#define BLOCK 256u /* threads */

struct kernel {
    struct CUfunc_st *function;
    unsigned most_blocks; /* how many run at once */
};

struct br_reducer {
    const struct br_cuda *cuda;
    struct CUctx_st *context;
    struct CUmod_st *module;
    struct kernel kernels[BRAID_TYPES][BRAID_REDUCTIONS];
};

#define NAME(type, suffix, TYPE, REDUCTION) [TYPE][REDUCTION] = "braid_reduce_" #type "_" #suffix,
static const char *const names[BRAID_TYPES][BRAID_REDUCTIONS] = {BR_GPU_KERNELS(NAME)};

/* ---- create and destroy ---------------------------------------------------------------------- */

static int gpu_reduce_load(struct br_reducer *r, const struct br_gpu_image *image, int device)
{
    br_cuda_result result;

    if (!image->bytes)
        return br_error(EOPNOTSUPP, "no reduction kernels for GPUs: %s", image->architectures);
    result = r->cuda->module_load(&r->module, image->bytes);
    if (result == BR_CUDA_SUCCESS)
        return 0;
    r->module = NULL;
    br_cuda_error(r->cuda, result, "the reduction kernels on GPU %d", device);
    if (result != BR_CUDA_INVALID_IMAGE && result != BR_CUDA_NO_BINARY_FOR_GPU)
        return -EIO;
    return br_error(
        EOPNOTSUPP,
        "GPU %d or its driver cannot run the reduction kernels of this build (%s): install a "
        "newer driver, or "
        "build with the CUDA toolkit of the driver's version",
        device, image->architectures);
}

static int find_kernels(struct br_reducer *r, int device)
{
    int multiprocessors = 0, blocks = 0;
    br_cuda_result result =
        r->cuda->device_attribute(&multiprocessors, BR_CUDA_MULTIPROCESSORS, device);

    for (int type = 0; type < BRAID_TYPES && result == BR_CUDA_SUCCESS; type++)
        for (int op = 0; op < BRAID_REDUCTIONS && result == BR_CUDA_SUCCESS; op++) {
            struct kernel *kernel = &r->kernels[type][op];

            if (!names[type][op])
                continue;
            result = r->cuda->module_function(&kernel->function, r->module, names[type][op]);
            if (result == BR_CUDA_SUCCESS)
                result = r->cuda->function_occupancy(&blocks, kernel->function, (int)BLOCK, 0);
            kernel->most_blocks = (unsigned)(multiprocessors * (blocks > 0 ? blocks : 1));
            if (result != BR_CUDA_SUCCESS)
                return br_cuda_error(r->cuda, result, "the kernel %s on GPU %d", names[type][op],
                                     device);
        }
    return result == BR_CUDA_SUCCESS
               ? 0
               : br_cuda_error(r->cuda, result, "multiprocessors of GPU %d", device);
}

int br_reducer_create(int device, const struct br_gpu_image *image, struct br_reducer **out)
{
    struct br_reducer *r = calloc(1, sizeof *r);
    int rc;

    if (!r)
        return br_error(ENOMEM, "no memory for reductions on GPU %d", device);
    rc = br_cuda_driver(&r->cuda);
    if (!rc)
        rc = br_cuda_context(device, &r->context);
    if (!rc)
        rc = br_cuda_enter(r->cuda, r->context);
    if (rc) {
        free(r);
        return rc;
    }
    rc = gpu_reduce_load(r, image, device);
    if (!rc)
        rc = find_kernels(r, device);
    br_cuda_leave(r->cuda);
    if (rc) {
        br_reducer_destroy(r);
        return rc;
    }
    *out = r;
    return 0;
}

void br_reducer_destroy(struct br_reducer *r)
{
    if (!r)
        return;
    if (!br_cuda_enter(r->cuda, r->context)) {
        if (r->module)
            r->cuda->module_unload(r->module);
        br_cuda_leave(r->cuda);
    }
    free(r);
}

void br_reducer_abandon(struct br_reducer *r)
{
    free(r);
}

/* ---- reductions ------------------------------------------------------------------------------ */

int br_reducer_submit(const struct br_reducer *r, struct CUstream_st *stream, enum braid_type type,
                      enum braid_reduction op, const struct br_gpu_reduction *arrays)
{
    br_cuda_pointer dst = (uintptr_t)arrays->dst, src = (uintptr_t)arrays->src[0];
    void *parameters[] = {(void *)(uintptr_t)arrays};
    uint64_t blocks = arrays->bytes / ((uint64_t)BR_GPU_STEP * BLOCK) + 1;
    br_cuda_result result = BR_CUDA_SUCCESS;
    const struct kernel *kernel;

    if ((unsigned)type >= BRAID_TYPES || (unsigned)op >= BRAID_REDUCTIONS || !names[type][op])
        return br_error(EINVAL, "reduce: no kernel of GPUs has data type %d and reduction %d",
                        (int)type, (int)op);
    if (arrays->n_src < 1 || arrays->n_src > BR_GPU_SOURCES)
        return br_error(EINVAL, "reduce: %d sources; a GPU takes 1 to %d at once", arrays->n_src,
                        BR_GPU_SOURCES);
    if (arrays->divisor < 0 || arrays->divisor > BR_GPU_DIVISOR)
        return br_error(EINVAL, "reduce: a GPU divides by 1 to %d, not by %d", BR_GPU_DIVISOR,
                        arrays->divisor);
    if (!arrays->bytes)
        return 0;
    if (op == BRAID_AVG && !arrays->divisor)
        op = BRAID_SUM;
    kernel = &r->kernels[type][op];
    if (blocks > kernel->most_blocks)
        blocks = kernel->most_blocks;
    if (arrays->n_src > 1 || op == BRAID_AVG)
        result = r->cuda->launch(kernel->function, (unsigned)blocks, 1, 1, BLOCK, 1, 1, 0, stream,
                                 parameters, NULL);
    else if (dst != src)
        result = r->cuda->copy_async(dst, src, arrays->bytes, stream);
    return result == BR_CUDA_SUCCESS ? 0
                                     : br_cuda_error(r->cuda, result, "%s of %zu bytes",
                                                     names[type][op], (size_t)arrays->bytes);
}
