/* SPDX-License-Identifier: BSD-3-Clause */
/* The program's own use of CUDA in a rank: of GPU 0, whose context is current in the thread that
 * comes first. It is the fake driver's, unless the test was started with another
 * BRAID_CUDA_LIBRARY. Where the driver refuses, the rank ends and says so. */
#ifndef BR_TESTS_SYSTEM_APP_GPU_H
#define BR_TESTS_SYSTEM_APP_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/driver.h"

bool own_gpu_is_real(void);
const struct br_cuda *own_gpu(void); /* for other calls of the driver */
void *own_gpu_alloc(size_t bytes);
void own_gpu_free(void *memory);

/* Memory of cuMemCreate(), as PyTorch's expandable segments: addresses, and behind parts of them
 * allocations, which other processes may map or not. All sizes are multiples of FAKE_CUDA_GRAIN. */
char *own_gpu_reserve(size_t bytes);
void own_gpu_unreserve(void *at, size_t bytes);
void own_gpu_map(void *at, size_t bytes, bool exportable);
void own_gpu_unmap(void *at, size_t bytes);

/* Where the CPU sees memory of whatever kind. Of a real GPU it is a copy: written: what stands
 * there goes to the GPU, with the whole allocation; read: it comes from there. */
void *own_gpu_view(const void *memory);
void own_gpu_written(const void *memory);
void own_gpu_read(const void *memory);

/* Bytes by which each place and each message, put or get is told from others. wrong: the first
 * place that has not these; `bytes`: all have. */
void own_gpu_fill(const void *memory, size_t bytes, uint32_t seed);
size_t own_gpu_wrong(const void *memory, size_t bytes, uint32_t seed);

#endif
