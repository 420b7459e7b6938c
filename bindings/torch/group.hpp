/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * "braid" of torch.distributed: a c10d::Backend whose calls are braid's.
 *
 * Threads. Calls come from any thread (the autograd engine's, the main one). One lock a group puts
 * them into the order in which braid sees them. It is held for submitting, and for up to a
 * millisecond more by a call whose end the program waits for (Call::blocks), and never taken in
 * braid_options.done, which may run in such a call. Threads that call one group must
 * have an order of their own, the same on all ranks, as with every backend.
 *
 * Versions. What a call is named has changed: PyTorch 2.15 calls all_gather_single(), whose default
 * is _allgather_base(), which all versions have; so the older names are overridden here. Functions
 * without `override` override one in the versions that have it.
 */
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "link.hpp"
#include "work.hpp"

namespace braid_torch
{

using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

/* pg_options of init_process_group() and new_group(): braid.torch.Options. */
struct GroupOptions : c10d::Backend::Options {
    GroupOptions() : c10d::Backend::Options("braid")
    {
    }
    c10::intrusive_ptr<c10d::Backend::Options> clone() const
    {
        return c10::make_intrusive<GroupOptions>(*this);
    }

    int32_t priority = 0;  /* of all operations of the group: larger is more urgent */
    std::string algorithm; /* of those that has_algorithms() names; empty: braid chooses */
};

/* Whether the program waits for the end right behind the call; older versions do not say. */
template <class Options>
auto is_waited_for(const Options &options, int /* preferred */) -> decltype(!options.asyncOp)
{
    return !options.asyncOp;
}

template <class Options> bool is_waited_for(const Options &, long)
{
    return false;
}

class Group : public c10d::Backend
{
  public:
    /* Joins the group's job: Link::join(). */
    Group(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
          c10::intrusive_ptr<GroupOptions> options);
    ~Group() override;

    const std::string getBackendName() const override
    {
        return "braid";
    }
    c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions();

    WorkPtr broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) override;
    WorkPtr allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) override;
    WorkPtr allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options);
    WorkPtr allreduce_coalesced(Tensors &tensors,
                                const c10d::AllreduceCoalescedOptions &options) override;
    WorkPtr reduce(Tensors &tensors, const c10d::ReduceOptions &options) override;
    WorkPtr barrier(const c10d::BarrierOptions &options) override;

    WorkPtr allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                      const c10d::AllgatherOptions &options) override;
    WorkPtr _allgather_base(at::Tensor &output, at::Tensor &input,
                            const c10d::AllgatherOptions &options) override;
    WorkPtr allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                                const c10d::AllgatherOptions &options) override;
    WorkPtr allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::AllgatherOptions &options);
    WorkPtr reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                           const c10d::ReduceScatterOptions &options) override;
    WorkPtr _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                 const c10d::ReduceScatterOptions &options) override;
    WorkPtr reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::ReduceScatterOptions &options);
    WorkPtr gather(std::vector<Tensors> &outputs, Tensors &inputs,
                   const c10d::GatherOptions &options) override;
    WorkPtr gather_into_tensor(at::Tensor &output, at::Tensor &input,
                               const c10d::GatherOptions &options);
    WorkPtr scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                    const c10d::ScatterOptions &options) override;
    WorkPtr alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_rows,
                          std::vector<int64_t> &input_rows,
                          const c10d::AllToAllOptions &options) override;
    WorkPtr alltoall(Tensors &outputs, Tensors &inputs,
                     const c10d::AllToAllOptions &options) override;

    WorkPtr send(Tensors &tensors, int peer, int tag) override;
    WorkPtr recv(Tensors &tensors, int peer, int tag) override;
    WorkPtr recvAnysource(Tensors &tensors, int tag) override;
    /* Rank 0 waits for a message of each rank and says who did not come; the group is good
     * afterwards. Blocks. */
    void monitoredBarrier(const c10d::BarrierOptions &options, bool wait_for_all) override;

    /* Calls of this thread between these two are submitted together by the second, as one Work. */
    bool supportsCoalescing() const;
    void startCoalescing();
    WorkPtr endCoalescing();

    void setSequenceNumberForGroup() override;
    uint64_t getSequenceNumberForGroup() override;
    void setTimeout(std::chrono::milliseconds timeout);
    void abort();
    void shutdown();

    bool supportsTensorAlloc(c10::DeviceIndex device);
    at::Tensor allocateTensor(long count, at::TensorOptions options);

#ifdef C10D_BACKEND_HAS_RECONFIGURE /* the versions whose split() is this one */
    bool supportsSplitting() const override;
    c10::intrusive_ptr<Backend>
    split(const c10::intrusive_ptr<c10d::Store> &store, const std::vector<int> &ranks,
          const c10::intrusive_ptr<c10d::Backend::Options> &options) override;
    c10d::ErrorType getError() override;
#endif

    /* Of the operations that the calling thread submits, to any group: torch's calls have no
     * argument for it. 0: what the group's options say. */
    static thread_local int32_t priority;

    const std::shared_ptr<Link> &link() const
    {
        return link_;
    }

  private:
    void say_name(); /* with order_ */
    WorkPtr run(Call call, const char *title, std::chrono::milliseconds timeout);
    template <class Options> WorkPtr run(Call call, const char *title, const Options &options)
    {
        call.blocks = is_waited_for(options, 0);
        return run(std::move(call), title, options.timeout);
    }
    WorkPtr run_ordered(Call call, const char *title); /* with order_ */
    void complete(Call &call,
                  std::chrono::milliseconds timeout) const; /* what the group's options say */
    int root(const char *call, int64_t rank) const;
    void pass_monitored(uint32_t tag, std::chrono::milliseconds timeout);
    void monitor(uint32_t tag, std::chrono::milliseconds timeout, bool wait_for_all);

    const c10::intrusive_ptr<GroupOptions> options_;
    const std::shared_ptr<Link> link_;
    std::mutex order_;           /* of calls, and of what follows */
    uint64_t sequence_ = 0;      /* collectives so far */
    bool named_ = false;         /* say_name() was called */
    uint32_t monitored_ = 0;     /* monitored barriers so far */
    std::thread::id coalescing_; /* the thread between startCoalescing() and endCoalescing() */
    std::vector<Call> recorded_; /* its calls */
};

} // namespace braid_torch
