/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake driver around each case of a test: as the environment says, and nothing left behind. */
#ifndef FAKE_CUDA_FRESH_H
#define FAKE_CUDA_FRESH_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/driver.h"

/* Loaded anew, nothing initialised. */
void fake_fresh(void);

/* The same, and a context of GPU 0 is current: the driver. */
const struct br_cuda *fake_fresh_gpu(void);

/* Memory of the current GPU, by its address there. */
uint8_t *fake_allocate(size_t bytes);
void fake_release(const void *memory);

/* Undoes that. Fails the test if not exactly `stays` more objects and allocations live than
 * before. */
void fake_leave_gpu(unsigned stays);

#endif
