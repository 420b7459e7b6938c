/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tensors of CUDA, by torch's device-generic streams: no header of CUDA is needed, and what is here
 * is never reached by a torch without CUDA.
 *
 * Collectives go into the stream that is current when they are called (braid/gpu.h); Work.wait()
 * makes the stream that is current then wait for that one, and not the host. Messages have no such
 * form: the current stream is waited for before them, and Work.wait() waits on the host; so does
 * everything with a torch that does not tell the handle of a stream.
 */
#pragma once

#include <type_traits>

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace braid_torch
{

template <class Guard, class = void> struct NativeStream {
    static bool find(const c10::Stream &, void *&)
    {
        return false;
    }
};

template <class Guard>
struct NativeStream<Guard, std::void_t<decltype(std::declval<const Guard &>().getStreamNativeHandle(
                               std::declval<c10::Stream>()))>> {
    static bool find(const c10::Stream &stream, void *&handle)
    {
        const Guard *guard = c10::impl::getDeviceGuardImpl(stream.device_type());
        handle = guard->getStreamNativeHandle(stream);
        return true;
    }
};

inline c10::Stream current_stream(c10::Device device)
{
    return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/* The stream of CUDA's that is meant; false: this torch does not tell. */
inline bool find_native(const c10::Stream &stream, void *&handle)
{
    return NativeStream<c10::impl::DeviceGuardImplInterface>::find(stream, handle);
}

/* The host waits for what is in the stream. */
inline void wait_for(const c10::Stream &stream)
{
    c10::impl::VirtualGuardImpl(stream.device_type()).synchronizeStream(stream);
}

/* The tensor's memory is not given to others before the stream has passed this point. */
inline void keep_until(const at::Tensor &tensor, const c10::Stream &stream)
{
    c10::impl::VirtualGuardImpl(stream.device_type())
        .recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
}

} // namespace braid_torch
