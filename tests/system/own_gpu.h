/* SPDX-License-Identifier: BSD-3-Clause */
/* The program's own use of CUDA in a rank, on the fake driver: of GPU 0, whose context is current in the thread that comes first. Where the
 * driver refuses, the rank ends and says so. */
#ifndef TESTS_SYSTEM_OWN_GPU_H
#define TESTS_SYSTEM_OWN_GPU_H

#include <stddef.h>

#include "gpu/driver.h"

const struct br_cuda *own_gpu(void); /* for other calls of the driver */
void *own_gpu_alloc(size_t bytes);
void own_gpu_free(void *memory);

/* Where the CPU sees memory of whatever kind. */
void *own_gpu_view(const void *memory);

#endif
