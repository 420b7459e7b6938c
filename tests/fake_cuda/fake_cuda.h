/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A CUDA driver library without a GPU: libbraid_fake_cuda.so has the symbols of gpu/driver.h over
 * host memory, so that all of gpu/ and all that stands on it runs, and fails, where there is no
 * GPU. BRAID_CUDA_LIBRARY names it (ctest sets BRAID_FAKE_CUDA to its path).
 *
 * 1. An address of device memory is PROT_NONE: a CPU that touches it faults. The bytes stand at
 *    another address, fake_cuda_bytes().
 * 2. Work on a stream never happens in the call that submits it. It happens, stream by stream in
 *    order, when somebody queries, synchronises or destroys a stream or an event, in any thread:
 *    whoever does not ask whether a copy is through finds it undone. No thread of its own: with
 *    control->thread (FAKE_CUDA=thread) one runs, for ThreadSanitizer and for stream order against
 *    real time.
 * 3. As the real driver does: calls before cuInit say NOT_INITIALIZED, those that need a current
 *    context say INVALID_CONTEXT without one; memory smaller than a page does not begin at a page;
 *    a dma-buf is made of whole pages; an IPC handle opens in another process only, and memory of
 *    cuMemCreate() has none; arguments of a kernel are copied when it is launched; an event that
 *    was never recorded is complete.
 * 4. Kernels are found by name, whatever the image is that was loaded: those of gpu/reduce.cu,
 *    compiled for the CPU (kernels_on_host.h), and functions of the test (fake_cuda_kernel()).
 * 5. Different from the real one: the default streams are one, which waits for no other; there is
 *    one context a device, the primary one.
 * 6. cuMemHostUnregister, cuMemFreeHost, cuModuleLoadData and cuModuleUnload wait for all streams,
 *    as the real ones do, or may do, for those of their context. If work there waits for what the
 *    host does (cuStreamWaitValue), the process is aborted with a message: the real driver would
 *    hang, perhaps for ever.
 *
 * 7. With control->peer_memory device memory can be touched by the CPU, and therefore pinned by a
 *    NIC that knows it by ibv_reg_mr() alone, as where nvidia_peermem is loaded. A test that wants
 *    note 1 all the same calls fake_cuda_hide() when it has been pinned.
 * 8. cuMemcpy of up to 64 KiB from memory that is not pinned, to an allocation without SYNC_MEMOPS,
 *    returns before the bytes are there, as the real one may: they are when the default stream is
 *    used next or cuPointerSetAttribute is called, at the next cuMemcpy, or when memory is freed.
 *
 * All of it is thread-safe, except that control is to be changed while nothing runs.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/cuda.h"

/*
 * What the driver pretends. From
 * FAKE_CUDA=devices=2,bytes=64M,no_dmabuf,no_ipc,no_vmm,no_memory_operations,ipc_in_process,thread,
 * peer_memory,unordered,no_flush,late=3,fail=cuMemAlloc_v2:2:5 (function, result, how many calls of
 * it succeed before) when the library is loaded.
 */
struct fake_cuda_control {
    int devices;               /* 1. 0: cuInit says NO_DEVICE */
    size_t bytes;              /* memory of each device: 1 GiB; beyond: OUT_OF_MEMORY */
    bool no_dmabuf;            /* no attribute, and NOT_SUPPORTED */
    bool no_ipc;               /* memory and events: NOT_SUPPORTED */
    bool no_vmm;               /* no attribute, and NOT_SUPPORTED */
    bool no_memory_operations; /* cuStreamWaitValue and cuStreamWriteValue: NOT_SUPPORTED */
    /* a handle opens in the process that made it, too: for ranks that are threads of one test */
    bool ipc_in_process;
    bool thread;      /* note 2; before the first cuInit */
    bool peer_memory; /* note 7; before the first allocation */
    bool unordered;   /* writes of NICs are in no order with the GPU's reads */
    bool no_flush;    /* and cannot be flushed */
    unsigned load_ms; /* that cuModuleLoadData takes */
    /* events and streams say NOT_READY so many times more after their work is done */
    unsigned late;
    bool held;     /* and as long as fake_cuda_hold() says */
    char fail[64]; /* the symbol that fails; "": none */
    br_cuda_result fail_result;
    unsigned fail_after; /* its calls that succeed before */
};

struct fake_cuda_counters {
    uint64_t to_host, to_device, on_device, host_host; /* bytes copied; cuMemcpy* of all kinds */
    uint64_t launches;
    uint64_t flushes;          /* calls of cuFlushGPUDirectRDMAWrites */
    uint64_t host_allocations; /* calls of cuMemHostAlloc and cuMemHostRegister so far */
};

struct fake_cuda_control *fake_cuda(void);
/* The counters so far: a copy. */
struct fake_cuda_counters fake_cuda_counters(void);
/* What the environment said again, counters 0, stops the thread. Allocations, streams and kernels
 * stay. */
void fake_cuda_reset(void);
/* Allocations, opened handles, streams, events and modules that nobody has freed. */
unsigned fake_cuda_left(void);

/* From now on, whatever runs: events and streams say NOT_READY, or not any more. */
void fake_cuda_hold(bool held);

/* All device memory that there is cannot be touched by the CPU from now on, with
 * control->peer_memory either: what was pinned stays so (note 7). */
void fake_cuda_hide(void);

/* Where the CPU finds the bytes of an address: of device memory its other mapping, any other
 * address itself. For tests that fill and look, and for kernels. */
void *fake_cuda_bytes(br_cuda_pointer address);

/* Memory that both see, as cuMemAllocManaged() gives: its kind is DEVICE with IS_MANAGED. Freed by
 * cuMemFree. */
br_cuda_result fake_cuda_managed(br_cuda_pointer *out, size_t bytes);

/* Sizes and addresses of cuMemCreate() are multiples of it: 2 MiB with the real driver. So little,
 * as tests map hundreds of allocations. */
#define FAKE_CUDA_GRAIN (64ul << 10)

/* An allocation of cuMemCreate() of device 0, mapped to reserved addresses, where it can be
 * accessed; its handle is released already. exportable: by a descriptor. */
br_cuda_result fake_cuda_create(br_cuda_pointer at, size_t bytes, bool exportable);

/* An allocation is one of a context of the program's own from now on (note 5): kernels of
 * gpu/reduce.cu that get it end the process. */
void fake_cuda_make_foreign(br_cuda_pointer memory);

/* A kernel: called once for a launch with its whole grid. arguments[i] points to a copy of the i-th
 * argument. */
struct fake_cuda_launch {
    unsigned grid[3], block[3], shared_bytes;
    void **arguments;
};
typedef void fake_cuda_kernel_fn(const struct fake_cuda_launch *launch);

/* name: as cuModuleGetFunction() will be asked; sizes: bytes of each of its n arguments, 16 at
 * most. Replaces one of that name. */
void fake_cuda_kernel(const char *name, fake_cuda_kernel_fn *fn, const size_t *sizes, int n);

/* From now on cuStreamIsCapturing(stream) says so: BR_CUDA_CAPTURE_NONE, _ACTIVE. While capturing,
 * queries of the stream fail, and calls that may break a capture in every thread that is not in
 * RELAXED mode: the capture is one in GLOBAL mode. */
void fake_cuda_capture(struct CUstream_st *stream, unsigned status);

#endif
