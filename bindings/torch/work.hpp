/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a call of a process group returns, and the operations of braid behind it.
 *
 * Work is the program's: it may be dropped at once. Operation is what braid works on: it keeps the
 * tensors, and lives until it has ended and the Work is gone. The flags below decide who of three
 * frees it: the destructor of Work, a thread of the link's, or the caller of wait().
 *
 *     ENDED     set by done: all parts have ended                     (braid's turn)
 *     DROPPED   set by ~Work                                          (any thread of the program)
 *     WATCHED   somebody must be told: a future, copies, a profiler   (the thread that asks)
 *     TOLD      all that has been asked for is done                   (a thread of the link's)
 *
 * done puts the operation to the link's threads if it finds DROPPED or WATCHED; who sets one of
 * these and finds ENDED does the rest itself. So each is handed over once, and what needs the
 * interpreter's lock (a tensor's release, a future's callbacks) never happens in done.
 */
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "link.hpp"

namespace braid_torch
{

using c10d::OpType;

/* What a call hands to braid: one or more operations, submitted together, and what belongs to them. */
struct Call {
    const char *name = ""; /* "all_reduce" */
    OpType type = OpType::UNKNOWN;
    std::vector<at::Tensor> inputs;               /* for the profiler */
    std::vector<std::vector<at::Tensor>> outputs; /* of the future and result(): one list, or lists */
    std::vector<at::Tensor> kept;                 /* buffers besides these */
    /* each submits one operation, and returns what braid does */
    std::vector<std::function<int(braid_comm *, const braid_options *, braid_op **)>> parts;
    /* copies that follow; in the thread that finds the end, without the interpreter's lock */
    std::function<void()> then;
    std::chrono::milliseconds timeout{0};
    int32_t priority = 0; /* as braid_options.priority */
    std::unique_ptr<braid_received> received; /* of any source: who has sent it */
};

class Operation
{
public:
    Operation(std::shared_ptr<Link> link, Call call, std::function<void()> profiled);
    Operation(const Operation &) = delete;
    Operation &operator=(const Operation &) = delete;

    /* Under the group's lock, which keeps the order of calls. Throws what braid refuses. */
    void submit();

    bool has_ended() const;
    bool is_over() const; /* and what follows the end has been done */
    /* Returns false if it still runs after `timeout` (0: until its own deadline). Drives progress. */
    bool wait(std::chrono::milliseconds timeout);
    /* What follows the end, once; others wait for who is at it. */
    void finish();
    c10::intrusive_ptr<c10::ivalue::Future> future();
    std::exception_ptr error() const; /* when it has ended */
    void drop();                      /* by ~Work */
    void tell();                      /* by a thread of the link's */

    const Call &call() const
    {
        return call_;
    }
    Operation *next = nullptr; /* in the link's list */

private:
    struct Part {
        Operation *operation;
        braid_op *handle = nullptr;
        std::atomic<bool> ended{false};
    };
    enum : uint32_t { ENDED = 1, DROPPED = 2, WATCHED = 4, TOLD = 8 };

    ~Operation();
    static void done(void *context, int result) noexcept;
    void part_ended(int result) noexcept;
    bool wait_parts(std::chrono::steady_clock::time_point end);
    void finish_once();
    void mark();

    std::shared_ptr<Link> link_;
    Call call_;
    std::function<void()> profiled_; /* tells the profiler of the end */
    std::unique_ptr<Part[]> parts_;
    std::atomic<size_t> left_; /* parts that run */
    std::atomic<uint32_t> flags_{0};
    std::atomic<int> result_{0}; /* the first error */
    std::string words_;          /* its message; written before ENDED by who sets result_ */
    std::timed_mutex waiting_;   /* handles are one thread's at a time */
    mutable std::mutex lock_;    /* of what follows */
    bool finished_ = false;
    std::exception_ptr error_;
    c10::intrusive_ptr<c10::ivalue::Future> future_;
    bool marked_ = false;
};

class Work : public c10d::Work
{
public:
    Work(const std::shared_ptr<Link> &link, Call call, const char *title, uint64_t sequence);
    ~Work() override;

    bool isCompleted() override;
    bool isSuccess() const override;
    std::exception_ptr exception() const override;
    int sourceRank() const override;
    std::vector<at::Tensor> result() override;
    void synchronize() override;
    bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
    void abort() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

    Operation *operation()
    {
        return operation_;
    }

private:
    const std::shared_ptr<Link> link_;
    Operation *operation_;
    const uint64_t sequence_;
};

} // namespace braid_torch
