/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/collectives/gpu_call.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "collectives/schedule/type.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fresh.h"

const struct br_cuda *cuda;
struct br_copier *copier;
struct br_cuda_scratch scratch;
struct br_region_gpu nics;
unsigned stays;

#define RANKS 16
static struct br_region regions[RANKS]; /* of each rank's memory */

int open_gpu(void **state)
{
    (void)state;
    stays = 0;
    scratch = (struct br_cuda_scratch){0};
    nics = (struct br_region_gpu){.dmabuf = -1, .devices = 1};
    cuda = fake_fresh_gpu();
    return br_copier_create(&copier) || br_copier_open(copier, 1) != 1;
}

int close_gpu(void **state)
{
    (void)state;
    br_copier_destroy(copier);
    fake_leave_gpu(stays);
    return 0;
}

uint8_t *allocate(size_t bytes)
{
    br_cuda_pointer memory;

    assert_int_equal(cuda->memory_alloc(&memory, bytes), 0);
    return (uint8_t *)(uintptr_t)memory;
}

uint8_t *bytes_of(const void *memory)
{
    return fake_cuda_bytes((uintptr_t)memory);
}

void release(void *memory)
{
    assert_int_equal(cuda->memory_free((uintptr_t)memory), 0);
}

/* Moves what the operation reads and writes, both in one block of memory, to the GPU and back. */
uint8_t *to_gpu(struct call *c, const struct job *job, int rank, enum where where)
{
    struct br_operation *op = &c->ops[rank];
    size_t size = c->count * br_type_size(c->type);
    uint8_t *device = allocate(call_bytes(c, job));
    bool reads = !br_collective_from_root(c->collective) || rank == c->root,
         writes = br_collective_writes(c->collective, (uint32_t)rank, (uint32_t)c->root);

    memcpy(bytes_of(device), c->memory[rank], call_bytes(c, job));
    op->send_bytes =
        reads ? size * br_collective_blocks(c->collective, (uint32_t)job->n, BR_INPUT) : 0;
    op->recv_bytes =
        writes ? size * br_collective_blocks(c->collective, (uint32_t)job->n, BR_OUTPUT) : 0;
    if (where & SEND) {
        op->send = device + ((const uint8_t *)op->send - c->memory[rank]);
        op->send_gpu = op->send_bytes > 0;
    }
    if (where & RECV) {
        op->recv = device + ((uint8_t *)op->recv - c->memory[rank]);
        op->recv_gpu = op->recv_bytes > 0;
    }
    if (where & NICS) {
        assert_true(rank < RANKS);
        regions[rank] = (struct br_region){.base = device,
                                           .bytes = call_bytes(c, job),
                                           .segment_fd = -1,
                                           .keys = {device},
                                           .gpu = &nics};
        op->send_region = op->send_gpu ? &regions[rank] : NULL;
        op->recv_region = op->recv_gpu ? &regions[rank] : NULL;
    }
    if (where & FOREIGN) {
        op->foreign = true;
        fake_cuda_make_foreign((uintptr_t)device);
    }
    return device;
}

void from_gpu(struct call *c, const struct job *job, int rank, enum where where, uint8_t *device)
{
    struct br_operation *op = &c->ops[rank];

    if (where & RECV) {
        size_t at = (size_t)((uint8_t *)op->recv - device);

        memcpy(c->memory[rank] + at, bytes_of(op->recv), call_bytes(c, job) - at);
        op->recv = c->memory[rank] + at;
    }
    if (where & SEND)
        op->send = c->memory[rank] + ((const uint8_t *)op->send - device);
    release(device);
}

void submit_on_gpu(struct job *job, struct call *c, enum where where, uint64_t timeout,
                   uint8_t **devices)
{
    call_create(c, job);
    for (int r = 0; r < job->n; r++) {
        call_prepare(c, job, r);
        devices[r] = to_gpu(c, job, r, where);
        c->ops[r].timeout = timeout;
        job_submit(job, r, &c->ops[r]);
    }
}

void check_on_gpu(struct job *job, struct call *c, enum where where, uint8_t **devices)
{
    for (int r = 0; r < job->n; r++)
        from_gpu(c, job, r, where, devices[r]);
    call_check(c, job);
    call_destroy(c, job);
}

void run_on_gpu(struct job *job, struct call c, enum where where)
{
    uint8_t *devices[RANKS];

    submit_on_gpu(job, &c, where, 0, devices);
    job_run(job, job->ended + job->n);
    check_on_gpu(job, &c, where, devices);
}

struct br_gpu_memory *gpu_memory_of(struct br_offload *offload)
{
    static struct br_cuda_memory memory;

    br_cuda_memory_init(&memory, copier, offload, &scratch);
    return &memory.memory;
}

void create(struct job *job, int n, uint32_t chunk_bytes, struct br_offload *offload)
{
    job_create(job,
               &(struct job_options){
                   .n = n,
                   .rails = 1,
                   .network = {.seed = 1, .rkey_ports = scratch.take != NULL},
                   .engine = {.gpu_memory = gpu_memory_of(offload), .chunk_bytes = chunk_bytes},
               });
}

/* ---- a GPU that is lost ---------------------------------------------------------------------- */

static void *kept[8];
static int n_kept;

static int keep_alloc(void *context, size_t bytes, void **memory, struct br_region **region)
{
    (void)context;
    assert_true(n_kept < 8);
    *memory = kept[n_kept++] = aligned_alloc(4096, bytes);
    *region = NULL;
    return *memory ? 0 : -ENOMEM;
}

static void keep_free(void *context, void *memory, struct br_region *region)
{
    (void)context, (void)region;
    fail_msg("%p is freed", memory);
}

void create_kept(struct job *job, int n, struct br_offload *offload)
{
    job_create(job, &(struct job_options){
                        .n = n,
                        .rails = 1,
                        .network = {.seed = 1, .rkey_ports = scratch.take != NULL},
                        .engine = {.gpu_memory = gpu_memory_of(offload),
                                   .scratch_alloc = keep_alloc,
                                   .scratch_free = keep_free},
                    });
}

void free_kept(void)
{
    for (; n_kept > 0; free(kept[n_kept]))
        assert_int_equal(cuda->host_unregister(kept[--n_kept]), 0);
}
