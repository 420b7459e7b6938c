/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which calls of the CUDA driver wait for work in streams. braid makes some of them while its
 * operations stand in streams of the program, whose end may depend on this very process; a call
 * that waits then would hang (doc/design/gpu_streams.md, note 7).
 *
 *   build/release/bench/gpu_blocking [--default-stream]
 *
 * For each call a stream is made to wait for a word; the call is made, and another thread writes
 * the word after HELD milliseconds. What has returned before that has not waited. With
 * --default-stream it is the legacy default stream that waits, which orders more calls than a
 * stream of CU_STREAM_NON_BLOCKING.
 *
 * Exit 1: an error, or one waits that braid makes beside operations in streams; 77: no driver or no
 * GPU; the message says why.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "gpu/driver.h"
#include "gpu/reduce.h"
#include "tools/common/options.h"

#define HELD  300        /* ms */
#define BYTES (4u << 20) /* of what is allocated and pinned; whole units of cuMemCreate() */

static const struct br_cuda *cuda;
static struct CUctx_st *context;
static struct CUstream_st *held, *other;
static uint32_t *gate;
static br_cuda_pointer gate_at;

/* What the calls work on. */
static br_cuda_pointer memory[4], reserved, mapped;
static void *plain[2], *pinned[2], *registered;
static unsigned long long created, imported, retained;
static struct CUipcMemHandle_st ipc; /* of the other process */
static struct CUevent_st *event;
static struct br_reducer *reducer, *fresh;
static int fd = -1;

static int refused(br_cuda_result result, const char *what)
{
    br_cuda_error(cuda, result, "%s", what);
    fprintf(stderr, "gpu_blocking: %s\n", br_error_message());
    return 1;
}

static void must(br_cuda_result result, const char *what)
{
    if (result != BR_CUDA_SUCCESS)
        exit(refused(result, what));
}

static struct CUmemAllocationProp_st properties(void)
{
    return (struct CUmemAllocationProp_st){
        .type = BR_CUDA_ALLOCATION_PINNED,
        .requestedHandleTypes = BR_CUDA_HANDLE_FD,
        .location = {.type = BR_CUDA_LOCATION_DEVICE},
    };
}

/* ---- the calls: each returns a CUresult ------------------------------------------------------ */

static br_cuda_result alloc_memory(void)
{
    br_cuda_pointer more;

    return cuda->memory_alloc(&more, BYTES);
}

static br_cuda_result pin_new(void)
{
    void *more;

    return cuda->host_alloc(&more, BYTES, BR_CUDA_HOST_PORTABLE | BR_CUDA_HOST_MAPPED);
}

static br_cuda_result pin_plain(void)
{
    return cuda->host_register(plain[1], BYTES, BR_CUDA_REGISTER_PORTABLE);
}

static br_cuda_result load_module(void)
{
    struct CUmod_st *module;

    return cuda->module_load(&module, br_gpu_image.bytes);
}

static br_cuda_result reduce_by(const struct br_reducer *by)
{
    const struct br_gpu_reduction arrays = {
        .dst = (char *)(uintptr_t)memory[0],
        .src = {(const char *)(uintptr_t)memory[0], (const char *)(uintptr_t)memory[1]},
        .n_src = 2,
        .bytes = BYTES,
    };

    return br_reducer_submit(by, other, BRAID_INT32, BRAID_SUM, &arrays) ? BR_CUDA_UNKNOWN
                                                                         : BR_CUDA_SUCCESS;
}

static br_cuda_result launch_again(void)
{
    return reduce_by(reducer);
}

/* The driver loads the code of a kernel when it is first launched (CUDA_MODULE_LOADING=LAZY). */
static br_cuda_result launch_first(void)
{
    return reduce_by(fresh);
}

static br_cuda_result create_memory(void)
{
    const struct CUmemAllocationProp_st of = properties();

    return cuda->vmm_create(&created, BYTES, &of, 0);
}

static br_cuda_result reserve_addresses(void)
{
    return cuda->vmm_reserve(&reserved, BYTES, 0, 0, 0);
}

