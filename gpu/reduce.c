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
    unsigned most_blocks; /* that run at once */
};

struct br_reducer {
    const struct br_cuda *cuda;
    struct CUctx_st *context;
    struct CUmod_st *module;
    /* NULL: nobody has wanted one, as what follows */
    struct CUstream_st *stream;
    struct CUevent_st *events[BR_REDUCER_TICKETS]; /* of ticket t: [t % BR_REDUCER_TICKETS] */
    /* the last ticket given; the last that is done */
    uint64_t submitted, done;
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
        if (r->stream) {
            r->cuda->stream_synchronize(r->stream);
            r->cuda->stream_destroy(r->stream);
        }
        for (int i = 0; i < BR_REDUCER_TICKETS; i++)
            if (r->events[i])
                r->cuda->event_destroy(r->events[i]);
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

static int gpu_reduce_check(enum braid_type type, enum braid_reduction reduction, int n_src,
                            int divisor)
{
    if ((unsigned)type >= BRAID_TYPES || (unsigned)reduction >= BRAID_REDUCTIONS)
        return br_error(EINVAL, "reduce: there is no data type %d or no reduction %d", (int)type,
                        (int)reduction);
    if (n_src < 1 || n_src > BR_GPU_SOURCES)
        return br_error(EINVAL, "reduce: %d sources; a GPU takes 1 to %d at once", n_src,
                        BR_GPU_SOURCES);
    if (divisor < 0)
        return br_error(EINVAL, "reduce: the divisor %d is negative", divisor);
    return 0;
}

static br_cuda_result gpu_reduce_launch(const struct br_reducer *r, struct CUstream_st *stream,
                                        const struct kernel *kernel,
                                        const struct br_gpu_reduction *arrays)
{
    uint64_t blocks = arrays->bytes / ((uint64_t)BR_GPU_STEP * BLOCK) + 1;
    void *parameters[] = {(void *)(uintptr_t)arrays};

    if (blocks > kernel->most_blocks)
        blocks = kernel->most_blocks;
    return r->cuda->launch(kernel->function, (unsigned)blocks, 1, 1, BLOCK, 1, 1, 0, stream,
                           parameters, NULL);
}

int br_reducer_submit(const struct br_reducer *r, struct CUstream_st *stream, enum braid_type type,
                      enum braid_reduction op, const struct br_gpu_reduction *arrays)
{
    br_cuda_pointer dst = (uintptr_t)arrays->dst, src = (uintptr_t)arrays->src[0];
    br_cuda_result result = BR_CUDA_SUCCESS;
    int rc = gpu_reduce_check(type, op, arrays->n_src, arrays->divisor);

    if (rc || !arrays->bytes)
        return rc;
    if (op == BRAID_AVG && !arrays->divisor)
        op = BRAID_SUM;
    if (arrays->n_src > 1 || op == BRAID_AVG)
        result = gpu_reduce_launch(r, stream, &r->kernels[type][op], arrays);
    else if (dst != src)
        result = r->cuda->copy_async(dst, src, arrays->bytes, stream);
    return result == BR_CUDA_SUCCESS ? 0
                                     : br_cuda_error(r->cuda, result, "%s of %zu bytes",
                                                     names[type][op], (size_t)arrays->bytes);
}

/* Once; goes on where it failed. */
static int make_stream(struct br_reducer *r)
{
    br_cuda_result result = BR_CUDA_SUCCESS;

    if (!r->stream)
        result = r->cuda->stream_create(&r->stream, BR_CUDA_STREAM_NON_BLOCKING, 0);
    for (int i = 0; i < BR_REDUCER_TICKETS && result == BR_CUDA_SUCCESS; i++)
        if (!r->events[i])
            result = r->cuda->event_create(&r->events[i], BR_CUDA_EVENT_NO_TIMING);
    return result == BR_CUDA_SUCCESS ? 0
                                     : br_cuda_error(r->cuda, result, "a stream for reductions");
}

int br_reducer_reduce(struct br_reducer *r, enum braid_type type, enum braid_reduction op,
                      void *dst, const void *const *src, int n_src, size_t bytes, int divisor,
                      uint64_t *ticket)
{
    struct br_gpu_reduction arrays = {
        .dst = dst, .bytes = bytes, .n_src = n_src, .divisor = divisor};
    br_cuda_result result = BR_CUDA_SUCCESS;
    int rc = gpu_reduce_check(type, op, n_src, divisor);

    if (!rc && r->submitted - r->done == BR_REDUCER_TICKETS)
        rc = br_error(EAGAIN, "%d reductions are under way on this GPU", BR_REDUCER_TICKETS);
    if (!rc)
        rc = br_cuda_enter(r->cuda, r->context);
    if (rc)
        return rc;
    for (int s = 0; s < n_src; s++)
        arrays.src[s] = src[s];
    rc = make_stream(r);
    if (!rc)
        rc = br_reducer_submit(r, r->stream, type, op, &arrays);
    if (!rc)
        result =
            r->cuda->event_record(r->events[(r->submitted + 1) % BR_REDUCER_TICKETS], r->stream);
    br_cuda_leave(r->cuda);
    if (result != BR_CUDA_SUCCESS)
        rc = br_cuda_error(r->cuda, result, "%s of %zu bytes", names[type][op], bytes);
    if (!rc)
        *ticket = ++r->submitted;
    return rc;
}

int br_reducer_done(struct br_reducer *r, uint64_t ticket)
{
    br_cuda_result result;
    int rc;

    while (r->done < ticket) {
        rc = br_cuda_enter(r->cuda, r->context);
        if (rc)
            return rc;
        result = r->cuda->event_query(r->events[(r->done + 1) % BR_REDUCER_TICKETS]);
        br_cuda_leave(r->cuda);
        if (result == BR_CUDA_NOT_READY)
            return 0;
        if (result != BR_CUDA_SUCCESS)
            return br_cuda_error(r->cuda, result, "a reduction on the GPU");
        r->done++;
    }
    return 1;
}
