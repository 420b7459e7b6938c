/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * "braid" of torch.distributed: a c10d::Backend whose calls are braid's.
 *
 * Calls come from any thread (the autograd engine's, the main one): one lock a group puts them into
 * the order in which braid sees them; it is held for submitting only. Threads that call one group
 * must have an order of their own, the same on all ranks, as with every backend.
 */
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "link.hpp"
#include "work.hpp"

namespace braid_torch
{

using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

class Group : public c10d::Backend
{
public:
    Group(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
          std::chrono::milliseconds timeout);
    ~Group() override;

    const std::string getBackendName() const override
    {
        return "braid";
    }

    WorkPtr broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) override;
    WorkPtr allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) override;
    WorkPtr _allgather_base(at::Tensor &output, at::Tensor &input,
                            const c10d::AllgatherOptions &options) override;
    WorkPtr allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                      const c10d::AllgatherOptions &options) override;
    WorkPtr _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                 const c10d::ReduceScatterOptions &options) override;
    WorkPtr send(Tensors &tensors, int peer, int tag) override;
    WorkPtr recv(Tensors &tensors, int peer, int tag) override;
    WorkPtr recvAnysource(Tensors &tensors, int tag) override;
    WorkPtr barrier(const c10d::BarrierOptions &options) override;

    uint64_t getSequenceNumberForGroup() override;
    void setTimeout(std::chrono::milliseconds timeout) override;
    void abort() override;
    void shutdown() override;

    /* Of the operations that the calling thread submits, to any group: torch's calls have no argument
     * for it. 0 until it is set. */
    static thread_local int32_t priority;

    const std::shared_ptr<Link> &link() const
    {
        return link_;
    }

private:
    WorkPtr run(Call call, const char *title, std::chrono::milliseconds timeout);

    const std::shared_ptr<Link> link_;
    std::mutex order_; /* of calls; never taken in braid_options.done */
    std::chrono::milliseconds timeout_;
    uint64_t sequence_ = 0; /* of collectives */
};

} // namespace braid_torch