static br_cuda_result map_memory(void)
{
    return cuda->vmm_map(reserved, BYTES, 0, created, 0);
}

static br_cuda_result set_access(void)
{
    const struct CUmemAccessDesc_st access = {.location = properties().location,
                                              .flags = BR_CUDA_ACCESS_READ_WRITE};

    return cuda->vmm_access(reserved, BYTES, &access, 1);
}

static br_cuda_result export_memory(void)
{
    return cuda->vmm_export(&fd, created, BR_CUDA_HANDLE_FD, 0);
}

static br_cuda_result import_memory(void)
{
    return cuda->vmm_import(&imported, (void *)(uintptr_t)fd, BR_CUDA_HANDLE_FD);
}

static br_cuda_result retain_memory(void)
{
    return cuda->vmm_retain(&retained, (void *)(uintptr_t)reserved);
}

static br_cuda_result release_retained(void)
{
    return cuda->vmm_release(retained);
}

static br_cuda_result unmap_memory(void)
{
    return cuda->vmm_unmap(reserved, BYTES);
}

static br_cuda_result release_memory(void)
{
    cuda->vmm_release(imported);
    return cuda->vmm_release(created);
}

static br_cuda_result free_addresses(void)
{
    return cuda->vmm_unreserve(reserved, BYTES);
}

static br_cuda_result get_ipc_handle(void)
{
    struct CUipcMemHandle_st out;

    return cuda->ipc_memory_get(&out, memory[0]);
}

static br_cuda_result open_ipc_handle(void)
{
    return cuda->ipc_memory_open(&mapped, ipc, BR_CUDA_IPC_PEER_ACCESS);
}

static br_cuda_result close_ipc_handle(void)
{
    return cuda->ipc_memory_close(mapped);
}

static br_cuda_result set_sync_memops(void)
{
    unsigned int on = 1;

    return cuda->pointer_set(&on, BR_CUDA_POINTER_SYNC_MEMOPS, memory[2]);
}

static br_cuda_result get_dmabuf(void)
{
    int out;
    br_cuda_result result = cuda->range_handle(&out, memory[2], BYTES, BR_CUDA_RANGE_DMABUF, 0);

    if (result == BR_CUDA_SUCCESS)
        close(out);
    return result;
}

static br_cuda_result flush_writes(void)
{
    return cuda->flush_rdma(BR_CUDA_FLUSH_CURRENT_CONTEXT, BR_CUDA_FLUSH_TO_OWNER);
}

static br_cuda_result ask_pointer(void)
{
    unsigned int kind, which = BR_CUDA_POINTER_KIND;
    void *out = &kind;

    return cuda->pointer_attributes(1, &which, &out, memory[0]);
}

static br_cuda_result ask_range(void)
{
    br_cuda_pointer base;
    size_t bytes;

    return cuda->memory_range(&base, &bytes, memory[0]);
}

static br_cuda_result make_stream(void)
{
    struct CUstream_st *stream;

    return cuda->stream_create(&stream, BR_CUDA_STREAM_NON_BLOCKING, 0);
}

static br_cuda_result make_event(void)
{
    return cuda->event_create(&event, BR_CUDA_EVENT_NO_TIMING);
}

/* In the stream beside the one that is held. */
static br_cuda_result copy_until_done(void)
{
    br_cuda_result result = cuda->copy_to_host(pinned[0], memory[0], BYTES, other);

    if (result == BR_CUDA_SUCCESS)
        result = cuda->event_record(event, other);
    while (result == BR_CUDA_SUCCESS) {
        result = cuda->event_query(event);
        if (result == BR_CUDA_SUCCESS)
            return result;
        if (result == BR_CUDA_NOT_READY)
            result = BR_CUDA_SUCCESS;
    }
    return result;
}

static br_cuda_result copy_from_plain(void)
{
    br_cuda_result result = cuda->copy_to_device(memory[0], plain[0], BYTES, other);

    return result == BR_CUDA_SUCCESS ? cuda->stream_synchronize(other) : result;
}

