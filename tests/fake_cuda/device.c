/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver itself: control, devices, contexts, words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake_cuda/inside.h"

#define DEVICES 8
#define DEPTH   16 /* of a thread's stack of contexts */

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
struct fake_cuda_counters fake_counted;
unsigned fake_objects;

static struct fake_cuda_control control;
static struct CUctx_st contexts[DEVICES];
static bool initialised;
atomic_int fake_captures;
__thread unsigned int fake_capture_mode;
static __thread struct CUctx_st *stack[DEPTH];
static __thread int depth;

static void set_flag(const char *word)
{
    static const struct {
        const char *word;
        size_t offset;
    } flags[] = {
        {"no_dmabuf", offsetof(struct fake_cuda_control, no_dmabuf)},
        {"peer_memory", offsetof(struct fake_cuda_control, peer_memory)},
        {"unordered", offsetof(struct fake_cuda_control, unordered)},
        {"no_flush", offsetof(struct fake_cuda_control, no_flush)},
        {"no_ipc", offsetof(struct fake_cuda_control, no_ipc)},
        {"no_vmm", offsetof(struct fake_cuda_control, no_vmm)},
        {"no_memory_operations", offsetof(struct fake_cuda_control, no_memory_operations)},
        {"ipc_in_process", offsetof(struct fake_cuda_control, ipc_in_process)},
        {"thread", offsetof(struct fake_cuda_control, thread)},
    };

    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (strcmp(word, flags[i].word) == 0) {
            *(bool *)((char *)&control + flags[i].offset) = true;
            return;
        }
    fprintf(stderr, "FAKE_CUDA: unknown word '%s'\n", word);
}

static void set_word(const char *word)
{
    unsigned long long bytes;
    char unit = 0;

    if (sscanf(word, "devices=%d", &control.devices) == 1 ||
        sscanf(word, "late=%u", &control.late) == 1 ||
        sscanf(word, "fail=%63[^:]:%u:%u", control.fail, &control.fail_result,
               &control.fail_after) >= 2)
        return;
    if (sscanf(word, "bytes=%llu%c", &bytes, &unit) >= 1)
        control.bytes = (size_t)bytes << (unit == 'K'   ? 10
                                          : unit == 'M' ? 20
                                          : unit == 'G' ? 30
                                                        : 0);
    else
        set_flag(word);
}

__attribute__((constructor)) static void read_environment(void)
{
    const char *text = getenv("FAKE_CUDA");
    char copy[512], *rest = NULL;

    control = (struct fake_cuda_control){.devices = 1, .bytes = 1ul << 30};
    snprintf(copy, sizeof copy, "%s", text ? text : "");
    for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
        set_word(word);
}

struct fake_cuda_control *fake_cuda(void)
{
    return &control;
}

struct fake_cuda_counters fake_cuda_counters(void)
{
    struct fake_cuda_counters out;

    pthread_mutex_lock(&fake_lock);
    out = fake_counted;
    pthread_mutex_unlock(&fake_lock);
    return out;
}

void fake_cuda_reset(void)
{
    fake_stop_thread();
    memset(&fake_counted, 0, sizeof fake_counted);
    initialised = false;
    read_environment();
}

/* What may break a capture; not all of it, but all that gpu/ calls. */
static bool is_unsafe(const char *symbol)
{
    static const char *const symbols[] = {"cuMemAlloc_v2",        "cuMemFree_v2",
                                          "cuMemHostAlloc",       "cuMemFreeHost",
                                          "cuMemHostRegister_v2", "cuMemHostUnregister",
                                          "cuEventQuery",         "cuEventSynchronize",
                                          "cuStreamQuery",        "cuStreamSynchronize",
                                          "cuStreamDestroy_v2",   "cuModuleLoadData",
                                          "cuModuleUnload",       "cuDevicePrimaryCtxRetain"};

    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (strcmp(symbol, symbols[i]) == 0)
            return true;
    return false;
}

