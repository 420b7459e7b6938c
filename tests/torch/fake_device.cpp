/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * torch.device("cuda") over the fake CUDA driver (tests/fake_cuda/fake_cuda.h), for test_gpu.py: what c10d asks of a device, and tensors in its memory.
 * torch.ops.load_library() loads it; it takes the place of torch's own guard of CUDA devices, if there is one. Operators of torch do not run on these
 * tensors: there is nothing but the driver's copies.
 *
 * The current stream of every thread is one that FAKE_CUDA=thread runs beside the program. A gate is a word that this stream waits for, as for a kernel
 * that takes its time: what is put into the stream behind later() has not happened before open().
 */
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <atomic>

extern "C" {
#define _Static_assert static_assert /* the driver's headers are C */
#include "gpu/driver.h"
#include "tests/fake_cuda/fake_cuda.h"
#define DECLARE(field, symbol, parameters) br_cuda_result symbol parameters;
BR_CUDA_SYMBOLS(DECLARE)
BR_CUDA_OPTIONAL(DECLARE)
}

namespace {

void must(br_cuda_result result, const char *call)
{
    TORCH_CHECK(result == BR_CUDA_SUCCESS, "fake CUDA: ", call, ": ", result);
}
#define MUST(call) must(call, #call)

const c10::Device gpu{c10::kCUDA, 0};
CUctx_st *context;
CUstream_st *stream;
std::atomic<uint32_t> gate;
uint32_t turn;

/* The context is current in each thread that gets here, as with torch's own. */
void enter()
{
    static thread_local bool entered = false;

    if (!context) {
        MUST(cuInit(0));
        MUST(cuDevicePrimaryCtxRetain(&context, 0));
    }
    if (!entered)
        MUST(cuCtxPushCurrent_v2(context));
    entered = true;
    if (!stream)
        MUST(cuStreamCreateWithPriority(&stream, BR_CUDA_STREAM_NON_BLOCKING, 0));
}

CUstream_st *native(const c10::Stream &of)
{
    return reinterpret_cast<CUstream_st *>(of.id());
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override { return c10::kCUDA; }
    c10::Device exchangeDevice(c10::Device) const override { return gpu; }
    c10::Device getDevice() const override { return gpu; }
    void setDevice(c10::Device) const override {}
    void uncheckedSetDevice(c10::Device) const noexcept override {}
    c10::DeviceIndex deviceCount() const noexcept override { return 1; }
    c10::Stream getStream(c10::Device device) const noexcept override
    {
        enter();
        return c10::Stream(c10::Stream::UNSAFE, device, reinterpret_cast<c10::StreamId>(stream));
    }
    c10::Stream getDefaultStream(c10::Device device) const override { return getStream(device); }
    c10::Stream exchangeStream(c10::Stream) const noexcept override { return getStream(gpu); }
    void *getStreamNativeHandle(const c10::Stream of) const override { return native(of); }

    void record(void **event, const c10::Stream &of, const c10::DeviceIndex,
                const c10::EventFlag) const override
    {
        enter();
        if (!*event)
            MUST(cuEventCreate(reinterpret_cast<CUevent_st **>(event), BR_CUDA_EVENT_NO_TIMING));
        MUST(cuEventRecord(static_cast<CUevent_st *>(*event), native(of)));
    }
    void block(void *event, const c10::Stream &of) const override
    {
        enter();
        if (event)
            MUST(cuStreamWaitEvent(native(of), static_cast<CUevent_st *>(event), 0));
    }
    bool queryEvent(void *event) const override
    {
        return !event || cuEventQuery(static_cast<CUevent_st *>(event)) == BR_CUDA_SUCCESS;
    }
    void synchronizeEvent(void *event) const override
    {
        if (event)
            MUST(cuEventSynchronize(static_cast<CUevent_st *>(event)));
    }
    void destroyEvent(void *event, const c10::DeviceIndex) const noexcept override
    {
        if (event)
            cuEventDestroy_v2(static_cast<CUevent_st *>(event));
    }
    bool queryStream(const c10::Stream &of) const override
    {
        return cuStreamQuery(native(of)) == BR_CUDA_SUCCESS;
    }
    void synchronizeStream(const c10::Stream &of) const override
    {
        MUST(cuStreamSynchronize(native(of)));
    }
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard);

br_cuda_pointer address(const at::Tensor &tensor)
{
    return reinterpret_cast<uintptr_t>(tensor.data_ptr());
}

/* A tensor on the device that has the bytes of one in host memory. */
at::Tensor make(const at::Tensor &values)
{
    br_cuda_pointer memory;

    enter();
    MUST(cuMemAlloc_v2(&memory, std::max<size_t>(values.nbytes(), 1)));
    memcpy(fake_cuda_bytes(memory), values.data_ptr(), values.nbytes());
    return at::from_blob(reinterpret_cast<void *>(memory), values.sizes(), [](void *from) {
        cuMemFree_v2(reinterpret_cast<uintptr_t>(from));
    }, values.options().device(gpu), gpu);
}

/* The bytes that a tensor has on the device by now, in host memory. Waits for nothing. */
at::Tensor peek(const at::Tensor &tensor)
{
    at::Tensor values = at::empty(tensor.sizes(), tensor.options().device(c10::kCPU));

    memcpy(values.data_ptr(), fake_cuda_bytes(address(tensor)), tensor.nbytes());
    return values;
}

/* A kernel before: stops the stream until open(), and then copies. */
void later(const at::Tensor &to, const at::Tensor &from)
{
    enter();
    MUST(cuStreamWaitValue32_v2(stream, reinterpret_cast<uintptr_t>(&gate), ++turn,
                                BR_CUDA_WAIT_GEQ));
    MUST(cuMemcpyAsync(address(to), address(from), from.nbytes(), stream));
}

/* A kernel behind. */
void copy(const at::Tensor &to, const at::Tensor &from)
{
    enter();
    MUST(cuMemcpyAsync(address(to), address(from), from.nbytes(), stream));
}

void open()
{
    gate = turn;
}

void synchronize()
{
    MUST(cuStreamSynchronize(stream));
}

TORCH_LIBRARY(fake_device, library)
{
    library.def("make", make);
    library.def("peek", peek);
    library.def("later", later);
    library.def("copy", copy);
    library.def("open", open);
    library.def("synchronize", synchronize);
}

}
