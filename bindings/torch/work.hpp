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
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "link.hpp"
#include "stream.hpp"

namespace braid_torch
{

using c10d::OpType;

/* How one operation is submitted: options of braid's, and either a place for the handle or a
 * stream. */
struct Target {
    braid_comm *comm;
    const braid_options *options;
    braid_op **op;
    bool streamed;
    void *stream;
};

/* An argument of braid's. It copies arrays in the call. */
template <class T> const T &plainly(const T &argument)
{
    return argument;
}

inline const size_t *plainly(const std::vector<size_t> &counts)
{
    return counts.data();
}

/* What a call hands to braid: one or more operations, submitted together, and what belongs to them.
 */
struct Call {
    Call(const char *called, OpType kind) : name(called), type(kind)
    {
    }
    /* An operation: braid's function, that with a stream, and the arguments of both. */
    template <auto plain, auto on_stream, class... Arguments> void add(Arguments... arguments)
    {
        parts.push_back([=](const Target &to) {
            if (to.streamed)
                return on_stream(to.comm, plainly(arguments)..., to.options, to.stream);
            return plain(to.comm, plainly(arguments)..., to.options, to.op);
        });
    }

    const char *name; /* "all_reduce"; static */
    OpType type;
    c10::Device device = c10::kCPU;
    bool streams = true;            /* has a form in a stream */
    bool blocks = false;            /* the program waits for its end right behind the call */
    bool messages = false;          /* nothing but these: no barrier waits for it */
    std::vector<at::Tensor> inputs; /* for the profiler */
    std::vector<std::vector<at::Tensor>>
        outputs;                  /* of the future and result(): one list, or lists */
    std::vector<at::Tensor> kept; /* buffers besides these */
    std::vector<std::function<int(const Target &)>> parts; /* each submits one operation */
    /* What follows, copies for example: in the thread that finds the end, without the interpreter's
     * lock; of a call in a stream, right behind it in the stream. */
    std::function<void()> then;
    std::chrono::milliseconds timeout{0};
    int32_t priority = 0;
    const char *algorithm = nullptr;          /* the group's */
    std::shared_ptr<braid_received> received; /* of any source: who has sent it */
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
    /* Returns false if it still runs after `timeout` (0: until its own deadline). Drives progress.
     * What is in a stream is waited for by the current stream. */
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
    void begin();
    void submit_parts(braid_options &options, Target &target);
    static void done(void *context, int result) noexcept;
    void part_ended(int result, const std::string &words) noexcept;
    bool wait_parts(std::chrono::steady_clock::time_point end);
    bool wait_stream(std::chrono::steady_clock::time_point end);
    void finish_once();
    void mark();
    c10::IValue value() const; /* of the future */

    std::shared_ptr<Link> link_;
    Call call_;
    std::function<void()> profiled_;           /* tells the profiler of the end */
    const bool follows_;                       /* call_.then is there, until it has been done */
    std::shared_ptr<std::atomic<long>> epoch_; /* of the link; none before it is submitted */
    std::optional<c10::Stream> stream_;        /* that it is in */
    std::optional<c10::Event> passed_;         /* the stream is behind it */
    std::unique_ptr<Part[]> parts_;
    std::atomic<size_t> left_; /* parts that run */
    std::atomic<uint32_t> flags_{0};
    std::atomic<int> result_{0};        /* the first error */
    std::string words_;                 /* its message; written before ENDED by who sets result_ */
    std::timed_mutex waiting_;          /* handles are one thread's at a time */
    mutable std::mutex lock_;           /* of what follows */
    std::atomic<bool> finished_{false}; /* set under lock_ */
    std::exception_ptr error_;
    c10::intrusive_ptr<c10::ivalue::Future> future_;
    bool marked_ = false;
};

/* Of a call between startCoalescing() and endCoalescing(): the Work of the latter stands for all.
 */
class Recorded : public c10d::Work
{
  public:
    Recorded(int rank, OpType type) : c10d::Work(rank, type)
    {
    }
    bool isCompleted() override
    {
        return false;
    }
    bool wait(std::chrono::milliseconds) override
    {
        return true;
    }
};

class Work : public c10d::Work
{
  public:
    Work(const std::shared_ptr<Link> &link, Call call, const char *title);
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
};

} // namespace braid_torch