static br_cuda_result copy_blocking(void)
{
    return cuda->copy((uintptr_t)plain[0], memory[0], BYTES);
}

static br_cuda_result unpin_plain(void)
{
    return cuda->host_unregister(registered);
}

static br_cuda_result free_pinned(void)
{
    return cuda->host_free(pinned[1]);
}

static br_cuda_result free_memory(void)
{
    return cuda->memory_free(memory[3]);
}

static const struct {
    const char *name;
    br_cuda_result (*make)(void);
    bool beside; /* braid makes it beside operations in streams */
} calls[] = {
    {"cuPointerGetAttributes", ask_pointer, true},
    {"cuMemGetAddressRange", ask_range, true},
    {"cuStreamCreate", make_stream, true},
    {"cuEventCreate", make_event, true},
    {"cuMemcpyDtoHAsync to pinned memory, until it is done", copy_until_done, true},
    {"cuMemcpyHtoDAsync from unpinned memory, until it is done", copy_from_plain, false},
    {"cuMemcpy", copy_blocking, false},
    {"cuLaunchKernel", launch_again, true},
    {"cuLaunchKernel, the first of its kernel", launch_first, true},
    {"cuModuleLoadData", load_module, false},
    {"cuMemAlloc", alloc_memory, true},
    {"cuMemHostAlloc", pin_new, true},
    {"cuMemHostRegister", pin_plain, true},
    {"cuMemCreate", create_memory, false},
    {"cuMemAddressReserve", reserve_addresses, false},
    {"cuMemMap", map_memory, false},
    {"cuMemSetAccess", set_access, false},
    {"cuMemExportToShareableHandle", export_memory, true},
    {"cuMemImportFromShareableHandle", import_memory, true},
    {"cuMemRetainAllocationHandle", retain_memory, true},
    {"cuMemRelease of what is mapped", release_retained, true},
    {"cuMemUnmap", unmap_memory, false},
    {"cuMemRelease of the last handle", release_memory, false},
    {"cuMemAddressFree", free_addresses, false},
    {"cuIpcGetMemHandle", get_ipc_handle, true},
    {"cuIpcOpenMemHandle", open_ipc_handle, false},
    {"cuIpcCloseMemHandle", close_ipc_handle, false},
    {"cuPointerSetAttribute SYNC_MEMOPS", set_sync_memops, true},
    {"cuMemGetHandleForAddressRange (dma-buf)", get_dmabuf, true},
    {"cuFlushGPUDirectRDMAWrites", flush_writes, true},
    {"cuMemHostUnregister", unpin_plain, false},
    {"cuMemFreeHost", free_pinned, false},
    {"cuMemFree", free_memory, false},
};
#define CALLS (int)(sizeof calls / sizeof *calls)

/* ---- one call beside a stream that waits ----------------------------------------------------- */

static void *open_later(void *round)
{
    nanosleep(&(struct timespec){.tv_nsec = HELD * 1000000l}, NULL);
    __atomic_store_n(gate, *(uint32_t *)round, __ATOMIC_SEQ_CST);
    return NULL;
}

/* Returns whether braid would hang. */
static bool measure(int i, uint32_t round)
{
    br_cuda_result result;
    const char *name = "";
    pthread_t thread;
    uint64_t began;
    bool waits;
    double ms;

    must(cuda->stream_wait_32(held, gate_at, round, BR_CUDA_WAIT_GEQ), "a stream that waits");
    if (pthread_create(&thread, NULL, open_later, &round) != 0)
        exit(1);
    began = br_clock_now();
    result = calls[i].make();
    ms = (double)(br_clock_now() - began) * 1e-6;
    pthread_join(thread, NULL);
    must(cuda->stream_synchronize(held), "the stream that waited");
    if (result != BR_CUDA_SUCCESS)
        cuda->error_name(result, &name);
    waits = ms > HELD * 0.9;
    printf("| %s | %.3f | %s | %s |\n", calls[i].name, ms,
           result != BR_CUDA_SUCCESS ? name
           : waits                   ? "waits"
                                     : "does not wait",
           calls[i].beside ? "yes" : "no");
    fflush(stdout);
    return calls[i].beside && waits;
}

