/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CUDA driver (libcuda.so.1), opened when it is first needed, so that braid builds and runs on
 * hosts without it. All of CUDA goes through this table; the runtime library (libcudart) is not
 * used. An application's cudaStream_t is a CUstream, and its device memory lies in the primary
 * context that br_cuda_context() returns, too. BRAID_CUDA_LIBRARY names another library; with
 * `none` this process uses no GPU.
 *
 * The numbered notes are in doc/design/gpu_memory.md.
 */
#ifndef BR_GPU_DRIVER_H
#define BR_GPU_DRIVER_H

#include "gpu/cuda.h"

#define BR_GPUS 64 /* of one host, at most; real ones have 16 */

/* X(field, symbol, parameters). A field is called as the manual says of its symbol without the _v2;
 * all return a CUresult. */
#define BR_CUDA_SYMBOLS(X)                                                                         \
    X(init, cuInit, (unsigned int flags))                                                          \
    X(error_name, cuGetErrorName, (br_cuda_result result, const char **out))                       \
    X(error_string, cuGetErrorString, (br_cuda_result result, const char **out))                   \
                                                                                                   \
    X(device_count, cuDeviceGetCount, (int *out))                                                  \
    X(device_name, cuDeviceGetName, (char *out, int bytes, br_cuda_device device))                 \
    X(device_bytes, cuDeviceTotalMem_v2, (size_t * out, br_cuda_device device))                    \
    X(device_attribute, cuDeviceGetAttribute,                                                      \
      (int *out, unsigned int attribute, br_cuda_device device))                                   \
    X(device_pci, cuDeviceGetPCIBusId, (char *out, int bytes, br_cuda_device device))              \
                                                                                                   \
    X(primary_retain, cuDevicePrimaryCtxRetain, (struct CUctx_st * *out, br_cuda_device device))   \
    X(context_push, cuCtxPushCurrent_v2, (struct CUctx_st * context))                              \
    X(context_pop, cuCtxPopCurrent_v2, (struct CUctx_st * *out))                                   \
    X(priority_range, cuCtxGetStreamPriorityRange, (int *least, int *greatest))                    \
                                                                                                   \
    X(memory_alloc, cuMemAlloc_v2, (br_cuda_pointer * out, size_t bytes))                          \
    X(memory_free, cuMemFree_v2, (br_cuda_pointer memory))                                         \
    X(host_alloc, cuMemHostAlloc, (void **out, size_t bytes, unsigned int flags))                  \
    X(host_free, cuMemFreeHost, (void *memory))                                                    \
    X(host_register, cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned int flags))       \
    X(host_unregister, cuMemHostUnregister, (void *memory))                                        \
    X(pointer_attributes, cuPointerGetAttributes,                                                  \
      (unsigned int n, unsigned int *attributes, void **out, br_cuda_pointer pointer))             \
                                                                                                   \
    X(copy, cuMemcpy, (br_cuda_pointer to, br_cuda_pointer from, size_t bytes)) /* waits */        \
    X(copy_async, cuMemcpyAsync,                                                                   \
      (br_cuda_pointer to, br_cuda_pointer from, size_t bytes, struct CUstream_st * stream))       \
    X(copy_to_host, cuMemcpyDtoHAsync_v2,                                                          \
      (void *to, br_cuda_pointer from, size_t bytes, struct CUstream_st *stream))                  \
    X(copy_to_device, cuMemcpyHtoDAsync_v2,                                                        \
      (br_cuda_pointer to, const void *from, size_t bytes, struct CUstream_st *stream))            \
                                                                                                   \
    X(stream_create, cuStreamCreateWithPriority,                                                   \
      (struct CUstream_st * *out, unsigned int flags, int priority))                               \
    X(stream_destroy, cuStreamDestroy_v2, (struct CUstream_st * stream))                           \
    X(stream_synchronize, cuStreamSynchronize, (struct CUstream_st * stream))                      \
    X(capture_mode, cuThreadExchangeStreamCaptureMode, (unsigned int *mode))                       \
                                                                                                   \
    X(event_create, cuEventCreate, (struct CUevent_st * *out, unsigned int flags))                 \
    X(event_destroy, cuEventDestroy_v2, (struct CUevent_st * event))                               \
    X(event_record, cuEventRecord, (struct CUevent_st * event, struct CUstream_st * stream))       \
    X(event_query, cuEventQuery, (struct CUevent_st * event))                                      \
                                                                                                   \
    X(module_load, cuModuleLoadData, (struct CUmod_st * *out, const void *image))                  \
    X(module_unload, cuModuleUnload, (struct CUmod_st * module))                                   \
    X(module_function, cuModuleGetFunction,                                                        \
      (struct CUfunc_st * *out, struct CUmod_st * module, const char *name))                       \
    X(function_occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor,                             \
      (int *blocks, struct CUfunc_st *function, int block, size_t shared_bytes))                   \
    X(launch, cuLaunchKernel,                                                                      \
      (struct CUfunc_st * function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, \
       unsigned int block_x, unsigned int block_y, unsigned int block_z,                           \
       unsigned int shared_bytes, struct CUstream_st *stream, void **parameters, void **extra))

