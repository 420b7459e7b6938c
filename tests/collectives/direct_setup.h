/* SPDX-License-Identifier: BSD-3-Clause */
/* Around tests of collectives that stay on the fake GPU: kernels, and a workspace, of which it is
 * known what is taken. Memory of the GPU the CPU can touch, as simulated NICs do (fake_cuda.h, note
 * 7). */
#ifndef BR_TESTS_COLLECTIVES_DIRECT_SETUP_H
#define BR_TESTS_COLLECTIVES_DIRECT_SETUP_H

#include "gpu/workspace.h"
#include "tests/collectives/gpu_call.h"

#define ALL (SEND | RECV | NICS)

extern struct br_offload *offload; /* on the GPU never by cost: that is no question here */
extern struct br_workspace *room;
extern int rooms; /* taken now */

/* Around each test, in place of open_gpu() and close_gpu(). */
int direct_setup(void **state);
int direct_teardown(void **state);

#endif