br_cuda_result fake_enter(const char *symbol, enum fake_needs needs)
{
    bool fails = false;

    pthread_mutex_lock(&fake_lock);
    if (strcmp(symbol, control.fail) == 0) {
        fails = control.fail_after == 0;
        control.fail_after -= !fails;
    }
    pthread_mutex_unlock(&fake_lock);
    if (fails)
        return control.fail_result;
    if (needs != NOTHING && !initialised)
        return BR_CUDA_NOT_INITIALIZED;
    if (atomic_load(&fake_captures) && fake_capture_mode != BR_CUDA_CAPTURE_RELAXED &&
        is_unsafe(symbol))
        return BR_CUDA_CAPTURE_UNSUPPORTED;
    return needs == CONTEXT && !fake_current() ? BR_CUDA_INVALID_CONTEXT : BR_CUDA_SUCCESS;
}

br_cuda_result cuInit(unsigned int flags)
{
    ENTER(cuInit, NOTHING);
    if (flags || control.devices == 0)
        return flags ? BR_CUDA_INVALID_VALUE : BR_CUDA_NO_DEVICE;
    initialised = true;
    if (control.thread)
        fake_start_thread();
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuDriverGetVersion(int *out)
{
    ENTER(cuDriverGetVersion, NOTHING);
    *out = 13000;
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuGetErrorName(br_cuda_result result, const char **out)
{
#define NAME(ours, theirs, value)                                                                  \
    if (result == value && (value == 0 || strncmp(#theirs, "CUDA_ERROR", 10) == 0)) {              \
        *out = #theirs;                                                                            \
        return BR_CUDA_SUCCESS;                                                                    \
    }
    BR_CUDA_CONSTANTS(NAME)
    *out = NULL;
    return BR_CUDA_INVALID_VALUE;
}

br_cuda_result cuGetErrorString(br_cuda_result result, const char **out)
{
    (void)result;
    *out = "words of the fake driver";
    return BR_CUDA_SUCCESS;
}

static bool known(br_cuda_device device)
{
    return device >= 0 && device < control.devices && device < DEVICES;
}

br_cuda_result cuDeviceGetCount(int *out)
{
    ENTER(cuDeviceGetCount, DRIVER);
    *out = control.devices;
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuDeviceGet(br_cuda_device *out, int ordinal)
{
    ENTER(cuDeviceGet, DRIVER);
    *out = ordinal;
    return known(ordinal) ? BR_CUDA_SUCCESS : BR_CUDA_INVALID_DEVICE;
}

br_cuda_result cuDeviceGetName(char *out, int bytes, br_cuda_device device)
{
    ENTER(cuDeviceGetName, DRIVER);
    snprintf(out, (size_t)bytes, "fake GPU %d", device);
    return known(device) ? BR_CUDA_SUCCESS : BR_CUDA_INVALID_DEVICE;
}

br_cuda_result cuDeviceTotalMem_v2(size_t *out, br_cuda_device device)
{
    ENTER(cuDeviceTotalMem_v2, DRIVER);
    *out = control.bytes;
    return known(device) ? BR_CUDA_SUCCESS : BR_CUDA_INVALID_DEVICE;
}

br_cuda_result cuDeviceGetPCIBusId(char *out, int bytes, br_cuda_device device)
{
    ENTER(cuDeviceGetPCIBusId, DRIVER);
    snprintf(out, (size_t)bytes, "FA0E:%02X:00.0", device + 1);
    return known(device) ? BR_CUDA_SUCCESS : BR_CUDA_INVALID_DEVICE;
}

br_cuda_result cuDeviceGetUuid_v2(struct CUuuid_st *out, br_cuda_device device)
{
    ENTER(cuDeviceGetUuid_v2, DRIVER);
    memset(out, 0, sizeof *out);
    snprintf(out->bytes, sizeof out->bytes, "fake%d", device);
    return known(device) ? BR_CUDA_SUCCESS : BR_CUDA_INVALID_DEVICE;
}

br_cuda_result cuDeviceCanAccessPeer(int *out, br_cuda_device device, br_cuda_device peer)
{
    ENTER(cuDeviceCanAccessPeer, DRIVER);
    *out = device != peer;
    return known(device) && known(peer) ? BR_CUDA_SUCCESS : BR_CUDA_INVALID_DEVICE;
}

br_cuda_result cuDeviceGetAttribute(int *out, unsigned int attribute, br_cuda_device device)
{
    ENTER(cuDeviceGetAttribute, DRIVER);
    switch (attribute) {
    case BR_CUDA_MAX_THREADS_PER_BLOCK:
        *out = 1024;
        break;
    case BR_CUDA_MULTIPROCESSORS:
        *out = 4;
        break;
    case BR_CUDA_CAPABILITY_MAJOR:
        *out = 9;
        break;
    case BR_CUDA_PCI_DOMAIN:
        *out = 0xFA0E;
        break;
    case BR_CUDA_PCI_BUS:
        *out = device + 1;
        break;
    case BR_CUDA_COPY_ENGINES:
        *out = 2;
        break;
    case BR_CUDA_UNIFIED_ADDRESSING:
        *out = 1;
        break;
    case BR_CUDA_HAS_VMM:
    case BR_CUDA_HAS_FD_HANDLES:
        *out = !control.no_vmm;
        break;
    case BR_CUDA_HAS_DMABUF:
        *out = !control.no_dmabuf;
        break;
    case BR_CUDA_RDMA_ORDERING:
        *out = control.unordered ? 0 : BR_CUDA_RDMA_ORDERED_FOR_OWNER;
        break;
    case BR_CUDA_RDMA_FLUSH:
        *out = control.no_flush ? 0 : BR_CUDA_RDMA_FLUSH_BY_HOST;
        break;
    case BR_CUDA_HOST_NUMA:
        *out = -1;
        break;
    default:
        *out = 0;
    }
    return known(device) ? BR_CUDA_SUCCESS : BR_CUDA_INVALID_DEVICE;
}

struct CUctx_st *fake_current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

struct CUctx_st *fake_context_of(int device)
{
    return &contexts[device];
}

br_cuda_result cuDevicePrimaryCtxRetain(struct CUctx_st **out, br_cuda_device device)
{
    ENTER(cuDevicePrimaryCtxRetain, DRIVER);
    if (!known(device))
        return BR_CUDA_INVALID_DEVICE;
    contexts[device].device = device;
    contexts[device].retained++;
    *out = &contexts[device];
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuDevicePrimaryCtxRelease_v2(br_cuda_device device)
{
    ENTER(cuDevicePrimaryCtxRelease_v2, DRIVER);
    if (!known(device) || !contexts[device].retained)
        return BR_CUDA_INVALID_DEVICE;
    contexts[device].retained--;
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuCtxPushCurrent_v2(struct CUctx_st *context)
{
    ENTER(cuCtxPushCurrent_v2, DRIVER);
    if (!context || depth == DEPTH)
        return BR_CUDA_INVALID_CONTEXT;
    stack[depth++] = context;
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuCtxPopCurrent_v2(struct CUctx_st **out)
{
    ENTER(cuCtxPopCurrent_v2, CONTEXT);
    *out = stack[--depth];
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuCtxGetCurrent(struct CUctx_st **out)
{
    ENTER(cuCtxGetCurrent, DRIVER);
    *out = fake_current();
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuCtxSetCurrent(struct CUctx_st *context)
{
    ENTER(cuCtxSetCurrent, DRIVER);
    if (!context)
        depth -= depth > 0;
    else if (depth)
        stack[depth - 1] = context;
    else
        stack[depth++] = context;
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuCtxGetDevice(br_cuda_device *out)
{
    ENTER(cuCtxGetDevice, CONTEXT);
    *out = fake_current()->device;
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuCtxEnablePeerAccess(struct CUctx_st *peer, unsigned int flags)
{
    ENTER(cuCtxEnablePeerAccess, CONTEXT);
    return peer && peer != fake_current() && !flags ? BR_CUDA_SUCCESS : BR_CUDA_INVALID_VALUE;
}

br_cuda_result cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    ENTER(cuCtxGetStreamPriorityRange, CONTEXT);
    *least = 0;
    *greatest = -5;
    return BR_CUDA_SUCCESS;
}
