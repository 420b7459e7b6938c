/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * torch.device("cuda") over the fake CUDA driver (tests/fake_cuda/fake_cuda.h), for test_gpu.py: what c10d asks of a device, and tensors in its memory.
 * torch.ops.load_library() loads it; it takes the place of torch's own guard of CUDA devices, if there is one. Of torch's operators those run on these
 * tensors that make, view and copy them: what collectives of lists, and of tensors with gaps, do in the stream.
 *
 * The current stream of every thread is one that FAKE_CUDA=thread runs beside the program. A gate is a word that this stream waits for, as for a kernel
 * that takes its time: what is put into the stream behind later() has not happened before open().
 */
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

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
std::chrono::milliseconds launch; /* how long torch's copy_() keeps the host */

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

/* Memory of tensors that are gone. The stream may still use it, as torch's allocator allows: it is freed in synchronize(). */
std::mutex dropped_lock;
std::vector<br_cuda_pointer> dropped;

void drop(void *memory)
{
    const std::lock_guard<std::mutex> guard(dropped_lock);

    dropped.push_back(reinterpret_cast<uintptr_t>(memory));
}

at::Tensor allocate(at::IntArrayRef sizes, at::ScalarType type)
{
    const size_t bytes = c10::multiply_integers(sizes) * c10::elementSize(type);
    br_cuda_pointer memory;

    enter();
    MUST(cuMemAlloc_v2(&memory, std::max<size_t>(bytes, 1)));
    return at::from_blob(reinterpret_cast<void *>(memory), sizes, drop, at::TensorOptions(gpu).dtype(type), gpu);
}

/* A tensor on the device that has the bytes of one in host memory. */
at::Tensor make(const at::Tensor &values)
{
    const at::Tensor made = allocate(values.sizes(), values.scalar_type());

    memcpy(fake_cuda_bytes(address(made)), values.data_ptr(), values.nbytes());
    return made;
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
    std::vector<br_cuda_pointer> unused;

    {
        const std::lock_guard<std::mutex> guard(dropped_lock);
        unused.swap(dropped);
    }
    MUST(cuStreamSynchronize(stream));
    for (const br_cuda_pointer memory : unused)
        MUST(cuMemFree_v2(memory));
}

/* The number of the current stream, as CUDA's own interfaces have it. */
int64_t handle()
{
    enter();
    return reinterpret_cast<int64_t>(stream);
}

/* From now on a copy_() keeps the host for so long before it is in the stream, as a launch may. */
void slow(int64_t milliseconds)
{
    launch = std::chrono::milliseconds(milliseconds);
}

/* ---- operators of torch ---- */

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat>)
{
    return allocate(sizes, type.value_or(at::kFloat));
}

void copy_elements(const at::Tensor &to, const at::Tensor &from, int64_t dimension, int64_t to_offset, int64_t from_offset)
{
    if (dimension == to.dim()) {
        MUST(cuMemcpyAsync(address(to) + to_offset * to.element_size(), address(from) + from_offset * to.element_size(), to.element_size(), stream));
        return;
    }
    for (int64_t i = 0; i < to.size(dimension); i++)
        copy_elements(to, from, dimension + 1, to_offset + i * to.stride(dimension), from_offset + i * from.stride(dimension));
}

at::Tensor &copy_(at::Tensor &to, const at::Tensor &from, bool)
{
    TORCH_CHECK(to.is_cuda() && from.is_cuda() && to.sizes() == from.sizes() && to.dtype() == from.dtype(), "fake CUDA: not such a copy");
    enter();
    std::this_thread::sleep_for(launch);
    if (to.is_contiguous() && from.is_contiguous())
        copy(to, from);
    else
        copy_elements(to, from, 0, 0, 0);
    return to;
}

TORCH_LIBRARY_IMPL(aten, CUDA, library)
{
    library.impl("empty.memory_format", empty);
    library.impl("as_strided", at::native::as_strided_tensorimpl);
    library.impl("view", at::native::view);
    library.impl("copy_", copy_);
}

TORCH_LIBRARY(fake_device, library)
{
    library.def("make", make);
    library.def("peek", peek);
    library.def("later", later);
    library.def("copy", copy);
    library.def("handle", handle);
    library.def("slow", slow);
    library.def("open", open);
    library.def("synchronize", synchronize);
}

}