/* What gpu/ does not call, first, and what is younger than the rest or not of every system; NULL
 * where the driver lacks it: look before the call. A driver that lacks one of them is used all the
 * same. */
#define BR_CUDA_OPTIONAL(X)                                                                        \
    X(version, cuDriverGetVersion, (int *out))                                                     \
    X(device_get, cuDeviceGet, (br_cuda_device * out, int ordinal))                                \
    X(device_uuid, cuDeviceGetUuid_v2, (struct CUuuid_st * out, br_cuda_device device))            \
    X(device_can_access, cuDeviceCanAccessPeer,                                                    \
      (int *out, br_cuda_device device, br_cuda_device peer))                                      \
    X(primary_release, cuDevicePrimaryCtxRelease_v2, (br_cuda_device device))                      \
    X(context_get, cuCtxGetCurrent, (struct CUctx_st * *out))                                      \
    X(context_set, cuCtxSetCurrent, (struct CUctx_st * context))                                   \
    X(context_device, cuCtxGetDevice, (br_cuda_device * out))                                      \
    X(context_enable_peer, cuCtxEnablePeerAccess, (struct CUctx_st * peer, unsigned int flags))    \
    X(memory_info, cuMemGetInfo_v2, (size_t * unused, size_t * total))                             \
    X(memory_range, cuMemGetAddressRange_v2,                                                       \
      (br_cuda_pointer * base, size_t * bytes, br_cuda_pointer memory))                            \
    X(host_device_pointer, cuMemHostGetDevicePointer_v2,                                           \
      (br_cuda_pointer * out, void *memory, unsigned int flags))                                   \
    X(pointer_attribute, cuPointerGetAttribute,                                                    \
      (void *out, unsigned int attribute, br_cuda_pointer pointer))                                \
    X(pointer_set, cuPointerSetAttribute,                                                          \
      (const void *value, unsigned int attribute, br_cuda_pointer pointer))                        \
    X(set_bytes, cuMemsetD8Async,                                                                  \
      (br_cuda_pointer to, unsigned char value, size_t bytes, struct CUstream_st *stream))         \
    X(stream_query, cuStreamQuery, (struct CUstream_st * stream))                                  \
    X(stream_context, cuStreamGetCtx, (struct CUstream_st * stream, struct CUctx_st * *out))       \
    X(stream_wait_event, cuStreamWaitEvent,                                                        \
      (struct CUstream_st * stream, struct CUevent_st * event, unsigned int flags))                \
    X(stream_capturing, cuStreamIsCapturing, (struct CUstream_st * stream, unsigned int *out))     \
    X(stream_call, cuLaunchHostFunc,                                                               \
      (struct CUstream_st * stream, void (*fn)(void *), void *argument))                           \
    X(event_synchronize, cuEventSynchronize, (struct CUevent_st * event))                          \
    X(event_elapsed, cuEventElapsedTime,                                                           \
      (float *ms, struct CUevent_st *from, struct CUevent_st *to))                                 \
    X(ipc_memory_get, cuIpcGetMemHandle, (struct CUipcMemHandle_st * out, br_cuda_pointer memory)) \
    X(ipc_memory_open, cuIpcOpenMemHandle_v2,                                                      \
      (br_cuda_pointer * out, struct CUipcMemHandle_st handle, unsigned int flags))                \
    X(ipc_memory_close, cuIpcCloseMemHandle, (br_cuda_pointer memory))                             \
    X(ipc_event_get, cuIpcGetEventHandle,                                                          \
      (struct CUipcEventHandle_st * out, struct CUevent_st * event))                               \
    X(ipc_event_open, cuIpcOpenEventHandle,                                                        \
      (struct CUevent_st * *out, struct CUipcEventHandle_st handle))                               \
                                                                                                   \
    X(range_handle, cuMemGetHandleForAddressRange, /* CUDA 11.7: dma-buf */                        \
      (void *out, br_cuda_pointer memory, size_t bytes, unsigned int type,                         \
       unsigned long long flags))                                                                  \
    X(flush_rdma, cuFlushGPUDirectRDMAWrites,                                                      \
      (unsigned int target, unsigned int scope)) /* 11.3 */                                        \
    X(stream_wait_32, cuStreamWaitValue32_v2,    /* these four: 11.7 */                            \
      (struct CUstream_st * stream, br_cuda_pointer at, uint32_t value, unsigned int flags))       \
    X(stream_write_32, cuStreamWriteValue32_v2,                                                    \
      (struct CUstream_st * stream, br_cuda_pointer at, uint32_t value, unsigned int flags))       \
    X(stream_wait_64, cuStreamWaitValue64_v2,                                                      \
      (struct CUstream_st * stream, br_cuda_pointer at, uint64_t value, unsigned int flags))       \
    X(stream_write_64, cuStreamWriteValue64_v2,                                                    \
      (struct CUstream_st * stream, br_cuda_pointer at, uint64_t value, unsigned int flags))       \
    X(vmm_create, cuMemCreate, /* from here: virtual memory, 10.2 and the device's HAS_VMM */      \
      (unsigned long long *out, size_t bytes, const struct CUmemAllocationProp_st *properties,     \
       unsigned long long flags))                                                                  \
    X(vmm_release, cuMemRelease, (unsigned long long handle))                                      \
    X(vmm_retain, cuMemRetainAllocationHandle, (unsigned long long *out, void *address))           \
    X(vmm_granularity, cuMemGetAllocationGranularity,                                              \
      (size_t * out, const struct CUmemAllocationProp_st *properties, unsigned int option))        \
    X(vmm_reserve, cuMemAddressReserve,                                                            \
      (br_cuda_pointer * out, size_t bytes, size_t alignment, br_cuda_pointer at,                  \
       unsigned long long flags))                                                                  \
    X(vmm_unreserve, cuMemAddressFree, (br_cuda_pointer at, size_t bytes))                         \
    X(vmm_map, cuMemMap,                                                                           \
      (br_cuda_pointer at, size_t bytes, size_t offset, unsigned long long handle,                 \
       unsigned long long flags))                                                                  \
    X(vmm_unmap, cuMemUnmap, (br_cuda_pointer at, size_t bytes))                                   \
    X(vmm_access, cuMemSetAccess,                                                                  \
      (br_cuda_pointer at, size_t bytes, const struct CUmemAccessDesc_st *access, size_t n))       \
    X(vmm_export, cuMemExportToShareableHandle,                                                    \
      (void *out, unsigned long long handle, unsigned int type, unsigned long long flags))         \
    X(vmm_import, cuMemImportFromShareableHandle,                                                  \
      (unsigned long long *out, void *os_handle, unsigned int type))

