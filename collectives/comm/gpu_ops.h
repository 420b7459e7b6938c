/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What GPUs with memory of their own bring to a context: a table of functions, of which CUDA's is
 * gpu/gpu.c. The communicator reaches GPUs by it alone, and the engine by the table in
 * gpu_memory.h. A GPU is named by a number, as `gpu_of` says; 0 stands for host memory.
 */
#ifndef BR_COLLECTIVES_COMM_GPU_OPS_H
#define BR_COLLECTIVES_COMM_GPU_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct braid_comm;
struct br_context;
struct br_operation;
struct br_region;

struct br_gpu_counters {
    uint64_t to_host_bytes, to_gpu_bytes, reduced_bytes, peer_bytes;
};

struct br_gpu_ops {
    /* ---- braid_init(), in this order, and braid_finalize(). Errors with a message. */
    /* Looks for a driver. A negative errno, which is said, is no error of the job's: who has no
     * such memory needs no driver. */
    int (*probe)(void);
    /* Could this rank share memory of GPUs with others of its host? */
    bool (*may_share)(const struct br_context *context);
    /* Before the engine: context->gpu_memory, for it. */
    int (*open)(struct br_context *context);
    void (*close)(struct br_context *context);
    /* Behind the engine: operations in streams. */
    int (*open_streams)(struct br_context *context);
    void (*close_streams)(struct br_context *context);
    /* Behind the connections, collective: what reduces within each host first. */
    int (*open_hosts)(struct br_context *context);
    void (*close_hosts)(struct br_context *context);

    /* ---- executors (executor.h). Adds those of GPUs to the chain of a new communicator, or, for
     * remove, of one that ends. */
    int (*add_executors)(struct braid_comm *comm);
    void (*remove_executors)(struct braid_comm *comm);

    /* ---- calls, by any thread, not under the lock */
    int (*gpu_of)(const void *memory);
    /* Before memory on this GPU is used. May block the first time of a GPU, or of an allocation.
     * Nothing for host memory. */
    int (*use)(struct br_context *context, int gpu, const void *memory);
    /* Do kernels of ours reach this memory of the GPU? */
    bool (*reaches)(const struct br_context *context, int gpu, const void *memory);
    /* Copies now; one of both is memory of the GPU. Blocks. */
    int (*copy)(struct br_context *context, int gpu, void *to, const void *from, size_t bytes);
    /* A collective, in the order of a stream. op is given back if it fails. */
    int (*submit)(struct br_operation *op, void *stream);

    /* ---- map, under the lock. A region by which NICs reach memory that op reads, or writes, and a
     * reference to it; NULL: it is staged. */
    struct br_region *(*map)(struct br_context *context, const struct br_operation *op,
                             const void *memory, size_t bytes, int gpu, bool writes);
    void (*unmap)(struct br_context *context, struct br_region *region);
    /* The program has registered this memory: NICs should know it before the first request. */
    void (*expose)(struct br_context *context, const void *memory, size_t bytes, int gpu);
    /* Between memory of a GPU and a relayed frame (br_worker_config.region_copy). */
    int (*region_copy)(void *context, bool to_gpu, void *to, const void *from, uint32_t bytes);

    struct br_gpu_counters (*counters)(const struct br_context *context);
};

/* CUDA (gpu/gpu.c). */
extern const struct br_gpu_ops br_gpu_cuda;

#endif
