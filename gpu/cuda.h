/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What braid uses of the CUDA driver interface, declared by ourselves: building needs no CUDA
 * toolkit, running needs no more than the driver's library (driver.h). Tags, values and layouts are
 * NVIDIA's (cuda.h of CUDA 13.0); where that header is installed, tests/gpu/test_declarations.c
 * compares each of them. Meanings are those of the CUDA Driver API manual.
 */
#ifndef BR_GPU_CUDA_H
#define BR_GPU_CUDA_H

#include <stddef.h>
#include <stdint.h>

/* CUresult; an enum without negative values is compatible with it */
typedef unsigned int br_cuda_result;
/* CUdeviceptr: an address of the unified address space */
typedef unsigned long long br_cuda_pointer;
typedef int br_cuda_device; /* CUdevice: an ordinal */

struct CUctx_st;    /* CUcontext */
struct CUstream_st; /* CUstream, which is cudaStream_t */
struct CUevent_st;  /* CUevent */
struct CUmod_st;    /* CUmodule */
struct CUfunc_st;   /* CUfunction */

/* X(ours, NVIDIA's name, value) */
#define BR_CUDA_CONSTANTS(X)                                                                       \
    X(BR_CUDA_SUCCESS, CUDA_SUCCESS, 0)                                                            \
    X(BR_CUDA_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, 1)                                          \
    X(BR_CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, 2)                                          \
    X(BR_CUDA_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED, 3)                                      \
    X(BR_CUDA_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED, 4)                                          \
    X(BR_CUDA_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY, 34)                                           \
    X(BR_CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE, 100)                                                \
    X(BR_CUDA_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE, 101)                                      \
    X(BR_CUDA_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE, 200)                                        \
    X(BR_CUDA_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT, 201)                                    \
    X(BR_CUDA_NO_BINARY_FOR_GPU, CUDA_ERROR_NO_BINARY_FOR_GPU, 209)                                \
    X(BR_CUDA_PEER_ACCESS_UNSUPPORTED, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217)                    \
    X(BR_CUDA_OPERATING_SYSTEM, CUDA_ERROR_OPERATING_SYSTEM, 304)                                  \
    X(BR_CUDA_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE, 400)                                      \
    X(BR_CUDA_NOT_FOUND, CUDA_ERROR_NOT_FOUND, 500)                                                \
    X(BR_CUDA_NOT_READY, CUDA_ERROR_NOT_READY, 600)                                                \
    X(BR_CUDA_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS, 700)                                    \
    X(BR_CUDA_PEER_ACCESS_ALREADY_ENABLED, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704)            \
    X(BR_CUDA_HOST_MEMORY_ALREADY_REGISTERED, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712)      \
    X(BR_CUDA_HOST_MEMORY_NOT_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713)              \
    X(BR_CUDA_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED, 719)                                        \
    X(BR_CUDA_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED, 800)                                        \
    X(BR_CUDA_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED, 801)                                        \
    X(BR_CUDA_SYSTEM_NOT_READY, CUDA_ERROR_SYSTEM_NOT_READY, 802)                                  \
    X(BR_CUDA_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803)                      \
    X(BR_CUDA_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900)                     \
    X(BR_CUDA_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901)                     \
    X(BR_CUDA_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906)                           \
    X(BR_CUDA_CAPTURED_EVENT, CUDA_ERROR_CAPTURED_EVENT, 907)                                      \
    X(BR_CUDA_UNKNOWN, CUDA_ERROR_UNKNOWN, 999)                                                    \
                                                                                                   \
    /* Of a device */                                                                              \
    X(BR_CUDA_MAX_THREADS_PER_BLOCK, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1)                 \
    X(BR_CUDA_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                       \
    X(BR_CUDA_INTEGRATED, CU_DEVICE_ATTRIBUTE_INTEGRATED, 18)                                      \
    X(BR_CUDA_PCI_BUS, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 33)                                         \
    X(BR_CUDA_PCI_DEVICE, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 34)                                   \
    X(BR_CUDA_COPY_ENGINES, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 40)                            \
    X(BR_CUDA_UNIFIED_ADDRESSING, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41)                      \
    X(BR_CUDA_PCI_DOMAIN, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 50)                                   \
    X(BR_CUDA_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                  \
    X(BR_CUDA_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                  \
    X(BR_CUDA_CAN_FLUSH_REMOTE_WRITES, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 98)            \
    X(BR_CUDA_HAS_VMM, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102)               \
    X(BR_CUDA_HAS_FD_HANDLES, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,     \
      103)                                                                                         \
    X(BR_CUDA_HAS_RDMA_VMM, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 110)      \
    X(BR_CUDA_HAS_RDMA, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 116)                        \
    X(BR_CUDA_RDMA_FLUSH, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 117)           \
    X(BR_CUDA_RDMA_ORDERING, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 118)             \
    X(BR_CUDA_HAS_DMABUF, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 124)                              \
    X(BR_CUDA_HOST_NUMA, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 134)                                    \
                                                                                                   \
    /* Of a pointer */                                                                             \
    X(BR_CUDA_POINTER_CONTEXT, CU_POINTER_ATTRIBUTE_CONTEXT, 1)                                    \
    X(BR_CUDA_POINTER_KIND, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                                   \
    X(BR_CUDA_POINTER_SYNC_MEMOPS, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 6)                            \
    X(BR_CUDA_POINTER_BUFFER, CU_POINTER_ATTRIBUTE_BUFFER_ID, 7)                                   \
    X(BR_CUDA_POINTER_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED, 8)                                 \
    X(BR_CUDA_POINTER_DEVICE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)                              \
    X(BR_CUDA_POINTER_LEGACY_IPC, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, 10)             \
    X(BR_CUDA_POINTER_START, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 11)                            \
    X(BR_CUDA_POINTER_BYTES, CU_POINTER_ATTRIBUTE_RANGE_SIZE, 12)                                  \
    X(BR_CUDA_KIND_HOST, CU_MEMORYTYPE_HOST, 1)                                                    \
    X(BR_CUDA_KIND_DEVICE, CU_MEMORYTYPE_DEVICE, 2)                                                \
    X(BR_CUDA_KIND_UNIFIED, CU_MEMORYTYPE_UNIFIED, 4)                                              \
                                                                                                   \
    X(BR_CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING, 1)                                      \
    X(BR_CUDA_WAIT_GEQ, CU_STREAM_WAIT_VALUE_GEQ, 0)                                               \
    X(BR_CUDA_WAIT_EQ, CU_STREAM_WAIT_VALUE_EQ, 1)                                                 \
    X(BR_CUDA_WAIT_FLUSH, CU_STREAM_WAIT_VALUE_FLUSH, 1 << 30)                                     \
    X(BR_CUDA_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE, 0)                                      \
    X(BR_CUDA_CAPTURE_ACTIVE, CU_STREAM_CAPTURE_STATUS_ACTIVE, 1)                                  \
    X(BR_CUDA_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED, 2)                                  \
    X(BR_CUDA_EVENT_NO_TIMING, CU_EVENT_DISABLE_TIMING, 2)                                         \
    X(BR_CUDA_EVENT_INTERPROCESS, CU_EVENT_INTERPROCESS, 4)                                        \
                                                                                                   \
    X(BR_CUDA_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE, 1)                                          \
    X(BR_CUDA_HOST_MAPPED, CU_MEMHOSTALLOC_DEVICEMAP, 2)                                           \
    X(BR_CUDA_REGISTER_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE, 1)                                   \
    X(BR_CUDA_REGISTER_MAPPED, CU_MEMHOSTREGISTER_DEVICEMAP, 2)                                    \
                                                                                                   \
    X(BR_CUDA_RANGE_DMABUF, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 1)                                \
    X(BR_CUDA_DMABUF_PCIE, CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE, 1)                         \
    X(BR_CUDA_IPC_PEER_ACCESS, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, 1)                              \
    X(BR_CUDA_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE, 1)                                     \
    X(BR_CUDA_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED, 1)                                 \
    X(BR_CUDA_HANDLE_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1)                              \
    X(BR_CUDA_ACCESS_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3)                            \
    X(BR_CUDA_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM, 0)                            \
    X(BR_CUDA_FLUSH_CURRENT_CONTEXT, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX, 0)        \
    X(BR_CUDA_FLUSH_TO_OWNER, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER, 100)                       \
    X(BR_CUDA_RDMA_FLUSH_BY_HOST, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST, 1)                  \
    X(BR_CUDA_RDMA_ORDERED_FOR_OWNER, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER, 100)

enum br_cuda_constant {
#define BR_CUDA_CONSTANT(ours, theirs, value) ours = value,
    BR_CUDA_CONSTANTS(BR_CUDA_CONSTANT)
#undef BR_CUDA_CONSTANT
};

#ifndef __cuda_cuda_h__ /* NVIDIA's own, for the test that compares; else ours under the same tags \
                         */
struct CUuuid_st {
    char bytes[16];
};

struct CUipcMemHandle_st {
    char reserved[64];
};

struct CUipcEventHandle_st {
    char reserved[64];
};

struct CUmemLocation_st {
    unsigned int type; /* BR_CUDA_LOCATION_DEVICE */
    int id;            /* the device's ordinal */
};

struct CUmemAccessDesc_st {
    struct CUmemLocation_st location;
    unsigned int flags;
};

struct CUmemAllocationProp_st {
    unsigned int type;                 /* BR_CUDA_ALLOCATION_PINNED */
    unsigned int requestedHandleTypes; /* BR_CUDA_HANDLE_FD: can be exported */
    struct CUmemLocation_st location;
    void *win32HandleMetaData;
    struct {
        unsigned char compressionType;
        unsigned char gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
};
#endif

_Static_assert(sizeof(struct CUuuid_st) == 16, "CUuuid");
_Static_assert(sizeof(struct CUipcMemHandle_st) == 64 && sizeof(struct CUipcEventHandle_st) == 64,
               "IPC handles");
_Static_assert(sizeof(struct CUmemLocation_st) == 8 && offsetof(struct CUmemLocation_st, id) == 4,
               "CUmemLocation");
_Static_assert(sizeof(struct CUmemAccessDesc_st) == 12 &&
                   offsetof(struct CUmemAccessDesc_st, flags) == 8,
               "CUmemAccessDesc");
_Static_assert(sizeof(struct CUmemAllocationProp_st) == 32 &&
                   offsetof(struct CUmemAllocationProp_st, requestedHandleTypes) == 4 &&
                   offsetof(struct CUmemAllocationProp_st, location) == 8 &&
                   offsetof(struct CUmemAllocationProp_st, win32HandleMetaData) == 16 &&
                   offsetof(struct CUmemAllocationProp_st, allocFlags.gpuDirectRDMACapable) == 25,
               "CUmemAllocationProp");

#endif
