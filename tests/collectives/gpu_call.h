/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls on memory of the fake GPU 0. For tests. */
#ifndef BR_TESTS_COLLECTIVES_GPU_CALL_H
#define BR_TESTS_COLLECTIVES_GPU_CALL_H

#include "tests/collectives/call.h"
#include "collectives/gpu/cuda_memory.h"
#include "gpu/copier.h"
#include "gpu/driver.h"
#include "gpu/offload.h"

extern const struct br_cuda *cuda; /* its context is current in a test */
extern struct br_copier *copier;
/* Of the engines of create(), and of all regions. Each test begins with no scratch, and regions
 * of the one device of a rank. */
extern struct br_cuda_scratch scratch;
extern struct br_region_gpu nics;
extern unsigned stays; /* what a lost GPU keeps of the fake driver's at the end of a test */

/* Around each test. close: nothing is left. */
int open_gpu(void **state);
int close_gpu(void **state);

uint8_t *allocate(size_t bytes); /* on the GPU */
uint8_t *bytes_of(const void *memory);
void release(void *memory);

/* What engines of this copier, offload (NULL: none) and scratch have; one at a time. */
struct br_gpu_memory *gpu_memory_of(struct br_offload *offload);

/* A job whose engines have the copier, and reductions on the GPU, if offload is not NULL. */
void create(struct job *job, int n, uint32_t chunk_bytes, struct br_offload *offload);

/* The same; what is pinned for a GPU that is lost stays so, and an engine that frees it fails the
 * test. free: what it has left, at the end. */
void create_kept(struct job *job, int n, struct br_offload *offload);
void free_kept(void);

/* What lies on the GPU; in a context of the program's own; in a region of NICs. */
enum where { SEND = 1, RECV = 2, FOREIGN = 4, NICS = 8 };

/* What a rank reads and writes, moved to the GPU: the memory there. */
uint8_t *to_gpu(struct call *c, const struct job *job, int rank, enum where where);
void from_gpu(struct call *c, const struct job *job, int rank, enum where where, uint8_t *device);
/* call_submit() so, and what follows the end; devices: the memory of each rank. timeout: as
 * job_submit() has it. */
void submit_on_gpu(struct job *job, struct call *c, enum where where, uint64_t timeout,
                   uint8_t **devices);
void check_on_gpu(struct job *job, struct call *c, enum where where, uint8_t **devices);
/* call_run() so. */
void run_on_gpu(struct job *job, struct call c, enum where where);

#endif