struct br_cuda {
#define BR_CUDA_FIELD(field, symbol, parameters) br_cuda_result(*field) parameters;
    BR_CUDA_SYMBOLS(BR_CUDA_FIELD)
    BR_CUDA_OPTIONAL(BR_CUDA_FIELD)
#undef BR_CUDA_FIELD
};

/* Returns the table in *out, valid for the life of the process; NULL on failure. The first call
 * loads the library and blocks on the file system (note 1). From any thread. Errors come with a
 * message that says what to do: -ENOENT: there is no library, or BRAID_CUDA_LIBRARY is `none`;
 * -ENOSYS: it is too old. */
int br_cuda_library(const struct br_cuda **out);

/* The same, but the driver is initialised and has at least one GPU. Blocks for up to seconds the
 * first time. Further errors: -ENOSYS: the library is a toolkit's stub; -ENODEV: the driver finds
 * no GPU, or none that it may use; -EIO: it does not start. A failure lasts for the life of the
 * process. */
int br_cuda_driver(const struct br_cuda **out);

/* Stores the message of a failed call: what was asked for (format), then the driver's name and text
 * for the result. Returns the negative errno of the result: -ENOMEM, -EINVAL, -EOPNOTSUPP, -ENODEV,
 * -EAGAIN (NOT_READY), -EPERM, or -EIO for all others. */
int br_cuda_error(const struct br_cuda *cuda, br_cuda_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns in *out the primary context of a device, which cudart and PyTorch use, too. It is
 * retained once and kept for the life of the process. Returns 0, or with a message the errors of
 * br_cuda_driver(), -ENODEV, or the driver's error. From any thread. */
int br_cuda_context(br_cuda_device device, struct CUctx_st **out);

/*
 * Makes a context current in the calling thread and its capture mode RELAXED (note 3);
 * br_cuda_leave() restores both. Pairs may be nested. They stand around every call that needs a
 * current context, because any thread may drive a worker, and around all that capturing forbids.
 * Returns 0, or a negative errno with a message; then br_cuda_leave() is not called.
 */
int br_cuda_enter(const struct br_cuda *cuda, struct CUctx_st *context);
void br_cuda_leave(const struct br_cuda *cuda);

/* For tests: the next br_cuda_library() reads BRAID_CUDA_LIBRARY again. Not while another thread
 * uses the table. */
void br_cuda_forget(void);

#endif