/* The other process: its memory, as long as the pipe is open. */
static int lend(int out, int end)
{
    char c;

    if (br_cuda_driver(&cuda) || br_cuda_context(0, &context) || br_cuda_enter(cuda, context))
        return 1;
    must(cuda->memory_alloc(&memory[0], BYTES), "memory");
    must(cuda->ipc_memory_get(&ipc, memory[0]), "a handle");
    if (write(out, &ipc, sizeof ipc) != sizeof ipc)
        return 1;
    return read(end, &c, 1) != 0;
}

static int start(bool by_default)
{
    int rc = br_cuda_driver(&cuda);

    if (!rc)
        rc = br_cuda_context(0, &context);
    if (!rc)
        rc = br_cuda_enter(cuda, context);
    if (!rc)
        rc = br_reducer_create(0, &br_gpu_image, &reducer);
    if (!rc)
        rc = br_reducer_create(0, &br_gpu_image, &fresh);
    if (rc) {
        fprintf(stderr, "gpu_blocking: %s\n", br_error_message());
        return rc == -ENOENT || rc == -ENOSYS || rc == -ENODEV || rc == -EOPNOTSUPP ? 77 : 1;
    }
    must(cuda->host_alloc((void **)&gate, 4, BR_CUDA_HOST_PORTABLE | BR_CUDA_HOST_MAPPED), "gate");
    must(cuda->host_device_pointer(&gate_at, gate, 0), "gate");
    *gate = 0;
    if (!by_default)
        must(cuda->stream_create(&held, BR_CUDA_STREAM_NON_BLOCKING, 0), "stream");
    must(cuda->stream_create(&other, BR_CUDA_STREAM_NON_BLOCKING, 0), "stream");
    for (int i = 0; i < 4; i++)
        must(cuda->memory_alloc(&memory[i], BYTES), "memory");
    for (int i = 0; i < 2; i++) {
        must(cuda->host_alloc(&pinned[i], BYTES, BR_CUDA_HOST_PORTABLE), "pinned memory");
        plain[i] = aligned_alloc(4096, BYTES);
    }
    registered = aligned_alloc(4096, BYTES);
    if (!plain[0] || !plain[1] || !registered)
        return 1;
    must(cuda->host_register(registered, BYTES, BR_CUDA_REGISTER_PORTABLE), "pinning");
    must(reduce_by(reducer), "a reduction");
    must(cuda->stream_synchronize(other), "a reduction");
    return 0;
}

int main(int argc, char **argv)
{
    const char *usage = "gpu_blocking [options]";
    bool by_default = false, hangs = false;
    const struct br_option options[] = {
        {"default-stream", 0, BR_OPTION_FLAG, &by_default, 0, 0, "the legacy default stream waits"},
        {0},
    };
    struct br_arguments arguments;
    int handle[2], end[2], rc = br_arguments_parse(&arguments, options, usage, argc, argv);
    pid_t child;

    if (rc)
        return rc < 0 ? 2 : 0;
    if (pipe(handle) || pipe(end) || (child = fork()) < 0)
        return 1;
    if (child == 0) {
        close(end[1]);
        _exit(lend(handle[1], end[0]));
    }
    close(handle[1]);
    close(end[0]);
    rc = start(by_default);
    if (rc)
        return rc;
    if (read(handle[0], &ipc, sizeof ipc) != sizeof ipc)
        fprintf(stderr, "gpu_blocking: the other process has no memory\n");
    printf("| call | ms | %s is held for %d ms: the call | braid makes it then |\n"
           "|---|---|---|---|\n",
           by_default ? "the default stream" : "a stream", HELD);
    for (int i = 0; i < CALLS; i++)
        hangs |= measure(i, (uint32_t)i + 1);
    close(end[1]);
    waitpid(child, NULL, 0);
    return hangs;
}
