/* SPDX-License-Identifier: BSD-3-Clause */
#include "work.hpp"

#include <cerrno>
#include <climits>
#include <sys/syscall.h>
#include <unistd.h>

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/utils/pybind.h>

namespace braid_torch
{

/* Only the process's first thread hears signals. */
static bool hears_signals()
{
    static thread_local const bool first = getpid() == static_cast<pid_t>(syscall(SYS_gettid));

    return first && Py_IsInitialized();
}

void hear_signals()
{
    if (!hears_signals())
        return;
    pybind11::gil_scoped_acquire locked;
    if (PyErr_CheckSignals())
        throw pybind11::error_already_set();
}

/* ---- operations ------------------------------------------------------------------------------ */

Operation::Operation(std::shared_ptr<Link> link, Call call, std::function<void()> profiled)
    : link_(std::move(link)), call_(std::move(call)), profiled_(std::move(profiled)),
      follows_(call_.then != nullptr), parts_(new Part[call_.parts.size()]),
      left_(std::max<size_t>(call_.parts.size(), 1))
{
    if (follows_ || profiled_)
        flags_ = WATCHED;
}

Operation::~Operation()
{
    const Link::Use use(*link_); /* else they have gone with the communicator */

    for (size_t i = 0; use && i < call_.parts.size(); i++)
        if (parts_[i].handle)
            braid_op_free(parts_[i].handle);
}

void Operation::submit()
{
    try {
        begin();
    } catch (...) {
        if (!epoch_) /* nothing has been submitted: there is nobody who would end it */
            flags_.fetch_or(ENDED | TOLD, std::memory_order_acq_rel);
        throw;
    }
}

void Operation::begin()
{
    struct braid_options options = {};
    Target target = {link_->comm(), &options, nullptr, false, nullptr};

    options.struct_size = sizeof options;
    options.timeout_ms = milliseconds(call_.timeout);
    options.priority = call_.priority;
    options.algorithm = call_.algorithm;
    options.done = done;
    if (call_.device.is_cpu()) {
        submit_parts(options, target);
        return;
    }
    const c10::DeviceGuard guard(call_.device);
    const c10::Stream stream = current_stream(call_.device);
    target.streamed = call_.streams && find_native(stream, target.stream);
    if (!target.streamed) {
        wait_for(stream);
        submit_parts(options, target);
        return;
    }
    stream_ = stream;
    options.all_on_gpu = 1; /* as PyTorch demands that all ranks call with tensors of one kind */
    /* Its end may come, and be told by another thread, while it is being submitted. finish(), which
     * drops what follows and what is kept, waits for this: both are used until the last line. */
    const std::lock_guard<std::mutex> submitting(lock_);
    for (const std::vector<at::Tensor> *list : {&call_.inputs, &call_.kept})
        for (const at::Tensor &tensor : *list)
            keep_until(tensor, stream);
    for (const std::vector<at::Tensor> &list : call_.outputs)
        for (const at::Tensor &tensor : list)
            keep_until(tensor, stream);
    submit_parts(options, target);
    if (call_.then)
        call_.then();
    passed_.emplace(call_.device.type());
    passed_->record(stream);
}

void Operation::submit_parts(braid_options &options, Target &target)
{
    const size_t n = call_.parts.size();
    const bool group = n > 1 && !target.streamed; /* many in one turn of braid's lock */
    const int short_ms = 1;                       /* the group's lock is held meanwhile */
    std::string words;
    const Link::Use use(*link_);

    link_->comm(); /* as long as it takes operations */
    epoch_ = link_->began(!call_.messages);
    if (call_.blocks && n == 1 && !target.streamed)
        options.wait_ms = short_ms;
    if (group)
        braid_group_start();
    for (size_t i = 0; i < n; i++)
        parts_[i].operation = this;
    for (size_t i = 0; i < n && words.empty(); i++) {
        options.context = &parts_[i];
        target.op = &parts_[i].handle;
        const int rc = call_.parts[i](target);
        if (!rc && options.wait_ms && !parts_[i].handle)
            part_ended(0, words);
        if (!rc)
            continue;
        words = failure(call_.name, rc);
        for (size_t j = i; j < n; j++)
            part_ended(rc, words); /* have not begun; those before go on */
    }
    if (group)
        braid_group_end();
    if (n == 0) /* calls that were coalesced, but there was none */
        part_ended(0, words);
    if (!words.empty())
        C10_THROW_ERROR(DistBackendError, words);
}

/* Called by braid: see link.hpp, 2. */
void Operation::done(void *context, int result) noexcept
{
    Part *part = static_cast<Part *>(context);

    part->ended.store(true, std::memory_order_release);
    try {
        part->operation->part_ended(result, result ? failure(part->operation->call_.name, result)
                                                   : std::string());
    } catch (const std::bad_alloc &) {
        part->operation->part_ended(result, std::string());
    }
}

void Operation::part_ended(int result, const std::string &words) noexcept
{
    int none = 0;

    if (result && result_.compare_exchange_strong(none, result))
        words_ = words;
    if (left_.fetch_sub(1, std::memory_order_acq_rel) > 1)
        return;
    /* As soon as ENDED is set the program may free this. The link outlives done: braid_finalize()
     * waits for it. */
    Link *link = link_.get();
    epoch_->fetch_sub(1, std::memory_order_release);
    const uint32_t before = flags_.fetch_or(ENDED, std::memory_order_acq_rel);
    link->ended(this, before & (DROPPED | WATCHED));
}

bool Operation::has_ended() const
{
    return flags_.load(std::memory_order_acquire) & ENDED;
}

bool Operation::is_over() const
{
    if (passed_)
        return has_ended() && passed_->query();
    return has_ended() && (!follows_ || finished_.load(std::memory_order_acquire));
}

/* ---- waiting --------------------------------------------------------------------------------- */

bool Operation::wait(std::chrono::milliseconds timeout)
{
    using clock = std::chrono::steady_clock;
    const auto end =
        timeout > std::chrono::milliseconds(0) ? deadline(timeout) : clock::time_point::max();
    Unlocked unlocked; /* callbacks of futures may need the interpreter's lock */

    if (!has_ended())
        link_->check_process();
    if (passed_ ? timeout > std::chrono::milliseconds(0) || profiled_ : !has_ended()) {
        const bool signals = hears_signals();
        for (;;) {
            const auto slice = clock::now() + std::chrono::milliseconds(SLICE_MS);
            const auto until = signals ? std::min(end, slice) : end;
            if (passed_ ? wait_stream(until) : wait_parts(until))
                break;
            if (clock::now() >= end)
                return false;
            hear_signals();
        }
    }
    if (passed_) {
        passed_->block(current_stream(call_.device));
        if (!has_ended())
            link_->check(call_.name); /* no more is known before its end */
    } else {
        while (!has_ended()) /* done is about to say so, in another thread */
            std::this_thread::yield();
    }
    if (has_ended())
        finish();
    return true;
}

/* An operation in a stream has no handle: the host asks. */
bool Operation::wait_stream(std::chrono::steady_clock::time_point end)
{
    while (!has_ended() || !passed_->query()) {
        if (std::chrono::steady_clock::now() >= end)
            return false;
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return true;
}

/* Drives progress until the part has ended, at most for so long (< 0: until its own deadline).
 * Frees the handle of what has ended. */
static bool wait_part(const Link &link, braid_op *handle, const std::atomic<bool> &ended, int ms)
{
    const Link::Use use(link);

    if (!use) { /* the handle goes with the communicator, which goes when all has ended */
        while (!ended.load(std::memory_order_acquire))
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return true;
    }
    const int rc = braid_wait(handle, ms);
    if (!ended.load(std::memory_order_acquire))
        return false;
    if (rc == -ETIMEDOUT) /* it may have ended since: then done is running */
        braid_wait(handle, -1);
    return true;
}

/* Until `end`. Threads that wait for one operation do so one after the other. */
bool Operation::wait_parts(std::chrono::steady_clock::time_point end)
{
    using clock = std::chrono::steady_clock;
    const bool ever = end == clock::time_point::max();
    std::unique_lock<std::timed_mutex> mine(waiting_, std::defer_lock);

    if (ever)
        mine.lock();
    else if (!mine.try_lock_until(end))
        return has_ended();
    for (size_t i = 0; i < call_.parts.size(); i++) {
        Part &part = parts_[i];
        if (!part.handle)
            continue;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - clock::now());
        const int ms = ever ? -1 : static_cast<int>(std::clamp<int64_t>(left.count(), 0, INT_MAX));
        if (!wait_part(*link_, part.handle, part.ended, ms))
            return false;
        part.handle = nullptr;
    }
    return true;
}

void Operation::finish()
{
    Unlocked unlocked; /* who is at it may need the interpreter's lock */
    std::function<void()> then;
    std::vector<at::Tensor> kept;
    {
        std::lock_guard<std::mutex> guard(lock_);
        if (!finished_) {
            finish_once();
            then.swap(call_.then);
            kept.swap(call_.kept);
        }
    }
    /* A program may keep its Work for long, but not these. Not under the lock: a tensor's release
     * may take the interpreter's. */
    then = nullptr;
    kept.clear();
    mark();
}

/* With lock_. */
void Operation::finish_once()
{
    const int result = result_.load(std::memory_order_acquire);

    if (result)
        error_ =
            std::make_exception_ptr(c10::DistBackendError({__func__, __FILE__, __LINE__}, words_));
    try {
        if (!result && call_.then && !stream_) {
            /* As what braid writes, copies are nothing of autograd's: this thread has not the
             * no_grad() or inference_mode() that the call was made under. */
            const at::AutoDispatchBelowADInplaceOrView below;
            call_.then();
        }
    } catch (...) {
        error_ = std::current_exception();
    }
    if (profiled_)
        profiled_();
    finished_.store(true, std::memory_order_release);
}

/* Marks the future, if there is one, once; it has its value behind this, and who marks it runs its
 * callbacks. */
void Operation::mark()
{
    c10::intrusive_ptr<c10::ivalue::Future> future;
    bool first;
    {
        std::lock_guard<std::mutex> guard(lock_);
        if (!future_)
            return;
        first = !marked_;
        marked_ = true;
        future = future_;
    }
    if (!first)
        future->wait();
    else if (error_)
        future->setError(error_);
    else
        future->markCompleted(value());
}

c10::IValue Operation::value() const
{
    if (call_.outputs.size() > 1)
        return c10::IValue(call_.outputs);
    return c10::IValue(call_.outputs.empty() ? std::vector<at::Tensor>() : call_.outputs[0]);
}

c10::intrusive_ptr<c10::ivalue::Future> Operation::future()
{
    c10::intrusive_ptr<c10::ivalue::Future> made;
    Unlocked unlocked; /* copies may be under way, with lock_ */
    {
        std::lock_guard<std::mutex> guard(lock_);
        if (future_)
            return future_;
        c10::TypePtr type = c10::ListType::create(c10::TensorType::get());
        if (call_.outputs.size() > 1)
            type = c10::ListType::create(type);
        std::vector<c10::Device> devices;
        if (!call_.device.is_cpu())
            devices.push_back(call_.device);
        made = future_ = c10::make_intrusive<c10::ivalue::Future>(type, devices);
        marked_ = passed_.has_value();
    }
    if (passed_) { /* who takes the value has his stream wait, as with NCCL */
        const c10::StreamGuard guard(*stream_);
        made->markCompleted(value());
        return made;
    }
    const uint32_t before = flags_.fetch_or(WATCHED, std::memory_order_acq_rel);
    if (before & ENDED) {
        if (!(before & WATCHED))
            flags_.fetch_or(TOLD, std::memory_order_relaxed); /* done has not put it to a thread */
        finish();
    }
    return made;
}

std::exception_ptr Operation::error() const
{
    std::lock_guard<std::mutex> guard(lock_);
    return error_;
}

void Operation::drop()
{
    const uint32_t before = flags_.fetch_or(DROPPED, std::memory_order_acq_rel);

    if ((before & ENDED) && (!(before & WATCHED) || (before & TOLD)))
        delete this;
}

void Operation::tell()
{
    try {
        finish();
    } catch (const std::exception &error) { /* there is nobody else to be told */
        TORCH_WARN("braid: ", call_.name, ": what follows has failed: ", error.what());
    }
    if (flags_.fetch_or(TOLD, std::memory_order_acq_rel) & DROPPED)
        delete this;
}

/* ---- what the program holds ------------------------------------------------------------------ */

Work::Work(const std::shared_ptr<Link> &link, Call call, const char *title)
    : c10d::Work(link->rank, call.type, title, call.inputs), link_(link)
{
    operation_ = new Operation(link, std::move(call), std::move(recordFunctionEndCallback_));
}

Work::~Work()
{
    operation_->drop();
}

bool Work::isCompleted()
{
    return operation_->is_over();
}

std::exception_ptr Work::exception() const
{
    if (!operation_->has_ended())
        return nullptr;
    operation_->finish();
    return operation_->error();
}

bool Work::isSuccess() const
{
    return operation_->has_ended() && !exception();
}

int Work::sourceRank() const
{
    const Call &call = operation_->call();

    TORCH_CHECK(call.received,
                "sourceRank() may only be called on work of a receive from any source");
    TORCH_CHECK(operation_->has_ended(),
                "sourceRank() may only be called when the receive has ended");
    return call.received->peer;
}

std::vector<at::Tensor> Work::result()
{
    const Call &call = operation_->call();

    TORCH_CHECK(isCompleted(), "Work needs to be completed before calling result(). "
                               "Should call wait() before result().");
    TORCH_CHECK(call.outputs.size() <= 1, "work result does not support list of lists, "
                                          "use .getFuture() and value()");
    return call.outputs.empty() ? std::vector<at::Tensor>() : call.outputs[0];
}

void Work::synchronize()
{
}

bool Work::wait(std::chrono::milliseconds timeout)
{
    if (!operation_->wait(timeout))
        C10_THROW_ERROR(DistBackendError,
                        c10::str("braid: rank ", rank_, ": ", operation_->call().name,
                                 " still runs after ", timeout.count(), " ms: timed out"));
    const std::exception_ptr error = operation_->error();
    if (error)
        std::rethrow_exception(error);
    return true;
}

void Work::abort()
{
    link_->abort("Work.abort() was called");
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture()
{
    return operation_->future();
}

} // namespace braid_torch
